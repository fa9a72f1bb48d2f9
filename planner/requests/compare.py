"""What ``gpuplan compare`` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.option import Group, Opt
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.requests.clusters import ClusterListRequest
from gpuplan.planner.requests.declaration import ALWAYS, COST, JCT, WORKLOAD, study
from gpuplan.planner.requests.replays import PoliciesRequest

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec

DEFAULT_POLICIES = ("allpass", "serverless-only", "serverful-only", "hpa")
"""The policies that are compared where none is named."""


@dataclass(frozen=True, kw_only=True)
class ComparedParameters:
    """A policy of a comparison, as replayed.

    Attributes:
        name: as typed.
        label: with its size where there are several; no other row has it.
        policy: its name in ``gpuplan list policies``.
        settings: the effective value of every setting.
        price_choice: settings that choose among prices.
    """

    name: str
    label: str
    policy: str
    settings: dict[str, Any]
    price_choice: dict[str, Any]


@study(
    "compare",
    title="Policies compared",
    picture="Completion times and cost by policy",
    example="gpuplan compare trace.parquet --policy fifo --policy srtf --gpus 256,512",
    doing="replaying",
    compiles=True,
    has_timeline=True,
    usual_for=ALWAYS,
    report_place=5,
    gpu_is_setting=True,
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "policies.cost_usd": (COST, "cost"),
        "policies.mean_jct_s": (JCT, "mean JCT"),
    },
)
@dataclass(frozen=True, slots=True)
class CompareRequest(PoliciesRequest):
    """Replay a trace under several policies, and compare cost and completion times.

    Attributes:
        cluster: the GPUs that they may hold, one size or several.
        engine: where the replays run; the result does not depend on it.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "policies": Annotated[list[ComparedParameters], "one entry per policy, in the order given"],
        "cluster": Annotated[str | None, "the clusters as given, several parted by commas"],
        "gpus": Annotated[int | list[int] | None, "GPUs of the cluster; of several a list"],
        **PoliciesRequest.COMPUTED,
    }

    policy: Annotated[
        tuple[str, ...],
        Opt(
            "A policy to replay, with its own settings after a colon: pollux:gpus=64,rescale_s=30. "
            "Lists take /, as in 2d-las:limits_gpu_s=600/3600. May be repeated; ratios refer to "
            f"the first. Default: {', '.join(DEFAULT_POLICIES)}.",
            key=None,
            metavar="NAME[:KEY=VALUE,...]",
            common=True,
            many=True,
            complete="policies",
        ),
    ] = DEFAULT_POLICIES
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "A setting: key=value for every policy that has it, policy.key=value for one. Default "
            "prices in dollars per GPU-hour: serverless_usd_per_gpu_h=2.10, "
            "marketplace_median_usd_per_gpu_h=1.08, conventional_usd_per_gpu_h=1.29, the price of "
            "a cluster too. May be repeated.",
            flag="--set",
            key=None,
            common=True,
            many=True,
        ),
    ] = ()
    cluster: ClusterListRequest = field(default_factory=ClusterListRequest)
    engine: Annotated[Engine, Group(in_json=False)] = field(default=THREADS, compare=False)

    def specs(self) -> tuple[PolicySpec, ...]:
        """Return each policy on each cluster, with its settings. Raises `UsageError`."""
        from gpuplan.planner.requests.policy_specs import read_sizes

        settings = self.settings_of(self.policy, self.settings)
        are_priced = self.replay.prices is not None
        return tuple(read_sizes(self.policy, settings, self.cluster.sizes(), are_priced=are_priced))

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output, but for the policies."""
        shapes = [size.shape for size in self.cluster.sizes()]
        size: dict[str, Any] = {"cluster": None, "gpus": None}
        if len(shapes) == 1:
            size = {"cluster": str(shapes[0]), "gpus": shapes[0].gpus}
        elif shapes:
            texts = (str(shape).replace(",", "/") for shape in shapes)
            size = {"cluster": ",".join(texts), "gpus": [shape.gpus for shape in shapes]}
        return size | PoliciesRequest.parameters(self)
