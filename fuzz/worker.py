"""A process that runs cases by the numbers on its standard input, one at a time."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from fuzz.run import run_case, save
from fuzz.workspace import Place

MOST_MEMORY = 6 << 30


def main() -> None:
    """Answer requests until standard input ends."""
    base, disk = Path(sys.argv[1]), sys.argv[2]
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:  # programs started here would ignore it too
            signal.signal(number, lambda *_: None)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    place = Place(base, Path(disk) if disk else None)
    warm(place)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.RLIM_INFINITY))
    answers.write("ready\n")
    for line in requests:
        document = json.loads(line)
        keep = None if document["keep"] is None else frozenset(document["keep"])
        which = (document["seed"], document["number"], place, keep, document["kind"])
        try:
            answer = {"folder": str(save(*which))} if document["save"] else asdict(run_case(*which))
        except Exception:  # a bug of the fuzzer, not of gpuplan
            answer = {"bug": f"case {document['number']}: {traceback.format_exc()}"}
        answers.write(json.dumps(answer) + "\n")


def warm(place: Place) -> None:
    """Import everything and load or compile every kernel, so that no case waits for that."""
    from fuzz.cases import Case
    from fuzz.corpus import job_logs, price_lists
    from fuzz.in_process import run_inside
    from fuzz.kinds.commands import ON_KUEUE, material
    from fuzz.kinds.files import USES
    from fuzz.kinds.subjects import SUBJECTS
    from fuzz.kinds.tables import LINES
    from gpuplan.planner.registry import POLICIES

    job_logs()
    price_lists()
    files = {**material(), "t.parquet": material()["rich.parquet"]}
    place.lay_out(Case("", "", files=files))
    policies = sorted(POLICIES)
    lines = [
        *LINES,
        *(line for _, line in USES if line[0] not in ("ingest", "diff")),
        *(("simulate", "lab.parquet", "--policy", name) for name in policies),
        *(("simulate", "lab.parquet", "--policy", name, "--gpus", "8") for name in policies),
        ("characterize", "lab.parquet", "--plot", "plot.svg"),
        ("pareto", "lab.parquet", "--ci", "90", "--sensitivity", "--max-gpus", "64"),
        ("pareto", "lab.parquet", "--baseline", "all", "--overflow", "squeeze", "--max-gpus", "9"),
        ("compare", "lab.parquet", "--policy", "fifo", "--prices", "builtin"),
        *((command, *words) for command, words in ON_KUEUE.items()),
    ]
    for line in lines:
        run_inside(list(line), place.folder)
    for kind, subject in SUBJECTS.items():
        place.lay_out(Case(kind, "", files=subject.files()))
        for line in subject.lines:
            run_inside(list(line), place.folder)
    place.clear()


if __name__ == "__main__":
    main()
