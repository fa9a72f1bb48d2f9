"""What a comparison takes from the results of bills and plans, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gpuplan.analysis.base.errors import InputError
from gpuplan.planner.money.bill_results import BillUse

MOST = 1e15
"""Dollars and GPU-hours above which a number is none of a bill."""
FIRST_YEAR = 2
Amount = Annotated[float, Meta(ge=-MOST, le=MOST)]
Hours = Annotated[float, Meta(ge=1e-10, le=MOST)]  # a microsecond or more


class _Month(Struct):
    name: str
    hours: Hours
    is_partial: bool
    usd: Amount


class _Bill(Struct):
    begin: str
    end: str
    by: str
    usd: Amount
    usd_per_month: Amount
    window_s: Hours
    months: Annotated[list[_Month], Meta(min_length=1)]
    uses: list[BillUse]


class _Log(Struct):
    sha256: str
    path: str


class _Plan(Struct):
    inputs: list[_Log]


def check_shape(path: Path, what: str, study: Mapping[str, Any]) -> None:
    """Check what is taken from a study by its name alone.

    Raises:
        InputError: a bill or a plan without that; the message says where in it.
    """
    results = study["results"]
    try:
        if study["command"] == "plan":
            msgspec.convert({"inputs": study["inputs"][:1]}, _Plan)
        elif study["command"] == "bill" and results.get("uses") and "change" not in results:
            bill = msgspec.convert(results, _Bill)
            if not all(abs(amount) <= MOST for use in bill.uses for amount in (use.gpu_h, use.usd)):
                raise ValueError(f"a use of over {MOST:g} dollars or GPU-hours")
            begin, end = map(datetime.fromisoformat, (bill.begin, bill.end))
            if begin.utcoffset() != end.utcoffset() or begin >= end or end.year < FIRST_YEAR:
                raise ValueError("an end that is no later than its begin")
    except ValueError as error:
        raise InputError(
            path, f"{what} is not as gpuplan {study['command']} writes it: {error}",
            expected="its JSON output, unchanged",
        ) from error  # fmt: skip
