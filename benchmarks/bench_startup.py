"""Start-up: ``gpuplan --help`` against a bare import of the two packages it needs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.bars import Row

RUNS = 9


def seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def run() -> list[Row]:
    """Time both in turn, so that a drift of the machine's speed falls on both."""
    program = str(Path(sys.executable).with_name("gpuplan"))
    pairs = [
        (seconds(program, "--help"), seconds(sys.executable, "-c", "import typer, rich"))
        for _ in range(RUNS + 1)
    ][1:]
    ours, bare = (median(times) for times in zip(*pairs, strict=True))
    return [
        {
            "work": "gpuplan --help / import typer, rich",
            "ours_s": ours,
            "reference_s": bare,
            "ratio": median(a / b for a, b in pairs),
            "bar": "<= 3x",
        }
    ]


if __name__ == "__main__":
    print(run())
