"""What a run on several GPU types measured: fairness, starvation, switches, what the types did."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from gpuplan.planner.policies.mixed.fair_share import ideal_rounds
from gpuplan.planner.policies.mixed.mixed_rounds import MixedRun
from gpuplan.planner.runs.panels import JobBars
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S, MICROS

MOST_BARS = 60
"""Jobs of a picture that shows each of them."""


def finish_time_fairness(found: MixedRun) -> FloatArray:
    """Return T_shared / T_id of each job: its completion time over that on a 1/N share."""
    jobs, run, cluster = found.jobs, found.run, found.cluster
    round_us = round(cluster.round_s * MICROS)
    ideal = ideal_rounds(
        jobs.work,
        jobs.rate,
        jobs.gpus,
        np.array(cluster.gpus, np.int64),
        found.first_round,
        (found.number, found.active),
        np.maximum(run.finish_us - 1, 0) // round_us,
    )
    waits_s = found.first_round * cluster.round_s - run.submit_us / MICROS
    ftf: FloatArray = (run.finish_us - run.submit_us) / MICROS / (ideal * cluster.round_s + waits_s)
    return ftf


def starvation_s(found: MixedRun) -> FloatArray:
    """Return the time of each job from its submission to its first start."""
    waited: FloatArray = (found.run.start_us - found.run.submit_us) / MICROS
    return waited


def fairness_results(found: MixedRun, gpu_types: tuple[str, ...]) -> dict[str, Any]:
    """Return the numbers of section 3 of FFT's evaluation; keys carry their unit.

    ``upward_share`` is of the changes of type, None where there are none. ``productive_share`` is
    the GPU time in which jobs made progress, over that of the cluster until the last end.
    """
    ftf, waited, run = finish_time_fairness(found), starvation_s(found), found.run
    jct_s = (run.finish_us - run.submit_us) / MICROS
    changes = int(found.type_changes.sum())
    lost_h = float((found.lost_s * found.jobs.gpus).sum()) / HOUR_S
    held_h = float(run.held_us.sum()) / MICROS / HOUR_S
    all_h = sum(found.cluster.gpus) * float(run.finish_us.max()) / MICROS / HOUR_S
    alone_s = found.jobs.work / found.jobs.rate.max(axis=1) * found.cluster.round_s
    spans = int(found.number[-1] - found.number[0]) + 1
    busy = found.busy.sum(axis=0) / (np.array(found.cluster.gpus) * spans)
    return {
        "ftf_below_one_share": float((ftf < 1).mean()),
        "ftf_mean": float(ftf.mean()),
        "ftf_median": float(np.median(ftf)),
        "ftf_p95": float(np.quantile(ftf, 0.95)),
        "ftf_max": float(ftf.max()),
        "slowdown_mean": float((jct_s / np.maximum(alone_s, 1e-6)).mean()),
        "starvation_mean_s": float(waited.mean()),
        "starvation_max_s": float(waited.max()),
        "switches": int(found.switches.sum()),
        "migrations": changes,
        "upward_share": int(found.upward.sum()) / changes if changes else None,
        "lost_gpu_h": lost_h,
        "productive_share": (held_h - lost_h) / all_h if all_h else None,
        "rounds": int(found.number.size),
        "utilization_by_type": dict(zip(gpu_types, busy.tolist(), strict=True)),
    }


def fairness_columns(found: MixedRun, gpu_types: tuple[str, ...]) -> dict[str, pl.Series]:
    """Return columns of jobs: fairness, starvation, switches, and the types in their order."""
    names = np.array(gpu_types)
    ran: list[list[str]] = [[] for _ in range(found.jobs.gpus.size)]
    for job, kind, *_ in sorted(found.stretches.tolist(), key=lambda one: (one[0], one[2])):
        if not ran[job] or ran[job][-1] != names[kind]:
            ran[job].append(str(names[kind]))
    return {
        "ftf": pl.Series(finish_time_fairness(found)),
        "starvation_s": pl.Series(starvation_s(found)),
        "switches": pl.Series(found.switches),
        "migrations": pl.Series(found.type_changes),
        "gpu_types": pl.Series(["/".join(types) for types in ran]),
    }


def job_bars(found: MixedRun, job_id: pl.Series, gpu_types: tuple[str, ...]) -> JobBars | None:
    """Return when each job ran on which type, by first start; None above `MOST_BARS` jobs."""
    if len(job_id) > MOST_BARS or len(gpu_types) < 2:
        return None
    run, round_us = found.run, round(found.cluster.round_s * MICROS)
    job, kind, begin, end = found.stretches[np.lexsort(found.stretches.T[[2, 0]])].T
    order = np.argsort(run.start_us, kind="stable")
    first = int(run.submit_us[0])
    return JobBars(
        job_id=tuple(str(job_id[int(one)]) for one in order),
        kinds=gpu_types,
        row=np.argsort(order)[job],
        kind=kind,
        begin_us=begin * round_us - first,
        end_us=np.minimum(end * round_us, run.finish_us[job]) - first,
    )


def types_frame(found: MixedRun, gpu_types: tuple[str, ...]) -> pl.DataFrame:
    """Return GPUs in use of each type as each round begins, and 0 from where no job is left."""
    first, number, round_s = (
        int(found.run.submit_us[0]) / MICROS,
        found.number,
        found.cluster.round_s,
    )
    last = np.append(np.diff(number) > 1, True)  # of the rounds in a row
    finish_s = np.sort(found.run.finish_us) / MICROS
    ends_s = finish_s[np.searchsorted(finish_s, (number[last] + 1) * round_s + 1e-6) - 1]
    time_s = np.concatenate((number * round_s, ends_s)) - first
    busy = np.concatenate((found.busy, np.zeros((ends_s.size, len(gpu_types)), np.int64)))
    frame = pl.DataFrame(
        {"time_s": time_s, **{f"used_{name}": busy[:, i] for i, name in enumerate(gpu_types)}}
    ).sort("time_s", maintain_order=True)
    used = [f"used_{name}" for name in gpu_types]
    return frame.filter(pl.any_horizontal(pl.col(used).diff().fill_null(1) != 0))
