"""What is known about the jobs of each class: speedup per epoch, size, rescaling time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuplan.planner.speedup.functions import FloatArray, SpeedupFunction


@dataclass(frozen=True, slots=True)
class ClassProfile:
    """One class of jobs.

    Attributes:
        epochs: the speedup function of each statistical epoch, in order.
        shares: share of the job's work in each epoch; they add up to 1.
        work_h: mean work of a job, in hours on one GPU; None where only a trace can tell.
        rescale_s: mean time of a checkpoint, restart and reload; None where not measured.
    """

    epochs: tuple[SpeedupFunction, ...]
    shares: tuple[float, ...] = (1.0,)
    work_h: float | None = None
    rescale_s: float | None = None

    def at(self, gpus: FloatArray) -> FloatArray:
        """Return the speedup of a whole job at a fixed width: T(1 GPU) / T(width)."""
        if len(self.epochs) == 1:
            return self.epochs[0].at(gpus)
        parts = zip(self.shares, self.epochs, strict=True)
        result: FloatArray = 1 / sum((share / s.at(gpus) for share, s in parts), np.zeros(()))
        return result

    @property
    def widest(self) -> float:
        """Width up to which every epoch is known."""
        return min(epoch.widest for epoch in self.epochs)


@dataclass(frozen=True, slots=True)
class SpeedupModel:
    """The speedups of all classes.

    Attributes:
        name: what the user wrote, or the law with its parameters.
        origin: where it comes from, one phrase.
        classes: profiles by class name; empty for a law.
        law: the profile of every class, for a law.
        notes: what a reader of the result should know about it.
        ends: models at the two ends of a range of parameters, this one being in its middle.
    """

    name: str
    origin: str
    classes: Mapping[str, ClassProfile]
    law: ClassProfile | None = None
    notes: tuple[str, ...] = ()
    ends: tuple[SpeedupModel, SpeedupModel] | None = None

    def of(self, job_class: str) -> ClassProfile | None:
        """Return what is known about a class; None where that is nothing."""
        return self.law or self.classes.get(job_class)
