"""Small models made here: a random llama, its GGUF file, a wheel that holds it, tokenizers."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM

from attnscope.capture.known import KnownModel, Part
from attnscope.capture.pieces import byte_alphabet

WORDS = ["<|end|>", *byte_alphabet(), "th", "the", "Ġthe"]
MERGES = ["t h", "th e", "Ġ the"]
WIDTH, HEADS, GROUPS, LAYERS = 32, 4, 2, 2
NORMAL, CONTROL = 1, 3  # GGUF's types of tokens


def config() -> LlamaConfig:
    """A llama with two layers and grouped heads."""
    return LlamaConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
        num_hidden_layers=LAYERS, intermediate_size=64, vocab_size=len(WORDS),
        max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip


def llama(seed: int = 0) -> LlamaForCausalLM:
    """Random weights, the same for a seed."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config()).eval()
    with torch.no_grad():
        for values in model.parameters():
            values.copy_(torch.randn_like(values) * 0.3)
    return model


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a head's halves in turn: how GGUF stores q and k of a llama.

    Row 2 i + s of a head in the file is row s * width / 2 + i in transformers.
    """
    rows, columns = weight.shape
    width = rows // heads
    order = [half * (width // 2) + i for i in range(width // 2) for half in range(2)]
    return weight.reshape(heads, width, columns)[:, order].reshape(rows, columns)


NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_tensors(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    """The weights by GGUF's names, in GGUF's order of rows."""
    found = {}
    for name, values in model.state_dict().items():
        weight = values.numpy()
        if name == "model.embed_tokens.weight":
            found["token_embd.weight"] = weight
        elif name == "model.norm.weight":
            found["output_norm.weight"] = weight
        elif name.startswith("model.layers."):
            layer, part = name.removeprefix("model.layers.").split(".", 1)
            short = NAMES[part.removesuffix(".weight")]
            if short in ("attn_q", "attn_k"):
                weight = interleave(weight, HEADS if short == "attn_q" else GROUPS)
            found[f"blk.{layer}.{short}.weight"] = weight
    return found


def write_gguf(
    path: Path,
    model: LlamaForCausalLM,
    *,
    architecture: str = "llama",
    leave_out: str = "",
    rule: str = "gpt-2",
    quantise: Any = None,
) -> Path:
    """Write a model as a GGUF file.

    Args:
        leave_out: a tensor that is not written.
        rule: the name of how words are cut.
        quantise: a GGUF type for the matrices; float32 if not given.
    """
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(WORDS)
    writer.add_token_types([CONTROL, *[NORMAL] * (len(WORDS) - 1)])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, values in gguf_tensors(model).items():
        if name == leave_out:
            continue
        if quantise is not None and values.ndim == 2:
            packed = gguf.quants.quantize(values, quantise)
            writer.add_tensor(name, packed, raw_dtype=quantise)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    """A wheel that pip can find in a folder: version 1.0 of `name`, with these members."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@dataclass(frozen=True)
class Offered:
    """A folder with wheels, and the model they hold in two parts."""

    folder: Path
    known: KnownModel
    model: LlamaForCausalLM


def offer_tiny(folder: Path) -> Offered:
    """Cut a small GGUF into two wheels, as `gemma3` is cut into four."""
    folder.mkdir()
    model = llama()
    raw = write_gguf(folder / "tiny.gguf", model).read_bytes()
    (folder / "tiny.gguf").unlink()
    half = len(raw) // 2
    parts = []
    for number, piece in enumerate((raw[:half], raw[half:])):
        name = f"tiny_part{number}"
        write_wheel(folder, name, {f"{name}/data.bin": piece})
        parts.append(Part(f"tiny-part{number}==1.0", f"{name}/data.bin", len(piece)))
    known = KnownModel(
        name="tiny", title="Tiny", parts=tuple(parts), sha256=hashlib.sha256(raw).hexdigest(),
        licence="CC0-1.0", terms="nowhere",
    )  # fmt: skip
    return Offered(folder, known, model)


def write_folder(folder: Path, model: LlamaForCausalLM | None = None) -> Path:
    """A model's folder as others give it away: safetensors, config, tokenizer."""
    (model or llama()).save_pretrained(folder)
    fast(byte_level()).save_pretrained(folder)
    return folder


def fast(tokenizer: Tokenizer, **special: str) -> Any:
    """A tokenizer as transformers wraps it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def byte_level(*, prefix: bool = False) -> Tokenizer:
    """Every byte is a token, but for `the`; as GPT-2 and SmolLM2 write their pieces."""
    merges = [tuple(merge.split()) for merge in MERGES]
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.BPE(vocabulary, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    return made


def sentencepiece(*, prefix: bool = True, unknown: bool = False) -> Tokenizer:
    """Pieces with ▁ and bytes like <0xE5>, with <s> before the text; as Llama 2 and Gemma."""
    bytes_ = [] if unknown else [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["<unk>", "<s>", *bytes_, "▁", "t", "h", "e", "th", "the", "▁the", "国", "é", "\n"]
    vocabulary = {word: number for number, word in enumerate(words)}
    merges = [("t", "h"), ("th", "e"), ("▁", "the")]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=not unknown))
    steps = [normalizers.Prepend("▁")] if prefix else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    made.add_special_tokens(["<unk>", "<s>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return made


def wordpiece() -> Tokenizer:
    """Lowercases and strips accents; as BERT."""
    words = ["[UNK]", "[CLS]", "[SEP]", "the", "##re", "cafe", "国"]
    made = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def composing() -> Tokenizer:
    """Byte-level after NFC: e and an accent become one é, so the bytes are not the text's."""
    made = byte_level()
    made.normalizer = normalizers.NFC()
    return made
