"""How words are cut, against the tokenizers that transformers has of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_samples as samples
import pytest

from attnscope.capture.convert import convert
from attnscope.capture.splitting import RULES, splitter

TEXTS = [
    "in 2026, it's 12345.67!", "line\n\n  next\r\n", "DON'T WE'LL", "小明把苹果给了小王 42",
    "  three   spaces  ", "x_1 = foo(bar)\t# comment\n", "\u0968\u0966 \u00b2 \u2167",
]  # fmt: skip


def pieces(pre_tokenizer: Any, text: str) -> list[str]:
    return [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]


def qwen2() -> Any:
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer().backend_tokenizer.pre_tokenizer


def llama3() -> Any:
    """transformers' converter of the files that Llama 3 comes in, with its own default rule."""
    import inspect

    from tokenizers import Regex, pre_tokenizers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    pattern = inspect.signature(TikTokenConverter).parameters["pattern"].default
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def gpt2() -> Any:
    from transformers import GPT2Tokenizer

    return GPT2Tokenizer().backend_tokenizer.pre_tokenizer


REFEREES = {"qwen2": qwen2, "llama3": llama3, "gpt2": gpt2}


@pytest.mark.parametrize("rule", REFEREES)
def test_as_transformers_cuts(rule: str) -> None:
    referee = REFEREES[rule]()
    for text in TEXTS:
        assert pieces(splitter(rule), text) == pieces(referee, text)


def test_the_rules_differ() -> None:
    """So each comparison above can fail: no two rules cut all of these texts alike."""
    cut = {rule: [pieces(splitter(rule), text) for text in TEXTS] for rule in set(RULES.values())}
    assert len({str(one) for one in cut.values()}) == len(cut) == 4


def test_digits_by_hand() -> None:
    assert pieces(splitter("digits"), "a 12b") == ["a", "Ġ", "1", "2", "b"]


@pytest.mark.parametrize("rule", ["smollm", "llama-bpe", "qwen2"])
def test_a_converted_file_has_its_rule(rule: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = tmp_path / "made"
    folder.mkdir()
    convert(samples.write_gguf(tmp_path / "tiny.gguf", samples.llama(), rule=rule), folder)
    backend = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    for text in TEXTS:
        assert pieces(backend.pre_tokenizer, text) == pieces(splitter(RULES[rule]), text)
    assert backend.model.ignore_merges == (rule == "llama-bpe")
    assert (backend.normalizer is not None) == (rule == "qwen2")


@pytest.mark.real_model
def test_smollm2_cuts_digits_apart_before_all_else() -> None:
    """So the spaces before a number stay together; by GPT-2's rule the last would be cut off."""
    from transformers import AutoTokenizer

    from attnscope.capture.models import path

    tokenizer = AutoTokenizer.from_pretrained(str(path("smollm2")), local_files_only=True)
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]
    words = tokenizer.get_vocab()
    assert not [word for word in words if len(word) > 1 and any(c in "0123456789" for c in word)]
