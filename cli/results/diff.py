"""The results of ``gpuplan diff``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuplan.cli.gates.gates import GateOutcome


@dataclass(frozen=True, slots=True)
class DiffParameters:
    """How two documents are compared.

    Attributes:
        tolerance: a number has changed where it differs by more than this fraction.
        top: rows shown in a table, beside those that matter.
    """

    tolerance: float
    top: int


@dataclass(frozen=True, slots=True)
class ChangedNumber:
    """A number that differs.

    Attributes:
        about: workload, cost or completion time; null for numbers about something else.
        study: its study; null where there is one only.
        field: its path, with its rows in brackets.
        old, new: in the two documents; null without a value.
        change: new less old; null without one of the two.
        change_share: of the old value; null also where that is 0.
        unit: of the values; null for counts and ratios.
    """

    about: str | None
    study: str | None
    field: str
    old: float | None
    new: float | None
    change: float | None
    change_share: float | None
    unit: str | None


@dataclass(frozen=True, slots=True)
class ChangedText:
    """An answer or an option that differs.

    Attributes:
        study: its study; null where there is one only.
        name: of the field or option.
        old, new: in the two documents, an option as JSON; null where a document has none.
    """

    study: str | None
    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class LoneRow:
    """A row or a study that one of the documents lacks.

    Attributes:
        study: its study; null where there is one only.
        name: of the row; empty for the whole study.
        side: the document that has it.
    """

    study: str | None
    name: str
    side: Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class DiffResults:
    """What differs between two documents.

    Attributes:
        of: the command that made both.
        same_inputs: whether both come from the same bytes.
        tolerance_share: a number has changed where it differs by more than this fraction.
        numbers: that either document has.
        changed: of these, those that differ.
        changes: the numbers that differ, in rows that both documents have.
        answers: the texts that differ.
        asked: the inputs, options and versions that differ.
        only: rows and studies that one of the documents lacks.
        gates: the conditions on changes.
    """

    of: str
    same_inputs: bool
    tolerance_share: float
    numbers: int
    changed: int
    changes: tuple[ChangedNumber, ...]
    answers: tuple[ChangedText, ...]
    asked: tuple[ChangedText, ...]
    only: tuple[LoneRow, ...]
    gates: tuple[GateOutcome, ...]
