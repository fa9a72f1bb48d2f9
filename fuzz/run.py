"""Run one case from its number and judge it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz import oracles
from fuzz.cases import Case, build
from fuzz.in_process import Outcome, run_inside
from fuzz.own_process import HANGS, run_outside
from fuzz.workspace import Place

FRAME = re.compile(r'File "[^"]*?/((?:analysis|cli|planner|simkit)/[^"]*)", line (\d+), in (\w+)')
ERROR = re.compile(r"^([\w.]*(?:Error|Exception|Panic\w*|Interrupt|Exit|Warning|Group))\b", re.M)
VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[\d.]+|/\S+")


@dataclass
class Result:
    """The outcome of one case.

    Attributes:
        number: of the case.
        kind: its kind.
        label: the format, command or situation.
        code: the exit code, as a number or as what happened instead of one.
        failures: rules broken, and how.
        signature: the same for failures of one cause.
        command: the command line.
        notes: the mutations.
        cpu_s: processor time.
    """

    number: int
    kind: str
    label: str
    code: str
    failures: list[tuple[str, str]] = field(default_factory=list)
    signature: str = ""
    command: str = ""
    notes: list[str] = field(default_factory=list)
    cpu_s: float = 0.0


def run_case(
    seed: int, number: int, place: Place, keep: frozenset[int] | None = None, kind: str = ""
) -> Result:
    """Build a case, run it in a folder and check the outcome."""
    case = build(seed, number, keep, kind)
    result = Result(number, case.kind, case.label, "", command=shown(case), notes=case.notes)
    place.now.write_text(json.dumps(asdict(result)), encoding="utf-8")
    place.lay_out(case)
    try:
        outcome, result.failures = _run(case, place)
        result.code = str(outcome.code)
        result.cpu_s = outcome.cpu_s
        if result.failures:
            result.signature = _signature(case, result, place)
    finally:
        place.clear()
    return result


def shown(case: Case) -> str:
    """Return the command line as a shell takes it."""
    line = shlex.join(["gpuplan", *case.arguments])
    return line.encode("utf-8", "backslashreplace").decode()


def save(seed: int, number: int, place: Place, keep: frozenset[int] | None, kind: str) -> Path:
    """Lay a case out and leave it there; return the folder."""
    case = build(seed, number, keep, kind)
    place.lay_out(case)
    return place.folder


def _run(case: Case, place: Place) -> tuple[Outcome, list[oracles.Failure]]:
    before = place.seen()
    if case.signal:
        return _stopped(case, place)
    limit = None
    if case.disk_kib is not None and place.disk is None:
        limit = case.disk_kib * 1024
    with place.readers(case):
        outcome = run_inside(case.arguments, place.folder, case.stdin, limit)
    for name in case.modes:
        (place.folder / name).chmod(0o755)
    found = oracles.failures(case, outcome, before, place.seen(), place.folder)
    reads = outcome.code == 0 and case.read_back and not found
    if reads and oracles.has_rows(case.arguments, place.folder):
        again = run_inside(case.read_back, place.folder)
        found += oracles.read_back(case.read_back, again)
    return outcome, found


def _stopped(case: Case, place: Place) -> tuple[Outcome, list[oracles.Failure]]:
    """Run a process that gets a signal; after SIGKILL the next run must clean up and work."""
    import signal

    number = int(getattr(signal, case.signal))
    before = place.seen()
    outcome = run_outside(case.arguments, place.folder, case.signal, case.delay_s)
    if outcome.code == HANGS:
        return outcome, [("hang", f"after {case.signal}")]
    ended = (130,) if case.signal == "SIGINT" else (-number, 128 + number)
    killed = case.signal == "SIGKILL" and outcome.code == -number
    found = list(oracles.said(case, outcome, (0, 1, *ended)))
    after = place.seen()
    partial = [name for name in before.new(after) if oracles.PARTIAL.search(name)]
    whole = [
        failure
        for failure in oracles.left(case, True, outcome.err, before, after, place.folder)
        if not (killed and failure[0] == "a partial file is left")
    ]
    found += whole
    if outcome.code in (0, 1) or found:
        return outcome, found
    if partial and not killed:
        found.append(("a partial file is left", partial[0]))
    again = run_outside(case.arguments, place.folder)
    found += [(f"the next run: {rule}", how) for rule, how in oracles.said(case, again, (0, 1))]
    found += [
        (f"the next run: {rule}", how)
        for rule, how in oracles.left(case, True, again.err, before, place.seen(), place.folder)
    ]
    return outcome, found


def _signature(case: Case, result: Result, place: Place) -> str:
    """Return what failures of one cause have in common: the error and where it was raised."""
    rule, how = result.failures[0]
    if "exit code 70" not in rule and "noise" not in rule:
        what = VARIES.sub("_", how)[:80]
        return f"{result.kind}: {rule}: {what}"
    if case.signal:
        return f"{rule}: {VARIES.sub('_', how)[:80]}"
    line = [*case.arguments, "--debug"]
    if rule.split()[0] in ("characterize", "pareto", "sweep", "simulate", "compare", "synth"):
        line = [*case.read_back, "--debug"]
    elif "--" in case.arguments:
        at = case.arguments.index("--")
        line = [*case.arguments[:at], "--debug", *case.arguments[at:]]
    if line[0] != case.arguments[0]:
        run_inside(case.arguments, place.folder, case.stdin)
    else:
        place.lay_out(case)
    err = run_inside(line, place.folder, case.stdin).err.decode(errors="replace")
    frames = FRAME.findall(err)
    errors = ERROR.findall(err)
    if not frames:
        return f"{rule}: {VARIES.sub('_', how)[:80]}"
    file, number, function = frames[-1]
    return f"{errors[-1] if errors else rule} at {file}:{number} in {function}"
