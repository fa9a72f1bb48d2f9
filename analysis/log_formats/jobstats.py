"""Summaries of jobstats: what the GPUs of a job did, in the column AdminComment of ``sacct``.

A summary is ``JS1:`` and the base64 of the gzip of JSON::

    {"gpus": 2, "total_time": 3600, "nodes": {"n1": {"gpu_utilization": {"0": 95.2, "1": 0.0},
     "gpu_used_memory": {"0": 7e9, "1": 0}, "gpu_total_memory": {"0": 8.5e10, "1": 8.5e10}}}}

``JS1:Short`` and ``JS1:None`` say that there is none. Means are over the run of the job. Source:
github.com/PrincetonUniversity/jobstats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from zlib import decompressobj
from zlib import error as zlib_error

import msgspec
import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.reading.limits import MOST_RATIO

SIGN = "JS1:"
MOST_BYTES = 4 << 20
"""Unpacked size of a summary; one of 8 GPUs has 500 bytes."""
FREE_BYTES = 1 << 16
"""A summary may unpack to this size, or to `MOST_RATIO` times its own."""
MOST_PERCENT = 101.0
"""Counters are rounded up to here; what is above is no share of time."""
GIB = 2.0**30
GZIP = 31

READ, SHORT, NONE, UNREADABLE, TOO_LARGE, WITHOUT_GPUS = range(6)
"""What became of a summary; null where a comment is not one."""
WORDS = {"short": SHORT, "none": NONE}
LONGEST_WORD = 16

FIELDS: dict[str, pl.DataType] = {
    "status": pl.Int8(),
    "listed": pl.Float64(),
    "known": pl.Float64(),
    "idle": pl.Float64(),
    "percent": pl.Float64(),
    "mem_used_gib": pl.Float64(),
    "mem_total_gib": pl.Float64(),
    "mem_most_gib": pl.Float64(),
    "mem_of_one_gib": pl.Float64(),
    "unlisted": pl.Float64(),
    "above": pl.Float64(),
    "nodes": pl.String(),
}
"""What `summaries` reads of a summary: the GPUs that it lists, those with a figure, those of them
at 0%, the sum of percents; memory used and total of the GPUs that have both, the most used on one
and the most that one has; GPUs without a figure that count as unused; figures above 100%;
nodes with counters, with commas between them."""

Counters = dict[str, float | None]
ONE_AT_A_TIME = Lock()
"""Threads that unpack summaries at once would hand over the interpreter at each of them."""


class _Node(msgspec.Struct, gc=False):
    gpu_utilization: Counters | None = None
    gpu_used_memory: Counters | None = None
    gpu_total_memory: Counters | None = None


class _JobSummary(msgspec.Struct, gc=False):
    nodes: dict[str, _Node]


class _UsualNode(msgspec.Struct, gc=False):
    gpu_utilization: dict[str, float] | None = None
    gpu_used_memory: dict[str, float] | None = None
    gpu_total_memory: dict[str, float] | None = None


class _UsualSummary(msgspec.Struct, gc=False):
    nodes: dict[str, _UsualNode]


_USUAL = msgspec.json.Decoder(_UsualSummary)
"""Takes counters that are numbers, and is a third faster."""
_DECODER = msgspec.json.Decoder(_JobSummary, strict=False)
"""Takes numbers written as texts, and nulls, too."""


@dataclass(slots=True)
class _Gpus:
    """Counters of the GPUs of many summaries, one after another; `job` counts the summaries."""

    job: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    percent: list[float | None] = field(default_factory=list)
    used: list[float | None] = field(default_factory=list)
    total: list[float | None] = field(default_factory=list)
    unlisted: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)


def summaries(comments: pl.Series) -> pl.Series:
    """Return `FIELDS` of each comment; never null, the status is where there is no summary."""
    texts = comments.str.strip_chars()
    is_summary = texts.str.starts_with(SIGN).fill_null(False)
    packed = texts.str.slice(len(SIGN)).filter(is_summary)
    at = is_summary.arg_true().to_numpy()
    status = np.full(len(packed), UNREADABLE, np.int8)
    for place in (packed.str.len_bytes() <= LONGEST_WORD).arg_true().to_list():
        status[place] = WORDS.get(packed[place].strip().lower(), UNREADABLE)
    decoded = packed.str.decode("base64", strict=False)
    if decoded.null_count():  # spaces, where output was wrapped or padded
        again = packed.filter(decoded.is_null()).str.replace_all(r"\s", "")
        at_nulls = decoded.is_null().arg_true()
        decoded = decoded.scatter(at_nulls, again.str.decode("base64", strict=False))
    data = decoded.to_list()
    gpus = _Gpus()
    with ONE_AT_A_TIME:
        for job in np.flatnonzero(status == UNREADABLE).tolist():
            if data[job]:
                status[job] = _add(gpus, job, data[job])
    columns = _columns(gpus, len(packed))
    status[(status == READ) & ~(columns["known"] > 0)] = WITHOUT_GPUS
    values: dict[str, pl.Series] = {}
    for name, kind in FIELDS.items():
        column: list[str | None] | np.ndarray
        if name == "nodes":
            column = [gpus.nodes.get(place) for place in range(len(packed))]
        else:
            column = status if name == "status" else columns[name]
        nulls = pl.Series(name, [None], dtype=kind).new_from_index(0, len(comments))
        values[name] = nulls.scatter(at, pl.Series(column, dtype=kind)) if at.size else nulls
    return pl.DataFrame(values).to_struct(comments.name)


def _add(gpus: _Gpus, job: int, data: bytes) -> int:
    """Take the counters of one summary; returns its status."""
    unpacker = decompressobj(GZIP)
    most = MOST_RATIO * len(data)
    most = FREE_BYTES if most < FREE_BYTES else MOST_BYTES if most > MOST_BYTES else most
    try:
        text = unpacker.decompress(data, most)
        if not unpacker.eof:
            return TOO_LARGE if unpacker.unconsumed_tail else UNREADABLE
        nodes = _nodes(text)
    except (zlib_error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNREADABLE
    hosts = []
    for host, node in nodes.items():
        percent, used, total = node.gpu_utilization, node.gpu_used_memory, node.gpu_total_memory
        if percent is None:
            continue
        hosts.append(host)
        names = [*percent]
        if used is None or total is None or [*used] != names or [*total] != names:
            percent, used, total = _aligned(gpus, job, percent, used or {}, total or {})
        gpus.job.append(job)
        gpus.count.append(len(percent))
        gpus.percent += percent.values()
        gpus.used += used.values()
        gpus.total += total.values()
    gpus.nodes[job] = hosts[0] if len(hosts) == 1 else ",".join(hosts)
    return READ


def _nodes(text: bytes) -> Mapping[str, _Node | _UsualNode]:
    try:
        return _USUAL.decode(text).nodes
    except msgspec.ValidationError:
        return _DECODER.decode(text).nodes


def _aligned(
    gpus: _Gpus,
    job: int,
    percent: Mapping[str, float | None],
    used: Mapping[str, float | None],
    total: Mapping[str, float | None],
) -> tuple[Counters, Counters, Counters]:
    """Return counters of the same GPUs in the same order; one with memory alone is unused."""
    unlisted: Counters = {gpu: 0.0 for gpu in used if gpu not in percent}
    if unlisted:
        gpus.unlisted[job] = gpus.unlisted.get(job, 0) + len(unlisted)
        percent = {**percent, **unlisted}
    return (
        dict(percent),
        {gpu: used.get(gpu) for gpu in percent},
        {gpu: total.get(gpu) for gpu in percent},
    )


def _columns(gpus: _Gpus, jobs: int) -> dict[str, FloatArray]:
    """Return the `FIELDS` of each summary, from the counters of all GPUs."""
    job = np.repeat(np.array(gpus.job, np.int64), np.array(gpus.count, np.int64))
    percent, used, total = (
        np.array(column, np.float64) for column in (gpus.percent, gpus.used, gpus.total)
    )
    with np.errstate(invalid="ignore"):
        is_read = (percent >= 0) & (percent <= MOST_PERCENT)
        has_memory = (used >= 0) & (total > 0) & (used <= total) & np.isfinite(total)
        is_above = percent > MOST_PERCENT
    unlisted = np.zeros(jobs)
    unlisted[list(gpus.unlisted)] = list(gpus.unlisted.values())
    counted: dict[str, FloatArray] = {
        "listed": np.ones(job.size),
        "known": is_read.astype(np.float64),
        "idle": (is_read & (percent == 0)).astype(np.float64),
        "percent": np.where(is_read, np.minimum(percent, 100.0), 0.0),
        "mem_used_gib": np.where(has_memory, used / GIB, 0.0),
        "mem_total_gib": np.where(has_memory, total / GIB, 0.0),
        "above": is_above.astype(np.float64),
    }
    of_memory = job[has_memory], jobs
    return {
        **{name: _sums(values, job, jobs) for name, values in counted.items()},
        "mem_most_gib": _largest(used[has_memory] / GIB, *of_memory),
        "mem_of_one_gib": _largest(total[has_memory] / GIB, *of_memory),
        "unlisted": unlisted,
    }


def _sums(values: FloatArray, job: IntArray, jobs: int) -> FloatArray:
    return np.bincount(job, values, jobs).astype(np.float64, copy=False)


def _largest(values: FloatArray, job: IntArray, jobs: int) -> FloatArray:
    """Return the largest value of each job; nan for a job without one."""
    largest = np.full(jobs, np.nan)
    np.fmax.at(largest, job, values)
    return largest
