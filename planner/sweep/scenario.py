"""One replay of a sweep, the input and output of a worker process, and its price.

Workers are taken in the order of their prices, so a factor on all serverful prices changes no
schedule: one replay serves all price ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.statistics.bootstrap import Blocks
from gpuplan.planner.policies.allpass import replay, timeline_frame
from gpuplan.planner.policies.allpass_results import bill_of_allpass, measure
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.ski_rental import SkiRental
from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS

SERVERFUL_USD = ("cost_marketplace_usd", "cost_conventional_usd", "mean_marketplace_usd_per_gpu_h")
"""The results that grow in proportion to the prices of rented workers."""


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
        results: of `gpuplan.planner.policies.allpass_results.measure`.
        resampled: for the confidence of a choice; None if not requested.
        timeline: of `gpuplan.planner.policies.allpass.timeline_frame`; None if not requested.
    """

    parameters: Allpass
    results: Mapping[str, Any]
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
    return Replayed(parameters, measure(run, jobs.window_us), resampled, timeline)


class Judged:
    """The results of a replay, with the bill and the completion time that choices compare."""

    __slots__ = ()
    results: Mapping[str, Any]

    @property
    def cost_usd(self) -> float:
        """The total bill."""
        return float(self.results["cost_usd"])

    @property
    def mean_jct_s(self) -> float:
        """Mean job completion time."""
        return float(self.results["mean_jct_s"])


@dataclass(frozen=True, slots=True)
class SweepPoint(Judged):
    """One replay of a sweep at one ratio of prices.

    Attributes:
        policy: ``fixed`` or ``adaptive``.
        threshold_s: the threshold, initially if it adapts.
        capacity: most workers rented at once; None for no limit.
        price_ratio: serverful over serverless price of the case it belongs to: the median of the
            offers within the greatest capacity of the sweep.
        own_price_ratio: the same of the offers within its own capacity.
        results: of `gpuplan.planner.policies.allpass_results.measure`.
        resampled: over resamples of the trace; None if not requested.
        closed_form_cost_usd, closed_form_delay_s: of `SkiRental`, for fixed thresholds.
        break_even_ratio: the value of ``own_price_ratio`` at which the bill is that of everything
            serverless, above 0; None where no worker is rented, workers are free, or moving jobs
            never pays.
        never_pays: whether jobs are moved, and containers and checkpoints alone cost no less than
            everything serverless, so that moving them does not pay at any price.
        timeline: at these prices; None if not requested.
    """

    policy: str
    threshold_s: float
    capacity: int | None
    price_ratio: float
    own_price_ratio: float
    results: dict[str, Any]
    resampled: Resampled | None
    closed_form_cost_usd: float | None = None
    closed_form_delay_s: float | None = None
    break_even_ratio: float | None = None
    never_pays: bool = False
    timeline: pl.DataFrame | None = field(default=None, compare=False)

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
    rules, results = replayed.parameters, dict(replayed.results)
    resampled, timeline = replayed.resampled, replayed.timeline
    if factor != 1:
        results |= {
            key: None if results[key] is None else factor * results[key] for key in SERVERFUL_USD
        }
        results["cost_usd"] = sum(
            results[f"cost_{tier}_usd"] for tier in ("serverless", "marketplace", "conventional")
        )
        if timeline is not None:
            timeline = timeline.with_columns(pl.col("paid_usd_per_h") * factor)
        if resampled is not None:
            resampled = replace(resampled, serverful_usd=factor * resampled.serverful_usd)
    serverful_usd = results["cost_marketplace_usd"] + results["cost_conventional_usd"]
    left_usd = everything_usd - results["cost_serverless_usd"]
    point = SweepPoint(
        policy=rules.controller,
        threshold_s=rules.threshold_s,
        capacity=rules.capacity,
        price_ratio=price_ratio,
        own_price_ratio=form.price_ratio,
        results=results,
        resampled=resampled,
        timeline=timeline,
        break_even_ratio=left_usd / serverful_usd * form.price_ratio
        if serverful_usd > 0 and left_usd > 0
        else None,
        never_pays=left_usd <= 0 and results["workers_peak"] > 0,
    )
    if rules.controller == "adaptive":
        return point
    return replace(
        point,
        closed_form_cost_usd=float(form.cost_usd(rules.threshold_s)),
        closed_form_delay_s=float(form.delay_s(rules.threshold_s)),
    )
