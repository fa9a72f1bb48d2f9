"""Waste: a million jobs with summaries in their comments, and fifty million samples of GPUs.

The reference of the summaries is their decoding alone: base64, gzip, and the figures of each GPU
read by a typed decoder, one process. That of the series is one pass over the bytes of the file.
Each of our rows is the whole command in a process of its own, its wall clock.
"""

import base64
import json
import tempfile
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.bars import Row
from benchmarks.processes import measured

JOBS, MONTHS, NODES = 1_000_000, 6, 200
SERIES_NODES, GPUS, SAMPLES, STEP_S = 124, 8, 16_800, 36
METRICS = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
SERIES_JOBS = 20_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GIB, GZIP = 2**30, 31
COLUMNS = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|"
    "NNodes|AllocTRES|NodeList|AdminComment\n"
)


class NodeFigures(msgspec.Struct):
    """What a summary says of the GPUs of a node."""

    gpu_utilization: dict[str, float]
    gpu_used_memory: dict[str, int]
    gpu_total_memory: dict[str, int]


class Summary(msgspec.Struct):
    """What a summary says of its job."""

    nodes: dict[str, NodeFigures]


def summary(rng: np.random.Generator, node: str, gpus: int, run_s: int) -> str:
    """Return what jobstats writes of a job on one node."""
    percents = np.zeros(gpus) if rng.random() < 0.08 else np.round(rng.uniform(5, 99, gpus), 1)
    used = rng.integers(GIB, 70 * GIB, gpus)
    figures = {
        "cpus": 8 * gpus,
        "total_time": 3 * run_s,
        "used_memory": int(used[0]),
        "total_memory": 128 * GIB * gpus,
        "gpu_utilization": {str(gpu): float(percents[gpu]) for gpu in range(gpus)},
        "gpu_used_memory": {str(gpu): int(used[gpu]) for gpu in range(gpus)},
        "gpu_total_memory": {str(gpu): 80 * GIB for gpu in range(gpus)},
    }
    document = {"gpus": gpus, "total_time": run_s, "nodes": {node: figures}}
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    data = packer.compress(json.dumps(document).encode()) + packer.flush()
    return "JS1:" + base64.b64encode(data).decode()


def write_log(path: Path, jobs: int, months: int, *, has_summaries: bool) -> list[str]:
    """Write what sacct prints of jobs on one node each; returns their summaries."""
    rng = np.random.default_rng(0)
    submit_s = np.sort(rng.integers(0, months * 30 * 86_400, jobs))
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[0.6, 0.15, 0.15, 0.1])
    run_s = np.minimum(rng.lognormal(7, 1.5, jobs), 3e5).astype(int) + 60
    wait_s = rng.integers(0, 3600, jobs)
    comments = []
    with path.open("w") as target:
        target.write(COLUMNS)
        for job in range(jobs):
            held, ran, node = int(gpus[job]), int(run_s[job]), f"n{job % NODES:03d}"
            submit = BEGIN + timedelta(seconds=int(submit_s[job]))
            start = submit + timedelta(seconds=int(wait_s[job]))
            comment = summary(rng, node, held, ran) if has_summaries else ""
            comments.append(comment)
            target.write(
                f"{job}|u{job % 60}|a{job % 6}|p{job % 3}|normal|COMPLETED|{submit:%FT%T}|"
                f"{submit:%FT%T}|{start:%FT%T}|{start + timedelta(seconds=ran):%FT%T}|{ran}|"
                f"1-00:00:00|1|cpu={8 * held},gres/gpu:a100={held},gres/gpu={held},node=1|"
                f"{node}|{comment}\n"
            )
    return comments


def write_series(path: Path) -> None:
    """Write what Prometheus answers: three metrics of each GPU, the same samples for all."""
    rng = np.random.default_rng(0)
    begin = int(BEGIN.timestamp())
    times = [begin + STEP_S * at for at in range(SAMPLES)]
    values = (rng.random(SAMPLES), 100 * rng.random(SAMPLES), 80_000 * rng.random(SAMPLES))
    with path.open("w") as target:
        target.write('{"status":"success","data":{"resultType":"matrix","result":[')
        separator = ""
        for name, column in zip(METRICS, values, strict=True):
            samples = ",".join(
                f'[{at},"{value:.3f}"]' for at, value in zip(times, column, strict=True)
            )
            for number in range(SERIES_NODES * GPUS):
                labels = {
                    "__name__": name,
                    "Hostname": f"n{number // GPUS:03d}",
                    "gpu": str(number % GPUS),
                }
                target.write(f'{separator}{{"metric":{json.dumps(labels)},"values":[{samples}]}}')
                separator = ","
        target.write("]}}")


def decoded_s(comments: list[str]) -> float:
    """Return the seconds that the summaries take alone."""
    decoder = msgspec.json.Decoder(Summary)
    begin = time.perf_counter()
    for comment in comments:
        decoder.decode(zlib.decompress(base64.b64decode(comment[4:]), GZIP))
    return time.perf_counter() - begin


def read_s(path: Path) -> float:
    """Return the seconds of one pass over the bytes of a file."""
    begin = time.perf_counter()
    with path.open("rb") as source:
        while part := source.read(1 << 24):
            part.count(b"[")
    return time.perf_counter() - begin


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        log, series = Path(folder) / "sacct.txt", Path(folder) / "series.json"
        comments = write_log(log, JOBS, MONTHS, has_summaries=True)
        rows = [
            row(
                f"gpuplan waste, {JOBS:,} jobs with summaries",
                measured("waste", str(log), "--price", "1.29", "--quiet"),
                decoded_s(comments),
                "<= 10 s",
            )
        ]
        log.unlink()
        write_log(log, SERIES_JOBS, 1, has_summaries=False)
        write_series(series)
        samples = len(METRICS) * SERIES_NODES * GPUS * SAMPLES
        command = ("waste", str(log), "--metrics", str(series), "--price", "1.29", "--quiet")
        work = f"gpuplan waste, {SERIES_JOBS:,} jobs, {samples:,} samples"
        return [*rows, row(work, measured(*command), read_s(series), "<= 60 s, <= 1000 MB")]


def row(work: str, ours: tuple[float, float], reference_s: float, bar: str) -> Row:
    ours_s, peak_mb = ours
    return {
        "work": work,
        "ours_s": ours_s,
        "reference_s": reference_s,
        "ratio": ours_s / reference_s,
        "bar": bar,
        "peak_mb": peak_mb,
    }


if __name__ == "__main__":
    for measured_row in run():
        print(measured_row)
