"""The energy of jobs, where power was measured: by group, with dollars and CO2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill import NO_LABEL


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """The energy of one group's jobs.

    Attributes:
        name: of the group.
        kwh: measured.
        covered_gpu_h: GPU-hours in which it was measured.
        usd: at ``--usd-per-kwh``; null without it.
        kg_co2: at ``--kg-co2-per-kwh``; null without it.
    """

    name: str
    kwh: float
    covered_gpu_h: float
    usd: float | None
    kg_co2: float | None


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of jobs, of their GPUs alone.

    Attributes:
        kwh, covered_gpu_h, usd, kg_co2: as in `EnergyRow`, of all jobs.
        covered_share: of the GPU-hours of the log in which power was measured.
        groups: most energy first.
    """

    kwh: float
    covered_gpu_h: float
    covered_share: float
    usd: float | None
    kg_co2: float | None
    groups: tuple[EnergyRow, ...]


def energy_of(
    trace: Trace, series: pl.DataFrame, held_gpu_h: float, usd_per_kwh: float | None,
    kg_co2_per_kwh: float | None,
) -> Energy | None:  # fmt: skip
    """Return the energy of jobs; None where no power was measured.

    Args:
        trace: the jobs.
        series: what metrics say of them.
        held_gpu_h: GPU-hours of all jobs.
        usd_per_kwh, kg_co2_per_kwh: None for none.
    """
    measured = series.filter(pl.col("energy_kwh").is_not_null())
    if not measured.height:
        return None
    names = trace.jobs.select("job_id", name=pl.col("group").cast(pl.String).fill_null(NO_LABEL))
    joined = measured.join(names.unique("job_id", keep="first"), on="job_id", how="left")
    sums = joined.group_by("name", maintain_order=True).agg(
        pl.col("energy_kwh", "energy_covered_gpu_h").sum()
    )

    def times(kwh: float, factor: float | None) -> float | None:
        return None if factor is None else kwh * factor

    rows = [
        EnergyRow(name, kwh, covered, times(kwh, usd_per_kwh), times(kwh, kg_co2_per_kwh))
        for name, kwh, covered in sums.iter_rows()
    ]
    kwh = float(np.sum([row.kwh for row in rows]))
    covered = float(np.sum([row.covered_gpu_h for row in rows]))
    return Energy(
        kwh, covered, covered / held_gpu_h if held_gpu_h else 0.0, times(kwh, usd_per_kwh),
        times(kwh, kg_co2_per_kwh), tuple(sorted(rows, key=lambda row: (-row.kwh, row.name))),
    )  # fmt: skip
