"""Traces of FFT's evaluation: durations and arrivals of Philly, workers and models of its Table 2.

Section 6.1.3 has nine traces that follow Philly's arrival and processing time distributions. It
publishes neither loads nor throughputs; `CHOSEN` says what stands in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.synth import Request, preset_model, synthesize
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.runs.job_rates import JobDetails, JobRates
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.time import HOUR_S, to_micros
from gpuplan.simkit.workload import Workload

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
PHILLY = SHARED / "philly" / "philly_jobs_a.csv.gz"
SPEED = {"T4": (0.39, 0.50), "A10": (0.84, 0.94), "V100": (0.97, 1.03)}
HOST = 4
HOURS, JOBS, HOSTS, LOAD = 48.0, 800, 3, 1.1
BYTES = 16  # per parameter: weights, gradients and two moments of Adam; OPT-6.7B: 107 GB
WIDEST_SPREAD = 3.0
LARGE = ("GPT-neo", "GPT-2", "OPT")
MODELS: Mapping[str, tuple[tuple[int, int], tuple[int, ...]]] = {
    "VGG": ((138, 144), (1, 2, 3, 4)),
    "ResNet": ((26, 60), (1, 2, 3, 4)),
    "DenseNet": ((8, 20), (1, 2, 3, 4)),
    "Bark": ((240, 900), (1,)),
    "Bert": ((110, 340), (1,)),
    "GPT-neo": ((1300, 2700), (4,)),
    "GPT-2": ((355, 774), (4, 8)),
    "OPT": ((2700, 6700), (4, 8)),
}
"""Table 2: millions of parameters of the two variants (from the models' papers), and workers."""
CHOSEN = (
    "load 1.1 on Traces 1, 2, 6 and 9; 0.8, 0.9, 1.0, 1.5 and 1.2 on Traces 3, 4, 5, 7 and 8",
    "all durations of a trace times one factor, which gives this load; printed with each trace",
    "800 jobs on 36 GPUs (published) for Traces 1 and 2; 1,200 jobs on the same GPUs for the "
    "others, also 2,000 for Trace 5 (published: up to 20,000)",
    "rates, drawn for each job: T4 0.39 to 0.50, A10 0.84 to 0.94 and V100 0.97 to 1.03 "
    "(published: A10 1.6 to 2.71 times T4)",
    "variants of Table 2 in equal shares, and their numbers of workers too; 16 bytes of state per "
    "parameter (published: 107 GB for OPT-6.7B)",
    "Trace 9: jobs of Philly between its median duration and 3 times that",
    "gangs are data parallel; a gang on more hosts than it needs runs at 0.9 of its rate",
    "rounds of 5 minutes, 10 Gb/s (published), restarts of 30 s, work known in advance",
)
"""What the paper does not publish, and what is taken here. Nothing is fitted to its results."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """Jobs that traces are made of, by submission.

    Attributes:
        name: where they come from.
        submit_s, duration_s: seconds; shape (n,).
    """

    name: str
    submit_s: FloatArray
    duration_s: FloatArray


@dataclass(frozen=True, slots=True)
class Rule:
    """How a trace is made.

    Attributes:
        about: what sets it apart.
        has_table: workers of Table 2; else gangs of four.
        load: GPU-hours at mean rates over those of the cluster while jobs arrive.
        jobs, hosts: jobs, and hosts of each GPU type.
        large_share: share of jobs of `LARGE` models; None for that of Table 2.
        has_narrow: durations within a factor of `WIDEST_SPREAD`.
        keeps: jobs keep their own durations; else durations are sampled from all jobs.
    """

    about: str
    has_table: bool = True
    load: float = LOAD
    jobs: int = JOBS
    hosts: int = HOSTS
    large_share: float | None = None
    has_narrow: bool = False
    keeps: bool = False

    @property
    def cluster(self) -> ClusterShape:
        """As many hosts of each type."""
        return ClusterShape.parse(",".join(f"{name}={self.hosts}x{HOST}" for name in SPEED))

    @property
    def hours(self) -> float:
        """Time in which the jobs arrive: as dense as 800 jobs in two days at a load of 1.1."""
        return HOURS * self.jobs / JOBS * HOSTS / self.hosts * LOAD / self.load


RULES: Mapping[str, Rule] = {
    "1": Rule("gangs of four", has_table=False),
    "1, own durations": Rule("jobs keep their durations", has_table=False, keeps=True),
    "2": Rule("workers of Table 2"),
    "3": Rule("load 0.8", load=0.8, jobs=1200),
    "4": Rule("load 0.9", load=0.9, jobs=1200),
    "5": Rule("load 1.0", load=1.0, jobs=1200),
    "5, longer": Rule("load 1.0, 2,000 jobs", load=1.0, jobs=2000),
    "6": Rule("half large models", jobs=1200, large_share=0.5),
    "7": Rule("densest arrivals, load 1.5", load=1.5, jobs=1200),
    "8": Rule("load 1.2", load=1.2, jobs=1200),
    "9": Rule("durations within 3x", jobs=1200, has_narrow=True),
}


def workloads(path: Path = PHILLY) -> Workloads:
    """Return the jobs of Philly; of ``gpuplan synth --preset philly`` where they are not here."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "philly.parquet"
        if path.exists():
            ingest([path], trace)
        else:
            synthesize(preset_model("philly"), Request(20_000, seed=0), trace)
        jobs = read_trace(trace, columns=("submit_time", "duration_s")).jobs.drop_nulls()
    name = f"{len(jobs):,} jobs of Philly"
    if not path.exists():
        name = f"{len(jobs):,} jobs of `gpuplan synth --preset philly` (no ../shared/data/philly)"
    submit_s = jobs["submit_time"].dt.epoch("us").to_numpy() / 1e6
    return Workloads(name, submit_s, jobs["duration_s"].to_numpy())


def draw(rule: Rule, source: Workloads, seed: int) -> tuple[TraceJobs, float]:
    """Return the jobs of a trace, and the factor on durations that gives its load.

    Arrivals are those of consecutive jobs of the source, from a random one on.
    """
    rng, n = np.random.default_rng(seed), rule.jobs
    first = int(rng.integers(0, source.submit_s.size - n))
    submit_s = source.submit_s[first : first + n] - source.submit_s[first]
    submit_s *= rule.hours * HOUR_S / submit_s[-1]
    pool = source.duration_s
    if rule.has_narrow:
        least = np.median(pool)
        pool = pool[(pool >= least) & (pool <= WIDEST_SPREAD * least)]
    run_s = pool[first : first + n] if rule.keeps else rng.choice(pool, n)
    variant, gpus = _variants(rule, rng)
    rate = np.column_stack([rng.uniform(*SPEED[name], n) for name in SPEED])
    room = rule.load * len(SPEED) * rule.hosts * HOST * rule.hours * HOUR_S
    factor = float(room / (run_s * gpus / rate.mean(axis=1)).sum())
    state_gb = np.array([size for sizes, _ in MODELS.values() for size in sizes]) * BYTES / 1e3
    return trace_jobs(submit_s, run_s * factor, gpus, rate, state_gb[variant], tuple(SPEED)), factor


def _variants(rule: Rule, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the variant of Table 2 of each job, and its GPUs."""
    is_large = np.array([name in LARGE for name in MODELS for _ in range(2)])
    share = np.ones(is_large.size) / is_large.size
    if rule.large_share is not None:
        large = rule.large_share
        share = np.where(is_large, large / is_large.sum(), (1 - large) / (~is_large).sum())
    variant = rng.choice(is_large.size, rule.jobs, p=share)
    if not rule.has_table:
        return variant, np.full(rule.jobs, HOST)
    workers = [counts for _, counts in MODELS.values() for _ in range(2)]
    return variant, np.array([rng.choice(workers[one]) for one in variant], np.int64)


def trace_jobs(
    submit_s: FloatArray,
    work: FloatArray,
    gpus: IntArray,
    rate: FloatArray,
    state_gb: FloatArray,
    gpu_types: tuple[str, ...],
) -> TraceJobs:
    """Return jobs for a replay; ``work`` is in seconds at a rate of 1, ``rate`` of shape (n, T)."""
    n, nothing = gpus.size, np.full(gpus.size, np.nan)
    details = JobDetails(np.full(rate.shape, np.nan), state_gb, nothing, np.zeros(n, bool))
    submit_us = to_micros(submit_s)
    workload = Workload(
        submit_us=submit_us,
        service_us=to_micros(work / rate.max(axis=1)),
        gpus=gpus,
        deadline_us=submit_us + int(to_micros(1e6)),
        billed_gpus=gpus.astype(np.float64),
    )
    ids = pl.Series([f"j{i}" for i in range(n)])
    return TraceJobs(workload, ids, (), rates=JobRates(gpu_types, rate, work, details))
