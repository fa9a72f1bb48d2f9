"""When jobs wait, and for what: their first waits, in spells that have one reason each.

A wait is that of a job's first run, from its submission to its start. Where the log records
reasons, the last one counts for the whole wait. Elsewhere a job waits for free GPUs while the free
ones that it may use are fewer than it requested, and else for another reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.analysis.history.reasons import (
    ADMISSION,
    LIMITS,
    NO_REASON,
    NOT_ELIGIBLE,
    NOT_SAID,
    group_of,
)
from gpuplan.analysis.history.runs import START_US, SUBMIT_US
from gpuplan.analysis.history.steps import time_without_room
from gpuplan.analysis.waits.pools import Pools, kind_of, partition_kinds, parts_of

NEEDED = ("submit_time", "queue_s", "duration_s", "num_gpus", "gpu_type", "state")
"""Canonical columns that waits are made of."""
SITE = ("eligible_time", "partition", "qos", "account", "reason", "node_list", "runs",
        "reserved_time")  # fmt: skip
"""Columns that only some logs have."""
REASON = "reason"
"""The last reason that the scheduler gave; only some logs have it."""
NO_ROOM, ROOM = "for free GPUs", "for another reason"
"""Names of the two parts of a wait without recorded reasons."""


@dataclass(frozen=True, slots=True)
class FirstWaits:
    """The first waits of jobs that hold GPUs and started; arrays of shape (n,), microseconds.

    Attributes:
        jobs: the columns of the log, and ``kind``: the GPUs that a job runs on.
        submit, eligible, start: instants; a job without a recorded one is eligible at once.
        reserved: when the quota of each was reserved; its start where the log does not tell.
        need: GPUs requested, in millionths.
        never_started: jobs with GPUs that never started or still wait.
    """

    jobs: pl.DataFrame
    submit: IntArray
    eligible: IntArray
    start: IntArray
    reserved: IntArray
    need: IntArray
    never_started: int

    @property
    def wait(self) -> IntArray:
        """How long each job waited."""
        return self.start - self.submit

    @property
    def has_reservations(self) -> bool:
        """Whether the log tells when quota was reserved."""
        name = "reserved_time"
        return name in self.jobs.columns and self.jobs[name].null_count() < self.jobs.height

    @property
    def has_reasons(self) -> bool:
        """Whether the log records why jobs wait, with more than that they do."""
        if REASON not in self.jobs.columns:
            return False
        return bool((self.jobs[REASON].cast(pl.String) != NOT_SAID).any())


@dataclass(frozen=True, slots=True)
class Spells:
    """Parts of waits; arrays of shape (m,).

    Attributes:
        job: row of the job in `FirstWaits`.
        reason: place of the reason in ``reasons``.
        begin, end: microseconds.
        lasting: microseconds of it that count, at most end - begin.
        reasons: Slurm's reasons, or `NO_ROOM` and `ROOM`.
        is_cut: whether a job may have several spells of one reason.
    """

    job: IntArray
    reason: IntArray
    begin: IntArray
    end: IntArray
    lasting: IntArray
    reasons: tuple[str, ...]
    is_cut: bool = True

    def cut(self, edges: IntArray) -> Spells:
        """Return the spells cut at ascending instants; parts share what counts by their length."""
        low = np.searchsorted(edges, self.begin, side="right")
        high = np.searchsorted(edges, self.end, side="left")
        pieces = np.maximum(high - low, 0) + 1
        row = np.repeat(np.arange(self.job.size), pieces)
        nth = np.arange(row.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        at = np.append(edges, 0)
        begin = np.where(nth == 0, self.begin[row], at[np.maximum(low[row] + nth - 1, 0)])
        last = nth == pieces[row] - 1
        end = np.where(last, self.end[row], at[np.minimum(low[row] + nth, edges.size)])
        length = np.maximum(self.end - self.begin, 1)[row]
        share = np.rint(self.lasting[row] * ((end - begin) / length)).astype(np.int64)
        return replace(
            self,
            job=self.job[row],
            reason=self.reason[row],
            begin=begin,
            end=end,
            lasting=share,
            is_cut=True,
        )


def first_waits(
    jobs: pl.DataFrame, kinds: Mapping[str, str] | None = None, begin_us: int | None = None
) -> FirstWaits:
    """Return the first waits of a log.

    Args:
        jobs: with `NEEDED`, and what of `SITE` the log has; jobs still running have the time run so
            far as ``duration_s``.
        kinds: see `partition_kinds`; None where these are all jobs of the log.
        begin_us: leave out jobs submitted before; None for no job.
    """
    has_gpus = pl.col("num_gpus") > 0
    if begin_us is not None:
        has_gpus &= SUBMIT_US >= begin_us
    kinds = partition_kinds(jobs) if kinds is None else kinds
    with_gpus = jobs.filter(has_gpus).with_columns(kind_of(jobs, kinds))
    ran = pl.col("queue_s").is_not_null() & pl.col("queue_s").is_not_nan()
    ran &= (pl.col("state") != "not_started").fill_null(True)
    started = with_gpus.filter(ran)
    submit = started.select(SUBMIT_US).to_series().to_numpy()
    start = started.select(START_US).to_series().to_numpy()

    def instants(name: str, default: IntArray) -> IntArray:
        if name not in started.columns:
            return default
        recorded = started[name].dt.epoch("us").fill_null(pl.Series(default)).to_numpy()
        clipped: IntArray = np.clip(recorded, submit, start)
        return clipped

    eligible, reserved = instants("eligible_time", submit), instants("reserved_time", start)
    never = with_gpus.filter(
        (pl.col("state") == "not_started").fill_null(False) | pl.col("duration_s").is_null()
    )
    return FirstWaits(
        started, submit, eligible, start, reserved, parts_of(started["num_gpus"]),
        never.filter(~ran).height if never.height else 0,
    )  # fmt: skip


def without_room(waits: FirstWaits, pools: Pools, begin: IntArray, end: IntArray) -> IntArray:
    """Return for how long within a part of each wait too few of the GPUs it may use were free.

    Microseconds, shape (n,); the time before a job is eligible, and that after the reservation of
    its quota, do not count.
    """
    blocked = np.zeros(waits.need.size, np.int64)
    end = np.maximum(np.minimum(end, waits.reserved), begin)
    begin = np.minimum(np.maximum(begin, waits.eligible), end)
    for kind, partition, rows in _by_pool(waits):
        pool = pools.pool(kind, partition)
        rows = rows[end[rows] > begin[rows]]
        if pool is not None and rows.size:
            blocked[rows] = time_without_room(
                pool.held, pool.size, waits.need[rows], begin[rows], end[rows]
            )
    return blocked


def _by_pool(waits: FirstWaits) -> list[tuple[str, str | None, IntArray]]:
    jobs = waits.jobs
    has_part = "partition" in jobs.columns
    keys = jobs.select("kind", partition=pl.col("partition") if has_part else pl.lit(None))
    waited = keys.with_columns(row=pl.int_range(pl.len())).filter(pl.Series(waits.wait > 0))
    groups = waited.group_by("kind", "partition").agg("row")
    return [
        (kind, partition, groups["row"][at].to_numpy())
        for at, (kind, partition) in enumerate(groups.select("kind", "partition").iter_rows())
    ]


def recorded_spells(waits: FirstWaits) -> Spells:
    """Return a spell per job with the reason that the log records last, until it got its quota.

    A second spell is from then to its start, where the log tells when quota was reserved.
    """
    none = NOT_SAID if waits.has_reservations else NO_REASON
    names = waits.jobs[REASON].cast(pl.String).fill_null(none)
    reasons = [*names.unique().sort().to_list(), ADMISSION]
    place = names.replace_strict(reasons, range(len(reasons)), return_dtype=pl.Int64).to_numpy()
    late = np.flatnonzero(waits.reserved < waits.start)
    job = np.concatenate([np.arange(waits.submit.size), late])
    begin = np.concatenate([waits.submit, waits.reserved[late]])
    end = np.concatenate([waits.reserved, waits.start[late]])
    admission = np.full(late.size, len(reasons) - 1)
    return Spells(
        job, np.concatenate([place, admission]), begin, end, end - begin, tuple(reasons),
        is_cut=False,
    )  # fmt: skip


def decomposed_spells(waits: FirstWaits, pools: Pools, edges: IntArray | None = None) -> Spells:
    """Return what each job waits for by the GPUs that were free: up to four spells per part.

    Args:
        waits: of jobs.
        pools: of the whole log.
        edges: instants at which waits are cut into parts; None for one part per wait.
    """
    parts = Spells(
        np.arange(waits.submit.size), np.zeros(waits.submit.size, np.int64), waits.submit,
        waits.start, waits.wait, (NO_ROOM, ROOM, NOT_ELIGIBLE, ADMISSION),
    )  # fmt: skip
    part = waits
    if edges is not None:
        parts = parts.cut(edges)
        part = replace(
            waits, jobs=waits.jobs.select("kind", *_present(waits.jobs, "partition"))[parts.job],
            submit=parts.begin, start=parts.end, eligible=waits.eligible[parts.job],
            reserved=waits.reserved[parts.job], need=waits.need[parts.job],
        )  # fmt: skip
    blocked = without_room(part, pools, parts.begin, parts.end)
    early = np.clip(part.eligible - parts.begin, 0, parts.end - parts.begin)
    admission = np.clip(parts.end - part.reserved, 0, parts.end - parts.begin)
    early = np.minimum(early, parts.end - parts.begin - admission)
    room = parts.end - parts.begin - early - blocked - admission
    amounts = (blocked, room, early, admission)
    some = [np.flatnonzero(amount > 0) for amount in amounts]
    rows = np.concatenate(some)
    return Spells(
        parts.job[rows], np.repeat(np.arange(4), [each.size for each in some]),
        parts.begin[rows], parts.end[rows],
        np.concatenate([amount[each] for amount, each in zip(amounts, some, strict=True)]),
        parts.reasons, is_cut=edges is not None,
    )  # fmt: skip


def _present(jobs: pl.DataFrame, name: str) -> list[str]:
    return [name] if name in jobs.columns else []


def title_of(reason: str) -> str:
    """Return the name of the group of a reason in answers."""
    if reason in (NO_ROOM, ROOM):
        return reason
    if reason == NOT_ELIGIBLE:
        return "not eligible yet"
    return group_of(reason).title


def is_limit(reason: str) -> bool:
    """Return whether a reason is a limit of a QOS, an account or a user."""
    return reason not in (NO_ROOM, ROOM, NOT_ELIGIBLE) and group_of(reason).key == LIMITS


def limit_share(jobs: pl.DataFrame) -> float | None:
    """Return the share of the wait whose recorded reason is a limit of a QOS, an account or a user.

    Args:
        jobs: with ``queue_s`` and ``num_gpus``, and ``reason`` where the log has it.

    Returns:
        None where the log names no reason, or nobody waited.
    """
    if REASON not in jobs.columns or jobs[REASON].null_count() == jobs.height:
        return None
    waits = jobs.filter(pl.col("num_gpus") > 0).select(
        pl.col(REASON).cast(pl.String).fill_null("None"), pl.col("queue_s").fill_nan(None)
    )
    by_reason = waits.group_by(REASON, maintain_order=True).agg(pl.col("queue_s").sum()).rows()
    total = sum(waited for _, waited in by_reason)
    return (
        sum(waited for reason, waited in by_reason if is_limit(reason)) / total if total else None
    )
