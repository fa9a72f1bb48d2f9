"""What changed in a bill between two periods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import (
    show_usd,
)
from gpuplan.cli.tables.bill_tables import MOST_NAMED, TOTAL
from gpuplan.planner.money.bill import NO_LABEL

if TYPE_CHECKING:
    from gpuplan.planner.money.bill_results import ChangeResults


PARTS = {
    "price": "price", "calendar": "days billed", "volume": "GPU-hours a day", "mix": "mix",
}  # fmt: skip
"""Parts of a change of what GPUs in use cost, and what people call them."""
IDLE = "idle GPUs"


def change_table(change: ChangeResults, by: str, *, is_per_month: bool = False) -> Table:
    """Return what changed between two months, by label, the greatest change first."""
    rows = [
        fields_of(row) | {"what": "new" if row.new else "gone" if row.gone else ""}
        for row in change.groups
    ]
    between = {"name": f"between {by}s", "volume_usd": change.between_groups_usd}
    between["mix_usd"] = -change.between_groups_usd
    use = fields_of(change) | {"name": "all use", "usd": change.use_usd}
    idle = {"name": f"{IDLE}{_idle_per_day(change)}", "usd": change.idle_usd}
    total = {"name": TOTAL, "usd": change.usd}
    money = [
        Column(f"{key}_usd" if key else "usd", words, show_change_usd)
        for key, words in {"": "change", **PARTS}.items()
    ]
    return table(
        f"What changed from {change.before} to {change.after}"
        + (", in dollars a month" if is_per_month else ""),
        [*rows, between, use, idle, total],
        {"name": by, "what": "new or gone" if any(row["what"] for row in rows) else ""},
        *money,
    )


def show_change_usd(usd: float | None) -> str:
    """Return a change of dollars with its sign."""
    if usd is None:
        return "-"
    return f"{'-' if usd < 0 else '+'}${abs(usd):,.2f}" if _is_shown(usd) else "$0.00"


def _is_shown(usd: float) -> bool:
    """Return whether a change is at least half a cent."""
    return abs(usd) >= 0.005


def _idle_per_day(change: ChangeResults) -> str:
    """Return the change of idle dollars a day, in brackets, where the periods differ in length."""
    share = change.idle_per_day_change_share
    return f" ({share:+.1%} a day)" if change.calendar_usd and share is not None else ""


def change_headline(
    change: ChangeResults,
    by: str,
    billed_days: Mapping[str, str] | None = None,
    *,
    is_per_month: bool = False,
) -> str:
    """Return by how much the bill changed, why, and whose it is.

    Args:
        change: between two periods.
        by: what the bill is split by.
        billed_days: month -> how much of it is billed, in words; empty for a whole one.
        is_per_month: whether its dollars are of a month, not of two periods.
    """
    days_of = billed_days or {}
    before, after = (
        f"{name} ({days})" if (days := days_of.get(name)) else name
        for name in (change.before, change.after)
    )
    growth = f" ({change.usd / change.before_usd:+.1%})" if change.before_usd else ""
    parts = {name: getattr(change, f"{part}_usd") for part, name in PARTS.items()}
    parts[IDLE] = change.idle_usd
    largest = sorted(parts, key=lambda name: -abs(parts[name]))
    why = ", ".join(
        f"{name} {show_change_usd(parts[name])}{_idle_per_day(change) if name == IDLE else ''}"
        for name in largest
        if _is_shown(parts[name])
    )
    verb, a_month = ("costs", " a month") if is_per_month else ("cost", "")
    text = f"{after} {verb} ${change.after_usd:,.2f}{a_month}, "
    if _is_shown(change.usd):
        more = "more" if change.usd > 0 else "less"
        text += f"${abs(change.usd):,.2f} {more} than {before}{growth}"
    else:
        text += f"as much as {before}"
    text += f": {why}." if why else "."
    top = change.groups[0] if change.groups else None
    if top is not None and len(change.groups) > 1 and _is_shown(top.usd):
        text += f" {by.capitalize()} {top.name} changed most ({show_change_usd(top.usd)})."
    for word, usd, names in (
        ("New", change.new_usd, [row.name for row in change.groups if row.new]),
        ("Gone", change.gone_usd, [row.name for row in change.groups if row.gone]),
    ):
        if names:
            named = [f"jobs without a {by}" if name == NO_LABEL else name for name in names]
            text += f" {word}: {listed(named, MOST_NAMED)} ({show_usd(usd)})."
    return text
