"""What an attacker can try, on this machine or in a trace: nothing hangs, grows, leaks or runs."""

from __future__ import annotations

import concurrent.futures
import json
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from serve_samples import SECONDS, Client, make_trace, running

from attnscope.trace.document import encode

GROWTH = 300 << 20
"""Bytes that the server may take beyond what it took when it was idle: the bound of the issue."""
QUICK = 5.0
"""Seconds after an attack within which an honest question must have its answer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Client]]:
    folder = make_trace(tokens=600).save(tmp_path_factory.mktemp("saved") / "run")
    with running(folder, "--traces", tmp_path_factory.mktemp("captures")) as found:
        found[1].json("api/traces/run/info")
        yield found


class Memory:
    """The peak of a process above where it stood."""

    def __init__(self, process: Any) -> None:
        self.process = psutil.Process(process.pid)
        self.start = self.peak = self.now()

    def now(self) -> int:
        return int(self.process.memory_info().rss)

    def grown(self) -> int:
        self.peak = max(self.peak, self.now())
        return self.peak - self.start


def is_well(client: Client) -> None:
    """An honest question is answered, and soon."""
    started = time.monotonic()
    client.json("api/traces/run/cell?layer=0&head=0&query=3&key=1")
    assert time.monotonic() - started < QUICK


def raw(client: Client, data: bytes, *, wait: float = SECONDS) -> bytes:
    """Send bytes as they are; returns all that comes back until the other side closes."""
    with socket.create_connection((client.host, client.port), timeout=wait) as connection:
        try:
            connection.sendall(data)
            kept = b""
            while piece := connection.recv(1 << 16):
                kept += piece
            return kept
        except ConnectionError:
            return b""


def begin(client: Client, more: str, *, method: str = "POST") -> bytes:
    """The head of a request."""
    lines = [f"{method} {client.prefix}api/captures HTTP/1.1", f"Host: {client.host}:{client.port}"]
    return "\r\n".join([*lines, "Content-Type: application/json", more, "", ""]).encode()


def test_a_body_of_100_mb_is_not_taken(server: Any) -> None:
    process, client = server
    memory = Memory(process)
    answer = raw(client, begin(client, "Content-Length: 100000000") + b"x" * 1000)
    assert answer.startswith(b"HTTP/1.1 413 ")
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent = 0
    with socket.create_connection((client.host, client.port), timeout=SECONDS) as connection:
        connection.sendall(begin(client, "Transfer-Encoding: chunked"))
        try:
            while sent < 100_000_000:
                connection.sendall(piece)
                sent += len(piece)
        except ConnectionError:
            pass
    assert sent < 50_000_000, "all of it was taken"
    assert memory.grown() < 64 << 20
    is_well(client)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 4096, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
    ids=["zeros", "headers", "path", "version", "lengths", "smuggling", "connect", "absolute"],
)  # fmt: skip
def test_nonsense_is_refused(server: Any, data: bytes) -> None:
    _, client = server
    answer = raw(client, data)
    assert answer == b"" or answer.split(b" ")[1] in {b"400", b"404", b"421", b"431"}
    is_well(client)


def test_ten_thousand_tile_requests_at_once(server: Any) -> None:
    """Most are told to come back, memory stays bounded, and the next reader is served."""
    process, client = server
    memory = Memory(process)
    asked = (
        "api/traces/run/tiles?layer=0&head={}&measure=arrived&level=0&at=0.0,0.1,1.1,0.2,1.2,2.2"
    )

    def one(number: int) -> int:
        try:
            status = client.ask(asked.format(number % 4))[0]
        except (ConnectionError, TimeoutError):
            status = 0
        if number % 100 == 0:
            memory.grown()
        return status

    with concurrent.futures.ThreadPoolExecutor(400) as pool:
        found = list(pool.map(one, range(10_000)))
    assert set(found) <= {200, 429, 503, 0}
    assert found.count(200) > 100
    assert memory.grown() < GROWTH
    is_well(client)


def test_readers_that_leave_and_readers_that_take_nothing(server: Any) -> None:
    """A thousand broken-off questions and forty that read nothing do not stop an honest one."""
    process, client = server
    memory = Memory(process)
    host = f"Host: {client.host}:{client.port}"
    line = f"GET {client.prefix}api/traces/run/{{}} HTTP/1.1\r\n{host}\r\n\r\n"
    heavy = line.format("table?layer=0&head=0&rows=0-599&keys=0-599").encode()
    for number in range(1000):
        with socket.create_connection((client.host, client.port), timeout=SECONDS) as connection:
            connection.sendall(heavy if number % 2 else line.format("flow?queries=0-599").encode())
    stuck = []
    try:
        for _ in range(40):
            connection = socket.create_connection((client.host, client.port), timeout=SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(heavy)
            stuck.append(connection)
        time.sleep(0.5)
        assert memory.grown() < GROWTH
        for connection in stuck[:30]:
            connection.close()
        is_well(client)
    finally:
        for connection in stuck:
            connection.close()
    is_well(client)


def rewrite(folder: Path, change: Any) -> None:
    """Change trace.json, with a checksum that is right again: the attacker writes those too."""
    place = folder / "trace.json"
    value = json.loads(place.read_text(encoding="utf-8"))
    for mark in ("format", "version", "sha256"):
        value.pop(mark, None)
    change(value)
    place.write_bytes(encode(value))


def damaged(folder: Path, offset: int, data: bytes) -> None:
    """Change bytes of the first layer's file and its checksums."""
    import zlib

    place = folder / "layers" / "000.safetensors"
    whole = bytearray(place.read_bytes())
    whole[offset : offset + len(data)] = data
    place.write_bytes(bytes(whole))
    blocks = [whole[at : at + (1 << 18)] for at in range(0, len(whole), 1 << 18)]

    def change(value: Any) -> None:
        value["layers"][0]["crc32"] = "".join(f"{zlib.crc32(block):08x}" for block in blocks)

    rewrite(folder, change)


def header_of(folder: Path) -> tuple[int, dict[str, Any]]:
    whole = (folder / "layers" / "000.safetensors").read_bytes()
    size = int.from_bytes(whole[:8], "little")
    return 8 + size, json.loads(whole[8 : 8 + size])


EVERY = (
    "info", "tokens", "heads", "tiles?layer=0&head=0&measure=weight&level=0&at=0.0",
    "tiles?layer=0&head=0&measure=arrived-no-sink&level=0&at=0.0",
    "tiles?layer=0&head=0&measure=uniform&level=0&at=0.0",
    "tracks?layer=0&head=0&names=received,entropy,sink_mass&level=0&at=0",
    "row?layer=0&head=0&queries=5", "column?layer=0&head=0&keys=5", "flow?queries=5",
    "cell?layer=0&head=0&query=5&key=3", "similar?layer=0&head=0&count=3",
    "head?layer=0&head=0&from=0", "expected?layer=0&head=0",
    "table?layer=0&head=0&rows=0-9&keys=0-9",
)  # fmt: skip


def nan_in(name: str) -> Any:
    def damage(folder: Path) -> None:
        begin, table = header_of(folder)
        at = begin + table[name]["data_offsets"][0] + 20
        damaged(folder, at, np.float32(np.nan).tobytes() * 4)

    return damage


def spans_backwards(folder: Path) -> None:
    begin, table = header_of(folder)
    damaged(folder, begin + table["end"]["data_offsets"][0], np.int32([2**31 - 1] * 4).tobytes())


def absurd(**fields: Any) -> Any:
    def damage(folder: Path) -> None:
        rewrite(folder, lambda value: value["layers"][0].update(fields))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        nan_in("q"), nan_in("k"), nan_in("logsumexp"), nan_in("statistics"), nan_in("received"),
        nan_in("value_norms"), spans_backwards, absurd(scale=1e30), absurd(softcap=1e-300),
        absurd(scale=-0.0), absurd(window=1),
    ],
    ids=["q", "k", "lse", "statistics", "received", "norms", "spans", "scale", "cap", "zero",
         "window"],
)  # fmt: skip
def test_numbers_that_lie_are_refused_in_a_sentence(tmp_path: Path, damage: Any) -> None:
    """Every question is answered with numbers or refused with a sentence; the server lives."""
    folder = make_trace(tokens=40).save(tmp_path / "run")
    damage(folder)
    refused = 0
    with running(folder, "--traces", tmp_path / "captures") as (process, client):
        memory = Memory(process)
        for question in EVERY:
            status, _, body = client.ask(f"api/traces/run/{question}")
            assert status in (200, 422), (question, status, body[:300])
            refused += status == 422
            if status == 422:
                said = json.loads(body)["error"]
                assert said.isprintable()
                assert "Traceback" not in said
        assert memory.grown() < GROWTH
        assert client.ask()[0] == 200
    assert refused, "no question met the damage"


@pytest.mark.parametrize(
    "damage",
    [
        absurd(query_heads=2**30), absurd(head_width=2**30), absurd(kv_heads=3),
        absurd(file="../../../etc/passwd"), absurd(file="layers/999.safetensors"),
        absurd(bytes=2**47), absurd(scale="1"), absurd(kind="<script>"),
        lambda folder: rewrite(folder, lambda v: v["model"].update(layers=2**60)),
        lambda folder: rewrite(folder, lambda v: v["tokens"][3].update(end=2**40)),
        lambda folder: rewrite(folder, lambda v: v.update(statistics=["x"] * 10_000)),
        lambda folder: (folder / "trace.json").write_bytes(b"[" * 60_000_000),
        lambda folder: (folder / "layers" / "000.safetensors").write_bytes(b"\xff" * 64),
    ],
)  # fmt: skip
def test_shapes_and_sizes_that_lie_do_not_open(tmp_path: Path, damage: Any) -> None:
    from attnscope.errors import TraceError
    from attnscope.serve.store import Store

    folder = make_trace(tokens=40).save(tmp_path / "run")
    damage(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError):
        Store().open(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e\x07"


def test_a_strangers_words_arrive_as_words(tmp_path: Path) -> None:
    """JSON with its own type and `nosniff`: no browser takes it for a page."""
    trace = make_trace(tokens=12, model=SCRIPT, words=lambda n: f"{SCRIPT}{n}")
    folder = trace.save(tmp_path / "run")
    with running(folder, "--traces", tmp_path / "captures") as (_, client):
        for question, find in (
            ("api/traces", lambda v: v["traces"][0]["model"]),
            ("api/traces/run/info", lambda v: v["model"]["name"]),
            ("api/traces/run/tokens", lambda v: v["text"][: len(SCRIPT)]),
        ):
            status, headers, body = client.ask(question)
            assert status == 200
            assert headers["content-type"] == "application/json"
            assert headers["x-content-type-options"] == "nosniff"
            assert find(json.loads(body)) == SCRIPT


def test_a_link_in_a_trace_is_not_followed(tmp_path: Path) -> None:
    from attnscope.errors import TraceError
    from attnscope.serve.store import Store

    secret = tmp_path / "secret"
    secret.write_bytes(b"secret" * 100_000)
    folder = make_trace(tokens=40).save(tmp_path / "run")
    place = folder / "layers" / "000.safetensors"
    place.unlink()
    place.symlink_to(secret)
    with pytest.raises(TraceError):
        Store().open(folder)
