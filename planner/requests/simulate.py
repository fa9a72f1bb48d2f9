"""What ``gpuplan simulate`` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.option import Opt
from gpuplan.planner.requests.clusters import ClusterRequest
from gpuplan.planner.requests.declaration import COST, JCT, WORKLOAD, study
from gpuplan.planner.requests.replays import PoliciesRequest

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec


@study(
    "simulate",
    title="One policy replayed",
    picture="The replay over time",
    example="gpuplan simulate trace.parquet --policy fifo --cluster 8x4 -o jobs.parquet",
    doing="replaying",
    compiles=True,
    has_timeline=True,
    gpu_is_setting=True,
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "cost_usd": (COST, "cost"),
        "mean_jct_s": (JCT, "mean JCT"),
        "p95_jct_s": (JCT, "P95 JCT"),
    },
)
@dataclass(frozen=True, slots=True)
class SimulateRequest(PoliciesRequest):
    """Replay a trace under one policy: waiting, completion times, and cost.

    Attributes:
        cluster: the GPUs that it may hold.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "policy": Annotated[str, "its name in gpuplan list policies"],
        "settings": Annotated[dict[str, Any], "the effective value of every setting"],
        "price_choice": Annotated[dict[str, Any], "settings that choose among prices"],
        **PoliciesRequest.COMPUTED,
    }

    policy: Annotated[
        str,
        Opt(
            "Policy to replay; see gpuplan list policies.",
            key=None,
            common=True,
            complete="policies",
        ),
    ] = "allpass"
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "A setting of the policy, such as threshold_s=5m or capacity=30; see gpuplan list "
            "policies NAME. May be repeated.",
            flag="--set",
            key=None,
            common=True,
            many=True,
        ),
    ] = ()
    cluster: ClusterRequest = field(default_factory=ClusterRequest)

    def specs(self) -> tuple[PolicySpec, ...]:
        """Return the one policy with its settings. Raises `UsageError`."""
        from gpuplan.planner.requests.policy_specs import read_spec

        settings = self.settings_of([self.policy], self.settings)
        is_priced = self.replay.prices is not None
        return (read_spec(self.policy, settings, self.cluster.size(), is_priced=is_priced),)
