"""Many thresholds on one trace: cost against completion time, and which to choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.planner.allpass.run import check_fits, measure, replay, warnings_of
from gpuplan.planner.allpass.ski_rental import SkiRental, ski_rental
from gpuplan.planner.engine import run_all
from gpuplan.planner.workload import TraceJobs
from gpuplan.simkit.allpass.parameters import Allpass, Draws

NEARLY = 0.10
"""A mean JCT within this share of the least one is as good as the least."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One replay of a sweep.

    Attributes:
        policy: ``fixed`` or ``adaptive``.
        threshold_s: the threshold, at first where it adapts.
        results: of `gpuplan.planner.allpass.run.measure`.
        closed_form_cost_usd, closed_form_delay_s: of `SkiRental`, for fixed thresholds.
    """

    policy: str
    threshold_s: float
    results: dict[str, Any]
    closed_form_cost_usd: float | None = None
    closed_form_delay_s: float | None = None

    @property
    def cost_usd(self) -> float:
        """The whole bill."""
        return float(self.results["cost_usd"])

    @property
    def mean_jct_s(self) -> float:
        """Mean job completion time."""
        return float(self.results["mean_jct_s"])

    def summary(self) -> dict[str, Any]:
        """Return the point as plain values; keys carry their unit."""
        return {
            "policy": self.policy,
            "threshold_s": self.threshold_s,
            **self.results,
            "closed_form_cost_usd": self.closed_form_cost_usd,
            "closed_form_delay_s": self.closed_form_delay_s,
        }


@dataclass(frozen=True, slots=True)
class Sweep:
    """All replays of a sweep, and what they say.

    Attributes:
        points: fixed thresholds ascending, then the adaptive one.
        reference: everything serverless, for comparison.
        non_dominated: which points no other beats in both cost and mean JCT, by cost.
        knee: the point of `non_dominated` farthest below the line between its ends; None where it
            has fewer than three.
        recommended: the cheapest point whose mean JCT is within 10% of the least.
        closed_form: the ski-rental view of the workload.
        warnings: what a reader must know.
    """

    points: tuple[SweepPoint, ...]
    reference: SweepPoint
    non_dominated: tuple[int, ...]
    knee: int | None
    recommended: int
    closed_form: SkiRental
    warnings: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """Return the sweep as plain values; keys are stable and carry their unit."""
        form, chosen = self.closed_form, self.points[self.recommended]
        best_s, competitive_s = form.best_s(), form.competitive_s
        return {
            "jobs": form.jobs,
            "points": [
                point.summary()
                | {
                    "non_dominated": index in self.non_dominated,
                    "knee": index == self.knee,
                    "recommended": index == self.recommended,
                }
                for index, point in enumerate(self.points)
            ],
            "recommended": {
                "policy": chosen.policy,
                "threshold_s": chosen.threshold_s,
                "cost_usd": chosen.cost_usd,
                "mean_jct_s": chosen.mean_jct_s,
            },
            "serverless_only": self.reference.summary(),
            "closed_form": {
                "best_threshold_s": best_s,
                "best_cost_usd": float(form.cost_usd(best_s)),
                "best_delay_s": float(form.delay_s(best_s)),
                "competitive_threshold_s": competitive_s,
                "competitive_cost_usd": float(form.cost_usd(competitive_s)),
                "serverless_usd_per_gpu_h": form.serverless_usd,
                "serverful_usd_per_gpu_h": form.serverful_usd,
                "migration_usd_per_gpu": form.migration_usd,
                "value_of_time_usd_per_h": form.value_of_time,
            },
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point."""
        rows = self.summary()["points"]
        return pl.DataFrame(rows, infer_schema_length=None)


def sweep(
    jobs: TraceJobs,
    base: Allpass,
    thresholds_s: Sequence[float],
    rng: np.random.Generator,
    *,
    fixed: bool = True,
    adaptive: bool = True,
    value_of_time: float = 0.0,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Sweep:
    """Replay jobs under each fixed threshold and under the adaptive rule.

    All replays have the same start-up times, so that they differ by their threshold alone.

    Args:
        jobs: the jobs.
        base: all other parameters; its threshold is the adaptive rule's first.
        thresholds_s: fixed thresholds, seconds.
        rng: draws the start-up times.
        fixed, adaptive: which rules to replay; at least one.
        value_of_time: US dollars per hour of one job's delay, for the closed form.
        workers: replays at a time; None for one per core.
        progress: called with the share done.

    Raises:
        ValueError: no rule, or fixed thresholds without any.
        UsageError: a job is wider than the serverless limit.
    """
    chosen = [replace(base, controller="fixed", threshold_s=f) for f in sorted(set(thresholds_s))]
    scenarios = chosen if fixed else []
    if adaptive:
        scenarios = [*scenarios, replace(base, controller="adaptive")]
    if not scenarios:
        raise ValueError("nothing to sweep: no threshold and no adaptive rule")
    check_fits(jobs, base)
    draws = Draws.sample(base, jobs.workload.size, rng)
    form = ski_rental(jobs.workload, base, value_of_time)

    def replayed(parameters: Allpass) -> SweepPoint:
        point = SweepPoint(
            parameters.controller,
            parameters.threshold_s,
            measure(replay(jobs, parameters, draws)),
        )
        if parameters.controller == "adaptive":
            return point
        return replace(
            point,
            closed_form_cost_usd=float(form.cost_usd(parameters.threshold_s)),
            closed_form_delay_s=float(form.delay_s(parameters.threshold_s)),
        )

    everything = replace(base, controller="fixed", threshold_s=np.inf)
    *points, reference = run_all(
        replayed, [*scenarios, everything], workers=workers, progress=progress
    )
    cost = np.array([point.cost_usd for point in points])
    jct = np.array([point.mean_jct_s for point in points])
    front = non_dominated(cost, jct)
    fast = np.flatnonzero(jct <= jct.min() * (1 + NEARLY))
    recommended = int(fast[np.lexsort((jct[fast], cost[fast]))[0]])
    return Sweep(
        points=tuple(points),
        reference=reference,
        non_dominated=tuple(front),
        knee=knee_of(cost, jct, front),
        recommended=recommended,
        closed_form=form,
        warnings=warnings_of(base, points[recommended].results),
    )


def non_dominated(cost: np.ndarray, jct: np.ndarray) -> list[int]:
    """Return the points that no other is at least as good as in both and better in one, by cost."""
    front: list[int] = []
    for index in map(int, np.lexsort((jct, cost))):
        if not front or jct[index] < jct[front[-1]] or _equal(index, front[-1], cost, jct):
            front.append(index)
    return front


def _equal(one: int, other: int, cost: np.ndarray, jct: np.ndarray) -> bool:
    return bool(cost[one] == cost[other] and jct[one] == jct[other])


def knee_of(cost: np.ndarray, jct: np.ndarray, front: Sequence[int]) -> int | None:
    """Return the point farthest below the chord of the front, both axes scaled to 0..1.

    None where the front has fewer than three different points or none lies below the chord.
    """
    front = [
        point
        for place, point in enumerate(front)
        if not place or not _equal(point, front[place - 1], cost, jct)
    ]
    if len(front) < 3:
        return None
    x, y = cost[list(front)], jct[list(front)]
    below = 1 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(np.argmax(below))
    return front[best] if below[best] > 1e-9 else None
