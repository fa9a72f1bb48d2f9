"""Rounds: the compiled loop of a policy, against the same policy as a callable in plain Python."""

from functools import partial

import numpy as np

from benchmarks.bars import Row
from benchmarks.bench_boa import median_s
from gpuplan.simkit.rounds.decisions import (
    Allocation,
    RoundsCluster,
    RoundView,
    run_decisions,
)
from gpuplan.simkit.rounds.equal import equal_shares, widest_usable
from gpuplan.simkit.rounds.simulator import RoundsJobs, RoundsPolicy, run_rounds

JOBS, GPUS, DAYS, RUNS = 4_000, 128, 30, 3
DAY_US = 86_400_000_000


def jobs_of(jobs: int, days: float, seed: int = 0) -> RoundsJobs:
    """Poisson arrivals of four classes with exponential work that keep the cluster busy."""
    rng = np.random.default_rng(seed)
    work_us = rng.exponential(0.6 * GPUS * days * DAY_US / jobs, jobs)
    return RoundsJobs(
        submit_us=np.sort(rng.integers(0, int(days * DAY_US), jobs)),
        group=rng.integers(0, 4, jobs),
        work_us=work_us,
        first_epoch=np.arange(5),
        work_share=np.ones(4),
        speedup=np.arange(33.0) ** rng.uniform(0.6, 0.95, (4, 1)),
        rescale_us=np.zeros(4, np.int64),
    )


class EqualShares:
    """Equal shares, decided in Python; it counts its rounds."""

    def __init__(self, jobs: RoundsJobs) -> None:
        self.widest = widest_usable(jobs.seen)
        self.rounds = 0

    def __call__(self, view: RoundView) -> Allocation:
        self.rounds += 1
        return Allocation(equal_shares(view.epoch, view.jobs.seen, self.widest, GPUS))


def run() -> list[Row]:
    """Measure, after a warm-up that compiles the kernels."""
    jobs = jobs_of(JOBS, DAYS)
    for each in ("equal", "pollux"):
        run_rounds(jobs_of(20, 0.1), RoundsPolicy(each, GPUS))
    plain = EqualShares(jobs)
    theirs = run_decisions(jobs, RoundsCluster((GPUS,)), plain)
    ours = run_rounds(jobs, RoundsPolicy("equal", GPUS))
    assert (ours.finish_us == theirs.finish_us).all()
    python_s = median_s(
        lambda: run_decisions(jobs, RoundsCluster((GPUS,)), EqualShares(jobs)), RUNS
    )
    rows = []
    for policy in ("equal", "pollux"):
        rules = RoundsPolicy(policy, GPUS)
        ours_s = median_s(partial(run_rounds, jobs, rules), RUNS)
        rows.append(
            {
                "work": f"rounds: {policy}, {JOBS:,} jobs, {plain.rounds:,} rounds, compiled"
                + (" (reference: in Python)" if policy == "equal" else ""),
                "ours_s": ours_s,
                "reference_s": python_s if policy == "equal" else None,
                "ratio": python_s / ours_s if policy == "equal" else None,
                "bar": "-",
            }
        )
    return rows
