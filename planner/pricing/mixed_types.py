"""What to say where a plan for one GPU type meets a log of several."""

from __future__ import annotations

from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.words import listed


def mixed_types_note(
    today: Today | None, planned: str | None = None, prices: GpuPrices | None = None
) -> tuple[str, ...]:
    """Return one sentence on the GPU-hours of other types than the planned one, if there are any.

    Args:
        today: usage of the log by type; jobs that name no type count for none.
        planned: the type that is planned for; None for the one of the most GPU-hours.
        prices: where given, the mean price that a GPU then has is named.
    """
    hours = {} if today is None else today.gpu_h_by_type()
    named = {name: gpu_h for name, gpu_h in hours.items() if name is not None and gpu_h > 0}
    if not named:
        return ()
    main = planned or max(named, key=lambda name: named[name])
    others = [name for name in named if not same_gpu(gpu_name(main), gpu_name(name))]
    if not others:
        return ()
    share = sum(named[name] for name in others) / sum(named.values())
    percent = f"{share:.0%}" if share >= 0.01 else "under 1%"
    mean = None if prices is None or planned is not None else prices.mean(dict(hours))
    priced = "" if mean is None else f" at ${mean:.3g} per GPU-hour, the mean of their prices"
    return (
        f"{percent} of the GPU-hours are on {listed(others)}, not on {main}; the replay treats all "
        f"GPUs as one type{priced}",
    )
