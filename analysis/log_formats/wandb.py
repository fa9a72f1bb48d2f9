"""Weights & Biases runs: the runs table as CSV, or what scripts save from the public API.

A run has no queue: its creation is its start. A resumed run keeps its creation time, and its run
time covers all sessions. The GPU count is not a default column and is searched in the config.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name, gpu_names
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, state_words
from gpuplan.analysis.reading.batch import Rows, Tally
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, made_id, number, states, text
from gpuplan.analysis.reading.records import Cell, open_records, parsed
from gpuplan.analysis.reading.records import text as text_cell
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import moment, seconds_between

GPU_COUNT_NAMES = (
    "gpu_count", "num_gpus", "n_gpus", "n_gpu", "ngpus", "num_gpu", "gpus",
    "world_size", "num_devices", "devices",
)  # fmt: skip
"""Possible names of a GPU count, best first; case, spaces and config prefixes do not matter."""
OWN_COUNT = "gpu_count"  # the name of W&B's own count
GPU_TYPE_NAMES = ("gpu_type", "gpu_name")
MAX_GPUS = 100_000  # a larger number under such a name counts something else
BYTES_PER_GB = 1 << 30  # drivers report the memory of an A100-80GB as 80 of these
RECORD_COLUMNS = (
    "id", "state", "created", "heartbeat", "runtime", "user", "group", "job_type", "gpu_count",
    "gpu_type",
)  # fmt: skip
CREATED = "a time like 2026-02-03T08:15:42.000Z"
RUNTIME = "seconds"
EXPORT_HINT = "in the runs table show the columns Created and Runtime, then export it as CSV"


def _open(stream: SourceStream) -> Rows:
    if Head(stream.path, stream.head).is_json:
        return open_records(stream, _flatten, RECORD_COLUMNS)
    return open_table(stream)


def _plan(context: SourceContext) -> ReadingPlan:
    if context.head.is_json:
        return _plan_records()
    by_name = {name.lower(): name for name in reversed(context.columns)}
    _check_is_runs_table(context, by_name)
    fields = [
        Field("submit_time", by_name["created"], moment(by_name["created"], "UTC"), CREATED, True),
        number("duration_s", by_name["runtime"], expected=RUNTIME),
    ]
    jobs: dict[str, pl.Expr] = {}
    if "id" in by_name:
        fields.append(text("job_id", by_name["id"], required=True))
    else:
        jobs["job_id"] = made_id("wandb", context.number)
    for name, column in (("user", "user"), ("group", "group"), ("job_class", "job type")):
        if column in by_name:
            fields.append(text(name, by_name[column]))
    if "state" in by_name:
        fields.append(text("source_state", by_name["state"]))
        fields.append(states(by_name["state"], state_words("wandb")))
    if kinds := _named(context.columns, GPU_TYPE_NAMES):
        fields.append(Field("gpu_type", kinds[0], gpu_names(kinds[0])))
    counts = _named(context.columns, GPU_COUNT_NAMES)
    recorded = [_gpu_count(column) for column in counts]
    notes = [f"GPU counts come from the columns {', '.join(counts)}"] if counts else []
    gpus = pl.coalesce(recorded) if recorded else pl.lit(None, pl.Float64)
    plan = _with_gpus(fields, jobs, gpus, notes, "job_id" in jobs)
    return _with_checked_counts(plan, [name for name in counts if _last_part(name) == OWN_COUNT])


def _with_gpus(
    fields: list[Field], jobs: dict[str, pl.Expr], gpus: pl.Expr, notes: list[str], made: bool
) -> ReadingPlan:
    fields.append(Field("recorded_gpus", fields[0].source, gpus.fill_null(-1.0)))
    recorded = pl.col("recorded_gpus")
    return ReadingPlan(
        fields=tuple(fields),
        jobs={**jobs, "num_gpus": pl.when(recorded >= 0).then(recorded).otherwise(1.0)},
        tallies=(
            Tally("runs that tell no GPU count (1 is assumed)", recorded < 0),
            Tally("runs without a runtime (no duration)", pl.col("duration_s").is_null()),
            Tally("runs still running (their duration is a lower bound)",
                  pl.col("state") == "running"),
        ),
        notes=tuple(notes),
        time_zone="UTC",
        made_ids=made,
    )  # fmt: skip


def _with_checked_counts(plan: ReadingPlan, columns: Sequence[str]) -> ReadingPlan:
    """Return a plan that rejects rows with an invalid count by W&B itself.

    Under any other name a word or a negative number ("auto", -1 for all) is as good as none.
    """
    fields, rules = list(plan.fields), list(plan.rules)
    for column in columns:
        name, cell = f"fault of {column}", pl.col(column)
        tells = cell.is_not_null() & (cell.str.to_lowercase().str.strip_chars() != "auto")
        is_negative = (cell.cast(pl.Float64, strict=False) < 0).fill_null(False)
        is_odd = tells & ~is_negative & _gpu_count(column).is_null()
        fault = pl.when(is_negative).then(1).when(is_odd).then(2).otherwise(0)
        fields.append(Field(name, column, fault))
        negative, odd = pl.col(name) == 1, pl.col(name) == 2
        rules.append(Rule("negative_gpus", column, "a number of GPUs, at least 0", negative))
        rules.append(Rule("unreadable", column, f"whole GPUs, at most {MAX_GPUS:,}", odd))
    return replace(plan, fields=tuple(fields), rules=tuple(rules))


def _gpu_count(column: str) -> pl.Expr:
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value.is_between(0, MAX_GPUS) & (value == value.floor())).then(value)


def _named(columns: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Return the columns whose last part is one of these names, best first."""
    plain = {column: _last_part(column) for column in columns}
    return [column for name in names for column, last in plain.items() if last == name]


def _last_part(column: str) -> str:
    return column.rpartition(".")[2].strip().lower().replace(" ", "_").replace("-", "_")


def _check_is_runs_table(context: SourceContext, by_name: dict[str, str]) -> None:
    if _is_chart(context.columns):
        raise InputError(
            context.head.path,
            "is a chart export (a column Step and one per metric), it has no runs",
            expected="the runs table",
            hint=EXPORT_HINT,
        )
    missing = [name for name in ("Created", "Runtime") if name.lower() not in by_name]
    if missing:
        raise InputError(
            context.head.path,
            f"this W&B export has no column {' and '.join(missing)}; "
            f"found {', '.join(context.columns[:12])}",
            expected="Created and Runtime",
            hint=EXPORT_HINT,
        )


def _is_chart(columns: tuple[str, ...]) -> bool:
    steps = bool(columns) and columns[0].lower() in ("step", "relative time (process)")
    return steps and any(" - " in name or name.endswith(("__MIN", "__MAX")) for name in columns)


def _plan_records() -> ReadingPlan:
    ran = pl.coalesce("runtime_s", seconds_between("heartbeat_time", "submit_time"))
    fields = [
        Field("submit_time", "created", moment("created", "UTC"), CREATED, required=True),
        text("job_id", "id", required=True),
        Field("heartbeat_time", "heartbeat", moment("heartbeat", "UTC"), CREATED),
        number("runtime_s", "runtime", expected=RUNTIME),
        text("user", "user"),
        text("group", "group"),
        text("job_class", "job_type"),
        text("source_state", "state"),
        states("state", state_words("wandb")),
        Field("gpu_type", "gpu_type", gpu_names("gpu_type")),
    ]
    plan = _with_gpus(fields, {"duration_s": ran}, _gpu_count("gpu_count"), [], made=False)
    recorded = pl.col("runtime_s")
    rules = (
        Rule("negative_duration", "runtime", "seconds, at least 0", recorded < 0),
        Rule("negative_duration", "heartbeat", "a heartbeat at the creation or after it",
             recorded.is_null() & (ran < 0)),
    )  # fmt: skip
    return _with_checked_counts(replace(plan, rules=rules), ["gpu_count"])


def _flatten(run: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of one run of the public API, in snake or camel case."""
    summary, config, metadata = (_object(run.get(key)) for key in ("summary", "config", "metadata"))
    # In raw config every value is wrapped: {"lr": {"value": 0.1}}.
    config = {
        key: value["value"] if isinstance(value, dict) and "value" in value else value
        for key, value in config.items()
    }
    runtime = _object(summary.get("_wandb")).get("runtime")
    user = run.get("user")
    if isinstance(user, dict):
        user = user.get("username") or user.get("name")
    return {
        "id": text_cell(run.get("id")),
        "state": text_cell(run.get("state")),
        "created": text_cell(run.get("created_at", run.get("createdAt"))),
        "heartbeat": text_cell(run.get("heartbeat_at", run.get("heartbeatAt"))),
        "runtime": text_cell(summary.get("_runtime") if runtime is None else runtime),
        "user": text_cell(user),
        "group": text_cell(run.get("group")),
        "job_type": text_cell(run.get("job_type", run.get("jobType"))),
        "gpu_count": text_cell(_gpus_of(metadata, config)),
        "gpu_type": _gpu_type_of(metadata, config),
    }


def _gpu_type_of(metadata: dict[str, Any], config: dict[str, Any]) -> Cell:
    """Return the name of a run's GPU, with the memory of the first device that is listed."""
    listed = _devices(metadata)
    device = listed[0] if listed else {}
    names = [metadata.get("gpu"), device.get("name")]
    names += [config[column] for column in _named(tuple(config), GPU_TYPE_NAMES)]
    written = next((name for name in names if name and isinstance(name, str)), None)
    if written is None:
        return None
    try:
        memory_gb = float(device.get("memoryTotal") or "") / BYTES_PER_GB
    except (TypeError, ValueError, OverflowError):
        memory_gb = math.nan
    return text_cell(gpu_name(written, memory_gb if 1 <= memory_gb < math.inf else None))


def _devices(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs that a run lists; none where it lists no objects."""
    listed = metadata.get("gpu_nvidia")
    if not isinstance(listed, list) or not all(isinstance(device, dict) for device in listed):
        return []
    return listed


def _gpus_of(metadata: dict[str, Any], config: dict[str, Any]) -> Any:
    if metadata.get("gpu_count") is not None:
        return metadata["gpu_count"]
    if listed := _devices(metadata):
        return len(listed)
    for column in _named(tuple(config), GPU_COUNT_NAMES):
        value = config[column]
        if _last_part(column) == OWN_COUNT and isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            if _last_part(column) == OWN_COUNT or 0 <= value <= MAX_GPUS:
                return value
    return None


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object, parsed where the API gives it as text; else an empty one."""
    if isinstance(value, str):
        try:
            value = parsed(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _recognizes(head: Head) -> str | None:
    if head.is_json:
        created = head.mentions("created_at") or head.mentions("createdAt")
        runs = created and (head.mentions("summary") or head.mentions("config"))
        return "JSON records with created_at and a summary or config" if runs else None
    names = {name.lower() for name in head.columns}
    if {"created", "runtime"} <= names or {"name", "state", "created"} <= names:
        return "columns of a W&B runs table"
    if {"name", "state", "user", "tags"} <= names or {"name", "state", "notes", "tags"} <= names:
        return "columns of a W&B runs table (without Created)"
    return "columns of a W&B chart" if _is_chart(head.columns) else None


WANDB_FORMAT = LogFormat(
    name="wandb",
    description="Weights & Biases runs: CSV export, or API records (JSON, JSONL)",
    source="your project's runs table (Export > CSV), or wandb.Api().runs(...) saved as JSON",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
)
