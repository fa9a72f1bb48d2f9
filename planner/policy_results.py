"""The headline numbers of a replay under any policy, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.planner.policies.allpass_results import TwoTierResults
from gpuplan.planner.policies.cluster_replay import ClusterResults
from gpuplan.planner.policies.mixed.results import FairnessResults
from gpuplan.planner.policies.spot.results import LendingResults
from gpuplan.planner.runs.group_waits import GroupWaits, group_waits
from gpuplan.planner.runs.simulation import PolicyResults, Simulation, results_as


@dataclass(frozen=True, kw_only=True)
class MeasuredResults(
    LendingResults,
    FairnessResults,
    TwoTierResults,
    ClusterResults,
    PolicyResults,
):
    """What any policy measures; a policy is without the numbers of others.

    Attributes:
        mean_service_s: mean run time; with pauses for policies that choose widths or GPU types.
        mean_jqt_s: time without GPUs.
        mean_queue_s: time in the queue.
        utilization: run time x GPUs within the window over the GPU time billed.
        makespan_s: from the first submission to the last finish.
        groups: time without GPUs by group, user, class or GPU type, where requested (``--by``);
            where GPUs are lent that of high-priority jobs that finished.
    """

    mean_service_s: float | None = None
    mean_jqt_s: float | None = None
    mean_queue_s: float | None = None
    utilization: float | None = None
    makespan_s: float | None = None
    groups: tuple[GroupWaits, ...] | UnsetType = UNSET


def policy_results(run: Simulation, frame: pl.DataFrame) -> MeasuredResults:
    """Return the numbers of a replay, with waits by group where requested; ``frame`` is its own."""
    results, jobs = run.results, run.jobs
    if jobs.by:
        wait_s = frame["jqt_s"].to_numpy()
        if "finished" in frame.columns:
            wait_s = np.where(frame["finished"].to_numpy(), wait_s, np.nan)
        results = results | {"groups": group_waits(jobs, wait_s, frame["gpu_s"].to_numpy())}
    return results_as(MeasuredResults, results)
