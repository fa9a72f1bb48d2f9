"""Jobs that a part of their GPU would do: a MIG slice, or a share of a GPU that has none.

Only jobs of which memory and use are known count, that use one GPU, and that use it. A slice fits
where its memory and its compute are more than the job used, with some room. A GPU without slices
can be shared by as many such jobs as fit into its memory and its time. How fast a job runs in a
slice is not known: it is assumed to be as fast where it never needed more.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import polars as pl

from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_name, same_gpu
from gpuplan.analysis.waste.kinds import IDLE, PARTLY_IDLE, column_of
from gpuplan.planner.waste.tally import WasteTable
from gpuplan.simkit.arrays import BoolArray, FloatArray

ROOM = 1.25
"""Times what a job used, the least that a slice must have."""
GB_PER_GIB = 2**30 / 1e9
SHARES = (4, 3, 2)
"""Jobs on one GPU that has no slices, the most first."""
KNOWN = 0.95
"""Share of a job's GPU-hours that must be known."""
SEVENTHS = 7


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


@dataclass(frozen=True, slots=True)
class RightSize:
    """Jobs of one GPU type that a slice would do.

    Attributes:
        gpu_type: that they hold.
        slice: the smallest part that fits them.
        jobs: how many.
        gpu_h: GPU-hours that they hold.
        saved_gpu_h: of these, what they would not hold.
        usd_per_month: what these cost; null without a price.
    """

    gpu_type: str
    slice: str
    jobs: int
    gpu_h: float
    saved_gpu_h: float
    usd_per_month: float | None


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


def slices_of(gpu_type: str | None, memory_gb: float) -> tuple[Slice, ...]:
    """Return the parts of a GPU, the smallest first: its MIG slices, else equal shares.

    Args:
        gpu_type: None where the log names none.
        memory_gb: of the GPU.
    """
    named = None if gpu_type is None else gpu_name(gpu_type, memory_gb)
    for kind, slices in mig_slices().items():
        if named is not None and same_gpu(kind, named):
            whole = float(kind.rpartition("-")[2].removesuffix("GB"))
            if abs(whole - memory_gb) <= 0.1 * whole:
                return slices
    return tuple(Slice(f"1/{count}", memory_gb / count, 1 / count, count) for count in SHARES)


def right_sizes(table: WasteTable, gpu_memory: Mapping[str, float]) -> tuple[RightSize, ...]:
    """Return which parts of GPUs would do for jobs, most GPU-hours saved first.

    Args:
        table: what each job wasted.
        gpu_memory: GPU type -> GB, where the log does not tell.
    """
    jobs = table.jobs
    if "gpu_mem_used_gib" not in jobs.columns or "gpu_util_mean" not in jobs.columns:
        return ()
    used_gb, total_gb = (
        _numbers(jobs, name) * GB_PER_GIB for name in ("gpu_mem_used_gib", "gpu_mem_total_gib")
    )
    types = jobs["gpu_type"].cast(pl.String).to_list()
    stated = {kind: _stated(kind, gpu_memory) for kind in set(types)}
    total_gb = np.where(
        np.isnan(total_gb), np.array([stated[kind] or np.nan for kind in types]), total_gb
    )
    percent = _numbers(jobs, "gpu_util_mean")
    counts = _counting(table) & (used_gb > 0) & (total_gb > 0)
    held = table.held
    rows: dict[tuple[str, str], list[int]] = {}
    saved = np.zeros(held.size)
    for place in np.flatnonzero(counts).tolist():
        fitting = next(
            (
                part
                for part in _slices(types[place], round(float(total_gb[place]), 1))
                if part.memory_gb >= ROOM * used_gb[place]
                and part.compute >= ROOM * percent[place] / 100
            ),
            None,
        )
        if fitting is not None:
            saved[place] = held[place] * (1 - 1 / fitting.on_one_gpu)
            rows.setdefault((types[place] or UNNAMED, fitting.name), []).append(place)
    sizes = [_row(table, kind, name, places, saved) for (kind, name), places in rows.items()]
    return tuple(sorted(sizes, key=lambda row: (-row.saved_gpu_h, row.gpu_type, row.slice)))


_slices = cache(slices_of)


def _row(
    table: WasteTable, kind: str, name: str, places: list[int], saved: FloatArray
) -> RightSize:
    hours = np.zeros(saved.size)
    hours[places] = saved[places]
    return RightSize(
        kind, name, len(places), float(table.held[places].sum()), float(hours.sum()),
        table.month_usd(hours),
    )  # fmt: skip


def _counting(table: WasteTable) -> BoolArray:
    """Return the jobs of one GPU that they use, of which nearly all is known."""
    kinds = table.kinds
    unknown = kinds[column_of("unknown")].to_numpy()
    idle = kinds[column_of(IDLE)].to_numpy() + kinds[column_of(PARTLY_IDLE)].to_numpy()
    held = table.held
    gpus = table.jobs["num_gpus"].fill_null(0).to_numpy()
    counting: BoolArray = (held > 0) & (unknown <= (1 - KNOWN) * held) & (idle == 0) & (gpus == 1)
    return counting


def _stated(kind: str | None, gpu_memory: Mapping[str, float]) -> float | None:
    """Return the memory of a type that an option states; None where it does not."""
    if kind is None:
        return next(iter(gpu_memory.values())) if len(gpu_memory) == 1 else None
    return next((size for name, size in gpu_memory.items() if same_gpu(name, kind)), None)


def _numbers(jobs: pl.DataFrame, name: str) -> FloatArray:
    if name not in jobs.columns:
        return np.full(jobs.height, np.nan)
    numbers: FloatArray = jobs[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return numbers
