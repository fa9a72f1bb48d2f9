"""Alibaba PAI (cluster-trace-gpu-v2020): its tables, joined by job, and its simulator's sample.

Source: Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale
Heterogeneous GPU Clusters", NSDI 2022. The tables have no header line; each is known by the name of
its file or by its fields. A job is submitted at the start in pai_job_table, requests the GPUs of
its tasks, and runs from the first start to the last end of its instances. Times are shifted by an
unpublished constant; 0 means unknown.

The sample of 100,000 jobs that comes with the simulator has one row per job. Its scheduler places
``num_inst`` instances of ``num_gpu`` GPUs each, so a job holds their product.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import UTILIZATION_COLUMNS
from gpuplan.analysis.log_formats.format import (
    LOST,
    IngestOptions,
    LogFormat,
    SideTable,
    SourceContext,
    need,
)
from gpuplan.analysis.reading.batch import Rows, Tally
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, states, text
from gpuplan.analysis.reading.source import Head, SourceStream, split_line
from gpuplan.analysis.reading.times import seconds

SAMPLE_COLUMNS = ("job_id", "submit_time", "num_cpu", "num_gpu", "gpu_type", "duration", "user")
INSTANCE_COUNTS = ("num_inst", "num_pod")
"""The files call the number of instances by either name."""


def is_sample(columns: tuple[str, ...]) -> bool:
    """Return whether a table has the columns of the sample."""
    return set(SAMPLE_COLUMNS) <= set(columns) and bool(set(INSTANCE_COUNTS) & set(columns))


def sample_plan(context: SourceContext) -> ReadingPlan:
    """Return the plan of a sample."""
    instances = next(name for name in INSTANCE_COUNTS if name in context.columns)
    workers = pl.col("num_workers").fill_null(1)
    fields = [
        text("job_id", "job_id", required=True),
        text("user", "user"),
        Field("submit_time", "submit_time", seconds("submit_time"), "seconds", required=True),
        number("duration_s", "duration", expected="seconds"),
        number("gpus", "num_gpu"),
        count("num_workers", instances),
        Field("written_type", "gpu_type", gpu_names("gpu_type")),
    ]
    rules = [Rule("negative_gpus", "num_gpu", "a number, at least 0", pl.col("gpus") < 0)]
    if "wait_time" in context.columns:
        fields.append(number("queue_s", "wait_time", expected="seconds"))
        rules.append(
            Rule("negative_wait", "wait_time", "seconds, at least 0", pl.col("queue_s") < 0)
        )
    asks = pl.col("gpus") > 0
    return ReadingPlan(
        fields=tuple(fields),
        jobs={
            "num_gpus": pl.col("gpus").fill_null(0) * workers,
            "num_workers": workers,
            "gpu_type": pl.when(asks & (pl.col("written_type").str.to_uppercase() != "CPU")).then(
                "written_type"
            ),
        },
        rules=tuple(rules),
        tallies=(Tally("jobs without a duration", pl.col("duration_s").is_null()),),
        notes=(
            "the log has no states",
            *(() if "wait_time" in context.columns else ("the log has no waits",)),
        ),
        relative_time=True,
    )


JOBS, TASKS, INSTANCES, TAGS, SENSORS = (
    "pai_job_table", "pai_task_table", "pai_instance_table", "pai_group_tag_table",
    "pai_sensor_table",
)  # fmt: skip
TABLES = {
    JOBS: ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    TASKS: ("job_name", "task_name", "inst_num", "status", "start_time", "end_time",
            "plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
    INSTANCES: ("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status",
                "start_time", "end_time", "machine"),
    TAGS: ("inst_id", "user", "gpu_type_spec", "group", "workload"),
    SENSORS: ("job_name", "task_name", "worker_name", "inst_id", "machine", "gpu_name", "cpu_usage",
              "gpu_wrk_util", "avg_mem", "max_mem", "avg_gpu_wrk_mem", "max_gpu_wrk_mem", "read",
              "write", "read_count", "write_count"),
}  # fmt: skip
STATUSES = {
    "terminated": "completed",
    "failed": "failed",
    "running": "running",
    "waiting": "not_started",
}
SHIFTED = (
    "times are shifted by an unpublished constant; read as Unix time in Asia/Shanghai they "
    "keep hour and weekday"
)
SECONDS = "seconds above 0"
SECONDS_CELL = re.compile(r"(\d+([.]\d*)?)?")
Schema = dict[str, pl.DataType]
TASK_SCHEMA: Schema = {
    "job_name": pl.String(),
    "gpu_percent": pl.Float64(),
    "gpu_workers": pl.Float64(),
    "workers": pl.Float64(),
    "start_s": pl.Float64(),
    "gpu_type": pl.String(),
    "other_gpu_type": pl.String(),
}
INSTANCE_SCHEMA: Schema = {"job_name": pl.String(), "start_s": pl.Float64(), "end_s": pl.Float64()}
SENSOR_SCHEMA: Schema = {
    "job_name": pl.String(),
    "used_percent": pl.Float64(),
    "sensors": pl.Float64(),
    "memory_gb": pl.Float64(),
}
TAG_SCHEMA: Schema = {"inst_id": pl.String(), "workload": pl.String()}


def _plan(context: SourceContext) -> ReadingPlan:
    if is_sample(context.columns):
        return sample_plan(context)
    if _table_of(context.head) != JOBS:
        need(context, SAMPLE_COLUMNS, "pai")
    if TASKS not in context.side_rows:
        raise InputError(
            context.head.path,
            f"is {JOBS}, which has no GPUs",
            expected=f"{TASKS} with it; {INSTANCES}, {TAGS} and {SENSORS} are read too where they "
            "are given",
            hint="name all tables in one command, or the folder that holds them",
        )
    task, instance, tag = (pl.col(name).struct.field for name in ("task", "instance", "tag"))
    start = pl.coalesce(instance("start_s"), task("start_s"))
    end = pl.coalesce(instance("end_s"), _time("ended_s"))
    ran = pl.when(pl.col("state") != "not_started").then(end - start)
    waited = instance("start_s") - task("start_s")
    types_differ = task("gpu_type") != task("other_gpu_type")
    has_instances = INSTANCES in context.side_rows
    notes = () if has_instances else (
        f"without {INSTANCES} jobs run from the start of their first task to their own end, and "
        "no waits are known",
    )  # fmt: skip
    return ReadingPlan(
        fields=(
            text("job_id", "job_name", required=True),
            text("user", "user"),
            Field("submit_time", "start_time", seconds("start_time"), SECONDS, required=True),
            number("ended_s", "end_time"),
            text("source_state", "status"),
            states("status", STATUSES),
            _side_row(context, TASKS, "job_name", "task", TASK_SCHEMA),
            _side_row(context, INSTANCES, "job_name", "instance", INSTANCE_SCHEMA),
            _side_row(context, TAGS, "inst_id", "tag", TAG_SCHEMA),
            _side_row(context, SENSORS, "job_name", "sensor", SENSOR_SCHEMA),
        ),
        jobs={
            "job_class": tag("workload"),
            "queue_s": pl.when(waited >= 0).then(waited),
            "duration_s": ran,
            "num_gpus": task("gpu_percent") / 100,
            "num_workers": task("workers").clip(1, 2**31 - 1),
            "gpu_type": pl.when(~types_differ).then(task("gpu_type")),
            **_utilization(),
        },
        rules=(
            Rule("missing", "start_time", SECONDS,
                 pl.col("submit_time").to_physical() <= 0),
            Rule("incomplete", "job_name",
                 "a job none of whose rows in the other tables is rejected",
                 pl.any_horizontal(task(LOST), instance(LOST))),
            Rule("missing", "job_name", f"a job with tasks in {TASKS}",
                 task("gpu_percent").is_null()),
            Rule("end_before_start", "end_time", "an end at the start or after it", ran < 0),
        ),
        tallies=(
            Tally("jobs without a start or an end (no duration)", ran.is_null()),
            Tally("jobs whose tasks ask for several GPU types (no type is kept)", types_differ),
            *(Tally(f"jobs without a start in {INSTANCES} (they run from the start of their first "
                    "task, and have no wait)", instance("start_s").is_null())
              for _ in range(has_instances)),
        ),
        notes=(SHIFTED, *notes),
        relative_time=True,
    )  # fmt: skip


def _utilization() -> dict[str, pl.Expr]:
    """Return `UTILIZATION_COLUMNS` from the sensors of the workers of a job.

    A sensor tells the GPUs in use in percent of one, so those of a job add up. Of a job whose
    sensors are not all 0 it is not known which of its GPUs idled.
    """
    task, sensor = (pl.col(name).struct.field for name in ("task", "sensor"))
    has_gpus = task("gpu_workers") > 0
    coverage = pl.when(has_gpus).then((sensor("sensors") / task("gpu_workers")).clip(0, 1))
    requested = task("gpu_percent") * coverage
    is_read = (requested > 0) & ~sensor(LOST).fill_null(True)
    used = sensor("used_percent")
    nothing = pl.lit(None, pl.Float64)
    return {
        "gpu_util_mean": pl.when(is_read).then((100 * used / requested).clip(0, 100)),
        "gpus_idle": pl.when(is_read & (used == 0)).then(requested / 100),
        "gpu_util_coverage": pl.when(is_read).then(coverage),
        "gpu_mem_used_share": nothing,
        "gpu_mem_used_gib": pl.when(is_read).then(sensor("memory_gb")),
        "gpu_mem_total_gib": nothing,
        "gpu_util_source": pl.when(is_read).then(pl.lit("pai sensors")),
    }


def _kept_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> dict[str, pl.DataType]:
    """Return the columns on utilization, which sensors beside the jobs tell."""
    return {} if is_sample(tuple(columns)) else UTILIZATION_COLUMNS


def _side_row(context: SourceContext, table: str, key: str, name: str, schema: Schema) -> Field:
    """Return the field with the row of a side table for a key: a struct, of nulls if missing."""
    rows = context.side_rows.get(table, pl.DataFrame(schema={**schema, LOST: pl.Boolean()}))

    def look_up(keys: pl.Series) -> pl.Series:
        joined = keys.to_frame(key).join(rows, on=key, how="left", maintain_order="left")
        return joined.drop(key).to_struct(name)

    kind = pl.Struct({column: kind for column, kind in rows.schema.items() if column != key})
    return Field(name, key, pl.col(key).map_batches(look_up, return_dtype=kind))


def _time(field: str) -> pl.Expr:
    """Return seconds; null for 0, which means unknown."""
    return pl.when(pl.col(field) > 0).then(field)


def _plan_tasks(context: SourceContext) -> ReadingPlan:
    asks = pl.col("percent") > 0
    gpu = pl.when(asks & (pl.col("written_type").str.to_uppercase() != "CPU")).then("written_type")
    return ReadingPlan(
        fields=(
            text("job_name", "job_name", required=True),
            number("workers", "inst_num", required=True),
            number("began_s", "start_time"),
            number("percent", "plan_gpu"),
            Field("written_type", "gpu_type", gpu_names("gpu_type")),
        ),
        jobs={
            "gpu_percent": pl.col("workers") * pl.col("percent").fill_null(0),
            "gpu_workers": pl.when(asks).then("workers").otherwise(0.0),
            "start_s": _time("began_s"),
            "gpu_type": gpu,
            "other_gpu_type": gpu,
        },
        schema=TASK_SCHEMA,
        rules=(
            Rule(
                "negative_gpus", "plan_gpu", "percent of a GPU, at least 0", pl.col("percent") < 0
            ),
            Rule("negative_gpus", "inst_num", "a number, at least 0", pl.col("workers") < 0),
        ),
    )


def _tasks_per_job(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("job_name").agg(
        pl.sum("gpu_percent", "gpu_workers", "workers"),
        pl.min("start_s", "gpu_type"),
        pl.max("other_gpu_type"),
        pl.any(LOST),
    )


def _plan_instances(context: SourceContext) -> ReadingPlan:
    return ReadingPlan(
        fields=(
            text("job_name", "job_name", required=True),
            number("began_s", "start_time"),
            number("ended_s", "end_time"),
        ),
        jobs={"start_s": _time("began_s"), "end_s": _time("ended_s")},
        schema=INSTANCE_SCHEMA,
    )


def _instances_per_job(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("job_name").agg(pl.min("start_s"), pl.max("end_s"), pl.any(LOST))


def _plan_tags(context: SourceContext) -> ReadingPlan:
    return ReadingPlan(
        fields=(text("inst_id", "inst_id", required=True), text("workload", "workload")),
        schema=TAG_SCHEMA,
    )


def _tags_per_job(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("inst_id").agg(pl.min("workload"), pl.any(LOST))


def _plan_sensors(context: SourceContext) -> ReadingPlan:
    percent = pl.col("percent")
    return ReadingPlan(
        fields=(
            text("job_name", "job_name", required=True),
            number("percent", "gpu_wrk_util"),
            number("memory_gb", "max_gpu_wrk_mem"),
        ),
        jobs={
            "used_percent": pl.when(percent >= 0).then(percent),
            "sensors": (percent >= 0).fill_null(False),
        },
        schema=SENSOR_SCHEMA,
    )


def _sensors_per_job(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("job_name").agg(
        pl.sum("used_percent", "sensors"), pl.max("memory_gb"), pl.any(LOST)
    )


SIDE_TABLES = {
    TASKS: SideTable(TASKS, "job_name", _plan_tasks, _tasks_per_job),
    INSTANCES: SideTable(INSTANCES, "job_name", _plan_instances, _instances_per_job),
    TAGS: SideTable(TAGS, "inst_id", _plan_tags, _tags_per_job),
    SENSORS: SideTable(SENSORS, "job_name", _plan_sensors, _sensors_per_job),
}


def _table_of(head: Head) -> str | None:
    """Return which table a file is."""
    sign = _table_and_sign(head)
    return None if sign is None else sign[0]


def _table_and_sign(head: Head) -> tuple[str, str] | None:
    """Return which table a file is, and by what: its name, its header, or fields with a status."""
    if is_sample(head.columns) or not head.columns:
        return None
    cells = split_line((head.line or "").encode(), ",")
    for table, names in TABLES.items():
        if table in head.path.name.lower():
            return table, f"the file name {table}"
        if head.columns == names:
            return table, f"the columns of {table}"
        if "status" in names and len(cells) == len(names):
            row = dict(zip(names, cells, strict=True))
            if row["status"].lower() in STATUSES and SECONDS_CELL.fullmatch(row["start_time"]):
                return table, f"{len(names)} fields with the status {row['status']}, as {table}"
    return None


def _open(stream: SourceStream) -> Rows:
    head = Head(stream.path, stream.head)
    table = _table_of(head)
    if table is None or head.columns == TABLES[table]:
        return open_table(stream)
    return open_table(stream, Layout(names=TABLES[table]))


def _recognizes(head: Head) -> str | None:
    if is_sample(head.columns):
        return f"the columns {', '.join(SAMPLE_COLUMNS)}"
    sign = _table_and_sign(head)
    return None if sign is None else sign[1]


def _side_field(head: Head) -> SideTable | None:
    return SIDE_TABLES.get(_table_of(head) or "")


PAI = LogFormat(
    name="pai",
    description="Alibaba PAI (gpu-v2020): its tables, or the simulator's sample",
    source="alibaba/clusterdata on GitHub, cluster-trace-gpu-v2020: pai_job_table.csv and "
    "pai_task_table.csv, with pai_instance_table.csv, pai_group_tag_table.csv and "
    "pai_sensor_table.csv if you have them",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    jobs_table=JOBS,
    side_table=_side_field,
    kept=_kept_columns,
)
