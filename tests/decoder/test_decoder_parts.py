"""Parts of the decoder whose loss would show in no logit: what is shared, scaled, left unfilled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from decoder_samples import Peer, sample_ids, small_config, write
from safetensors.torch import load_file, save_file
from torch import nn

from attnscope.decoder import load
from attnscope.decoder_product import RowLinear
from attnscope.errors import ModelError
from attnscope.positions import Rope

Folders = Callable[[str], Path]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gemmas_embeddings_are_scaled_to_the_bit(folder_of: Folders, dtype: torch.dtype) -> None:
    """sqrt(48) is rounded to the dtype first, as in training; bfloat16 has 6.9375 for 6.9282."""
    folder, ids = folder_of("gemma3"), sample_ids(9)
    decoder, entered = load(folder, dtype=dtype), []
    decoder.layers[0].register_forward_pre_hook(lambda _, x: entered.append(x[0]))
    decoder(ids)
    with torch.no_grad():
        expected = Peer(folder, dtype).model.model.embed_tokens(ids)
    assert torch.equal(entered[0], expected)


@pytest.mark.parametrize(("variant", "rotations"), [("llama", 1), ("qwen3", 1), ("gemma3", 2)])
def test_a_forward_computes_each_rotation_once(
    folder_of: Folders, monkeypatch: pytest.MonkeyPatch, variant: str, rotations: int
) -> None:
    """Cosines and sines are the same in all layers: 3 layers have one rotation, Gemma two."""
    decoder, made = load(folder_of(variant)), []
    inner = Rope.turn

    def counting(rope: Rope, positions: torch.Tensor, **more: torch.dtype) -> object:
        made.append(rope)
        return inner(rope, positions, **more)

    monkeypatch.setattr(Rope, "turn", counting)
    for calls in (1, 2):
        decoder(sample_ids(5))
        assert len(made) == calls * rotations


def test_a_load_draws_no_random_number(folder_of: Folders) -> None:
    """New modules are not filled before the file's weights take their place."""
    before = torch.get_rng_state()
    load(folder_of("llama"))
    assert torch.equal(torch.get_rng_state(), before)
    nn.Linear(2, 2)  # outside of a load it does
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("variant", ["llama", "qwen3", "gemma3-untied"])
def test_every_product_of_a_row_is_the_quick_one(folder_of: Folders, variant: str) -> None:
    decoder = load(folder_of(variant))
    products = [part for part in decoder.modules() if isinstance(part, nn.Linear)]
    assert len(products) == 7 * decoder.config.layers + 1
    assert {type(part) for part in products} == {RowLinear}
    assert not decoder.training
    assert not any(part.training for part in decoder.modules())


def test_a_model_of_one_layer_speaks_too(tmp_path: Path) -> None:
    folder, ids = write(tmp_path, "llama", num_hidden_layers=1), sample_ids(9)
    assert list(load(folder).generate(ids, tokens=9, ends=())) == Peer(folder).greedy(ids, 9)


def test_ids_may_be_int32(folder_of: Folders) -> None:
    decoder, ids = load(folder_of("llama")), sample_ids(5)
    assert torch.equal(decoder(ids.int()), decoder(ids))
    assert torch.equal(decoder(ids[0].tolist()), decoder(ids))
    first, last = 0, decoder.config.vocabulary - 1
    assert decoder([first, last]).shape == (1, 2, last + 1)  # both ends of the vocabulary


def test_a_text_beyond_the_context_leaves_room_for_nothing(folder_of: Folders) -> None:
    decoder = load(folder_of("llama"))
    with pytest.raises(ValueError, match=r"70 tokens of text and 1 more .* 64; ask for at most 0"):
        decoder.generate(sample_ids(70), tokens=1)


def test_pictures_have_a_place_in_gemma_alone(copy_of: Folders) -> None:
    name = "model.vision_tower.embeddings.weight"
    for variant in ("gemma3", "llama"):
        file = copy_of(variant) / "model.safetensors"
        save_file(load_file(file) | {name: torch.zeros(2)}, file)
        if variant == "gemma3":
            load(file.parent)
        else:
            with pytest.raises(ModelError, match=f"has the tensor {name}, for which a llama"):
                load(file.parent)


@pytest.mark.parametrize("old", [False, True])
def test_an_untied_head_of_a_model_that_reads_pictures(tmp_path: Path, old: bool) -> None:
    """Its name, too, is another one in the files on the hub."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    vision = {
        "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 8,
    }  # fmt: skip
    text = small_config("gemma3", tie_word_embeddings=False)
    config = Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=4, tie_word_embeddings=False
    )
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    begin = ("model.language_model.", "language_model.model.")
    heads = ("lm_head.", "language_model.lm_head.")
    if any(name.startswith(begin[1]) for name in tensors):
        begin, heads = begin[::-1], heads[::-1]
    assert any(name.startswith(heads[0]) for name in tensors)
    hub = begin[1] == "language_model.model."
    if old == hub:
        tensors = {
            name.replace(begin[0], begin[1])
            if name.startswith(begin[0])
            else heads[1] + name.removeprefix(heads[0])
            if name.startswith(heads[0])
            else name: tensor
            for name, tensor in tensors.items()
        }
        save_file(tensors, tmp_path / "model.safetensors")
    decoder, ids = load(tmp_path), sample_ids(11)
    assert not decoder.config.tied
    with torch.no_grad():
        theirs = model(input_ids=ids).logits
        # the same operations in the same order; logits below 1
        torch.testing.assert_close(decoder(ids), theirs, rtol=1e-5, atol=1e-6)
