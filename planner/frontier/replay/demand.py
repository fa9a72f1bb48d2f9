"""Distribution of the GPUs that the jobs of a plan need at once; the plan has only its mean.

Source: with Poisson arrivals and no queueing, the numbers of jobs in the system are independent
Poisson variables, one per class, path and epoch, of mean rate x mean time there, whatever the
distribution of the times (M/G/infinity; Takacs 1962). Each job counts with its width, so the
demand is a compound Poisson variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import epoch_hours
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.plans import plan_paths
from gpuplan.simkit.arrays import FloatArray, IntArray

TAIL = 36.0  # the law is cut where a bound on the rest is exp(-TAIL), about 2e-16
MOST_FROM_ZERO = 1 << 16  # GPUs; a law that reaches further is kept where it is not negligible
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class DemandLaw:
    """The GPUs that jobs need at a random time in the long run, with Poisson arrivals.

    Attributes:
        mean_gpus: mean.
        sd_gpus: standard deviation.
        median_gpus, p95_gpus, p99_gpus: enough for this share of the time.
        width: the widths in use, ascending; shape (W,).
        jobs: mean number of jobs that hold so many GPUs; shape (W,).
        pmf: probability of a demand of ``least``, ``least`` + 1, ... GPUs, down to about 1e-15;
            shape (N,).
        least: 0, or for a large demand a number of GPUs below which it hardly ever is.
    """

    mean_gpus: float
    sd_gpus: float
    median_gpus: int
    p95_gpus: int
    p99_gpus: int
    width: Hidden[IntArray]
    jobs: Hidden[FloatArray]
    pmf: Hidden[FloatArray]
    least: Hidden[int]

    def above(self, gpus: float) -> float:
        """Return the probability of a demand of more than so many GPUs, down to about 1e-15."""
        if gpus < self.least:
            return 1.0
        return float(self.pmf[int(np.floor(gpus)) + 1 - self.least :].sum())

    def quantile(self, q: float) -> int:
        """Return the least number of GPUs that is enough with probability ``q``, 0 < q < 1."""
        return _quantile(self.pmf, self.least, q)


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
    least, pmf = compound_poisson(width, mean)
    return law_of(width, mean, pmf, least)


def law_of(width: IntArray, jobs: FloatArray, pmf: FloatArray, least: int = 0) -> DemandLaw:
    """Return a `DemandLaw` with its measures; see there for the arguments."""
    mean_gpus = float(np.dot(width, jobs))
    sd_gpus = sqrt(float(np.dot(width**2, jobs)))
    median, p95, p99 = (_quantile(pmf, least, q) for q in QUANTILES)
    return DemandLaw(mean_gpus, sd_gpus, median, p95, p99, width, jobs, pmf, least)


def _quantile(pmf: FloatArray, least: int, q: float) -> int:
    if not 0 < q < 1:
        raise ValueError(f"a quantile needs 0 < q < 1, got {q}")
    return least + int(np.searchsorted(np.cumsum(pmf), q))


def compound_poisson(width: IntArray, mean: FloatArray) -> tuple[int, FloatArray]:
    """Return the law of sum(width x N), N independent Poisson variables.

    Returns:
        A sum below which the law is negligible, 0 unless sums are large, and the probabilities of
        that sum and of all after it.

    By a Fourier transform of exp(sum of mean x (z ** width - 1)), long enough that the rest is
    below 2e-16 by Bernstein's inequality, P(X >= EX + x) <= exp(-x^2 / (2 (Var X + x K / 3))) with
    K the largest width; below the mean the bound is exp(-x^2 / (2 Var X)). The transform gives sums
    modulo its length, which tells them apart where it spans all that are likely. Absolute errors
    are about 1e-16.

    Args:
        width: distinct widths, ascending, >= 1; shape (W,).
        mean: the means, >= 0; shape (W,).
    """
    expected = float(np.dot(width, mean))
    variance = float(np.dot(width.astype(float) ** 2, mean))
    bound = TAIL * float(width[-1]) / 3
    most = ceil(expected + bound + sqrt(bound**2 + 2 * TAIL * variance))
    least = 0
    if most >= MOST_FROM_ZERO:
        least = max(0, floor(expected - sqrt(2 * TAIL * variance)))
    size = most - least + 1
    length = 1 << (size - 1).bit_length()
    jumps = np.zeros(length)
    np.add.at(jumps, width % length, mean)
    spectrum = np.exp(np.fft.rfft(jumps) - mean.sum())
    pmf = np.maximum(np.roll(np.fft.irfft(spectrum, length), -(least % length))[:size], 0.0)
    result: FloatArray = pmf / pmf.sum()
    return least, result
