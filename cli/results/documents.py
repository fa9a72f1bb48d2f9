"""The results of ``gpuplan diff`` and ``gpuplan run --list``, and what ``report.json`` adds.

They are dataclasses as JSON has them; those of studies are in `gpuplan.planner.studies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.gates.gates import GateOutcome
from gpuplan.planner.money.bill_results import ChangeResults

ISO_TIME = Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")


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
class ChangedBill:
    """What changed between two bills, as `gpuplan bill --months A,B` says it of two months.

    Attributes:
        study: its study; null where there is one only.
        by: what both bills are split by.
        change: price, calendar, volume, mix and idle, by label and GPU type.
    """

    study: str | None
    by: str
    change: ChangeResults


@dataclass(frozen=True, slots=True)
class DiffResults:
    """What differs between two documents.

    Attributes:
        of: the command that made both.
        same_inputs: whether both come from the same bytes.
        tolerance_share: a number has changed where it differs by more than this fraction.
        numbers: that either document has.
        changed: of these, those that differ.
        changes: the numbers that differ, in rows that both documents have; a row of a bill that
            one of them lacks is $0 there.
        answers: the texts that differ.
        asked: the inputs, options and versions that differ.
        bills: what changed between two bills.
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
    bills: tuple[ChangedBill, ...]
    only: tuple[LoneRow, ...]
    gates: tuple[GateOutcome, ...]


@dataclass(frozen=True, slots=True)
class ReportedStudy:
    """What a study of a report has besides the JSON output of its command.

    Attributes:
        name: what the report and its gates call it.
        arguments: that its command was given.
        headline: the answer.
    """

    name: Annotated[str, Meta(pattern=r"^\w+$")]
    arguments: tuple[str, ...]
    headline: str


@dataclass(frozen=True, slots=True)
class ReportResults:
    """A report without its studies.

    Attributes:
        title: what it is about.
        time: when it was made, where that was asked for.
        inputs: the files that its studies read, each once.
        gates: the conditions on its studies.
        warnings: about the report as a whole.
        gpuplan_version: that made the results.
    """

    title: str
    time: Annotated[str, ISO_TIME] | None
    inputs: tuple[InputFile, ...]
    gates: tuple[GateOutcome, ...]
    warnings: tuple[str, ...]
    gpuplan_version: str


@dataclass(frozen=True, slots=True)
class RunParameters:
    """What was asked for: the scenario file says it."""


@dataclass(frozen=True, slots=True)
class RunWorkload:
    """The jobs of a scenario.

    Attributes:
        trace: the trace or log.
        made_by: the command that makes it, with its arguments; empty where it is there already.
    """

    trace: str
    made_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedStudy:
    """A study that would run.

    Attributes:
        name: what documents and gates call it.
        command: that it runs.
        arguments: of the command.
        cached: whether its result is there already.
    """

    name: str
    command: str
    arguments: tuple[str, ...]
    cached: bool


@dataclass(frozen=True, slots=True)
class RunResults:
    """What would run.

    Attributes:
        workload: the jobs.
        studies: in the order of the scenario.
        gates: the conditions on the results.
    """

    workload: RunWorkload
    studies: tuple[PlannedStudy, ...]
    gates: tuple[str, ...]
