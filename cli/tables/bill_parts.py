"""The table of a bill by two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.tables.bill_tables import SMALL, TOTAL, show_month_usd

if TYPE_CHECKING:
    from gpuplan.planner.money.bill_results import BillResults


def parts_table(results: BillResults, period: str = "", *, is_full: bool = False) -> Table:
    """Return a bill by two columns, row by row; those under 1% are one row.

    Args:
        results: the bill.
        period: that it is of, in words; empty for the log.
        is_full: show all rows.
    """
    name, _, part = results.by.partition(",")
    rows: list[dict[str, Any]] = [
        {"name": group.name, "part": of.name, "usd": of.usd, "gpu_h": of.gpu_h}
        for group in results.groups
        for of in group.parts or ()
    ]
    rows += [
        {"name": group.name, "part": None, "usd": group.usd, "gpu_h": group.gpu_h}
        for group in results.groups
        if not group.parts
    ]
    small = [row for row in rows if not is_full and row["usd"] < SMALL * results.usd]
    small = small if len(small) > 1 else []
    rows = [row for row in rows if row not in small]
    if small:
        sums = {key: sum(row[key] for row in small) for key in ("usd", "gpu_h")}
        rows.insert(
            len(rows) - (rows[-1]["part"] is None), {"name": f"{len(small)} under 1%"} | sums
        )
    rows.append({"name": TOTAL, "usd": results.usd, "gpu_h": sum(g.gpu_h for g in results.groups)})
    rows = [row | {"share": row["usd"] / results.usd if results.usd else None} for row in rows]
    return table(
        f"Bill by {name} and {part} {period or 'in the whole log'}",
        rows,
        {"name": name, "part": part},
        Column("usd", "$", show_month_usd),
        {"share": "of the bill", "gpu_h": "GPU-hours"},
    )
