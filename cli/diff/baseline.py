"""Gates of a report on what changed since an earlier one: ``report --baseline``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuplan.cli.diff.changes import compare
from gpuplan.cli.diff.gates import check_changes
from gpuplan.cli.diff.read import Version, check_comparable, read_version
from gpuplan.cli.documents.contract import as_json
from gpuplan.cli.documents.gates import judge_all
from gpuplan.cli.documents.study import Document
from gpuplan.cli.gates.conditions import parse_condition
from gpuplan.cli.gates.gates import GateResult


def read_baseline(path: Path) -> Version:
    """Read an earlier ``report.json``, or the JSON output of one command, as a study of its name.

    Raises:
        InputError: the file is neither.
    """
    found = read_version(path)
    studies = {name or found.command: study for name, study in found.studies.items()}
    return replace(found, command="report", studies=studies)


def judge_since(
    baseline: Version | None, document: Document, conditions: Sequence[str]
) -> tuple[GateResult, ...]:
    """Return the outcome of each condition.

    With a baseline, a condition whose value has a sign (``> +10%``) is on the change since then.

    Raises:
        InputError: a study of the baseline is of another command than here.
    """
    if baseline is None:
        return judge_all(document.studies, conditions)
    written = json.loads(as_json(document))
    studies = {study["name"]: study for study in written["studies"]}
    now = Version(Path("this report"), "", "report", studies, written["gpuplan_version"])
    check_comparable(baseline, now)
    changes = compare(baseline, now)
    return tuple(
        gate
        for one in conditions
        for gate in (
            check_changes(changes, [one])
            if parse_condition(one).is_signed
            else judge_all(document.studies, [one])
        )
    )
