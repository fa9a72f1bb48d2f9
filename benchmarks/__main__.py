"""Run the benchmarks and print their tables: ``python -m benchmarks [NAME...] [--write FILE]``.

Every ``bench_NAME.py`` in this folder is one: the first line of its docstring is its title, the
rest its notes, ``run()`` its rows. With ``--write`` the page is written once all of them have run.
The exit code is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from benchmarks.bars import Row, missed
from gpuplan.cli.app.console import limit_threads

NAMES = tuple(sorted(path.stem[6:] for path in Path(__file__).parent.glob("bench_*.py")))
VERSIONED = ("numpy", "polars", "numba", "pyarrow", "scipy")
HEAD = "| work | ours | reference | ratio | bar | peak |\n|---|---:|---:|---:|---|---:|"
INTRO = """# Performance

`make bench` wrote this page on {date}, at commit {commit}, in {minutes:.0f} min.
Python {python} on {cores} cores ({machine}), {versions}.

Ratios are taken in one run. Absolute times differ between machines, and on a shared one from hour
to hour: between the sections a plain loop over {count:,} integers took {fastest:.2g} to
{slowest:.2g} s. Times are wall clock unless a row says CPU. Kernels are compiled before the clock
starts, unless a row says otherwise. A bar in bold was missed. `python -m benchmarks NAME` runs one
section.
"""
COUNTED = 20_000_000
"""Integers of the loop that tells how fast the machine is."""


def seconds(value: float | None) -> str:
    """Return a time with three digits and its unit."""
    if value is None:
        return ""
    return f"{1000 * value:.3g} ms" if value < 0.1 else f"{value:.3g} s"


def line(row: Row) -> str:
    """Return a row of the table; a bar that it misses is bold."""
    bar = "" if row["bar"] in ("-", "none") else row["bar"]
    if missed(row):
        bar = f"**missed: {bar}**"
    ratio, peak = row.get("ratio"), row.get("peak_mb")
    cells = (
        row["work"],
        seconds(row["ours_s"]),
        seconds(row.get("reference_s")),
        "" if ratio is None else f"{ratio:.3g}",
        bar,
        "" if peak is None else f"{peak:,.0f} MB",
    )
    return f"| {' | '.join(cells)} |"


def section(name: str, bench: ModuleType, rows: list[Row]) -> str:
    """Return the title, the table and the notes of one benchmark."""
    title, _, notes = (bench.__doc__ or name).strip().partition("\n")
    table = "\n".join([HEAD, *(line(row) for row in rows)])
    text = f"\n\n{notes.strip()}" if notes.strip() else ""
    return f"## {title.rstrip('.')} (`{name}`)\n\n{table}{text}\n"


def loop_s() -> float:
    """Return how long a loop in plain Python takes, in seconds: how fast the machine is now."""
    began, total = time.perf_counter(), 0
    for number in range(COUNTED):
        total += number
    return time.perf_counter() - began


def intro(minutes: float, loops_s: Sequence[float]) -> str:
    """Return the head of the page: when, what and where was measured, and how evenly."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return INTRO.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=commit.stdout.strip() or "unknown",
        python=platform.python_version(),
        cores=os.cpu_count(),
        machine=platform.machine(),
        versions=", ".join(f"{package} {version(package)}" for package in VERSIONED),
        minutes=minutes,
        count=COUNTED,
        fastest=min(loops_s),
        slowest=max(loops_s),
    )


def measured(names: list[str], failed: list[str], loops_s: list[float]) -> Iterator[str]:
    """Run benchmarks; yield and print the section of each.

    Args:
        names: of the benchmarks.
        failed: takes the bars that are missed.
        loops_s: takes the time of a plain loop after each.
    """
    # Import all first: a broken import then fails before anything is measured.
    modules = {name: importlib.import_module(f"benchmarks.bench_{name}") for name in names}
    for name, bench in modules.items():
        rows = bench.run()
        failed += [f"{row['work']}: missed {bar}" for row in rows for bar in missed(row)]
        loops_s.append(loop_s())
        text = section(name, bench, rows)
        print(text, flush=True)
        yield text


def main() -> None:
    """Run the benchmarks named, or all."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure the speed bars.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page of all of them")
    chosen = parser.parse_args()
    if chosen.write and chosen.names:
        parser.error("--write takes all benchmarks, so name none")
    limit_threads()
    failed: list[str] = []
    loops_s = [loop_s()]
    began = time.monotonic()
    page = list(measured(chosen.names or list(NAMES), failed, loops_s))
    if chosen.write:
        head = intro((time.monotonic() - began) / 60, loops_s)
        chosen.write.write_text("\n".join([head, *page]), encoding="utf-8")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
