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

FAR_ABOVE = 1.5
"""A mean that is this many times the peak needs to say over which hours it is."""

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.cli.formats.precision import Precision


def today_text(today: Today | None, precision: Precision | None = None) -> str:
    """Return the GPUs, times and monthly cost that the log shows; empty if it shows none.

    Without a ``precision`` numbers have three digits.
    """
    if today is None:
        return ""
    usage, digits = today.usage, 3 if precision is None else precision.digits
    mean = show_number(significant(usage.mean_gpus, digits))
    hours = ""
    if usage.mean_gpus > FAR_ABOVE * usage.peak_gpus:
        hours = f" over the {show_duration(today.span_s, digits)} in which jobs arrive"
    text = (
        f"Today: {mean} GPU{'' if mean == '1' else 's'} on average{hours} (peak "
        f"{show_count(usage.peak_gpus)}), "
    )
    if today.mean_jct_s is None or today.mean_wait_s is None:
        text += (
            f"{show_duration(today.mean_run_s, digits)} of run time per job; the log has no waits"
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
