"""Series of what GPUs did, and a log with summaries, of the sample site."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, datetime
from functools import cache

from fuzz.corpus import ROOT

SITE = ROOT / "sample_traces" / "slurm_site"
ROWS = 90
STEP_S = 1800
SAMPLES = 96
DCGM = (
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.01),
    ("DCGM_FI_DEV_GPU_UTIL", 1.0),
    ("DCGM_FI_DEV_FB_USED", 300.0),
    ("DCGM_FI_DEV_POWER_USAGE", 4.0),
)
GPUS = 4


@cache
def metric_files() -> dict[str, bytes]:
    """Return a log with summaries of jobstats, and two days of series of its nodes and a job."""
    text = gzip.decompress((SITE / "sacct_jobstats.txt.gz").read_bytes())
    log = b"".join(text.splitlines(keepends=True)[:ROWS])
    rows = list(csv.DictReader(io.StringIO(log.decode()), delimiter="|"))
    ran = [row for row in rows if row["NodeList"].isalnum() and "gpu" in row["AllocTRES"]]
    nodes = sorted({row["NodeList"] for row in ran})[:3]
    begin = datetime.fromisoformat(min(row["Start"] for row in ran)).replace(tzinfo=UTC)
    times = [int(begin.timestamp()) + STEP_S * i for i in range(SAMPLES)]
    return {
        "sacct.txt": log,
        "dcgm.json": _dcgm(nodes, times),
        f"{nodes[0]}.csv": _nvidia_smi(times),
        f"{ran[0]['JobID']}.jsonl": _wandb(times),
        "book.toml": b'[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.5\n',
    }


def _percent(gpu: int, place: int) -> int:
    return 0 if gpu == 1 or place % 48 > 40 else (7 * place + 13 * gpu) % 100


def _dcgm(nodes: list[str], times: list[int]) -> bytes:
    result = [
        {
            "metric": {"__name__": name, "Hostname": node, "gpu": str(gpu)},
            "values": [[at, f"{factor * _percent(gpu, i):g}"] for i, at in enumerate(times)],
        }
        for node in nodes
        for gpu in range(GPUS)
        for name, factor in DCGM
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(answer).encode()


def _nvidia_smi(times: list[int]) -> bytes:
    lines = ["timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]"]
    for place, at in enumerate(times):
        shown = f"{datetime.fromtimestamp(at, UTC):%Y/%m/%d %H:%M:%S}.000"
        lines += [
            f"{shown}, {gpu}, {_percent(gpu, place)} %, {300 * gpu} MiB, 88.1 W"
            for gpu in range(GPUS)
        ]
    return ("\n".join(lines) + "\n").encode()


def _wandb(times: list[int]) -> bytes:
    lines = [
        json.dumps(
            {"_timestamp": at, "system.gpu.0.gpu": _percent(0, i), "system.gpu.0.powerWatts": 90.5}
        )
        for i, at in enumerate(times)
    ]
    return ("\n".join(lines) + "\n").encode()
