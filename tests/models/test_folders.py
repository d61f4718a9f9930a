"""Names and folders: what loads, and one sentence for everything that does not."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_samples as samples
import pytest
import torch

from attnscope.capture import hub
from attnscope.capture.models import load, model_info, path, resolve
from attnscope.errors import AttnscopeError, ConfigError, ModelError, UnsupportedModelError


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that loads."""
    return samples.write_folder(tmp_path_factory.mktemp("models") / "good")


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    return Path(shutil.copytree(good, tmp_path / "copy"))


def test_a_folder_loads(good: Path) -> None:
    loaded = load(good)
    model = samples.llama()
    ids = torch.tensor([[1, 2, 3, 250]])
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, model(ids).logits)
    assert not loaded.model.training
    assert loaded.model.dtype == torch.float32
    assert loaded.model.config._attn_implementation == "sdpa"
    assert loaded.files.folder == path(str(good)) == good
    assert loaded.seconds > 0
    info = loaded.info
    assert (info.layers, info.query_heads, info.kv_heads, info.head_width, info.width) == (
        2, 4, 2, 8, 32,
    )  # fmt: skip
    assert (info.architecture, info.vocabulary) == ("LlamaForCausalLM", len(samples.WORDS))


@pytest.mark.parametrize("dtype", ["bfloat16", torch.float16, "auto"])
def test_dtypes(good: Path, dtype: Any) -> None:
    wanted = {"bfloat16": torch.bfloat16, "auto": torch.float32}.get(dtype, dtype)
    assert load(good, dtype=dtype, attn_implementation="eager").model.dtype == wanted


def test_an_unknown_dtype(good: Path) -> None:
    with pytest.raises(ValueError, match=r"dtype: expected one of float32, .* got 'int8'"):
        load(good, dtype="int8")


def test_sharded_weights(tmp_path: Path) -> None:
    model = samples.llama()
    model.save_pretrained(tmp_path / "m", max_shard_size="20KB")
    samples.fast(samples.byte_level()).save_pretrained(tmp_path / "m")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 1
    assert load(tmp_path / "m").info.layers == 2
    next(iter((tmp_path / "m").glob("*.safetensors"))).unlink()
    with pytest.raises(ModelError, match="is missing; fetch the model again"):
        load(tmp_path / "m")


def edit(file: Path, **changes: Any) -> None:
    """Change a JSON file; None removes a key."""
    value = json.loads(file.read_text())
    value.update(changes)
    file.write_text(json.dumps({key: one for key, one in value.items() if one is not None}))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(samples.llama().state_dict(), folder / "pytorch_model.bin")


def half_the_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def weights_of_another_shape(folder: Path) -> None:
    edit(folder / "config.json", intermediate_size=65)


def fewer_tensors(folder: Path) -> None:
    edit(folder / "config.json", num_hidden_layers=3)


def an_index_that_climbs(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write(name: str, content: str | bytes) -> Callable[[Path], None]:
    """A damage: one file with other content."""

    def damage(folder: Path) -> None:
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(raw)

    return damage


def config_of(**changes: Any) -> Callable[[Path], None]:
    """A damage: other values in config.json."""
    return lambda folder: edit(folder / "config.json", **changes)


def remove(name: str) -> Callable[[Path], None]:
    """A damage: one file less."""
    return lambda folder: (folder / name).unlink()


def mamba(folder: Path) -> None:
    from transformers import MambaConfig

    (folder / "config.json").unlink()
    MambaConfig(hidden_size=16, num_hidden_layers=1).save_pretrained(folder)


def own_code(folder: Path) -> None:
    """A model with Python code that leaves a trace when it runs."""
    edit(
        folder / "config.json",
        model_type="homemade",
        auto_map={"AutoConfig": "code.HomemadeConfig", "AutoModelForCausalLM": "code.Homemade"},
    )
    (folder / "code.py").write_text("open('it-ran', 'w').close()\n")


@pytest.mark.parametrize(
    ("damage", "says", "error"),
    [
        (empty, "is empty", ModelError),
        (remove("config.json"), "has no config.json", ModelError),
        (remove("model.safetensors"), "there are no weights", ModelError),
        (only_a_pickle, r"only as a pickle \(pytorch_model.bin\).* never loaded", ModelError),
        (half_the_weights, "model.safetensors is damaged or cut off", ModelError),
        (write("model.safetensors", b""), "is damaged or cut off", ModelError),
        (write("model.safetensors", b"\xff" * 64), "is damaged or cut off", ModelError),
        (weights_of_another_shape, "cannot be loaded", ModelError),
        (fewer_tensors, "9 tensors are missing, model.layers.2", ModelError),
        (an_index_that_climbs, r"names '../../secret.safetensors', which is not", ModelError),
        (write("config.json", "{broken"), "config.json is not JSON", ConfigError),
        (write("config.json", "[1]"), "holds a list", ConfigError),
        (write("config.json", b"\xff\xfe"), "is not UTF-8", ConfigError),
        (config_of(model_type=None), "has no model_type", ModelError),
        (config_of(model_type="lama"), "of the family 'lama'. Near: llama", UnsupportedModelError),
        (config_of(model_type="clip"), "no text decoder of the family 'clip'",
         UnsupportedModelError),
        (config_of(hidden_size="wide"), "config.json cannot be read", ModelError),
        (mamba, "'mamba' models have no attention heads", UnsupportedModelError),
        (own_code, "need Python code that comes with the model, which is not run",
         UnsupportedModelError),
        (write("tokenizer.json", "{}"), "tokenizer in .* cannot be read", ModelError),
        (remove("tokenizer.json"), "tokenizer in .* cannot be read", ModelError),
    ],
)  # fmt: skip
def test_folders_that_do_not_load(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    says: str,
    error: type[AttnscopeError],
) -> None:
    damage(folder)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(error, match=says) as raised:
        load(folder)
    assert str(folder) in str(raised.value) or error is UnsupportedModelError
    assert not (folder.parent / "it-ran").exists()
    assert len(str(raised.value)) < 500


def test_a_pickle_beside_safetensors_is_not_opened(folder: Path) -> None:
    """A pickle that would run code lies there, and does not run."""

    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (sys.exit, ("the pickle ran",))

    torch.save(Bomb(), folder / "pytorch_model.bin")
    assert load(folder).info.layers == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smolm2", "There is no model 'smolm2'; did you mean smollm2?"),
        ("gemma-3", "did you mean gemma3?"),
        ("nothing at all", "Give smollm2 or gemma3, a folder"),
        ("", "There is no model ''"),
        ("a\0b", "There is no model 'a"),
        ("x" * 5000, r"\.\.\.'"),
        ("./not-there", "There is no model"),
        ("missing.gguf", "There is no file missing.gguf"),
        ("nobody/nothing", r"not in the hub's cache .* `attnscope models pull nobody/nothing`"),
    ],
)
def test_names_that_are_no_model(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says.replace("?", r"\?")):
        resolve(name)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"12345678")
    with pytest.raises(ModelError, match="is a file but not a GGUF"):
        resolve(tmp_path / "model.safetensors")


def test_a_short_name_wins_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smollm2").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="is not here yet"):
        resolve("smollm2")
    assert resolve("./smollm2").folder == Path("smollm2")


def hub_cache(root: Path, good: Path) -> Path:
    """The hub's cache as its client lays it out, with one model in it."""
    base = root / "models--org--name"
    snapshot = base / "snapshots" / ("a" * 40)
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text("a" * 40)
    shutil.copytree(good, snapshot)
    return snapshot


def test_a_model_in_the_hubs_cache(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants as constants

    snapshot = hub_cache(tmp_path / "hub", good)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert resolve("org/name").folder == snapshot
    assert load("org/name").info.name == "org/name"
    (snapshot / "model.safetensors").unlink()  # only the config was fetched once
    assert hub.cached("org/name") is None
    with pytest.raises(ModelError, match="not in the hub's cache"):
        resolve("org/name")


@pytest.mark.parametrize("code", ["offline", "transport"])
def test_the_hub_cannot_be_reached(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import OfflineModeIsEnabled

    def fail(*_: Any, **__: Any) -> None:
        raise OfflineModeIsEnabled("off") if code == "offline" else ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    for ask in (hub.offer, hub.pull_from_hub):
        with pytest.raises(ModelError, match="The hub could not be reached for org/name"):
            ask("org/name")


def test_a_file_that_the_hub_has_not_is_no_missing_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import RemoteEntryNotFoundError

    def fail(*_: Any, **__: Any) -> None:
        error = RemoteEntryNotFoundError.__new__(RemoteEntryNotFoundError)
        error.args = ("404 Client Error.\n\nEntry Not Found for url: config.json.",)
        raise error

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail)
    with pytest.raises(ModelError, match=r"The hub has org/name, but not every file.*config\.json"):
        hub.offer("org/name")


def test_what_the_hub_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Licence and size come from the page; pickles and second copies are not counted."""
    from types import SimpleNamespace as Page

    import huggingface_hub

    sizes = {
        "model.safetensors": 100, "config.json": 5, "pytorch_model.bin": 100,
        "original/model.safetensors": 100, "onnx/model.json": 7, "code.py": 3,
    }  # fmt: skip
    files = [Page(rfilename=name, size=size) for name, size in sizes.items()]
    page = Page(card_data=Page(license="mit"), siblings=files)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: page)
    assert hub.offer("org/name") == hub.Offer("mit", "the page of org/name on the hub", 105)
    page.card_data = None
    assert hub.offer("org/name").licence == "a licence its page does not name"


def test_a_hub_model_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: dict[str, Any] = {}

    def fetch(name: str, **how: Any) -> str:
        asked.update(how)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(ModelError, match="has no safetensors; weights in pickles"):
        hub.pull_from_hub("org/name")
    assert not any(one.endswith((".bin", ".py", ".pt")) for one in asked["allow_patterns"])


def test_facts_of_a_config_with_parts() -> None:
    """The text part counts, and grouped heads default to all."""
    from transformers import Gemma3Config, GPT2Config

    gemma = Gemma3Config(
        text_config={"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
                     "head_dim": 16, "hidden_size": 48, "vocab_size": 99},
    )  # fmt: skip
    info = model_info("g", gemma)
    assert (info.layers, info.query_heads, info.kv_heads, info.head_width) == (3, 4, 1, 16)
    info = model_info("gpt2", GPT2Config(n_embd=48, n_head=4, n_layer=2))
    assert (info.kv_heads, info.head_width, info.architecture) == (4, 12, "gpt2")
