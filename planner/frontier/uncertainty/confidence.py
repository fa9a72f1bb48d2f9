"""Sections of a study about its confidence: bands, and the effects of errors and bursts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.plain import fields_of
from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import (
    NOT_COVERED,
    Bands,
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
class FrontierConfidence:
    """Bands of the frontier over resamples of the jobs.

    Attributes:
        bands: at the requested budgets and completion times.
        grid_gpus: budgets over the frontier; shape (G,).
        grid: the bands there.
        requested: the budgets of the bands as requested; None for those of a sweep.
    """

    bands: Bands
    grid_gpus: FloatArray
    grid: tuple[FrontierBand, ...]
    requested: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "bands"

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for the reader."""
        return (
            f"bands have {self.bands.level:g}% confidence, by {self.bands.resamples} resamples of "
            "the jobs: they say nothing of wrong speedups, other kinds of jobs, trends or peaks",
        )

    def results(self) -> BandsResults:
        """Return the bands as JSON has them."""
        bands = self.bands
        at_budget = zip(self.requested, bands.budget_gpus.tolist(), bands.mean_jct_s, strict=True)
        for_time = zip(bands.target_jct_s.tolist(), bands.target_budget_gpus, strict=True)
        return BandsResults(
            level_pct=bands.level,
            resamples=bands.resamples,
            jobs=bands.jobs,
            block_jobs=bands.block_jobs,
            not_covered=NOT_COVERED,
            load_gpus=bands.load_gpus,
            min_budget_gpus=bands.min_budget_gpus,
            mean_jct_s=tuple(
                BudgetBand(requested, gpus, **fields_of(band))
                for requested, gpus, band in at_budget
            ),
            budget_gpus=tuple(TargetBand(seconds, **fields_of(band)) for seconds, band in for_time),
        )


@dataclass(frozen=True)
class NamedBudget:
    """The budget of a band.

    Attributes:
        requested: as requested; null for one of a sweep of the frontier.
        budget_gpus: average GPUs.
    """

    requested: str | None
    budget_gpus: float


@dataclass(frozen=True)
class NamedTarget:
    """The mean completion time that a band of budgets is for.

    Attributes:
        target_jct_s: the time.
    """

    target_jct_s: float


@dataclass(frozen=True)
class BudgetBand(FrontierBand, NamedBudget):  # in JSON the budget comes first
    """The band of the mean completion time at one budget."""


@dataclass(frozen=True)
class TargetBand(FrontierBand, NamedTarget):  # in JSON the time comes first
    """The band of the least budget for one mean completion time."""


@dataclass(frozen=True, slots=True)
class BandsResults:
    """Bands of the frontier over resamples of the jobs, as JSON has them.

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
    """

    level_pct: float
    resamples: int
    jobs: int
    block_jobs: int
    not_covered: tuple[str, ...]
    load_gpus: FrontierBand
    min_budget_gpus: FrontierBand
    mean_jct_s: tuple[BudgetBand, ...]
    budget_gpus: tuple[TargetBand, ...]


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

    every = bootstrap_frontier(
        study.workload,
        frontier,
        [*budgets, *grid.tolist()],
        targets,
        level=level,
        rng=np.random.default_rng(seed),
        progress=progress,
    )
    asked = len(budgets)
    bands = replace(
        every, budget_gpus=every.budget_gpus[:asked], mean_jct_s=every.mean_jct_s[:asked]
    )
    requested = tuple(point.requested for point in by_budget)
    return FrontierConfidence(bands, grid, every.mean_jct_s[asked:], requested)


def sensitivity_of(
    study: FrontierStudy, seed: int, progress: Progress | None = None
) -> Sensitivity:
    """Return what errors and bursts do to the plan that a study shows first."""
    plan, rng = study.shown.plan, np.random.default_rng(seed)
    bursts = burst_sensitivity(study.workload, plan, study.cluster, rng=rng, progress=progress)
    return Sensitivity(speedup_sensitivity(study.workload, plan), bursts)
