"""Intervals of a number of GPUs, and how they are made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are made.

    Attributes:
        level: percent.
        resamples: how many.
        seed: of the resamples; the same for every size.
    """

    level: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class GpuInterval:
    """An interval of a number of GPUs.

    Attributes:
        level_percent: confidence.
        low_gpus, high_gpus: the ends, which are candidates.
        resamples: of blocks of consecutive jobs, or of time.
    """

    level_percent: float
    low_gpus: int
    high_gpus: int
    resamples: int
