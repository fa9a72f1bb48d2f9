"""The error for a source that no job-log format recognizes.

Tables that come with job logs but hold no jobs are named for what they are.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.kubernetes.refusals import not_kubernetes_json, opencost, other_answer
from gpuplan.analysis.log_formats.format import NAME_COLUMNS
from gpuplan.analysis.log_formats.registry import formats
from gpuplan.analysis.price_formats.registry import price_formats
from gpuplan.analysis.reading.json_tables import json_columns
from gpuplan.analysis.reading.source import SEPARATORS, Head, likely_separator
from gpuplan.analysis.reading.unreadable import MIN_CELLS, header_error, odd_text

WORDS: dict[str, tuple[str, ...]] = {
    "submit_time": ("submit", "submitted", "submission", "queued", "arrival", "created"),
    "start_time": ("start", "started", "begin", "began"),
    "end_time": ("end", "ended", "finish", "finished", "stop", "stopped", "completed"),
    "duration_s": ("duration", "runtime", "elapsed"),
    "num_gpus": ("gpus", "ngpus", "numgpus", "gpu"),
    "user": ("user", "username", "owner"),
}
"""Canonical column -> words of a name that mean it, the most specific first."""
OF_OTHERS = frozenset(
    {"by", "host", "hostname", "node", "nodes", "limit", "id", "state", "reason", "code", "line"}
)
"""Words in the names of columns that hold something else, such as ``submit_host``."""
OF_PEOPLE = frozenset({"user", "username", "owner"})
OF_COUNTS = frozenset(
    {"num", "n", "nr", "count", "number", "of", "total", "requested", "alloc", "s"}
)
"""Words beside ``gpu`` in the name of a count (``s`` of ``GPUs``); others name its type or use."""
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def other_table(head: Head) -> InputError | None:
    """Return what to raise for a known table without jobs; None for any other file."""
    text = Path(__file__).with_name("tables_without_jobs.toml").read_text(encoding="utf-8")
    for table in tomllib.loads(text)["table"]:
        name, columns = table.get("name"), table.get("columns", ())
        by_name = name is not None and name in head.path.name.lower()
        if by_name or (columns and set(columns) <= set(head.columns)):
            sign = name or f"columns {', '.join(columns)}"
            return InputError(
                head.path,
                f"lists {table['what']} ({sign}); it has no jobs",
                expected="a job log",
                hint=f"ingest {table['jobs']}",
            )
    return None


def unknown_log(head: Head) -> InputError:
    """Return the error for a file that no format recognizes."""
    for prices in price_formats():
        if (sign := prices.recognizes(head)) is not None:
            return InputError(
                head.path,
                f"is a price list ({prices.name}: {sign}); it has no jobs",
                expected="a job log",
                hint=f"gpuplan prices {head.path} -o prices.parquet",
            )
    for invoices in INVOICE_FORMATS.values():
        if (sign := invoices.recognizes(head.table_columns)) is not None:
            return InputError(
                head.path,
                f"is an invoice ({invoices.name}: {sign}); it has no jobs",
                expected="a job log",
                hint=f"gpuplan bill LOG --contracts FILE --invoice {head.path}",
            )
    columns = {log_format.name: log_format.columns for log_format in formats()}
    of_a_cluster = not_kubernetes_json(head.path, head.data) or other_answer(head.path, head.data)
    return (
        odd_text(head)
        or of_a_cluster
        or opencost(head.path, head.data, head.table_columns)
        or other_table(head)
        or header_error(head, columns)
        or _unknown_log(head)
    )


def _unknown_log(head: Head) -> InputError:
    """Return the error for a file that may be a log, by its columns if it is a table."""
    names = json_columns(head.data) if head.is_json else head.table_columns
    problem = f"unrecognized log format; it starts with {head.shown()}"
    hint = "gpuplan list formats shows the known ones; force one with --source-format NAME"
    if len(names) >= MIN_CELLS and head.line is not None:
        separator = likely_separator(head.line)
        if separator != "," and not head.is_json:
            problem += f", cells between {SEPARATORS[separator]}"
        if (near := _nearest(names)) is not None:
            problem += f"; nearest: {near}"
        options = guessed_map(names)
        hint = f"check these columns: {options}" if options else NAME_COLUMNS
    return InputError(head.path, problem, expected=f"one of {_names()}", hint=hint)


def _nearest(names: tuple[str, ...]) -> str | None:
    """Return the format with the fewest missing columns; None if more than half are missing."""
    columns = set(names)
    near = [
        (len(missing), log_format.name, missing)
        for log_format in formats()
        if (missing := [name for name in log_format.columns if name not in columns])
        and 2 * len(missing) <= len(log_format.columns)
    ]
    if not near:
        return None
    _, name, missing = min(near)
    return f"{name}, which also needs {', '.join(missing)}"


def _names() -> str:
    return ", ".join(log_format.name for log_format in formats())


def guessed_map(columns: Sequence[str]) -> str:
    """Return the ``--map`` options for a table; empty where the names do not say enough.

    A log without submissions takes the starts for them, and has no waits.
    """
    column_of: dict[str, str] = {}
    for target in WORDS:
        free = [column for column in columns if column not in column_of.values()]
        ranked = [(rank, column) for column in free if (rank := _rank(target, column)) is not None]
        if ranked:
            column_of[target] = min(ranked, key=lambda pair: pair[0])[1]
    if "submit_time" not in column_of and "start_time" in column_of:
        column_of = {"submit_time": column_of["start_time"], **column_of}
    has_times = "duration_s" in column_of or {"start_time", "end_time"} <= column_of.keys()
    if not (has_times and {"submit_time", "num_gpus"} <= column_of.keys()):
        return ""
    return " ".join(f"--map {name}={shlex.quote(column)}" for name, column in column_of.items())


def _rank(target: str, column: str) -> int | None:
    """Return how well a column fits, 0 for best; None where it cannot be the target."""
    words = {word.lower() for word in PARTS.findall(column)}
    ranks = [rank for rank, word in enumerate(WORDS[target]) if word in words]
    if target == "num_gpus":
        is_other = not words <= {*WORDS[target]} | OF_COUNTS
    else:
        other_words = OF_OTHERS - {"id"} if target == "user" else OF_OTHERS | OF_PEOPLE
        is_other = bool(words & other_words)
    return None if is_other or not ranks else ranks[0]
