"""How often the confidence intervals of ``characterize --ci 95`` hold the true value.

``python -m benchmarks.bench_coverage`` prints the table of docs/characterize.md. Jobs arrive every
12 s on average and run for a median of 15 minutes, lognormal with sigma 1 or 2. They are
independent with Poisson arrivals, or the logarithms of their durations and of the gaps (lognormal,
sigma 1) follow an autoregression of coefficient 0.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from time import perf_counter

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.bars import Row
from gpuplan.analysis.characterize.intervals import intervals
from gpuplan.analysis.history.jobs import COLUMNS
from gpuplan.analysis.job_table.schema import CANONICAL, Provenance
from gpuplan.analysis.trace.trace import Trace

FloatArray = NDArray[np.float64]

TRACES = 200
LEVEL = 95.0
RESAMPLES = 200
GAP_S = 12.0
MEDIAN_S = 900.0
SIZES = (800, 8000)
SIGMAS = (1.0, 2.0)
MEMORIES = (0.0, 0.7)
NORMAL = NormalDist()
LARGE = 4_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """Where traces come from.

    Attributes:
        jobs: in a trace.
        sigma: standard deviation of the logarithm of durations.
        memory: autoregression of the logarithms; 0 for independent jobs with Poisson arrivals.
    """

    jobs: int
    sigma: float
    memory: float

    @property
    def label(self) -> str:
        kind = f"AR({self.memory:g})" if self.memory else "independent"
        return f"{kind}, sigma {self.sigma:g}, {self.jobs:,} jobs"

    def trace(self, seed: int) -> Trace:
        """Return one trace."""
        rng = np.random.default_rng((seed, self.jobs, int(10 * self.memory)))
        gap_s = rng.exponential(GAP_S, self.jobs)
        if self.memory:
            gap_s = GAP_S * np.exp(noise(rng, self.jobs, self.memory) - 0.5)
        duration_s = MEDIAN_S * np.exp(self.sigma * noise(rng, self.jobs, self.memory))
        known = pl.DataFrame(
            {
                "submit_time": (np.cumsum(gap_s) * 1e6).astype(np.int64),
                "duration_s": duration_s,
                "num_gpus": rng.choice([1.0, 2.0], self.jobs),
                "state": ["completed"] * self.jobs,
            }
        )
        frame = known.select(
            (pl.col(name) if name in known.columns else pl.lit(None).alias(name)).cast(
                CANONICAL[name]
            )
            for name in dict.fromkeys((*COLUMNS, "user"))
        )
        provenance = Provenance(source_format="simulated", relative_time=True)
        return Trace(frame, Path("simulated"), "", self.jobs, provenance)

    def truth(self) -> dict[str, float]:
        """Return the values that longer and longer traces have."""
        mean_s = MEDIAN_S * np.exp(self.sigma**2 / 2)
        scv = np.e - 1 if self.memory else 1.0
        rng = np.random.default_rng(1)
        gpu_s = np.sort(np.exp(self.sigma * noise(rng, LARGE, 0.0)) * rng.choice([1.0, 2], LARGE))
        ranks = np.arange(1, LARGE + 1)
        return {
            "duration_s.mean": mean_s,
            **{
                f"duration_s.p{q}": MEDIAN_S * np.exp(self.sigma * NORMAL.inv_cdf(q / 100))
                for q in (50, 90, 95, 99)
            },
            "short_jobs.under_600s": NORMAL.cdf(np.log(600 / MEDIAN_S) / self.sigma),
            "gpu_time.gpu_hours": self.jobs * 1.5 * mean_s / 3600,
            # The part of a lognormal mean above a quantile; GPUs do not depend on the duration.
            "gpu_time.top10pct_longest_share": NORMAL.cdf(self.sigma - NORMAL.inv_cdf(0.9)),
            "gpu_time.gini": float(2 * (ranks @ gpu_s) / (LARGE * gpu_s.sum()) - 1),
            "interarrival.mean_s": GAP_S,
            "interarrival.scv": scv,
            "load.mean_gpus": 1.5 * mean_s / GAP_S,
        }


def noise(rng: np.random.Generator, size: int, memory: float) -> FloatArray:
    """Return standard normal values, each with this correlation to the one before."""
    from scipy.signal import lfilter

    values = rng.standard_normal(size)
    if memory:
        start = memory * rng.standard_normal(1)
        values, _ = lfilter([(1 - memory**2) ** 0.5], [1.0, -memory], values, zi=start)
    return values


def coverage(source: Source, traces: int = TRACES) -> tuple[dict[str, float], float]:
    """Return the share of intervals that hold the truth, and the seconds for one trace."""
    truth = source.truth()
    held = dict.fromkeys(truth, 0)
    spent_s = 0.0
    for seed in range(traces):
        trace, rng = source.trace(seed), np.random.default_rng(seed)
        start = perf_counter()
        found = intervals(trace, level=LEVEL, resamples=RESAMPLES, rng=rng).statistics
        spent_s += perf_counter() - start
        for name, value in truth.items():
            ends = found[name]
            held[name] += ends is not None and ends[1] is not None and ends[0] <= value <= ends[1]
    return {name: count / traces for name, count in held.items()}, spent_s / traces


def sources() -> list[Source]:
    """Return all sources, independent jobs first."""
    return [
        Source(jobs, sigma, memory) for memory in MEMORIES for sigma in SIGMAS for jobs in SIZES
    ]


def run(traces: int = TRACES) -> list[Row]:
    """Return one row per source; ``difference`` is that of the mean coverage to the level."""
    rows = []
    for source in sources():
        held, each_s = coverage(source, traces)
        mean = float(np.mean(list(held.values())))
        rows.append(
            {
                "work": f"95% intervals hold the truth in {100 * mean:.1f}%: {source.label}",
                "ours_s": each_s,
                "difference": abs(mean - LEVEL / 100),
                "bar": "<= 0.05",
                "coverage": held,
            }
        )
    return rows


def main() -> None:
    """Print one column per source."""
    columns = [coverage(source)[0] for source in sources()]
    print(f"Coverage in percent of {TRACES} traces each; level {LEVEL:g}.\n")
    print("| statistic | " + " | ".join(source.label for source in sources()) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns[0]:
        shares = " | ".join(f"{100 * column[name]:.1f}" for column in columns)
        print(f"| `{name}` | {shares} |")


if __name__ == "__main__":
    main()
