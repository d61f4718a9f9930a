"""llama.cpp as a referee: load a GGUF file in a process of its own, and read what it logs.

The idea: the wheel of xllamacpp holds a built llama.cpp, the last digits of its version being the
build's number, and starts llama.cpp's server with given settings; the log says how large each cache
is. One process for each load: a failed assertion in llama.cpp ends the process it is in, and a
server that is told to stop before its loop began waits for that loop for ever. So the process is
ended from outside, as soon as the log says that the model is loaded, or that it is not.

Units: MiB with two digits after the point, as llama.cpp prints them.

Not here: what the sizes should be (attnscope/plan/engines/llamacpp.py), and the comparison
(test_plan_llamacpp.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

LOADED, FAILED = "model loaded", "exiting due to model loading error"
SECONDS = 120
ROLES = {"non-SWA": "full", "main": "full", "SWA": "sliding", "indexer": "indexer"}
"""llama.cpp's names of its caches, and ours."""
PREFIXES = {"ggml_type": "GGML_TYPE_", "llama_flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_"}
"""Enumerations, and how the names of their values begin."""

_ROLE = re.compile(r"creating +(\S+) KV cache")
_CELLS = re.compile(r"llama_kv_cache: size = +([\d.]+) MiB")
_STATES = re.compile(
    r"llama_memory_recurrent: size = .* R .*: +([\d.]+) MiB, S .*: +([\d.]+) MiB, P"
)
_BUFFER = re.compile(r"(?:KV|RS) buffer size = +([\d.]+) MiB")


class RefusedError(Exception):
    """llama.cpp did not load the model; the message is the end of its log, `said` all of it."""

    def __init__(self, said: str) -> None:
        super().__init__(said[-1500:])
        self.said = said


def load(path: Path, **settings: Any) -> str:
    """Load a model with llama.cpp and return its log.

    Args:
        settings: attributes of xllamacpp.CommonParams; a value of an enumeration by the end of its
            name (`cache_type_k="Q8_0"`, `flash_attn_type="DISABLED"`).

    Raises:
        RefusedError: the process ended, or fell silent, before the model was loaded.
    """
    command = [sys.executable, "-W", "error", __file__, str(path), json.dumps(settings)]
    said: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**os.environ, "GGML_NO_BACKTRACE": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            for line in process.stdout:
                said.append(line)
                if LOADED in line:
                    return "".join(said)
                if FAILED in line:
                    break
        finally:
            late.cancel()
            process.kill()
    raise RefusedError("".join(said))


def parts(said: str) -> dict[str, float]:
    """The sizes of the caches in a log: full, sliding, indexer, convolution, state; no empty ones.

    Raises:
        ValueError: they are not all of what the log says was allocated for caches.
    """
    found: dict[str, float] = {}
    role = "full"
    for line in said.splitlines():
        if match := _ROLE.search(line):
            role = ROLES[match[1]]
        elif match := _CELLS.search(line):
            found[role] = found.get(role, 0.0) + float(match[1])
        elif match := _STATES.search(line):
            found["convolution"], found["state"] = float(match[1]), float(match[2])
    allocated = [float(size) for size in _BUFFER.findall(said)]
    if abs(sum(allocated) - sum(found.values())) > 0.01 * len(found):
        raise ValueError(f"the log's caches {found} are not its buffers {allocated}")
    return {name: size for name, size in found.items() if size}


def _serve(path: str, settings: dict[str, Any]) -> None:
    """What the process does: start the server, and wait to be ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1
    # The context that is asked for and no smaller one, no trial run, and every line of the log.
    params.fit_params, params.warmup, params.verbosity = False, False, 4
    for name, value in settings.items():
        kind = type(getattr(params, name))
        if isinstance(value, str):
            value = kind[PREFIXES[kind.__name__] + value]
        setattr(params, name, value)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        # The log is written by a thread of its own, which is behind.
        threading.Event().wait(5)
        raise
    threading.Event().wait()
    del server


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
