"""What would do for jobs that use little of their GPUs: fewer of them, a part, a cheaper type.

Only jobs of which memory and use are known count, and that use their GPUs. Each job counts once,
with what saves most:

- **GPUs in use**: a job on several GPUs that never uses some of them holds the others alone.
- **A part**: a MIG slice of a job's one GPU, or a share of a GPU that has none. Its memory must be
  more than the job used, with some room. Where a table measures the job's class, its speed on such
  a share counts, and a slower job holds the part for longer; else the part must have more compute
  than the job used, with some room, and the job is assumed to be as fast there. A job used as much
  compute as its tensor cores were active where series tell that; else as its GPU was in use. Cores
  that were never active tell nothing: the job computed without them.
- **A cheaper type**: whole GPUs with enough memory. They are assumed to be slower in proportion to
  their price, and must be enough for the use of the job even so; its run time then stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.job_table.gpu_names import UNNAMED, same_gpu
from gpuplan.analysis.waste.kinds import IDLE, PARTLY_IDLE
from gpuplan.planner.waste.class_speeds import ClassSpeed
from gpuplan.planner.waste.gpu_parts import slices_of
from gpuplan.planner.waste.tally import WasteTable
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

ROOM = 1.25
"""Times what a job used, the least that a slice must have."""
GB_PER_GIB = 2**30 / 1e9
MOST_OFF = 0.1
"""Share by which a stated memory may differ from the measured one."""
KNOWN = 0.95
"""Share of a job's GPU-hours that must be known."""
FEWER, PART, CHEAPER = ("fewer GPUs", "part", "cheaper type")
IN_USE = "GPUs in use"


@dataclass(frozen=True, slots=True)
class RightSize:
    """Jobs of one GPU type that less would do.

    Attributes:
        gpu_type: that they hold.
        way: ``fewer GPUs``, ``part`` or ``cheaper type``.
        slice: what would do: ``GPUs in use``, the part of one GPU, or the other type.
        jobs: how many.
        gpu_h: GPU-hours that they hold.
        saved_gpu_h: of these, what they would not hold; none with a cheaper type, of which they
            hold as many.
        saved_gpu_h_per_month: the same in a month of 730.5 hours.
        usd_per_month: dollars that they would not cost; null without a price.
        measured_jobs: of them, those whose speed on the part is from a table.
        tensor_jobs: of them, those that keep their GPU in use and fit by their tensor cores alone.
        speed: mean speed of these on the part over that on a whole GPU, by GPU-hours; null where
            none is measured.
    """

    gpu_type: str
    way: str
    slice: str
    jobs: int
    gpu_h: float
    saved_gpu_h: float
    saved_gpu_h_per_month: float
    usd_per_month: float | None
    measured_jobs: int
    tensor_jobs: int
    speed: float | None


@dataclass(frozen=True, slots=True)
class RightSizeCoverage:
    """Of how many jobs the right size can be told; jobs that never use a GPU are in neither.

    Attributes:
        jobs, gpu_h: that use GPUs and of which memory and use are known.
        unknown_jobs, unknown_gpu_h: of which either is not known.
        measured_jobs: of the known, those on one GPU of a class with a table.
    """

    jobs: int
    gpu_h: float
    unknown_jobs: int
    unknown_gpu_h: float
    measured_jobs: int


@dataclass(frozen=True, slots=True)
class SizeTerms:
    """What is known besides the log.

    Attributes:
        gpu_memory: GPU type -> GB, where the log does not tell.
        speeds: of job classes, on shares of a GPU.
        usd: GPU type -> dollars per GPU-hour, of those types that a job could have instead.
    """

    gpu_memory: Mapping[str, float] = field(default_factory=dict)
    speeds: Mapping[str, ClassSpeed] = field(default_factory=dict)
    usd: Mapping[str, float] = field(default_factory=dict)


class _Way(NamedTuple):
    """What would do for jobs: hours that they hold less, dollars that they cost less.

    ``by_tensor`` are the jobs that fit by their tensor cores alone.
    """

    way: str
    name: str
    fits: BoolArray
    saved_gpu_h: FloatArray
    saved_usd: FloatArray
    speed: float | None
    by_tensor: BoolArray


def right_sizes(
    table: WasteTable, terms: SizeTerms, series: pl.DataFrame | None = None
) -> tuple[tuple[RightSize, ...], RightSizeCoverage | None, pl.DataFrame]:
    """Return what less would do for jobs, most saved first, and of how many it can be told.

    Args:
        table: what each job wasted.
        terms: what is known besides the log.
        series: of metrics; None without any.

    Returns:
        No rows and no coverage where no memory is known of any job. The frame has a row per job:
        what would do for it, and the GPU-hours that it would not hold; null where not known.
    """
    jobs = _with_series(table.jobs, series)
    used_gb, total_gb = (
        _numbers(jobs, name) * GB_PER_GIB for name in ("gpu_mem_used_gib", "gpu_mem_total_gib")
    )
    if not np.any(used_gb > 0):
        nothing = {"right_size": pl.String, "saved_gpu_h": pl.Float64}
        return (), None, pl.DataFrame(schema=nothing).clear(jobs.height)
    codes, names = name_codes(jobs["gpu_type"])
    kinds = [*map(str, names.to_list()), None]
    kind_of = codes.astype(np.int64)
    stated_gb = np.array([_stated(kind, terms.gpu_memory) or np.nan for kind in kinds])
    _check_stated(kinds, kind_of, total_gb, stated_gb)
    total_gb = np.where(np.isnan(total_gb), stated_gb[kind_of], total_gb)
    percent = _numbers(jobs, "gpu_util_mean")
    tensor_percent = _numbers(jobs, "gpu_tensor_mean")
    compute = np.where(tensor_percent > 0, np.fmin(tensor_percent, percent), percent)
    gpus = jobs["num_gpus"].fill_null(0).to_numpy()
    held = table.held
    uses = (held > 0) & (table.hours(IDLE) < KNOWN * held)
    is_told = (used_gb > 0) & (total_gb > 0) & np.isfinite(percent)
    is_told &= table.without_figures <= (1 - KNOWN) * held
    counts: BoolArray = uses & is_told
    usd = np.zeros(held.size) if table.usd is None else table.usd
    frame = jobs.select(
        pl.col("gpu_type").cast(pl.String),
        pl.lit(None, pl.String).alias("job_class")
        if "job_class" not in jobs.columns
        else pl.col("job_class").cast(pl.String),
        memory_gb=pl.Series(total_gb).round(1),
        place=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    rows_of_kind = frame.filter(pl.Series(counts)).partition_by(
        "gpu_type", "job_class", "memory_gb", as_dict=True, maintain_order=True
    )
    sums: dict[tuple[str, str, str], _Sum] = {}
    measured_jobs = 0
    unused = table.hours(PARTLY_IDLE)
    jobs_sizes = np.full(held.size, None, object)
    jobs_saved = np.where(counts, 0.0, np.nan)
    for (gpu_type, job_class, memory_gb), rows in rows_of_kind.items():
        at = rows["place"].to_numpy()
        speed = terms.speeds.get(job_class or "")
        is_single = gpus[at] == 1
        measured_jobs += 0 if speed is None else int(is_single.sum())
        group = _Alike(
            gpu_type, float(memory_gb), ROOM * used_gb[at], ROOM * compute[at] / 100,
            ROOM * percent[at] / 100, held[at], usd[at], unused[at], is_single, speed,
        )  # fmt: skip
        best, ways = _add_best(sums, group, terms)
        for place, way in enumerate(ways):
            chosen = best == place
            jobs_sizes[at[chosen]] = way.name
            jobs_saved[at[chosen]] = way.saved_gpu_h[chosen]
    coverage = RightSizeCoverage(
        int(counts.sum()), float(held[counts].sum()), int((uses & ~is_told).sum()),
        float(held[uses & ~is_told].sum()), measured_jobs,
    )  # fmt: skip
    of_jobs = pl.DataFrame({
        "right_size": pl.Series(jobs_sizes.tolist(), dtype=pl.String),
        "saved_gpu_h": pl.Series(jobs_saved).fill_nan(None),
    })  # fmt: skip
    return _rows(table, sums), coverage, of_jobs


@dataclass(frozen=True, slots=True)
class _Alike:
    """Jobs of one GPU type, memory and class; memory and compute with room, arrays of one shape.

    ``least_compute`` is of tensor cores where that is known, ``in_use`` of the whole GPU.
    """

    gpu_type: str | None
    memory_gb: float
    least_gb: FloatArray
    least_compute: FloatArray
    in_use: FloatArray
    gpu_h: FloatArray
    usd: FloatArray
    unused_gpu_h: FloatArray
    is_single: BoolArray
    speed: ClassSpeed | None


@dataclass(slots=True)
class _Sum:
    """What jobs would save together; ``speed_h`` is speed times GPU-hours."""

    jobs: int = 0
    gpu_h: float = 0.0
    saved_gpu_h: float = 0.0
    saved_usd: float = 0.0
    measured_jobs: int = 0
    tensor_jobs: int = 0
    measured_h: float = 0.0
    speed_h: float = 0.0


def _add_best(
    sums: dict[tuple[str, str, str], _Sum], jobs: _Alike, terms: SizeTerms
) -> tuple[IntArray, list[_Way]]:
    """Add each job to the way that saves it most: dollars, then GPU-hours; ties: the first.

    Returns:
        The place of its way of each job, -1 for none, and the ways.
    """
    ways = [*_fewer(jobs), *_parts(jobs), *_cheaper(jobs, terms)]
    best = np.full(jobs.gpu_h.size, -1)
    most_usd, most_h = np.zeros(jobs.gpu_h.size), np.zeros(jobs.gpu_h.size)
    for place, way in enumerate(ways):
        is_more = (way.saved_usd > most_usd) | (
            (way.saved_usd == most_usd) & (way.saved_gpu_h > most_h)
        )
        chosen = way.fits & is_more
        best[chosen] = place
        most_usd[chosen], most_h[chosen] = way.saved_usd[chosen], way.saved_gpu_h[chosen]
    for place, way in enumerate(ways):
        chosen = best == place
        count, gpu_h = int(chosen.sum()), float(jobs.gpu_h[chosen].sum())
        if not count:
            continue
        row = sums.setdefault((jobs.gpu_type or UNNAMED, way.way, way.name), _Sum())
        row.jobs += count
        row.gpu_h += gpu_h
        row.saved_gpu_h += float(way.saved_gpu_h[chosen].sum())
        row.saved_usd += float(way.saved_usd[chosen].sum())
        row.tensor_jobs += int(way.by_tensor[chosen].sum())
        if way.speed is not None:
            row.measured_jobs += count
            row.measured_h += gpu_h
            row.speed_h += way.speed * gpu_h
    return best, ways


def _fewer(jobs: _Alike) -> Iterator[_Way]:
    """Yield the GPUs in use of jobs that never use the others."""
    unused = jobs.unused_gpu_h
    is_none = np.zeros(unused.size, np.bool_)
    yield _Way(FEWER, IN_USE, unused > 0, unused, unused * jobs.usd, None, is_none)


def _parts(jobs: _Alike) -> Iterator[_Way]:
    """Yield the parts of one GPU for jobs that use all of theirs, the smallest first."""
    may = jobs.is_single & (jobs.unused_gpu_h == 0)
    for part in slices_of(jobs.gpu_type, jobs.memory_gb) if may.any() else ():
        fits = may & (part.memory_gb >= jobs.least_gb)
        longer, speed, by_tensor = 1.0, None, np.zeros(fits.size, np.bool_)
        if jobs.speed is None:
            fits &= part.compute >= jobs.least_compute
            by_tensor = part.compute < jobs.in_use
        elif jobs.speed.is_enough(part.compute):
            longer, speed = jobs.speed.times_longer(part.compute), jobs.speed.speed(part.compute)
        else:
            continue
        saved = jobs.gpu_h * (1 - longer / part.on_one_gpu)
        yield _Way(PART, part.name, fits, saved, saved * jobs.usd, speed, by_tensor)


def _cheaper(jobs: _Alike, terms: SizeTerms) -> Iterator[_Way]:
    """Yield the cheaper types for jobs that use all of their GPUs."""
    for name, usd in terms.usd.items():
        if jobs.gpu_type is None or same_gpu(name, jobs.gpu_type):
            continue
        fits = (jobs.unused_gpu_h == 0) & (usd < jobs.usd)
        fits &= terms.gpu_memory[name] >= jobs.least_gb
        fits &= usd >= jobs.usd * jobs.least_compute
        by_tensor = usd < jobs.usd * jobs.in_use
        saved_usd = jobs.gpu_h * (jobs.usd - usd)
        yield _Way(CHEAPER, name, fits, np.zeros(fits.size), saved_usd, None, by_tensor)


def _rows(table: WasteTable, sums: Mapping[tuple[str, str, str], _Sum]) -> tuple[RightSize, ...]:
    months = table.months
    rows = [
        RightSize(
            gpu_type, way, name, row.jobs, row.gpu_h, row.saved_gpu_h,
            row.saved_gpu_h / months if months else 0.0,
            row.saved_usd / months if table.usd is not None and months else None,
            row.measured_jobs, row.tensor_jobs,
            row.speed_h / row.measured_h if row.measured_jobs else None,
        )
        for (gpu_type, way, name), row in sums.items()
    ]  # fmt: skip
    return tuple(
        sorted(
            rows,
            key=lambda row: (-(row.usd_per_month or 0), -row.saved_gpu_h, row.gpu_type, row.slice),
        )
    )


def _with_series(jobs: pl.DataFrame, series: pl.DataFrame | None) -> pl.DataFrame:
    """Return the jobs with memory and use from series where they cover nearly all of a job."""
    if series is None:
        return jobs
    names = ("gpu_util_mean", "gpu_mem_used_gib", "gpu_mem_total_gib")
    covering = series.filter(pl.col("covered_share") >= KNOWN)
    covering = covering.select("job_id", *names, "gpu_tensor_mean")
    joined = jobs.join(covering, on="job_id", how="left", suffix="_series", maintain_order="left")
    return joined.with_columns(
        pl.coalesce(name, f"{name}_series").alias(name) for name in names if name in jobs.columns
    )


def _stated(kind: str | None, gpu_memory: Mapping[str, float]) -> float | None:
    """Return the memory of a type that an option states; None where it does not."""
    if kind is None:
        return next(iter(gpu_memory.values())) if len(gpu_memory) == 1 else None
    return next((size for name, size in gpu_memory.items() if same_gpu(name, kind)), None)


def _check_stated(
    kinds: Sequence[str | None], kind_of: IntArray, measured_gb: FloatArray, stated_gb: FloatArray
) -> None:
    """Refuse a stated memory far from that which was measured. Raises `UsageError`."""
    for place in np.flatnonzero(np.isfinite(stated_gb)).tolist():
        kind, size_gb = kinds[place], stated_gb[place]
        of_kind = measured_gb[kind_of == place]
        of_kind = of_kind[np.isfinite(of_kind)]
        if not of_kind.size:
            continue
        usual_gb = float(np.median(of_kind))
        if abs(size_gb - usual_gb) > MOST_OFF * usual_gb:
            raise UsageError(
                f"--gpu-memory {kind or 'TYPE'}={size_gb:g}: the log has GPUs of {usual_gb:.0f} GB "
                f"there\n  next: leave it out, or state {usual_gb:.0f}"
            )


def _numbers(jobs: pl.DataFrame, name: str) -> FloatArray:
    if name not in jobs.columns:
        return np.full(jobs.height, np.nan)
    numbers: FloatArray = jobs[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return numbers
