"""A characterization with its optional parts: fits and confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET

from gpuplan.analysis.characterize import Characterization, characterize
from gpuplan.analysis.characterize.intervals import Intervals, check_level, intervals
from gpuplan.analysis.characterize.results import WorkloadResults
from gpuplan.analysis.trace.trace import Trace

if TYPE_CHECKING:
    from gpuplan.analysis.fits.models import TraceFits


@dataclass(frozen=True, slots=True)
class PortraitOptions:
    """What to compute; raises `UsageError` for too few resamples for the level.

    Attributes:
        top: rows of each group table and of the list of bursts.
        fits: fit heavy-tailed models.
        ci: level of the confidence intervals, percent; None for none.
        resamples: of the bootstrap behind them.
        seed: of the bootstrap.
    """

    top: int = 10
    fits: bool = False
    ci: float | None = None
    resamples: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ci is not None:
            check_level(self.ci, self.resamples)


@dataclass(frozen=True, slots=True)
class CharacterizedTrace:
    """One trace.

    Attributes:
        workload: its statistics.
        fits: its models; None if not requested.
        intervals: confidence intervals of its statistics; None if not requested.
    """

    workload: Characterization
    fits: TraceFits | None
    intervals: Intervals | None

    def results(self) -> WorkloadResults:
        """Return the numbers as JSON has them; what was not asked for is left out."""
        return replace(
            self.workload.results(),
            fits=UNSET if self.fits is None else self.fits.results(),
            ci=UNSET if self.intervals is None else self.intervals.results(),
        )


def portray(trace: Trace, options: PortraitOptions, *, position: int = 0) -> CharacterizedTrace:
    """Return the statistics of a trace and the requested parts.

    Args:
        trace: read with at least the columns of a characterization.
        options: what to compute.
        position: among the traces of a comparison; each has a random stream of its own.
    """
    workload = characterize(trace, top=options.top)
    fits = None
    if options.fits:
        from gpuplan.analysis.fits.models import (
            fit_trace,  # imports SciPy, which the rest does without
        )

        fits = fit_trace(trace)
    found = None
    if options.ci is not None:
        stream = np.random.SeedSequence(options.seed, spawn_key=(position,))
        found = intervals(
            trace,
            level=options.ci,
            resamples=options.resamples,
            rng=np.random.default_rng(stream),
        )
    return CharacterizedTrace(workload, fits, found)
