"""The shape of a cluster: GPU types, nodes, GPUs per node.

Written as ``A100=4x8,T4=12x4`` (type = nodes x GPUs per node), ``A100=32`` (GPUs without nodes),
``1000x4`` (nodes of any type), ``512`` (GPUs of any type, without nodes) or ``x4`` (nodes of 4
GPUs, as many as are needed).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from gpuplan.simkit.limits import MOST_GPUS

POOL = re.compile(
    r"(?:(?P<type>[^=,]+)=)?\s*(?=[\dxX])(?P<first>\d*)\s*(?:[xX]\s*(?P<second>\d+))?"
)
FORMS = "A100=4x8,T4=12x4 (type = nodes x GPUs per node), A100=32, 1000x4, 512 or x4"


@dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs of one type.

    Attributes:
        gpus: how many, >= 1; None for as many nodes as are needed.
        gpus_per_node: GPUs of each node, a divisor of ``gpus``; None where nodes do not matter.
        gpu_type: the type; None for any.
    """

    gpus: int | None
    gpus_per_node: int | None = None
    gpu_type: str | None = None

    def __post_init__(self) -> None:
        gpus, each = self.gpus, self.gpus_per_node
        if gpus is None and each is None:
            raise ValueError("a pool needs a number of GPUs, or GPUs per node")
        for number in (gpus, each):
            if number is not None and not 1 <= number <= MOST_GPUS:
                raise ValueError(f"a pool needs 1 to {MOST_GPUS:,} GPUs, got {number:,}")
        if gpus is not None and each is not None and gpus % each:
            raise ValueError(f"{gpus:,} is not a multiple of {each} (GPUs per node)")

    @property
    def nodes(self) -> int | None:
        """Number of nodes; None where nodes do not matter, or as many as are needed."""
        if self.gpus is None or self.gpus_per_node is None:
            return None
        return self.gpus // self.gpus_per_node

    def __str__(self) -> str:
        each = self.gpus_per_node
        size = str(self.gpus) if each is None else f"{self.nodes or ''}x{each}"
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
        if self.gpus is not None and self.gpus > MOST_GPUS:
            raise ValueError(f"a cluster has at most {MOST_GPUS:,} GPUs, got {self.gpus:,}")

    @property
    def gpus(self) -> int | None:
        """GPUs of all types; None where a pool has as many as are needed."""
        counts = [pool.gpus for pool in self.pools]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def pool(self) -> GpuPool:
        """The only pool. Raises `ValueError` where there are several."""
        if len(self.pools) > 1:
            raise ValueError(f"expected GPUs of one type, got {', '.join(self.gpu_types)}")
        return self.pools[0]

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The types, in order; empty for a cluster of any type."""
        return tuple(pool.gpu_type for pool in self.pools if pool.gpu_type is not None)

    @property
    def gpus_by_type(self) -> dict[str, int]:
        """GPUs of each type; empty where some GPUs have none, or some pool no size."""
        gpus: Counter[str] = Counter()
        for pool in self.pools:
            if pool.gpu_type is None or pool.gpus is None:
                return {}
            gpus[pool.gpu_type] += pool.gpus
        return dict(gpus)

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
    match = POOL.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be like {FORMS}, got {text.strip()!r}")
    digits = [part for part in (match["first"], match["second"]) if part]
    numbers = [int(part[-10:]) for part in digits]
    if any(len(part) > 9 for part in digits) or 0 in numbers:
        raise ValueError(f"each number must be from 1 to {MOST_GPUS:,}, got {text.strip()!r}")
    gpu_type = match["type"].strip() if match["type"] else None
    if not match["first"]:
        return GpuPool(None, numbers[0], gpu_type)
    if len(numbers) == 1:
        return GpuPool(numbers[0], None, gpu_type)
    return GpuPool(numbers[0] * numbers[1], numbers[1], gpu_type)
