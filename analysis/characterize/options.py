"""A characterization with its optional parts: fits and confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.characterize import Characterization, characterize
from gpuplan.analysis.characterize.intervals import check_level, intervals
from gpuplan.analysis.trace.trace import Trace


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


def portray(trace: Trace, options: PortraitOptions, *, position: int = 0) -> Characterization:
    """Return the statistics of a trace and the requested parts.

    Args:
        trace: read with at least the columns of a characterization.
        options: what to compute.
        position: among the traces of a comparison; each has a random stream of its own.
    """
    workload = characterize(trace, top=options.top)
    if options.fits:
        from gpuplan.analysis.fits.models import fit_trace  # imports SciPy

        workload = replace(workload, fits=fit_trace(trace))
    if options.ci is not None:
        stream = np.random.SeedSequence(options.seed, spawn_key=(position,))
        ends = intervals(
            trace,
            level=options.ci,
            resamples=options.resamples,
            rng=np.random.default_rng(stream),
        )
        workload = replace(workload, ci=ends)
    return workload
