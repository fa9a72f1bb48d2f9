"""Series of GPU metrics in the formats that are read, and logs whose jobs they are of."""

import json
from pathlib import Path

import polars as pl

from gpuplan.analysis.job_table.schema import CANONICAL, Provenance
from gpuplan.analysis.trace.trace import Trace

T0 = 1_790_000_000
"""Begin of the logs, seconds since 1970."""
HOUR = 3600
ENGINE, UTIL, FB, FREE, POWER, TENSOR = (
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
)  # fmt: skip


def series(name, node, gpu, points, **labels):
    """Return a series of (seconds after `T0`, value)."""
    metric = {"__name__": name, "Hostname": node, "gpu": str(gpu), **labels}
    return {"metric": metric, "values": [[T0 + at, str(value)] for at, value in points]}


def every(step, begin, end, value):
    """Return samples of a value, or of a function of the seconds, from begin up to end."""
    number = value if callable(value) else (lambda _at: value)
    return [(at, number(at)) for at in range(begin, end + 1, step)]


def answer(*all_series):
    """Return what Prometheus answers."""
    data = {"resultType": "matrix", "result": list(all_series)}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":"))


def trace(*jobs):
    """Return a log of jobs: id, node list, begin and end in seconds after `T0`, GPUs."""
    names = ("job_id", "node_list", "begin", "end", "num_gpus")
    frame = pl.DataFrame([dict(zip(names, job, strict=True)) for job in jobs]).sort("begin")
    values = {
        "submit_time": pl.from_epoch(T0 + pl.col("begin")).dt.replace_time_zone("UTC"),
        "queue_s": pl.lit(0.0),
        "duration_s": pl.col("end") - pl.col("begin"),
        "num_gpus": pl.col("num_gpus"),
        "job_id": pl.col("job_id"),
        "state": pl.lit("completed"),
    }
    columns = [
        values.get(name, pl.lit(None)).cast(kind).alias(name) for name, kind in CANONICAL.items()
    ]
    rows = frame.select(*columns, "node_list")
    return Trace(rows, Path("log"), "", rows.height, Provenance("slurm"))
