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


def change_table(change: ChangeResults, by: str) -> Table:
    """Return what changed between two months, by label, the greatest change first."""
    rows = [
        fields_of(row) | {"what": "new" if row.new else "gone" if row.gone else ""}
        for row in change.groups
    ]
    between = {"name": f"between {by}s", "volume_usd": change.between_groups_usd}
    between["mix_usd"] = -change.between_groups_usd
    use = fields_of(change) | {"name": "all use", "usd": change.use_usd}
    idle = {"name": "idle", "usd": change.idle_usd}
    total = {"name": TOTAL, "usd": change.usd}
    money = [
        Column(f"{key}_usd" if key else "usd", words, show_change_usd)
        for key, words in (
            ("", "change"),
            ("price", "price"),
            ("calendar", "calendar"),
            ("volume", "volume"),
            ("mix", "mix"),
        )
    ]
    return table(
        f"What changed from {change.before} to {change.after}",
        [*rows, between, use, idle, total],
        {"name": by, "what": "new or gone" if any(row["what"] for row in rows) else ""},
        *money,
    )


def show_change_usd(usd: float | None) -> str:
    """Return a change of dollars with its sign."""
    if usd is None:
        return "-"
    return f"{'-' if usd < -0.005 else '+'}${abs(usd):,.2f}" if abs(usd) >= 0.005 else "$0.00"


def change_headline(
    change: ChangeResults, by: str, billed_days: Mapping[str, str] | None = None
) -> str:
    """Return by how much the bill changed, why, and whose it is.

    Args:
        change: between two periods.
        by: what the bill is split by.
        billed_days: month -> how much of it is billed, in words; empty for a whole one.
    """
    days_of = billed_days or {}
    before, after = (
        f"{name} ({days})" if (days := days_of.get(name)) else name
        for name in (change.before, change.after)
    )
    growth = f" ({change.usd / change.before_usd:+.1%})" if change.before_usd else ""
    is_of_months = len(change.before) == len(change.after) == len("2026-03")
    length = "days in the month" if is_of_months else "length of the period"
    length = "days billed" if any(days_of.values()) else length
    word = "more" if change.usd >= 0 else "less"
    parts = {
        "prices": change.price_usd,
        length: change.calendar_usd,
        "GPU-hours": change.volume_usd,
        "mix": change.mix_usd,
        "idle GPUs": change.idle_usd,
    }
    largest = sorted(parts, key=lambda name: -abs(parts[name]))
    why = ", ".join(
        f"{name} {show_change_usd(parts[name])}" for name in largest if abs(parts[name]) >= 0.005
    )
    text = (
        f"{after} cost ${change.after_usd:,.2f}, ${abs(change.usd):,.2f} {word} than "
        f"{before}{growth}: {why}."
    )
    top = change.groups[0] if change.groups else None
    if top is not None and len(change.groups) > 1:
        text += f" {by.capitalize()} {top.name} changed most ({show_change_usd(top.usd)})."
    for word, usd, names in (
        ("New", change.new_usd, [row.name for row in change.groups if row.new]),
        ("Gone", change.gone_usd, [row.name for row in change.groups if row.gone]),
    ):
        if names:
            named = [f"jobs without a {by}" if name == NO_LABEL else name for name in names]
            text += f" {word}: {listed(named, MOST_NAMED)} ({show_usd(usd)})."
    return text
