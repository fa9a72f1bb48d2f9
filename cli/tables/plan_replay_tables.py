"""Tables of the replays of ``gpuplan plan``: the part held out, caps, and lost spot GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_duration, show_number
from gpuplan.planner.plan.routes import BASE

if TYPE_CHECKING:
    from gpuplan.planner.plan.holdout import HeldOutCost, HeldOutPlan
    from gpuplan.planner.plan.market_use import CostStep
    from gpuplan.planner.studies.plan_results import PlanResults


ALIKE = 0.1
"""Commitments within this share of each other are about the same."""
SAME = 0.005
"""A smaller difference of dollars is none."""

GAP = 0.02
"""Share of the program's value; a replay further off says why."""
STEPS = {
    "program": ("the program's value", ""),
    "whole_nodes": ("in whole nodes", "for whole nodes"),
    "single_jobs": (
        "each job on one route, exact in time",
        "for jobs that are on one route each, exact in time",
    ),
    "deferred_jobs": (
        "deferred jobs go on once started",
        "because deferred jobs cannot stop once started, as the program lets them",
    ),
    "idle_leases": ("rented GPUs idle until returned", "for rented GPUs that are idle"),
    "waits": ("waits and losses, as replayed", "for waits and losses of spot GPUs"),
}
"""Step of the dollars -> its row, and its reason in a sentence."""
WITHOUT_WAITS = ("single_jobs", "deferred_jobs")
"""Steps of the dollars of jobs as assigned; the last has all that runs."""


class _HoldoutRow(NamedTuple):
    """A row of the table of the part held out."""

    name: str
    cost: HeldOutPlan | HeldOutCost


def confirmed_text(results: PlanResults, has_budget: bool = False) -> str:
    """Return what the part held out came to, in a sentence; empty without one."""
    holdout = results.holdout
    if holdout is None:
        return ""
    plan = holdout.plan
    counted = " not deferred" if results.deferred_jobs else ""
    part = f"the last {holdout.share:.0%} of the log"
    tried = (
        f"a plan of the first {1 - holdout.share:.0%}"
        f"{_other_commitment(results, plan.committed_gpus)} cost "
        f"{show_about_usd(plan.usd_per_month)} a month, {show_duration(plan.mean_time_s)} per "
        f"job{counted}, P95 wait {show_duration(plan.p95_wait_s)}"
    )
    if changes_nothing(results):
        return f"On {part}, {tried}; the plan changes nothing, so there is no saving to confirm."
    if has_budget or holdout.saved is not False:
        return f"On {part}, {tried}: confirmed."
    name = today_name(results, holdout.today.committed_gpus)
    usd = show_about_usd(holdout.today.usd_per_month or 0.0)
    if _saves(results):
        return (
            f"{tried[0].upper()}{tried[1:]}: its cost held on {part}, its saving did not: "
            f"{name} would have cost {usd} there."
        )
    return f"On {part}, {tried}: confirmed; {name} would have cost less there too, {usd}."


def changes_nothing(results: PlanResults) -> bool:
    """Return whether jobs run as recorded, at today's dollars, on GPUs owned or on demand."""
    today_usd = results.today.usd_per_month
    if today_usd is None or abs(results.usd_per_month - today_usd) > SAME * today_usd:
        return False
    used = {use.name for use in results.markets if use.mean_gpus > 0 or use.gpus > 0}
    routes = {route.name for each in results.classes for route in each.routes}
    return used <= {"owned", "on_demand"} and routes <= {BASE}


def _saves(results: PlanResults) -> bool:
    """Return whether the plan says that it costs less than today."""
    today_usd = results.today.usd_per_month
    return today_usd is not None and results.usd_per_month < today_usd * (1 - SAME)


def _other_commitment(results: PlanResults, tried_gpus: float) -> str:
    """Return the commitment that was tried, where it is not about that of the plan."""
    gpus = sum(use.gpus for use in results.markets if use.name == "committed")
    if abs(tried_gpus - gpus) <= max(1.0, ALIKE * gpus):
        return ""
    return f" ({tried_gpus:,.0f} GPUs committed, not {gpus:,.0f})"


def cap_text(results: PlanResults) -> str:
    """Return the cap that a target of waits allows; empty without one."""
    chosen = next((cap for cap in results.caps if cap.is_chosen), None)
    if chosen is None or chosen is results.caps[-1]:
        return ""
    return f", with at most {chosen.gpus:,.0f} GPUs in all,"


def today_name(results: PlanResults, committed_gpus: float | None) -> str:
    """Return how the jobs run as recorded, at the prices of the plan."""
    if committed_gpus:
        return "today's commitments and rent"
    if any(use.name == "owned" for use in results.markets):
        return "renting all above the owned GPUs as recorded"
    return "all on demand as recorded"


def at_once_name(results: PlanResults) -> str:
    """Return how the jobs run on demand with no wait, which is not as recorded if they waited."""
    name = today_name(results, None)
    if results.today.going_on_gpus:
        name = "renting all above the commitments that go on as recorded"
    if not results.today.has_waits:
        return name
    return f"{name.removesuffix(' as recorded')} if every job started at once"


def replay_tables(results: PlanResults) -> tuple[Table, ...]:
    """Return the tables of the replays that were made."""
    tables = []
    if results.holdout is not None:
        tables.append(holdout_table(results))
    if results.caps:
        tables.append(caps_table(results))
    return tuple(tables)


def gap_text(results: PlanResults) -> str:
    """Return why the replay costs more or less than the program says, where it is far off."""
    replay, value = results.replay, results.program_usd_per_month
    if replay is None or value <= 0 or abs(replay.usd_per_month / value - 1) <= GAP:
        return ""
    if results.is_capped:
        usd = next(
            step.usd_per_month
            for step in reversed(results.cost_steps)
            if step.name in WITHOUT_WAITS
        )
        late = ""
        if replay.drain_s >= HOUR_S:
            late = (
                f" Jobs that wait run on for {show_duration(replay.drain_s)} after the log: the "
                "dollars count that time too, with the commitments."
            )
        return f"If no job waited under the cap, it would cost {show_about_usd(usd)} a month.{late}"
    gap = replay.usd_per_month / value - 1
    shares = [(step.name, step.change_usd_per_month / value) for step in results.cost_steps]
    reasons = [f"{share:+.1%} {STEPS[name][1]}" for name, share in shares if abs(share) >= SAME]
    more = "more" if gap > 0 else "less"
    return f"The replay costs {abs(gap):.1%} {more} than the program: {listed(reasons, 6)}."


def cost_steps_table(results: PlanResults) -> Table:
    """Return the dollars of the plan from the program to the replay."""
    value = results.program_usd_per_month

    def change(step: CostStep) -> str:
        return f"{step.change_usd_per_month / value:+.1%}" if value > 0 else ""

    return table(
        "From the program to the replay",
        results.cost_steps,
        Column("name", "with", lambda name: STEPS[name][0]),
        {"usd_per_month": "$/month"},
        Column("change_usd_per_month", "change", read=change),
    )


def holdout_table(results: PlanResults) -> Table:
    """Return the part held out: the plan, today, the best single lever, and hindsight."""
    holdout = results.holdout
    rows: list[_HoldoutRow] = []
    if holdout is not None:
        above = "" if holdout.today.committed_gpus else ", all on demand"
        if above and any(use.name == "owned" for use in results.markets):
            above = ", rent above the owned"
        rows = [
            _HoldoutRow("plan of the first part", holdout.plan),
            _HoldoutRow(f"as recorded{above}", holdout.today),
        ]
        if holdout.one_lever is not None and len(results.levers) != 1:
            rows.append(_HoldoutRow(f"best single lever: {holdout.lever}", holdout.one_lever))
        if holdout.hindsight is not None:
            rows.append(_HoldoutRow("hindsight, without waits", holdout.hindsight))

    times = "; times of jobs not deferred" if results.deferred_jobs else ""
    share = "" if holdout is None else f"{holdout.share:.0%}"
    return table(
        f"On the last {share} of the log, which the plan has not seen{times}",
        rows,
        {"name": "what runs"},
        Column("cost.committed_gpus", "committed", show_number),
        Column("cost.usd_per_month", "$/month", show_about_usd),
        Column("cost.mean_time_s", "mean time", show_duration),
        Column("cost.p95_wait_s", "P95 wait", show_duration),
    )


def caps_table(results: PlanResults) -> Table:
    """Return the plan under caps."""
    return table(
        "With at most so many GPUs, replayed until the last job ends",
        results.caps,
        {
            "gpus": "GPUs",
            "usd_per_month": "$/month",
            "mean_time_s": "mean time",
            "mean_wait_s": "mean wait",
            "p95_wait_s": "P95 wait",
        },
        Column("is_chosen", "answer", lambda is_chosen: "this plan" if is_chosen else ""),
    )


def spot_table(results: PlanResults) -> Table:
    """Return the plan with other losses of spot GPUs."""
    return table(
        "If spot GPUs are lost more or less often, replayed",
        results.spot_replays,
        {"name": "losses", "usd_per_month": "$/month", "mean_time_s": "mean time"},
    )
