"""The real server, asked over the wire: its answers are the trace's own, its refusals sentences."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_samples import HEADS, SECONDS, TOKENS, Client, make_trace, running, softmax

from attnscope import tiles
from attnscope.serve.captures import MOST_TEXT
from attnscope.serve.run import bind
from attnscope.trace import Trace

ROOM = 1e-6
"""float32 weights up to 1 from products of width 8: a few units of 6e-8 each way."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def folder(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trace.save(tmp_path_factory.mktemp("saved") / "run")


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(folder, "--traces", tmp_path_factory.mktemp("captures")) as (_, found):
        yield found


def truth(trace: Trace, layer: int, head: int) -> np.ndarray:
    """The weights [T, S] by the definition, in float64."""
    record = trace.layer(layer)
    return softmax(record.array("q"), record.array("k"))[1][head]


def test_the_page_and_its_modules_are_served_with_their_types(client: Client) -> None:
    for path, kind, begins in (
        ("", "text/html; charset=utf-8", b"<!doctype html>"),
        ("static/js/types.js", "text/javascript; charset=utf-8", b"// @ts-check"),
    ):
        status, headers, body = client.ask(path)
        assert (status, headers["content-type"]) == (200, kind)
        assert body.startswith(begins)
        assert headers["content-security-policy"].startswith("default-src 'none'; ")


def test_the_list_and_what_a_trace_says_of_itself(client: Client, trace: Trace) -> None:
    [entry] = client.json("api/traces")["traces"]
    assert entry == {"id": "run", "name": "run", "model": "plain", "tokens": TOKENS}
    info = client.json("api/traces/run/info")
    assert info == tiles.info(trace)
    assert [layer["kind"] for layer in info["layers"]] == ["full", "none", "full"]
    assert client.json("api/traces/run/tokens") == tiles.token_table(trace)
    rows = client.json("api/traces/run/heads")
    assert [(row["layer"], row["head"]) for row in rows] == [
        (layer, head) for layer in (0, 2) for head in range(HEADS)
    ]
    names = {model["name"] for model in client.json("api/models")["models"]}
    assert {"smollm2", "gemma3"} <= names


def test_a_handout_is_that_of_the_tile_source(client: Client, trace: Trace) -> None:
    for head, start in ((0, 0), (3, 200), (1, 299)):
        found = client.json(f"api/traces/run/head?layer=2&head={head}&from={start}")
        wanted = tiles.handout(trace, [(2, head)], start=start)
        assert found == json.loads(json.dumps(wanted))


def test_tiles_come_in_the_order_that_was_asked_for(client: Client, trace: Trace) -> None:
    asked = "layer=2&head=3&measure=weight&level=0&at=1.1,0.0,1.0,0.1"
    found = tiles.decode(client.ask(f"api/traces/run/tiles?{asked}")[2])
    assert [(one.x, one.y) for one in found] == [(1, 1), (0, 0), (1, 0), (0, 1)]
    assert [one.state for one in found] == ["values", "values", "masked", "values"]
    weights = truth(trace, 2, 3)
    for one in found:
        if one.mean is not None:
            part = weights[one.y * 256 : one.y * 256 + one.height][
                :, one.x * 256 : one.x * 256 + one.width
            ]
            seen = ~np.isnan(one.mean)
            np.testing.assert_allclose(one.mean[seen], part[seen], atol=ROOM)
            assert np.all(part[~seen] == 0)
    missing = client.ask("api/traces/run/tiles?layer=1&head=0&measure=weight&level=0&at=0.0")[2]
    assert [one.state for one in tiles.decode(missing)] == ["missing"]


def test_rows_columns_tracks_and_cells_are_the_definition(client: Client, trace: Trace) -> None:
    weights = truth(trace, 0, 1)
    body = client.ask("api/traces/run/row?layer=0&head=1&queries=7,20-22&how=sum")[2]
    magic, _, flags, count, sink = struct.unpack_from("<4sHHIf", body)
    assert (magic, flags & 1, count, sink) == (b"ATRW", 1, TOKENS, 0.0)
    row = np.frombuffer(body, "<f4", count, 32)
    np.testing.assert_allclose(row, weights[[7, 20, 21, 22]].sum(0), atol=4 * ROOM)
    arrived = np.frombuffer(body, "<f4", count, 32 + 4 * count)
    norms = trace.layer(0).norms(1)
    np.testing.assert_allclose(arrived, row * norms, rtol=ROOM, atol=ROOM)

    body = client.ask("api/traces/run/column?layer=0&head=1&keys=3")[2]
    assert body[:4] == b"ATCL"
    column = np.frombuffer(body, "<f4", TOKENS, 32)
    np.testing.assert_allclose(column, weights[:, 3], atol=ROOM)

    body = client.ask("api/traces/run/flow?queries=9&how=mean")[2]
    layers, keys = struct.unpack_from("<II", body, 8)
    assert (body[:4], layers, keys) == (b"ATFL", 2, TOKENS)
    flow = np.frombuffer(body, "<f4", layers * keys, 32 + 4 * layers).reshape(layers, keys)
    mean = np.mean([truth(trace, 2, head)[9] for head in range(HEADS)], axis=0)
    np.testing.assert_allclose(flow[1], mean, atol=ROOM)

    body = client.ask("api/traces/run/tracks?layer=0&head=1&names=received,entropy&level=0&at=0")[2]
    assert body.count(b"ATTR") == 2
    received = np.frombuffer(body, "<f4", 256, 32)
    np.testing.assert_allclose(received, weights.sum(0)[:256], atol=TOKENS * ROOM)

    cell = client.json("api/traces/run/cell?layer=0&head=1&query=40&key=2")
    assert cell["weight"] == pytest.approx(weights[40, 2], abs=ROOM)
    assert cell["visible"] is True
    hidden = client.json("api/traces/run/cell?layer=0&head=1&query=2&key=40")
    assert (hidden["weight"], hidden["score"], hidden["visible"]) == (0, None, False)

    similar = client.json("api/traces/run/similar?layer=0&head=1&count=3")
    assert len(similar) == 3
    assert (0, 1) not in [(one["layer"], one["head"]) for one in similar]
    expected = client.json("api/traces/run/expected?layer=0&head=1")
    diagonal = np.mean([weights[i, i] for i in range(TOKENS)])
    if expected["cell"] == 1:
        assert expected["density"][0] == pytest.approx(diagonal, abs=ROOM)


def test_a_table_is_the_map(client: Client, trace: Trace) -> None:
    asked = "api/traces/run/table?layer=0&head=1&measure=weight&rows=250-260&keys=0-299"
    status, headers, body = client.ask(f"{asked}&format=csv")
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert headers["content-disposition"] == 'attachment; filename="layer0-head1-weight.csv"'
    lines = list(csv.DictReader(io.StringIO(body.decode())))
    weights = truth(trace, 0, 1)
    assert len(lines) == sum(row + 1 for row in range(250, 261))
    for line in lines:
        place = int(line["query"]), int(line["key"])
        assert float(line["weight"]) == pytest.approx(weights[place], abs=ROOM)
    import pyarrow.parquet

    whole = client.ask(f"{asked}&format=parquet")[2]
    table = pyarrow.parquet.read_table(io.BytesIO(whole)).to_pydict()
    assert table["query"] == [int(line["query"]) for line in lines]
    assert table["weight"] == [np.float32(line["weight"]) for line in lines]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("api/nothing", 404, "There is nothing here."),
        ("api/traces/run/nothing", 404, "There is nothing here."),
        ("api/traces/other/info", 404, "no such trace"),
        ("api/traces/run/info?x=1", 400, "'x': there is no such parameter here"),
        ("api/traces/run/cell?layer=1&head=0&query=0&key=0", 400, "layer: 1 has no attention map"),
        ("api/traces/run/cell?layer=7&head=0&query=0&key=0", 400, "layer: 7 is not in this trace"),
        ("api/traces/run/cell?layer=0&head=4&query=0&key=0", 400, "head"),
        ("api/traces/run/cell?layer=0&head=0&query=300&key=0", 400, "query"),
        ("api/traces/run/cell?layer=0&head=0&query=0&key=300", 400, "key"),
        ("api/traces/run/row?layer=0&head=0&queries=299-300", 400, "queries"),
        ("api/traces/run/tiles?layer=0&head=0&measure=x&level=0&at=0.0", 400, "measure: expected"),
        ("api/traces/run/tiles?layer=0&head=0&measure=weight&level=9&at=0.0", 400, "level: "),
        ("api/traces/run/tiles?layer=0&head=0&measure=weight&level=0&at=0.0,2.0", 400,
         "at: column: expected 0 to 1, got 2"),
        ("api/traces/run/tiles?layer=0&head=9&measure=weight&level=0&at=0.0", 400, "head: 9"),
        ("api/traces/run/tracks?layer=0&head=0&names=x&level=0&at=0", 400, "names: expected"),
        ("api/traces/run/table?layer=0&head=0&rows=0-300&keys=0-1", 400, "rows: expected 0 to 299"),
        ("api/traces/run/table?layer=1&head=0&rows=0-1&keys=0-1", 400, "layer: 1 has no attention"),
        ("api/traces/run/head?layer=0&head=4&from=0", 400, "head: expected a whole number from 0"),
        ("api/traces/run/head?layer=1&head=0&from=0", 400, "layer: 1 has no attention map"),
        ("api/traces/run/head?layer=0&head=0&from=300", 400, "start: expected a whole number"),
        ("api/traces/run/head?layer=0&head=0&from=-1", 400, "from: expected a whole number from 0"),
        ("api/traces/run/head?layer=0&head=0", 400, "from: is missing"),
        ("api/traces/run/head?layer=0&head=0&from=0&to=9", 400, "'to': there is no such parameter"),
        ("api/traces/../run/head?layer=0&head=0&from=0", 404, "There is nothing here."),
        ("static/nothing.js", 404, "There is nothing here."),
        ("nothing", 404, "There is nothing here."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence(client: Client, path: str, status: int, said: str) -> None:
    found = client.refused(path)
    assert found[0] == status
    assert said in found[1]


def test_only_the_ways_that_are_meant_work(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.refused("api/traces", method=method)[0] == 405
    assert client.refused("api/captures")[0] == 404
    status, _, body = client.ask("api/traces", method="HEAD")
    assert (status, body) == (200, b"")


TRAVERSALS = (
    "../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd",
    "..\\..\\etc\\passwd", "....//....//etc/passwd", "%00", "run%00", "..;/", "file:///etc/passwd",
    "run/../../../etc/passwd", ".%2e/run", "~root", "%c0%ae%c0%ae/",
)  # fmt: skip


@pytest.mark.parametrize("way", TRAVERSALS)
def test_no_parameter_leads_to_a_file(client: Client, way: str) -> None:
    """Each place of a path, each parameter of a query: nothing but a refusal without a path."""
    paths = [f"static/{way}", f"static/js/{way}", f"api/{way}", f"api/traces/{way}/info"]
    paths += [f"api/traces/run/{way}", f"api/captures/{way}/events", way.lstrip("/")]
    for path in paths:
        status, _, body = client.ask(client.prefix + path)
        assert status in (400, 403, 404, 405), path
        assert b"root:" not in body
    asked = {"layer": "0", "head": "0", "measure": "weight", "level": "0", "at": "0.0"}
    for name in asked:
        query = "&".join(f"{key}={way if key == name else value}" for key, value in asked.items())
        status, said = client.refused(f"api/traces/run/tiles?{query}".replace("\\", "%5C"))
        assert status == 400
        assert name in said
    for path in (f"row?layer=0&head=0&queries={way}", f"table?layer=0&head=0&rows=0&keys={way}",
                 f"tracks?layer=0&head=0&names={way}&level=0&at=0"):  # fmt: skip
        assert client.refused(f"api/traces/run/{path}".replace("\\", "%5C"))[0] == 400
    body = json.dumps({"text": "x", "model": way, "generate": 0})
    kind = {"content-type": "application/json"}
    status, said = client.refused("api/captures", method="POST", body=body, headers=kind)
    assert (status, said.split(":")[0]) == (400, "model")


def test_foreign_hosts_and_pages_are_refused_over_the_wire(client: Client) -> None:
    assert client.refused("api/traces", headers={"Host": "evil.example"})[0] == 421
    assert client.refused("api/traces", headers={"Origin": "http://evil.example"})[0] == 403
    assert client.refused("api/traces", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.refused("/api/traces")[0] == 404
    assert client.refused("/" + "0" * 32 + "/")[0] == 404
    assert client.ask(headers={"Host": f"localhost:{client.port}"})[0] == 200


def test_captures_are_checked_over_the_wire(client: Client) -> None:
    kind = {"content-type": "application/json"}

    def post(body: Any, headers: Any = kind) -> tuple[int, str]:
        return client.refused("api/captures", method="POST", body=body, headers=headers)

    good = json.dumps({"text": "x", "model": "nowhere", "generate": 0})
    assert post(good)[0] == 400
    assert "application/json" in post(good, {"content-type": "text/plain"})[1]
    assert "application/json" in post(good, {})[1]
    for body in ("", "{", "[" * 100_000, "\xff", "[1]", "null", '{"text": 1}'):
        status, said = post(body.encode("latin-1"))
        assert status == 400
        assert said.startswith(("body: ", "text: "))
    long = json.dumps({"text": "x" * (MOST_TEXT + 1), "model": "smollm2", "generate": 0})
    assert post(long) == (400, "text: has 1,000,001 bytes; at most 1,000,000 are read")
    assert client.refused("api/captures/0123456789abcdef/events")[0] == 404
    assert client.refused("api/captures/0123456789abcdef", method="DELETE")[0] == 404


def test_the_server_starts_without_torch(folder: Path, tmp_path: Path) -> None:
    """Asked for everything but a capture, it has imported neither torch nor transformers."""
    code = (
        "import atexit, sys; from attnscope.cli.main import main; "
        "atexit.register(lambda: print('\\n'.join(sys.modules))); main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", str(folder), "--no-open", "--traces", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    client = Client(process.stdout.readline().strip())
    for path in ("", "api/models", "api/traces/run/info", "api/traces/run/flow?queries=3"):
        assert client.ask(path)[0] == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "Ctrl-C ends it.\n")
    found = {name.split(".")[0] for name in out.split()}
    assert "uvicorn" in found
    assert found & {"torch", "transformers", "tokenizers", "numba", "pyarrow", "pandas"} == set()


def refusal(*arguments: str | Path) -> str:
    """What a command line that cannot serve says on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "attnscope", "serve", "--no-open", *map(str, arguments)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_busy_port_is_a_sentence(folder: Path, client: Client) -> None:
    said = refusal(folder, "--port", str(client.port))
    assert f"Error: Port {client.port} is in use by another program." in said
    assert "--port: expected 0 to 65535, got 70000" in refusal(folder, "--port", "70000")


def test_a_bad_trace_is_a_sentence(tmp_path: Path, folder: Path) -> None:
    assert "there is no such folder" in refusal(tmp_path / "gone")
    assert "not an attnscope trace" in refusal(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "trace.json").write_text("{")
    assert "trace.json" in refusal(folder, broken)


def test_without_a_trace_earlier_captures_are_opened(tmp_path: Path) -> None:
    make_trace(tokens=8).save(tmp_path / "b")
    make_trace(tokens=9).save(tmp_path / "a")
    (tmp_path / "broken").mkdir()
    (tmp_path / ".a.partial-x").mkdir()
    with running("--traces", tmp_path) as (process, client):
        found = [entry["id"] for entry in client.json("api/traces")["traces"]]
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        said = process.stderr.read()
    assert found == ["b", "a"]
    assert said.startswith("Left out: ")
    assert said.count("Left out: ") == 1


def test_the_port_is_this_machines_own_alone(client: Client) -> None:
    """Nothing listens on the other addresses that this machine has."""
    addresses = {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "::1"}:
        if address.startswith("127."):
            continue
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.settimeout(2)
            assert probe.connect_ex((address, client.port)) != 0


def test_no_answer_waits_for_a_delayed_ack() -> None:
    """Sockets of the server send at once: with Nagle's algorithm every other answer took 40 ms."""

    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Ear(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                taken = transport.get_extra_info("socket")
                found.set_result(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        listening = bind(0)
        port = listening.getsockname()[1]
        server = await asyncio.get_running_loop().create_server(Ear, sock=listening)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        answer = await found
        server.close()
        return answer

    assert asyncio.run(accepted()) != 0


def test_the_secret_is_new_each_time(folder: Path) -> None:
    prefixes = []
    for _ in range(2):
        with running(folder, env={**os.environ, "PYTHONHASHSEED": "0"}) as (_, client):
            prefixes.append(client.prefix.strip("/"))
    assert prefixes[0] != prefixes[1]
    assert all(len(prefix) == 32 and int(prefix, 16) >= 0 for prefix in prefixes)
