"""Traces for the tests of gpuplan pareto, and its JSON results."""

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files

import polars as pl

# Jobs per application of the first newTrace sample (Sia artifact), 48 h.
NEWTRACE_1 = {"cifar10": 484, "deepspeech2": 226, "bert": 208, "yolov3": 36, "imagenet": 6}

FREE = ("--rescale", "0")  # restarts cost nothing, as in the paper and in calculations by hand


def write_newtrace(folder):
    """Write a trace with the classes of newTrace, evenly spread, without durations."""
    names = [name for name, count in NEWTRACE_1.items() for _ in range(count)]
    start = datetime(1970, 1, 1, tzinfo=UTC)
    submit = [start + timedelta(seconds=179 * i) for i in range(len(names))]
    frame = pl.DataFrame({"submit_time": submit, "job_class": names}).with_columns(
        num_gpus=pl.lit(4.0), duration_s=pl.lit(None, pl.Float64)
    )
    path = folder / "newtrace.parquet"
    frame.write_parquet(path)
    return path


def write_hours(folder):
    """Write a trace of 100 jobs of an hour on one GPU, one every half hour: 2 GPUs of load."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    frame = pl.DataFrame({"submit_time": [start + timedelta(hours=i / 2) for i in range(100)]})
    path = folder / "hours.parquet"
    frame.with_columns(duration_s=pl.lit(3600.0), num_gpus=pl.lit(1.0)).write_parquet(path)
    return path


def write_seren(gpuplan, folder):
    """Ingest the sample like Seren's log that comes with gpuplan."""
    path = folder / "seren.parquet"
    with as_file(files("gpuplan.sample_traces") / "seren.csv") as log:
        assert gpuplan("ingest", log, "-o", path)[0] == 0
    return path


def results(gpuplan, *arguments):
    """Run the command and return what stands under results."""
    code, out, err = gpuplan("pareto", *arguments, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]
