"""What a budget gives while the log's own peak stays the limit, compared with today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.simkit.metrics import percentile

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.cli.formats.units import Precision
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.study import FrontierStudy

NOISE = 0.01
"""Completion times closer than this share are the same."""
MOST_WAITS = 0.9
"""Share of the jobs whose wait must be known to compare a replay with today."""


def within_peak(study: FrontierStudy, point: Point, precision: Precision) -> str:
    """Return the clause on the replay within today's peak; empty where the plan stays within it.

    It says outright where the budget is no faster than today, or than a smaller budget.
    """
    within, today = point.within_peak, study.today
    if today is None or point.replayed is None:
        return ""
    peak = f"{today.usage.peak_gpus:,.0f}"
    if within is None:
        return f"; within today's peak of {peak}, no plan fits"
    is_within = within is point.replayed.replay
    jct = precision.duration(within.mean_jct_s)
    if not is_faster(within, today):
        now = precision.duration(today.mean_jct_s or 0.0)
        if study.now_gpus is None or point.plan.budget <= study.now_gpus * (1 + NOISE):
            return f"; within today's peak of {peak}, {jct}, no faster than today's {now}"
        share = (point.requested or "").removeprefix("now")
        is_share = share.startswith("+") and share.endswith("%")
        more = f"{share} of GPUs" if is_share else "more budget"
        is_slower = within.mean_jct_s > (today.mean_jct_s or 0.0) * (1 + NOISE)
        change = f"slower than today's {now}" if is_slower else f"no faster than today's {now}"
        if is_within:
            return f", {change}"
        return f"; with {more} and today's peak of {peak} jobs take {jct}, {change}"
    text = "" if is_within else f"; within today's peak of {peak}, {jct}"
    smaller = _as_fast(study, point, within)
    if smaller is not None and smaller.within_peak is not None:
        gpus = precision.gpus_text(smaller.plan.budget)
        text += (
            f", no faster than {gpus} on average within it "
            f"({precision.duration(smaller.within_peak.mean_jct_s)})"
        )
    p95_s = percentile(within.jct_s, 95)
    if _has_waits(today) and today.p95_jct_s and p95_s > today.p95_jct_s * (1 + NOISE):
        before, after = precision.duration(today.p95_jct_s), precision.duration(p95_s)
        text += f", but P95 rises from {before} to {after}"
    larger = _no_faster(study, point, within)
    if larger is not None and larger.within_peak is not None:
        gpus = precision.gpus_text(larger.plan.budget)
        worse = precision.duration(larger.within_peak.mean_jct_s)
        text += f"; more budget is no faster while the peak stays at {peak} ({worse} with {gpus})"
    return text


def is_faster(within: PlanReplay, today: Today) -> bool:
    """Return whether jobs finish sooner than today on average; True where the log has no waits."""
    if not _has_waits(today) or today.mean_jct_s is None:
        return True
    return within.mean_jct_s < today.mean_jct_s * (1 - NOISE)


def _has_waits(today: Today) -> bool:
    return today.jobs_with_wait >= MOST_WAITS * today.usage.jobs


def _no_faster(study: FrontierStudy, point: Point, within: PlanReplay) -> Point | None:
    """Return the next larger requested budget, where none of these is faster within the peak."""
    if not study.by_request:
        return None
    larger = [
        other
        for other in study.points
        if other.plan.budget > point.plan.budget and other.within_peak is not None
    ]
    least_s = within.mean_jct_s * (1 - NOISE)
    if any(other.within_peak and other.within_peak.mean_jct_s < least_s for other in larger):
        return None
    return next(iter(larger), None)


def _as_fast(study: FrontierStudy, point: Point, within: PlanReplay) -> Point | None:
    """Return the fastest smaller requested budget that is as fast within the peak."""
    if not study.by_request:
        return None
    smaller = [
        other
        for other in study.points
        if other.plan.budget < point.plan.budget
        and other.within_peak is not None
        and other.within_peak.mean_jct_s <= within.mean_jct_s
    ]
    return min(
        smaller,
        key=lambda other: other.within_peak.mean_jct_s if other.within_peak else 0.0,
        default=None,
    )
