"""How a cluster that follows a plan rents its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.speedup.functions import DEFAULT_MAX_WIDTH
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.elastic.kernel import NARROW, SQUEEZE, WHOLE, ElasticRules
from gpuplan.simkit.elastic.simulator import NO_LIMIT
from gpuplan.simkit.time import HOUR_S, to_micros

OVERFLOWS = {
    "whole": "a job waits for its whole width, also while nodes come",
    "queue": "the first job in line starts on the GPUs left while nodes come, not at the limit",
    "squeeze": "the first job in line starts on the GPUs left, also at the limit",
}
STARTS = {"whole": WHOLE, "queue": NARROW, "squeeze": SQUEEZE}
BILLED_FROM = ("ready", "request")


@dataclass(frozen=True, slots=True)
class RentedCluster:
    """How GPUs are rented.

    Attributes:
        node_gpus: GPUs of a node; whole nodes are rented.
        provision_s: time from the request for a node until it is ready.
        release_s: time a node must have been idle before it is returned; with 60 s, plans for the
            measured traces rent up to 3.0% more than their budget, with 30 s up to 1.7%.
        billing_s: every rental is billed in whole multiples of this time.
        billed_from: when a bill begins, one of `BILLED_FROM`.
        max_gpus: most GPUs that can be rented at once; None for no limit.
        overflow: behavior while GPUs are short, one of `OVERFLOWS`.
    """

    node_gpus: int = 1
    provision_s: float = 90.0
    release_s: float = 30.0
    billing_s: float = 1.0
    billed_from: str = "ready"
    max_gpus: int | None = None
    overflow: str = "queue"

    def __post_init__(self) -> None:
        if self.node_gpus < 1:
            raise UsageError(f"--cluster needs nodes of at least 1 GPU, got {self.node_gpus}")
        for name in ("provision_s", "release_s"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                option = name.removesuffix("_s") + "-delay"
                raise UsageError(f"--{option} must be at least 0 s, got {value:g}")
        if not 1e-6 <= self.billing_s < float("inf"):
            raise UsageError(f"--billing must be above 0 s, got {self.billing_s:g}")
        if self.billed_from not in BILLED_FROM:
            raise UsageError(
                f"--billed-from {self.billed_from!r}: expected one of {', '.join(BILLED_FROM)}"
            )
        if self.overflow not in OVERFLOWS:
            raise UsageError(
                f"--overflow {self.overflow!r}: expected one of {', '.join(OVERFLOWS)}"
            )
        if self.max_gpus is not None and self.max_gpus < self.node_gpus:
            raise UsageError(
                f"--max-gpus {self.max_gpus} is less than one node of {self.node_gpus} GPUs"
            )

    @property
    def shape(self) -> str | None:
        """What can be rented, as ``--cluster`` says it; None for single GPUs without a limit."""
        if self.max_gpus is None:
            return f"x{self.node_gpus}" if self.node_gpus > 1 else None
        if self.node_gpus == 1:
            return str(self.max_gpus)
        return f"{self.max_gpus // self.node_gpus}x{self.node_gpus}"


def rules_of(cluster: RentedCluster, horizon_h: float) -> ElasticRules:
    """Return the rules of a cluster for the kernel."""
    limit = cluster.max_gpus
    return ElasticRules(
        node_gpus=cluster.node_gpus,
        provision_us=int(to_micros(cluster.provision_s)),
        release_us=int(to_micros(cluster.release_s)),
        from_request=cluster.billed_from == "request",
        max_nodes=NO_LIMIT if limit is None else limit // cluster.node_gpus,
        start=STARTS[cluster.overflow],
        horizon_us=int(to_micros(horizon_h * HOUR_S)),
    )


def within_cluster(
    choices: ClassOptions, speedup: SpeedupModel, cluster: RentedCluster | None
) -> ClassOptions:
    """Return choices in which no job gets more GPUs than can be rented."""
    if cluster is None or cluster.max_gpus is None:
        return choices
    room = cluster.max_gpus // cluster.node_gpus * cluster.node_gpus
    usual = DEFAULT_MAX_WIDTH if speedup.law is not None else room
    return replace(
        choices,
        max_width=min(choices.max_width or usual, room),
        limits={name: min(gpus, room) for name, gpus in choices.limits.items()},
    )
