"""Today in one sentence: what every plan is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.units import show_about_usd, show_count, show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today


def today_text(today: Today | None) -> str:
    """Return the GPUs, times and monthly cost that the log shows; empty if it shows none."""
    if today is None:
        return ""
    usage = today.usage
    text = (
        f"Today: {show_number(usage.mean_gpus)} GPUs on average (peak "
        f"{show_count(usage.peak_gpus)}), "
    )
    if today.mean_jct_s is None or today.mean_wait_s is None:
        text += f"{show_duration(today.mean_run_s)} of run time per job; the log has no waits"
    else:
        text += (
            f"{show_duration(today.mean_jct_s)} per job ({show_duration(today.mean_wait_s)} "
            f"waiting, {show_duration(today.mean_jct_s - today.mean_wait_s)} running)"
        )
        if today.waits < usage.jobs:
            text += f" where the wait is known ({today.waits:,} of {usage.jobs:,} jobs)"
    if usage.usd_per_month is not None:
        text += f", {show_about_usd(usage.usd_per_month)} a month"
    return f"{text}."
