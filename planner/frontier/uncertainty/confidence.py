"""Sections of a study about its confidence: bands, and the effects of errors and bursts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import (
    Bands,
    FrontierBand,
    bootstrap_frontier,
)
from gpuplan.planner.frontier.uncertainty.bursts import BurstSensitivity, burst_sensitivity
from gpuplan.planner.frontier.uncertainty.sensitivity import SpeedupSensitivity, speedup_sensitivity
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

    def summary(self) -> dict[str, Any]:
        """Return its results; keys are stable and carry their unit."""
        found = self.bands.summary()
        found["mean_jct_s"] = [
            {"requested": requested, **band}
            for requested, band in zip(self.requested, found["mean_jct_s"], strict=True)
        ]
        return found


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What wrong speedups and burstier arrivals do to the plan shown.

    Attributes:
        speedup: errors of the speedups.
        bursts: arrivals of growing C^2 at the same mean.
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

    def summary(self) -> dict[str, Any]:
        """Return its results; keys are stable and carry their unit."""
        return {"speedup": self.speedup.summary(), "bursts": self.bursts.summary()}


def confidence_of(
    study: FrontierStudy, level: float, seed: int, progress: Progress | None = None
) -> FrontierConfidence:
    """Return the bands of a study. Raises `UsageError` on a level out of range."""
    by_budget = [point for point in study.points if point.target_jct_s is None]
    budgets = [point.plan.budget_gpus for point in by_budget]
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
