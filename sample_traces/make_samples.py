"""Make the sample traces from one seed: ``make samples``, or ``python -m ...make_samples DIR``.

Nothing in them was recorded: every row is drawn here. Durations are stratified draws from a
quantile function through published statistics, its tail chosen so that the mean is the published
one; arrivals follow a day and a week and come in bursts of one user.

Sources of the statistics. Seren and W&B: mean, median and P90 (1208, 22, 765 s and 630, 32, 2025 s)
in Allpass, Table 1. Philly: mean and median of its GPU jobs (18,006 and 874 s) in the summary of
AcmeTrace (NSDI 2024), further quantiles read off its CDF figure; GPU counts, states from there too.
Prices: the ranges of Allpass, Table 2.

Only ``Generator.random`` is used, whose stream NumPy keeps stable, so that the files come out byte
for byte the same everywhere.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuplan.sample_traces.kubernetes_site import site_files, site_jobs
from gpuplan.sample_traces.kubernetes_views import view_files

SEED = 20261120
DAY_S = 86400.0
HOUR_WEIGHTS = (3, 2, 2, 1, 1, 1, 2, 4, 7, 10, 12, 12, 9, 10, 12, 13, 12, 11, 9, 8, 8, 7, 6, 4)
WEEKDAY_WEIGHTS = (11, 12, 12, 12, 11, 6, 5)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DurationShape:
    """A distribution by its published quantiles and mean.

    Attributes:
        quantiles: (probability, seconds), ascending; the last one starts the tail.
        mean_s: mean in seconds.
    """

    quantiles: tuple[tuple[float, float], ...]
    mean_s: float


SEREN = DurationShape(((0, 1), (0.25, 8), (0.5, 22), (0.8, 330), (0.9, 765)), 1208)
WANDB = DurationShape(((0, 1), (0.4, 12), (0.5, 32), (0.8, 560), (0.9, 2025)), 630)
PHILLY = DurationShape(
    ((0, 8), (0.19, 64), (0.36, 512), (0.5, 874), (0.67, 2048), (0.79, 4096), (0.9, 15830)), 18006
)


def draw_durations(rng: np.random.Generator, shape: DurationShape, count: int) -> FloatArray:
    """Return whole seconds in random order, shape (count,), with the quantiles and the mean.

    One draw per stratum; log-linear between the quantiles and in the tail, whose end is found by
    bisection so that the sample mean is ``shape.mean_s``.
    """
    levels = (np.arange(count) + rng.random(count)) / count
    low, high = shape.quantiles[-1][1], 1e9
    for _ in range(100):
        end = (low * high) ** 0.5
        probability, seconds = np.array([*shape.quantiles, (1.0, end)]).T
        drawn = np.exp(np.interp(levels, probability, np.log(seconds)))
        low, high = (end, high) if drawn.mean() < shape.mean_s else (low, end)
    shuffled: FloatArray = np.round(drawn)[np.argsort(rng.random(count))]
    return shuffled


def draw_submissions(
    rng: np.random.Generator, count: int, days: int, burst_mean: float
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return ascending seconds after the first midnight and the burst each job belongs to.

    Bursts begin by the hour-of-day and weekday weights; their jobs follow each other by about 40 s.
    """
    hours = np.arange(days * 24)
    weights = np.array(HOUR_WEIGHTS)[hours % 24] * np.array(WEEKDAY_WEIGHTS)[hours // 24 % 7]
    edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    starts = np.interp(
        rng.random(max(1, round(count / burst_mean))), edges, np.arange(hours.size + 1)
    )
    burst = (rng.random(count) * starts.size).astype(np.int64)
    order = np.argsort(rng.random(count))
    place = np.zeros(count)  # position of each job in its burst
    seen: dict[int, int] = {}
    for job in order:
        place[job] = seen.setdefault(int(burst[job]), 0)
        seen[int(burst[job])] += 1
    gap_s = -40 * np.log1p(-rng.random(count))
    submit = np.round(starts[burst] * 3600 + place * 40 + gap_s)
    ascending = np.argsort(submit, kind="stable")
    return submit[ascending], burst[ascending]


def pick(rng: np.random.Generator, count: int, choices: Mapping[str, float]) -> list[str]:
    """Return ``count`` names drawn with the given weights."""
    edges = np.cumsum(list(choices.values())) / sum(choices.values())
    names = list(choices)
    return [names[int(position)] for position in np.searchsorted(edges, rng.random(count), "right")]


def code(rng: np.random.Generator, letters: int) -> str:
    """Return a random name of lower-case hexadecimal letters."""
    return "".join("0123456789abcdef"[int(16 * draw)] for draw in rng.random(letters))


def seren_csv(rng: np.random.Generator, count: int = 2000) -> str:
    """Return a Seren-like table: CSV with the columns of AcmeTrace's ``trace_seren.csv``."""
    submit, burst = draw_submissions(rng, count, days=14, burst_mean=3.0)
    duration = draw_durations(rng, SEREN, count)
    users = ["u" + code(rng, 4) for _ in range(40)]
    kinds = {"Eval": 30, "Debug": 22, "Other": 34, "SFT": 6, "MLLM": 5, "Pretrain": 3}
    states = {"COMPLETED": 46.1, "FAILED": 33.9, "CANCELLED": 10.2, "PREEMPTED": 9.7}
    gpus = pick(rng, count, {"0": 45, "1": 30, "2": 6, "4": 2, "8": 15.5, "16": 0.8, "32": 0.7})
    kind = pick(rng, count, kinds)
    state = pick(rng, count, states)
    queue = np.round(-30 * np.log1p(-rng.random(count)) * (rng.random(count) < 0.4))
    origin = datetime(2023, 3, 6)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,"
        "duration,queue,gpu_time".split(",")
    )
    for row in range(count):
        wide = int(gpus[row])
        moments = np.cumsum([submit[row], queue[row], duration[row]])
        times = [f"{origin + timedelta(seconds=float(moment))}+08:00" for moment in moments]
        writer.writerow(
            [
                6000001 + row,
                users[int(burst[row] * 7919 % len(users))],
                max(1, wide // 8),
                wide,
                max(4, 16 * wide),
                kind[row],
                state[row],
                *times,
                int(duration[row]),
                int(queue[row]),
                float(duration[row] * wide),
            ]
        )
    return stream.getvalue()


def wandb_csv(rng: np.random.Generator, count: int = 500) -> str:
    """Return a runs-table export as Weights & Biases writes it: every field quoted."""
    submit, burst = draw_submissions(rng, count, days=60, burst_mean=4.0)
    duration = draw_durations(rng, WANDB, count)
    gpus = pick(rng, count, {"1": 70, "2": 10, "4": 12, "8": 8})
    state = pick(rng, count, {"finished": 70, "failed": 12, "crashed": 12, "killed": 6})
    method = pick(rng, count, {"lora": 55, "qlora": 25, "full": 20})
    users = [f"user-{letter}" for letter in "abcdefghijklm"]
    words = [("amber", "lake"), ("brisk", "river"), ("calm", "field"), ("deft", "stone")]
    origin = datetime(2025, 2, 3)
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    header = "Name,State,Notes,User,Tags,Created,Runtime,Sweep,ID,method,num_gpus,train/loss"
    writer.writerow(header.split(","))
    for row in range(count):
        adjective, noun = words[int(burst[row]) % len(words)]
        created = origin + timedelta(seconds=float(submit[row]))
        writer.writerow(
            [
                f"{adjective}-{noun}-{row + 1}",
                state[row],
                "-",
                users[int(burst[row]) % len(users)],
                "",
                f"{created:%Y-%m-%dT%H:%M:%S}.000Z",
                int(duration[row]),
                "",
                code(rng, 8),
                method[row],
                gpus[row],
                f"{0.5 + rng.random():.4f}",
            ]
        )
    return stream.getvalue()


def philly_json(rng: np.random.Generator, count: int = 500) -> str:
    """Return a Philly-like job log: JSON with attempts, some jobs retried, some never started."""
    submit, burst = draw_submissions(rng, count, days=28, burst_mean=2.0)
    never = rng.random(count) < 0.03
    duration = np.zeros(count)
    duration[~never] = draw_durations(rng, PHILLY, int((~never).sum()))
    gpus = pick(rng, count, {"1": 82.4, "2": 2.1, "4": 7.6, "8": 6.8, "16": 0.9, "32": 0.2})
    status = pick(rng, count, {"Pass": 60.4, "Killed": 9.0, "Failed": 30.5})
    attempts = pick(rng, count, {"1": 85, "2": 10, "3": 5})
    users = [code(rng, 6) for _ in range(30)]
    clusters = [code(rng, 6) for _ in range(5)]
    origin = datetime(2017, 9, 4)
    jobs = []
    for row in range(count):
        begin = submit[row] + round(60 * float(rng.random()))
        runs = [] if never[row] else _split(duration[row], int(attempts[row]))
        log = []
        for length in runs:
            log.append(
                {
                    "start_time": str(origin + timedelta(seconds=float(begin))),
                    "end_time": str(origin + timedelta(seconds=float(begin + length))),
                    "detail": _servers(int(gpus[row]), row),
                }
            )
            begin += length + 10
        jobs.append(
            {
                "status": "Killed" if never[row] else status[row],
                "vc": clusters[int(burst[row]) % len(clusters)],
                "jobid": f"application_15{row:011d}_{row:04d}",
                "attempts": log,
                "submitted_time": str(origin + timedelta(seconds=float(submit[row]))),
                "user": users[int(burst[row]) % len(users)],
            }
        )
    return "[" + ",\n ".join(json.dumps(job) for job in jobs) + "]\n"


def _split(duration: float, parts: int) -> list[float]:
    """Return whole seconds that add up to ``duration``; short jobs are not split."""
    if duration < 60 or parts == 1:
        return [duration]
    head = float(duration // (2 * parts))
    return [head] * (parts - 1) + [duration - head * (parts - 1)]


def _servers(gpus: int, row: int) -> list[dict[str, object]]:
    return [
        {
            "ip": f"m{(row + node) % 90 + 1}",
            "gpus": [f"gpu{gpu}" for gpu in range(min(8, gpus - 8 * node))],
        }
        for node in range((gpus + 7) // 8)
    ]


def prices_csv(rng: np.random.Generator, days: int = 56) -> str:
    """Return price snapshots every six hours in the canonical columns."""
    fixed = {
        ("modal", "A100-80GB", "serverless"): 2.10,
        ("modal", "H100-80GB", "serverless"): 3.96,
        ("lambda", "A100-80GB", "on_demand"): 1.29,
        ("lambda", "H100-80GB", "on_demand"): 2.49,
    }
    moving = {  # (low, median, high), offers
        ("vast.ai", "A100-80GB", "marketplace"): ((0.38, 1.08, 1.66), 50),
        ("vast.ai", "H100-80GB", "marketplace"): ((1.53, 2.05, 2.62), 50),
    }
    origin = datetime(2025, 3, 3)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available".split(",")
    )
    level = dict.fromkeys(moving, 0.5)
    for step in range(days * 4):
        moment = f"{origin + timedelta(hours=6 * step):%Y-%m-%dT%H:%M:%SZ}"
        for (provider, gpu, kind), price in fixed.items():
            writer.writerow([moment, provider, gpu, "", kind, f"{price:.2f}", ""])
        for series, (quantiles, offers) in moving.items():
            drift = 0.2 * (0.5 - level[series]) + 0.25 * (rng.random() - 0.5)
            level[series] = min(1.0, max(0.0, level[series] + drift))
            price = float(np.interp(level[series], (0, 0.5, 1), quantiles))
            available = round(offers + 20 * (rng.random() - 0.5))
            provider, gpu, kind = series
            writer.writerow([moment, provider, gpu, "", kind, f"{price:.3f}", available])
    return stream.getvalue()


def profile_csv(item_s: float, fixed_s: float, flat: float) -> str:
    """Return a measured table by a formula: batch, percent of the SMs, seconds, items per second.

    A batch takes ``fixed_s`` and ``item_s`` for each item on the whole GPU, and no more SMs than
    ``flat`` + 4% for each item are of use.
    """
    lines = []
    for batch in (1, 2, 4, 8, 16, 32):
        useful = min(1.0, flat + 0.04 * batch)
        for percent in range(10, 101, 10):
            time_s = (fixed_s + item_s * batch) * max(1.0, useful / (percent / 100))
            lines.append(f"{batch},{percent},{time_s:.6f},{batch / time_s:.6f}")
    return "\n".join(lines) + "\n"


def requests_csv(rng: np.random.Generator, seconds: int = 300) -> str:
    """Return requests of each second: a slow swing with two bursts."""
    at = np.arange(seconds)
    rate = 30 * (1 + 0.5 * np.sin(2 * np.pi * at / 150))
    rate[(at >= 90) & (at < 135)] *= 3.2
    rate[(at >= 220) & (at < 228)] *= 3
    return "\n".join(str(count) for count in rng.poisson(rate)) + "\n"


def instances_csv(rng: np.random.Generator, count: int = 200) -> str:
    """Return instances that share GPUs: six of ten serve, two are LLMs, two train."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["name", "type", "gpus", "request", "limit", "memory_gb", "start_s", "end_s"])
    start_s = 0.0
    for number in range(1, count + 1):
        start_s += rng.exponential(5.0)
        kind = ("inference", "llm-inference", "training")[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
        gpus = int(rng.choice([2, 4])) if kind == "training" else 1
        least, most, memory = {
            "inference": (20, 40, (3, 10)),
            "llm-inference": (35, 50, (20, 30)),
            "training": (40, 70, (25, 35)),
        }[kind]
        request = int(rng.integers(least, most + 1))
        limit = min(100, request + int(rng.integers(15, 35)))
        held_gb = int(rng.integers(memory[0], memory[1] + 1))
        end_s = start_s + max(30.0, rng.exponential(300.0))
        shares = [f"{request / 100:g}", f"{limit / 100:g}", held_gb]
        rows.writerow([f"{kind}-{number}", kind, gpus, *shares, f"{start_s:.0f}", f"{end_s:.0f}"])
    return stream.getvalue()


def make_samples(folder: Path) -> list[Path]:
    """Write every sample to ``folder`` and return the paths."""
    seeds = np.random.SeedSequence(SEED).spawn(7)
    rngs = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
    jobs = site_jobs(rngs[6])
    texts = {
        "seren.csv": seren_csv(rngs[0]),
        "wandb_export.csv": wandb_csv(rngs[1]),
        "philly.json.gz": philly_json(rngs[2]),
        "gpu_prices.csv": prices_csv(rngs[3]),
        "service_profile.csv": profile_csv(0.0012, 0.006, 0.2),
        "training_profile.csv": profile_csv(0.004, 0.02, 0.5),
        "requests.csv": requests_csv(rngs[4]),
        "shared_instances.csv": instances_csv(rngs[5]),
        **site_files(jobs),
        **view_files(jobs),
    }
    written = []
    for name, text in texts.items():
        data = text.encode()
        if name.endswith(".gz"):
            data = gzip.compress(data, mtime=0)
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        written.append(path)
    return written


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for sample in make_samples(target):
        sys.stdout.write(f"{sample.relative_to(target)}: {sample.stat().st_size:,} bytes\n")
