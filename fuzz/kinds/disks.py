"""Disks that are full after some KiB, and folders that cannot be written."""

from __future__ import annotations

from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.kinds.commands import complete, fresh, material, names_of
from fuzz.options import options_of

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("ingest", "log.csv"),
    ("prices", "p.csv"),
    ("characterize", "lab.parquet", "-o", "disk/out.json"),
    ("characterize", "lab.parquet", "-o", "disk/out.md", "--plot", "disk/plot.svg"),
    ("pareto", "lab.parquet", "-o", "disk/out.csv", "--no-replay"),
    ("pareto", "lab.parquet", "-o", "disk/out.parquet"),
    ("sweep", "lab.parquet", "-o", "disk/out.csv", "--resamples", "0", "--threshold", "60"),
    ("simulate", "lab.parquet", "--policy", "fifo", "--timeline", "disk/time.parquet"),
    ("compare", "lab.parquet", "--policy", "fifo", "-o", "disk/out.md", "-o", "disk/out.json"),
    ("diff", "sweep1.json", "sweep2.json", "-o", "disk/out.md", "--junit", "disk/junit.xml"),
    ("synth", "--like", "lab.parquet", "--jobs", "40", "--save-model", "disk/model.json"),
    ("init", "disk/s.toml"),
    ("run", "s.toml", "-o", "disk/made", "--cache", "disk/cache"),
    ("run", "s.toml", "--cache", "disk/cache"),
    (
        "report",
        "lab.parquet",
        "-o",
        "disk/made",
        "--formats",
        "md,json,html",
        "--study",
        "characterize",
    ),
    ("list", "formats", "-o", "disk/out.csv"),
)


def disks(rng: Random) -> Draft:
    """Draft a run of a command that writes to a full or a read-only place."""
    line = rng.choice(COMMANDS)
    command = line[0]
    case = Case("disks", command, list(line), material(), folders=["disk"])
    case.written |= {one for word in line if "disk/" in word for one in names_of(word)}
    case.written |= {"made", "disk/made", "disk/cache"}

    def full(case: Case, rng: Random) -> str:
        case.disk_kib = rng.choice((0, 0, 4, 4, 8, 12, 16, 20, 32, 64))
        return f"leave {case.disk_kib} KiB"

    def read_only(case: Case, rng: Random) -> str:
        case.modes["disk"] = 0o555
        return "make the folder read-only"

    def old(case: Case, rng: Random) -> str:
        for name in sorted(case.written):
            if "." in name and "rejects" not in name:
                case.old[name] = b"old"
        return "older outputs are there"

    steps: list[Step] = [full if rng.random() < 0.75 else read_only]
    if rng.random() < 0.4 and command != "init":
        steps.append(old)

    def finish(case: Case, rng: Random) -> None:
        for option in options_of(command):
            if option.required and option.writes and not {"-o", "--output"} & set(case.arguments):
                value = f"disk/{fresh(command, option.flag, rng)}"
                case.arguments += [option.flag, value]
                case.written |= names_of(value)
        complete(case, command, rng)

    return Draft(case, steps, finish)
