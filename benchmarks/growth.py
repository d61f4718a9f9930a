"""How the peak memory of a watched forward grows with the length, beside that of the plain one.

    python benchmarks/growth.py [--model smollm2] [--tokens 2048,4096,8192,16384]

Each figure is the resident peak of a process of its own. A straight line is fitted to peak against
tokens, and the largest deviation from it printed: what grew with T x T would not be on it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from gate import require

from attnscope.capture.timing import peak_bytes


def main() -> None:
    """Run the table and fit the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--tokens", default="2048,4096,8192,16384")
    parser.add_argument("--modes", default="plain,replace")
    given = parser.parse_args()
    require("core/test_core_memory.py")
    tokens = [int(part) for part in given.tokens.split(",")]
    peaks = {}
    for mode in given.modes.split(","):
        peaks[mode] = [peak_bytes(given.model, count, mode) for count in tokens]
        for count, peak in zip(tokens, peaks[mode], strict=True):
            print(f"{given.model} {mode:8s} {count:6d} tokens  {peak / 2**20:8.0f} MiB", flush=True)
        slope, start = np.polyfit(tokens, peaks[mode], 1)
        away = np.abs(np.polyval([slope, start], tokens) - peaks[mode]).max() / peaks[mode][-1]
        growth = np.polyfit(np.log(tokens), np.log(np.array(peaks[mode]) - 0.9 * start), 1)[0]
        print(
            f"{given.model} {mode:8s} line: {start / 2**20:.0f} MiB + {slope / 1024:.1f} KiB per "
            f"token, off by at most {away:.1%}; exponent of what grows {growth:.2f}"
        )
    if {"plain", "replace"} <= peaks.keys():
        for count, plain, watched in zip(tokens, peaks["plain"], peaks["replace"], strict=True):
            print(f"{given.model} {count:6d} tokens: watched / plain {watched / plain:.3f}")


if __name__ == "__main__":
    main()
