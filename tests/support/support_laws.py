"""Random traces, and what each command says of them, for laws that relate two runs."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from support_traces import frame, write

SEEDS = [pytest.param(seed, marks=() if seed < 3 else pytest.mark.slow) for seed in range(15)]
"""Fifteen traces; make test takes three of them, make test-slow the others."""


def jobs_of(seed: int) -> pl.DataFrame:
    """Return 40 to 160 jobs of three groups in ten days, submitted at different seconds."""
    rng = np.random.default_rng([seed, 23])
    count = int(rng.integers(40, 160))
    submit_s = np.sort(rng.choice(10 * 86_400, count, replace=False))
    duration_s = np.ceil(np.minimum(rng.lognormal(np.log(1800), 1.8, count), 200_000))
    duration_s[rng.random(count) < 0.05] = 0
    return frame(
        submit_s,
        duration_s=duration_s,
        num_gpus=rng.choice([1.0, 1.0, 2.0, 4.0, 8.0], count),
        job_id=[f"job-{number:04}" for number in range(count)],
        user=rng.choice([f"user-{number}" for number in range(7)], count),
        group=rng.choice(["nlp", "speech", "vision"], count),
        job_class=rng.choice(["bert", "gpt", "resnet"], count),
        queue_s=np.round(rng.exponential(900.0, count)),
        state=rng.choice(["completed", "failed"], count),
    )


class Runs:
    """Runs commands on frames and returns their results."""

    def __init__(self, gpuplan, folder):
        self.gpuplan, self.folder = gpuplan, folder

    def run(self, command: str, jobs: pl.DataFrame, *options: str):
        """Return what stands under ``results`` in the JSON of a command."""
        trace = write(self.folder / "trace.parquet", jobs)
        code, out, err = self.gpuplan(command, trace, *options, "--output-format", "json", "-q")
        assert code == 0, err
        return json.loads(out)["results"]

    def replay(self, jobs: pl.DataFrame, policy: str, cluster: int, *options: str) -> pl.DataFrame:
        """Return a row per job as ``simulate`` replays it, by ``job_id``."""
        rows = self.folder / "rows.parquet"
        size = ("--policy", policy, "--cluster", str(cluster))
        self.run("simulate", jobs, *size, *options, "-o", str(rows))
        return pl.read_parquet(rows).sort("job_id")


def numbers(value, path=""):
    """Yield the path and value of each number in nested results."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{path}.{key}")
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from numbers(part, f"{path}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
