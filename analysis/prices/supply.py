"""How much of a GPU is available where, over time: steps, and how often it comes and goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray, distinct
from gpuplan.analysis.base.time_units import DAY_US, HOUR_US
from gpuplan.analysis.history.steps import sum_between
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.prices.price_table import PriceTable, stretches


@dataclass(frozen=True, slots=True)
class AvailabilitySteps:
    """Availability of one GPU in one region, in the source's unit: a step function of time.

    Steps are in order of time and do not overlap; between the end of one and the start of the next
    nothing is known. Adjacent steps have different levels.

    Attributes:
        provider, gpu_type, region, kind: the source; the region is None if unknown.
        start_us, end_us: of each step, microseconds of the Unix epoch; shape (n,).
        available: within each step; shape (n,).
    """

    provider: str
    gpu_type: str
    region: str | None
    kind: str
    start_us: IntArray
    end_us: IntArray
    available: IntArray


@dataclass(frozen=True, slots=True)
class Supply:
    """How one GPU of one region comes and goes. It is there while anything is available.

    Attributes:
        provider, gpu_type, region, kind: the source.
        known_days: time of which availability is known.
        mean, most: of the availability; the mean is weighted by time.
        available_share: share of the known time in which it is there.
        losses: how often it goes, from some to none.
        transitions_per_day: how often it comes or goes, per known day.
        mean_available_h: time in which it is there per loss; None without a loss. Unlike the mean
            of the stretches this is not too short for those that the record cuts.
        mean_unavailable_h: time in which it is not there per return; None without a return.
        median_available_h, longest_available_h, median_unavailable_h, longest_unavailable_h: of the
            stretches as recorded, those cut by its start, end or gaps included; None for none.
    """

    provider: str
    gpu_type: str
    region: str | None
    kind: str
    known_days: float
    mean: float
    most: int
    available_share: float
    losses: int
    transitions_per_day: float
    mean_available_h: float | None
    mean_unavailable_h: float | None
    median_available_h: float | None
    longest_available_h: float | None
    median_unavailable_h: float | None
    longest_unavailable_h: float | None


def availability_steps(table: PriceTable, gpu: str | None = None) -> tuple[AvailabilitySteps, ...]:
    """Return the availability by provider, GPU, region and kind, in this order.

    A snapshot holds until the next of its series, but no longer than a price does (`in_force`).
    Offers of one instant and instance types of one region add up, as the source counts them.

    Args:
        table: a price table; rows with and without a price count.
        gpu: only GPUs that can be this one (see `same_gpu`).
    """
    held = stretches(table.supply, pl.col("available").sum())
    groups = held.partition_by("provider", "gpu_type", "region", "kind", as_dict=True)
    in_order = sorted(groups.items(), key=lambda group: tuple(part or "" for part in group[0]))
    return tuple(
        _steps(rows, *map(_word, key))
        for key, rows in in_order
        if gpu is None or same_gpu(gpu, str(key[1]))
    )


def _word(part: object) -> Any:
    return None if part is None else str(part)


def _steps(
    rows: pl.DataFrame, provider: str, gpu_type: str, region: str | None, kind: str
) -> AvailabilitySteps:
    """Add up stretches that may overlap; join those that touch at one level."""
    start, end = rows["start_us"].to_numpy(), rows["end_us"].to_numpy()
    level = rows["available"].to_numpy()
    edges = distinct(np.concatenate([start, end]))
    total, sources = sum_between(edges, start, end, level)
    is_known = sources > 0
    is_new = is_known.copy()
    is_new[1:] &= ~is_known[:-1] | (total[1:] != total[:-1])
    is_last = is_known.copy()
    is_last[:-1] &= ~is_known[1:] | is_new[1:]
    return AvailabilitySteps(
        *(provider, gpu_type, region, kind), edges[:-1][is_new], edges[1:][is_last], total[is_new]
    )


def supplies(table: PriceTable) -> tuple[Supply, ...]:
    """Return availability statistics in order of GPU, provider, kind and region."""
    each = (_supply(steps) for steps in availability_steps(table) if steps.start_us.size)
    return tuple(sorted(each, key=lambda s: (s.gpu_type, s.provider, s.kind, s.region or "")))


def _supply(steps: AvailabilitySteps) -> Supply:
    lasting = steps.end_us - steps.start_us
    some = steps.available > 0
    touches = steps.start_us[1:] == steps.end_us[:-1]
    losses = int(np.count_nonzero(touches & some[:-1] & ~some[1:]))
    returns = int(np.count_nonzero(touches & ~some[:-1] & some[1:]))
    known_us, available_us = int(lasting.sum()), int(lasting[some].sum())
    up, down = _stretches(steps, some)
    return Supply(
        *(steps.provider, steps.gpu_type, steps.region, steps.kind),
        known_days=known_us / DAY_US,
        mean=float(lasting @ steps.available / known_us),
        most=int(steps.available.max()),
        available_share=available_us / known_us,
        losses=losses,
        transitions_per_day=(losses + returns) / (known_us / DAY_US),
        mean_available_h=available_us / HOUR_US / losses if losses else None,
        mean_unavailable_h=(known_us - available_us) / HOUR_US / returns if returns else None,
        median_available_h=float(np.median(up)) if up.size else None,
        longest_available_h=float(up.max()) if up.size else None,
        median_unavailable_h=float(np.median(down)) if down.size else None,
        longest_unavailable_h=float(down.max()) if down.size else None,
    )


def _stretches(steps: AvailabilitySteps, some: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the hours of each stretch with anything available, and of each without."""
    breaks = (steps.start_us[1:] != steps.end_us[:-1]) | (some[1:] != some[:-1])
    edges = np.flatnonzero(breaks) + 1
    first, last = np.append(0, edges), np.append(edges, some.size) - 1
    hours = (steps.end_us[last] - steps.start_us[first]) / HOUR_US
    return hours[some[first]], hours[~some[first]]
