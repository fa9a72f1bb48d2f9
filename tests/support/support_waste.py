"""Answers of ``gpuplan waste``, and logs with columns of utilization."""

import json

import polars as pl


def answer(gpuplan, *words, code=0):
    exit_code, out, err = gpuplan("waste", *words, "--output-format", "json")
    assert exit_code == code, err
    return json.loads(out)["results"] if code == 0 else err


def use(util, idle, coverage=None):
    """Return the columns of a trace that tell what GPUs did; None where it is not known."""
    known = [0.0 if each is None else 1.0 for each in util]
    return {
        "gpu_util_mean": pl.Series(util, dtype=pl.Float64),
        "gpus_idle": pl.Series(idle, dtype=pl.Float64),
        "gpu_util_coverage": pl.Series(coverage or known, dtype=pl.Float64),
        "gpu_util_source": ["jobstats" if each else None for each in known],
    }
