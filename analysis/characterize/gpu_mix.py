"""Which GPU-hours of a log ran on another GPU type than the one that a plan is made for."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_name, same_gpu


@dataclass(frozen=True, slots=True)
class GpuMix:
    """The GPU-hours of a log on other GPU types than the one planned for.

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
    named = [usage for usage in today.gpu_types if usage.gpu_type != UNNAMED and usage.gpu_h]
    if not named:
        return None
    kept = gpu_name(planned or named[0].gpu_type)
    other_types = [usage for usage in named if not same_gpu(kept, usage.gpu_type)]
    other_gpu_h = sum(usage.gpu_h for usage in other_types)
    if not other_gpu_h:
        return None
    return GpuMix(
        planned_gpu_type=kept,
        other_gpu_types=tuple(usage.gpu_type for usage in other_types),
        other_gpu_h=other_gpu_h,
        other_gpu_h_share=other_gpu_h / today.usage.gpu_h if today.usage.gpu_h else 0.0,
    )
