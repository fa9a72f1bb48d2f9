"""What a document says of today: GPUs, wait, run time and the best bill that its studies have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any

from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.formats.units import show_duration, show_number, show_usd

Results = Mapping[str, Any]
OF_JOBS = ("mean_gpus", "peak_gpus", "mean_wait_s", "p95_wait_s", "mean_run_s", "mean_jct_s")
OF_BILL = ("usd_per_month", "usd_per_gpu_h", "price_is_assumed", "gpu_types")
"""Figures of today that one study has of the jobs, and maybe another of their bill."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure of the row that opens a document.

    Attributes:
        name: what it is.
        value: the figure with its unit.
        detail: what stands beside it; empty where nothing does.
    """

    name: str
    value: str
    detail: str = ""


def today_of(document: Document) -> Results:
    """Return today's figures with the best bill of the document; empty where no study has any.

    A bill at given prices comes before one at an assumed price, and a study of the bill before
    others. Where another study has the same bill, its rates are shown too.
    """
    every = [study.results.get("today") for study in document.studies]
    shown = [
        _with_bill(today) for today in every if isinstance(today, dict) and "mean_gpus" in today
    ]
    shown.sort(key=lambda today: "mean_run_s" not in today)
    bills = [study.results for study in _bills(document) if not _part_of_bill(study)]
    figures = next(iter([*(today for today in shown if "mean_run_s" in today), *bills, *shown]), {})
    billed = [today for today in shown if today.get("usd_per_month") is not None]
    at_given_prices = [today for today in billed if not today.get("price_is_assumed")]
    same = [today for today in at_given_prices if bills and _is_one_bill(today, bills[0])]
    assumed = [] if _bills(document) else billed
    bill = next(iter([*same, *bills, *at_given_prices, *assumed]), {})
    chosen = ((figures, OF_JOBS), (bill, OF_BILL))
    return {key: source[key] for source, keys in chosen for key in keys if key in source}


def _with_bill(today: Results) -> Results:
    """Return today's figures with its bill; a plan's dollars leave out what it cannot change."""
    if "bill_usd_per_month" not in today:
        return today
    return {**today, "usd_per_month": today["bill_usd_per_month"]}


def _bills(document: Document) -> list[StudyResult]:
    """Return the studies of the bill that have one."""
    bills = (study for study in document.studies if study.command == "bill")
    return [study for study in bills if study.results.get("usd_per_month") is not None]


def _part_of_bill(study: StudyResult) -> str:
    """Return which months, period or cluster a bill is of; empty for that of today."""
    parameters, results = study.contract["parameters"], study.results
    if months := parameters.get("months"):
        return f"in {' and '.join(months.split(','))}"
    if parameters.get("period"):
        return f"from {results['begin'][:10]} to {results['end'][:10]}"
    return f"for {results['cluster_gpus']:,} GPUs, busy or not" if parameters.get("cluster") else ""


def _is_one_bill(first: Results, second: Results) -> bool:
    """Return whether two bills of a month differ by no more than their rounding."""
    return isclose(first["usd_per_month"], second["usd_per_month"], rel_tol=1e-4)


def comparable_today(study: StudyResult, today: Results) -> Results:
    """Return today's figures, without a bill at other prices than the dollars of a study."""
    of_study = study.results.get("today")
    if not isinstance(of_study, dict):
        return today
    is_one = bool(of_study.get("price_is_assumed")) == bool(today.get("price_is_assumed"))
    if None not in (of_study.get("usd_per_month"), today.get("usd_per_month")):
        is_one &= _is_one_bill(of_study, today)
    return today if is_one else {key: today[key] for key in OF_JOBS if key in today}


def todays_figures(document: Document, today: Results) -> list[KeyFigure]:
    """Return what `today_of` has found as key figures, the bill last."""
    figures = []
    if "mean_gpus" in today:
        peak = today.get("peak_gpus")
        detail = "on average" if peak is None else f"on average, {show_number(peak)} at peak"
        figures.append(KeyFigure("GPUs today", show_number(today["mean_gpus"]), detail))
    if "mean_wait_s" not in today:  # a bill
        pass
    elif today["mean_wait_s"] is None:
        figures.append(KeyFigure("Wait", "unknown", "the log has no waits"))
    else:
        p95 = today.get("p95_wait_s")
        more = "" if p95 is None else f"mean; P95 {show_duration(p95)}"
        figures.append(KeyFigure("Wait", show_duration(today["mean_wait_s"]), more))
    if today.get("mean_run_s") is not None:
        figures.append(KeyFigure("Run time", show_duration(today["mean_run_s"]), "mean"))
    return [*figures, *_bill(document, today)]


def _bill(document: Document, today: Results) -> list[KeyFigure]:
    """Return today's bill, or else that of a part of the log, where there is one."""
    month = today.get("usd_per_month")
    if month is None:
        return [_bill_of_part(study) for study in _bills(document)[:1]]
    price, is_assumed = today.get("usd_per_gpu_h"), today.get("price_is_assumed")
    rates = {row.get("usd_per_gpu_h") for row in today.get("gpu_types") or ()}
    each = "" if price is None else f"at {show_usd(price)} per GPU-hour"
    if price is not None and len(rates) > 1:
        each = f"{show_usd(price)} per GPU-hour on average"
    if price is not None and is_assumed:
        each = f"at an assumed {show_usd(price)} per GPU-hour: give --price or --contracts"
    text = f"{dollars(month)} a month"
    return [KeyFigure("Bill", f"assumed {text}" if is_assumed else text, each)]


def _bill_of_part(study: StudyResult) -> KeyFigure:
    """Return the dollars of a period, or of a month of a cluster that is paid for."""
    results = study.results
    month = f"{dollars(results['usd_per_month'])} a month"
    is_today = study.contract["parameters"].get("cluster")
    return KeyFigure("Bill", month if is_today else dollars(results["usd"]), _part_of_bill(study))


def dollars(value: float) -> str:
    """Return dollars, three digits of them from 1,000 on: cents would hide the answer."""
    if value < 100:
        return show_usd(value)
    return f"${float(f'{value:.3g}') if value >= 1000 else value:,.0f}"
