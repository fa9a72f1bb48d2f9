"""How ``gpuplan plan`` compares with today, and with the best commitment, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.units import (
    show_about_usd,
    show_between,
    show_duration,
    show_number,
    show_share,
)
from gpuplan.cli.tables.plan_outlook_tables import resampled_words
from gpuplan.cli.tables.plan_replay_tables import at_once_name, today_name
from gpuplan.planner.site.fidelity import UNKNOWN

if TYPE_CHECKING:
    from gpuplan.planner.plan.uncertainty import PlanIntervals, PlanRange
    from gpuplan.planner.studies.plan_results import PlanResults

SAME = 0.005
"""A smaller difference of dollars is shown as none."""
WAIT = "wait"
"""In each target of waits, which no program knows."""
UNSEEN = 0.0005
"""A smaller share is shown as 0.0%."""


def todays_words(results: PlanResults) -> str:
    """Return GPUs, time and bill of the jobs as recorded, and that the tables are not advice."""
    today = results.today
    usd, mean = today.bill_usd_per_month, show_number(today.mean_gpus)
    assumed = "an assumed " if today.price_is_assumed else ""
    bill = "" if usd is None else f", {assumed}{show_about_usd(usd)} a month"
    time = "" if results.deferred_jobs else f", {show_duration(today.mean_time_s)} per job"
    return (
        f"Today: {'1 GPU' if mean == '1' else f'{mean} GPUs'} on average (peak "
        f"{show_number(today.peak_gpus)}){time}{bill}. The tables show what the program would buy "
        "if jobs waited for GPUs alone."
    )


def against_today(results: PlanResults) -> str:
    """Return the change from today's bill, and of the time where jobs waited for it.

    Empty where the log has no waits and no commitments are in force: `compared_words` says it.
    """
    today = results.today
    if today.usd_per_month is None:
        return ""
    changed = changed_time(results) if today.has_waits else ""
    bill = _bill_apart(results)
    if today.committed and today.usd_per_month:
        saving = _saving(1 - results.usd_per_month / today.usd_per_month)
        usd = show_about_usd(today.usd_per_month)
        return f", {saving} the {usd} of today's commitments and rent{bill}{changed}"
    if not today.has_waits:
        return ""
    change = results.usd_per_month - today.usd_per_month
    if abs(change) <= SAME * max(results.usd_per_month, today.usd_per_month):
        return f", about the same as today{bill}{changed}"
    if change < today.usd_per_month:
        usd = show_about_usd(today.usd_per_month)
        has_owned = any(use.name == "owned" for use in results.markets)
        rented = "above the owned GPUs" if has_owned else "on demand"
        saving = _saving(-change / today.usd_per_month)
        if bill:
            return f", {saving} the {usd} that today's jobs cost {rented} now{bill}{changed}"
        return f", {saving} today's {usd} {rented}{changed}"
    return f", {show_about_usd(change)} a month more than today{bill}{changed}"


def compared_words(results: PlanResults) -> str:
    """Return the saving over the best commitment, or over renting where that is no other plan."""
    names = [lever.name for lever in results.levers]
    intervals = results.outlook.intervals
    rented = results.outlook.on_demand_usd_per_month
    if not names:
        return ""
    separator = ", and " if against_today(results) else ", "
    is_only_rented = "commitment" not in names or names == ["commitment"]
    if is_only_rented and rented:
        interval = None if intervals is None else intervals.saving_over_on_demand_share
        saving = 1 - results.usd_per_month / rented
        between = saving_between(intervals, interval, saving)
        compared = f"{_saving(saving)} {at_once_name(results)}"
        return f"{separator}{compared}{_untried(results, '')}{between}"
    if results.saving_share is None:
        return ""
    interval = None if intervals is None else intervals.saving_share
    saved = _saving(results.saving_share)
    each = ", each started at once" if results.today.has_waits else ""
    best = f"the best commitment with jobs as recorded{each}"
    between = saving_between(intervals, interval, results.saving_share)
    return f"{separator}{saved} {best}{_untried(results, WAIT)}{between}"


def cost_as_recorded(results: PlanResults) -> str:
    """Return what the jobs as recorded cost at these prices; empty where they cannot be had."""
    usd = results.today.usd_per_month
    if usd is None:
        return ""
    return (
        f", where {today_name(results, len(results.today.committed))} costs {show_about_usd(usd)}"
    )


def _bill_apart(results: PlanResults) -> str:
    """Return today's bill in parentheses, where it is not the dollars that a plan saves on.

    These leave out owned GPUs, end with the last job, and are at the prices of that time.
    """
    usd, bill_usd = results.today.usd_per_month, results.today.bill_usd_per_month
    if usd is None or bill_usd is None or abs(usd - bill_usd) <= SAME * max(usd, bill_usd):
        return ""
    has_owned = any(use.name == "owned" for use in results.markets)
    owned = "owned GPUs, " if has_owned else ""
    return (
        f" (today's bill is {show_about_usd(bill_usd)}: {owned}the whole log, at the prices of its "
        "time)"
    )


def changed_time(results: PlanResults) -> str:
    """Return how much longer or shorter jobs take than today; empty where all are deferred."""
    if results.deferred_jobs == results.jobs or is_unchecked(results):
        return ""
    change_s = planned_s(results) - results.today.mean_time_s
    if abs(change_s) <= SAME * results.today.mean_time_s:
        return ", in about the same time per job"
    return f", for {show_duration(abs(change_s))} {'more' if change_s > 0 else 'less'} time per job"


def is_unchecked(results: PlanResults) -> bool:
    """Return whether a log has waits that no replay of today explains or contradicts."""
    return results.fidelity.verdict == UNKNOWN and results.today.has_waits


def unchecked_words(results: PlanResults) -> str:
    """Return that nothing is known of what makes jobs wait, as a sentence; empty where it is."""
    if not is_unchecked(results):
        return ""
    return (
        f" Today was not replayed ({results.fidelity.why}), so whether more GPUs would end its "
        "waits is not known."
    )


def planned_s(results: PlanResults) -> float:
    """Return the mean time of the jobs as replayed; as planned where there is no replay."""
    return results.mean_time_s if results.replay is None else results.replay.mean_time_s


def _untried(results: PlanResults, of_measure: str) -> str:
    """Return that what the plan is compared with was not replayed for the target, if so.

    Jobs that all start at once, which is said where the log has waits, wait for nothing.
    """
    is_untried = any(of_measure in target.text for target in results.targets)
    is_untried = is_untried and not results.today.has_waits
    return ", which need not meet the target" if is_untried else ""


def saving_between(
    intervals: PlanIntervals | None, interval: PlanRange | None, saving: float
) -> str:
    """Return the interval of a saving in brackets, and what it is over.

    It says "more" or "less" where the words before it do not.
    """
    if intervals is None or interval is None or max(abs(interval.low), abs(interval.high)) < SAME:
        return ""
    low, high = interval.low, interval.high
    if low <= -UNSEEN and high >= UNSEEN:
        between = f"{show_share(-low)} more to {show_share(high)} less"
    elif high >= UNSEEN:
        less = "" if saving >= SAME else " less"
        between = f"{show_between(max(0.0, low), high, show_share)}{less}"
    else:
        more = "" if saving <= -SAME else " more"
        between = f"{show_between(max(0.0, -high), -low, show_share)}{more}"
    return f" ({between} in {resampled_words(intervals)})"


def _saving(share: float) -> str:
    if abs(share) < SAME:
        return "about the same as"
    return f"{show_share(abs(share))} {'less' if share > 0 else 'more'} than"
