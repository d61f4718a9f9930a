"""How a byte-level tokenizer of a GGUF file cuts a text into words before it merges.

The idea: a GGUF file names this rule (`tokenizer.ggml.pre`) without spelling it out, and
transformers' converter gives most files GPT-2's. The ids would differ in silence, at numbers and
line ends above all; so the rule is set by its name, and a name that is not known here is refused.

Source: the rules are those of the tokenizers that the models' makers publish; the names are those
of llama.cpp's converter.

Not here: SentencePiece tokenizers, which have no such rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attnscope.errors import UnsupportedModelError

_LINES_AND_SIGNS: Final = (
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # as GPT-4 and its followers have it
)
_WORDS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
LLAMA3: Final = _WORDS + r"|\p{N}{1,3}|" + _LINES_AND_SIGNS
QWEN2: Final = _WORDS + r"|\p{N}|" + _LINES_AND_SIGNS

RULES: Final[dict[str, str]] = {
    "": "gpt2",
    "default": "gpt2",
    "gpt-2": "gpt2",
    "phi-2": "gpt2",
    "smollm": "digits",
    "starcoder": "digits",
    "refact": "digits",
    "command-r": "digits",
    "llama3": "llama3",
    "llama-v3": "llama3",
    "llama-bpe": "llama3",
    "qwen2": "qwen2",
    "deepseek-r1-qwen": "qwen2",
}
"""The rule of each name; a file without one, or with `default`, was made before there were names
and is read as GPT-2's."""


def set_splitting(tokenizer: Any, keys: Mapping[str, Any]) -> None:
    """Give a converted tokenizer the splitting rule that its file names.

    Args:
        tokenizer: a fast tokenizer of transformers; changed in place.
        keys: the keys of the GGUF header.

    Raises:
        UnsupportedModelError: a rule that is not known here.
    """
    if keys.get("tokenizer.ggml.model") != "gpt2":
        return
    name = str(keys.get("tokenizer.ggml.pre", ""))
    if name not in RULES:
        raise UnsupportedModelError(
            f"The GGUF file cuts words by the rule {name!r}, which is not known here, so the "
            "tokens could be wrong. Give the same model as a folder with its tokenizer.json."
        )
    rule = RULES[name]
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = splitter(rule)
    if rule == "llama3":
        backend.model.ignore_merges = True  # a word of the vocabulary stays whole
    if rule == "qwen2":
        from tokenizers import normalizers

        backend.normalizer = normalizers.NFC()


def splitter(rule: str) -> Any:
    """The pre-tokenizer of a rule: "gpt2", "digits", "llama3" or "qwen2".

    >>> [piece for piece, _ in splitter("digits").pre_tokenize_str("in 2026")]
    ['in', 'Ġ', '2', '0', '2', '6']
    >>> [piece for piece, _ in splitter("llama3").pre_tokenize_str("in 2026")]
    ['in', 'Ġ', '202', '6']
    """
    from tokenizers import Regex, pre_tokenizers

    if rule == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule == "digits":
        steps = [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
        return pre_tokenizers.Sequence(steps)
    pattern = {"llama3": LLAMA3, "qwen2": QWEN2}[rule]
    steps = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return pre_tokenizers.Sequence(steps)
