"""Processes that are stopped by a signal at any time of their run."""

from __future__ import annotations

from random import Random

from fuzz.cases import Case, Draft
from fuzz.kinds.commands import material

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGKILL")
LINES: tuple[tuple[str, ...], ...] = (
    ("ingest", "log.csv", "-o", "out.parquet"),
    ("prices", "p.csv", "-o", "out.parquet"),
    ("characterize", "lab.parquet", "-o", "out.json", "-o", "out.csv"),
    ("pareto", "lab.parquet", "-o", "out.json"),
    ("sweep", "lab.parquet", "-o", "out.csv", "--resamples", "0"),
    ("simulate", "lab.parquet", "--policy", "srtf", "-o", "out.md", "--timeline", "time.parquet"),
    ("compare", "lab.parquet", "--policy", "fifo", "-o", "out.json"),
    ("synth", "--like", "lab.parquet", "--jobs", "2000", "-o", "out.parquet"),
    ("run", "s.toml", "-o", "made", "--cache", "cache"),
    ("report", "lab.parquet", "-o", "made", "--formats", "md,json", "--study", "simulate"),
)


def signals(rng: Random) -> Draft:
    """Draft a process and the signal that it gets."""
    line = rng.choice(LINES)
    signal = rng.choice(SIGNALS)
    case = Case("signals", f"{signal} {line[0]}", list(line), material(), signal=signal)
    case.delay_s = rng.choice((rng.uniform(0, 0.3), rng.uniform(0.2, 1.5), rng.uniform(0.5, 3)))
    case.written |= {"out.parquet", "out.json", "out.csv", "out.md", "time.parquet", "made"}
    case.written |= {"cache", "out.rejects.parquet"}
    if rng.random() < 0.5 and "out" in line[-1] and "made" not in line:
        case.old = {word: b"old" for word in line if word.startswith("out.")}
    return Draft(case)
