"""Fit the model to a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.history.jobs import JobArrays, job_arrays
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.synth.arrivals import clock_step_s, fit_arrivals
from gpuplan.analysis.synth.compare import measure
from gpuplan.analysis.synth.curve import DurationCurve, fit_curve
from gpuplan.analysis.synth.dependence import (
    CROWD_JOBS,
    CROWDS,
    Shared,
    crowd_of,
    fit_shared,
    fit_shifts,
    normal_scores,
    within,
)
from gpuplan.analysis.synth.model import (
    Habits,
    Holding,
    JobMixCell,
    Owners,
    States,
    Waits,
    WorkloadModel,
)
from gpuplan.analysis.trace.trace import Trace

COLUMNS = (
    "submit_time",
    "queue_s",
    "duration_s",
    "num_gpus",
    "num_workers",
    "gpu_type",
    "state",
    "user",
    "group",
    "job_class",
    "priority",
    "attempts",
)
"""Canonical columns that a model is fitted to."""

MOST_CLASSES = 50
MOST_CELLS = 1000
MOST_HOLDINGS = 20
OWN_CURVE_JOBS = 200
MOST_FITTED = 60
STATE_BINS = 20
WAIT_BANDS = (0.0, 1.0, 8.0, float(2**40))
OTHER = "other"


def fit_model(trace: Trace, *, source: str | None = None) -> WorkloadModel:
    """Return the model of a trace read with at least the columns `COLUMNS`.

    Durations exclude jobs still running, as in a characterization.
    """
    jobs = job_arrays(trace.jobs)
    jobs = jobs.only(~jobs.censored)  # a synthetic job has ended
    frame = trace.jobs
    facts = trace.provenance
    arrivals = fit_arrivals(jobs.submit_us, facts.time_zone, calendar=not facts.relative_time)
    kind = owner_kind(frame)
    owner = _codes(frame[kind]) if kind else np.zeros(jobs.jobs, dtype=np.int64)
    owners, run = _fit_owners(frame, jobs, owner, kind)
    step_s = _step_of(jobs.duration_s)
    classes = _classes(frame["job_class"])
    cells, curves, cell_of = _fit_cells(classes, jobs, step_s)
    waits, wait_scores = _fit_waits(jobs)
    timed = ~np.isnan(jobs.duration_s)
    duration_scores = within(np.array([cell.curve for cell in cells])[cell_of], jobs.duration_s)
    rng = np.random.default_rng(0)  # breaks ties
    crowds = min(CROWDS, max(1, jobs.jobs // (2 * CROWD_JOBS)))
    crowd = crowd_of(jobs.submit_us, crowds, rng)

    def shared(scores: FloatArray, at: NDArray[np.bool_]) -> Shared:
        return fit_shared(scores[at], owner[at], run[at], crowd[at], crowds, rng)

    size_scores = normal_scores(cell_of.astype(np.float64))
    habits = Habits(
        size=shared(size_scores, np.ones(jobs.jobs, dtype=np.bool_)),
        duration=shared(duration_scores, timed),
        wait=shared(wait_scores, ~np.isnan(wait_scores)),
    )
    users = frame["user"].drop_nulls().n_unique() or None
    return WorkloadModel(
        source=source or f"fitted to {trace.path}",
        jobs=jobs.jobs,
        arrivals=arrivals,
        owners=owners,
        habits=habits,
        cells=cells,
        durations=curves,
        holdings=_fit_holdings(frame),
        states=_fit_states(jobs),
        waits=waits,
        duration_step_s=step_s,
        reference=measure(jobs, users, arrivals.time_zone),
        timed_jobs=int(timed.sum()),
    )


def owner_kind(frame: pl.DataFrame) -> str | None:
    """Return the column of the owner of a job: user, else group, else None."""
    return next((name for name in ("user", "group") if frame[name].null_count() < len(frame)), None)


def _codes(names: pl.Series) -> IntArray:
    filled = names.fill_null("")
    result: IntArray = filled.rank("dense").to_numpy().astype(np.int64) - 1
    return result


def _step_of(values: FloatArray) -> float:
    """Return the resolution of seconds that may be NaN; 1 s where all are."""
    recorded = values[~np.isnan(values)]
    if not recorded.size or not recorded.any():
        return 1.0
    return clock_step_s(np.rint(recorded * MICROS).astype(np.int64))


def _fit_owners(
    frame: pl.DataFrame, jobs: JobArrays, owner: IntArray, kind: str | None
) -> tuple[Owners, IntArray]:
    """Return the owners and the run of each job."""
    gap = np.diff(jobs.submit_us)
    mean = float(gap.mean()) if gap.size else 0.0
    if not mean:
        return Owners(kind=kind, count=int(owner.max()) + 1), np.zeros(jobs.jobs, dtype=np.int64)
    positive = gap[gap > 0]
    short, pause = (float(q) / mean for q in np.quantile(positive, [0.5, 0.75]))
    pause = max(pause, 1.0)  # else the pauses within a batch of like jobs would end it
    same = owner[1:] == owner[:-1]
    run = np.concatenate([[0], np.cumsum(~same | (gap > pause * mean))])
    jobs_of = np.bincount(owner)
    collision = float(((jobs_of / jobs.jobs) ** 2).sum())
    stay = []
    for chosen in (gap == 0, (gap > 0) & (gap <= short * mean), gap > short * mean):
        same_share = float(same[chosen].mean()) if chosen.any() else 0.0
        # Two in a row also meet by chance: by the chance of two jobs to have one owner.
        stay.append(min(max((same_share - collision) / max(1 - collision, 1e-9), 0.0), 0.999))
    owners = Owners(
        kind=kind,
        count=jobs_of.size,
        exponent=_zipf_exponent(jobs_of),
        stay=(stay[0], stay[1], stay[2]),
        short=short,
        pause=pause,
    )
    if kind == "user" and frame["group"].null_count() < len(frame):
        group = _codes(frame["group"])
        pairs = frame.select(pl.Series("u", owner), pl.Series("g", group))
        main = pairs.group_by("u", "g").len().group_by("u").agg(pl.col("len").max())
        groups = np.bincount(group)
        owners = replace(
            owners,
            groups=groups.size,
            group_exponent=_zipf_exponent(groups),
            loyalty=float(main["len"].sum()) / jobs.jobs,
        )
    return owners, run


def _zipf_exponent(jobs_of: IntArray) -> float:
    """Return the Zipf exponent with the chance that two jobs have one owner of the original."""
    wanted = float(((jobs_of / jobs_of.sum()) ** 2).sum())
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        shares = zipf_shares(jobs_of.size, middle)
        low, high = (middle, high) if float(shares @ shares) < wanted else (low, middle)
    return (low + high) / 2


def zipf_shares(count: int, exponent: float) -> FloatArray:
    """Return shares proportional to ``rank ** -exponent``, most first; shape (count,)."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    result: FloatArray = weights / weights.sum()
    return result


def _classes(names: pl.Series) -> pl.Series:
    """Return the classes, with all but the `MOST_CLASSES` most frequent ones as one."""
    counts = names.drop_nulls().value_counts(sort=True, name="jobs")
    if counts.height <= MOST_CLASSES:
        return names
    kept = counts.sort(["jobs", names.name], descending=[True, False]).head(MOST_CLASSES)
    rare = names.is_not_null() & ~names.is_in(kept[names.name].to_list())
    return pl.select(
        pl.when(pl.lit(rare)).then(pl.lit(OTHER)).otherwise(pl.lit(names)).alias(names.name)
    ).to_series()


def _fit_cells(
    classes: pl.Series, jobs: JobArrays, step_s: float
) -> tuple[tuple[JobMixCell, ...], tuple[DurationCurve, ...], IntArray]:
    """Return cells, their curves and the cell of each job.

    A cell of `OWN_CURVE_JOBS` timed jobs has a curve of its own. Others share one per class, or
    per GPU count, if together they have that many, and one for all that remain; a cell uses
    a shared curve with the shift that gives it its share of the GPU time (CPU-only jobs count as
    one GPU), or, where very many share it, with its mean normal score.
    """
    frame = pl.DataFrame({"job_class": classes, "num_gpus": jobs.num_gpus}).with_columns(
        pl.Series("timed", ~np.isnan(jobs.duration_s))
    )
    table = frame.group_by("job_class", "num_gpus").agg(pl.len(), pl.col("timed").sum())
    table = table.sort("len", "num_gpus", "job_class", descending=[True, False, False])
    if table.height > MOST_CELLS:
        table = table.head(MOST_CELLS)
    table = table.sort("num_gpus", "job_class", nulls_last=False).with_row_index("cell")
    of_job = frame.join(
        table.select("cell", "job_class", "num_gpus"),
        on=["job_class", "num_gpus"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["cell"]
    cell_of = of_job.fill_null(0).cast(pl.Int64).to_numpy()
    timed = np.flatnonzero(~np.isnan(jobs.duration_s) & of_job.is_not_null().to_numpy())
    curve_of = _curve_of(table)
    order = timed[np.argsort(curve_of[cell_of[timed]], kind="stable")]
    ends = np.cumsum(np.bincount(curve_of[cell_of[order]]))
    parts = np.split(order, ends[:-1]) if order.size else []
    curves = tuple(fit_curve(np.sort(jobs.duration_s[part]), step_s) for part in parts)
    shift = _shifts(table, curve_of, curves, cell_of[timed], jobs.duration_s[timed])
    total = int(table["len"].sum())
    cells = tuple(
        JobMixCell(
            job_class=name,
            num_gpus=float(gpus),
            share=many / total,
            timed=timed_jobs / many,
            curve=int(curve),
            shift=float(shift[cell]),
        )
        for (cell, name, gpus, many, timed_jobs), curve in zip(
            table.iter_rows(), curve_of, strict=True
        )
    )
    return cells, curves, cell_of


def _shifts(
    table: pl.DataFrame,
    curve_of: IntArray,
    curves: tuple[DurationCurve, ...],
    cell_of: IntArray,
    duration_s: FloatArray,
) -> FloatArray:
    """Return the shift of each cell on its curve; 0 where the curve is its own."""
    size = table.height
    jobs_of = np.bincount(cell_of, minlength=size)
    total_s = np.bincount(cell_of, duration_s, minlength=size)
    width = np.maximum(table["num_gpus"].to_numpy(), 1.0)
    shift = np.zeros(size)
    for number, curve in enumerate(curves):
        cells = np.flatnonzero(curve_of == number)
        if cells.size > MOST_FITTED:
            scores = within(curve_of[cell_of], duration_s)
            mean = np.bincount(cell_of, scores, minlength=size)[cells] / jobs_of[cells]
            shift[cells] = mean
        elif cells.size > 1 and total_s[cells].any():
            time = width[cells] * total_s[cells]
            shares = jobs_of[cells] / jobs_of[cells].sum()
            shift[cells] = fit_shifts(curve, width[cells], shares, time / time.sum())
    return shift


def _curve_of(table: pl.DataFrame) -> IntArray:
    """Return the curve of each cell, numbered from 0; -1 without timed jobs."""
    names: list[Any] = [None] * table.height
    rows = list(table.iter_rows(named=True))
    waiting = [row for row in rows if row["timed"]]
    for key in (("job_class", "num_gpus"), ("job_class",), ("num_gpus",)):
        jobs_of: dict[Any, int] = {}
        for row in waiting:
            name = (key, *(row[k] for k in key))
            jobs_of[name] = jobs_of.get(name, 0) + row["timed"]
        left = []
        for row in waiting:
            name = (key, *(row[k] for k in key))
            if jobs_of[name] >= OWN_CURVE_JOBS:
                names[row["cell"]] = name
            else:
                left.append(row)
        waiting = left
    for row in waiting:
        names[row["cell"]] = ("all",)
    numbers = {name: n for n, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
    return np.array([numbers.get(name, -1) for name in names], dtype=np.int64)


def _fit_holdings(frame: pl.DataFrame) -> tuple[Holding, ...]:
    """Return the most frequent combinations of each GPU count."""
    keys = ["num_gpus", "num_workers", "gpu_type", "priority", "attempts"]
    table = (
        frame.group_by(keys)
        .len()
        .sort("num_gpus", "len", *keys[1:], descending=[False, True, False, False, False, False])
        .group_by("num_gpus", maintain_order=True)
        .head(MOST_HOLDINGS)
        .with_columns(share=pl.col("len") / pl.col("len").sum().over("num_gpus"))
    )
    return tuple(
        Holding(float(gpus), share, workers, kind, priority, attempts)
        for gpus, workers, kind, priority, attempts, share in table.select(*keys, "share").rows()
    )


def _fit_states(jobs: JobArrays) -> States:
    timed = ~np.isnan(jobs.duration_s)
    edges: FloatArray = np.empty(0)
    if timed.any():
        parts = np.arange(1, STATE_BINS) / STATE_BINS
        edges = np.unique(np.quantile(jobs.duration_s[timed], parts))
    overall = _shares(jobs.state[timed], None)
    rows = []
    for chosen in (timed & (jobs.num_gpus > 0), timed & (jobs.num_gpus == 0)):
        place = np.searchsorted(edges, jobs.duration_s[chosen], side="left")
        state = jobs.state[chosen]
        rows.append(tuple(_shares(state[place == part], overall) for part in range(edges.size + 1)))
    untimed = jobs.state[~timed & ~jobs.censored]
    return States(
        edges_s=tuple(float(edge) for edge in edges),
        gpu=rows[0],
        cpu=rows[1],
        untimed=_shares(untimed, _shares(jobs.state[~jobs.censored], None)),
        running=float(np.count_nonzero(jobs.censored)) / jobs.jobs,
    )


def _shares(state: Any, otherwise: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return the shares of the states; ``otherwise`` (or unknown) without any job."""
    if not state.size:
        unknown = tuple(float(name == "unknown") for name in STATES)
        return unknown if otherwise is None else otherwise
    counts = np.bincount(state, minlength=len(STATES)) / state.size
    return tuple(float(share) for share in counts)


def _fit_waits(jobs: JobArrays) -> tuple[tuple[Waits, ...], FloatArray]:
    """Return waits by band of GPU counts, and their normal scores within the bands."""
    band = np.searchsorted(WAIT_BANDS, jobs.num_gpus, side="left")
    queue_s = np.round(jobs.queue_s, 6)  # submissions have microseconds: less counts as 0
    is_known = ~np.isnan(queue_s)
    step_s = _step_of(queue_s)
    waits = []
    for part in np.unique(band):
        inside = band == part
        values = np.sort(queue_s[inside & is_known])
        curve = fit_curve(values, step_s) if values.size else None
        waits.append(Waits(WAIT_BANDS[part], values.size / np.count_nonzero(inside), curve))
    return tuple(waits), within(band, jobs.queue_s)
