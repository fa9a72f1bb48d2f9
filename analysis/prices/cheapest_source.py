"""Which source of a GPU is the cheapest, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from gpuplan.analysis.prices.hourly import HourlyPrices

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Lead:
    """A stretch of hours in which one source is the cheapest of those that have a price.

    Attributes:
        start, end: the stretch.
        provider, kind: the source.
        mean_usd_per_gpu_h: its lowest price, mean of these hours.
    """

    start: datetime
    end: datetime
    provider: str
    kind: str
    mean_usd_per_gpu_h: float


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest sources of one GPU over time, by their lowest price in each hour.

    Attributes:
        gpu_type: the GPU.
        hours: hours in which some source has a price.
        mean_usd_per_gpu_h: price of the cheapest, mean of these hours.
        shares: (provider, kind) and the share of these hours in which it leads, most first.
        leads: intervals in order of time, split where no source has a price.
    """

    gpu_type: str
    hours: int
    mean_usd_per_gpu_h: float
    shares: tuple[tuple[str, str, float], ...]
    leads: tuple[Lead, ...]


def cheapest_sources(hourly: Sequence[HourlyPrices]) -> tuple[Cheapest, ...]:
    """Return who is the cheapest for each GPU, in order of GPUs; ties go to the first by name."""
    gpus = sorted({one.gpu_type for one in hourly})
    return tuple(_cheapest(gpu, [one for one in hourly if one.gpu_type == gpu]) for gpu in gpus)


def _cheapest(gpu: str, series: list[HourlyPrices]) -> Cheapest:
    first = min(one.first_hour for one in series)
    last = max(one.first_hour + one.lowest.size for one in series)
    best = np.full(last - first, np.inf)
    leader = np.full(last - first, -1)
    for number, one in enumerate(series):
        here = slice(one.first_hour - first, one.first_hour - first + one.lowest.size)
        better = np.zeros(last - first, np.bool_)
        # A price must be lower by more than rounding to take the lead.
        better[here] = np.where(one.cover > 0, one.lowest, np.inf) < best[here] * (1 - 1e-9)
        best[better] = one.lowest[better[here]]
        leader[better] = number
    known = leader >= 0
    counts = np.bincount(leader[known], minlength=len(series))
    hours = int(known.sum())
    shares = sorted(
        (-int(n), one.provider, one.kind) for n, one in zip(counts, series, strict=True) if n
    )
    return Cheapest(
        gpu_type=gpu,
        hours=hours,
        mean_usd_per_gpu_h=float(best[known].mean()),
        shares=tuple((provider, kind, -n / hours) for n, provider, kind in shares),
        leads=tuple(_leads(first, leader, best, series)),
    )


def _leads(
    first: int,
    leader: np.ndarray[Any, np.dtype[np.int64]],
    best: np.ndarray[Any, np.dtype[np.float64]],
    series: list[HourlyPrices],
) -> Iterator[Lead]:
    edges = np.flatnonzero(np.diff(leader)) + 1
    for part in np.split(np.arange(leader.size), edges):
        number = int(leader[part[0]])
        if number >= 0:
            yield Lead(
                EPOCH + timedelta(hours=first + int(part[0])),
                EPOCH + timedelta(hours=first + int(part[-1]) + 1),
                series[number].provider,
                series[number].kind,
                float(best[part].mean()),
            )
