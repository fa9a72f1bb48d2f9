"""When a job would start: replays of the site from an instant on, and what would start sooner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_zones import zone_named
from gpuplan.planner.parallel import run_all, usable_cores
from gpuplan.planner.site.backtest import LONGEST_S, TAILS, StartBacktest, StartsOfJobs, waits_of
from gpuplan.planner.site.new_job import Alternative, NewJob
from gpuplan.simkit.arrays import IntArray

FEW_REPLAYS = 40
"""Replays that tell which alternatives are worth all of them."""
BEST = 3
SOONER_S = 600
"""An alternative starts sooner if its median does by more than this, and by a twentieth."""
STEPS = 20
PARTITION = "partition"
RULES = {
    "shape": "no nodes of the partition can hold it",
    "PartitionTimeLimit": "its limit is above MaxTime of the partition",
    "PartitionNodeLimit": "it takes more nodes than MaxNodes of the partition",
    "QOSMaxGRESPerJob": "its GPUs are above MaxTRESPerJob of the QOS",
    "QOSMaxWallDurationPerJobLimit": "its limit is above MaxWall of the QOS",
    "QOSGrpGRES": "its GPUs are above GrpTRES of the QOS",
    "QOSGrpJobsLimit": "GrpJobs of the QOS is 0",
    "QOSMaxGRESPerUser": "its GPUs are above MaxTRESPU of the QOS",
    "QOSMaxJobsPerUserLimit": "MaxJobsPU of the QOS is 0",
    "AssocMaxJobsLimit": "MaxJobs of the association is 0",
    "AssocGrpGRES": "its GPUs are above GrpTRES of the account",
}
"""Slurm's reason -> the rule in words."""


@dataclass(frozen=True, slots=True)
class StartShare:
    """A point of the distribution of the start.

    Attributes:
        share: share of the replays in which the job started until then.
        wait_s: seconds after the submission; null beyond 28 days.
    """

    share: float
    wait_s: int | None


@dataclass(frozen=True, slots=True)
class SoonerStart:
    """Another way to ask for the job, which starts sooner.

    Attributes:
        change: what is changed.
        p10_s, p50_s, p90_s: its wait, as that of the job.
        earlier_s: how much earlier its median is; null where the job waits over 28 days.
        job: the job then.
    """

    change: str
    p10_s: int | None
    p50_s: int | None
    p90_s: int | None
    earlier_s: int | None
    job: NewJob


@dataclass(frozen=True, slots=True)
class EtaResults:
    """When a job would start.

    Attributes:
        at: the instant of submission, local time with its offset.
        job: what is submitted.
        p10_s, p90_s: ends of the interval that holds the start with 80%, as waits: the quantiles
            of the replays, moved outward as the backtest requires and to whole cycles of the
            scheduler. Null: over 28 days.
        p50_s: median wait; seconds.
        replayed_p10_s, replayed_p90_s: the quantiles of the replays themselves.
        tail: share of the replays beyond either end of the interval, as the backtest requires.
        p10_at, p50_at, p90_at: the same as local times.
        within_1h, within_8h, within_24h: probability to start within so many hours.
        replays: replays of the site.
        coverage_80: share of starts that such intervals held in the backtest; null where there is
            none.
        backtest: the backtest; null where the log has too few jobs for one.
        sooner: what would start sooner, the soonest first.
        not_sooner: other ways to ask for the job that would not start it sooner.
        distribution: waits by share of the replays, as replayed.
        as_requested_s: wait if every job ran to its limit and none came later, as ``squeue
            --start`` counts; null for never.
        running_jobs, running_gpus, waiting_jobs, waiting_gpus: what ran and waited.
        level: the rules that are replayed.
        waits: of each replay.
        zone: of local times.
        place: what the job is submitted to: a partition, or a queue.
        doubt: why the replays cannot be relied on; empty where they can.
    """

    at: str
    job: NewJob
    p10_s: int | None
    p50_s: int | None
    p90_s: int | None
    p10_at: str | None
    p50_at: str | None
    p90_at: str | None
    replayed_p10_s: int | None
    replayed_p90_s: int | None
    tail: float
    within_1h: float
    within_8h: float
    within_24h: float
    replays: int
    coverage_80: float | None
    backtest: StartBacktest | None
    sooner: tuple[SoonerStart, ...]
    not_sooner: tuple[str, ...]
    distribution: tuple[StartShare, ...]
    as_requested_s: int | None
    running_jobs: int
    running_gpus: int
    waiting_jobs: int
    waiting_gpus: int
    level: str
    waits: Hidden[IntArray]
    zone: Hidden[str]
    place: Hidden[str] = PARTITION
    doubt: Hidden[str] = ""


class InstantJobs(Protocol):
    """What runs and waits at an instant: tables with the column ``gpus``."""

    @property
    def at(self) -> int:
        """The second."""

    @property
    def running(self) -> pl.DataFrame:
        """Jobs that run."""

    @property
    def waiting(self) -> pl.DataFrame:
        """Jobs that wait."""


@dataclass(frozen=True, slots=True)
class EtaPlan:
    """How to replay.

    Attributes:
        replays, seed: how many, and of which draws.
        cycle_s: seconds between two looks of the scheduler.
        level: the rules that are replayed.
        zone: of local times.
        place: what jobs are submitted to: a partition, or a queue.
    """

    replays: int
    seed: int
    cycle_s: int
    level: str
    zone: str
    place: str = PARTITION


def quantiles(waits: IntArray, tail: float, cycle_s: int) -> list[int | None]:
    """Return the 10%, 50% and 90% quantiles of the wait in seconds, None beyond 28 days.

    The interval lies between two tails of the replays, widened to whole cycles of the scheduler.
    """
    ordered = np.sort(waits)
    last = waits.size - 1
    low, middle = (int(ordered[math.floor(share * last)]) for share in (tail, 0.5))
    high = int(ordered[math.ceil((1 - tail) * last)])
    rounded = low // cycle_s * cycle_s, middle, -(-high // cycle_s) * cycle_s
    return [None if wait > LONGEST_S else wait for wait in rounded]


def check_possible(tables: StartsOfJobs, job: NewJob) -> None:
    """Refuse a job that can never start. Raises `UsageError` with the rule."""
    if reason := tables.refusal(0):
        raise UsageError(
            f"this job would never start: {RULES.get(reason, 'a limit forbids it')} "
            f"({reason}; {job.gpus} GPUs on {job.nodes} nodes for "
            f"{(job.limit_s or 0) / 3600:g} h in partition {job.partition}, QOS {job.qos})"
        )


def start_times(
    tables: StartsOfJobs, new: int, replays: int, seed: int,
    progress: Callable[[float], None] | None = None,
) -> IntArray:  # fmt: skip
    """Return the wait of a new job in each replay; seconds, shape (replays,)."""
    length = max(1, min(25, -(-replays // (2 * usable_cores()))))
    pieces = [range(at, min(at + length, replays)) for at in range(0, replays, length)]
    waits = run_all(_piece, pieces, shared=(tables, new, seed), progress=progress)
    return np.concatenate(waits)


def _piece(draws: range, tables: StartsOfJobs, new: int, seed: int) -> IntArray:
    return waits_of(tables, new, seed, draws)


def soonest(
    tables: StartsOfJobs,
    alternatives: list[Alternative],
    waits: IntArray,
    tail: float,
    plan: EtaPlan,
) -> tuple[tuple[SoonerStart, ...], tuple[str, ...]]:
    """Return the three best ways to start sooner, and what would not start it sooner.

    Of each kind of change the mildest counts that is about as good as the best, then milder ones.

    Args:
        tables: of the job, which is the first new one, and of the others in their order.
        alternatives: other ways to ask.
        waits: of the job.
        tail: share of the replays beyond either end of an interval.
    """
    replays = waits.size
    few = min(FEW_REPLAYS, replays)
    base = float(np.median(waits[:few]))
    enough = base - max(SOONER_S, 0.05 * base)
    if enough <= 0:
        return (), ()
    median_of: dict[int, float] = {}
    useless = []
    for new in range(1, len(alternatives) + 1):
        if not tables.refusal(new):
            median = float(np.median(start_times(tables, new, few, plan.seed)))
            if median < enough:
                median_of[new] = median
            else:
                useless.append(alternatives[new - 1].change)
    kept: list[int] = []
    for kind in dict.fromkeys(other.kind for other in alternatives):
        of_kind = [new for new in median_of if alternatives[new - 1].kind == kind]
        if of_kind:
            best = min(median_of[new] for new in of_kind)
            chosen = next(new for new in of_kind if median_of[new] <= best + SOONER_S)
            kept += [new for new in of_kind if new <= chosen]
    kept.sort(key=lambda new: median_of[new])
    rows = []
    middle = int(np.sort(waits)[(replays - 1) // 2])
    for new in kept[: BEST + 1]:
        other = alternatives[new - 1]
        times = start_times(tables, new, replays, plan.seed)
        p10, p50, p90 = quantiles(times, tail, plan.cycle_s)
        if p50 is None or p50 > middle - SOONER_S:
            continue
        earlier = None if middle > LONGEST_S else middle - p50
        rows.append(SoonerStart(other.change, p10, p50, p90, earlier, other.job))
    rows.sort(key=lambda row: (row.p50_s, row.p90_s is None, row.p90_s))
    return tuple(rows[:BEST]), tuple(useless)


def eta_results(
    tables: StartsOfJobs, instant: InstantJobs, job: NewJob, alternatives: list[Alternative],
    plan: EtaPlan, backtest: StartBacktest | None,
    progress: Callable[[float], None] | None = None,
) -> EtaResults:  # fmt: skip
    """Return when a job would start.

    Args:
        tables: of the job, which is the first new one, and of the others in their order.
        alternatives: other ways to ask for it.
        backtest: what tells the tail; None for a tenth on either side.
        progress: called with the share done.

    Raises:
        UsageError: the job can never start.
    """
    check_possible(tables, job)
    tail = TAILS[0] if backtest is None else backtest.tail
    waits = start_times(tables, 0, plan.replays, plan.seed, progress)
    p10, p50, p90 = quantiles(waits, tail, plan.cycle_s)
    low, high = (int(np.quantile(waits, share)) for share in (0.1, 0.9))
    sooner, not_sooner = soonest(tables, alternatives, waits, tail, plan)
    requested = tables.as_requested(0)
    shares = [i / STEPS for i in range(1, STEPS + 1)]
    steps = [int(np.quantile(waits, share, method="higher")) for share in shares]

    def local(wait: int | None) -> str | None:
        return None if wait is None else local_time(instant.at + wait, plan.zone)

    return EtaResults(
        at=local_time(instant.at, plan.zone),
        job=job,
        p10_s=p10, p50_s=p50, p90_s=p90,
        p10_at=local(p10), p50_at=local(p50), p90_at=local(p90),
        replayed_p10_s=None if low > LONGEST_S else low,
        replayed_p90_s=None if high > LONGEST_S else high,
        tail=tail,
        within_1h=float((waits <= 3600).mean()),
        within_8h=float((waits <= 8 * 3600).mean()),
        within_24h=float((waits <= 24 * 3600).mean()),
        replays=plan.replays,
        coverage_80=None if backtest is None else backtest.coverage_80,
        backtest=backtest,
        sooner=sooner,
        not_sooner=not_sooner,
        distribution=tuple(
            StartShare(share, None if wait > LONGEST_S else wait)
            for share, wait in zip(shares, steps, strict=True)
        ),
        as_requested_s=requested - instant.at if requested >= 0 else None,
        running_jobs=instant.running.height,
        running_gpus=int(instant.running["gpus"].sum()),
        waiting_jobs=instant.waiting.height,
        waiting_gpus=int(instant.waiting["gpus"].sum()),
        level=plan.level,
        waits=waits,
        zone=plan.zone,
        place=plan.place,
    )  # fmt: skip


def local_time(second: int, zone: str) -> str:
    """Return a second after 1970 as a local time with its offset."""
    return datetime.fromtimestamp(second, zone_named(zone)).isoformat()
