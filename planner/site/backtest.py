"""How well forecasts of starts would have been for jobs of the log that have started since."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.storage.cache import Cache, key_of, usual_folder
from gpuplan.planner.parallel import run_all
from gpuplan.planner.site.instant import SiteInstant, array_of, instant_of, last_second
from gpuplan.planner.site.new_job import NewJob
from gpuplan.planner.site.start_replays import DAYS
from gpuplan.planner.site.start_tables import HOLDS, start_replays
from gpuplan.planner.twin.calibrate import Progress
from gpuplan.planner.twin.settings import level_config
from gpuplan.planner.twin.workload import ONE_PARTITION, has_reason
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

NOMINAL = 0.8
"""Share of the starts that an interval should hold."""
TAILS = tuple(i / 100 for i in range(10, -1, -1))
"""Shares of the replays that may lie beyond either end of an interval, the widest last."""
LEAST_JOBS = 20
"""Jobs that are enough to tell a coverage."""
HISTORY = 0.4
"""Share of a log that the first forecast has behind it, or as many days as this:"""
HISTORY_DAYS = 28
STILL_WAITING_DAYS = 3
"""Jobs of the last days are left out: of those only the ones that waited little have started."""
SIZES = (1, 8)
"""GPUs up to which a job is small, and of middle size."""
LONGEST_S = DAYS * DAY_S
KIND = "start-backtests"


@dataclass(frozen=True, slots=True)
class StartBacktest:
    """How well forecasts of jobs that waited for over a minute would have been.

    Attributes:
        jobs: jobs of the log, as many small, middle and large ones as it has.
        replays: replays of each.
        until: second of the last of them.
        tail: share of the replays beyond either end of an interval that holds 80% of the starts.
        coverage_80: share of the starts within such intervals, each half of the jobs with the
            tail of the other half.
        raw_coverage_80: the same with a tenth of the replays beyond either end.
        pinball_s: mean pinball loss of the median, half the mean absolute error; seconds.
        easy_pinball_s: that of EASY backfill if every job runs to its limit and none comes later,
            as ``squeue --start`` counts; null where it was not replayed.
        mean_pinball_s: that of the mean wait recorded until then.
        at_once_jobs: of as many jobs that waited or not, those forecast to start at once.
        at_once_share: share of these that started within 5 minutes.
    """

    jobs: int
    replays: int
    until: int
    tail: float
    coverage_80: float
    raw_coverage_80: float
    pinball_s: float
    easy_pinball_s: float | None
    mean_pinball_s: float
    at_once_jobs: int | UnsetType = UNSET
    at_once_share: float | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class PastForecast:
    """The forecast of one job.

    Attributes:
        wait_s: how long it waited.
        below, upto: share of the replays that started earlier by more than a cycle of the
            scheduler, and not later by more than one.
        median_s: median of the replays.
        easy_s: EASY with limits; None where it was not replayed.
        mean_s: mean wait recorded until then.
        at_once: replays that started at once.
    """

    wait_s: float
    below: float
    upto: float
    median_s: float
    easy_s: float | None
    mean_s: float
    at_once: int = 0

    @classmethod
    def of(
        cls,
        waits: IntArray,
        wait_s: float,
        cycle_s: int,
        mean_s: float,
        easy_s: float | None = None,
    ) -> PastForecast:
        """Return the forecast of a job that waited so long, from its wait in each replay."""
        return cls(
            wait_s=wait_s,
            below=float((waits < wait_s - cycle_s).mean()),
            upto=float((waits <= wait_s + cycle_s).mean()),
            median_s=float(np.median(waits)),
            easy_s=easy_s,
            mean_s=mean_s,
            at_once=int((waits == 0).sum()),
        )

    def is_within(self, tail: float) -> bool:
        """Return whether the start lies within the interval of a tail."""
        return self.upto >= tail and self.below <= 1 - tail


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """How to test forecasts.

    Attributes:
        jobs: at most so many jobs.
        replays: of each.
        seed: of the choice of jobs and of the draws.
        with_easy: whether EASY with requested limits is replayed too.
    """

    jobs: int
    replays: int
    seed: int = 0
    with_easy: bool = False


def backtest(
    log: SiteLog, instant: SiteInstant, site: SiteCluster, config: SchedulerConfig,
    plan: BacktestPlan, progress: Callable[[float], None] | None = None,
) -> StartBacktest | None:  # fmt: skip
    """Return how well starts of jobs before an instant would have been forecast.

    Args:
        instant: what is known; nothing later is used.
        progress: called with the share done.

    Returns:
        None where the log has fewer than `LEAST_JOBS` jobs that can be used.
    """
    chosen = scored_jobs(instant, site, config, plan.jobs, plan.seed)
    if chosen.height < LEAST_JOBS:
        return None
    past_log = replace(log, jobs=instant.past, waiting=instant.past[:0])
    rows = list(chosen.iter_rows(named=True))
    forecasts = run_all(_forecast, rows, shared=(past_log, site, config, plan), progress=progress)
    return scored(forecasts, plan.replays, int(chosen["submit"].max()))  # type: ignore[arg-type]


def scored(forecasts: list[PastForecast], replays: int, until: int) -> StartBacktest:
    """Return how good forecasts were, in any order of the jobs that does not tell their starts.

    Args:
        forecasts: at least `LEAST_JOBS`.
        replays: of each.
        until: second of the last of the jobs.
    """
    halves = forecasts[::2], forecasts[1::2]
    inside = [
        forecast.is_within(tail_of(other))
        for half, other in (halves, halves[::-1])
        for forecast in half
    ]
    waits = np.array([each.wait_s for each in forecasts])
    easy = [each.easy_s for each in forecasts if each.easy_s is not None]
    return StartBacktest(
        jobs=len(forecasts),
        replays=replays,
        until=until,
        tail=tail_of(forecasts),
        coverage_80=float(np.mean(inside)),
        raw_coverage_80=float(np.mean([each.is_within(TAILS[0]) for each in forecasts])),
        pinball_s=_pinball(waits, [each.median_s for each in forecasts]),
        easy_pinball_s=_pinball(waits, easy) if easy else None,
        mean_pinball_s=_pinball(waits, [each.mean_s for each in forecasts]),
    )


def tail_of(forecasts: list[PastForecast]) -> float:
    """Return the largest tail whose intervals hold 80% of the starts."""
    enough = min(NOMINAL * (1 + 1 / len(forecasts)), 1.0)
    for tail in TAILS:
        if np.mean([each.is_within(tail) for each in forecasts]) >= enough:
            return tail
    return TAILS[-1]


def _pinball(waits: FloatArray, forecast: list[float]) -> float:
    return float(np.abs(waits - np.minimum(forecast, LONGEST_S)).mean() / 2)


def scored_jobs(
    instant: SiteInstant, site: SiteCluster, config: SchedulerConfig, jobs: int, seed: int
) -> pl.DataFrame:
    """Return jobs to forecast: as many of each size, one of an array, those that waited.

    Left out are jobs that something else than the scheduler held.
    """
    names = [part.name for part in site.partitions]
    begins = instant.first + min(HISTORY * (instant.at - instant.first), HISTORY_DAYS * DAY_S)
    ready = pl.max_horizontal("submit", "eligible")
    rows = instant.past.with_columns(array=pl.coalesce(array_of(), "job_id")).filter(
        pl.col("start").is_not_null()
        & pl.col("submit").is_between(begins, instant.at - STILL_WAITING_DAYS * DAY_S)
        & (ready == pl.col("submit"))
        & (pl.col("start") > pl.col("submit") + config.bf_interval)
        & ~has_reason((*HOLDS, "JobArrayTaskLimit"))
        & pl.col("partition").fill_null(ONE_PARTITION).is_in(names)
        & pl.col("limit_s").is_not_null()
        & pl.col("job_id").is_first_distinct()
        & pl.col("array").is_first_distinct()
    )
    return rows[as_many_of_each_size(rows["gpus"].to_numpy(), jobs, seed)]


def as_many_of_each_size(gpus: NDArray[Any], jobs: int, seed: int) -> IntArray:
    """Return positions of so many jobs at most, as many small, middle and large ones."""
    order = np.random.default_rng(seed).permutation(gpus.size)
    size = np.digitize(gpus[order], SIZES, right=True)
    rank = np.zeros(gpus.size, np.int64)
    for kind in range(len(SIZES) + 1):
        rank[size == kind] = np.arange(int((size == kind).sum()))
    chosen: IntArray = np.sort(order[np.argsort(rank, kind="stable")[:jobs]])
    return chosen


def _forecast(
    row: dict[str, Any], log: SiteLog, site: SiteCluster, config: SchedulerConfig,
    plan: BacktestPlan,
) -> PastForecast:  # fmt: skip
    """Return the forecast of a job of the log from what was known when it was submitted."""
    at, wait = row["submit"], row["start"] - row["submit"]
    other_jobs = log.jobs.filter(pl.col("job_id") != row["job_id"])
    instant = instant_of(replace(log, jobs=other_jobs), at)
    job = NewJob.of(row)
    waits = waits_of(
        start_replays(log, instant, site, config, [job]), 0, plan.seed, range(plan.replays)
    )
    easy = None
    if plan.with_easy:
        plain = level_config(config, "easy")
        start = start_replays(log, instant, site, plain, [job]).as_requested(0)
        easy = float(start - at if start >= 0 else LONGEST_S)
    return PastForecast.of(waits, wait, config.bf_interval, mean_wait(instant.past), easy)


def mean_wait(past: pl.DataFrame) -> float:
    """Return the mean recorded wait of the jobs that started, from eligible on; seconds."""
    ready = pl.max_horizontal("submit", "eligible")
    mean = past.select((pl.col("start") - ready).clip(0).mean()).item()
    return float(mean or 0.0)


class StartsOfJobs(Protocol):
    """Replays of any kind of site from an instant on, until a new job started."""

    @property
    def at(self) -> int:
        """The instant."""

    def start(self, new: int, seed: int, draw: int) -> int:
        """Return when a new job starts in a draw; `NOT_STARTED` where it does not in 28 days."""

    def refusal(self, new: int) -> str:
        """Return why a new job can never start; empty where it can."""

    def as_requested(self, new: int) -> int:
        """Return when it starts if every job runs to its limit and none comes later; or -1."""


def waits_of(tables: StartsOfJobs, new: int, seed: int, draws: range) -> IntArray:
    """Return the wait of a new job in each draw, in seconds; `LONGEST_S` + 1 where it is longer."""
    starts = np.array([tables.start(new, seed, draw) for draw in draws], np.int64)
    waits: IntArray = np.where(starts >= 0, starts - tables.at, LONGEST_S + 1)
    return waits


def kept_backtest(
    log: SiteLog, instant: SiteInstant, site: SiteCluster, config: SchedulerConfig,
    plan: BacktestPlan, settings_sha256: str, progress: Progress,
) -> StartBacktest | None:  # fmt: skip
    """Return how well starts of jobs before the day of an instant would have been forecast.

    Args:
        settings_sha256: hash of the file that site and rules come from.
        progress: called with the share done.

    Returns:
        None where the log has too few jobs for a test.
    """
    day = min(day_of(instant.at, instant.first), last_second(log))
    key = key_of(
        "start-backtest", log=log.sha256, settings=settings_sha256, day=day, plan=asdict(plan)
    )
    return kept(key, lambda: backtest(log, instant_of(log, day), site, config, plan, progress))


def day_of(at: int, first: int) -> int:
    """Return the second until which a test of an instant may know: its day's first."""
    return max(at // DAY_S * DAY_S, first)


def kept(key: str, test: Callable[[], StartBacktest | None]) -> StartBacktest | None:
    """Return a test that the cache keeps under a key, done where it does not have it yet."""
    try:
        cache = Cache(usual_folder())
    except OutputError:  # no home folder
        cache = None
    text = None if cache is None else cache.read(KIND, key)
    if text is not None:
        values = json.loads(text)
        return None if values is None else StartBacktest(**values)
    tested = test()
    if cache is not None:
        values = None if tested is None else asdict(tested)
        stated = values and {name: value for name, value in values.items() if value is not UNSET}
        cache.keep(KIND, key, json.dumps(stated))
    return tested
