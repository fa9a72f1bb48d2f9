"""Tables of ``gpuplan plan`` beyond its dollars: what decides it, growth, and cheaper plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted, listed
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_between,
    show_duration,
    show_number,
    show_price,
)

if TYPE_CHECKING:
    from gpuplan.planner.plan.assumptions import OtherAssumption
    from gpuplan.planner.plan.cheaper import CheaperPlan
    from gpuplan.planner.plan.confirmation import ReplayedPurchase
    from gpuplan.planner.plan.decisions import DecidedPart
    from gpuplan.planner.plan.growth import PlanGrowth
    from gpuplan.planner.plan.market_use import MarketUse
    from gpuplan.planner.plan.uncertainty import PlanIntervals
    from gpuplan.planner.studies.plan_results import PlanResults

WORDS = {
    "owned": "owned",
    "committed": "committed",
    "on_demand": "on demand",
    "spot": "spot",
    "serverless": "containers",
    "width": "other widths",
    "deferred": "deferred",
}
LEVERS = {"serverless": "containers"}
CENT = 0.005
"""Dollars; a term whose plan differs by less buys nothing that is new."""
MOST_CLASSES = 2
"""Named in a cell."""
ALMOST = 1.005
"""A class that becomes slower by less counts as not slower."""
SURE_RATIO = 1.01
"""A class may miss its bound by less, as its shares are of whole jobs."""


@dataclass(frozen=True, slots=True)
class PartOfPlan:
    """A row of the table of markets.

    Attributes:
        name, gpu_type: of the part.
        use: GPUs and dollars; None of a part that has none.
        decided_by: in words.
    """

    name: str
    gpu_type: str
    use: MarketUse | None
    decided_by: str


def markets_table(results: PlanResults) -> Table:
    """Return what is bought and used in each market, and what decides it."""
    uses = {(use.name, use.gpu_type): use for use in results.markets}
    parts = []
    for decision in results.outlook.decisions:
        use = uses.get((decision.name, decision.gpu_type))
        words = decided_by(decision, results.outlook.intervals, use)
        parts.append(PartOfPlan(decision.name, decision.gpu_type, use, words))
    return table(
        "What to buy",
        parts,
        Column("name", "market", lambda name: WORDS[name]),
        {"gpu_type": "GPU" if any(part.gpu_type for part in parts) else ""},
        Column("gpus", "GPUs", show_number, lambda part: part.use and part.use.gpus),
        Column("mean_gpus", "mean use", show_number, lambda part: part.use and part.use.mean_gpus),
        Column("peak_gpus", "peak", show_number, lambda part: part.use and part.use.peak_gpus),
        Column("peak_s", "", show_duration, lambda part: part.use and part.use.peak_s),
        Column(
            "usd_per_month",
            "$/month",
            show_about_usd,
            lambda part: part.use and part.use.usd_per_month,
        ),
        {"decided_by": "what decides it"},
    )


def decided_by(
    decision: DecidedPart, intervals: PlanIntervals | None, use: MarketUse | None
) -> str:
    """Return what decides a part of a plan, in words."""
    if decision.name == "owned":
        return "they take work first and cost nothing more"
    if decision.name == "committed":
        return f"{_why_committed(decision, intervals, use)}{_terms_words(decision, use)}"
    if decision.name == "on_demand":
        if use is None or not use.mean_gpus:
            return "not needed"
        share = decision.time_share or 0.0
        percent = f"{share:.0%}" if share >= 0.01 else "under 1%"
        return f"rented {percent} of the time, peak {show_duration(use.peak_s)} after the start"
    if decision.name == "deferred":
        return f"{counted(decision.jobs or 0, 'job')} may wait for idle GPUs"
    if not decision.jobs:
        return _why_unused(decision)
    classes = listed([name.replace(", ", " ") for name in decision.classes], MOST_CLASSES)
    jobs = counted(decision.jobs, "job")
    if decision.name == "width":
        wider = decision.wider_jobs or 0
        ways = ((wider, "wider"), (decision.jobs - wider, "narrower"))
        jobs = " and ".join(f"{counted(number, 'job')} {way}" for number, way in ways if number)
        return f"{jobs}: {classes}"
    more = ""
    if decision.least_checkpoint_s is not None and decision.most_checkpoint_s is not None:
        ends = (decision.least_checkpoint_s, decision.most_checkpoint_s)
        more = f"; a checkpoint every {_between(*ends)}"
    if decision.leave_s:
        more = f"; longer jobs leave after {', '.join(map(show_duration, decision.leave_s))}"
    return f"{jobs}: {classes}{more}"


def _between(low_s: float, high_s: float) -> str:
    """Return two durations as a range, or as one where they look the same."""
    low, high = (show_duration(time_s, 2) for time_s in (low_s, high_s))
    return low if low == high else show_between(low_s, high_s, lambda s: show_duration(s, 2))


def _why_committed(
    decision: DecidedPart, intervals: PlanIntervals | None, use: MarketUse | None
) -> str:
    """Return what decides a commitment: from which use it pays, and how sure it is."""
    if decision.pays_above_share is None:
        return "covers the peak: there is no on-demand price"
    if decision.is_capped:
        return "as many as --cluster allows"
    pays = f"pays above {decision.pays_above_share:.0%} use"
    if decision.is_for_target:
        return f"as many as the target asks for; {pays}"
    if use is None:
        if decision.pays_above_share >= 1:
            return "no cheaper than on demand"
        return f"no GPU would be busy {decision.pays_above_share:.0%} of the time"
    committed = intervals.committed if intervals is not None else ()
    for row in committed:
        if row.gpu_type == decision.gpu_type:
            if round(row.low_gpus) == round(row.high_gpus):
                return f"{pays}; {show_number(round(row.low_gpus))} in every resample"
            return f"{pays}; {_gpus(row.low_gpus, row.high_gpus)} in resamples"
    return pays


def term_words(term: str) -> str:
    """Return a term as people say it: ``3 years``, ``6 months``."""
    number, unit = int(term.rstrip("ymo")), "year" if term.endswith("y") else "month"
    return counted(number, unit)


def _terms_words(decision: DecidedPart, use: MarketUse | None) -> str:
    """Return the term of a commitment with its price, and what the others would cost."""
    words = ""
    if decision.term and use is not None and decision.usd_per_gpu_h is not None:
        words = f"; for {term_words(decision.term)} at {show_price(decision.usd_per_gpu_h)}"
    for other in decision.other_terms:
        name = f"for {term_words(other.name)}" if other.name else "without a term"
        if other.gpus is None or other.more_usd_per_month is None:
            continue
        if abs(other.more_usd_per_month) < CENT:
            continue
        more = f"{show_about_usd(abs(other.more_usd_per_month))} a month"
        less = "more" if other.more_usd_per_month >= 0 else "less"
        gpus = show_number(round(other.gpus))
        words += f"; {name} at {show_price(other.usd_per_gpu_h)} {gpus} GPUs, {more} {less}"
    return words


def _gpus(low: float, high: float) -> str:
    return show_between(round(low), round(high), show_number)


def _why_unused(decision: DecidedPart) -> str:
    if decision.name == "width":
        return "no other width pays"
    if decision.pays_below_usd_per_gpu_h is None:
        return "not used at this price"
    price = show_price(round(decision.pays_below_usd_per_gpu_h, 2))
    return f"would pay below about {price} an hour"


def cheaper_table(results: PlanResults) -> Table:
    """Return cheaper plans with what they cost in time."""

    def allowing(row: CheaperPlan) -> str:
        if row.budget_usd_per_month is not None:
            return f"spend {show_about_usd(row.budget_usd_per_month)} a month"
        parts = []
        if row.slower is not None:
            parts.append(f"classes up to {row.slower:g}x slower")
        targets = [target.limit_s for target in results.targets]
        if row.target_s is not None and row.target_s not in targets:
            parts.append(f"a mean time of {show_duration(row.target_s)}")
        return " and ".join(parts)

    def slowest(row: CheaperPlan) -> Shown | None:
        if row.slowest is None:
            return None
        jobs = counted(row.slowest.jobs, "job")
        return Shown(row.slowest.times, f"{row.slowest.times:.3g}x ({jobs})")

    return table(
        "Cheaper plans, and their price in time",
        results.outlook.cheaper,
        Column("allow", "allow", read=allowing),
        {"usd_per_month": "$/month", "mean_time_s": "mean time"},
        Column("slowest_times", "slowest class", read=slowest),
    )


def show_growth(share: float) -> str:
    """Return growth with its sign: ``+20%``, ``none``."""
    if not share:
        return "none"
    percent = 100 * share
    return f"{percent:+,.0f}%" if abs(percent) >= 100 else f"{percent:+.3g}%"


def growth_table(results: PlanResults) -> Table:
    """Return what the commitment costs if demand grows or shrinks."""

    def committed(row: PlanGrowth) -> str:
        gpus = [f"{gpus.gpus:,.0f} {gpus.gpu_type}".strip() for gpus in row.best_committed]
        return ", ".join(gpus)

    return table(
        "If demand grows: this commitment against the best one for that demand",
        results.outlook.growth,
        Column("growth_share", "growth", show_growth),
        {"usd_per_month": "$/month", "best_usd_per_month": "$/month, best"},
        Column("best_committed", "best commitment", read=committed),
        {"regret_share": "extra"},
    )


def assumptions_table(results: PlanResults) -> Table:
    """Return the plan where its assumptions are otherwise."""

    def assumption(row: OtherAssumption) -> str:
        return f"{'losses of a spot node' if row.name == 'spot_losses' else 'speedup'} {row.value}"

    return table(
        "If an assumption is wrong: this plan may break its bounds then, the best one keeps them",
        results.outlook.assumptions,
        Column("assumption", "if", read=assumption),
        {
            "usd_per_month": "this plan, $/month",
            "mean_time_s": "mean time",
            "best_usd_per_month": "best plan, $/month",
        },
    )


def resampled_words(intervals: PlanIntervals) -> str:
    """Return what the resamples are of: ``20 resamples of its weeks``.

    Resamples whose limits no plan meets are in no range, which is then said.
    """
    blocks = (
        "its weeks" if intervals.is_weeks else f"blocks of {show_duration(intervals.block_s, 2)}"
    )
    if not intervals.failed:
        return f"{intervals.resamples} resamples of {blocks}"
    met = intervals.resamples - intervals.failed
    return (
        f"{met} of {intervals.resamples} resamples of {blocks}; no plan meets the limits in the "
        "others"
    )


def slower_words(results: PlanResults, slower: float | None) -> str:
    """Return one sentence on the class that becomes slowest, and one on those that waits slow."""
    replay = results.replay
    waiting = "" if replay is None or slower is None else waiting_words(replay, slower)
    return f"{_slowest_words(results, slower, bool(waiting))}{waiting}"


def waiting_words(replay: ReplayedPurchase, slower: float) -> str:
    """Return the classes that waits of the replay push over the bound; empty without any."""
    names = [name.replace(", ", " ") for name in replay.slower_classes]
    if not names:
        return ""
    classes = "one class takes" if len(names) == 1 else f"{len(names)} classes take"
    return (
        f" With the waits of the replay, {classes} over {slower:g} times as long as today: "
        f"{listed(names, MOST_CLASSES)}."
    )


def _slowest_words(results: PlanResults, slower: float | None, are_slowed: bool) -> str:
    """Return one sentence on the class that becomes slowest, waits of the replay left out."""
    slowest = results.outlook.slowest
    if slowest is None:
        return ""
    replay = results.replay
    waits = replay is not None and replay.mean_time_s > results.mean_time_s * ALMOST
    has_waits = are_slowed or waits or results.today.jobs_without_wait < results.jobs
    no_class = "Without waits no class" if has_waits else "No class"
    if slowest.times <= ALMOST:
        return f" {no_class} takes longer than today."
    if slower is not None and slowest.times <= slower * SURE_RATIO:
        return f" {no_class} takes over {slower:g} times as long as today."
    why = (
        ""
        if slower is None
        else f", over the bound of {slower:g}: jobs split less evenly than shares"
    )
    return (
        f" The slowest class, {slowest.name} ({counted(slowest.jobs, 'job')}), takes "
        f"{slowest.times:.3g} times as long as today{why}."
    )
