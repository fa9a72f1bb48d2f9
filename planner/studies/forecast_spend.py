"""Forecast what the next months cost, by label: the bill of recorded use at the book's prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US, micros_of, time_of
from gpuplan.analysis.base.words import counted, price_text
from gpuplan.analysis.forecast.demand import is_series
from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.prices.contracts import Contracts
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.planner.money.bill import NO_LABEL, bill_cells
from gpuplan.planner.money.bill_results import BillMonth
from gpuplan.planner.money.bill_table import BilledPeriod, month_rows
from gpuplan.planner.money.book_types import pool_notes
from gpuplan.planner.money.held_runs import (
    MONTH_US,
    BilledRuns,
    Months,
    billed_runs,
    months_of,
    months_without_dates,
    paid_period,
)
from gpuplan.planner.money.ledger import Ledger, ledger
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.money.spend.interval import LEVEL
from gpuplan.planner.money.spend.models import (
    MODELS,
    MOST_AHEAD,
    chosen_model,
    monthly_drift,
    past_forecasts,
)
from gpuplan.planner.money.spend.recorded_use import (
    RecordedUse,
    gpu_h_of_periods,
    named_types,
    usd_by_label,
)
from gpuplan.planner.money.spend.results import SpendResults
from gpuplan.planner.money.spend.so_far import over_already
from gpuplan.planner.money.spend.table import SoFar, forecast_rows, model_rows, past_rows
from gpuplan.planner.money.spend_request import AUTO, DRIFT
from gpuplan.planner.requests.forecast import ALL, ForecastRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.bill import bill_trace, book_of, zone_note

if TYPE_CHECKING:
    from gpuplan.analysis.trace.trace import Trace

LEAST_TESTED = 4
"""Whole months from which on forecasts are tested."""
MOST_CHANGES = 3
"""Changes of the price book ahead that are named."""
LONGEST_MONTH_US = 32 * 24 * HOUR_US


@dataclass(frozen=True, slots=True)
class Calendar:
    """The months of a log and those ahead.

    Attributes:
        recorded: the months of the log, parts at the ends included.
        first: place of the first whole one.
        whole_months: how many are whole.
        months: the whole ones, then those ahead.
        zone: in which months begin; None for a log without dates.
    """

    recorded: Months
    first: int
    whole_months: int
    months: Months
    zone: tzinfo | None


def forecast_spend(request: ForecastRequest) -> Answer[ForecastRequest, SpendResults]:
    """Return what the next months cost.

    Raises:
        InputError: the trace or the price book cannot be used, or no month of the log is whole.
        UsageError: a GPU type without a price, or a model that needs more months.
    """
    spending = request.spending
    if is_series(request.trace):
        raise UsageError(
            f"--spend: {request.trace} is a table of demand, which has no runs to bill\n"
            "  next: give the log or the trace"
        )
    by = () if request.by == ALL else (request.by,)
    trace = bill_trace(request.trace, request.jobs, by, spending.prices.gpu)
    if not by:
        trace = replace(trace, jobs=trace.jobs.with_columns(pl.lit(ALL).alias(ALL)))
    runs = billed_runs(trace, (request.by,))
    zone_name = request.jobs.log.time_zone
    prices = Prices.read(spending.prices, zone_name)
    book, _ = book_of(prices, runs)
    calendar = _calendar(request, trace, runs, prices.zone)
    entries = ledger(runs.runs, book, calendar.recorded.edges_us)
    actual = usd_by_label(entries, [name for name, _ in runs.labels])
    use = _recorded_use(runs, book, calendar, entries)
    _check_model(request, use)
    end = calendar.first + use.recorded_months
    tested = (
        past_forecasts(use, actual[calendar.first : end])
        if use.recorded_months >= LEAST_TESTED
        else {}
    )
    chosen = chosen_model(request.model, tested)
    last = use.recorded_months - 1
    able = [name for name, model in MODELS.items() if model.can(use, last)]
    ahead = range(use.recorded_months, use.recorded_months + spending.months_ahead)
    spends = {name: [MODELS[name].forecast(use, last, month) for month in ahead] for name in able}
    edges = calendar.recorded.edges_us
    so_far: SoFar = {
        calendar.recorded.names[place]: (
            sum(actual[place].values(), Fraction(0)),
            float(edges[place + 1] - edges[place]) / HOUR_US,
        )
        for place in range(end, len(actual))
    }
    rows, totals = forecast_rows(
        use, spends[chosen], tested.get(chosen, ()), so_far, request.jobs.seed
    )
    results = SpendResults(
        by=request.by,
        model=chosen,
        whole_months=use.recorded_months,
        level=LEVEL,
        usd=sum(round(total.usd * 100) for total in totals) / 100,
        months=tuple(rows),
        totals=tuple(totals),
        backtest=tuple(row for past in tested.values() for row in past_rows(use, past)),
        models=tuple(model_rows(use, spends, tested, chosen)),
        models_left_out=tuple(name for name in MODELS if name not in able),
        drift_per_month=float(np.expm1(monthly_drift(use, last))) if DRIFT in able else None,
        history=tuple(_history(request.by, runs, calendar, entries, book)),
    )
    notes = (
        *prices.unmatched_note(entries.gpu_types),
        *price_time_notes(trace, prices, runs.used_types),
        *pool_notes(spending.prices, prices.book, runs.runs.gpu_types, request.jobs),
    )
    return Answer(
        request=request,
        results=results,
        inputs=(trace_input(trace), *prices.inputs),
        warnings=(
            *_warnings(request, trace, runs, use, notes),
            *over_already(results, actual[end] if end < len(actual) else {}),
        ),
        caveats=(
            *_caveats(results),
            *zone_note(request.trace, trace, request.jobs.log.time_zone),
        ),
    )


def _recorded_use(
    runs: BilledRuns, book: Contracts, calendar: Calendar, entries: Ledger
) -> RecordedUse:
    """Return the use of the whole months."""
    means = match_types(book.gpu_types, runs.runs.gpu_types, book.option)
    end = calendar.first + calendar.whole_months
    return RecordedUse(
        runs=named_types(runs.runs, means),
        names=tuple(name for name, _ in runs.labels),
        book=book,
        gpu_types=entries.gpu_types,
        months=calendar.months,
        recorded_months=calendar.whole_months,
        gpu_h=np.array(gpu_h_of_periods(entries)[calendar.first : end]),
        zone=calendar.zone,
    )


def _calendar(request: ForecastRequest, trace: Trace, runs: BilledRuns, zone: tzinfo) -> Calendar:
    """Return the months of a log and those ahead. Raises `InputError` where none is whole."""
    is_dated = not trace.provenance.relative_time
    begin, end = paid_period(trace, runs, zone)
    until = request.jobs.until
    if until is not None and request.jobs.scale_interarrival == 1:  # no later job is known
        end = min(end, max(micros_of(until), begin + 1))
    recorded = months_of((begin, end), zone) if is_dated else months_without_dates((begin, end))
    whole_months = [place for place, is_part in enumerate(recorded.is_partial) if not is_part]
    if not whole_months:
        length = "calendar month" if is_dated else "730.5 hours"
        raise InputError(
            request.trace,
            f"no whole {length} in the log, which --spend needs",
            hint="give a longer log; gpuplan bill has the dollars of a month at the rates so far",
        )
    count = len(whole_months) + request.spending.months_ahead
    begin = int(recorded.edges_us[whole_months[0]])
    if is_dated:
        names = months_of((begin, begin + count * LONGEST_MONTH_US), zone)
        months = Months(names.edges_us[: count + 1], names.names[:count], names.whole_us[:count])
    else:
        names = months_without_dates((begin, begin + count * MONTH_US))
        months = replace(
            names, names=tuple(f"month {whole_months[0] + place + 1}" for place in range(count))
        )
    return Calendar(
        recorded, whole_months[0], len(whole_months), months, zone if is_dated else None
    )


def _check_model(request: ForecastRequest, use: RecordedUse) -> None:
    """Raise `UsageError` where the model asked for cannot be issued."""
    model = MODELS.get(request.model)
    if request.model != AUTO and model is not None and not model.can(use, use.recorded_months - 1):
        raise UsageError(
            f"--model {request.model}: needs {model.needs}, and the log has "
            f"{counted(use.recorded_months, 'whole month')}\n  next: --model {next(iter(MODELS))}"
        )


def _history(
    column: str, runs: BilledRuns, calendar: Calendar, entries: Ledger, book: Contracts
) -> list[BillMonth]:
    """Return the bill of each month of the log."""
    period = BilledPeriod(
        columns=(column,),
        chosen=(),
        runs=runs,
        months=calendar.recorded,
        cells=bill_cells(entries, runs.labels),
        ledger=entries,
        book=book,
        sources={},
    )
    return month_rows(period)


def _warnings(
    request: ForecastRequest,
    trace: Trace,
    runs: BilledRuns,
    use: RecordedUse,
    of_prices: Sequence[str],
) -> Iterator[str]:
    yield from (*trace.notes, *of_prices)
    if request.jobs.since is not None:
        yield (
            "--since chooses jobs by submission: jobs already running then do not count, so the "
            "months after it cost more than they show here"
        )
    if request.by != ALL and all(name == NO_LABEL for name, _ in runs.labels):
        yield f"the log names no {request.by} for any job; choose another --by"
    yield from runs.running_note
    if use.recorded_months < LEAST_TESTED:
        yield (
            f"the log has {counted(use.recorded_months, 'whole month')}, and a test needs "
            f"{LEAST_TESTED}: the forecast is use as in the last month, untested, and its interval "
            "has only how weeks differ"
        )
    changes = list(_changes_ahead(use))
    yield from changes[:MOST_CHANGES]
    if len(changes) > MOST_CHANGES:
        more = len(changes) - MOST_CHANGES
        yield f"the price book has {counted(more, 'more change')} in the months forecast"


def _changes_ahead(use: RecordedUse) -> Iterator[str]:
    """Yield how the price book changes in the months ahead, in order of time."""
    begin, end = use.span(use.recorded_months)[0], int(use.months.edges_us[-1])
    texts: list[tuple[int, str]] = []
    for pool in use.book.pools:
        what = f"{pool.gpus:,} {pool.market} {pool.gpu_type}"
        if begin <= pool.until_us < end:
            ending = f"{what} end on {_day(pool.until_us, use.zone)}: their use is on demand then"
            texts.append((pool.until_us, ending))
        if begin <= pool.from_us < end:
            texts.append((pool.from_us, f"{what} begin on {_day(pool.from_us, use.zone)}"))
    for name in use.gpu_types:
        for price in use.book.prices_of(name):
            if begin <= price.from_us < end:
                usd, day = price_text(float(price.usd_per_gpu_h)), _day(price.from_us, use.zone)
                texts.append((price.from_us, f"{name} costs ${usd} per GPU-hour from {day}"))
    return (text for _, text in sorted(texts))


def _day(at_us: int, zone: tzinfo | None) -> str:
    return f"{time_of(at_us, zone or UTC):%Y-%m-%d}"


def _caveats(results: SpendResults) -> Iterator[str]:
    if results.backtest:
        yield (
            "past forecasts are made with the price book as it is now: the dates of its prices and "
            "pools count as known then"
        )
    if len(results.totals) > MOST_AHEAD and results.backtest:
        yield f"forecasts of more than {MOST_AHEAD} months ahead are not tested"
    if results.models_left_out:
        left_out = ", ".join(f"{name} ({MODELS[name].needs})" for name in results.models_left_out)
        yield f"models that need more of the log are left out: {left_out}"
    yield "teams and GPU types that begin or end are as in the months that a model looks back on"
