"""Samples of 200 jobs for Allpass' evaluation, and the results of each policy on one.

Source: "Allpass", section 5.1. Its words and its figures do not describe the same jobs, so there is
more than one reading of them: see `READINGS` and docs/allpass-paper.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.synth import Request, preset_model, synthesize
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.trace_jobs import COLUMNS, TraceJobs, jobs_of
from gpuplan.simkit.time import MICROS

JOBS, POOL = 200, 20_000  # sampled, out of so many
WORKERS = 30
LONGEST_S = 41_940.0
"""11.65 hours: $258.54, the bill of Tiresias, is 30 workers for so long at $0.74 an hour."""
CONTAINERS = 200


LIMITED = "Allpass, 30 workers"
FEW = f", {CONTAINERS} containers"
SOON, COST, MEAN = "finished_within_10min_share", "cost_usd", "mean_jct_s"
PERCENTILES = (5, 25, 50, 75, 90, 95, 99)
PAID, HOURLY = "mean_marketplace_usd_per_gpu_h", "mean_usd_per_gpu_h"


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read how the paper's jobs were made; all use at most a node, 8 GPUs.

    Attributes:
        about: it, in words.
        scale_duration: factor on run times.
        dense: divide the gaps between all jobs of the trace by 15, not those of the sample.
        longest_s: leave out jobs of the trace that ran longer.
    """

    about: str
    scale_duration: float
    dense: bool
    longest_s: float = np.inf


READINGS = {
    "as stated": Reading("run times / 5, gaps of the sample / 15", 0.2, dense=False),
    "dense": Reading("run times / 5, gaps of the whole trace / 15", 0.2, dense=True),
    "full length": Reading(
        "run times up to 11.65 h as recorded, gaps of the whole trace / 15", 1.0, True, LONGEST_S
    ),
}


def seren_trace(folder: Path) -> Path:
    """Write a trace like Seren's, as ``gpuplan synth --preset seren --jobs 20000`` does."""
    path = folder / "seren.parquet"
    synthesize(preset_model("seren"), Request(POOL, seed=0), path)
    return path


def sample(trace: Path, reading: Reading, seed: int) -> TraceJobs:
    """Draw 200 jobs, and deadlines between 1 and 10 times their run times."""
    squeeze = 1 / 15
    if reading.dense:
        squeeze *= JOBS / read_trace(trace, columns=("submit_time",)).rows
    where = "num_gpus > 0 and num_gpus <= 8"
    if np.isfinite(reading.longest_s):
        where += f" and duration_s <= {reading.longest_s:g}"
    chosen = Selection(
        where=where,
        sample=JOBS,
        scale_duration=reading.scale_duration,
        scale_interarrival=squeeze,
        seed=seed,
    )
    return jobs_of(read_trace(trace, chosen, columns=COLUMNS), np.random.default_rng(seed))


def compared_policies(scale_out: str | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the policies of section 5 by the paper's names: policy and settings.

    Tiresias and SJF hold the 30 cheapest offers until the last job ends. Where ``scale_out`` is
    None Allpass has its defaults.
    """
    ours: dict[str, Any] = {"scale_out": scale_out} if scale_out else {}
    cluster = {"gpus": WORKERS, "marketplace_offers": 50}
    few = ours | {"serverless_limit": CONTAINERS}
    return {
        "Allpass": ("allpass", ours),
        LIMITED: ("allpass", ours | {"capacity": WORKERS}),
        "TL-NP": ("2d-las", cluster | {"preemptive": False}),
        "TL-P": ("2d-las", cluster),
        "TL-P, limit / 5": ("2d-las", cluster | {"limits_gpu_s": (650.0,)}),
        "SJF-NP": ("sjf", cluster),
        "SJF-P": ("srtf", cluster),
        "HPA": ("hpa", {}),
        "HPA, Lambda": ("hpa", {"marketplace_offers": 0}),
        "Modal": ("serverless-only", {}),
        "Fixed-60": ("fixed-threshold", ours | {"threshold_s": 60.0}),
        "Fixed-600": ("fixed-threshold", ours | {"threshold_s": 600.0}),
        f"Allpass{FEW}": ("allpass", few),
        f"{LIMITED}{FEW}": ("allpass", few | {"capacity": WORKERS}),
        f"Modal{FEW}": ("serverless-only", {"serverless_limit": CONTAINERS}),
        f"Fixed-60{FEW}": ("fixed-threshold", few | {"threshold_s": 60.0}),
        f"Fixed-600{FEW}": ("fixed-threshold", few | {"threshold_s": 600.0}),
    }


Results = Mapping[str, Mapping[str, Any]]


def replay_all(jobs: TraceJobs, seed: int, scale_out: str | None = None) -> Results:
    """Replay one sample under all policies, with the same start-up times; results by name."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, (policy, settings) in compared_policies(scale_out).items():
        run = find_policy(policy).run(jobs, settings, deepcopy(rng))
        jct_s = run.frame["jct_s"].to_numpy()
        found[name] = run.results | {
            "mean_wait_s": float((jct_s - jobs.workload.service_us / MICROS).mean()),
            **{f"jct_p{at}_s": float(np.percentile(jct_s, at)) for at in PERCENTILES},
        }
        if name == "Allpass":
            found[name]["peak_threshold_s"] = run.timeline()["threshold_s"].to_numpy().max()
    return found


def _ratio(of: str, key: str, over: str) -> Callable[[Results], float]:
    def measured(found: Results) -> float:
        below = found[over][key]
        return float(found[of][key] / below) if below else np.nan

    return measured


CLUSTERS = ("TL-NP", "TL-P", "SJF-NP", "SJF-P")


def _above(of: str, than: str, key: str, factor: float = 1.0) -> Callable[[Results], float]:
    """How much more of something one has than ``factor`` times the other's, as a share of that."""

    def measured(found: Results) -> float:
        most, least = float(found[of][key]), factor * float(found[than][key])
        return most / least - 1 if least else np.inf if most else 0.0

    return measured


def _soonest(at: int) -> Callable[[Results], float]:
    """The excess of the JCT of all clusters over Allpass' at a percentile."""
    over = [_above(name, f"{LIMITED}{FEW}", f"jct_p{at}_s") for name in CLUSTERS]
    return lambda found: min(measured(found) for measured in over)


def _mostly_serverless(found: Results) -> float:
    share = float(found[f"Allpass{FEW}"]["finished_serverless_share"])
    return min(share - 0.55, 0.85 - share)


ORDERINGS: dict[str, Callable[[Results], float]] = {
    **{
        f"most jobs within 10 min on 30 workers: Allpass > {name}": _above(
            f"{LIMITED}{FEW}", name, SOON
        )
        for name in CLUSTERS
    },
    **{f"JCT at P{at} on 30 workers: Allpass < all four": _soonest(at) for at in PERCENTILES},
    **{f"cost: Allpass < {name}": _above(name, f"{LIMITED}{FEW}", COST) for name in CLUSTERS},
    **{f"cost: {name} < HPA": _above("HPA", name, COST) for name in CLUSTERS},
    "cost: HPA < Modal": _above(f"Modal{FEW}", "HPA", COST),
    "mean JCT: HPA >= 1.5 x Allpass": _above("HPA", f"Allpass{FEW}", MEAN, 1.5),
    "55 to 85% finish serverless": _mostly_serverless,
    **{
        f"median JCT: Allpass < {name}": _above(f"{name}{FEW}", f"Allpass{FEW}", "median_jct_s")
        for name in ("Fixed-60", "Fixed-600")
    },
}
"""The orderings of section 5 and by how much a sample keeps each, above 0 where it does.

All are in one configuration: `CONTAINERS` containers for every policy that has any, at most
`WORKERS` workers for Allpass where it is set against clusters of as many."""


def at_usd(found: Results, usd_per_gpu_h: float) -> Results:
    """Return results with clusters at another price, which does not change their schedules."""
    dear = {}
    for name in CLUSTERS:
        factor = usd_per_gpu_h / found[name][HOURLY]
        dear[name] = {**found[name], COST: factor * found[name][COST], HOURLY: usd_per_gpu_h}
    return {**found, **dear}


def median_seed(runs: Sequence[Results]) -> Results:
    """Return the sample with the median GPU-hours."""
    order = np.argsort([run["Allpass"]["gpu_h"] for run in runs], kind="stable")
    return runs[int(order[len(runs) // 2])]


@dataclass(frozen=True, slots=True)
class Kept:
    """How samples keep an ordering.

    Attributes:
        samples: how many keep it.
        margin: of the median sample of this ordering; see `ORDERINGS`.
        middle: of the sample with the median GPU-hours, which need not be in the middle here.
    """

    samples: int
    margin: float
    middle: float


def kept_by(runs: Sequence[Results]) -> dict[str, Kept]:
    """Return how samples keep each of `ORDERINGS`; of an even number the lower middle counts."""
    middle = median_seed(runs)
    found = {}
    for what, by in ORDERINGS.items():
        margins = sorted(map(by, runs))
        samples = sum(margin > 0 for margin in margins)
        found[what] = Kept(samples, margins[(len(margins) - 1) // 2], by(middle))
    return found


def _less(of: str, than: str) -> Callable[[Results], float]:
    """How much better the median JCT of one is, percent."""
    return lambda found: 100 * (1 - found[of]["median_jct_s"] / found[than]["median_jct_s"])


def _value(of: str, key: str, factor: float = 1.0) -> Callable[[Results], float]:
    return lambda found: factor * float(found[of][key] or np.nan)


def _part(key: str) -> Callable[[Results], float]:
    return lambda found: 100 * float(found[LIMITED][key] / found[LIMITED][COST])


def _price_under(usd: float) -> Callable[[Results], float]:
    paid = _value("Allpass", PAID)
    return lambda found: 100 * (1 - paid(found) / usd)


MEASURES: tuple[tuple[str, str, str, Callable[[Results], float]], ...] = (
    ("Fig. 6", "within 10 min, 30 workers: Allpass, %", "68.5", _value(LIMITED, SOON, 100)),
    ("", "TL-NP, %", "12.5", _value("TL-NP", SOON, 100)),
    ("", "TL-P, %", "48", _value("TL-P", SOON, 100)),
    ("", "TL-P with its queue limit / 5, %", "48", _value("TL-P, limit / 5", SOON, 100)),
    ("", "SJF-NP, %", "54.5", _value("SJF-NP", SOON, 100)),
    ("", "SJF-P, %", "46.5", _value("SJF-P", SOON, 100)),
    ("Fig. 7", "mean JCT over Allpass': Modal", "near 1", _ratio("Modal", MEAN, "Allpass")),
    ("", "HPA", "2.53", _ratio("HPA", MEAN, "Allpass")),
    ("", "HPA on Lambda alone", "2.53", _ratio("HPA, Lambda", MEAN, "Allpass")),
    ("Fig. 8", "mean wait: Modal, min", "0.1", _value("Modal", "mean_wait_s", 1 / 60)),
    ("", "Allpass, queue, min", "0.4", _value("Allpass", "mean_queue_s", 1 / 60)),
    ("", "Allpass, demotion, min", "1.4", _value("Allpass", "mean_demotion_s", 1 / 60)),
    ("", "TL-P over TL-NP", "above 1", _ratio("TL-P", "mean_wait_s", "TL-NP")),
    ("", "SJF-P over SJF-NP", "above 1", _ratio("SJF-P", "mean_wait_s", "SJF-NP")),
    ("", "finished serverless, %", "70", _value("Allpass", "finished_serverless_share", 100)),
    ("Fig. 9", "cost: Allpass, $", "236.69", _value(LIMITED, COST)),
    ("", "of it serverless, $", "18.02", _value(LIMITED, "cost_serverless_usd")),
    ("", "over Allpass': TL-NP", "1.09", _ratio("TL-NP", COST, LIMITED)),
    ("", "TL-P", "1.09", _ratio("TL-P", COST, LIMITED)),
    ("", "SJF-NP", "1.12", _ratio("SJF-NP", COST, LIMITED)),
    ("", "SJF-P", "1.12", _ratio("SJF-P", COST, LIMITED)),
    ("", "HPA", "1.9", _ratio("HPA", COST, LIMITED)),
    ("", "HPA on Lambda alone", "1.9", _ratio("HPA, Lambda", COST, LIMITED)),
    ("", "Modal", "2.95", _ratio("Modal", COST, LIMITED)),
    ("", "of Allpass' serverless, %", "7.6", _part("cost_serverless_usd")),
    ("", "Allpass, workers without limit, $", "-", _value("Allpass", COST)),
    ("", "late there, %", "-", _value("Allpass", "deadline_miss_share", 100)),
    ("Fig. 10", "most workers: Allpass", "27", _value("Allpass", "workers_peak")),
    ("", "HPA", "above 60", _value("HPA", "workers_peak")),
    ("", "highest threshold, s", "above 300", _value("Allpass", "peak_threshold_s")),
    ("Fig. 11", "median JCT: Allpass, min", "2.86", _value("Allpass", "median_jct_s", 1 / 60)),
    ("", "better than Fixed-60, %", "71.0", _less("Allpass", "Fixed-60")),
    ("", "better than Fixed-600, %", "35.9", _less("Allpass", "Fixed-600")),
    ("", "200 containers: than Fixed-60, %", "71.0", _less(f"Allpass{FEW}", f"Fixed-60{FEW}")),
    ("", "200 containers: than Fixed-600, %", "35.9", _less(f"Allpass{FEW}", f"Fixed-600{FEW}")),
    ("Fig. 12", "marketplace price paid, $ per GPU-h", "0.74", _value("Allpass", PAID)),
    ("", "on 30 workers, $ per GPU-h", "-", _value(LIMITED, PAID)),
    ("", "below Lambda, %", "42.6", _price_under(1.29)),
    ("", "below Modal, %", "64.7", _price_under(2.10)),
)
"""Figure, what it shows, the paper's number, and ours from the results of one sample."""
