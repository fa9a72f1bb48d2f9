"""Originals that tests of synthetic traces fit models to, and a way to draw from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import support_traces

from gpuplan.analysis.job_table.schema import Provenance
from gpuplan.analysis.synth import Request, Synthesis, WorkloadModel, fit_model, synthesize
from gpuplan.analysis.synth.compare import ComparedStatistic
from gpuplan.analysis.synth.write import RECORDED
from gpuplan.analysis.trace.trace import Trace

KEY = ["submit_time", "duration_s", "num_gpus"]
ZONE = Provenance(source_format="canonical", time_zone="+08:00")


def poisson(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.cumsum(rng.exponential(60, count))


def regular(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.arange(count) * 60.0


def bursty(rng: np.random.Generator, count: int) -> np.ndarray:
    """Bursts of about 20 jobs some seconds apart, an hour between them; some at once."""
    gaps = np.where(
        rng.random(count) < 0.05, rng.exponential(3600, count), rng.exponential(2, count)
    )
    return np.cumsum(np.floor(gaps))


def working_hours(rng: np.random.Generator, count: int) -> np.ndarray:
    """Jobs one by one over 8 weeks, four times as many an hour in the day, few on two days."""
    hours = np.arange(24 * 7 * 8)
    rate = np.where((hours % 24 >= 8) & (hours % 24 < 18), 4.0, 1.0)
    rate *= np.where(hours // 24 % 7 >= 5, 0.2, 1.0)
    chosen = rng.choice(hours, count, p=rate / rate.sum())
    return np.sort((chosen + rng.random(count)) * 3600.0)


def without_rhythm(model: WorkloadModel) -> WorkloadModel:
    """Return a model whose jobs come at any hour and on any day alike."""
    flat = replace(model.arrivals, by_hour=(1.0,) * 24, by_weekday=(1.0,) * 7)
    return replace(model, arrivals=flat)


def regardless_of_crowds(model: WorkloadModel) -> WorkloadModel:
    """Return a model whose jobs are alike in busy and in quiet times."""
    habits = model.habits
    size, duration, wait = (
        replace(part, crowd=()) for part in (habits.size, habits.duration, habits.wait)
    )
    return replace(model, habits=replace(habits, size=size, duration=duration, wait=wait))


def lonely_giants() -> Trace:
    """Return 70 bursts of 100 short narrow jobs, and 1,000 long wide ones at any time."""
    rng = np.random.default_rng(1)
    days_s = 40 * 86400
    begin = rng.uniform(0, days_s, 70)
    burst = (begin[:, None] + rng.exponential(20, (70, 100)).cumsum(axis=1)).ravel()
    submit = np.concatenate([burst, rng.uniform(0, days_s, 1000)])
    order = np.argsort(submit, kind="stable")
    giant, count = order >= burst.size, submit.size
    duration = np.where(giant, rng.lognormal(9.5, 1, count), rng.lognormal(5, 0.7, count))
    return workload(
        count,
        arrivals=lambda *_: submit[order],
        duration_s=np.rint(duration),
        num_gpus=np.where(giant, rng.choice([2.0, 4.0, 8.0], count), 1.0),
        job_class=["Any"] * count,
        queue_s=np.zeros(count),
    )


def workload(count: int = 6000, seed: int = 1, arrivals=bursty, **columns) -> Trace:
    """Return a trace of two classes, six users in two groups, with states, waits and a tail."""
    rng = np.random.default_rng(seed)
    wide = rng.random(count) < 0.3
    gpus = np.where(wide, rng.choice([8.0, 16.0], count), rng.choice([0.0, 1.0, 2.0], count))
    user = np.repeat(rng.choice(6, count // 4 + 1, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05]), 4)[:count]
    duration = np.rint(np.exp(rng.normal(np.where(wide, 8, 5) + 0.5 * (user % 3), 1.5)))
    state = np.where(rng.random(count) < np.where(duration > 600, 0.2, 0.6), "completed", "failed")
    made = {
        "duration_s": duration,
        "num_gpus": gpus,
        "num_workers": np.where(gpus > 8, 2, 1),
        "queue_s": np.where(rng.random(count) < 0.4, 0.0, np.rint(rng.exponential(90, count))),
        "state": state,
        "user": [f"u{n}" for n in user],
        "group": [f"g{n // 3}" for n in user],
        "job_class": np.where(wide, "Pretrain", "Eval"),
        "gpu_type": np.where(wide, "A100-80GB", "V100"),
        "attempts": np.where(rng.random(count) < 0.9, 1, 2),
        "priority": [None] * count,
    }
    made |= columns
    submit = np.floor(arrivals(rng, count))
    frame = support_traces.frame(submit, **{k: v for k, v in made.items() if v is not None})
    return support_traces.in_memory(frame, ZONE)


@cache
def usual() -> Trace:
    """Return the trace that most tests imitate, which they only read."""
    return workload()


@cache
def usual_model() -> WorkloadModel:
    """Return the model of the usual trace."""
    return fit_model(usual())


def synthetic(trace: Trace, path: Path, jobs: int | None = None, **request) -> Synthesis:
    """Fit a model to a trace, draw from it and write the file."""
    model = usual_model() if trace is usual() else fit_model(trace)
    wanted = Request(jobs or trace.jobs.height, **request)
    recorded = trace.jobs.select(RECORDED)
    return synthesize(model, wanted, path, recorded=recorded)


def rows(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


def by_key(result: Synthesis) -> dict[str, ComparedStatistic]:
    return {row.statistic: row for row in result.compared}
