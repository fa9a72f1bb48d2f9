"""What stays of an older plan, and what moves: table and sentence of ``gpuplan plan --keep``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_duration, show_share
from gpuplan.planner.plan.classes import class_name

if TYPE_CHECKING:
    from gpuplan.planner.plan.kept import KeptPlan, PlanItem

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
