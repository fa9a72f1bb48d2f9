"""The parameters of replays, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from gpuplan.planner.compare import PolicyIdentity


@dataclass(frozen=True, kw_only=True)
class ReplayParameters:
    """Which jobs are replayed, and what they and their GPUs cost.

    Attributes:
        deadline: where deadlines come from; null for the trace's own, and assumed ones where it
            has none.
        deadline_factor: bounds of assumed deadlines, in multiples of the run time.
        spot: which jobs are spot.
    """

    prices: str | None
    checkpoints: str | None
    throughputs: str | None
    gpu_speed: dict[str, float] | None
    deadline: str | None
    deadline_factor: list[float] | None
    include_running: bool
    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int
    as_of: str | UnsetType = UNSET
    spot: str | UnsetType = UNSET
    by: str | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class ChargedParameters:
    """What policies are charged.

    Attributes:
        price: dollars per GPU-hour by GPU type; the empty name is every other type.
        window: log (first submission to last submission or end) or run (to the own last finish).
    """

    price: dict[str, float] | None
    window: str


@dataclass(frozen=True, kw_only=True)
class PricedPolicyParameters:
    """A policy as replayed.

    Attributes:
        policy: its name in ``gpuplan list policies``.
        settings: the effective value of every setting.
        price_choice: settings that choose among prices.
    """

    policy: str
    settings: dict[str, Any]
    price_choice: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SimulateParameters(ReplayParameters, ChargedParameters, PricedPolicyParameters):
    """What was asked of ``gpuplan simulate``: the policy, what it is charged, and the jobs."""


@dataclass(frozen=True, kw_only=True)
class ComparedParameters(
    PricedPolicyParameters, PolicyIdentity
):  # in JSON the identity comes first
    """A policy of a comparison."""


@dataclass(frozen=True, kw_only=True)
class PoliciesParameters:
    """The policies of a comparison, and the clusters for those without one of their own.

    Attributes:
        policies: one entry per policy, in the order given.
        cluster: the clusters as given, several parted by commas.
        gpus: GPUs of the cluster; of several a list.
    """

    policies: list[ComparedParameters]
    cluster: str | None
    gpus: int | list[int] | None


@dataclass(frozen=True, kw_only=True)
class CompareParameters(ReplayParameters, ChargedParameters, PoliciesParameters):
    """What was asked of ``gpuplan compare``: policies, what they are charged, and the jobs."""
