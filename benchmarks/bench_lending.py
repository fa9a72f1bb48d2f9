"""Lending GPUs as spot: three months of tasks on 287 nodes, and the forecast behind the quota."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.bars import Row
from gpuplan.analysis.forecast.demand import DemandSeries
from gpuplan.analysis.forecast.forecast import forecast
from gpuplan.simkit.spot.parameters import SCHEDULERS
from gpuplan.simkit.spot.simulator import SpotRun, SpotWorkload, simulate_spot

DAYS, NODES, CARDS = 91, 287, 8
TASKS, SPOT_SHARE, HP_LOAD = 165_000, 0.28, 0.75
SHAPES = {500: 0.02, 1000: 0.6, 2000: 0.08, 4000: 0.12, 8000: 0.18}
GANGS = {1: 0.8, 2: 0.08, 4: 0.05, 8: 0.04, 16: 0.03}
SERIES, HOURS, STEPS = 84, 4_380, 4


def quarter(seed: int = 0) -> tuple[SpotWorkload, np.ndarray]:
    """Return tasks of 91 days in shapes like those of Table 3 of GFS, and what can be lent."""
    rng = np.random.default_rng(seed)
    milli = rng.choice(list(SHAPES), TASKS, p=list(SHAPES.values()))
    pods = np.where(milli >= 1000, rng.choice(list(GANGS), TASKS, p=list(GANGS.values())), 1)
    hp = rng.uniform(size=TASKS) >= SPOT_SHARE
    work = np.where(hp, rng.normal(17_749, 5_000, TASKS), rng.normal(10_100, 2_800, TASKS))
    work = np.maximum(work, 60.0)
    asked = (work * milli * pods)[hp].sum() / 1000
    work *= HP_LOAD * NODES * CARDS * DAYS * 86_400 / asked
    submit = np.sort(rng.integers(0, DAYS * 86_400, TASKS))
    tasks = SpotWorkload(submit, work.astype(np.int64) + 1, hp, pods, milli)
    day = np.sin(2 * np.pi * np.arange(24 * DAYS) / 24)
    return tasks, NODES * CARDS * (1 - HP_LOAD * (1.1 + 0.1 * day))


def six_months(seed: int = 0) -> DemandSeries:
    """Return hourly demand with days, weeks and noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(HOURS)
    size = rng.uniform(5, 200, (SERIES, 1))
    day = 1 + 0.3 * np.sin(2 * np.pi * (at + rng.integers(0, 24, (SERIES, 1))) / 24)
    gpus = size * day * np.where(at // 24 % 7 >= 5, 0.8, 1.0)
    gpus = np.maximum(0.0, gpus + size * rng.normal(0, 0.1, gpus.shape).cumsum(axis=1) / 10)
    return DemandSeries(tuple(f"team-{one}" for one in range(SERIES)), np.rint(gpus), 0, False)


def elapsed_s(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the time of a call."""
    begin = clock()
    work()
    return clock() - begin


def run() -> list[Row]:
    """Measure the simulator in CPU time after a first run, and the forecast with its training."""
    tasks, lendable = quarter()
    cards = np.full(NODES, CARDS, np.int64)
    rows = []
    for name in ("gfs", "yarn-cs"):
        found: SpotRun | None = None

        def replay(name: str = name) -> None:
            nonlocal found
            found = simulate_spot(
                cards, tasks, SCHEDULERS[name], lendable_gpus=lendable, horizon_s=2 * DAYS * 86_400
            )

        replay()
        assert found is not None and found.evictions.sum() > 1000  # there is something to decide
        rows.append(
            {
                "work": f"lending: {TASKS:,} tasks on {NODES} nodes over {DAYS} days, {name}, CPU",
                "ours_s": min(elapsed_s(replay, time.process_time) for _ in range(2)),
                "bar": "<= 1 s" if name == "gfs" else "-",
            }
        )
    demand = six_months()
    rows.append(
        {
            "work": f"forecast: {SERIES} series of {HOURS:,} h, all models, training included",
            "ours_s": elapsed_s(lambda: forecast(demand, STEPS), time.perf_counter),
            "bar": "<= 10 s",
        }
    )
    return rows
