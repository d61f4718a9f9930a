"""From which tokens does a token take information, how much, and at what cost?"""

__version__ = "0.1.0"
