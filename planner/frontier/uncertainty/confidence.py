"""Sections of a study about its confidence: bands, and the effects of errors and bursts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import (
    NOT_COVERED,
    FrontierBand,
    bootstrap_frontier,
)
from gpuplan.planner.frontier.uncertainty.bursts import BurstSensitivity, burst_sensitivity
from gpuplan.planner.frontier.uncertainty.sensitivity import (
    SpeedupSensitivity,
    speedup_sensitivity,
)
from gpuplan.simkit.arrays import FloatArray

GRID = 60  # budgets of the ribbon
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class BudgetBand:
    """The band of the mean completion time at one budget.

    Attributes:
        requested: as requested; null for one of a sweep of the frontier.
        budget_gpus: average GPUs.
    """

    requested: str | None
    budget_gpus: float
    band: Inlined[FrontierBand]


@dataclass(frozen=True, slots=True)
class TargetBand:
    """The band of the least budget for one mean completion time.

    Attributes:
        target_jct_s: the time.
    """

    target_jct_s: float
    band: Inlined[FrontierBand]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierConfidence:
    """Bands of the frontier over resamples of the jobs.

    Attributes:
        level_pct: confidence of each band, percent.
        resamples: of the jobs.
        jobs: that were resampled.
        block_jobs: consecutive jobs in a block.
        not_covered: what the bands say nothing of.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        mean_jct_s: least mean completion time at each requested budget.
        budget_gpus: least budget for each requested mean completion time.
        grid_gpus: budgets over the frontier; shape (G,).
        grid: the bands of the mean completion time there.
    """

    level_pct: float
    resamples: int
    jobs: int
    block_jobs: int
    not_covered: tuple[str, ...] = NOT_COVERED
    load_gpus: FrontierBand
    min_budget_gpus: FrontierBand
    mean_jct_s: tuple[BudgetBand, ...]
    budget_gpus: tuple[TargetBand, ...]
    grid_gpus: Hidden[FloatArray]
    grid: Hidden[tuple[FrontierBand, ...]]

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "bands"

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for the reader."""
        return (
            f"bands have {self.level_pct:g}% confidence, by {self.resamples} resamples of the "
            "jobs: they do not cover wrong speedups, other kinds of jobs, trends or peaks",
        )

    def results(self) -> FrontierConfidence:
        """Return the bands."""
        return self


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What wrong speedups and burstier arrivals do to the plan shown.

    Attributes:
        speedup: errors of the speedups.
        bursts: burstier arrivals at the same mean rate.
    """

    speedup: SpeedupSensitivity
    bursts: BurstSensitivity

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "sensitivity"

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for the reader: none."""
        return ()

    def results(self) -> Sensitivity:
        """Return both."""
        return self


def confidence_of(
    study: FrontierStudy, level: float, seed: int, progress: Progress | None = None
) -> FrontierConfidence:
    """Return the bands of a study. Raises `UsageError` on a level out of range."""
    by_budget = [point for point in study.points if point.target_jct_s is None]
    budgets = [point.plan.budget for point in by_budget]
    targets = [p.target_jct_s for p in study.points if p.target_jct_s is not None]
    frontier = study.frontier
    grid = np.geomspace(frontier.min_budget, frontier.saturation_budget, GRID)

    bands = bootstrap_frontier(
        study.workload,
        frontier,
        [*budgets, *grid.tolist()],
        targets,
        level=level,
        rng=np.random.default_rng(seed),
        progress=progress,
    )
    at_budget = zip(by_budget, bands.mean_jct_s, strict=False)
    return FrontierConfidence(
        level_pct=bands.level,
        resamples=bands.resamples,
        jobs=bands.jobs,
        block_jobs=bands.block_jobs,
        load_gpus=bands.load_gpus,
        min_budget_gpus=bands.min_budget_gpus,
        mean_jct_s=tuple(BudgetBand(p.requested, p.plan.budget, band) for p, band in at_budget),
        budget_gpus=tuple(map(TargetBand, targets, bands.target_budget_gpus)),
        grid_gpus=grid,
        grid=bands.mean_jct_s[len(budgets) :],
    )


def sensitivity_of(
    study: FrontierStudy, seed: int, progress: Progress | None = None
) -> Sensitivity:
    """Return what errors and bursts do to the plan that a study shows first."""
    plan, rng = study.shown.plan, np.random.default_rng(seed)
    bursts = burst_sensitivity(study.workload, plan, study.cluster, rng=rng, progress=progress)
    return Sensitivity(speedup_sensitivity(study.workload, plan), bursts)
