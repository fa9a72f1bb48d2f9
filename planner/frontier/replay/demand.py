"""Distribution of the GPUs that the jobs of a plan need at once; the plan has only its mean.

Source: with Poisson arrivals and no queueing, the numbers of jobs in the system are independent
Poisson variables, one per class, path and epoch, of mean rate x mean time there, whatever the
distribution of the times (M/G/infinity; Takacs 1962). Each job counts with its width, so the
demand is a compound Poisson variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.model.paths import epoch_hours, plan_paths
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.simkit.arrays import FloatArray, IntArray

TAIL = 36.0  # the law is cut where a bound on the rest is exp(-TAIL), about 2e-16
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class DemandLaw:
    """Distribution of the GPUs that jobs need at a random time in the long run, by `demand_law`.

    Attributes:
        width: the widths in use, ascending; shape (W,).
        jobs: mean number of jobs of each width; shape (W,).
        pmf: probability of a demand of 0, 1, 2, ... GPUs, down to about 1e-15; shape (N,).
    """

    width: IntArray
    jobs: FloatArray
    pmf: FloatArray

    @property
    def mean_gpus(self) -> float:
        """Mean demand."""
        return float(np.dot(self.width, self.jobs))

    @property
    def sd_gpus(self) -> float:
        """Standard deviation of the demand."""
        return sqrt(float(np.dot(self.width**2, self.jobs)))

    def above(self, gpus: float) -> float:
        """Return the probability of a demand above this number of GPUs, down to about 1e-15."""
        return float(self.pmf[max(0, int(np.floor(gpus)) + 1) :].sum()) if gpus >= 0 else 1.0

    def quantile(self, q: float) -> int:
        """Return the least number of GPUs that is enough with probability ``q``, 0 < q < 1."""
        if not 0 < q < 1:
            raise ValueError(f"a quantile needs 0 < q < 1, got {q}")
        return int(np.searchsorted(np.cumsum(self.pmf), q))

    def summary(self) -> dict[str, Any]:
        """Return the headline numbers; keys are stable and carry their unit."""
        median, p95, p99 = (self.quantile(q) for q in QUANTILES)
        return {
            "mean_gpus": self.mean_gpus,
            "sd_gpus": self.sd_gpus,
            "median_gpus": median,
            "p95_gpus": p95,
            "p99_gpus": p99,
        }


def demand_law(
    workload: ClassWorkload, plan: Plan, *, rounded: bool = False, gpu_type: str | None = None
) -> DemandLaw:
    """Return the law of the demand of a plan, for Poisson arrivals at the rates of the workload.

    Args:
        workload: the classes that the plan was made for.
        plan: the widths.
        rounded: whether to follow the plan without a split.
        gpu_type: count the GPUs of this type only.

    Raises:
        UsageError: a job changes its GPU type on the way.
        ValueError: no job runs on ``gpu_type``.
    """
    jobs: dict[int, float] = {}
    for path, share in plan_paths(workload.classes, plan, rounded=rounded):
        if gpu_type is not None and path.gpu_type != gpu_type:
            continue
        job_class = workload.classes[path.job_class]
        hours = epoch_hours(job_class, path).tolist()
        for width, mean_h in zip(path.gpus.tolist(), hours, strict=True):
            jobs[width] = jobs.get(width, 0.0) + job_class.rate_per_h * share * mean_h
    if not jobs:
        raise ValueError(f"no job of the plan runs on the GPU type {gpu_type}")
    width = np.array(sorted(jobs), np.int64)
    mean = np.array([jobs[k] for k in sorted(jobs)])
    return DemandLaw(width, mean, compound_poisson(width, mean))


def compound_poisson(width: IntArray, mean: FloatArray) -> FloatArray:
    """Return the probabilities of sum(width x N) = 0, 1, 2, ..., N independent Poisson variables.

    By a Fourier transform of exp(sum of mean x (z ** width - 1)), long enough that the rest is
    below 2e-16 by Bernstein's inequality, P(X >= EX + x) <= exp(-x^2 / (2 (Var X + x K / 3))) with
    K the largest width. Absolute errors are about 1e-16.

    Args:
        width: distinct widths, ascending, >= 1; shape (W,).
        mean: the means, >= 0; shape (W,).
    """
    bound = TAIL * float(width[-1]) / 3
    beyond = bound + sqrt(bound**2 + 2 * TAIL * float(np.dot(width.astype(float) ** 2, mean)))
    size = ceil(float(np.dot(width, mean)) + beyond) + 1
    length = 1 << (size - 1).bit_length()
    jumps = np.zeros(length)
    jumps[width] = mean
    spectrum = np.exp(np.fft.rfft(jumps) - mean.sum())
    pmf = np.maximum(np.fft.irfft(spectrum, length)[:size], 0.0)
    result: FloatArray = pmf / pmf.sum()
    return result
