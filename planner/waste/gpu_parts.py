"""Parts of a GPU that a job can have: its MIG slices, or equal shares of a GPU that has none."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu

SHARES = (4, 3, 2)
"""Jobs on one GPU that has no slices, the most first."""
SEVENTHS = 7
NEAR = 0.1
"""Of the memory that a model has, by which what is measured may differ."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a GPU.

    Attributes:
        name: ``1g.10gb``, or ``1/2`` of a GPU that has no slices.
        memory_gb: its memory.
        compute: its share of the compute.
        on_one_gpu: how many fit on one GPU.
    """

    name: str
    memory_gb: float
    compute: float
    on_one_gpu: int


@cache
def mig_slices() -> Mapping[str, tuple[Slice, ...]]:
    """Return GPU type -> its MIG slices, the smallest first."""
    source = files("gpuplan.analysis.job_table") / "mig_slices.toml"
    tables = tomllib.loads(source.read_text(encoding="utf-8"))
    return {
        kind: tuple(
            Slice(name, float(memory), sevenths / SEVENTHS, most)
            for name, (memory, sevenths, most) in slices.items()
        )
        for kind, slices in tables.items()
    }


@cache
def slices_of(gpu_type: str | None, memory_gb: float) -> tuple[Slice, ...]:
    """Return the parts of a GPU, the smallest first: its MIG slices, else equal shares.

    Args:
        gpu_type: None where the log names none.
        memory_gb: of the GPU.
    """
    named = None if gpu_type is None else gpu_name(gpu_type, memory_gb)
    for kind, slices in mig_slices().items():
        if named is not None and same_gpu(kind, named):
            type_gb = float(kind.rpartition("-")[2].removesuffix("GB"))
            if abs(type_gb - memory_gb) <= NEAR * type_gb:
                return slices
    return tuple(Slice(f"1/{count}", memory_gb / count, 1 / count, count) for count in SHARES)
