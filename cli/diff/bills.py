"""Two bills, compared as a bill compares two months: price, calendar, volume, mix and idle.

Compared are the periods that were asked for (`--months`, `--from`, `--to`). Without one, a bill
runs to the end of its last job. Two of them that begin on one day are of one time, or compared by
the month where one log is longer; of logs of a month each, whose last jobs end later, the whole
months are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from math import isclose
from typing import Any

import msgspec

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.money.bill import BillCell, month_cells
from gpuplan.planner.money.bill_results import BillUse, ChangeResults
from gpuplan.planner.money.change import ComparedBill, change_results, used_cells
from gpuplan.planner.requests.declaration import COST

ADDED_UP = ("groups", "groups.parts", "gpu_types", "gpu_types.markets")
"""Lists of a bill that add up to it: a row that is not there is $0."""
AMOUNTS = ("usd", "usd_per_month", "idle_usd", "idle_usd_per_month", "share", "jobs", "mean_gpus")
HOURS = ("gpu_h", "idle_gpu_h")
BILL = "bill"
OTHER_WINDOW = 0.02
"""Share by which two logs must differ in length for their totals not to be comparable."""
OF_PERIOD = {
    "usd_per_month": ("", ""),
    "idle_usd_per_month": ("", ""),
    "usd": (COST, "bill of the period"),
    "idle_usd": (COST, "idle part of the bill"),
}
"""What matters of the bills of two periods, where it differs from the bill of a month."""
Study = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BillDiff:
    """What changed between two bills.

    Attributes:
        by: what both are split by.
        change: price, calendar, volume, mix and idle.
        is_per_month: whether its dollars are those of a month, as the logs differ in length.
        notes: what a reader should know of the periods.
    """

    by: str
    change: ChangeResults
    is_per_month: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ComparedPart:
    """The part of a bill that is compared."""

    name: str
    hours: float
    usd: float
    cells: Sequence[BillCell]


def is_added_up(study: Study, list_path: str) -> bool:
    """Return whether rows of a list are parts of a bill, of which one that is missing is $0."""
    return study["command"] == BILL and list_path in ADDED_UP


def is_amount(path: str) -> bool:
    """Return whether a field of such a row is 0 where the row is missing."""
    return path.rpartition(".")[2] in (*AMOUNTS, *HOURS)


def are_alike(old: Study, new: Study) -> bool:
    """Return whether two bills are split by the same."""
    return bool(old["results"].get("by") == new["results"].get("by"))


def bill_diff(old: Study, new: Study) -> BillDiff | None:
    """Return what changed between two bills; None where one lacks what it takes.

    Each must have its uses, not be a comparison of two months itself, and be split by the same.
    """
    if old["command"] != BILL or new["command"] != BILL or not are_alike(old, new):
        return None
    results = old["results"], new["results"]
    if not all(side.get("uses") and "change" not in side for side in results):
        return None
    notes: list[str] = []
    months = [_whole_months(side) for side in results]
    is_of_one_time = is_per_month = False
    if all(_is_chosen(study) for study in (old, new)):
        sides = [_full_bill(side) for side in results]
    elif results[0]["begin"] == results[1]["begin"]:
        is_of_one_time, is_per_month = True, _differ_in_length(*results)
        sides = [(_month_bill if is_per_month else _full_bill)(side) for side in results]
        if is_per_month:
            old_usd, new_usd = (f"${side['usd']:,.2f}" for side in results)
            old_s, new_s = (show_duration(side["window_s"]) for side in results)
            notes.append(
                f"the old log covers {old_s} and costs {old_usd}, the new one {new_s} and "
                f"{new_usd}: the bills are compared by the month"
            )
    elif len(months[0]) == len(months[1]) > 0:
        sides = [_of_months(side, names) for side, names in zip(results, months, strict=True)]
        notes.append(
            f"the bills are compared by their whole months, {sides[0].name} and {sides[1].name}; "
            "what jobs hold outside of them is left out"
        )
    else:
        sides = [_full_bill(side) for side in results]
        notes.append(
            f"no period was asked for, so the bills run to the end of their last jobs "
            f"({sides[0].name}; {sides[1].name}); bill months with --months, or days with --from "
            "and --to"
        )
    if sides[0].name == sides[1].name or is_of_one_time:
        names = ("the old bill", "the new bill")
        sides = [replace(side, name=name) for side, name in zip(sides, names, strict=True)]
    hours = [Fraction(1)] * 2 if is_of_one_time else [Fraction(side.hours) for side in sides]
    before, after = (
        ComparedBill(side.name, side.usd, length, side.cells)
        for side, length in zip(sides, hours, strict=True)
    )
    by = str(old["results"]["by"]).partition(",")[0]
    return BillDiff(by, change_results(before, after), is_per_month, tuple(notes))


def _is_chosen(study: Study) -> bool:
    parameters = study["parameters"]
    return bool(parameters.get("months") or parameters.get("period"))


def _differ_in_length(old: Study, new: Study) -> bool:
    """Return whether the dollars of two logs do not compare, as one of them is longer."""
    lengths = old["window_s"], new["window_s"]
    return not isclose(*lengths, rel_tol=OTHER_WINDOW)


def _uses(results: Study) -> tuple[BillUse, ...]:
    return tuple(msgspec.convert(results["uses"], list[BillUse]))


def _full_bill(results: Study) -> _ComparedPart:
    """Return a whole bill."""
    months: Sequence[Any] = results["months"]
    begin, end = (datetime.fromisoformat(results[key]) for key in ("begin", "end"))
    name = str(months[0]["name"])
    if len(months) > 1 or months[0]["is_partial"]:
        last, form = end - timedelta(microseconds=1), "%Y-%m-%d"
        if any((edge.hour, edge.minute, edge.second) != (0, 0, 0) for edge in (begin, end)):
            last, form = end, "%Y-%m-%d %H:%M"
        name = f"{begin:{form}} to {last:{form}}"
    hours = sum(month["hours"] for month in months)
    return _ComparedPart(name, hours, results["usd"], used_cells(_uses(results)))


def _month_bill(results: Study) -> _ComparedPart:
    """Return the bill of a month of a log, as its ``usd_per_month`` is."""
    part = _full_bill(results)
    use, pool_months = (
        Fraction(MONTH_H) / Fraction(hours) for hours in (results["window_s"] / HOUR_S, part.hours)
    )
    cells = tuple(month_cells(part.cells, use, pool_months))
    return replace(part, usd=results["usd_per_month"], cells=cells)


def _whole_months(results: Study) -> list[str]:
    """Return the whole months of a bill whose uses are by month."""
    is_by_month = all(use["month"] is not None for use in results["uses"])
    names = [month["name"] for month in results["months"] if not month["is_partial"]]
    return names if is_by_month else []


def _of_months(results: Study, names: Sequence[str]) -> _ComparedPart:
    months = [month for month in results["months"] if month["name"] in names]
    return _ComparedPart(
        name=listed(names, len(names)),
        hours=sum(month["hours"] for month in months),
        usd=round(sum(month["usd"] for month in months), 2),
        cells=used_cells(use for use in _uses(results) if use.month in names),
    )
