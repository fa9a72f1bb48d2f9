"""Run the benchmarks and print one table: ``python -m benchmarks [NAME...]``.

The exit code is 1 where a bar is missed.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys

from benchmarks.bars import missed
from gpuplan.cli.app.console import limit_threads

NAMES = (
    "startup",
    "ingest",
    "characterize",
    "scale",
    "fits",
    "coverage",
    "boa",
    "boa_epochs",
    "boa_replay",
    "rounds",
    "fft",
    "pareto",
    "allpass",
    "cluster",
    "size",
    "lending",
    "twin",
    "report",
)


def cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    limit_threads()
    chosen = sys.argv[1:] or NAMES
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n")
    print("| work | ours, s | reference, s | ratio | bar | peak, MB |")
    print("|---|---|---|---|---|---|")
    failed = []
    for name in chosen:
        for row in importlib.import_module(f"benchmarks.bench_{name}").run():
            print(
                f"| {row['work']} | {cell(row['ours_s'], '.3g')} "
                f"| {cell(row.get('reference_s'), '.3g')} | {cell(row.get('ratio'), '.3g')} "
                f"| {row['bar']} | {cell(row.get('peak_mb'), '.4g')} |",
                flush=True,
            )
            failed += [f"{row['work']}: missed {bar}" for bar in missed(row)]
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
