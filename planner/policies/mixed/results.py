"""What policies in rounds on several GPU types measure, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType


@dataclass(frozen=True, kw_only=True)
class FairnessResults:
    """What policies in rounds on one GPU type or several measure.

    Attributes:
        ftf_below_one_share: jobs done sooner than on a 1/N share of the cluster.
        ftf_mean, ftf_median, ftf_p95, ftf_max: completion time over that on a 1/N share of every
            GPU type, N being the unfinished jobs of each round.
        slowdown_mean: completion time over run time alone on the fastest GPU type.
        starvation_mean_s, starvation_max_s: from submission to the first start.
        switches: starts after the first.
        migrations: starts on another GPU type.
        upward_share: share of the migrations that is to a faster GPU type; null without any.
        lost_gpu_h: GPU-hours held without progress.
        productive_share: GPU time with progress, over that of the cluster until the last finish.
        rounds: scheduling rounds with a job in the system.
        utilization_by_type: GPU type -> share of its GPU time held, while jobs were there.
        solver_gap_max: largest distance of a decision of FFT from the bound of the solver.
        rounds_above_gap: rounds in which that distance is more than requested.
    """

    ftf_below_one_share: float | UnsetType = UNSET
    ftf_mean: float | UnsetType = UNSET
    ftf_median: float | UnsetType = UNSET
    ftf_p95: float | UnsetType = UNSET
    ftf_max: float | UnsetType = UNSET
    slowdown_mean: float | UnsetType = UNSET
    starvation_mean_s: float | UnsetType = UNSET
    starvation_max_s: float | UnsetType = UNSET
    switches: int | UnsetType = UNSET
    migrations: int | UnsetType = UNSET
    upward_share: float | UnsetType | None = UNSET
    lost_gpu_h: float | UnsetType = UNSET
    productive_share: float | UnsetType | None = UNSET
    rounds: int | UnsetType = UNSET
    utilization_by_type: dict[str, float] | UnsetType = UNSET
    solver_gap_max: float | UnsetType = UNSET
    rounds_above_gap: int | UnsetType = UNSET
