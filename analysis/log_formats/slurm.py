"""Slurm's accounting: ``sacct --parsable2``, ``sacct -p`` or ``sacct --json``.

The columns are those of ``--format``. Rows of steps are left out. A requeued job has a row per run
(with ``-D``), a heterogeneous one a row per component: they are joined.

The objects of ``sacct --json`` are turned into the columns of ``sacct --parsable2``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import CANONICAL, SUBMIT_TYPE
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat, SourceContext
from gpuplan.analysis.log_formats.sacct_command import (
    FREE_TEXT,
    IDS,
    RESOURCES,
    SACCT_COMMAND,
    SPELLED,
    SUBMITS,
    refuse_missing,
)
from gpuplan.analysis.log_formats.slurm_cells import (
    MIXED,
    component,
    device_type,
    devices,
    elapsed_s,
    has_shares,
    instant,
    is_slice,
    is_step,
    job_id,
    join,
    of_distinct,
    other_devices,
    owner,
    state,
)
from gpuplan.analysis.log_formats.slurm_json import JSON_COLUMNS, flatten
from gpuplan.analysis.log_formats.slurm_scheduler import (
    kept_columns,
    scheduler_fields,
    scheduler_values,
)
from gpuplan.analysis.log_formats.slurm_steps import USAGE, with_steps
from gpuplan.analysis.log_formats.slurm_utilization import (
    SUMMARY_COLUMN,
    utilization_columns,
    utilization_fields,
    utilization_tallies,
    utilization_values,
)
from gpuplan.analysis.reading.batch import (
    EARLY,
    GPU_SHARES,
    MIG_SLICES,
    OTHER_CLUSTERS,
    OTHER_DEVICES,
    SET_BACK,
    Rows,
    Tally,
)
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, text
from gpuplan.analysis.reading.records import open_records
from gpuplan.analysis.reading.source import Head, SourceStream, header_names
from gpuplan.analysis.reading.times import LOCAL_TIMES, is_number

SEPARATORS = "|\t,"
SIGNS = ("elapsed", "elapsedraw", *RESOURCES)
PLAIN = {"submit", "start", "end", "state", "exitcode", "partition", "nnodes", "alloccpus", "ncpus"}
NOTHING = ("Unknown", "None", "NONE", "N/A", "(null)", "INVALID", "UNLIMITED", "Partition_Limit")
LOCAL = "a time like 2026-01-10T08:00:00 or seconds after 1970"
CLOCK_S = 1.0
HAS_OFFSET = re.compile(r"(?:Z|[+-][0-9][0-9]:?[0-9][0-9])$")
FIXED = re.compile(rb"\s*\S[^\n|]*\n[ -]*-{3,}[ -]*\r?\n")
STATE = CANONICAL["state"]
CLUSTER, OF_CLUSTER = "cluster", "of_cluster"


def _open(stream: SourceStream) -> Rows:
    if Head(stream.path, stream.head).is_json:
        return open_records(stream, flatten, JSON_COLUMNS, key="jobs")
    rows = open_table(stream, _layout)
    return with_steps(rows, next((name for name in IDS if name in rows.columns), None))


def _layout(line: str) -> Layout:
    """Return the layout; of several columns of free text the last may hold the separator."""
    separator = _separator(line)
    names = header_names(line.encode(), separator, any_case=True)
    free = next((name for name in reversed(names) if name in FREE_TEXT), None)
    if separator == ",":
        return Layout(separator, any_case=True)
    part = _is_step_line(separator, names) if USAGE in names else None
    return Layout(
        separator, quotes=False, any_case=True, free=free, ends_lines=True, continues=part
    )


def _is_step_line(separator: str, names: Sequence[str]) -> Callable[[bytes], bool] | None:
    """Return what tells the line of a step, which belongs to a job above it."""
    ident = next((name for name in IDS if name in names), None)
    if ident is None:
        return None
    at, mark = names.index(ident), separator.encode()

    def is_step_line(line: bytes) -> bool:
        cells = line.split(mark, at + 1)
        return len(cells) > at and b"." in cells[at]

    return is_step_line


def _separator(line: str) -> str:
    """Return what separates the names; a JobName may hold a quote, so only commas go with them."""
    return next((mark for mark in SEPARATORS if mark in line), ",")


def _plan(context: SourceContext) -> ReadingPlan:
    _check(context)
    has = frozenset(context.columns)
    zone = context.choices.time_zone or "UTC"
    keeps = context.choices.scheduler is not False
    fields = (
        *_fields(has, zone),
        *(scheduler_fields(has) if keeps else ()),
        *utilization_fields(has, context.memo),
    )
    source = {f.name: f.source for f in fields}

    def value(name: str, kind: pl.DataType | None = None) -> pl.Expr:
        return pl.col(name) if name in source else pl.lit(None, kind or pl.Float64())

    nodes = value("nodes").fill_null(1).clip(1)
    allocated, requested = (
        _gpus(value(f"{kind}tres_gpus"), value(f"{kind}gres_gpus") * nodes)
        for kind in ("alloc", "req")
    )
    held = pl.coalesce(allocated, requested, 0.0)
    start, ended = (value(name, SUBMIT_TYPE) for name in ("start_time", "ended"))
    word = value("word", STATE).fill_null("unknown")
    span = (ended.to_physical() - start.to_physical()) / MICROS
    ran = pl.coalesce(value("elapsed_s"), span)
    idle = ran.fill_null(0) == 0
    began = start.is_not_null() if "start_time" in source else ~idle
    never = (
        (word == "not_started")
        | (~began & idle)
        | ((word == "cancelled") & idle & allocated.is_null())
    )
    waited = (start.to_physical() - pl.col("submit_time").to_physical()) / MICROS
    types = [pl.col(f"{name}_type") for name in RESOURCES if name in has]
    is_other = pl.any_horizontal(pl.col(f"{name}_other") for name in RESOURCES if name in has)
    is_shared = pl.any_horizontal(pl.col(f"{name}_shares") for name in RESOURCES if name in has)
    named = pl.coalesce(pl.when(kind != "").then(kind) for kind in types)
    is_mixed = (named == MIXED).fill_null(False)
    # In a log without starts, runs differ by their submissions. What was cancelled in the queue may
    # have its end as Start.
    run_start = pl.when(~never).then(start if "start_time" in source else "submit_time")
    clock = source.get("elapsed_s") or source["ended"]
    return ReadingPlan(
        fields=fields,
        jobs={
            "queue_s": pl.when(~never & (waited >= 0)).then(waited),
            "duration_s": pl.when(~never).then(ran),
            "num_gpus": held,
            "num_workers": nodes,
            "gpu_type": gpu_names(pl.when(~is_mixed).then(named)),
            "state": pl.when(never).then(pl.lit("not_started", STATE)).otherwise(word),
            **(scheduler_values(has, zone, ended, never) if keeps else {}),
            **utilization_values(has, held, named, never),
        },
        rules=(
            Rule("negative_duration", clock, "seconds, at least 0", value("elapsed_s") < 0),
            Rule("end_before_start", clock, "an end at the start or after it", ran < 0),
            Rule("missing", source.get("start_time", clock), "the start of a completed job",
                 never & (word == "completed")),
            Rule("missing", clock, "the end of a job that has started and is not running",
                 ~never & ran.is_null() & ~word.is_in(["running", "unknown"])),
        ),
        left_out=(
            Tally("steps of jobs left out (the row of the job counts)", is_step(source["job_id"]),
                  "steps"),
        ),
        tallies=(
            Tally("jobs whose Elapsed is not End - Start by more than 1 s (Elapsed counts, without "
                  "suspended time)", ~never & ((span - value("elapsed_s")).abs() > CLOCK_S)),
            Tally(SET_BACK, ~never & ((value("elapsed_s") - span - HOUR_S).abs() <= CLOCK_S)),
            Tally(EARLY,
                  ~never & (waited < 0)),
            Tally(OTHER_DEVICES, is_other),
            Tally(GPU_SHARES, is_shared & (held == 0)),
            Tally(MIG_SLICES, is_slice(named)),
            *_other_clusters(context),
            Tally("jobs that tell no GPUs (0)", allocated.is_null() & requested.is_null()),
            *utilization_tallies(has, held, named),
        ),
        notes=tuple(_notes(context, has, zone)),
        time_zone=zone,
        empty_words=NOTHING,
        verbatim=("timelimit", SUMMARY_COLUMN),
        join=join(run_start, is_mixed),
    )  # fmt: skip


def _other_clusters(context: SourceContext) -> tuple[Tally, ...]:
    """Return what counts the jobs of other clusters than the first; nothing without a column."""
    first = next((row[CLUSTER] for row in context.sample if row.get(CLUSTER)), None)
    if first is None:
        return ()
    return (Tally(OTHER_CLUSTERS, (pl.col(OF_CLUSTER) != first).fill_null(False)),)


def _kept_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> dict[str, pl.DataType]:
    """Return the columns that a trace keeps: the scheduler's, and those on utilization."""
    return kept_columns(head, columns, choices) | utilization_columns(set(columns))


def _fields(has: frozenset[str], zone: str) -> tuple[Field, ...]:
    """Return the fields that the columns of the log allow."""
    ident = next(name for name in IDS if name in has)
    submit = next(name for name in SUBMITS if name in has)
    fields = [
        Field("job_id", ident, job_id(ident), "a job id such as 12, 12_3 or 12+1", required=True),
        Field("owner", ident, owner(has)),
        Field("component", ident, component(ident)),
        Field("submit_time", submit, instant(submit, zone), LOCAL, True, zone),
    ]
    names = {"user": "user", "group": "account" if "account" in has else "partition",
             "job_class": "partition", "source_state": "state"}  # fmt: skip
    fields += [text(name, source) for name, source in names.items() if source in has]
    # An hour that happens twice in autumn: a start before the submission is meant after it.
    for name, column, earlier in (("start_time", "start", submit), ("ended", "end", "start")):
        if column in has:
            is_after = earlier in has and earlier != column
            time = instant(column, zone, earlier if is_after else None)
            fields.append(Field(name, column, time, LOCAL, False, zone))
    if CLUSTER in has:
        fields.append(text(OF_CLUSTER, CLUSTER))
    if "state" in has:
        fields.append(Field("word", "state", state("state")))
    if "elapsedraw" in has:
        fields.append(number("elapsed_s", "elapsedraw", expected="seconds"))
    elif "elapsed" in has:
        fields.append(Field("elapsed_s", "elapsed", elapsed_s("elapsed"), "[DD-[HH:]]MM:SS"))
    if "nnodes" in has:
        fields.append(count("nodes", "nnodes", least=0))
    for column in RESOURCES:
        if column in has:
            is_tres = column.endswith("tres")
            expected = "resources like cpu=8,gres/gpu=4" if is_tres else "resources like gpu:a100:4"
            is_other = (other_devices(column).list.len() > 0).fill_null(False)
            read = of_distinct(devices(column), column, pl.Float64())
            fields.append(Field(f"{column}_gpus", column, read, expected))
            read = of_distinct(device_type(column), column, pl.String())
            fields.append(Field(f"{column}_type", column, read))
            read = of_distinct(is_other, column, pl.Boolean())
            fields.append(Field(f"{column}_other", column, read))
            read = of_distinct(has_shares(column), column, pl.Boolean())
            fields.append(Field(f"{column}_shares", column, read))
    return tuple(fields)


def _gpus(tres: pl.Expr, gres: pl.Expr) -> pl.Expr:
    """Return the GPUs from TRES, or from GRES for sites that do not track them as TRES."""
    return pl.when(tres > 0).then(tres).otherwise(pl.coalesce(gres, tres))


def _notes(context: SourceContext, has: frozenset[str], zone: str) -> Iterator[str]:
    submit = next(name for name in SUBMITS if name in has)
    if submit != "submit":
        yield f"the log has no Submit: a job counts as submitted at its {submit.capitalize()}"
    if not has & {"alloctres", "allocgres"}:
        yield "GPUs are those requested: the log has neither AllocTRES nor AllocGRES"
    if any(name.endswith("gres") for name in has & set(RESOURCES)) and "nnodes" not in has:
        yield "the log has no NNodes: GPUs per node are taken for one node"
    if has_local_times(context.sample, submit):
        is_chosen = context.choices.time_zone is not None
        yield f"times without an offset are read as {zone}" if is_chosen else LOCAL_TIMES


def has_local_times(sample: Sequence[Mapping[str, str | None]], column: str) -> bool:
    """Return whether times in a column of some rows have no offset."""
    cells = [cell for row in sample if (cell := row.get(column)) is not None]
    return any(not is_number(cell) and not HAS_OFFSET.search(cell) for cell in cells)


def _check(context: SourceContext) -> None:
    """Refuse what cannot become jobs. Raises `InputError` with the command that helps."""
    path = context.head.path
    if _is_fixed_width(context.head):
        raise InputError(
            path,
            "is sacct output of fixed width, which cuts long values",
            expected="fields separated by |",
            hint=SACCT_COMMAND,
        )
    refuse_missing(path, context.columns)


def _is_fixed_width(head: Head) -> bool:
    return "jobid" in (head.line or "").lower() and FIXED.match(head.data) is not None


def _recognizes(head: Head) -> str | None:
    if head.mentions("jobs", "job_id", "time"):
        return "a JSON object with jobs, each with job_id and time"
    if head.line is None or head.is_json:
        return None
    if _is_fixed_width(head):
        return "a header with JobID over a line of dashes"
    separator = _separator(head.line)
    names = {name.lower() for name in header_names(head.line.encode(), separator)}
    ident = next((name for name in IDS if name in names), None)
    signs = [name for name in SIGNS if name in names]
    plain = names & (SPELLED.keys() if separator == "|" else PLAIN) - set(IDS)
    if ident is None or not (signs or len(plain) > 1):
        return None
    return f"the columns {', '.join([ident, *(signs or sorted(plain))])}"


SLURM_FORMAT = LogFormat(
    name="slurm",
    description="Slurm's accounting: sacct --parsable2, -p or --json, any fields",
    source=f"your cluster: {SACCT_COMMAND}",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_zone=True,
    kept=_kept_columns,
    has_scheduler=True,
    has_runs=True,
)
