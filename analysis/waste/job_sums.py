"""What the GPUs of each job did, added up GPU by GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.metrics.samples import (
    ENGINE,
    MEMORY_FREE_MIB,
    MEMORY_MIB,
    MEMORY_SHARE,
    POWER_W,
    TENSOR,
    UTILIZATION,
    GpuKey,
    GpuSamples,
    MetricSeries,
)
from gpuplan.analysis.waste.gpu_use import GpuUse, gpu_use
from gpuplan.analysis.waste.holders import NodeRuns

MIB_PER_GIB = 1024.0
J_PER_KWH = 3.6e6
METRICS = (ENGINE, UTILIZATION, TENSOR, MEMORY_MIB, MEMORY_FREE_MIB, MEMORY_SHARE, POWER_W)
SHARE_HOURS = "hours with a share of memory"
TENSOR_HOURS = "hours with activity of tensor cores"
ALMOST_ALL = 0.95
"""Of the covered GPU-hours, the share in which the tensor cores must be sampled too."""
IDLE_PERCENT = 0.0
"""Largest utilization at which a GPU idles."""
LEAST_IDLE_S = 2 * HOUR_S
"""Seconds that an idle stretch at an end of a job must exceed."""

JOB_COLUMNS: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "covered_gpu_h": pl.Float64(),
    "covered_share": pl.Float64(),
    "gpu_util_mean": pl.Float64(),
    "gpu_tensor_mean": pl.Float64(),
    "gpus_never_used": pl.Float64(),
    "never_used_gpu_h": pl.Float64(),
    "idle_begin_gpu_h": pl.Float64(),
    "idle_end_gpu_h": pl.Float64(),
    "gpu_mem_used_share": pl.Float64(),
    "gpu_mem_used_gib": pl.Float64(),
    "gpu_mem_total_gib": pl.Float64(),
    "energy_kwh": pl.Float64(),
    "energy_covered_gpu_h": pl.Float64(),
}
"""Columns of `MetricSummary.jobs`."""


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """The series of one GPU.

    Attributes:
        use: utilization: the engine's where it is there.
        other: utilization of the other kind.
        tensor: activity of the tensor cores.
    """

    use: MetricSeries
    other: MetricSeries | None
    tensor: MetricSeries | None
    memory: MetricSeries | None
    memory_free: MetricSeries | None
    memory_share: MetricSeries | None
    power: MetricSeries | None

    @classmethod
    def of(cls, samples: GpuSamples, keys: Sequence[GpuKey]) -> GpuSeries | None:
        """Return the series of a GPU; None where its use was sampled less than twice."""
        engine, utilization, *other_metrics = (samples.take(keys, metric) for metric in METRICS)
        usable = [u for u in (engine, utilization) if u is not None and u.time_s.size > 1]
        if not usable:
            return None
        return cls(usable[0], usable[1] if len(usable) > 1 else None, *other_metrics)


class JobSums:
    """Sums over the GPUs of each job."""

    def __init__(self, jobs: int) -> None:
        names = [name for name in JOB_COLUMNS if name not in ("job_id", "covered_share")]
        self._sums: dict[str, FloatArray] = {
            name: np.zeros(jobs) for name in (*names, SHARE_HOURS, TENSOR_HOURS)
        }
        self._largest = {
            name: np.full(jobs, np.nan) for name in ("gpu_mem_used_gib", "gpu_mem_total_gib")
        }

    def add(self, gpu: GpuSeries, runs: NodeRuns, held: BoolArray) -> None:
        """Count what a GPU did in the runs that held it; a job may count several times."""
        job, start_s, end_s = runs.job[held], runs.start_s[held], runs.end_s[held]
        if not job.size:
            return
        use = self._use(gpu, start_s, end_s)
        hours = use.covered_s / HOUR_S
        is_covered = hours > 0
        never = np.where(is_covered & ~use.is_used, hours, 0.0)
        self._count("covered_gpu_h", job, hours)
        self._count("gpu_util_mean", job, np.where(is_covered, hours * use.mean, 0.0))
        self._count("gpus_never_used", job, (never > 0).astype(np.float64))
        self._count("never_used_gpu_h", job, never)
        for name, idle_s in (("idle_begin_gpu_h", use.begin_s), ("idle_end_gpu_h", use.end_s)):
            self._count(name, job, np.where(idle_s > LEAST_IDLE_S, idle_s, 0.0) / HOUR_S)
        self._memory(gpu, job, start_s, end_s)
        if gpu.tensor is not None and gpu.tensor.time_s.size > 1:
            tensor = gpu_use(gpu.tensor, start_s, end_s, 0.0)
            tensor_h = tensor.covered_s / HOUR_S
            self._count("gpu_tensor_mean", job, tensor_h * np.nan_to_num(tensor.mean))
            self._count(TENSOR_HOURS, job, tensor_h)
        if gpu.power is not None and gpu.power.time_s.size > 1:
            power = gpu_use(gpu.power, start_s, end_s, 0.0)
            joules = np.nan_to_num(power.mean) * power.covered_s
            self._count("energy_kwh", job, joules / J_PER_KWH)
            self._count("energy_covered_gpu_h", job, power.covered_s / HOUR_S)

    def _use(self, gpu: GpuSeries, start_s: IntArray, end_s: IntArray) -> GpuUse:
        """Return the use by the better metric, or the other where only that was sampled."""
        use = gpu_use(gpu.use, start_s, end_s, IDLE_PERCENT)
        if gpu.other is None:
            return use
        other = gpu_use(gpu.other, start_s, end_s, IDLE_PERCENT)
        is_better = use.covered_s >= other.covered_s * 0.5
        return GpuUse(
            *(
                np.where(is_better, getattr(use, name), getattr(other, name))
                for name in ("covered_s", "mean", "most", "is_used", "begin_s", "end_s")
            )
        )

    def _memory(self, gpu: GpuSeries, job: IntArray, start_s: IntArray, end_s: IntArray) -> None:
        """Count memory: where its total is known, or the share is measured, its share too."""
        share, of_share = gpu.memory_share, 100.0
        if gpu.memory is not None and gpu.memory.time_s.size > 1:
            used = gpu_use(gpu.memory, start_s, end_s, 0.0).most / MIB_PER_GIB
            np.fmax.at(self._largest["gpu_mem_used_gib"], job, used)
            if gpu.memory_free is not None:
                share, of_share = gpu.memory, _total_mib(gpu.memory, gpu.memory_free)
                total = np.full(job.size, of_share / MIB_PER_GIB)
                np.fmax.at(self._largest["gpu_mem_total_gib"], job, total)
        if share is not None and share.time_s.size > 1:
            mean = gpu_use(share, start_s, end_s, 0.0)
            hours = mean.covered_s / HOUR_S
            self._count("gpu_mem_used_share", job, hours * np.nan_to_num(mean.mean) / of_share)
            self._count(SHARE_HOURS, job, hours)

    def _count(self, name: str, job: IntArray, values: FloatArray) -> None:
        np.add.at(self._sums[name], job, values)

    def frame(self, job_id: pl.Series, held_h: FloatArray) -> pl.DataFrame:
        """Return `JOB_COLUMNS` of the jobs that have samples."""
        sums = self._sums
        covered, energy_h = sums["covered_gpu_h"], sums["energy_covered_gpu_h"]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = {
                **sums,
                **self._largest,
                "covered_share": np.minimum(covered / held_h, 1.0),
                "gpu_util_mean": sums["gpu_util_mean"] / covered,
                "gpu_tensor_mean": np.where(
                    sums[TENSOR_HOURS] >= ALMOST_ALL * covered,
                    sums["gpu_tensor_mean"] / sums[TENSOR_HOURS],
                    np.nan,
                ),
                "gpu_mem_used_share": sums["gpu_mem_used_share"] / sums[SHARE_HOURS],
                "energy_kwh": np.where(energy_h > 0, sums["energy_kwh"], np.nan),
            }
        frame = pl.DataFrame({"job_id": job_id, **values}).select(
            pl.col(name).cast(kind) for name, kind in JOB_COLUMNS.items()
        )
        return frame.filter(pl.col("covered_gpu_h") > 0).with_columns(
            pl.selectors.float().fill_nan(None)
        )


def _total_mib(used: MetricSeries, free: MetricSeries) -> float:
    """Return the memory of a GPU: used and free at the times when both were sampled."""
    _, of_used, of_free = np.intersect1d(used.time_s, free.time_s, return_indices=True)
    if not of_used.size:
        return float(used.values.max() + free.values.max())
    return float((used.values[of_used] + free.values[of_free]).max())
