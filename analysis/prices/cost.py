"""What the GPU time of a trace would have cost.

A job holds its GPUs from submission + wait for its duration. Each hour of it is billed at the price
of that hour where one is known, else at the mean of the source: a trace without a calendar, or of
other years than the prices, is billed at means throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.jobs import job_arrays
from gpuplan.analysis.prices.hourly import HourlyPrices
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.time_units import HOUR_S
from gpuplan.analysis.trace import Trace

COLUMNS = ("submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
"""Canonical columns that a bill reads."""
US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class HourlyDemand:
    """GPU time of the jobs of one GPU type, in hours of the Unix epoch.

    Attributes:
        gpu_type: the GPU; None where it is not known.
        jobs: timed jobs that hold GPUs.
        gpu_hours: duration x GPUs, summed.
        start_h, end_h: when each job holds its GPUs; shape (n,). Empty without a calendar.
        num_gpus: GPUs held; shape (n,).
    """

    gpu_type: str | None
    jobs: int
    gpu_hours: float
    start_h: FloatArray
    end_h: FloatArray
    num_gpus: FloatArray

    def in_hours(self, first: int, count: int) -> FloatArray:
        """Return the GPU-hours in each of ``count`` hours from ``first`` on; shape (count,)."""
        begin = np.clip(self.start_h - first, 0.0, count)
        end = np.clip(self.end_h - first, 0.0, count)
        into, out = begin.astype(np.int64), end.astype(np.int64)  # floors: nothing is below 0
        gpus, within = self.num_gpus, into == out
        held = np.zeros(count + 2)
        held += np.bincount(into, gpus * (np.where(within, end, into + 1) - begin), count + 2)
        held += np.bincount(out, gpus * np.where(within, 0.0, end - out), count + 2)
        whole = np.where(within, 0.0, gpus)  # held throughout the hours between
        steps = np.bincount(into + 1, whole, count + 2) - np.bincount(out, whole, count + 2)
        result: FloatArray = (held + np.cumsum(steps).round(9))[:count]  # rounding leaves no GPU
        return result


@dataclass(frozen=True, slots=True)
class SourceBill:
    """What one source asks for the GPU time of one GPU type.

    Attributes:
        wanted_gpu: the GPU of the jobs.
        provider, gpu_type, kind: the source, and the GPU as it names it.
        gpu_hours: what is billed.
        cost_usd: at the typical price of the source; None where only its range is known.
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
    """What the GPU time of one GPU type costs at the cheapest offer of each hour.

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


def demands(trace: Trace, gpu: str | None, *, include_running: bool) -> tuple[HourlyDemand, ...]:
    """Return the GPU time of a trace by GPU type, in order of names, the unknown last.

    Args:
        trace: read with at least `COLUMNS`.
        gpu: the GPU of jobs that name none.
        include_running: count jobs still running with the time they have run so far.
    """
    jobs = job_arrays(trace.jobs, include_running=include_running)
    chosen = jobs.timed_gpu()
    codes, written = name_codes(trace.jobs["gpu_type"])
    named = [*map(gpu_name, written), gpu]  # the last code is that of jobs that name none
    found = np.zeros(len(named), dtype=np.bool_)
    found[codes[chosen]] = True
    calendar = not trace.provenance.relative_time

    def of(gpu_type: str | None) -> HourlyDemand:
        mine = np.array([name == gpu_type for name in named])[codes] & chosen
        duration_h, gpus = jobs.duration_s[mine] / HOUR_S, jobs.num_gpus[mine]
        count, gpu_hours = gpus.size, float((duration_h * gpus).sum())
        if not calendar:
            none = np.zeros(0)
            return HourlyDemand(gpu_type, count, gpu_hours, start_h=none, end_h=none, num_gpus=none)
        start_h = jobs.submit_us[mine] / US_PER_S / HOUR_S
        start_h += np.nan_to_num(jobs.queue_s[mine]) / HOUR_S
        return HourlyDemand(gpu_type, count, gpu_hours, start_h, start_h + duration_h, gpus)

    types = {name for name, some in zip(named, found, strict=True) if some}
    return tuple(of(one) for one in sorted(types, key=lambda name: (name is None, name or "")))


def bills(
    demand: HourlyDemand, offers: Sequence[Offer], hourly: Sequence[HourlyPrices]
) -> tuple[SourceBill, ...]:
    """Return what each offer that has the GPU asks, the cheapest first; no savings yet.

    Args:
        demand: of a known GPU.
        offers: every source.
        hourly: their prices by the hour; none for a list without history.
    """
    if demand.gpu_type is None:
        raise ValueError("a bill needs a GPU")
    found = list(_bills(demand, demand.gpu_type, offers, hourly))
    return tuple(sorted(found, key=lambda bill: (_sure(bill), bill.provider, bill.kind)))


def _sure(bill: SourceBill) -> float:
    return bill.lowest_usd if bill.cost_usd is None else bill.cost_usd


def _bills(
    demand: HourlyDemand, wanted: str, offers: Sequence[Offer], hourly: Sequence[HourlyPrices]
) -> Iterator[SourceBill]:
    by_hour = {(one.provider, one.gpu_type, one.kind): one for one in hourly}
    for offer in offers:
        if not same_gpu(wanted, offer.gpu_type):
            continue
        key = (offer.provider, offer.gpu_type, offer.kind)
        series = by_hour.get(key)
        if series is None:
            typical = None if offer.mean is None else offer.mean * demand.gpu_hours
            lowest, share = offer.least * demand.gpu_hours, 0.0
        else:
            typical, share = _billed(demand, series, series.typical, series.mean)
            lowest, _ = _billed(demand, series, series.lowest, series.mean_lowest)
        yield SourceBill(wanted, *key, demand.gpu_hours, typical, lowest, share)


def _billed(
    demand: HourlyDemand, series: HourlyPrices, price: FloatArray, mean: float
) -> tuple[float, float]:
    """Return the cost by the hour, at the mean elsewhere, and the share billed by the hour."""
    held = demand.in_hours(series.first_hour, price.size)
    known = series.cover > 0
    by_hour = float(held[known].sum())
    cost = float(held[known] @ price[known]) + mean * max(0.0, demand.gpu_hours - by_hour)
    return cost, _share(by_hour, demand)


def _share(by_hour: float, demand: HourlyDemand) -> float:
    """Return a share of the GPU-hours, without what rounding leaves of whole and none."""
    return round(min(1.0, by_hour / demand.gpu_hours), 6) if demand.gpu_hours else 0.0


def cheapest_bill(
    demand: HourlyDemand, offers: Sequence[Offer], hourly: Sequence[HourlyPrices]
) -> CheapestBill | None:
    """Return what the GPU time costs at each hour's cheapest offer; None where nobody has the GPU.

    Only offers whose price of that hour is known compete in it. In hours in which none is known,
    the least mean of all sources stands for them.
    """
    if demand.gpu_type is None:
        raise ValueError("a bill needs a GPU")
    mine = [one for one in hourly if same_gpu(demand.gpu_type, one.gpu_type)]
    if not mine:
        asked = [one.least for one in offers if same_gpu(demand.gpu_type, one.gpu_type)]
        if not asked:
            return None
        return CheapestBill(demand.gpu_type, demand.gpu_hours, min(asked) * demand.gpu_hours, 0.0)
    first, price = cheapest_by_hour(mine)
    known = ~np.isnan(price)
    held = demand.in_hours(first, price.size)[known]
    by_hour = float(held.sum())
    rest = max(0.0, demand.gpu_hours - by_hour)
    cost = float(held @ price[known]) + rest * min(one.mean_lowest for one in mine)
    return CheapestBill(demand.gpu_type, demand.gpu_hours, cost, _share(by_hour, demand))


def cheapest_by_hour(series: Sequence[HourlyPrices]) -> tuple[int, FloatArray]:
    """Return the first hour, and the lowest price known in each hour from it on; NaN where none."""
    first = min(one.first_hour for one in series)
    last = max(one.first_hour + one.lowest.size for one in series)
    least = np.full(last - first, np.nan)
    for one in series:
        here = slice(one.first_hour - first, one.first_hour - first + one.lowest.size)
        least[here] = np.fmin(least[here], one.lowest)
    return first, least
