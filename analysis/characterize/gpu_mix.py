"""Which GPU-hours of a log ran on another GPU type than the one that a plan is made for."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_name, same_gpu


@dataclass(frozen=True, slots=True)
class GpuMix:
    """The GPU type of a plan, and the others in the log.

    Attributes:
        planned: the type that every job is planned for.
        others: the other types, most GPU-hours first.
        other_gpu_h: GPU-hours on these.
        gpu_h: GPU-hours of the log.
    """

    planned: str
    others: tuple[str, ...]
    other_gpu_h: float
    gpu_h: float

    @property
    def other_share(self) -> float:
        """Share of the GPU-hours that ran on another type."""
        return self.other_gpu_h / self.gpu_h if self.gpu_h else 0.0

    def results(self) -> GpuMixResults:
        """Return the numbers as JSON has them."""
        return GpuMixResults(self.planned, self.others, self.other_gpu_h, self.other_share)


@dataclass(frozen=True, slots=True)
class GpuMixResults:
    """The GPU-hours of a log on other GPU types than the one planned for, as JSON has them.

    Attributes:
        planned_gpu_type: the type that every job is planned for.
        other_gpu_types: the other types, most GPU-hours first.
        other_gpu_h: GPU-hours on these.
        other_gpu_h_share: of the GPU-hours of the log.
    """

    planned_gpu_type: str
    other_gpu_types: tuple[str, ...]
    other_gpu_h: float
    other_gpu_h_share: float


def gpu_mix(today: Today | None, planned: str | None = None) -> GpuMix | None:
    """Return the types beside the planned one; None if the log names no other.

    Args:
        today: what the log shows.
        planned: the type to plan for, in any spelling; None for the one with the most GPU-hours.
    """
    if today is None:
        return None
    named = [usage for usage in today.types if usage.gpu_type not in (None, UNNAMED)]
    if not named:
        return None
    kept = gpu_name(planned or str(named[0].gpu_type))
    others = [usage for usage in named if not same_gpu(kept, str(usage.gpu_type))]
    other_gpu_h = sum(usage.gpu_h for usage in others)
    if not other_gpu_h:
        return None
    return GpuMix(
        kept, tuple(str(usage.gpu_type) for usage in others), other_gpu_h, today.usage.gpu_h
    )
