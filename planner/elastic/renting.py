"""How a cluster that follows a plan rents its GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.simkit.limits import MOST_GPUS

Overflow = Literal["whole", "queue", "squeeze"]

OVERFLOWS = {
    "whole": "a job waits for its whole width, also while nodes come",
    "queue": "the first job in line starts on the GPUs left while nodes come, not at the limit",
    "squeeze": "the first job in line starts on the GPUs left, also at the limit",
}
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

    PANEL: ClassVar[str] = "Renting in the replay"

    node_gpus: int = 1
    provision_s: Annotated[
        float,
        Opt(
            "Time from requesting a node until it is ready.",
            flag="--provision-delay",
            parse=parse_duration,
            default="90s",
        ),
    ] = 90.0
    release_s: Annotated[
        float,
        Opt(
            "Idle time after which a node is returned.",
            flag="--release-delay",
            parse=parse_duration,
            default="30s",
        ),
    ] = 30.0
    billing_s: Annotated[
        float,
        Opt(
            "Billing step: each rental is rounded up to a multiple of it, such as 1h.",
            flag="--billing",
            parse=parse_duration,
            default="1s",
        ),
    ] = 1.0
    billed_from: str = "ready"
    max_gpus: Annotated[
        int | None,
        Opt(
            "Most GPUs rented at once, of each type; short for --cluster N. With --cluster x8, "
            "the limit of whole nodes. Default: no limit.",
            low=1,
            high=MOST_GPUS,
        ),
    ] = None
    overflow: Annotated[
        Overflow,
        Opt(
            "Short of GPUs, the first in line starts on what is free: while nodes come (queue), "
            "also at the limit (squeeze), or never (whole).",
        ),
    ] = "queue"

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
