"""Slurm's accounting: ``sacct --parsable2``, ``sacct -p`` or ``sacct --json``.

The columns are those of ``--format``. Rows of steps are left out. A requeued job has a row per run
(with ``-D``), a heterogeneous one a row per component: they are joined.

The objects of ``sacct --json`` are turned into the columns of ``sacct --parsable2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import CANONICAL, SUBMIT_TYPE
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext
from gpuplan.analysis.log_formats.slurm_cells import (
    MIXED,
    component,
    elapsed_s,
    gres_gpus,
    gres_type,
    instant,
    is_step,
    job_id,
    join,
    owner,
    state,
    tres_gpus,
    tres_type,
)
from gpuplan.analysis.log_formats.slurm_scheduler import (
    kept_columns,
    scheduler_fields,
    scheduler_values,
)
from gpuplan.analysis.reading.batch import EARLY, SET_BACK, Rows, Tally
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, text
from gpuplan.analysis.reading.records import Cell, open_records
from gpuplan.analysis.reading.records import text as text_cell
from gpuplan.analysis.reading.source import Head, SourceStream, header_names
from gpuplan.analysis.reading.times import is_number

JSON_COLUMNS = (
    "jobid", "user", "account", "partition", "state", "submit", "start", "end", "elapsedraw",
    "nnodes", "alloctres", "reqtres", "cluster",
)  # fmt: skip


def flatten(job: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a job; its steps lie in it and are not read. Raises `ValueError`."""
    time, tres = _object(job, "time"), _object(job, "tres")
    return {
        "jobid": _job_id(job),
        **{name: text_cell(job.get(name)) for name in ("user", "account", "partition", "cluster")},
        "state": _state(job.get("state")),
        "submit": _moment(time.get("submission")),
        "start": _moment(time.get("start")),
        "end": _moment(time.get("end")),
        "elapsedraw": _number(time.get("elapsed")),
        "nnodes": _number(job.get("allocation_nodes")),
        "alloctres": _tres(tres.get("allocated")),
        "reqtres": _tres(tres.get("requested")),
    }


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} that is not an object")
    return value


def _job_id(job: dict[str, Any]) -> Cell:
    """Return the id as the table writes it: ``12``, ``12_3``, ``12_[4-9]``, ``12+1``."""
    array, het = _object(job, "array"), _object(job, "het")
    parent, task = _number(array.get("job_id")), _number(array.get("task_id"))
    leader, place = _number(het.get("job_id")), _number(het.get("job_offset"))
    if leader not in (None, "0") and place is not None:
        return f"{leader}+{place}"
    if parent not in (None, "0"):
        waiting = array.get("task")
        if task is not None:
            return f"{parent}_{task}"
        if isinstance(waiting, str) and waiting:
            return f"{parent}_[{waiting}]"
    return _number(job.get("job_id"))


def _number(value: Any) -> Cell:
    """Return a number as a cell; newer versions wrap one: ``{"set": true, "number": 4}``."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    return text_cell(value)


def _moment(value: Any) -> Cell:
    seconds = _number(value)
    return None if seconds == "0" else seconds


def _state(value: Any) -> Cell:
    """Return the state; of several flags the first."""
    if isinstance(value, dict):
        value = value.get("current")
    if isinstance(value, list):
        value = value[0] if value else None
    return text_cell(value)


def _tres(entries: Any) -> Cell:
    """Return resources as the table writes them: ``cpu=8,gres/gpu=4,gres/gpu:a100=4``."""
    if entries is None:
        return None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("resources that are not a list of objects")
    recorded = []
    for entry in entries:
        kind, name, count = entry.get("type"), entry.get("name"), entry.get("count")
        if not isinstance(kind, str) or not isinstance(count, int):
            raise ValueError("a resource without type and count")
        recorded.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(recorded) or None


SACCT_FIELDS = (
    "JobID", "User", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw",
    "NNodes", "AllocTRES", "ReqTRES",
)  # fmt: skip
COMMAND = f"sacct -a -X -P -D --format={','.join(SACCT_FIELDS)}"
SEPARATORS = "|\t,"
IDS = ("jobid", "jobidraw")
SUBMITS = ("submit", "eligible", "start")
RESOURCES = ("alloctres", "allocgres", "reqtres", "reqgres")
SIGNS = ("elapsed", "elapsedraw", *RESOURCES)
PLAIN = {"submit", "start", "end", "state", "exitcode", "partition", "nnodes", "alloccpus", "ncpus"}
NOTHING = ("Unknown", "None", "NONE", "N/A", "(null)", "INVALID", "UNLIMITED", "Partition_Limit")
LOCAL = "a time like 2026-01-10T08:00:00 or seconds after 1970"
CLOCK_S = 1.0
HAS_OFFSET = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
FIXED = re.compile(rb"\s*\S[^\n|]*\n[ -]*-{3,}[ -]*\r?\n")
STATE = CANONICAL["state"]


def _open(stream: SourceStream) -> Rows:
    if Head(stream.path, stream.head).is_json:
        return open_records(stream, flatten, JSON_COLUMNS, key="jobs")
    return open_table(stream, _layout)


def _layout(line: str) -> Layout:
    separator = _separator(line)
    return Layout(separator, quotes=separator == ",", any_case=True)


def _separator(line: str) -> str:
    """Return what separates the names; a JobName may hold a quote, so only commas go with them."""
    return next((mark for mark in SEPARATORS if mark in line), ",")


def _plan(context: SourceContext) -> ReadingPlan:
    _check(context)
    has = frozenset(context.columns)
    zone = context.choices.time_zone or "UTC"
    keeps = context.choices.scheduler is not False
    fields = (*_fields(has, zone), *(scheduler_fields(has) if keeps else ()))
    source = {f.name: f.source for f in fields}

    def value(name: str, kind: pl.DataType | None = None) -> pl.Expr:
        return pl.col(name) if name in source else pl.lit(None, kind or pl.Float64())

    nodes = value("nodes").fill_null(1).clip(1)
    allocated, requested = (
        _gpus(value(f"{kind}tres_gpus"), value(f"{kind}gres_gpus") * nodes)
        for kind in ("alloc", "req")
    )
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
    named = pl.coalesce(pl.when(kind != "").then(kind) for kind in types)
    is_mixed = (named == MIXED).fill_null(False)
    # In a log without starts, runs differ by their submissions.
    run_start = start if "start_time" in source else pl.when(~never).then("submit_time")
    clock = source.get("elapsed_s") or source["ended"]
    return ReadingPlan(
        fields=fields,
        jobs={
            "queue_s": pl.when(~never & (waited >= 0)).then(waited),
            "duration_s": pl.when(~never).then(ran),
            "num_gpus": pl.coalesce(allocated, requested, 0.0),
            "num_workers": nodes,
            "gpu_type": gpu_names(pl.when(~is_mixed).then(named)),
            "state": pl.when(never).then(pl.lit("not_started", STATE)).otherwise(word),
            **(scheduler_values(has, zone, ended, never) if keeps else {}),
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
            Tally("steps of jobs left out (the row of the job counts)", is_step(source["job_id"])),
        ),
        tallies=(
            Tally("jobs whose Elapsed is not End - Start by more than 1 s (Elapsed counts, without "
                  "suspended time)", ~never & ((span - value("elapsed_s")).abs() > CLOCK_S)),
            Tally(SET_BACK, ~never & ((value("elapsed_s") - span - HOUR_S).abs() <= CLOCK_S)),
            Tally(EARLY,
                  ~never & (waited < 0)),
            Tally("jobs that tell no GPUs (0)", allocated.is_null() & requested.is_null()),
        ),
        notes=tuple(_notes(context, has, zone)),
        time_zone=zone,
        nothing=NOTHING,
        verbatim=("timelimit",),
        join=join(run_start, is_mixed),
    )  # fmt: skip


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
    for name, column, earlier in (("start_time", "start", None), ("ended", "end", "start")):
        if column in has:
            time = instant(column, zone, earlier if earlier in has else None)
            fields.append(Field(name, column, time, LOCAL, False, zone))
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
            gpus = tres_gpus(column) if is_tres else gres_gpus(column)
            kind = tres_type(column) if is_tres else gres_type(column)
            expected = "resources like cpu=8,gres/gpu=4" if is_tres else "resources like gpu:a100:4"
            fields.append(Field(f"{column}_gpus", column, gpus, expected))
            fields.append(Field(f"{column}_type", column, kind))
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
    cells = [cell for row in context.sample if (cell := row.get(submit)) is not None]
    if any(not is_number(cell) and not HAS_OFFSET.search(cell) for cell in cells):
        chosen = context.choices.time_zone is not None
        hint = "" if chosen else "; the log does not tell the zone, --time-zone NAME does"
        yield f"times without an offset are read as {zone}{hint}"


def _check(context: SourceContext) -> None:
    """Refuse what cannot become jobs. Raises `InputError` with the command that helps."""
    path, has = context.head.path, set(context.columns)
    if _is_fixed_width(context.head):
        raise InputError(
            path,
            "is sacct output of fixed width, which cuts long values",
            expected="fields separated by |",
            hint=COMMAND,
        )
    missing = [" or ".join(names) for names in (IDS, SUBMITS, RESOURCES) if not has & set(names)]
    if not has & {"elapsedraw", "elapsed"} and not {"start", "end"} <= has:
        missing.append("elapsedraw or elapsed or start and end")
    if missing:
        raise InputError(
            path,
            f"no column {', nor '.join(missing)}; found {', '.join(context.columns[:12])}",
            expected="a header line and the fields of a job",
            hint=COMMAND,
        )


def _is_fixed_width(head: Head) -> bool:
    return "jobid" in (head.line or "").lower() and FIXED.match(head.data) is not None


def _recognizes(head: Head) -> str | None:
    if head.mentions("jobs", "job_id", "time"):
        return "a JSON object with jobs, each with job_id and time"
    if head.line is None or head.is_json:
        return None
    if _is_fixed_width(head):
        return "a header with JobID over a line of dashes"
    names = {name.lower() for name in header_names(head.line.encode(), _separator(head.line))}
    ident = next((name for name in IDS if name in names), None)
    signs = [name for name in SIGNS if name in names]
    if ident is None or not (signs or len(names & PLAIN) > 1):
        return None
    return f"the columns {', '.join([ident, *(signs or sorted(names & PLAIN))])}"


SLURM_FORMAT = LogFormat(
    name="slurm",
    description="Slurm's accounting: sacct --parsable2, -p or --json, any fields",
    source=f"your cluster: sacct -a -X -P -D --format=... with {', '.join(SACCT_FIELDS)}",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_zone=True,
    kept=kept_columns,
    has_scheduler=True,
    has_runs=True,
)
