"""What a replay says of high-priority and spot jobs, and what lending earns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.policies.cluster_replay import ClusterBill
from gpuplan.planner.policies.spot.results import TenantResults
from gpuplan.planner.policies.spot.run import LentRun
from gpuplan.planner.runs.window import share_within, window_of
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.spot.parameters import SpotScheduler
from gpuplan.simkit.spot.pool import MILLI
from gpuplan.simkit.spot.simulator import SpotRun
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR

WEEK_S = 7 * 86_400


def tenant_results(run: LentRun, own: BoolArray) -> TenantResults:
    """Return the numbers of high-priority or of spot jobs; means are over those that finished."""
    done = own & run.is_finished
    jct = (run.finish_us - run.submit_us)[done] / MICROS
    jqt = run.waited_us[done] / MICROS
    some = jct.size > 0
    return TenantResults(
        jobs=int(own.sum()),
        unfinished=int((own & ~run.is_finished).sum()),
        mean_jct_s=float(jct.mean()) if some else None,
        p50_jct_s=float(np.percentile(jct, 50)) if some else None,
        p99_jct_s=float(np.percentile(jct, 99)) if some else None,
        mean_jqt_s=float(jqt.mean()) if some else None,
        p99_jqt_s=float(np.percentile(jqt, 99)) if some else None,
        gpu_h=float(run.held_gpu_us[own].sum()) / MICROS_PER_HOUR,
    )


def spot_results(
    run: LentRun,
    is_spot: BoolArray,
    scheduler: SpotScheduler,
    spot_usd: float,
    window_us: PeriodUs | None,
) -> dict[str, Any]:
    """Return how spot jobs fared and what they pay within the window.

    A run earns where it finished, or lasted the hours guaranteed. ``wasted_gpu_h`` is work lost
    since checkpoints, and start-ups after evictions.
    """
    runs = run.runs
    own = is_spot[runs.job]
    lasted_us = runs.stop_us - runs.start_us
    kept = ~runs.is_evicted | (lasted_us >= scheduler.guarantee_h * MICROS_PER_HOUR)
    count, evictions = int(own.sum()), int(runs.is_evicted[own].sum())
    first, end = window_of(run, window_us)
    area = np.maximum(np.minimum(runs.stop_us, end) - runs.start_us, 0) * (runs.milli / MILLI)
    earning_h = float(area[own & kept].sum()) / MICROS_PER_HOUR
    window_h = max((end - first) / MICROS_PER_HOUR, 1.0)
    return {
        "spot_runs": count,
        "evictions": evictions,
        "eviction_rate": evictions / count if count else None,
        "guarantee_success_share": float(kept[own].mean()) if count else None,
        "wasted_gpu_h": float(run.wasted_milli_s[is_spot].sum()) / MILLI / 3600,
        "allocation_rate": allocation_rate(run),
        "paying_spot_gpu_h": earning_h,
        "spot_usd_per_gpu_h": spot_usd,
        "benefit_usd_per_month": earning_h * spot_usd * MONTH_H / window_h,
    }


def allocation_rate(run: LentRun) -> float | None:
    """Return the share of GPU time that jobs hold from the first submission to the last."""
    first, last = int(run.submit_us[0]), int(run.submit_us[-1])
    if last <= first:
        return None
    runs = run.runs
    lasting = np.minimum(runs.stop_us, last) - np.maximum(runs.start_us, first)
    area = np.maximum(lasting, 0) * (runs.milli / MILLI)
    return float(area.sum() / ((last - first) * run.gpus))


def quota_results(found: Sequence[SpotRun], scheduler: SpotScheduler) -> dict[str, Any]:
    """Return how the quota was steered; null without one."""
    if scheduler.quota != "forecast":
        return {"mean_eta": None, "eta_at_min_share": None, "eta_at_max_share": None}
    eta: FloatArray = np.concatenate([one.eta for one in found])
    return {
        "mean_eta": float(eta.mean()) if eta.size else None,
        "eta_at_min_share": float((eta <= scheduler.eta_min).mean()) if eta.size else None,
        "eta_at_max_share": float((eta >= scheduler.eta_max).mean()) if eta.size else None,
    }


def starving(run: SpotRun) -> IntArray:
    """Return spot tasks that were larger than the quota for over a week while they waited."""
    work = run.workload
    size = work.size_milli
    found = []
    for task in np.flatnonzero(~work.hp & ((run.finish_s < 0) | (run.wait_s > WEEK_S))):
        until = run.finish_s[task] if run.finish_s[task] >= 0 else run.end_s
        here = (run.tick_s >= work.submit_s[task]) & (run.tick_s <= until) & (run.quota_milli >= 0)
        small = run.quota_milli[here] < size[task]
        time = run.tick_s[here]
        edges = np.flatnonzero(np.diff(np.concatenate(([0], small.astype(np.int8), [0]))))
        if any(time[end - 1] - time[at] > WEEK_S for at, end in edges.reshape(-1, 2)):
            found.append(task)
    return np.array(found, np.int64)


def kept_share(run: LentRun, bill: ClusterBill, window_us: PeriodUs | None) -> float | None:
    """Return the utilization by what ran and was kept.

    Neither the rest of unfinished jobs nor lost work counts.
    """
    kept_us = float(run.held_gpu_us.sum()) - float(run.wasted_milli_s.sum()) / MILLI * MICROS
    return kept_us * share_within(run, window_us) / bill.gpu_us if bill.gpu_us else None
