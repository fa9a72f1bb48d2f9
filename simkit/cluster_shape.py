"""The shape of a cluster: GPU types, nodes, GPUs per node.

Written as ``A100=4x8,T4=12x4`` (type = nodes x GPUs per node), ``A100=32`` (GPUs without nodes),
``1000x4`` (nodes of any type) or ``512`` (GPUs of any type, without nodes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuplan.simkit.workload import MOST_GPUS

POOL = re.compile(r"(?:(?P<type>[^=,]+)=)?\s*(?P<first>\d+)\s*(?:[xX]\s*(?P<second>\d+))?")
FORMS = "A100=4x8,T4=12x4 (type = nodes x GPUs per node), A100=32, 1000x4 or 512"


@dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs of one type.

    Attributes:
        gpus: how many; >= 1.
        gpus_per_node: GPUs of each node, a divisor of ``gpus``; None where nodes do not matter.
        gpu_type: the type; None for any.
    """

    gpus: int
    gpus_per_node: int | None = None
    gpu_type: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= MOST_GPUS:
            raise ValueError(f"a pool needs 1 to {MOST_GPUS:,} GPUs, got {self.gpus:,}")
        each = self.gpus_per_node
        if each is not None and (each < 1 or self.gpus % each):
            raise ValueError(f"{self.gpus:,} is not a multiple of {each} (GPUs per node)")

    @property
    def nodes(self) -> int | None:
        """Number of nodes; None where nodes do not matter."""
        return None if self.gpus_per_node is None else self.gpus // self.gpus_per_node

    def __str__(self) -> str:
        size = str(self.gpus) if self.nodes is None else f"{self.nodes}x{self.gpus_per_node}"
        return size if self.gpu_type is None else f"{self.gpu_type}={size}"


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The pools of a cluster, one per GPU type.

    Attributes:
        pools: at least one; several have a type each, all different.
    """

    pools: tuple[GpuPool, ...]

    def __post_init__(self) -> None:
        types = [pool.gpu_type for pool in self.pools]
        if not types:
            raise ValueError("a cluster needs at least one pool of GPUs")
        if len(types) > 1 and None in types:
            raise ValueError("several pools need a GPU type each, for example A100=4x8,T4=12x4")
        twice = next((name for name in types if types.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is given twice; add its nodes up")
        if self.gpus > MOST_GPUS:
            raise ValueError(f"a cluster has at most {MOST_GPUS:,} GPUs, got {self.gpus:,}")

    @property
    def gpus(self) -> int:
        """GPUs of all types."""
        return sum(pool.gpus for pool in self.pools)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The types, in order; empty for a cluster of any type."""
        return tuple(pool.gpu_type for pool in self.pools if pool.gpu_type is not None)

    def __str__(self) -> str:
        return ",".join(map(str, self.pools))

    @classmethod
    def parse(cls, text: str) -> ClusterShape:
        """Read a shape; see the module.

        Raises:
            ValueError: with what was found, what was expected and, for a wrong number, which.
        """
        return cls(tuple(_pool(part) for part in text.split(",")))


def _pool(text: str) -> GpuPool:
    found = POOL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must be like {FORMS}, got {text.strip()!r}")
    digits = [part for part in (found["first"], found["second"]) if part is not None]
    numbers = [int(part[-10:]) for part in digits]
    if any(len(part) > 9 for part in digits) or 0 in numbers:
        raise ValueError(f"needs whole numbers of 1 to {MOST_GPUS:,}, got {text.strip()!r}")
    gpu_type = found["type"].strip() if found["type"] else None
    if len(numbers) == 1:
        return GpuPool(numbers[0], None, gpu_type)
    return GpuPool(numbers[0] * numbers[1], numbers[1], gpu_type)
