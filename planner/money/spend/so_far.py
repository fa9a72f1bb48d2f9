"""The month that has begun: what is billed of it beside what is forecast for the whole of it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.analysis.base.errors import shortened
from gpuplan.analysis.base.words import MOST_OF_A_NAME
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.spend.recorded_use import Usd
from gpuplan.planner.money.spend.results import SpendResults
from gpuplan.planner.requests.forecast import ALL

MOST_LABELS = 3
"""Labels that are named."""
CENT = 0.01


def over_already(results: SpendResults, billed: Usd) -> Iterator[str]:
    """Yield a warning of the labels that cost more already than is forecast for the month.

    Args:
        results: of the forecast.
        billed: by label, what the part of the first month ahead in the log has cost.
    """
    month = results.totals[0].month
    usual = {row.label: row.usd for row in results.months if row.month == month}
    over = {
        label: float(usd)
        for label, usd in billed.items()
        if label not in (IDLE, ALL) and float(usd) > usual.get(label, 0.0) + CENT
    }
    if not over:
        return
    most = sorted(over, key=lambda label: (usual.get(label, 0.0) - over[label], label))
    parts = [
        f"{shortened(label, MOST_OF_A_NAME)} ${over[label]:,.0f}, "
        f"forecast ${usual.get(label, 0.0):,.0f}"
        for label in most[:MOST_LABELS]
    ]
    more = f"; and {len(most) - MOST_LABELS} more" if len(most) > MOST_LABELS else ""
    yield (
        f"some have already cost more in {month} than is forecast for the whole month, which takes "
        f"use as in the months before: {'; '.join(parts)}{more}"
    )
