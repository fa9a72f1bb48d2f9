"""Gates of a document, and what a CI service shows: tripped gates and the results as a summary.

Gates are conditions on the fields of studies; see `gpuplan.cli.gates.gates`. Nothing shown to a
service is needed for a result or an exit code, and without its variables nothing is done. GitHub
(also Gitea and Forgejo): a gate that trips is an ``::error`` command, and the Markdown is appended
to the step's summary. GitLab: the gates are a section of the job's log; what its merge requests
show comes from ``junit.xml``. Docs: docs/gates.md.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpuplan.analysis.base.errors import GpuplanError
from gpuplan.analysis.base.words import listed
from gpuplan.cli.app import messages
from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.documents.view import STATES
from gpuplan.cli.documents.write import TEXTS
from gpuplan.cli.formats import escape
from gpuplan.cli.formats.render import pipe_table
from gpuplan.cli.gates.gates import NEXT_ERROR, GateResult, check_all, raise_tripped

WRITTEN, PRINTED = "the documents have been written", "the result has been printed"


class StudiesFailed(GpuplanError):
    """Studies could not be made; the program ends as for the first alone."""

    def __init__(self, problems: Sequence[GpuplanError], written: str) -> None:
        """Take what went wrong, the studies first, and what there is anyway."""
        super().__init__(NEXT_ERROR.join([*dict.fromkeys(map(str, problems)), written]))
        self.exit_code = problems[0].exit_code


def judge_all(
    studies: Sequence[StudyResult], conditions: Sequence[str], missing: Sequence[str] = ()
) -> tuple[GateResult, ...]:
    """Return what comes of each condition; raises nothing, so that documents can tell it.

    Args:
        studies: that were made.
        conditions: as given.
        missing: studies that could not be made, of which no condition can be checked.
    """
    results = {study.name: study.results for study in studies}
    commands = {study.name: study.command for study in studies}
    gates = check_all(results, conditions, commands)
    return tuple(_of_missing(gate, missing) if gate.state == "error" else gate for gate in gates)


def _of_missing(gate: GateResult, missing: Sequence[str]) -> GateResult:
    """Return a gate without a field as one that is not checked, where its study is missing."""
    study = next((name for name in missing if gate.condition.strip().startswith(f"{name}.")), None)
    if study is None:
        return gate
    return replace(gate, path=study, detail=f"the study {study} could not be made")


def raise_failed(gates: Sequence[GateResult], *, is_written: bool = True) -> None:
    """End the program as its gates say, once everything has been written.

    Raises:
        GateFailed: a condition holds.
        UsageError: a condition names no field; the message also names those that hold.
    """
    raise_tripped(gates, written=WRITTEN if is_written else PRINTED, given_as="gate")


def conclude(document: Document, *, is_written: bool = True) -> None:
    """Tell the CI service of the gates, if there is one; then end the program as they say.

    Raises:
        GateFailed, UsageError: as `raise_failed`.
        StudiesFailed: studies could not be made; the message has the gates too.
    """
    announce(document.gates, lambda: TEXTS["md"](document))
    problems = [*document.failed.values()]
    try:
        raise_failed(document.gates, is_written=is_written)
    except GpuplanError as error:
        if not problems:
            raise
        problems.append(error)
    if problems:
        written = WRITTEN if is_written else PRINTED
        raise StudiesFailed(problems, f"{written} without {listed([*document.failed])}")


MOST_SUMMARY_BYTES = 1 << 20
"""GitHub drops the summary of a step above this."""


def announce(
    gates: Sequence[GateResult],
    markdown: Callable[[], str],
    *,
    environment: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> None:
    """Tell the CI service, where its variables say that there is one.

    Args:
        gates: what came of each condition; may be none.
        markdown: makes the text for the summary of a step, where there is one.
        environment: the variables.
        clock: seconds since 1970, which GitLab wants for the sections of its log.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        _say("".join(_github(gate) for gate in gates))
    if environment.get("GITLAB_CI") == "true" and gates:
        _say(_gitlab(gates, int(clock())))
    summary = environment.get("GITHUB_STEP_SUMMARY")
    if summary:
        _append(Path(summary), markdown())


def gates_table(gates: Sequence[GateResult]) -> str:
    """Return the gates in Markdown."""
    rows = [(gate.condition, STATES[gate.state], gate.detail) for gate in gates]
    return "### Gates\n\n" + pipe_table(["gate", "result", "found"], [False] * 3, rows)


def _github(gate: GateResult) -> str:
    if gate.state == "passed":
        return ""
    level = "error" if gate.fails else "warning"
    state = "invalid gate" if gate.state == "error" else f"gate {STATES[gate.state]}"
    title = escape.annotation_property(f"gpuplan {state}")
    return f"::{level} title={title}::{escape.annotation(f'{gate.condition} ({gate.detail})')}\n"


def _gitlab(gates: Sequence[GateResult], now: int) -> str:
    """Return the gates as a section of a log, folded where none needs a look."""
    bad = [gate for gate in gates if gate.state != "passed"]
    conditions = "".join(f"{gate.condition}\n" for gate in gates)
    # The name differs between the commands of a job.
    name = f"gpuplan_gates_{zlib.crc32(conditions.encode()):08x}"
    folded = "" if bad else "[collapsed=true]"
    heading = f"gpuplan gates: {len(gates) - len(bad)} of {len(gates)} passed"
    lines = [f"{STATES[gate.state]}: {gate.condition} ({gate.detail})" for gate in gates]
    body = "".join(f"{escape.terminal(line)}\n" for line in lines)
    return (
        f"\x1b[0Ksection_start:{now}:{name}{folded}\r\x1b[0K{heading}\n{body}"
        f"\x1b[0Ksection_end:{now}:{name}\r\x1b[0K\n"
    )


def _say(text: str) -> None:
    # Standard output carries the result alone; both services read commands from either stream.
    with suppress(OSError):  # nobody reads it there
        sys.stderr.write(text)
        sys.stderr.flush()


def _append(path: Path, markdown: str) -> None:
    """Append to the summary of a step; what goes wrong there does not fail the job."""
    added = f"{markdown.rstrip()}\n\n".encode()
    try:
        size = path.stat().st_size if path.exists() else 0
        if size + len(added) > MOST_SUMMARY_BYTES:
            messages.warn(f"the step summary has no room for {len(added):,} bytes; left out")
            return
        with path.open("ab") as stream:
            stream.write(added)
    except OSError as error:
        messages.warn(f"the step summary {path} cannot be written: {error.strerror}")
