"""Captures asked for over the wire: a real model in its own process, watched, or cancelled."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch

import attnscope

TEXT = "小明把苹果给了小王。The apple 🍎 is"


class Wire:
    """Asks the server without a browser."""

    def __init__(self, address: str) -> None:
        self.place = urlsplit(address)

    @contextlib.contextmanager
    def open(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        assert self.place.hostname is not None
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=120)
        kind = {"content-type": "application/json"} if body is not None else {}
        data = None if body is None else json.dumps(body)
        with contextlib.closing(connection):
            connection.request(method, self.place.path + path, body=data, headers=kind)
            with connection.getresponse() as answer:
                yield answer

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        with self.open(method, path, body) as answer:
            said = answer.read()
            return answer.status, json.loads(said) if said else None

    def start(self, **wanted: Any) -> str:
        status, said = self.ask("POST", "api/captures", wanted)
        assert status == 202, said
        return str(said["id"])

    def events(self, key: str) -> Iterator[Any]:
        with self.open("GET", f"api/captures/{key}/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


def test_a_text_is_captured_and_opened(served: Any, samples: Any) -> None:
    wire = Wire(served.address)
    key = wire.start(text=TEXT, model=str(samples.models["llama"]), generate=0)
    heard = list(wire.events(key))
    assert heard[0] == {"kind": "progress", "done": 0, "total": 0, "what": "loading"}
    layers = [e for e in heard if e["kind"] == "progress" and e["what"] == "reading"]
    assert [(e["done"], e["total"]) for e in layers[1:]] == [(n, 4) for n in range(1, 5)]
    entry = heard[-1]["trace"]
    assert heard[-1]["kind"] == "done"
    assert entry["model"] == "llama", "a name, not a path of this machine"
    listed = wire.ask("GET", "api/traces")[1]["traces"]
    assert entry in listed
    check_weights(samples, attnscope.open(newest(served)))


def test_look_open_captures_and_opens(samples: Any, tmp_path: Path) -> None:
    """The server takes the place of the process that held the model, and needs little memory."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY")  # so that no browser opens
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    command = [sys.executable, "-m", "attnscope", "look", TEXT, "--open"]
    command += ["--model", str(samples.models["llama"])]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            address = next(line.strip() for line in lines if line.startswith("http://127.0.0.1:"))
            [entry] = Wire(address).ask("GET", "api/traces")[1]["traces"]
            assert entry["model"].endswith("llama")
            tokens = Wire(address).ask("GET", f"api/traces/{entry['id']}/tokens")[1]
            assert tokens["text"] == TEXT
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 200_000  # type: ignore[index]
        finally:
            process.terminate()


def test_a_generation_is_told_token_by_token(served: Any, samples: Any) -> None:
    wire = Wire(served.address)
    key = wire.start(text=TEXT, model=str(samples.models["llama"]), generate=6)
    heard = list(wire.events(key))
    trace = attnscope.open(newest(served))
    made = [e for e in heard if e["kind"] == "token"]
    assert [e["index"] for e in made] == list(range(len(trace.tokens) - trace.prompt_tokens))
    whole = TEXT + "".join(e["text"] for e in made)
    assert trace.text.startswith(whole), "what was told is the beginning of what was made"
    done = [e["done"] for e in heard if e.get("what") == "generating"]
    assert done == list(range(1, len(made) + 1))
    assert heard[-1]["kind"] == "done"
    check_weights(samples, trace)


def test_cancelling_leaves_nothing_and_the_server_stays_quick(served: Any, samples: Any) -> None:
    wire = Wire(served.address)
    before = set(os.listdir(served.captures))
    key = wire.start(text=TEXT * 40, model=str(samples.models["llama"]), generate=1000)
    wanted = {"text": "x", "model": str(samples.models["llama"]), "generate": 0}
    status, said = wire.ask("POST", "api/captures", wanted)
    assert status == 409
    assert "running already" in said["error"]
    slowest = 0.0
    for event in wire.events(key):
        started = time.monotonic()
        assert wire.ask("GET", "api/traces")[0] == 200
        slowest = max(slowest, time.monotonic() - started)
        if event["kind"] == "token":
            assert wire.ask("DELETE", f"api/captures/{key}")[0] == 204
            break
    assert [e["kind"] for e in wire.events(key)][-1] == "cancelled"
    assert set(os.listdir(served.captures)) == before
    assert slowest < 2, "the model's process took the server with it"


def newest(served: Any) -> Any:
    return max(served.captures.iterdir(), key=lambda place: place.stat().st_mtime)


def check_weights(samples: Any, trace: Any) -> None:
    """The model's own eager attention is the judge."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        samples.models["llama"], attn_implementation="eager"
    )
    ids = torch.tensor([[token.id for token in trace.tokens]])
    with torch.no_grad():
        truth = model(ids, output_attentions=True).attentions
    for layer in range(4):
        for head in range(4):
            found = trace.weights(layer, head)
            # two float32 computations of scores of some ten: a few units of 1e-6 each
            np.testing.assert_allclose(found, truth[layer][0, head].numpy(), atol=3e-5)
