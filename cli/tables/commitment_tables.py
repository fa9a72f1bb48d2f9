"""Tables of commitments in ``gpuplan size``: curve, GPU types, terms, and the answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted, joined, listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_between, show_price, show_usd

if TYPE_CHECKING:
    from gpuplan.planner.money.commitment import CommitmentPoint, CommitmentResult
    from gpuplan.planner.studies.size_results import SizeResults

SAME = 0.005
"""Costs that differ by less are shown as equal."""
MOST_TYPES = 4
"""GPU types that the answer names."""


def show_dollars(value: float) -> str:
    """Return dollars with three significant digits: prices of sizes are mostly assumptions."""
    return f"${value:,.0f}" if 100 <= abs(value) < 1000 else show_about_usd(value)


def commitments(results: SizeResults) -> list[tuple[str, CommitmentResult]]:
    """Return the GPU types that have a commitment, with it."""
    return [(pool.name, pool.commitment) for pool in results.pools if pool.commitment is not None]


def commitment_table(results: SizeResults) -> Table:
    """Return the commitment of each GPU type beside today's and its two extremes."""
    plans = commitments(results)
    several = len(plans) > 1
    if several and results.commitment is not None:
        plans.append(("all", results.commitment))
    has_today = any(plan.today_gpus is not None for _, plan in plans)
    return table(
        "What to commit to where on-demand GPUs fill in and no job waits",
        [{"name": name, **fields_of(plan)} for name, plan in plans],
        {
            "name": "GPU" if several else "",
            "committed_gpus": "commit to",
            "interval.low_gpus": "interval from",
            "interval.high_gpus": "to",
            "today_gpus": "today" if has_today else "",
            "owned_gpus": "owned" if any(plan.owned_gpus for _, plan in plans) else "",
        },
        Column("usd_per_month", "$/month", show_dollars),
        Column("today_usd_per_month", "today" if has_today else "", show_dollars),
        {
            "coverage_share": "of GPU time committed",
            "utilization": "used",
            "on_demand_mean_gpus": "" if several else "on demand, mean",
            "on_demand_peak_gpus": "" if several else "peak",
        },
        Column("all_committed_usd_per_month", "" if several else "all committed", show_dollars),
        Column("all_on_demand_usd_per_month", "all on demand", show_dollars),
        {"break_even_share": "pays after, of term"},
    )


def commitment_curve_table(results: SizeResults) -> Table:
    """Return what each number of committed GPUs costs."""
    plans = commitments(results)
    several = len(plans) > 1
    rows = [(point, plan) for _, plan in plans for point in plan.curve]

    def note(row: tuple[CommitmentPoint, CommitmentResult]) -> str:
        point, plan = row
        words = ["optimum"] if point.gpus == plan.committed_gpus else []
        if point.gpus == plan.today_gpus:
            is_paid = isclose(point.usd_per_month, plan.today_usd_per_month or 0.0)
            words.append("today" if is_paid else "today's GPUs at this price")
        return ", ".join(words)

    return table(
        f"Dollars a month by GPUs committed{_prices(results)}",
        rows,
        Column("gpu_type", "GPU" if several else "", read=lambda row: row[0].gpu_type),
        Column("gpus", "committed", read=lambda row: row[0].gpus),
        Column("usd_per_month", "$/month", show_usd, read=lambda row: row[0].usd_per_month),
        Column("coverage_share", "of use covered", read=lambda row: row[0].coverage_share),
        Column("utilization", "used", read=lambda row: row[0].utilization),
        Column(
            "worst_month",
            "worst month" if any(point.worst_month for point, _ in rows) else "",
            read=lambda row: row[0].worst_month,
        ),
        Column(
            "worst_month_usd", "dollars in it" if any(p.worst_month for p, _ in rows) else "",
            show_usd, read=lambda row: row[0].worst_month_usd,
        ),
        Column("note", "note", read=note),
    )  # fmt: skip


def _prices(results: SizeResults) -> str:
    """Return the prices of a commitment on one GPU type; empty for several."""
    plan = results.commitment
    if plan is None or plan.commit_usd_per_gpu_h is None or plan.on_demand_usd_per_gpu_h is None:
        return ""
    on_demand = show_price(plan.on_demand_usd_per_gpu_h)
    return f" at {show_price(plan.commit_usd_per_gpu_h)} an hour, {on_demand} on demand"


def terms_table(results: SizeResults) -> Table | None:
    """Return each term with when it has paid for itself; None where no term is given."""
    terms = [term for _, plan in commitments(results) for term in plan.terms]
    if not terms:
        return None
    low, high = terms[0].growth
    has_range = low < high
    return table(
        "Terms: months until they have paid for themselves, even if use then stops",
        terms,
        {
            "gpu_type": "GPU" if len(commitments(results)) > 1 else "",
            "name": "term",
        },
        Column("usd_per_gpu_h", "$/GPU-h", show_price),
        {"committed_gpus": "commit to"},
        Column("usd_per_month", "$/month", show_usd),
        Column("term_usd", "for the whole term", show_dollars),
        Column("break_even_month", "paid for after, months", show_month),
        Column("low_growth_break_even_month", f"use {low:+.0%}" if has_range else "", show_month),
        Column("high_growth_break_even_month", f"{high:+.0%}" if has_range else "", show_month),
    )


def commitment_text(results: SizeResults) -> str:
    """Return what to commit to, what today's commitment costs over it, and when it pays."""
    plan = results.commitment
    assert plan is not None
    return " ".join(
        part
        for part in (
            _commitment(results, plan),
            _break_even(results, plan),
            _of_terms(plan),
        )
        if part
    )


def _commitment(results: SizeResults, plan: CommitmentResult) -> str:
    usd, other = show_dollars(plan.usd_per_month), plan.all_on_demand_usd_per_month
    part = is_of_some_types(results)
    if not plan.committed_gpus:
        names = listed([name for name, _ in commitments(results)], MOST_TYPES)
        none = f"none of {names}" if part else "none"
        if plan.owned_gpus and not plan.on_demand_peak_gpus:
            text = f"Commit to {none}: the {plan.owned_gpus:,} GPUs that you own are enough"
            return f"{text}{_against_today(results, plan)}{_applies_from(results)}."
        above = f" above the {plan.owned_gpus:,} that you own" if plan.owned_gpus else ""
        text = f"Commit to {none}: all on demand{above} costs {show_dollars(other)} a month"
        return f"{text}{_against_today(results, plan)}{_applies_from(results)}."
    less, those = _against_today(results, plan), ""
    if not less:
        those = " for these types" if part else ""
        saved = 1 - plan.usd_per_month / other if other else 0.0
        less = (
            ", about the same as all on demand"
            if abs(saved) < SAME
            else f", {saved:.0%} less than all on demand"
        )
    peak = plan.on_demand_peak_gpus
    rent = f"rent up to {peak:,} on demand" if peak else "rent none"
    return (
        f"If no job may wait, commit to {_gpus(results, plan)} and {rent}: {usd} a month{those}"
        f"{less}{_applies_from(results)}."
    )


def is_of_some_types(results: SizeResults) -> bool:
    """Whether commitments are looked for on some GPU types of the log only."""
    return 0 < len(commitments(results)) < len(results.pools)


def _gpus(results: SizeResults, plan: CommitmentResult) -> str:
    """Return how many GPUs to commit to, by type where there are few, and today's."""
    each = commitments(results)
    owned = f", beside the {plan.owned_gpus:,} that you own," if plan.owned_gpus else ""
    if 1 < len(each) <= MOST_TYPES:
        parts = []
        for name, of_type in each:
            before = of_type.today_gpus
            changed = before not in (None, of_type.committed_gpus)
            parts.append(
                f"{of_type.committed_gpus:,} {name}{f' (today {before:,})' if changed else ''}"
            )
        return f"{joined(parts)}{owned}"
    today = f" instead of {plan.today_gpus:,}" if plan.today_gpus else ""
    if plan.today_gpus == plan.committed_gpus:
        today = ", as today" if owned else ", as today,"
    ends = ""
    if plan.interval is not None and plan.interval.low_gpus < plan.interval.high_gpus:
        low, high = plan.interval.low_gpus, plan.interval.high_gpus
        ends = f" ({plan.interval.level_percent:g}% interval {low:,} to {high:,})"
    if len(each) == 1 and len(results.pools) > 1:
        return f"{plan.committed_gpus:,} {each[0][0]}{ends}{today}{owned}"
    return f"{counted(plan.committed_gpus, 'GPU')}{ends}{today}{owned}"


def _against_today(results: SizeResults, plan: CommitmentResult) -> str:
    """Return what today's commitment costs over the optimum; empty where none is known.

    Its dollars are no bill: those of owned GPUs and of other GPU types are not in them.
    """
    today, over = plan.today_usd_per_month, plan.today_over_optimum_usd_per_month
    if today is None or over is None or not plan.today_gpus:
        return ""
    names = [name for name, _ in commitments(results) if len(results.pools) > 1]
    of_types = f" of {listed(names, MOST_TYPES)}" if names else ""
    owned = ", owned GPUs left out" if plan.owned_gpus else ""
    basis = (
        f"the {show_dollars(today)} of today's commitments and rent{of_types} at the prices in "
        f"force at the end{owned}"
    )
    if over <= SAME * today:
        return f", about the same as {basis}"
    return f", {show_dollars(over)} less than {basis}"


def _applies_from(results: SizeResults) -> str:
    """Return from when fewer GPUs than today's can be committed; empty where they are not fewer."""
    fewer = [
        (name, plan)
        for name, plan in commitments(results)
        if plan.today_gpus is not None and plan.committed_gpus < plan.today_gpus
    ]
    dated = [(name, plan.today_until) for name, plan in fewer if plan.today_until]
    if not dated:
        return ""
    if len({until for _, until in dated}) == 1 and len(dated) == len(commitments(results)):
        return f"; today's run until {dated[0][1]}, fewer can apply only from then on"
    each = listed([f"{name} until {until}" for name, until in dated], MOST_TYPES)
    return f"; today's run on ({each}), fewer can apply only from then on"


def _of_terms(plan: CommitmentResult) -> str:
    """Return which of several terms is the cheapest that the range of growth bears."""
    terms = [term for term in plan.terms if term.committed_gpus]
    if len(terms) < 2 or len({term.gpu_type for term in terms}) > 1:
        return ""
    first, low = terms[0], terms[0].growth[0]
    borne = [term for term in terms if term.low_growth_break_even_month is not None]
    if not borne:
        return f"With {_use(low)} none of them pays." if low else ""
    best = min(borne, key=lambda term: (term.usd_per_month, term.months))
    cheaper_terms = [term for term in terms if term.usd_per_month < best.usd_per_month]
    why = f"the cheapest at {show_dollars(best.usd_per_month)} a month"
    if cheaper_terms:
        names = _joined([term.name for term in cheaper_terms])
        why = f"{why} that pays with {_use(low)} too; {names} does not"
    elif low < 0:
        why += f", and pays with {_use(low)} too"
    text = f"Of the terms, {best.name} is {why}"
    if best is not first:
        text += f"; what comes before, the curve and the interval are of {first.name}"
    return f"{text}."


def _break_even(results: SizeResults, plan: CommitmentResult) -> str:
    """Return when the commitment has paid for itself, by term where terms are given."""
    terms = [term for term in plan.terms if term.committed_gpus]
    if not terms:
        plans = [of_type for _, of_type in commitments(results)]
        shares = [p.break_even_share for p in plans if p.break_even_share is not None]
        if not shares:
            return ""
        share = show_between(min(shares), max(shares), lambda value: f"{value:.0%}")
        share = share if len(shares) > 1 else f"{shares[0]:.0%}"
        return f"The commitment has paid for itself once {share} of its term is over."
    if len({term.gpu_type for term in terms}) > 1:
        return ""
    each = [
        f"{_months(term.break_even_month)} ({term.name}, {term.committed_gpus:,} at "
        f"{show_price(term.usd_per_gpu_h)})"
        for term in terms
    ]
    text = f"A commitment has paid for itself after {_joined(each)}."
    low, high = terms[0].growth
    if low < high:
        first = _joined([_months(term.low_growth_break_even_month) for term in terms])
        last = _joined([_months(term.high_growth_break_even_month) for term in terms])
        text += f" With {_use(low)} that is {first}, with {_use(high)} {last}."
    return text


def _use(growth: float) -> str:
    return f"{abs(growth):.0%} {'less' if growth < 0 else 'more'} use"


def _months(month: float | None) -> str:
    return "never" if month is None else f"{show_month(month)} months"


def show_month(months: float) -> str:
    """Return a number of months: 9.1, 12."""
    return f"{months:.1f}".removesuffix(".0") if months < 9.95 else f"{months:.0f}"


def _joined(words: Sequence[str]) -> str:
    """Return ``9.1 or 24 months``."""
    return joined([*(word.removesuffix(" months") for word in words[:-1]), words[-1]], word="or")
