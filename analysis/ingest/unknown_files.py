"""The error for a source that no job-log format recognizes.

Tables that come with job logs but hold no jobs are named for what they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.log_formats.format import NAME_COLUMNS
from gpuplan.analysis.log_formats.registry import formats
from gpuplan.analysis.price_formats.registry import price_formats
from gpuplan.analysis.reading.headers import MIN_CELLS, header_error
from gpuplan.analysis.reading.json_tables import json_columns
from gpuplan.analysis.reading.source import SEPARATORS, Head, likely_separator
from gpuplan.analysis.reading.unreadable import odd_text

OPENB_JOBS = "openb_pod_list_default.csv of the same folder"
HELIOS_JOBS = "cluster_log.csv of HeliosData"
PAI_JOBS = "pai_job_table.csv together with pai_task_table.csv"
ACME_JOBS = "trace_seren.csv or trace_kalos.csv of AcmeTrace"
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


@dataclass(frozen=True, slots=True)
class Other:
    """A kind of table without jobs.

    Attributes:
        what: the name of the table.
        columns: the columns that identify it; empty if it has no header.
        jobs: where the jobs are.
        name: the name of its file, if that identifies it.
    """

    what: str
    columns: tuple[str, ...]
    jobs: str
    name: str | None = None


OTHERS = (
    Other("what the processes on Alibaba PAI used", (), PAI_JOBS, "pai_sensor_table"),
    Other("the machines of Alibaba PAI", (), PAI_JOBS, "pai_machine_spec"),
    Other("what the machines of Alibaba PAI used", (), PAI_JOBS, "pai_machine_metric"),
    Other("the nodes of Alibaba openb", ("sn", "cpu_milli", "gpu", "model"), OPENB_JOBS),
    Other(
        "the nodes of Alibaba spot-gpu",
        ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"),
        "job_info_df.csv of the same folder",
    ),
    Other(
        "GPU demand of Helios over time",
        ("time", "total_gpu_num", "running_gpu_num", "pending_gpu_num"),
        HELIOS_JOBS,
    ),
    Other(
        "the throughputs of Gavel's job types",
        ("worker_type", "job_type", "scale_factor", "steps_per_second"),
        "a .trace file, and give this one with --throughputs",
    ),
    Other(
        "the cluster of a Tiresias simulation",
        ("num_switch", "num_node_p_switch", "num_gpu_p_node"),
        "a job list such as 60_job.csv",
    ),
    Other("sums per cluster", ("id", "gpu_num", "job_num", "avg_run_time_gpu"), HELIOS_JOBS),
    Other("sums per trace", ("id", "job_num", "gpu_job_num", "avg_run_time_gpu"), ACME_JOBS),
    Other("shares of jobs by duration", ("duration_s", "Seren", "Kalos", "Philly"), ACME_JOBS),
    Other("shares of jobs by GPUs", ("quantity", "trace", "gpus", "cdf_percent"), ACME_JOBS),
)


def other_table(head: Head) -> InputError | None:
    """Return what to raise for a known table without jobs; None for any other file."""
    for other in OTHERS:
        by_name = other.name is not None and other.name in head.path.name.lower()
        if by_name or (other.columns and set(other.columns) <= set(head.columns)):
            sign = other.name or f"columns {', '.join(other.columns)}"
            return InputError(
                head.path,
                f"lists {other.what} ({sign}); it has no jobs",
                expected="a job log",
                hint=f"ingest {other.jobs}",
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
    columns = {log_format.name: log_format.columns for log_format in formats()}
    return odd_text(head) or other_table(head) or header_error(head, columns) or _unknown_log(head)


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
        others = OF_OTHERS - {"id"} if target == "user" else OF_OTHERS | OF_PEOPLE
        is_other = bool(words & others)
    return None if is_other or not ranks else ranks[0]
