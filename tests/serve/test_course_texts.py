"""The course's server answers about captured texts as the app does, behind the same gate."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_samples import SECONDS, Client, make_trace

from attnscope import tiles
from attnscope.trace import open_trace

START = """
import sys
from pathlib import Path
from attnscope.serve.course import Site, Texts, serve_course
from attnscope.serve.run import open_all
from attnscope.serve.store import Store

store = Store()
open_all(store, [Path(sys.argv[1])])
texts = Texts(store, Path(sys.argv[2]), (sys.argv[3],))
site = Site({"index.html": b"x", "zh/a.html": b"y"}, None, texts)
serve_course(site, ready=lambda address: print(address, flush=True))
"""
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model in a folder, with a tokenizer of single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from attnscope.capture.shrink import build

    folder = tmp_path_factory.mktemp("models") / "small"
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {one: at for at, one in enumerate(letters[:90])}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    build("llama").save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trace(tokens=120).save(tmp_path_factory.mktemp("saved") / "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captures") / "here"


@pytest.fixture(scope="module")
def client(saved: Path, folder: Path, model: Path) -> Iterator[Client]:
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(saved), str(folder), str(model)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with contextlib.closing(process.stdout):
        yield Client(process.stdout.readline().strip())
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_heads_of_a_trace_are_given(client: Client, saved: Path) -> None:
    assert [one["id"] for one in client.json("api/traces")["traces"]] == ["run"]
    assert client.json("api/traces/run/info") == tiles.info(open_trace(saved))
    found = client.json("api/traces/run/head?layer=2&head=1&from=30")
    wanted = tiles.handout(open_trace(saved), [(2, 1)], start=30)
    assert found == json.loads(json.dumps(wanted))
    assert client.ask("zh/a.html")[2] == b"y"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/traces/none/head?layer=0&head=0&from=0", 404),
        ("api/traces/run/head?layer=0&head=0&from=x", 400),
        ("api/traces/run/head?layer=9&head=0&from=0", 400),
        ("api/traces/run/head?layer=0&head=0&from=120", 400),
        ("api/nothing", 404),
    ],
)
def test_what_is_not_there_is_a_sentence(client: Client, path: str, status: int) -> None:
    assert client.refused(path)[0] == status


def test_the_gate_stands_before_texts_too(client: Client) -> None:
    way = "api/traces/run/head?layer=0&head=0&from=0"
    assert client.refused(way, headers={"Origin": "https://evil.example"})[0] == 403
    assert client.refused(way, headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.refused(way, headers={"Host": "evil.example"})[0] == 421
    assert client.refused("/" + "0" * 32 + "/" + way)[0] == 404
    body = json.dumps({"text": "x", "model": "smollm2"})
    foreign = JSON | {"Origin": "https://evil.example"}
    assert client.refused("api/captures", method="POST", body=body, headers=foreign)[0] == 403
    assert client.refused("api/captures", method="POST", body="{", headers=JSON)[0] == 400


def events(client: Client, key: str) -> list[Any]:
    status, headers, body = client.ask(f"api/captures/{key}/events")
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return [json.loads(one[6:]) for one in body.decode().split("\n\n") if one.startswith("data: ")]


def test_a_text_is_captured_and_opened(client: Client, model: Path, folder: Path) -> None:
    wanted = json.dumps({"text": "abcd,abd,abc", "model": str(model)})
    key = client.json("api/captures", method="POST", body=wanted, headers=JSON)["id"]
    heard = events(client, key)
    assert heard[-1]["kind"] == "done", heard[-1]
    entry = heard[-1]["trace"]
    assert entry["tokens"] == 12
    [place] = folder.iterdir()
    found = client.json(f"api/traces/{entry['id']}/head?layer=0&head=0&from=0")
    assert "".join(found["tokens"]["labels"]) == "abcd,abd,abc"
    assert found == json.loads(json.dumps(tiles.handout(open_trace(place), [(0, 0)])))


def test_a_capture_is_cancelled_whole(client: Client, model: Path, folder: Path) -> None:
    before = sorted(folder.iterdir())
    wanted = json.dumps({"text": "abc," * 100, "model": str(model)})
    key = client.json("api/captures", method="POST", body=wanted, headers=JSON)["id"]
    assert client.ask(f"api/captures/{key}", method="DELETE")[0] == 204
    assert events(client, key)[-1]["kind"] == "cancelled"
    assert sorted(folder.iterdir()) == before
