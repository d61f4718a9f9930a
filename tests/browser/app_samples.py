"""Two small random models with a byte-level tokenizer, and traces of them that the app is shown.

`llama`: four layers of full attention, 4 query heads on 2 key/value heads. `hybrid`: layers 0 and 2
are convolutions and have no map. Random weights, but attention's are drawn wide enough for weights
that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHORT = "小明把苹果给了小王。The apple 🍎 is with Xiao Wang 👩🏽‍🔬 now: né e\u0301!\n\nWho has it?"
TOKENS_SHORT = 100
TOKENS_LONG = 2000
MOST = 4096
MODELS = {"llama": "llama", "hybrid": "lfm2_moe"}


@dataclass(frozen=True)
class Samples:
    """Where the models and the saved traces are, by name: `llama`, and `llama-short`."""

    models: dict[str, Path]
    traces: dict[str, Path]


def long_text() -> str:
    """Paragraphs with a heading now and then, in two languages; no two lines are the same."""
    lines = []
    for part in range(1, 60):
        lines.append(f"# Part {part} 第{part}节\n")
        lines.append(f"{SHORT} ({part})\n")
        lines.append(f"第{part}个人说：「苹果🍎在小王那里。」 The cat sat on mat {part * 7}.\n\n")
    return "".join(lines)


def make_samples(folder: Path) -> Samples:
    """Build the models and capture both texts with both."""
    from transformers import AutoModelForCausalLM

    from attnscope import capture

    tokenizer = make_tokenizer()
    texts = {"short": cut(tokenizer, SHORT, TOKENS_SHORT)}
    texts["long"] = cut(tokenizer, long_text(), TOKENS_LONG)
    models, traces = {}, {}
    for name, family in MODELS.items():
        models[name] = folder / "models" / name
        make_model(family, vocabulary=len(tokenizer)).save_pretrained(models[name])
        tokenizer.save_pretrained(models[name])
        model = AutoModelForCausalLM.from_pretrained(models[name], attn_implementation="sdpa")
        for length, text in texts.items():
            place = traces[f"{name}-{length}"] = folder / "traces" / f"{name}-{length}"
            place.parent.mkdir(exist_ok=True)
            capture(model, text, tokenizer=tokenizer, save=place, name=f"small {name}")
    return Samples(models, traces)


def make_tokenizer() -> Any:
    """Byte-level pieces learned from the long text, so that some characters are several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([long_text()], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def cut(tokenizer: Any, text: str, tokens: int) -> str:
    """The beginning of a text that has so many tokens, or a few less to end with a character."""
    kept = tokenizer(text)["input_ids"][:tokens]
    return str(tokenizer.decode(kept)).rstrip("\ufffd")


def make_model(family: str, *, vocabulary: int) -> Any:
    """A small random model; the same numbers each time."""
    import torch
    from transformers import AutoModelForCausalLM

    from attnscope.capture.shrink import small_config

    config = small_config(family)
    config.vocab_size, config.max_position_embeddings = vocabulary, MOST
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            wide = "self_attn" in name and parameter.ndim == 2
            if parameter.ndim >= 2:
                parameter.normal_(0.0, (1.6 if wide else 0.6) * parameter.shape[-1] ** -0.5)
    return model
