"""What a run on several GPU types measured: fairness, starvation, switches, what the types did.

Source: FFT (Fast and Fair Training): finish-time fairness against a 1/N share.
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import polars as pl

from gpuplan.planner.policies.mixed.mixed_rounds import MixedRun
from gpuplan.planner.policies.mixed.results import FairnessResults
from gpuplan.planner.runs.panels import GPUS, JobBars, Panel, TimeLines, usage_frame, usage_lines
from gpuplan.simkit.arrays import FloatArray, IntArray, for_kernels
from gpuplan.simkit.rounds.hosts import rounds_on_shares
from gpuplan.simkit.time import HOUR_S, MICROS

MOST_BARS = 60
"""Jobs of a picture that shows each of them."""


def share_rates(rate: FloatArray, width: IntArray, gpus: IntArray, many: int) -> FloatArray:
    """Return the rate of each job on 1/``many`` of every GPU type.

    It spends a fraction of its time on each type, the fastest first: as much as the share has.

    Args:
        rate: work per round on each type; shape (m, T).
        width: GPUs of each job; shape (m,).
        gpus: of each type; shape (T,).
        many: jobs that share, >= 1.
    """
    order = np.argsort(-rate, axis=1, kind="stable")
    fast = np.take_along_axis(rate, order, axis=1)
    most = gpus[order] / (many * width[:, None])
    before = np.cumsum(np.where(fast > 0, most, 0.0), axis=1) - most
    part = np.clip(np.minimum(most, 1 - before), 0.0, None)
    rates: FloatArray = (part * fast).sum(axis=1)
    return rates


def ideal_rounds(
    work: FloatArray,
    rate: FloatArray,
    width: IntArray,
    gpus: IntArray,
    first: IntArray,
    rounds: tuple[IntArray, IntArray],
    last: IntArray,
) -> FloatArray:
    """Return the rounds that each job takes on a 1/N share of the cluster, N changing.

    Args:
        work, rate, width: of each job; shapes (n,), (n, T), (n,).
        gpus: of each type.
        first, last: the round that each could first run in, and the one in which it ended.
        rounds: the numbers of the rounds, and how many jobs were unfinished in each; shape (R,).
    """
    number, active = rounds[0], for_kernels(rounds[1])
    order = np.argsort(-rate, axis=1, kind="stable")
    fast = np.take_along_axis(rate, order, axis=1)
    begin = np.searchsorted(number, first)
    end = np.searchsorted(number, last, side="right")
    on_shares: FloatArray = rounds_on_shares(work, fast, gpus[order], width, active, begin, end)
    return on_shares


def finish_time_fairness(played: MixedRun) -> FloatArray:
    """Return T_shared / T_id of each job: its completion time over that on a 1/N share."""
    jobs, run, cluster = played.jobs, played.run, played.cluster
    round_us = round(cluster.round_s * MICROS)
    ideal = ideal_rounds(
        jobs.work,
        jobs.rate,
        jobs.gpus,
        np.array(cluster.gpus, np.int64),
        played.first_round,
        (played.number, played.active),
        np.maximum(run.finish_us - 1, 0) // round_us,
    )
    waits_s = played.first_round * cluster.round_s - run.submit_us / MICROS
    ftf: FloatArray = (run.finish_us - run.submit_us) / MICROS / (ideal * cluster.round_s + waits_s)
    return ftf


def starvation_s(played: MixedRun) -> FloatArray:
    """Return the time of each job from its submission to its first start."""
    waited: FloatArray = (played.run.start_us - played.run.submit_us) / MICROS
    return waited


def fairness_results(played: MixedRun, gpu_types: tuple[str, ...]) -> FairnessResults:
    """Return the numbers of section 3 of FFT's evaluation.

    ``upward_share`` is of the changes of type, None where there are none. ``productive_share`` is
    the GPU time in which jobs made progress, over that of the cluster until the last end.
    """
    ftf, waited, run = finish_time_fairness(played), starvation_s(played), played.run
    jct_s = (run.finish_us - run.submit_us) / MICROS
    changes = int(played.type_changes.sum())
    lost_h = float((played.lost_s * played.jobs.gpus).sum()) / HOUR_S
    held_h = float(run.held_us.sum()) / MICROS / HOUR_S
    all_h = sum(played.cluster.gpus) * float(run.finish_us.max()) / MICROS / HOUR_S
    alone_s = played.jobs.work / played.jobs.rate.max(axis=1) * played.cluster.round_s
    spans = int(played.number[-1] - played.number[0]) + 1
    busy = played.busy.sum(axis=0) / (np.array(played.cluster.gpus) * spans)
    return FairnessResults(
        ftf_below_one_share=float((ftf < 1).mean()),
        ftf_mean=float(ftf.mean()),
        ftf_median=float(np.median(ftf)),
        ftf_p95=float(np.quantile(ftf, 0.95)),
        ftf_max=float(ftf.max()),
        slowdown_mean=float((jct_s / np.maximum(alone_s, 1e-6)).mean()),
        starvation_mean_s=float(waited.mean()),
        starvation_max_s=float(waited.max()),
        switches=int(played.switches.sum()),
        migrations=changes,
        upward_share=int(played.upward.sum()) / changes if changes else None,
        lost_gpu_h=lost_h,
        productive_share=(held_h - lost_h) / all_h if all_h else None,
        rounds=int(played.number.size),
        utilization_by_type=dict(zip(gpu_types, busy.tolist(), strict=True)),
    )


def fairness_columns(played: MixedRun, gpu_types: tuple[str, ...]) -> dict[str, pl.Series]:
    """Return columns of jobs: fairness, starvation, switches, and the types in their order."""
    names = np.array(gpu_types)
    ran: list[list[str]] = [[] for _ in range(played.jobs.gpus.size)]
    for job, kind, *_ in sorted(played.stretches.tolist(), key=itemgetter(0, 2)):
        if not ran[job] or ran[job][-1] != names[kind]:
            ran[job].append(str(names[kind]))
    return {
        "ftf": pl.Series(finish_time_fairness(played)),
        "starvation_s": pl.Series(starvation_s(played)),
        "switches": pl.Series(played.switches),
        "migrations": pl.Series(played.type_changes),
        "gpu_types": pl.Series(["/".join(types) for types in ran]),
    }


def job_bars(played: MixedRun, job_id: pl.Series, gpu_types: tuple[str, ...]) -> JobBars | None:
    """Return when each job ran on which type, by first start; None above `MOST_BARS` jobs."""
    if len(job_id) > MOST_BARS or len(gpu_types) < 2:
        return None
    run, round_us = played.run, round(played.cluster.round_s * MICROS)
    job, kind, begin, end = played.stretches[np.lexsort(played.stretches.T[[2, 0]])].T
    order = np.argsort(run.start_us, kind="stable")
    first = int(run.submit_us[0])
    return JobBars(
        job_id=tuple(str(job_id[int(job)]) for job in order),
        kinds=gpu_types,
        row=np.argsort(order)[job],
        kind=kind,
        begin_us=begin * round_us - first,
        end_us=np.minimum(end * round_us, run.finish_us[job]) - first,
    )


def types_frame(played: MixedRun, gpu_types: tuple[str, ...]) -> pl.DataFrame:
    """Return GPUs in use of each type as each round begins, and 0 from where no job is left."""
    first, number, round_s = (
        int(played.run.submit_us[0]) / MICROS,
        played.number,
        played.cluster.round_s,
    )
    last = np.append(np.diff(number) > 1, True)  # of the rounds in a row
    finish_s = np.sort(played.run.finish_us) / MICROS
    ends_s = finish_s[np.searchsorted(finish_s, (number[last] + 1) * round_s + 1e-6) - 1]
    time_s = np.concatenate((number * round_s, ends_s)) - first
    busy = np.concatenate((played.busy, np.zeros((ends_s.size, len(gpu_types)), np.int64)))
    frame = pl.DataFrame(
        {"time_s": time_s, **{f"used_{name}": busy[:, i] for i, name in enumerate(gpu_types)}}
    ).sort("time_s", maintain_order=True)
    used = [f"used_{name}" for name in gpu_types]
    return frame.filter(pl.any_horizontal(pl.col(used).diff().fill_null(1) != 0))


def type_timeline(played: MixedRun, gpu_types: tuple[str, ...]) -> pl.DataFrame:
    """Return a row per change of what runs and waits, with the GPUs in use of each type."""
    all_types, each = usage_frame(played.run), types_frame(played, gpu_types)
    return all_types.sort("time_s").join_asof(each.sort("time_s"), on="time_s").fill_null(0)


def type_lines(played: MixedRun, gpu_types: tuple[str, ...], job_id: pl.Series) -> TimeLines:
    """Return GPUs in use by type, jobs waiting, and where each job of a small run ran."""
    lines = usage_lines(played.run)
    if len(gpu_types) == 1:
        return lines
    each = types_frame(played, gpu_types)
    at = np.searchsorted(each["time_s"].to_numpy() * MICROS, lines.time_us + 0.5, side="right")
    series = {name: np.append(0, each[f"used_{name}"].to_numpy())[at] for name in gpu_types}
    first, *other_panels = lines.panels
    title = f"GPUs held by type, of {sum(played.cluster.gpus):,}"
    panel = Panel(title, GPUS, series, first.limit)
    rows = tuple((f"GPUs held, {name}", GPUS, values) for name, values in series.items())
    return TimeLines(
        time_us=lines.time_us,
        end_us=lines.end_us,
        panels=(panel, *other_panels),
        rows=(*rows, *lines.rows),
        bars=job_bars(played, job_id, gpu_types),
    )
