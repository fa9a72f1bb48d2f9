"""``gpuplan plan``: what to commit to, what to rent, and which jobs run elsewhere."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, StudyView, Table, picture, table
from gpuplan.cli.formats.units import show_about_usd, show_duration, show_price, show_share
from gpuplan.cli.tables.fidelity_text import fidelity_table
from gpuplan.cli.tables.plan_outlook_tables import (
    assumptions_table,
    cheaper_table,
    growth_table,
    markets_table,
)
from gpuplan.cli.tables.plan_replay_tables import (
    cost_steps_table,
    gap_text,
    replay_tables,
    spot_table,
)
from gpuplan.cli.tables.plan_tables import classes_table, headline, levers_table, program_table
from gpuplan.planner.plan.classes import class_name

if TYPE_CHECKING:
    from gpuplan.planner.plan.kept import KeptPlan, PlanItem
    from gpuplan.planner.plan.lending import PlanLending
    from gpuplan.planner.studies.plan_document import PlanAnswer
    from gpuplan.planner.studies.plan_services import PlannedServices


def show(study: PlanAnswer) -> StudyView:
    """Return the plan as people see it."""
    results, kept = study.results, study.results.kept
    outlook = results.outlook

    def frame() -> pl.DataFrame:
        return pl.DataFrame([plain(use) for use in results.markets])

    def exported(name: str, _: Path) -> str:
        return study.exported(name)

    levers = (levers_table(results),) if len(results.levers) > 1 else ()
    cheaper = (cheaper_table(results),) if outlook.cheaper else ()
    growth = (growth_table(results),) if outlook.growth else ()
    assumptions = (assumptions_table(results),) if outlook.assumptions else ()
    replays = replay_tables(results)
    losses = (spot_table(results),) if results.spot_replays else ()
    outside_plan = (
        *(() if results.services is None else (services_table(results.services),)),
        *(() if results.lending is None else (lending_table(results.lending),)),
    )
    gap = gap_text(results) if results.fidelity.may_speak else ""
    sentences = (
        *((gap,) if gap else ()),
        *(() if kept is None or not results.fidelity.may_speak else (kept_headline(kept),)),
        *(() if results.lending is None else (lending_headline(results.lending),)),
    )
    program = program_table(results, study.rounding_share)
    older = () if kept is None else (kept_table(kept),)
    differs = () if kept is None or not differing(kept) else (kept_table(kept, has_all=False),)
    answer = (markets_table(results), *outside_plan, *levers, *replays, *cheaper, *growth)
    return StudyView(
        headline=" ".join([headline(results, study.request, study.source_format), *sentences]),
        tables=(
            *(*older, *answer, *losses, *assumptions, classes_table(results)),
            *(program, cost_steps_table(results), *fidelity_table(results.fidelity)),
        ),
        answer=(*differs, *answer),
        notes=study.notes,
        warnings=tuple(_warnings(study)),
        figure=picture("plan:draw_plan", outlook.prices),
        frame=frame,
        texts={
            ".toml": lambda _: study.toml(),
            **{name: partial(exported, name) for name in study.request.folder_files},
        },
    )


def _warnings(study: PlanAnswer) -> list[str]:
    """Return what to give so that there is something to decide."""
    request, results = study.request, study.results
    if not results.fidelity.may_speak:
        return ["a replay of today contradicts the log, so this plan is not to be put into effect"]
    if request.budget is not None and request.speedup is None:
        return ["without --speedup no budget makes a job faster, so this is the cheapest plan"]
    if request.budget is None and not results.levers:
        if any(use.name == "committed" for use in results.markets):
            return [
                "no price on demand: commitments must cover the peak; add --on-demand USD to rent "
                "what is rarely used"
            ]
        return [
            "nothing to decide: every job runs as recorded on demand; add --commit USD, and what "
            "else there is of --spot, --serverless, --speedup and --defer"
        ]
    return []


MOST_SHOWN = 12
"""Items without ``--full``."""


def differing(kept: KeptPlan) -> tuple[PlanItem, ...]:
    """Return the items that the older plan and the one made anew have otherwise."""
    return tuple(item for item in kept.items if item.moved or item.old != item.new)


def kept_table(kept: KeptPlan, *, has_all: bool = True) -> Table:
    """Return the items of both plans; without ``has_all`` those that differ."""

    def about(item: PlanItem) -> str:
        if item.item == "committed":
            return ", ".join(filter(None, ("GPUs committed", item.gpu_type)))
        return class_name(item.name, item.gpu_type, item.width_bucket)

    def what(item: PlanItem) -> str:
        return f"{'moved' if item.moved else 'kept'}{f': {item.reason}' if item.reason else ''}"

    items = kept.items if has_all else differing(kept)[:MOST_SHOWN]
    is_for_time = kept.keeping_s is not None
    return table(
        f"The older plan and this one; a change must save {show_share(kept.hysteresis)}",
        items,
        Column("item", "what", read=about),
        {"old": "old", "new": "new"},
        Column("worth_s", "worth, time per job", show_duration)
        if is_for_time
        else Column("worth_usd_per_month", "worth, $/month", show_about_usd),
        Column("moved", "decision", read=what),
    )


def kept_headline(kept: KeptPlan) -> str:
    """Return what moves, and what staying with the rest costs."""
    moved = sum(item.moved for item in kept.items)
    stays = len(kept.items) - moved
    if kept.keeping_s is not None:
        cost = f"lengthens jobs by {show_duration(kept.keeping_s)} on average"
        is_free = kept.keeping_s <= 0
    else:
        cost = f"costs {show_about_usd(kept.keeping_usd_per_month or 0.0)} a month"
        is_free = round(kept.keeping_usd_per_month or 0.0) <= 0
    if not moved:
        return "Keep the plan: no change saves enough." + (
            "" if is_free else f" Keeping it {cost}."
        )
    rest = "" if not stays else f" The rest stays, which {'costs nothing' if is_free else cost}."
    return f"Of the older plan, change {counted(moved, 'item')}.{rest}"


def services_table(services: PlannedServices) -> Table:
    """Return what the services hold and cost."""
    return table(
        f"Services on the pool: the load of {show_duration(services.horizon_s)} repeats",
        (services,),
        {"policy": "policy", "gpu_type": "GPU" if services.gpu_type else "", "gamma": "gamma"},
        Column("capacity_factor", "registered capacity", show_share),
        {"mean_gpus": "GPUs, mean", "peak_gpus": "peak", "whole_gpus": "with whole GPUs"},
        Column("worst_violation_rate", "late, worst service", show_share),
        {"usd_per_month": "$/month"},
    )


def lending_table(lending: PlanLending) -> Table:
    """Return what can be lent of the idle GPUs."""
    price = show_price(lending.usd_per_gpu_h)
    return table(
        f"Idle GPUs to lend at {price} per GPU-hour: no part of the bill",
        lending.types,
        {
            "name": "GPU" if any(each.name for each in lending.types) else "",
            "pool_gpus": "owned, committed",
            "idle_gpus": "idle, mean",
            "lent_gpus": "lent under the quota",
            "known_gpus": "if the next hour were known",
            "usd_per_month": "$/month",
        },
    )


def lending_headline(lending: PlanLending) -> str:
    """Return the revenue, beside the bill."""
    if not lending.types:
        return "No GPU is owned or committed to, so there is none to lend."
    if not lending.usd_per_month:
        return "Idle GPUs are too few, or too hard to foresee, to be lent."
    return (
        f"Lending idle GPUs could bring up to {show_about_usd(lending.usd_per_month)} a month, "
        "which is not in the bill."
    )
