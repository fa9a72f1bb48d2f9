"""Any table with columns named by the user: ``--source-format csv --map submit_time=created``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import CANONICAL, PRIORITIES, STATES
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, state_words
from gpuplan.analysis.reading.batch import EARLY, FEW_GPUS, Rows, Tally
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.json_tables import open_json_table
from gpuplan.analysis.reading.parquets import open_parquet
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, made_id, states
from gpuplan.analysis.reading.source import Head, SourceStream, likely_separator
from gpuplan.analysis.reading.times import (
    MILLIS_ABOVE,
    RELATIVE_BELOW_S,
    is_number,
    moment,
    moment_after,
    seconds,
    seconds_between,
)

TIMES = ("submit_time", "start_time", "end_time")
SLURM_SUFFIX = r"( by \S+|\+)$"
"""Suffixes that Slurm adds to a word: ``CANCELLED by 1001``, or ``CANCELLED+`` if truncated."""
COUNTS = ("num_workers", "attempts")
"""Columns in which an empty cell is 1."""
TARGETS = (*CANONICAL, "start_time", "end_time")
"""What ``--map`` takes: wait and run time may also come from the instants of start and end."""


def table_plan(context: SourceContext, columns: Mapping[str, str], prefix: str) -> ReadingPlan:
    """Return the plan of a table, canonical column -> source column.

    A time column of plain numbers holds seconds: from the start of the log where they are below
    100,000,000, else of the Unix epoch (milliseconds from 100,000,000,000 on). Everything else is
    ISO 8601; without an offset it is in the zone chosen, or UTC.
    """
    zone = context.choices.time_zone or "UTC"
    fields: list[Field] = []
    relative = False
    for name in TIMES:
        if name not in columns:
            continue
        value, expected, is_relative = _time(context, columns[name], zone)
        relative = relative or is_relative
        local = zone if expected.startswith("an ISO") else None
        if name == "end_time" and local is not None and "start_time" in columns:
            value = moment_after(columns[name], columns["start_time"], zone)
        fields.append(Field(name, columns[name], value, expected, name == "submit_time", local))
    fields += [_field(name, source) for name, source in columns.items() if name not in TIMES]
    jobs: dict[str, pl.Expr] = {}
    tallies = []
    if "job_id" not in columns:
        jobs["job_id"] = made_id(prefix, context.number)
    if {"start_time", "end_time"} <= columns.keys() and "duration_s" not in columns:
        jobs["duration_s"] = seconds_between("end_time", "start_time")
    if "start_time" in columns and "queue_s" not in columns:
        waited = seconds_between("start_time", "submit_time")
        jobs["queue_s"] = pl.when(waited >= 0).then(waited)
        tallies.append(Tally(EARLY, waited < 0))
    for name in COUNTS:
        if name in columns:
            jobs[name] = pl.col(name).fill_null(1)
    if {"num_gpus", "num_workers"} <= columns.keys():
        few = (pl.col("num_gpus") > 0) & (pl.col("num_gpus") < pl.col("num_workers"))
        tallies.append(Tally(FEW_GPUS, few))
    notes = []
    if "end_time" in columns and not columns.keys() & {"start_time", "duration_s"}:
        notes.append(
            f"no durations: {columns['end_time']} has the ends, but no column is mapped to "
            "start_time or duration_s"
        )
    return ReadingPlan(
        fields=tuple(fields),
        jobs=jobs,
        tallies=tuple(tallies),
        notes=tuple(notes),
        time_zone=None if relative else zone,
        zone_columns=_zone_columns(context, columns),
        relative_time=relative,
        made_ids="job_id" not in columns,
    )


def _zone_columns(context: SourceContext, columns: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns whose offsets determine the zone: none if the user names the zone.

    Times in Parquet files have no offsets.
    """
    if context.choices.time_zone is not None or context.head.is_parquet:
        return ()
    return tuple(columns[name] for name in TIMES if name in columns)


def _time(context: SourceContext, source: str, zone: str) -> tuple[pl.Expr, str, bool]:
    """Return how to read a time column, the expected cells, and whether times are relative."""
    seen = [cell for row in context.sample if (cell := row.get(source)) is not None]
    numbers = [abs(float(cell)) for cell in seen if is_number(cell)]
    if 2 * len(numbers) <= len(seen):
        return moment(source, zone), "an ISO 8601 time that exists", False
    if min(numbers) >= MILLIS_ABOVE:
        return seconds(source, "ms"), "milliseconds of the Unix epoch", False
    if max(numbers) >= RELATIVE_BELOW_S:
        return seconds(source), "seconds of the Unix epoch", False
    return seconds(source), "seconds from the start of the log", True


def _field(name: str, source: str) -> Field:
    cell = pl.col(source).str.strip_chars()
    required = name in ("job_id", "num_gpus")
    kind = CANONICAL[name]
    if name == "state":
        words = state_words("philly", "wandb", "slurm", "other")
        return states(source, words | {state: state for state in STATES}, suffix=SLURM_SUFFIX)
    if name == "priority":
        meaning = {word: word for word in PRIORITIES}
        word = cell.str.to_lowercase()
        value = word.replace_strict(meaning, default=None, return_dtype=kind)
        return Field(name, source, value, f"one of {', '.join(PRIORITIES)}")
    if name == "gpu_type":
        return Field(name, source, gpu_names(source))
    if kind == pl.Int32():
        return count(name, source)
    if kind == pl.Float64():
        expected = "a number of GPUs" if name == "num_gpus" else "seconds"
        return Field(name, source, cell.cast(kind, strict=False), expected, required)
    return Field(name, source, cell, required=required)


def with_columns(plan: ReadingPlan, context: SourceContext, format_name: str) -> ReadingPlan:
    """Return the plan of a known format with the columns that ``--map`` adds or overrides.

    What the format derives from its own columns, such as a wait from a submission, stays as it is.

    Raises:
        InputError: the source has no such column.
        UsageError: no such canonical column.
    """
    spelled = {name.casefold(): name for name in context.columns}  # some formats fold the case
    chosen = {
        name: source if source in context.columns else spelled.get(source.casefold(), source)
        for name, source in context.choices.columns.items()
    }
    _check_columns(context, chosen, tuple(CANONICAL), f" of the format {format_name}")
    columns = with_source_state(chosen)
    table = table_plan(context, columns, "")
    jobs = dict(plan.jobs)
    fields = list(plan.fields)
    for mapped in table.fields:
        if mapped.name == "job_id":  # messages name the column of the ids
            fields = [field for field in fields if field.name != "job_id"]
            jobs.pop("job_id", None)
            fields.append(mapped)
            continue
        name = f"--map {mapped.name}"  # the format's own field stays for what it derives from it
        fields.append(replace(mapped, name=name))
        jobs[mapped.name] = pl.col(name).fill_null(1) if mapped.name in COUNTS else pl.col(name)
    with_map = replace(
        plan,
        fields=tuple(fields),
        jobs=jobs,
        made_ids=plan.made_ids and "job_id" not in columns,
    )
    if "submit_time" not in columns:
        return with_map
    return replace(
        with_map,
        time_zone=table.time_zone,
        zone_columns=table.zone_columns,
        relative_time=table.relative_time,
    )


def with_values(plan: ReadingPlan, values: Mapping[str, Mapping[str, str]]) -> ReadingPlan:
    """Return the plan with the words that ``--map-value`` explains.

    Raises:
        UsageError: nothing is read into one of these columns.
    """
    fields = list(plan.fields)
    for column, words in values.items():
        names = {column, f"--map {column}", *(("state_word",) if column == "state" else ())}
        places = [place for place, field in enumerate(fields) if field.name in names]
        if not places:
            raise UsageError(
                f"--map-value {column}: nothing is read into {column}\n"
                f"  next: name its column, --map {column}=COLUMN"
            )
        for place in places:
            read_field = fields[place]
            word = pl.col(read_field.source).str.strip_chars().str.to_lowercase()
            meaning = word.replace_strict(words, default=None, return_dtype=CANONICAL[column])
            fields[place] = replace(read_field, value=pl.coalesce(meaning, read_field.value))
    return replace(plan, fields=tuple(fields))


def _check_columns(
    context: SourceContext,
    chosen: Mapping[str, str],
    targets: Sequence[str],
    of_what: str = "",
) -> None:
    """Refuse columns that are not canonical, or not in the source."""
    unknown = [name for name in chosen if name not in targets]
    if unknown:
        raise UsageError(
            f"--map {unknown[0]}={chosen[unknown[0]]}: no canonical column {unknown[0]!r}"
            f"{of_what}; expected one of {', '.join(targets)}"
        )
    for name, source in chosen.items():
        if source not in context.columns:
            raise InputError(
                context.head.path,
                f"no column {source!r} for --map {name}={source}; "
                f"found {', '.join(context.columns[:20])}",
                expected="canonical column = column of the file",
            )


def with_source_state(columns: dict[str, str]) -> dict[str, str]:
    """Return the columns with the log's own word for a state beside the state."""
    if "state" in columns:
        columns.setdefault("source_state", columns["state"])
    return columns


def mapped_plan(context: SourceContext) -> ReadingPlan:
    """Return the plan of a table with the columns that the user maps, the others by their names.

    Raises:
        InputError: a column is missing.
        UsageError: no such canonical column.
    """
    chosen = context.choices.columns
    _check_columns(context, chosen, TARGETS)
    canonical = {name: name for name in TARGETS if name in context.columns}
    columns = with_source_state(canonical | dict(chosen))
    missing = [name for name in ("submit_time", "num_gpus") if name not in columns]
    if missing:
        raise InputError(
            context.head.path,
            f"nothing is mapped to {' and '.join(missing)}; "
            f"found {', '.join(context.columns[:20])}",
            expected="--map for columns with other names",
            hint=f"add --map {missing[0]}=COLUMN",
        )
    return table_plan(context, columns, "row")


def _open(stream: SourceStream) -> Rows:
    head = Head(stream.path, stream.head)
    if head.is_parquet:
        return open_parquet(stream)
    if head.is_json:
        return open_json_table(stream)
    return open_table(stream, lambda line: Layout(likely_separator(line)))


CSV = LogFormat(
    name="csv",
    description="any CSV (also ; TAB |), JSON or Parquet table, with --map canonical=column",
    source="your own export",
    recognizes=lambda head: None,
    plan=mapped_plan,
    open=_open,
    takes_zone=True,
    takes_columns=True,
)
