"""What the templates of a page and of a comment say alike."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from typing import Any

from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.gates.gates import GateResult
from gpuplan.planner.requests.declaration import StudyDeclaration, declaration_of

STATES = {
    "passed": "passed",
    "failed": "failed",
    "warned": "warning",
    "unchecked": "not checked",
    "error": "invalid gate",
}
MOST_NAMED = 4
"""Studies named before a note that they share."""
WORST_FIRST = ("error", "failed", "warned", "unchecked", "passed")


@cache
def titles() -> dict[str, str]:
    """Return the heading of each study that a report can have, by its name, in their order."""
    return {study.name: study.title for study in _in_reports()}


def in_report_order() -> list[str]:
    """Return the names of the studies that a report can have, in the order of a usual report."""
    last = len(COMMANDS)
    places = {s.name: last if s.report_place is None else s.report_place for s in _in_reports()}
    return sorted(places, key=places.__getitem__)


def usual_for(*reasons: str) -> tuple[str, ...]:
    """Return the studies that a report has for one of these reasons where none is named."""
    return tuple(study.name for study in _in_reports() if study.usual_for in reasons)


def _in_reports() -> list[StudyDeclaration]:
    """Return what is declared of the studies that a report can have, by name."""
    declared = (declaration_of(name) for name in sorted(COMMANDS))
    return [study for study in declared if study is not None and study.title]


def title_of(study: StudyResult) -> str:
    """Return the heading of a study: what its command asks, and its name where that is another."""
    title = study.title or titles().get(study.command, study.command)
    return title if study.name == study.command else f"{title}: {study.name}"


def lead_of(study: StudyResult) -> tuple[str, str]:
    """Return the first sentence of a study's answer, and the others."""
    lead, *rest = re.split(r"(?<=\.) (?=[A-Z])", study.headline, maxsplit=1)
    return lead, "".join(rest)


def notes_of(document: Document) -> list[str]:
    """Return what the reader must know of the whole, or of several studies, each once."""
    where: dict[str, list[str]] = {}
    for study in document.studies:
        for warning in dict.fromkeys(study.warnings):
            where.setdefault(warning, []).append(study.name)
    shared = [
        f"{', '.join(names[:MOST_NAMED])}{_more(names)}: {warning}"
        for warning, names in where.items()
        if len(names) > 1
    ]
    return [*document.notes, *shared]


def _more(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return f" and {more} more" if more > 0 else ""


def own_notes_of(document: Document, study: StudyResult) -> list[str]:
    """Return what the reader must know of this study, and of no other."""
    elsewhere = {
        warning for other in document.studies if other is not study for warning in other.warnings
    }
    return [warning for warning in study.warnings if warning not in elsewhere]


def command_line(study: StudyResult) -> str:
    """Return what to type for this study alone."""
    return shlex.join(["gpuplan", study.command, *study.arguments])


def parameters_of(study: StudyResult) -> list[tuple[str, str]]:
    """Return every effective option with its value as JSON."""
    parameters: dict[str, Any] = study.contract["parameters"]
    return [(name, json.dumps(value, ensure_ascii=False)) for name, value in parameters.items()]


def gates_of(document: Document) -> list[tuple[GateResult, str]]:
    """Return the gates, the worst first, each with its state in words."""
    gates = sorted(document.gates, key=lambda gate: WORST_FIRST.index(gate.state))
    return [(gate, STATES[gate.state]) for gate in gates]


def state_of(document: Document) -> str:
    """Return the state of the worst gate; empty where there is none."""
    return gates_of(document)[0][0].state if document.gates else ""


def gates_verdict_of(document: Document) -> str:
    """Return one sentence on all gates; empty where there is none."""
    count = len(document.gates)
    if not count:
        return ""
    states = [gate.state for gate in document.gates]
    parts = [
        f"{states.count(state)} of {count} {_gates(count)} {STATES[state].removesuffix(' gate')}"
        for state in WORST_FIRST
        if state != "passed" and state in states
    ]
    if parts:
        return "; ".join(parts) + "."
    return "The gate passed." if count == 1 else f"All {count} gates passed."


def _gates(count: int) -> str:
    return "gate" if count == 1 else "gates"
