"""The few exceptions a user may want to catch; everything else is a ValueError or a TypeError.

Every message is a sentence or two that names the thing that is wrong and the way out, because the
command line prints it as it stands.
"""


class AttnscopeError(Exception):
    """Base of the errors that are nobody's programming mistake: a file, a model, a network."""


class ModelError(AttnscopeError):
    """A model cannot be found, fetched, verified or read."""


class UnsupportedModelError(ModelError):
    """A model whose attention cannot be observed; the message says why and which ones can."""


class TraceError(AttnscopeError):
    """A trace folder is missing, broken, foreign, or cannot be written."""


class ConfigError(AttnscopeError):
    """A model configuration is missing a field, contradicts itself, or is of an unknown kind."""
