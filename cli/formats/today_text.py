"""Today in one sentence: what every plan is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_number,
    significant,
)

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.cli.formats.precision import Precision


FAR_ABOVE = 1.1
"""A mean so many times the peak is of a log shorter than its jobs, and says nothing."""


def today_text(today: Today | None, precision: Precision | None = None) -> str:
    """Return the GPUs, times and monthly cost that the log shows; empty if it shows none.

    Without a ``precision`` numbers have three digits.
    """
    if today is None:
        return ""
    usage, digits = today.usage, 3 if precision is None else precision.digits
    # The mean is over the time in which jobs arrive. Where jobs outlast that, it is above the peak.
    mean = show_number(significant(min(usage.mean_gpus, usage.peak_gpus), digits))
    peak = show_count(usage.peak_gpus)
    if usage.mean_gpus > FAR_ABOVE * usage.peak_gpus:
        text = f"Today: {peak} GPU{'' if peak == '1' else 's'} at the peak, "
    else:
        text = f"Today: {mean} GPU{'' if mean == '1' else 's'} on average (peak {peak}), "
    if today.mean_jct_s is None or today.mean_wait_s is None:
        text += (
            f"{show_duration(today.mean_run_s, digits)} of run time per job (the log has no waits)"
        )
    else:
        text += (
            f"{show_duration(today.mean_jct_s, digits)} per job "
            f"({show_duration(today.mean_wait_s, digits)} waiting, "
            f"{show_duration(today.mean_jct_s - today.mean_wait_s, digits)} running)"
        )
        if today.waits < usage.jobs:
            text += f" where the wait is known ({today.waits:,} of {usage.jobs:,} jobs)"
    if usage.usd_per_month is not None:
        usd = show_about_usd(usage.usd_per_month)
        text += f", {usd if precision is None else precision.usd(usage.usd_per_month)} a month"
    return f"{text}."
