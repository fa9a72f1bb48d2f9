"""One replay of a sweep, the input and output of a worker process, and its price.

Workers are taken in the order of their prices, so a factor on all serverful prices changes no
schedule: one replay serves all price ratios.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.analysis.statistics.bootstrap import Blocks
from gpuplan.planner.policies.allpass import replay, timeline_frame
from gpuplan.planner.policies.allpass_results import bill_of_allpass, measure
from gpuplan.planner.runs.simulation import PolicyResults
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.ski_rental import SkiRental
from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS

SERVERFUL_USD = ("cost_marketplace_usd", "cost_conventional_usd", "mean_marketplace_usd_per_gpu_h")
"""The results that grow in proportion to the prices of rented workers."""


@dataclass(frozen=True)
class AllpassResults:
    """What a replay measures; means are over all jobs.

    Attributes:
        jobs: replayed.
        mean_jct_s, median_jct_s, p90_jct_s, p95_jct_s, p99_jct_s: completion times, from
            submission to finish.
        mean_service_s: run time.
        mean_jqt_s: start-up and queue.
        mean_startup_s: start-up of containers.
        mean_queue_s: for containers under a limit, and for workers.
        mean_container_queue_s: for containers under a limit.
        mean_demotion_s: checkpoints and restores of jobs that leave their containers.
        cost_usd: the bill of the window.
        cost_if_serverless_usd: the bill had every job stayed in its container.
        cost_serverless_usd: of containers.
        cost_marketplace_usd: of workers rented on the marketplace.
        cost_conventional_usd: of workers rented from a conventional cloud.
        finished_serverless_share: jobs that ended in their containers.
        finished_within_10min_share: of the jobs.
        deadline_miss_share: of the jobs.
        gpu_h: run time x GPUs of the jobs, a fraction of a GPU as such.
        utilization: run time x GPUs within the window over the GPU time billed.
        paid_gpu_h: GPU-hours billed.
        never_demotable_jobs: jobs wider than the capacity, which stay in their containers.
        mean_threshold_s: mean over time; null where it is infinite.
        workers_peak, workers_mean: rented workers, from request to release.
        worker_busy_share: of their time.
        reclaimed_workers: workers that the marketplace took back.
        mean_marketplace_usd_per_gpu_h: mean price of marketplace GPUs; null without any.
        makespan_s: from the first submission to the last finish.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p90_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_service_s: float
    mean_jqt_s: float
    mean_startup_s: float
    mean_queue_s: float
    mean_container_queue_s: float
    mean_demotion_s: float
    cost_usd: float
    cost_if_serverless_usd: float
    cost_serverless_usd: float
    cost_marketplace_usd: float
    cost_conventional_usd: float
    finished_serverless_share: float
    finished_within_10min_share: float
    deadline_miss_share: float
    gpu_h: float
    utilization: float | None
    paid_gpu_h: float
    never_demotable_jobs: int
    mean_threshold_s: float
    workers_peak: int
    workers_mean: float
    worker_busy_share: float | None
    reclaimed_workers: int
    mean_marketplace_usd_per_gpu_h: float | None
    makespan_s: float


@dataclass(frozen=True, slots=True)
class Resampled:
    """A replay over resamples of the trace, in which a job keeps its bill and its time.

    Arrays of shape (resamples,).

    Attributes:
        serverless_usd: serverless bills.
        serverful_usd: shares of the bill of all rentals.
        mean_jct_s: mean completion times.
    """

    serverless_usd: FloatArray
    serverful_usd: FloatArray
    mean_jct_s: FloatArray

    @property
    def cost_usd(self) -> FloatArray:
        """The total bills."""
        return self.serverless_usd + self.serverful_usd


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replay at the prices of its parameters.

    Attributes:
        parameters: of the replay.
        results: what it measures.
        resampled: for the confidence of a choice; None if not requested.
        timeline: of `gpuplan.planner.policies.allpass.timeline_frame`; None if not requested.
    """

    parameters: Allpass
    results: AllpassResults
    resampled: Resampled | None
    timeline: pl.DataFrame | None = field(default=None, compare=False)


def replay_scenario(
    parameters: Allpass,
    jobs: TraceJobs,
    draws: Draws,
    blocks: Blocks | None,
    timelines: bool = False,
) -> Replayed:
    """Replay jobs and sum up cost and time of each resample, within the window of the jobs."""
    run = replay(jobs, parameters, draws)
    resampled = None
    if blocks is not None:
        bill = bill_of_allpass(run, jobs.window_us)
        resampled = Resampled(
            serverless_usd=blocks.sums(bill.serverless_usd),
            serverful_usd=blocks.sums(bill.jobs_usd - bill.serverless_usd),
            mean_jct_s=blocks.sums(np.asarray(run.jct_us / MICROS)) / blocks.size,
        )
    timeline = timeline_frame(run) if timelines else None
    results = AllpassResults(**measure(run, jobs.window_us))
    return Replayed(parameters, results, resampled, timeline)


class Judged:
    """The results of a replay, with the bill and the completion time that choices compare."""

    __slots__ = ()
    results: AllpassResults | PolicyResults

    @property
    def cost_usd(self) -> float:
        """The total bill."""
        return self.results.cost_usd

    @property
    def mean_jct_s(self) -> float:
        """Mean job completion time."""
        return self.results.mean_jct_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint(Judged):
    """One replay of a sweep at one ratio of prices.

    Attributes:
        policy: the rule for the threshold, fixed or adaptive.
        threshold_s: run time after which a job leaves serverless GPUs, at first if it adapts; null
            if it never does, 0 for everything on rented workers, where jobs start on them.
        capacity: most workers rented at once; null for no limit.
        price_ratio: serverful over serverless price, of the offers within the greatest capacity.
        results: what the replay measures.
        closed_form_cost_usd, closed_form_delay_s: bill and mean delay of the closed form; null for
            an adaptive threshold.
        own_price_ratio: serverful over serverless price, of the offers within its own capacity.
        break_even_price_ratio: the value of it at which the bill is that of everything serverless;
            null where there is none.
        resampled: over resamples of the trace; None if not requested.
        never_pays: whether jobs are moved, and containers and checkpoints alone cost no less than
            everything serverless, so that moving them does not pay at any price.
        timeline: at these prices; None if not requested.
    """

    policy: str
    threshold_s: float
    capacity: int | None
    price_ratio: float
    results: Inlined[AllpassResults]
    closed_form_cost_usd: float | None
    closed_form_delay_s: float | None
    own_price_ratio: float
    break_even_price_ratio: float | None
    resampled: Hidden[Resampled | None]
    never_pays: Hidden[bool] = False
    timeline: Hidden[pl.DataFrame | None] = field(default=None, compare=False)

    def is_fixed_at(self, threshold_s: float | None) -> bool:
        """Return whether its threshold is fixed at this number of seconds."""
        return self.policy == "fixed" and self.threshold_s == threshold_s


def point_of(
    replayed: Replayed, form: SkiRental, price_ratio: float, factor: float, everything_usd: float
) -> SweepPoint:
    """Return a replay as a point at other serverful prices.

    Args:
        replayed: at the prices of its parameters.
        form: of the same capacity, at the prices wanted.
        price_ratio: of the case.
        factor: the serverful prices wanted over those of the replay.
        everything_usd: bill of everything serverless.
    """
    rules, results = replayed.parameters, replayed.results
    resampled, timeline = replayed.resampled, replayed.timeline
    if factor != 1:
        rented_usd = {name: getattr(results, name) for name in SERVERFUL_USD}
        rented_usd = {
            name: None if usd is None else factor * usd for name, usd in rented_usd.items()
        }
        results = replace(results, **rented_usd)
        results = replace(
            results,
            cost_usd=results.cost_serverless_usd
            + results.cost_marketplace_usd
            + results.cost_conventional_usd,
        )
        if timeline is not None:
            timeline = timeline.with_columns(pl.col("paid_usd_per_h") * factor)
        if resampled is not None:
            resampled = replace(resampled, serverful_usd=factor * resampled.serverful_usd)
    serverful_usd = results.cost_marketplace_usd + results.cost_conventional_usd
    left_usd = everything_usd - results.cost_serverless_usd
    at_s = None if rules.controller == "adaptive" else rules.threshold_s
    return SweepPoint(
        policy=rules.controller,
        threshold_s=rules.threshold_s,
        capacity=rules.capacity,
        price_ratio=price_ratio,
        results=results,
        closed_form_cost_usd=None if at_s is None else float(form.cost_usd(at_s)),
        closed_form_delay_s=None if at_s is None else float(form.delay_s(at_s)),
        own_price_ratio=form.price_ratio,
        break_even_price_ratio=left_usd / serverful_usd * form.price_ratio
        if serverful_usd > 0 and left_usd > 0
        else None,
        resampled=resampled,
        never_pays=left_usd <= 0 and results.workers_peak > 0,
        timeline=timeline,
    )
