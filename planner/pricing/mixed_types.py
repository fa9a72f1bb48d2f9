"""What to say where a replay on one GPU type meets a log of several."""

from __future__ import annotations

from gpuplan.analysis.base.words import listed
from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.characterize.gpu_mix import gpu_mix
from gpuplan.analysis.characterize.today import Today

MOST_NAMED = 3


def mixed_types_note(
    today: Today | None, planned: str | None = None, prices: GpuPrices | None = None
) -> tuple[str, ...]:
    """Return one sentence on the GPU-hours of other types than the planned one, if there are any.

    Args:
        today: usage of the log by type; jobs that name no type count for none.
        planned: the type of the cluster; None for the one of the most GPU-hours.
        prices: where given, the mean price that a GPU then has is named.
    """
    mix = gpu_mix(today, planned)
    if today is None or mix is None:
        return ()
    share = f"{mix.other_gpu_h_share:.0%}" if mix.other_gpu_h_share >= 0.01 else "under 1%"
    mean = None if prices is None or planned is not None else prices.mean(today.gpu_h_by_type())
    priced = "" if mean is None else f" at ${mean:.3g} per GPU-hour, the mean of their prices"
    return (
        f"{share} of the GPU-hours ran on {listed(mix.other_gpu_types, MOST_NAMED)}, not on "
        f"{mix.planned_gpu_type}; "
        f"the replay treats all GPUs as one type{priced}",
    )


def todays_prices(today: Today | None, planned: str | None = None) -> str:
    """Return the clause on the types that today's bill prices by their own; empty without any."""
    mix = gpu_mix(today, planned)
    if today is None or mix is None:
        return ""
    priced = [usage for usage in today.gpu_types if usage.usd_per_gpu_h is not None]
    if len({usage.usd_per_gpu_h for usage in priced}) < 2 and planned is None:
        return ""
    own = [
        f"${usage.usd_per_gpu_h:.3g} per {usage.gpu_type}-hour"
        for usage in priced
        if usage.gpu_type in mix.other_gpu_types
    ]
    return f"; today's bill pays {listed(own, MOST_NAMED)}" if own else ""
