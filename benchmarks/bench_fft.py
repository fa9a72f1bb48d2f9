"""FFT: one round of 4,000 jobs on 1,000 GPUs of 8 types, and 800 jobs over two days on 36 GPUs."""

import time

import numpy as np

from benchmarks.fft_traces import RULES, draw, workloads
from benchmarks.reproduce_fft import FFT, run_policy
from gpuplan.planner.policies.mixed.fft_rounds import FftRules, round_costs
from gpuplan.planner.policies.mixed.round_program import solve_round

JOBS, TYPES, GPUS, SEEDS = 4_000, 8, 1_000, 20


def two_rounds(seed: int):
    """Return the costs of a round and of the next one, the widths and the GPUs of each type."""
    rng = np.random.default_rng(seed)
    gpus = rng.multinomial(GPUS // 4 - TYPES, np.ones(TYPES) / TYPES) * 4 + 4
    width = rng.choice([1, 2, 4, 8, 16], JOBS, p=[0.45, 0.15, 0.25, 0.1, 0.05])
    rate = np.sort(rng.uniform(0.2, 1, TYPES)) * rng.uniform(0.8, 1.2, (JOBS, TYPES))
    rate[rng.uniform(size=rate.shape) < 0.1] = 0
    rate[(rate == 0).all(axis=1), 0] = 1
    rate /= rate.max(axis=1, keepdims=True)
    work = rng.lognormal(3, 1.5, JOBS) + 0.1
    left, age = work * rng.uniform(0.01, 1, JOBS), rng.integers(0, 200, JOBS)
    done = rng.uniform(0, 1, JOBS) * (rng.uniform(size=JOBS) < 0.2)
    same = {
        "width": width,
        "work": work,
        "rate": rate,
        "debt": np.where(rng.uniform(size=JOBS) < 0.5, rng.exponential(2, JOBS), 0),
        "last": np.where(rng.uniform(size=JOBS) < 0.3, rng.integers(0, TYPES, JOBS), -1),
        "copy_rounds": rng.uniform(0, 0.3, JOBS),
    }
    first = round_costs(FftRules(), age=age, left=left, **same)
    next_left = np.maximum(left - done, work / 1000)
    return first, round_costs(FftRules(), age=age + 1, left=next_left, **same), width, gpus


def run() -> list[dict]:
    """Measure CPU time; the allocations must be within 0.1% of their bounds."""
    times: dict[str, list[float]] = {"cold": [], "warm": []}
    for seed in range(SEEDS):
        first, second, width, gpus = two_rounds(seed)
        prices = None
        for kind, cost in (("cold", first), ("warm", second)):
            begin = time.process_time()
            answer = solve_round(cost, width, gpus, prices=prices)
            times[kind].append(time.process_time() - begin)
            assert answer.is_within and answer.gpus == GPUS
            prices = answer.prices
    rows = []
    for kind, found in times.items():
        for which, value in (("median", np.median(found)), ("worst", max(found))):
            rows.append(
                {
                    "work": f"fft: a round of {JOBS:,} jobs, {TYPES} types, {GPUS:,} GPUs, {kind}, "
                    f"{which} of {SEEDS}, CPU",
                    "ours_s": float(value),
                    "bar": "<= 0.15 s",
                }
            )
    source = workloads()
    for number, widths in (("1", "gangs of 4"), ("2", "mixed widths")):
        jobs, _ = draw(RULES[number], source, 0)
        begin = time.process_time()
        run_policy(FFT, jobs, RULES[number].cluster)
        taken = time.process_time() - begin
        work = f"fft: 800 jobs over two days on 36 GPUs, {widths}, CPU"
        rows.append({"work": work, "ours_s": taken, "bar": "<= 5 s"})
    return rows
