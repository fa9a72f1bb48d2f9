"""Gates of a document: conditions on the fields of all its studies.

A field is named as in the gates of a command, with the name of its study before it where several
studies have one: ``pareto.knee.mean_jct_s > 4h``.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.document.study import Gate, StudyResult
from gpuplan.cli.gates import NEXT_ERROR, GateFailed, judge


def judge_all(studies: Sequence[StudyResult], conditions: Sequence[str]) -> tuple[Gate, ...]:
    """Return what comes of each condition; raises nothing, so that documents can tell it."""
    return tuple(_gate(studies, condition) for condition in conditions)


def _gate(studies: Sequence[StudyResult], condition: str) -> Gate:
    try:
        holds, path, value = judge({study.name: study.results for study in studies}, condition)
    except UsageError as error:
        return Gate(condition, "error", str(error).removeprefix(f"--fail-if {condition!r}: "))
    if value is None:
        return Gate(condition, "unchecked", f"{path} has no value")
    return Gate(condition, "failed" if holds else "passed", f"{path} is {value:g}")


def raise_failed(gates: Sequence[Gate]) -> None:
    """End the program as its gates say, once everything has been written.

    Raises:
        GateFailed: a condition holds.
        UsageError: a condition names no field; the message also names those that hold.
    """
    failed = [
        f"gate tripped: {gate.condition} ({gate.detail})"
        for gate in gates
        if gate.state == "failed"
    ]
    wrong = [f"{gate.condition!r}: {gate.detail}" for gate in gates if gate.state == "error"]
    if wrong:
        next_step = "\n  next: correct the condition; the documents have been written"
        raise UsageError(NEXT_ERROR.join([*failed, *wrong]) + next_step)
    if failed:
        raise GateFailed(NEXT_ERROR.join(failed))
