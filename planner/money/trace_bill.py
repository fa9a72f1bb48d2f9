"""What the GPU time of a trace would have cost at every source of a price table.

Each hour of a job is billed at the price of that hour where one is known, else at the mean of the
source: a trace without a calendar, or of other years than the prices, is billed at means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.prices.hourly import HourlyDemand, HourlyPrices, demands
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.prices.view import MAX_NAMES_LISTED, PriceView
from gpuplan.analysis.trace.trace import Trace
from gpuplan.simkit.renting.billing import hourly_usd


@dataclass(frozen=True, slots=True)
class SourceBill:
    """The cost of the GPU time of one GPU type at one source.

    Attributes:
        wanted_gpu: the GPU of the jobs.
        provider, gpu_type, kind: the source, and the GPU as it names it.
        gpu_hours: what is billed.
        cost_usd: at the typical price of the source; None if only its range is known.
        lowest_usd: at its cheapest region and offer in each hour.
        hourly_share: share of the GPU-hours billed at the price of their hour.
        saving: 1 - cost / cost at the reference; None without one.
    """

    wanted_gpu: str
    provider: str
    gpu_type: str
    kind: str
    gpu_hours: float
    cost_usd: float | None
    lowest_usd: float
    hourly_share: float
    saving: float | None = None


@dataclass(frozen=True, slots=True)
class CheapestBill:
    """The cost of the GPU time of one GPU type at the cheapest offer of each hour.

    Attributes:
        wanted_gpu: the GPU of the jobs.
        gpu_hours: what is billed.
        cost_usd: the sum.
        hourly_share: share of the GPU-hours billed at a price of their hour.
    """

    wanted_gpu: str
    gpu_hours: float
    cost_usd: float
    hourly_share: float


@dataclass(frozen=True, slots=True)
class TraceCost:
    """What a trace would have cost, by GPU type.

    Attributes:
        bills: one per GPU type of the jobs and source that has it, the cheapest first.
        cheapest_each_hour: one per GPU type that somebody has: always at the cheapest source.
        unpriced_gpu_hours: GPU-hours of a GPU that has no offer, or that is not known.
        notes: what a reader should know.
    """

    bills: tuple[SourceBill, ...]
    cheapest_each_hour: tuple[CheapestBill, ...]
    unpriced_gpu_hours: float
    notes: Hidden[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TracePrices:
    """What sources ask for GPUs, and what a trace would have cost at them."""

    view: Inlined[PriceView]
    cost: Inlined[TraceCost]


def trace_cost(trace: Trace, market: PriceView, *, gpu: str | None = None) -> TraceCost:
    """Return what a trace would have cost at every source.

    Args:
        trace: read with at least the columns of `gpuplan.analysis.characterize.today`.
        market: the prices.
        gpu: the GPU of jobs that name none; None takes the only one of the prices, if it is.

    Raises:
        UsageError: no source has the GPU chosen.
    """
    offered = tuple(dict.fromkeys(offer.gpu_type for offer in market.offers))
    wanted = _chosen(gpu, offered)
    all_bills: list[SourceBill] = []
    cheapest: list[CheapestBill] = []
    notes: list[str] = []
    unpriced = 0.0
    for demand in demands(trace, wanted):
        gpu_bills = () if demand.gpu_type is None else bills(demand, market.offers, market.hourly)
        if not gpu_bills:
            unpriced += demand.gpu_hours
            notes.append(_unpriced(demand, offered))
            continue
        least = cheapest_bill(demand, market.offers, market.hourly)
        assert least is not None
        all_bills += _with_savings(gpu_bills, market)
        cheapest.append(least)
        notes += _bill_notes(trace, market, gpu_bills, least)
    return TraceCost(tuple(all_bills), tuple(cheapest), unpriced, tuple(dict.fromkeys(notes)))


def bills(
    demand: HourlyDemand, offers: Sequence[Offer], hourly: Sequence[HourlyPrices]
) -> tuple[SourceBill, ...]:
    """Return the bills of all offers that have the GPU, the cheapest first; no savings yet.

    ``hourly`` has their prices by the hour; none of a list without history.
    """
    if demand.gpu_type is None:
        raise ValueError("a bill needs a GPU")
    by_hour = {series.source: series for series in hourly}
    gpu_bills: list[SourceBill] = []
    for offer in offers:
        if not same_gpu(demand.gpu_type, offer.gpu_type):
            continue
        series = by_hour.get(offer.source)
        if series is None:
            mean = offer.mean_usd_per_gpu_h
            typical = None if mean is None else mean * demand.gpu_hours
            lowest, share = offer.least_usd_per_gpu_h * demand.gpu_hours, 0.0
        else:
            typical, share = _billed(demand, series, series.typical, series.mean)
            lowest, _ = _billed(demand, series, series.lowest, series.mean_lowest)
        gpu_bills.append(
            SourceBill(demand.gpu_type, *offer.source, demand.gpu_hours, typical, lowest, share)
        )
    return tuple(
        sorted(gpu_bills, key=lambda bill: (_compared_usd(bill), bill.provider, bill.kind))
    )


def _compared_usd(bill: SourceBill) -> float:
    return bill.lowest_usd if bill.cost_usd is None else bill.cost_usd


def _billed(
    demand: HourlyDemand, series: HourlyPrices, price: FloatArray, mean: float
) -> tuple[float, float]:
    """Return the cost by the hour, at the mean elsewhere, and the share billed by the hour."""
    held = demand.in_hours(series.first_hour, price.size)
    is_known = series.cover > 0
    cost, by_hour = hourly_usd(held[is_known], price[is_known], demand.gpu_hours, mean)
    return cost, _share(by_hour, demand)


def _share(by_hour: float, demand: HourlyDemand) -> float:
    """Return a share of the GPU-hours, without what rounding leaves of whole and none."""
    return round(min(1.0, by_hour / demand.gpu_hours), 6) if demand.gpu_hours else 0.0


def cheapest_bill(
    demand: HourlyDemand, offers: Sequence[Offer], hourly: Sequence[HourlyPrices]
) -> CheapestBill | None:
    """Return the bill at the cheapest offer of each hour; None if no source has the GPU.

    Only offers with a known price in that hour compete. In hours without any known price, the least
    mean of all sources is used.
    """
    if demand.gpu_type is None:
        raise ValueError("a bill needs a GPU")
    series = [source for source in hourly if same_gpu(demand.gpu_type, source.gpu_type)]
    if not series:
        least_usd = [
            offer.least_usd_per_gpu_h
            for offer in offers
            if same_gpu(demand.gpu_type, offer.gpu_type)
        ]
        if not least_usd:
            return None
        return CheapestBill(
            demand.gpu_type, demand.gpu_hours, min(least_usd) * demand.gpu_hours, 0.0
        )
    first, price = cheapest_by_hour(series)
    is_known = ~np.isnan(price)
    held = demand.in_hours(first, price.size)[is_known]
    usual = min(source.mean_lowest for source in series)
    cost, by_hour = hourly_usd(held, price[is_known], demand.gpu_hours, usual)
    return CheapestBill(demand.gpu_type, demand.gpu_hours, cost, _share(by_hour, demand))


def cheapest_by_hour(series: Sequence[HourlyPrices]) -> tuple[int, FloatArray]:
    """Return the first hour, and the lowest price known in each hour from it on; NaN where none."""
    first = min(source.first_hour for source in series)
    last = max(source.first_hour + source.lowest.size for source in series)
    least = np.full(last - first, np.nan)
    for source in series:
        here = slice(source.first_hour - first, source.first_hour - first + source.lowest.size)
        least[here] = np.fmin(least[here], source.lowest)
    return first, least


def _with_savings(gpu_bills: Sequence[SourceBill], market: PriceView) -> Iterator[SourceBill]:
    by_source = {
        (bill.gpu_type, f"{bill.provider}:{bill.kind}"): bill.cost_usd for bill in gpu_bills
    }
    without_saving = {offer.source for offer in market.offers if offer.saving is None}
    for bill in gpu_bills:
        full = by_source.get((bill.gpu_type, market.references.get(bill.gpu_type, "")))
        if (
            full
            and bill.cost_usd is not None
            and (bill.provider, bill.gpu_type, bill.kind) not in without_saving
        ):
            yield replace(bill, saving=1 - bill.cost_usd / full)
        else:
            yield bill


def _chosen(gpu: str | None, offered: Sequence[str]) -> str | None:
    if gpu is None:
        return offered[0] if len(offered) == 1 else None
    name = gpu_name(gpu)
    if not any(same_gpu(name, gpu_type) for gpu_type in offered):
        hint = "--gpu with one of them" if offered else "give a table with prices, or builtin"
        raise UsageError(
            f"--gpu {gpu}: not in the prices, which have "
            f"{', '.join(offered) or 'availability'}\n  next: {hint}"
        )
    return name


def _unpriced(demand: HourlyDemand, offered: Sequence[str]) -> str:
    some = ", ".join(offered[:MAX_NAMES_LISTED]) + (
        ", ..." if len(offered) > MAX_NAMES_LISTED else ""
    )
    if not offered:
        return (
            f"the table has availability without prices, so {demand.gpu_hours:,.0f} GPU-hours are "
            "not billed"
        )
    if demand.gpu_type is None:
        return (
            f"{demand.jobs:,} jobs do not name their GPU, so nothing says what they would have "
            f"cost; choose one of the prices' with --gpu: {some}"
        )
    return f"no prices of {demand.gpu_type} ({demand.gpu_hours:,.0f} GPU-hours), only of {some}"


def _bill_notes(
    trace: Trace, market: PriceView, gpu_bills: Sequence[SourceBill], least: CheapestBill
) -> Iterator[str]:
    if trace.provenance.relative_time:
        yield "the trace has no calendar: it is billed at the mean price of each source"
    elif not market.hourly:
        yield "the prices have no history: the trace is billed at one price throughout"
    elif least.hourly_share < 1:
        yield (
            f"{1 - least.hourly_share:.0%} of the GPU-hours of {least.wanted_gpu} lie outside of "
            "the prices' time: they are billed at the mean price of each source"
        )
    other_types = sorted({bill.gpu_type for bill in gpu_bills} - {least.wanted_gpu})
    if other_types:
        yield f"jobs on {least.wanted_gpu} are billed at the prices of {', '.join(other_types)} too"
