"""Bills of GPUs: one price per type, one window for all, and GPU-hours by user, group or type.

A month has 730.5 hours. The window of a log is that of `analysis.history.jobs.JobArrays.window_us`;
everything that is compared on that log is charged over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import match_types, same_gpu

MOST_USD_PER_GPU_H = 1_000_000.0
"""A higher price must be a mistake of units."""

USAGE_COLUMNS = ("num_gpus", "duration_s")
"""Canonical columns that `gpu_hours_by` reads, besides those it groups by."""


def window_usd(gpus: float, usd_per_gpu_h: float, window_s: float) -> float:
    """Return what GPUs held throughout a window cost, US dollars."""
    return gpus * usd_per_gpu_h * (window_s / HOUR_S)


def month_usd(gpus: float, usd_per_gpu_h: float) -> float:
    """Return what GPUs held throughout a month cost, US dollars."""
    return gpus * usd_per_gpu_h * MONTH_H


def scaled_to_month(usd: float, window_s: float) -> float | None:
    """Return the bill of a window as dollars per month; None where no time passes."""
    return usd * (MONTH_H / (window_s / HOUR_S)) if window_s > 0 else None


@dataclass(frozen=True, slots=True)
class GpuPrices:
    """What an hour of a GPU costs, by type.

    Attributes:
        usd_per_gpu_h: type -> US dollars per GPU-hour; the empty name is every other type.
    """

    usd_per_gpu_h: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, usd in self.usd_per_gpu_h.items():
            if not 0 <= usd <= MOST_USD_PER_GPU_H:
                of = f"{name}=" if name else ""
                raise UsageError(
                    f"--price {of}{usd:g}: must be from 0 to {MOST_USD_PER_GPU_H:,.0f} dollars per "
                    "GPU-hour"
                )

    def of(self, gpu_type: str | None) -> float | None:
        """Return the price of a type, in any spelling; None where nothing gives it."""
        name = match_types(self.usd_per_gpu_h, [gpu_type], "--price")[gpu_type]
        return self.usd_per_gpu_h.get(name or "")

    def unmatched_note(
        self, gpu_types: Iterable[str | None], option: str = "--price"
    ) -> tuple[str, ...]:
        """Return one sentence on the prices of types that are not among these, if there are any.

        Raises:
            UsageError: all prices are of other types.
        """
        known = sorted({name for name in gpu_types if name is not None})
        unmatched = [
            name
            for name in self.usd_per_gpu_h
            if name and not any(same_gpu(name, one) for one in known)
        ]
        if not unmatched:
            return ()
        have = f"the GPU types are {listed(known, 6)}" if known else "no GPU type is named"
        if known and len(unmatched) == len(self.usd_per_gpu_h):
            raise UsageError(
                f"{option}: prices only of {listed(unmatched, 6)}; {have}\n"
                f"  next: {option} {known[0]}=USD"
            )
        return (f"{option}: the price of {listed(unmatched, 6)} is not used; {have}",)

    def by_type(self, gpu_types: Sequence[str | None]) -> dict[str | None, float | None]:
        """Return the price of each type."""
        return {name: self.of(name) for name in gpu_types}

    def mean(self, gpu_h: Mapping[str | None, float]) -> float | None:
        """Return the mean price of GPU-hours by type; None where a type has no price."""
        priced = [(self.of(name), hours) for name, hours in gpu_h.items() if hours > 0]
        if not priced:
            return self.usd_per_gpu_h.get("")
        if any(usd is None for usd, _ in priced):
            return None
        known = {usd for usd, _ in priced}
        if len(known) == 1:
            return known.pop()
        total = sum(hours for _, hours in priced)
        return sum(usd * hours for usd, hours in priced if usd is not None) / total


def gpu_hours_by(
    jobs: pl.DataFrame, by: str | Sequence[str], held_s: str = "duration_s"
) -> pl.DataFrame:
    """Return jobs and GPU-hours per value of columns such as ``user``, ``group``, ``gpu_type``.

    Args:
        jobs: canonical rows with `USAGE_COLUMNS` and the columns grouped by.
        by: one column or several.
        held_s: the column of how long each holds its GPUs; jobs still running with the time that
            they have run so far.

    Returns:
        One row per group, most GPU-hours first: the columns of ``by`` (null where not recorded),
        ``jobs`` with a run time and GPUs, their ``gpu_h``, and ``gpu_h_share`` of all.
    """
    names = [by] if isinstance(by, str) else list(by)
    is_timed = pl.col(held_s).is_not_null() & (pl.col("num_gpus") > 0)
    gpu_h = (pl.col(held_s) * pl.col("num_gpus")).sum() / HOUR_S
    found = (
        jobs.filter(is_timed)
        .group_by(names, maintain_order=True)
        .agg(jobs=pl.len().cast(pl.Int64), gpu_h=gpu_h)
        .with_columns(gpu_h_share=pl.col("gpu_h") / pl.col("gpu_h").sum())
    )
    return found.sort("gpu_h", descending=True, maintain_order=True)
