"""Instance files of the Dilu simulator: services that start and are deleted, one event per line.

Source: Lv et al., "Dilu: Enabling GPU Resourcing-on-Demand for Serverless DL Serving via
Introspective Elasticity", ASPLOS 2025. An event is a Python literal, which is parsed as one and
never evaluated. A start and the deletion of the same service make one job.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, need
from gpuplan.analysis.reading.batch import Refused, Rows, Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.records import Cell, Flat, open_rows, text_lines
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import moment, seconds_between

COLUMNS = ("service_name", "type", "gpu_num", "start", "delete")
MAX_EVENT_BYTES = 1 << 16
EVENT = "{'Time': ..., 'Action': 'start' or 'delete', 'Instance': {'service_name': ...}}"
LOCAL = "a time like 2026-01-01 00:00:05"
STATE = CANONICAL["state"]


def _open(stream: SourceStream) -> Rows:
    return open_rows(partial(_services, stream), COLUMNS)


def _services(stream: SourceStream, wanted: Sequence[str]) -> Iterator[Flat | Refused]:
    """Yield a row per service: when it is deleted, or at the end; its number is that of its start.

    The line of a deletion is part of the row of its start, so it does not count as a row.
    """
    running: dict[str, tuple[int, dict[str, Cell], str]] = {}
    for line_number, line in text_lines(stream):
        raw = line.decode("utf-8", "backslashreplace").rstrip("\r")
        try:
            action, name, cells = _event(raw)
        except ValueError as error:
            yield Refused(line_number, "unreadable", None, str(error), EVENT, raw)
            continue
        if action == "start" and name in running:
            expected = "a service that is not running"
            yield Refused(line_number, "duplicate_id", "service_name", name, expected, raw)
        elif action == "start":
            running[name] = (line_number, cells, raw)
        elif name not in running:
            expected = "a service that was started before"
            yield Refused(line_number, "delete_without_start", "service_name", name, expected, raw)
        else:
            start, started, text_of_start = running.pop(name)
            ended = {**started, "delete": cells["delete"]}
            yield start, tuple(ended[column] for column in wanted), text_of_start
    for start, started, text_of_start in running.values():
        yield start, tuple(started[column] for column in wanted), text_of_start


def _event(raw: str) -> tuple[str, str, dict[str, Cell]]:
    """Return the action, the service and the cells of a line. Raises `ValueError`."""
    event = _literal(raw)
    if not isinstance(event, dict) or not isinstance(instance := event.get("Instance"), dict):
        raise ValueError("no event of an instance")
    action, name = event.get("Action"), _cell(instance.get("service_name"))
    if action not in ("start", "delete"):
        raise ValueError(f"the action {action!r:.40}")
    if name is None:
        raise ValueError("an instance without a service_name")
    cells = {column: _cell(instance.get(column)) for column in COLUMNS[:3]}
    return action, name, cells | dict.fromkeys(COLUMNS[3:]) | {action: _cell(event.get("Time"))}


def _literal(raw: str) -> Any:
    if len(raw) > MAX_EVENT_BYTES:
        raise ValueError("a line longer than 64 KB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in a text
            return ast.literal_eval(raw.strip())
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError("not a Python literal") from error


def _cell(value: Any) -> Cell:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") or None
    if value is None or isinstance(value, int | float):
        return None if value is None else repr(value)
    raise ValueError(f"a {type(value).__name__} where a text or a number belongs")


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "dilu")
    zone = context.choices.time_zone or "UTC"
    running = pl.col("end_time").is_null()
    return ReadingPlan(
        fields=(
            text("job_id", "service_name", required=True),
            text("job_class", "type"),
            number("num_gpus", "gpu_num", required=True),
            Field("submit_time", "start", moment("start", zone), LOCAL, True, zone),
            Field("start_time", "start", moment("start", zone), LOCAL, False, zone),
            Field("end_time", "delete", moment("delete", zone), LOCAL, False, zone),
        ),
        jobs={
            "duration_s": seconds_between("end_time", "start_time"),
            "state": pl.when(running)
            .then(pl.lit("running", STATE))
            .otherwise(pl.lit("completed", STATE)),
        },
        tallies=(Tally("services that are not deleted: still running (no duration)", running),),
        notes=(
            "GPUs are those that a service is placed on; its shares of them are left out, and so "
            "is the wait, which the log does not tell",
        ),
        time_zone=zone,
    )


def _recognizes(head: Head) -> str | None:
    if head.line is None or not all(f"'{key}'" in head.line for key in ("Action", "Instance")):
        return None
    return "events with an Action and an Instance, as Python literals"


DILU = LogFormat(
    name="dilu",
    description="instance files of the Dilu simulator (services that start and stop)",
    source="sigserverless/Dilu on GitHub, instances-N.txt",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_zone=True,
)
