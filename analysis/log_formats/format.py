"""What makes a log format: a name, the signs it is recognized by, and a plan for its rows."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.memo import ColumnMemo
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.unreadable import header_error

NAME_COLUMNS = (
    "name its columns: --source-format csv --map submit_time=COLUMN --map num_gpus=COLUMN ..."
)
LOST = "lost"
"""Column of a side table: whether a row of this key is rejected."""


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """The user's options about logs of Kubernetes.

    Attributes:
        gpu_resources: more resources that are GPUs (``--gpu-resource``).
        user_label: label or annotation that names the user (``--user-label``).
        node_types: JSON with the GPU type of nodes (``--node-types``).
        include_cpu: whether pods without GPUs are jobs (``--include-cpu``).
        gang: whether the pods of a plain Job are one job (``--gang job``) or one each (``pod``);
            None where the log decides.
        metrics: name of a metric -> file whose series have no name (``--metric``).
    """

    gpu_resources: tuple[str, ...] = ()
    user_label: str | None = None
    node_types: Path | None = None
    include_cpu: bool = False
    gang: str | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The user's options about the sources.

    Attributes:
        columns: canonical column -> source column, or an expression over them (``--map``).
        time_zone: zone of times without an offset (``--time-zone``).
        throughputs: table of steps per second (``--throughputs``).
        worker_type: the one of its worker types that jobs run on (``--worker-type``).
        own_durations: whether to use the log's own column instead of end - start (``--duration``).
        keep: source columns that the trace has too (``--keep``).
        is_forced: whether the user named the format (``--source-format``).
        scheduler: whether to keep the fields of the scheduler (``--twin``); None for what the
            format does by default.
        values: canonical column -> word of the log in lower case -> value (``--map-value``).
        kubernetes: what only logs of Kubernetes need.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    time_zone: str | None = None
    throughputs: Path | None = None
    worker_type: str | None = None
    own_durations: bool = False
    keep: tuple[str, ...] = ()
    is_forced: bool = False
    scheduler: bool | None = None
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kubernetes: KubernetesOptions = field(default_factory=KubernetesOptions)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a format knows of a source when it makes its plan.

    Attributes:
        head: the first bytes.
        columns: names of the source columns.
        sample: cells of a few first rows.
        number: position of the source among all of them, from 0.
        choices: the user's options.
        side_rows: name -> rows of the side tables given, one per key (see `SideTable`).
        memo: what an earlier pass over the same rows computed of a column.
    """

    head: Head
    columns: tuple[str, ...]
    sample: Sequence[Mapping[str, str | None]]
    number: int
    choices: IngestOptions
    side_rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    memo: ColumnMemo = field(default_factory=ColumnMemo)


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table of a log besides its jobs, with more facts about them.

    Its rows are not jobs: they count only where they are rejected.

    Attributes:
        name: the name of the table.
        key: source column, and field of its plan, that links a row to its jobs.
        plan: returns how to read its rows, with a schema of its own.
        per_key: reduces rows to one per key. It gets rows of the plan's schema and of what it has
            returned, with `LOST`: true where a row of this key is rejected.
    """

    name: str
    key: str
    plan: Callable[[SourceContext], ReadingPlan]
    per_key: Callable[[pl.DataFrame], pl.DataFrame]


def no_side_table(head: Head) -> SideTable | None:
    """Return None: the sources of most formats are jobs."""
    return None


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A log format.

    Attributes:
        name: what ``--source-format`` takes.
        description: one line for lists.
        source: where such a log comes from.
        recognizes: returns the evidence that a file is of this format, or None.
        plan: returns how the rows of a source become jobs. Raises `InputError` if they cannot.
        open: brings a source into columns.
        takes_zone: whether its times may be local, so that ``--time-zone`` applies.
        takes_columns: whether the user names its columns with ``--map``.
        takes_throughputs: whether it has steps, which ``--throughputs`` turns into durations.
        keeps: columns of `OWN_COLUMNS` that its traces have.
        has_durations: whether it has durations besides starts and ends, for ``--duration``.
        jobs_table: name of the table with the jobs, in a log of several tables.
        side_table: returns the side table that a source is; None where its rows are jobs.
        columns: required columns of a CSV log, to suggest the nearest format; empty for others.
        kept: returns the columns that a trace keeps besides the canonical ones, given the columns
            of a source and the user's options.
        has_scheduler: whether it records fields of a scheduler, such as limits and partitions.
        has_runs: whether several rows may be runs of one job, which its traces then keep.
        open_all: opens all sources of a log at once, as objects of one may tell of another's jobs;
            one `Rows` per source. ``open`` is that of a source alone.
        kubernetes: the fields of `KubernetesOptions` that it reads.
        may_be_empty: whether a source without jobs is an answer, and not a mistake.
    """

    name: str
    description: str
    source: str
    recognizes: Callable[[Head], str | None]
    plan: Callable[[SourceContext], ReadingPlan]
    open: Callable[[SourceStream], Rows] = open_table
    takes_zone: bool = False
    takes_columns: bool = False
    takes_throughputs: bool = False
    keeps: tuple[str, ...] = ()
    has_durations: bool = False
    jobs_table: str | None = None
    side_table: Callable[[Head], SideTable | None] = no_side_table
    columns: tuple[str, ...] = ()
    kept: Callable[[Head, Sequence[str], IngestOptions], Mapping[str, pl.DataType]] | None = None
    has_scheduler: bool = False
    has_runs: bool = False
    open_all: Callable[[Sequence[SourceStream], IngestOptions], Sequence[Rows]] | None = None
    kubernetes: tuple[str, ...] = ()
    may_be_empty: bool = False


@cache
def _state_tables() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_name("states.toml").read_text(encoding="utf-8"))


def state_words(*tables: str) -> dict[str, str]:
    """Return word -> state of the tables of ``states.toml`` with these names; later ones win."""
    return {word: state for name in tables for word, state in _state_tables()[name].items()}


def has_columns(head: Head, names: Sequence[str]) -> str | None:
    """Return as evidence that a table has all the columns, or None where it does not."""
    if set(names) <= set(head.columns):
        return f"the columns {', '.join(names)}"
    return None


def need(context: SourceContext, names: Sequence[str], format_name: str) -> None:
    """Refuse a source that lacks a column. Raises `InputError` with the missing ones."""
    missing = [name for name in names if name not in context.columns]
    if missing:
        present = ", ".join(context.columns[:12]) or "none"
        raise header_error(context.head, {format_name: names}) or InputError(
            context.head.path,
            f"no column {', '.join(missing)}; found {present}",
            expected=f"the columns of the format {format_name}: {', '.join(names)}",
            hint=f"leave out --source-format to detect it, or {NAME_COLUMNS}"
            if context.choices.is_forced
            else NAME_COLUMNS,
        )
