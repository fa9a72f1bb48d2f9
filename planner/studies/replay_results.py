"""The results of ``gpuplan simulate`` and ``gpuplan compare``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.compare import ComparedPolicy, PolicyTies
from gpuplan.planner.policies.spot.results import TenantResults
from gpuplan.planner.policy_results import MeasuredResults
from gpuplan.planner.runs.group_waits import GroupWaits
from gpuplan.planner.site.fidelity import Fidelity


@dataclass(frozen=True, slots=True)
class PaidCluster:
    """The GPUs of a site today, and what they cost busy or not.

    Attributes:
        gpus: those that its jobs may run on.
        usd_per_month: US dollars, at the prices that today's use of them is billed at.
    """

    gpus: int
    usd_per_month: float


@dataclass(frozen=True, kw_only=True)
class ReplayedPolicy:
    """Which policy was replayed, and what the log shows.

    Attributes:
        policy: its name in ``gpuplan list policies``.
        today: what the log shows; null where the window is that of the run, or where no job has
            both a run time and GPUs.
        fidelity: how a replay of today compares with the log.
        today_groups: the recorded waits by group, where ``--by`` and the log have them.
        today_cluster: today's GPUs, where a policy replays their site.
    """

    policy: str
    today: Today | None
    fidelity: Fidelity
    today_groups: tuple[GroupWaits, ...] | UnsetType = UNSET
    today_cluster: PaidCluster | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class SimulateResults(MeasuredResults, ReplayedPolicy):  # in JSON the policy comes first
    """What one policy makes of a trace."""


@dataclass(frozen=True, slots=True)
class NoSpotResults:
    """The same cluster with the high-priority jobs alone: what lending costs them.

    Attributes:
        label: row whose policy and cluster it has.
        hp: how the jobs fare.
        allocation_rate: share of the GPU time held from their first submission to the last; null
            where all come at once.
    """

    label: str
    hp: TenantResults
    allocation_rate: float | None


@dataclass(frozen=True, slots=True)
class CompareResults:
    """What several policies make of the same jobs.

    Attributes:
        today: what the log shows; null where the window is that of the run, or where no job has
            both a run time and GPUs.
        jobs: jobs replayed under each policy.
        span_s: from the first submission to the last.
        first: label of the row that ratios refer to.
        fidelity: how a replay of today compares with the log.
        cheapest: label of the row of least cost; no winner where costs tie. Null where a replay of
            today contradicts the log, or no row is ranked.
        fastest: label of the row of least mean JCT; likewise.
        ties: whether all rows tie.
        no_spot: high-priority jobs without spot jobs, under each policy that lends; empty where
            none does, or jobs of one kind are missing.
        policies: one row per policy, in the order given.
        today_groups: the recorded waits by group, where ``--by`` and the log have them.
        today_cluster: today's GPUs, where a policy replays their site.
    """

    today: Today | None
    jobs: int
    span_s: float
    first: str
    fidelity: Fidelity
    cheapest: str | None
    fastest: str | None
    ties: PolicyTies
    no_spot: tuple[NoSpotResults, ...]
    policies: tuple[ComparedPolicy, ...]
    today_groups: tuple[GroupWaits, ...] | UnsetType = UNSET
    today_cluster: PaidCluster | UnsetType = UNSET
