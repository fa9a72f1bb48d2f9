"""The size of a cluster and the rules of its scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.simkit.limits import MOST_GPUS

ORDERS = (
    "arrival",
    "width",
    "duration",
    "remaining",
    "remaining_gpu",
    "deadline",
    "attained",
    "attained_gpu",
    "gittins",
)
"""What comes first: the oldest, the narrowest, the shortest run time, the least run time left
(times GPUs), the nearest deadline, the least run time (times GPUs) so far, the highest index."""

PUBLISHED = ("width", "remaining", "remaining_gpu", "attained", "attained_gpu")
"""Orders besides ``arrival`` that the simulator of Tiresias has."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and its scheduler.

    Attributes:
        gpus: GPUs of the cluster; >= 1.
        order: which job comes first; one of `ORDERS`.
        preemptive: whether a better job may stop running ones.
        skipping: whether jobs may pass one that does not fit.
        checkpoint_s, restore_s: overhead of a stop, both paid at the next start, seconds; the
            job's own count before (`Workload.checkpoint_us`).
        gpus_per_node: GPUs of a node, into which gangs must fit; None counts GPUs only.
        limits: attained service at which a job leaves each queue but the last; ascending, seconds
            for ``attained`` and GPU-seconds for ``attained_gpu``.
        levels: number of levels of attained service for ``gittins``; >= 1.
        starvation: promote a stopped job that has waited this many times as long as it has run to
            the first queue; None promotes none.
        as_published: run as the simulator of Tiresias does, in whole seconds.
    """

    gpus: int
    order: str = "arrival"
    preemptive: bool = False
    skipping: bool = False
    checkpoint_s: float = 0.0
    restore_s: float = 0.0
    gpus_per_node: int | None = None
    limits: tuple[float, ...] = ()
    levels: int = 16
    starvation: float | None = None
    as_published: bool = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {self.order!r}")
        if not 1 <= self.gpus <= MOST_GPUS:
            raise ValueError(f"gpus must be 1 to {MOST_GPUS:,}, got {self.gpus:,}")
        each = self.gpus_per_node
        if each is not None and each < 1:
            raise ValueError(f"gpus_per_node must be at least 1, got {each}")
        if each is not None and self.gpus % each:
            raise ValueError(f"gpus must be whole nodes of gpus_per_node={each}, got {self.gpus}")
        if self.as_published:
            self._check_published()

    def _check_published(self) -> None:
        expected = self.order != "arrival"
        if expected and self.order not in PUBLISHED:
            raise ValueError(f"the published simulator has no order {self.order!r}")
        if self.preemptive is not expected or (expected and not self.skipping):
            how = "preemptive and skips" if expected else "not preemptive"
            raise ValueError(f"in the published simulator order {self.order!r} is {how}")
        if self.checkpoint_s or self.restore_s or self.gpus_per_node or self.starvation:
            raise ValueError(
                "the published simulator is run without checkpoint_s, restore_s, gpus_per_node "
                "and starvation"
            )
