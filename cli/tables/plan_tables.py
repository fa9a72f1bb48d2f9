"""Tables of ``gpuplan plan``: markets, levers and classes, and the answer in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import counted, joined, listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_between,
    show_duration,
    show_price,
    show_share,
)
from gpuplan.cli.tables.fidelity_text import contradiction
from gpuplan.cli.tables.plan_against_today import (
    SAME,
    against_today,
    changed_time,
    compared_words,
    cost_as_recorded,
    planned_s,
    todays_words,
    unchecked_words,
)
from gpuplan.cli.tables.plan_outlook_tables import LEVERS, resampled_words, slower_words, term_words
from gpuplan.cli.tables.plan_replay_tables import (
    cap_text,
    confirmed_text,
)
from gpuplan.planner.frontier.budget import parse_budgets

if TYPE_CHECKING:
    from gpuplan.planner.requests.plan import PurchaseRequest
    from gpuplan.planner.studies.plan_results import PlanClass, PlanResults

MOST_NAMED = 6
ENOUGH = 1.1
"""GPUs under which jobs take longer, in times of today's, are not called enough."""
BESIDE = {"spot": "spot GPUs", "serverless": "containers"}
"""Market beside the pool -> what runs jobs there."""


def levers_table(results: PlanResults) -> Table:
    """Return what each lever is worth."""
    stops = ", in which deferred jobs may stop and go on," if results.deferred_jobs else ","
    return table(
        f"What each lever is worth: $/month of the program{stops} "
        f"{show_about_usd(results.program_usd_per_month)} with all",
        results.levers,
        Column("name", "lever", lambda name: LEVERS.get(name, name)),
        {"without_usd_per_month": "plan without it", "alone_usd_per_month": "it alone"},
    )


def program_table(results: PlanResults, rounding_share: float) -> Table:
    """Return the program's value, before nodes are whole and shares are of single jobs."""
    return table(
        "The program: jobs start at once, and classes split evenly",
        (results,),
        {"program_usd_per_month": "$/month"},
        Column(
            "rounding_share", "whole nodes", lambda share: f"{share:+.2%}", lambda _: rounding_share
        ),
    )


def classes_table(results: PlanResults) -> Table:
    """Return where the jobs of each class run."""

    def routes(row: PlanClass) -> str:
        shares = [(route.name, route.share) for route in row.routes]
        if len(shares) == 1:
            return shares[0][0]
        return ", ".join(f"{name} {share:.0%}" for name, share in shares)

    return table(
        "Where jobs run; base is as recorded",
        results.classes,
        {
            "name": "class",
            "gpu_type": "GPU" if any(row.gpu_type for row in results.classes) else "",
            "width_bucket": "GPUs per job",
            "jobs": "jobs",
            "recorded_time_s": "time today",
            "mean_time_s": "planned",
        },
        Column("routes", "runs on", read=routes),
    )


def headline(results: PlanResults, request: PurchaseRequest, source_format: str = "") -> str:
    """Return what to buy and what it costs; an unconfirmed plan says so first.

    Where a replay of today contradicts the log, nothing is recommended.
    """
    if refusal := contradiction(results.fidelity, source_format):
        return f"{refusal} {todays_words(results)}"
    has_budget = request.budget is not None
    owned = sum(use.gpus for use in results.markets if use.name == "owned")
    commit, cost = _commitment(results, request, owned), _cost(results, request, owned)
    time = f"{_time(results, has_budget)}{slower_words(results, request.slower)}"
    if owned and results.confirmed and not results.usd_per_month:
        commit = f"The {owned:,.0f} GPUs owned are enough:"
        cost = "no GPU needs to be bought or rented"
        if planned_s(results) > ENOUGH * results.today.mean_time_s:
            commit = f"With the {counted(int(owned), 'GPU')} owned alone"
            cost = f"nothing is bought or rented{changed_time(results)}"
    unpaid = _unpaid(results)
    remarks = f"{time}{_assumed(results)}{unchecked_words(results)}"
    answer = f"{commit} {cost}. {unpaid}{running_on(results)}{remarks}"
    return f"{answer} {confirmed_text(results, has_budget)}" if results.confirmed else answer


def _commitment(results: PlanResults, request: PurchaseRequest, owned: float) -> str:
    """Return what to commit to and to rent beside the GPUs owned, and why it is not confirmed."""
    bought = [
        f"{use.gpus:,.0f} {use.gpu_type}" if use.gpu_type else counted(int(use.gpus), "GPU")
        for use in results.markets
        if use.name == "committed"
    ]
    commit = f"Commit to {joined(bought, most=MOST_NAMED)}" if bought else "Commit to no GPU"
    recorded = results.recorded_committed_gpus
    if len(bought) == 1 and recorded is not None and bought[0].split()[0] != f"{recorded:,.0f}":
        of_all = " of all types" if len({use.gpu_type for use in results.markets}) > 1 else ""
        commit += f" ({recorded:,.0f}{of_all} with jobs as recorded)"
    commit += _terms(results)
    if owned:
        commit += f" beside the {owned:,.0f} owned"
    if any(use.name == "on_demand" and use.mean_gpus > 0 for use in results.markets):
        commit += f" and rent {'the rest' if bought or owned else 'on demand'}"
    if elsewhere := _elsewhere(results, request):
        commit += f", with {elsewhere},"
    if cap := cap_text(results):
        commit = f"{commit.removesuffix(',')}{cap}"
    if results.confirmed:
        return commit
    return f"Not confirmed ({'; '.join(results.unconfirmed)}): {commit[0].lower()}{commit[1:]}"


def _cost(results: PlanResults, request: PurchaseRequest, owned: float) -> str:
    """Return what a plan costs, in the replay too where that differs, and against today."""
    cost = f"for {show_about_usd(results.usd_per_month)} a month"
    cost += "" if request.has_price else " at an assumed price"
    cost += ", owned GPUs left out" if owned else ""
    replay_usd = results.usd_per_month if results.replay is None else results.replay.usd_per_month
    if abs(replay_usd - results.usd_per_month) > 2 * SAME * results.usd_per_month:
        cost += f" ({show_about_usd(replay_usd)} in the replay)"
    if request.budget is None:
        return f"{cost}{against_today(results)}{compared_words(results)}"
    return f"{cost}{over_budget(results, request.budget)}{cost_as_recorded(results)}"


def _unpaid(results: PlanResults) -> str:
    """Return what takes no job at its price, and would at a lower one, as a sentence."""
    used = {use.name for use in results.markets if use.mean_gpus > 0}
    parts = results.outlook.decisions
    offered = {part.name for part in parts if part.pays_below_usd_per_gpu_h is not None}
    named = [text for name, text in BESIDE.items() if name in offered - used]
    if not named:
        return ""
    if named[1:]:
        return f"Neither {named[0]} nor {named[1]} pay. "
    return f"{named[0][0].upper()}{named[0][1:]} do not pay. "


def _elsewhere(results: PlanResults, request: PurchaseRequest) -> str:
    """Return how much of the GPU time is on spot GPUs and in containers; empty where none is."""
    spot = f"on spot ({_losses(request)})"
    all_gpus = sum(use.mean_gpus for use in results.markets)
    parts: list[str] = []
    for name, where in (("spot", spot), ("serverless", "in containers")):
        gpus = sum(use.mean_gpus for use in results.markets if use.name == name)
        if gpus > 0:
            of_what = "" if parts else " of the GPU-hours"
            parts.append(f"{show_share(gpus / all_gpus)}{of_what} {where}")
    return " and ".join(parts)


def _losses(request: PurchaseRequest) -> str:
    """Return how often a spot node is lost, and whether that is assumed."""
    per_s = request.spot_hazard
    lost = (
        f"each node lost every {show_duration(1 / per_s)} on average" if per_s else "no node lost"
    )
    return f"{lost}, assumed" if request.assumes_losses else lost


def _terms(results: PlanResults) -> str:
    """Return for how long GPUs are committed to, and at which price; empty without a term."""
    used = {use.gpu_type for use in results.markets if use.name == "committed"}
    terms = {
        (part.term, part.usd_per_gpu_h if len(used) == 1 else None): part.gpu_type
        for part in results.outlook.decisions
        if part.name == "committed" and part.term and part.gpu_type in used
    }
    words = []
    for (term, usd), gpu_type in terms.items():
        price = "" if usd is None else f" at {show_price(usd)}"
        of_type = f" ({gpu_type})" if len(terms) > 1 and gpu_type else ""
        words.append(f"{term_words(term or '')}{price}{of_type}")
    return f" for {joined(words, most=MOST_NAMED)}" if words else ""


def over_budget(results: PlanResults, budget: str) -> str:
    """Return by how much the jobs as assigned, or replayed under a cap, cost more than a budget."""
    limit_usd = sum(each.usd_per_h or 0.0 for each in parse_budgets(budget)) * MONTH_H
    over = results.usd_per_month / limit_usd - 1 if limit_usd else 0.0
    if over <= SAME:
        return ""
    why = (
        "in the replay under the cap"
        if results.is_capped
        else "since jobs split less evenly than shares"
    )
    return f", {show_share(over)} over the budget of {show_about_usd(limit_usd)} {why}"


def running_on(results: PlanResults) -> str:
    """Return which commitments of today are larger than the plan's, and until when they run."""
    bought = {use.gpu_type: use.gpus for use in results.markets if use.name == "committed"}
    fewer = [
        f"{each.gpus:,} {each.gpu_type or 'GPUs'}{f' until {each.until}' if each.until else ''}"
        for each in results.today.committed
        if bought.get(each.gpu_type, 0.0) < each.gpus
    ]
    if not fewer:
        return ""
    return f"Today's commitments run on ({listed(fewer, 6)}): fewer can apply only from then on. "


def _time(results: PlanResults, has_budget: bool) -> str:
    """Return the mean time as replayed against the recorded one, under a budget with its range."""
    if results.deferred_jobs == results.jobs:
        none = "Every job is deferred, so no time of a job is planned."
        return f"{none}{_deferred_words(results)}"
    replay, today_s = results.replay, results.today.mean_time_s
    planned, today = show_duration(planned_s(results)), show_duration(today_s)
    has_waits = results.today.jobs_without_wait < results.jobs
    compared = f"today {today}{' with waits' if has_waits else ''}"
    if planned == today and not has_waits:
        compared = "as today"
    intervals, between = results.outlook.intervals, ""
    if has_budget and intervals is not None:
        low, high = intervals.mean_time_s.low, intervals.mean_time_s.high
        if high - low > SAME * results.mean_time_s:
            ends = show_between(low, high, show_duration)
            between = f" ({ends} in {resampled_words(intervals)})"
    without = " without waits" if replay is None else ""
    per_job, deferred = f"per job{without}", ""
    if results.deferred_jobs:
        counted_jobs = results.jobs - results.deferred_jobs
        per_job = f"{per_job} of the {counted_jobs:,} that are not deferred"
        deferred = _deferred_words(results)
    return f"Mean time {planned} {per_job}{between}, {compared}.{deferred}"


def _deferred_words(results: PlanResults) -> str:
    """Return how long deferred jobs wait, in a sentence; empty where they were not replayed."""
    wait_s = None if results.replay is None else results.replay.deferred_wait_s
    if wait_s is None:
        return ""
    return f" The {results.deferred_jobs:,} deferred wait {show_duration(wait_s)} on average."


def _assumed(results: PlanResults) -> str:
    """Return one sentence on the dollars that rest on an assumed speedup."""
    law = results.outlook.assumed_speedup
    if law is None:
        return ""
    without = next(
        (lever.without_usd_per_month for lever in results.levers if lever.name == "widths"), None
    )
    usd = 0.0 if without is None else without - results.program_usd_per_month
    if usd <= SAME * results.usd_per_month:
        return f" Other widths rest on an assumed speedup, {law}."
    return f" {show_about_usd(usd)} a month of the saving rests on an assumed speedup, {law}."
