"""The results of ``gpuplan diff``, ``list`` and ``run --list``, and what ``report.json`` adds.

They are dataclasses as JSON has them; those of studies are in `gpuplan.planner.studies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

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
        is_per_month: whether the dollars of the change are of a month: the logs differ in length.
        change: price, calendar, volume, mix and idle, by label and GPU type.
    """

    study: str | None
    by: str
    is_per_month: bool
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


@dataclass(frozen=True, slots=True)
class ListParameters:
    """What was asked for.

    Attributes:
        name: the one to list; absent where all of a kind are.
    """

    name: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ListedFormat:
    """A format of job logs or price tables.

    Attributes:
        name: for ``--source-format``.
        description: what it is.
        source: where it is described.
        command: the command that reads it.
        package: the installed package that adds it; null for what is built in.
    """

    name: str
    description: str
    source: str
    command: str
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedSetting:
    """A setting of a policy.

    Attributes:
        setting: its name, for ``--set``.
        about: what it is.
        kind: of its values.
        unit: of its values; null without one.
        default: its value where it is not set.
        choices: its only values; empty where others are allowed.
        unlimited: whether it may be ``none`` for no limit.
    """

    setting: str
    about: str
    kind: str
    unit: str | None
    default: Any
    choices: tuple[str, ...]
    unlimited: bool


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A policy.

    Attributes:
        policy: its name, for ``--policy``.
        about: what it does.
        source: where it is described.
        settings: in their order.
        package: the installed package that adds it; null for what is built in.
    """

    policy: str
    about: str
    source: str
    settings: tuple[ListedSetting, ...]
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedSpeedup:
    """A speedup function, or measured speedups.

    Attributes:
        name: for ``--speedup``.
        description: what it is.
        source: where it is described or was measured.
        as_of: its date.
        package: the installed package that adds it; null for what is built in.
    """

    name: str
    description: str
    source: str
    as_of: str
    package: str | None


@dataclass(frozen=True, slots=True)
class ListedMethod:
    """A planning method.

    Attributes:
        name: for ``--method``.
        about: what it does.
        source: where it is described.
    """

    name: str
    about: str
    source: str


@dataclass(frozen=True, slots=True)
class ListedBaseline:
    """A baseline of ``gpuplan pareto``.

    Attributes:
        name: for ``--baseline``.
        about: what it does.
        knob: the parameter it is replayed at several values of; null without one.
        source: where it is described.
    """

    name: str
    about: str
    knob: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """The price of a GPU at a provider.

    Attributes:
        provider: its name.
        category: of the provider.
        gpu_type: the GPU.
        kind: of the price, such as on demand.
        usd_per_gpu_h: the typical price; null where not known.
        least_usd_per_gpu_h, most_usd_per_gpu_h: the range; null where not known.
        startup_s: mean time until a GPU is ready; null where not measured.
        source: where the price is from.
        as_of: its date.
    """

    provider: str
    category: str
    gpu_type: str
    kind: str
    usd_per_gpu_h: float | None
    least_usd_per_gpu_h: float | None
    most_usd_per_gpu_h: float | None
    startup_s: float | None
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class ListResults:
    """What there is of one kind; the fields of the others are absent."""

    formats: tuple[ListedFormat, ...] | UnsetType = UNSET
    policies: tuple[ListedPolicy, ...] | UnsetType = UNSET
    speedups: tuple[ListedSpeedup, ...] | UnsetType = UNSET
    methods: tuple[ListedMethod, ...] | UnsetType = UNSET
    baselines: tuple[ListedBaseline, ...] | UnsetType = UNSET
    providers: tuple[ListedPrice, ...] | UnsetType = UNSET
