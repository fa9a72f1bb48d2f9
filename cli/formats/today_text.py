"""Today in one sentence: what every plan is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_number,
    show_price,
    significant,
)

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.cli.formats.units import Precision
    from gpuplan.planner.studies.replay_results import PaidCluster


DIFFERS = 0.05
"""Two means of the same GPU-hours that differ by a smaller share are one for a reader."""


def period_text(period: Mapping[str, str | None] | None) -> str:
    """Return what a period is called: ``March 2026``, or its days; ``Today`` for the whole log."""
    if period is None:
        return "Today"
    begin, end = (datetime.fromisoformat(at) if (at := period[key]) else None
                  for key in ("from", "to"))  # fmt: skip
    if begin is not None and end is not None:
        next_month = (begin.replace(day=1) + timedelta(days=31)).replace(day=1)
        if begin == datetime(begin.year, begin.month, 1) and end == next_month:
            return f"{begin:%B %Y}"
        return f"{_day(begin)} to {_day(end)}"
    return f"From {_day(begin)} on" if begin is not None else f"Until {_day(end)}"


def _day(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(" ").removesuffix(" 00:00:00")


def today_text(
    today: Today | None,
    precision: Precision | None = None,
    now_gpus: float | None = None,
    period: Mapping[str, str | None] | None = None,
    cluster: PaidCluster | None = None,
    *,
    is_of_use: bool = False,
) -> str:
    """Return the GPUs, times and monthly cost that the log shows; empty if it shows none.

    Args:
        today: what the log shows.
        precision: the digits of the numbers; three without it.
        now_gpus: the mean over the time in which jobs arrive, where budgets are relative to it.
        period: its begin and end as the parameters have them; None for the whole log.
        cluster: today's GPUs and their bill, where they are known.
        is_of_use: whether to say that the cost is of GPUs in use, beside clusters paid for idle.
    """
    if today is None:
        return ""
    usage, digits = today.usage, 3 if precision is None else precision.digits
    mean = show_number(significant(usage.mean_gpus, digits))
    peak = show_count(usage.peak_gpus)
    held = f"{mean} GPU{'' if mean == '1' else 's'} on average (peak {peak}"
    assumed = ""
    if today.price_is_assumed is True and usage.usd_per_gpu_h is not None:
        assumed = f" at an assumed {show_price(usage.usd_per_gpu_h)} per GPU-hour"
    if cluster is not None:
        usd = f"{show_about_usd(cluster.usd_per_month)} a month{assumed}"
        held = f"{cluster.gpus:,} GPUs for {usd}, {mean} held on average (peak {peak}"
    text = f"{period_text(period)}: {held}"
    if now_gpus is not None and abs(now_gpus - usage.mean_gpus) > DIFFERS * usage.mean_gpus:
        base = show_number(significant(now_gpus, digits))
        text += f"; {base} while jobs arrive, the base of all budgets"
    text += "), "
    if today.mean_run_s is None:
        text += "all its jobs still run"
    elif today.mean_jct_s is None or today.mean_wait_s is None:
        text += (
            f"{show_duration(today.mean_run_s, digits)} of run time per job (the log has no waits)"
        )
    else:
        text += (
            f"{show_duration(today.mean_jct_s, digits)} per job "
            f"({show_duration(today.mean_wait_s, digits)} waiting, "
            f"{show_duration(today.mean_jct_s - today.mean_wait_s, digits)} running)"
        )
        if today.jobs_with_wait < usage.jobs:
            with_times = f"{today.jobs_with_wait:,} of {usage.jobs:,} jobs"
            text += f" where wait and run time are known ({with_times})"
    if usage.usd_per_month is not None and cluster is None:
        usd = show_about_usd(usage.usd_per_month)
        text += f", {usd if precision is None else precision.usd(usage.usd_per_month)} a month"
        text += f" for the hours held{',' if assumed else ''}" if is_of_use else ""
        text += assumed
    return f"{text}."
