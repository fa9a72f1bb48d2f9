"""Profiles of the jobs of each class: speedup per epoch, size, rescaling time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.planner.speedup.functions import SpeedupFunction
from gpuplan.simkit.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class ClassProfile:
    """One class of jobs.

    Attributes:
        epochs: the speedup function of each statistical epoch, in order.
        shares: share of the job's work in each epoch; they add up to 1.
        work_h: mean work of a job, in hours on one GPU; None if only a trace has it.
        rescale_s: mean time of a checkpoint, restart and reload; None if not measured.
        speed: how fast one GPU is in each epoch, in a unit that all GPU types of the class share;
            empty for 1.
    """

    epochs: tuple[SpeedupFunction, ...]
    shares: tuple[float, ...] = (1.0,)
    work_h: float | None = None
    rescale_s: float | None = None
    speed: tuple[float, ...] = ()

    def at(self, gpus: FloatArray) -> FloatArray:
        """Return the speedup of a whole job at a fixed width: T(1 GPU) / T(width)."""
        if len(self.epochs) == 1:
            return self.epochs[0].at(gpus)
        parts = zip(self.shares, self.epochs, strict=True)
        result: FloatArray = 1 / sum((share / s.at(gpus) for share, s in parts), np.zeros(()))
        return result

    @property
    def narrowest(self) -> float:
        """Least width that a job may get: the largest of the least widths of its epochs."""
        return max(epoch.narrowest for epoch in self.epochs)

    @property
    def widest(self) -> float:
        """Width up to which every epoch is known."""
        return min(epoch.widest for epoch in self.epochs)

    def speed_over(self, other: ClassProfile) -> FloatArray:
        """Return the speed of one GPU relative to the other profile, by epoch; shape (J,)."""
        ours, theirs = (np.array(p.speed or (1.0,) * len(p.epochs)) for p in (self, other))
        ratio: FloatArray = ours / theirs
        return ratio

    @property
    def mean_speed(self) -> float:
        """How fast one GPU is over a whole job, in the unit of ``speed``."""
        if not self.speed:
            return 1.0
        return sum(share * speed for share, speed in zip(self.shares, self.speed, strict=True))


@dataclass(frozen=True, slots=True)
class SpeedupModel:
    """The speedups of all classes.

    Attributes:
        name: the text of the user, or the law with its parameters.
        origin: where it comes from, one phrase.
        classes: profiles by class name; empty for a law.
        law: the profile of every class, for a law.
        notes: caveats for readers of the result.
        ends: models at the two ends of a range of parameters, this one being in its middle.
        types: models by GPU type, where several are known; this one is the first of them.
        assumed_speeds: assumed speed of each type relative to the first, if given by the user
            instead of measured; otherwise empty.
    """

    name: str
    origin: str
    classes: Mapping[str, ClassProfile]
    law: ClassProfile | None = None
    notes: tuple[str, ...] = ()
    ends: tuple[SpeedupModel, SpeedupModel] | None = None
    types: Mapping[str, SpeedupModel] = field(default_factory=dict)
    assumed_speeds: Mapping[str, float] = field(default_factory=dict)

    def of(self, job_class: str) -> ClassProfile | None:
        """Return the profile of a class; None if unknown."""
        return self.law or self.classes.get(job_class)

    def on(self, gpu_type: str) -> SpeedupModel:
        """Return the model of one GPU type. Raises `UsageError` if it is unknown."""
        if gpu_type not in self.types:
            types = ", ".join(self.types) or "one GPU type only, without a name"
            raise UsageError(f"{self.name} has no GPU {gpu_type!r}; it has {types}")
        return self.types[gpu_type]

    def with_types(self, speeds: Mapping[str, float]) -> SpeedupModel:
        """Return the model with GPU types that differ in speed alone.

        Args:
            speeds: speed of a GPU of each type relative to the first, for every job on any number
                of GPUs; > 0.
        """
        types = {name: self._faster(speed) for name, speed in speeds.items()}
        ends = self.ends
        if ends is not None:
            ends = (ends[0].with_types(speeds), ends[1].with_types(speeds))
        return replace(self, types=types, ends=ends, assumed_speeds=dict(speeds))

    def _faster(self, speed: float) -> SpeedupModel:
        def of(profile: ClassProfile) -> ClassProfile:
            work_h = None if profile.work_h is None else profile.work_h / speed
            return replace(profile, work_h=work_h, speed=(speed,) * len(profile.epochs))

        law = None if self.law is None else of(self.law)
        classes = {name: of(profile) for name, profile in self.classes.items()}
        return replace(self, law=law, classes=classes, ends=None)


def check_epochs(
    path: Path, row: int, job_class: str, gpu_type: str, first: ClassProfile, profile: ClassProfile
) -> None:
    """Refuse a class with other epochs on this GPU type than on the first. Raises `InputError`."""
    if len(first.epochs) != len(profile.epochs):
        raise InputError(
            path,
            f"class {job_class!r} has {len(profile.epochs)} epochs on {gpu_type}, "
            f"{len(first.epochs)} on the type before",
            row=row,
            column="epoch",
            expected="the same epochs on every GPU type",
        )


def with_shares_of(first: ClassProfile, profile: ClassProfile) -> ClassProfile:
    """Return a profile with the work per epoch of the first GPU type of the class.

    Shares are of time on one GPU, which each epoch takes in inverse proportion to its speed.
    """
    time = np.array(first.shares) / profile.speed_over(first)
    return replace(profile, shares=tuple((time / time.sum()).tolist()))


def of_types(
    name: str,
    origin: str,
    by_type: Mapping[str, Mapping[str, ClassProfile]],
    notes: tuple[str, ...] = (),
) -> SpeedupModel:
    """Return the model of some GPU types, given their profiles by class; of the first alone if one.

    With several types, the model itself is that of the first, with a note about it.
    """
    types = {
        gpu_type: SpeedupModel(f"{name} on {gpu_type}", origin, classes, notes=notes)
        for gpu_type, classes in by_type.items()
    }
    first = next(iter(types))
    if len(types) == 1:
        return replace(types[first], name=name)
    some = f"{name} knows {', '.join(types)}: the speedups are those of {first}, the first"
    return replace(types[first], name=name, notes=(*notes, some), types=types)
