"""Add up what jobs wait for, who waits, and how full the GPUs were.

Waits are those of first runs, from submission to start, of jobs that hold GPUs. Wait hours count
each job once, whatever its GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray, distinct
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US, MICROS
from gpuplan.analysis.characterize.load import bin_width_s
from gpuplan.analysis.history.reasons import QUEUED, reason_groups
from gpuplan.analysis.waits.pools import PARTS_PER_GPU, HeldPool, Pools
from gpuplan.analysis.waits.results import (
    FreeWait,
    GroupWait,
    LimitWait,
    ReasonWait,
    SlurmReasonWait,
    TypeUse,
    WaitBin,
    WaitSummary,
)
from gpuplan.analysis.waits.spells import (
    NO_ROOM,
    FirstWaits,
    Spells,
    decomposed_spells,
    is_limit,
    recorded_spells,
    title_of,
    without_room,
)

FULL = 0.95
"""Share of the GPUs held above which a cluster is full."""
REASONS, FREE_GPUS, RULES = "recorded reasons", "free GPUs", "site rules"
"""What the reasons of an answer come from."""
SIZES = ((1, "1 GPU"), (4, "2-4 GPUs"), (8, "5-8 GPUs"), (16, "9-16 GPUs"))
LARGER = "over 16 GPUs"
NO_NAME = "unknown"
GROUPINGS = ("account", "partition", "qos", "gpu_type", "size")

LimitOf = Callable[[str, str], int | None]
"""Reason and the QOS or account whose limit it is -> its GPUs; None where that is not known."""


def unknown_limit(_reason: str, _of: str) -> int | None:
    """Return no limit."""
    return None


@dataclass(frozen=True, slots=True)
class WaitAnalysis:
    """The waits of a log with their reasons.

    Attributes:
        waits: first waits.
        pools: GPUs that jobs may use.
        spells: what jobs wait for.
        basis: what that comes from.
        blocked: microseconds of each wait in which too few GPUs were free.
        limit_of: the limits that a file tells.
    """

    waits: FirstWaits
    pools: Pools
    spells: Spells
    basis: str
    blocked: IntArray
    limit_of: LimitOf = unknown_limit

    @classmethod
    def of(
        cls,
        waits: FirstWaits,
        pools: Pools,
        *,
        rules: Spells | None = None,
        limit_of: LimitOf = unknown_limit,
        over_time: bool = True,
    ) -> WaitAnalysis:
        """Return the reasons of waits: by the site's rules, as recorded, or by the free GPUs.

        Args:
            waits: at least one.
            pools: of the whole log.
            rules: which rule held when, where that is known.
            limit_of: the limits that a file tells.
            over_time: whether `timeline` will be asked for.
        """
        if rules is None and not waits.has_reasons:
            spells = decomposed_spells(waits, pools, bin_edges(waits) if over_time else None)
            blocked = _sum_of(spells, waits.submit.size)
            return cls(waits, pools, spells, FREE_GPUS, blocked)
        blocked = without_room(waits, pools, waits.submit, waits.start)
        if rules is not None:
            return cls(waits, pools, rules, RULES, blocked, limit_of)
        return cls(waits, pools, recorded_spells(waits), REASONS, blocked, limit_of)

    @property
    def total_us(self) -> int:
        """All that jobs waited."""
        return int(self.waits.wait.sum())

    def share(self, micros: float) -> float | None:
        """Return a part of all waits; None where nobody waited."""
        return micros / self.total_us if self.total_us else None

    def summary(self) -> WaitSummary:
        """Return why jobs wait, and how full the cluster is."""
        waits, seconds = self.waits, self.waits.wait / MICROS
        p50, p95 = np.percentile(seconds, (50, 95))
        is_known = "eligible_time" in waits.jobs.columns
        eligible = float((waits.start - waits.eligible).mean()) / MICROS if is_known else None
        reserved = (
            float((waits.reserved - waits.submit).mean()) / MICROS
            if waits.has_reservations
            else None
        )
        blocked = int(self.blocked.sum())
        queued_titles = {NO_ROOM, *(reason_groups()[key].title for key in QUEUED)}
        reasons = self._reasons()
        queued = sum(
            (row.full_cluster_share or 0.0) * row.wait_h
            for row in reasons
            if row.name in queued_titles
        )
        return WaitSummary(
            jobs=waits.submit.size,
            never_started=waits.never_started,
            waited_jobs=int(np.count_nonzero(waits.wait)),
            wait_h=self.total_us / HOUR_US,
            mean_wait_s=float(seconds.mean()),
            p50_wait_s=float(p50),
            p95_wait_s=float(p95),
            mean_eligible_wait_s=eligible,
            mean_reservation_wait_s=reserved,
            basis=self.basis,
            reasons=reasons,
            full_cluster_share=self.share(blocked),
            full_cluster_wait_h=blocked / HOUR_US,
            too_small_share=self.share(queued * HOUR_US),
            free_wait_h=(self.total_us - blocked) / HOUR_US,
            while_free=self._while_free(),
            gpu_types=tuple(self._types()),
        )

    def _blocked_parts(self) -> IntArray:
        """Return for how long too few GPUs were free within each spell."""
        spells, waits = self.spells, self.waits
        if self.basis == REASONS and spells.job.size == waits.submit.size:  # the whole waits
            return self.blocked
        if self.basis == FREE_GPUS:
            return np.where(spells.reason == 0, spells.lasting, 0)
        rows = spells.job
        part = FirstWaits(
            waits.jobs[rows], spells.begin, waits.eligible[rows], spells.end, waits.reserved[rows],
            waits.need[rows], 0,
        )  # fmt: skip
        return without_room(part, self.pools, spells.begin, spells.end)

    def _while_free(self) -> tuple[FreeWait, ...]:
        free = self.spells.lasting - self._blocked_parts()
        by_reason = np.bincount(self.spells.reason, free, len(self.spells.reasons))
        hours: dict[str, float] = {}
        for reason, micros in zip(self.spells.reasons, by_reason.tolist(), strict=True):
            if micros > 0:
                name = title_of(reason)
                hours[name] = hours.get(name, 0.0) + micros / HOUR_US
        return tuple(
            FreeWait(name, hours[name]) for name in sorted(hours, key=lambda name: -hours[name])
        )

    def _reasons(self) -> tuple[ReasonWait, ...]:
        spells, blocked = self.spells, self._blocked_parts()
        count = len(spells.reasons)
        time = np.bincount(spells.reason, spells.lasting, count)
        full = np.bincount(spells.reason, blocked, count)
        pairs = spells.job * count + spells.reason
        pairs = distinct(pairs) if spells.is_cut else pairs
        jobs = np.bincount(pairs % count, minlength=count)
        groups: dict[str, list[int]] = {}
        for code, reason in enumerate(spells.reasons):
            if jobs[code]:
                groups.setdefault(title_of(reason), []).append(code)
        rows = []
        for name, codes in groups.items():
            total = float(time[codes].sum())
            rows.append(
                ReasonWait(
                    name=name,
                    wait_h=total / HOUR_US,
                    share=self.share(total),
                    jobs=self._jobs_with(pairs, codes, jobs),
                    full_cluster_share=float(full[codes].sum()) / total if total else None,
                    slurm_reasons=tuple(
                        SlurmReasonWait(
                            spells.reasons[code],
                            float(time[code]) / HOUR_US,
                            self.share(float(time[code])),
                            int(jobs[code]),
                            self._limits(code),
                        )
                        for code in sorted(codes, key=lambda code: -time[code])
                    ),
                )
            )
        return tuple(sorted(rows, key=lambda row: (-row.wait_h, row.name)))

    def _jobs_with(self, pairs: IntArray, codes: list[int], jobs: IntArray) -> int:
        """Return the number of jobs with any of some reasons, each counted once."""
        if not self.spells.is_cut or len(codes) == 1:
            return int(jobs[codes].sum())
        count = len(self.spells.reasons)
        return int(distinct(pairs[np.isin(pairs % count, codes)] // count).size)

    def _limits(self, code: int) -> tuple[LimitWait, ...]:
        reason = self.spells.reasons[code]
        column = "qos" if reason.startswith("QOS") else "account"
        if not is_limit(reason) or column not in self.waits.jobs.columns:
            return ()
        chosen = self.spells.reason == code
        rows = self.spells.job[chosen]
        table = pl.DataFrame(
            {
                "of": self.waits.jobs[column].cast(pl.String).fill_null(NO_NAME)[rows],
                "job": rows,
                "time": self.spells.lasting[chosen],
            }
        )
        sums = table.group_by("of").agg(pl.col("time").sum(), pl.col("job").n_unique())
        return tuple(
            LimitWait(of, self.limit_of(reason, of), time / HOUR_US, jobs)
            for of, time, jobs in sums.sort("time", "of", descending=[True, False]).iter_rows()
        )

    def _types(self) -> Iterator[TypeUse]:
        waits = self.waits
        begin, end = int(waits.submit.min()), int(waits.submit.max())
        end = max(end, int(waits.start.max())) if end <= begin else end
        kinds = waits.jobs["kind"]
        pools = list({id(pool): pool for pool in self.pools.types.values()}.values())
        for pool in sorted(pools, key=lambda pool: (-pool.size, pool.gpu_type)):
            of_pool = [kind for kind, each in self.pools.types.items() if each is pool]
            yield _type_use(pool, waits, kinds.is_in(of_pool).to_numpy(), begin, end)

    def groups(self) -> tuple[GroupWait, ...]:
        """Return the waits by account, partition, QOS, GPU type and size, where a log has them."""
        return tuple(row for by in GROUPINGS for row in self._groups_by(by))

    def _groups_by(self, by: str) -> Iterator[GroupWait]:
        names = group_names(self.waits, by)
        if names is None:
            return
        place = {name: number for number, name in enumerate(ordered_names(names, by))}
        codes = names.replace_strict(place, return_dtype=pl.Int64).to_numpy()
        titles = sorted({title_of(reason) for reason in self.spells.reasons})
        title = np.array([titles.index(title_of(reason)) for reason in self.spells.reasons])
        cell = codes[self.spells.job] * len(titles) + title[self.spells.reason]
        time = np.bincount(cell, self.spells.lasting, len(place) * len(titles))
        by_reason = time.reshape(len(place), len(titles)) / HOUR_US
        wait = self.waits.wait
        for name, code in place.items():
            chosen = np.flatnonzero(codes == code)
            seconds = wait[chosen] / MICROS
            total = int(wait[chosen].sum())
            p50, p95 = np.percentile(seconds, (50, 95))
            yield GroupWait(
                by, name, chosen.size, total / HOUR_US, self.share(total), float(seconds.mean()),
                float(p50), float(p95),
                float(self.blocked[chosen].sum()) / total if total else None,
                {
                    title: float(hours)
                    for title, hours in sorted(
                        zip(titles, by_reason[code].tolist(), strict=True),
                        key=lambda item: (-item[1], item[0]),
                    )
                    if hours > 0
                },
            )  # fmt: skip

    def timeline(self) -> tuple[WaitBin, ...]:
        """Return the hours waited over time, in at most 200 bins."""
        edges = bin_edges(self.waits)
        spells = self.spells.cut(edges[1:-1])
        bins = np.searchsorted(edges, spells.begin, side="right") - 1
        titles = list(dict.fromkeys(row.name for row in self._reasons()))
        title = np.array([
            titles.index(title_of(reason)) if title_of(reason) in titles else 0
            for reason in spells.reasons
        ])  # fmt: skip
        cell = bins * len(titles) + title[spells.reason]
        time = np.bincount(cell, spells.lasting, (edges.size - 1) * len(titles)) / HOUR_US
        rows = time.reshape(edges.size - 1, len(titles)).tolist()
        return tuple(
            WaitBin(
                datetime.fromtimestamp(edge // MICROS, UTC).replace(tzinfo=None).isoformat(),
                dict(zip(titles, row, strict=True)),
            )
            for edge, row in zip(edges[:-1].tolist(), rows, strict=True)
        )


def _sum_of(spells: Spells, count: int) -> IntArray:
    """Return for how long each of so many jobs waited for free GPUs."""
    blocked = np.zeros(count, np.int64)
    np.add.at(blocked, spells.job[spells.reason == 0], spells.lasting[spells.reason == 0])
    return blocked


def bin_edges(waits: FirstWaits) -> IntArray:
    """Return the edges of at most 200 bins of a round width, of an hour at least."""
    begin, end = int(waits.submit.min()), int(waits.start.max())
    width = max(int(bin_width_s((end - begin) / MICROS)), HOUR_S) * MICROS
    first = begin // width * width
    count = max(-(-(end - first) // width), 1)
    edges: IntArray = first + np.arange(count + 1, dtype=np.int64) * width
    return edges


def group_names(waits: FirstWaits, by: str) -> pl.Series | None:
    """Return the group of every job; None where the log has no such groups."""
    jobs = waits.jobs
    if by == "size":
        gpus = pl.col("num_gpus")
        name: Any = pl.when(gpus <= SIZES[0][0]).then(pl.lit(SIZES[0][1]))
        for most, title in SIZES[1:]:
            name = name.when(gpus <= most).then(pl.lit(title))
        return jobs.select(by=name.otherwise(pl.lit(LARGER)))["by"]
    columns = ("account", "group") if by == "account" else (by,)
    for column in columns:
        if column in jobs.columns and jobs[column].null_count() < jobs.height:
            return jobs[column].cast(pl.String).fill_null(NO_NAME)
    return None


def ordered_names(names: pl.Series, by: str) -> list[str]:
    """Return the distinct names: sizes ascending, others by name."""
    distinct: list[str] = names.unique().sort().to_list()
    if by != "size":
        return distinct
    order = [title for _, title in SIZES] + [LARGER]
    return sorted(distinct, key=order.index)


def _type_use(pool: HeldPool, waits: FirstWaits, chosen: Any, begin: int, end: int) -> TypeUse:
    full = int(pool.size * FULL)
    span = np.array([begin]), np.array([end])
    held = int(pool.held.time_above(full, *span)[0])
    rows = np.flatnonzero(chosen & (waits.start > waits.eligible))
    first = np.minimum(waits.eligible[rows], end)
    last = np.clip(waits.start[rows], first, end)
    queued = pool.held.time_above(full, first, last).astype(np.float64) * waits.need[rows]
    return TypeUse(
        gpu_type=pool.gpu_type,
        gpus=pool.size / PARTS_PER_GPU,
        source=pool.source,
        peak_gpus=pool.held.peak / PARTS_PER_GPU,
        full_h=held / HOUR_US,
        full_share=held / (end - begin) if end > begin else None,
        queue_gpu_h=float(queued.sum()) / HOUR_US / PARTS_PER_GPU,
        wait_h=int(waits.wait[chosen].sum()) / HOUR_US,
    )
