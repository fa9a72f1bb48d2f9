"""Draw jobs from a model: arrays of numbers first, names only when rows are written."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.job_table.schema import CANONICAL, STATES
from gpuplan.analysis.synth.arrivals import draw_submissions
from gpuplan.analysis.synth.curve import DurationCurve
from gpuplan.analysis.synth.dependence import (
    ascending,
    crowd_of,
    even_scores,
    quotas,
    shared_scores,
    strata,
)
from gpuplan.analysis.synth.fit import zipf_shares
from gpuplan.analysis.synth.model import Habits, Owners, WorkloadModel

RUNNING = STATES.index("running")


@dataclass(frozen=True, slots=True)
class SampledJobs:
    """Jobs in order of submission; every array has shape (n,).

    Attributes:
        submit_us: microseconds since 1970-01-01 UTC, ascending.
        owner: position of the user (or group), most active first.
        group: position of the group; empty if owners are groups or no owners are recorded.
        cell: position in `WorkloadModel.cells`.
        holding: position in `WorkloadModel.holdings`.
        duration_s, queue_s: seconds; NaN where there is none.
        num_gpus: GPUs held.
        state: position in `STATES`.
    """

    submit_us: IntArray
    owner: NDArray[np.int32]
    group: NDArray[np.int32]
    cell: NDArray[np.int32]
    holding: NDArray[np.int32]
    duration_s: FloatArray
    queue_s: FloatArray
    num_gpus: FloatArray
    state: NDArray[np.uint8]

    def in_order(self) -> SampledJobs:
        """Return the jobs sorted by submission; equal ones keep their order."""
        order = np.argsort(self.submit_us, kind="stable")
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return SampledJobs(**{name: a[order] if a.size else a for name, a in arrays.items()})

    def job_arrays(self) -> JobArrays:
        """Return the jobs as arrays for `characterize`; running jobs have no duration."""
        censored = self.state == RUNNING
        duration_s = np.where(censored, np.nan, self.duration_s)
        timed = ~np.isnan(duration_s)
        return JobArrays(
            submit_us=self.submit_us,
            queue_s=self.queue_s,
            duration_s=duration_s,
            held_s=duration_s,
            num_gpus=self.num_gpus,
            gpu_s=np.where(timed, duration_s * self.num_gpus, 0.0),
            state=self.state,
            censored=censored,
            timed_jobs=int(np.count_nonzero(timed)),
        )


def draw(model: WorkloadModel, count: int, first_s: float, span_s: float, seed: int) -> SampledJobs:
    """Return ``count`` jobs submitted over ``span_s`` seconds from ``first_s`` (UTC) on.

    Every part has its own random stream, so that one does not affect another.
    """
    when, who, what, long, wait, fate, held, group_of, among = (
        np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(9)
    )
    submit_us = draw_submissions(model.arrivals, count, first_s, span_s, when)
    owner, run = _draw_owners(model.owners, submit_us, who)
    crowd = _draw_crowds(model.habits, submit_us, among)
    shared = shared_scores(model.habits.size, owner, run, crowd, what)
    cell = np.empty(count, dtype=np.int32)
    amounts = quotas(np.array([c.share for c in model.cells]), count)
    cell[ascending(shared)] = np.repeat(np.arange(len(model.cells), dtype=np.int32), amounts)
    gpus_of = np.array([c.num_gpus for c in model.cells])

    timed_share = np.array([c.timed for c in model.cells])
    curve_of = np.array([c.curve for c in model.cells])
    shift = np.array([c.shift for c in model.cells])
    scores = shared_scores(model.habits.duration, owner, run, crowd, long)
    if shift.any():
        scores = even_scores(scores, cell, shift, long)
    timed = long.random(count) < timed_share[cell]
    duration_s = _by_curve(
        np.where(timed, curve_of[cell], -1), model.durations, scores, model.duration_step_s, long
    )

    bands = np.array([w.num_gpus for w in model.waits])
    band = np.minimum(np.searchsorted(bands, gpus_of, side="left"), max(bands.size - 1, 0))[cell]
    recorded = np.array([w.known for w in model.waits])[band] if bands.size else np.zeros(count)
    band = np.where(wait.random(count) < recorded, band, -1)
    waits = tuple(w.curve for w in model.waits)
    wait_step = next((curve.step_s for curve in waits if curve), 1.0)
    scores = shared_scores(model.habits.wait, owner, run, crowd, wait)
    queue_s = _by_curve(band, waits, scores, wait_step, wait)

    sampled = SampledJobs(
        submit_us=submit_us,
        owner=owner.astype(np.int32),
        group=_draw_groups(model.owners, owner, group_of),
        cell=cell,
        holding=_draw_holdings(model, gpus_of, cell, held),
        duration_s=duration_s,
        queue_s=queue_s,
        num_gpus=gpus_of[cell],
        state=_draw_states(model, duration_s, gpus_of[cell] > 0, fate),
    )
    return _censored(sampled, round(model.states.running * count), fate)


def _draw_owners(
    owners: Owners, submit_us: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return the owner of each job and the run it is in."""
    count = submit_us.size
    gap = np.diff(submit_us) / MICROS
    mean = float(gap.mean()) if gap.size else 0.0
    kind = np.where(gap == 0, 0, np.where(gap <= owners.short * mean, 1, 2))
    fresh = np.ones(count, dtype=bool)
    fresh[1:] = rng.random(gap.size) >= np.asarray(owners.stay)[kind]
    edges = np.cumsum(zipf_shares(owners.count, owners.exponent))
    chosen = np.searchsorted(edges / edges[-1], rng.random(int(fresh.sum())), side="right")
    owner = chosen[np.cumsum(fresh) - 1]
    new_run = (owner[1:] != owner[:-1]) | (gap > owners.pause * mean)
    return owner, np.concatenate([[0], np.cumsum(new_run)])


def _draw_crowds(habits: Habits, submit_us: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the crowd of each job; 0 of all where no habit depends on it."""
    crowds = max(len(part.crowd) for part in (habits.size, habits.duration, habits.wait))
    return crowd_of(submit_us, crowds, rng) if crowds else np.zeros(submit_us.size, dtype=np.int64)


def _draw_groups(owners: Owners, owner: IntArray, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the group of each job: its user's main group, or now and then another one.

    Users take groups in order of activity, each the group that lacks most of its share.
    """
    if not owners.groups:
        return np.empty(0, dtype=np.int32)
    shares = zipf_shares(owners.groups, owners.group_exponent)
    lacking = [(-share, group) for group, share in enumerate(shares)]
    heapq.heapify(lacking)
    main = np.empty(owners.count, dtype=np.int32)
    for user, activity in enumerate(zipf_shares(owners.count, owners.exponent)):
        lack, group = lacking[0]
        main[user] = group
        heapq.heapreplace(lacking, (lack + float(activity), group))
    chosen = main[owner]
    away = np.flatnonzero(rng.random(owner.size) >= owners.loyalty)
    chosen[away] = np.searchsorted(np.cumsum(shares)[:-1], rng.random(away.size), side="right")
    return chosen


def _by_curve(
    part: IntArray,
    curves: tuple[DurationCurve | None, ...],
    scores: FloatArray,
    step_s: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return whole steps of each curve, its draws in the order of the scores; NaN in part -1."""
    values = np.full(part.size, np.nan)
    order = ascending(scores)
    order = order[np.argsort(part[order].astype(np.int16), kind="stable")]
    begin = int(np.count_nonzero(part < 0))
    for number, curve in enumerate(curves):
        end = begin + int(np.count_nonzero(part == number))
        if curve is not None and end > begin:
            sampled = curve.at(strata(end - begin, rng))
            values[order[begin:end]] = np.rint(sampled / step_s) * step_s
        begin = end
    return values


def _draw_states(
    model: WorkloadModel, duration_s: FloatArray, wide: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.uint8]:
    states = model.states
    rows = np.array([*states.gpu, *states.cpu, states.untimed])
    place = np.searchsorted(states.edges_s, duration_s, side="left")  # NaN sorts last
    place[~wide] += len(states.gpu)
    place[np.isnan(duration_s)] = len(rows) - 1
    return _choose(rows, place, rng).astype(np.uint8)


def _draw_holdings(
    model: WorkloadModel, gpus_of: FloatArray, cell: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return a combination for each job among those of its GPU count."""
    counts = np.unique([h.num_gpus for h in model.holdings])
    row = np.searchsorted(counts, [h.num_gpus for h in model.holdings])
    rows = np.zeros((counts.size, len(model.holdings)))
    rows[row, np.arange(row.size)] = [h.share for h in model.holdings]
    place = np.minimum(np.searchsorted(counts, gpus_of), counts.size - 1)[cell]
    return _choose(rows, place, rng).astype(np.int32)


def _choose(rows: FloatArray, place: IntArray, rng: np.random.Generator) -> IntArray:
    """Return a column for each job, by the shares in its row of ``rows``."""
    edges = np.cumsum(rows, axis=1)
    edges = edges / edges[:, -1:] + np.arange(len(rows))[:, None]
    chosen: IntArray = np.searchsorted(edges.ravel(), place + rng.random(place.size), side="right")
    chosen -= place * rows.shape[1]
    return chosen


def _censored(sampled: SampledJobs, running: int, rng: np.random.Generator) -> SampledJobs:
    """Return the jobs with up to ``running`` of them still running at the last submission.

    These are the last to end of those that run past it; their durations are the times run by then.
    Their full durations and states go to jobs of their cell without a duration: durations are
    sampled for the jobs that have ended alone, and must not lack the longest.
    """
    if not running:
        return sampled
    snapshot_s = sampled.submit_us[-1] / MICROS
    start_s = sampled.submit_us / MICROS + np.nan_to_num(sampled.queue_s)
    end_s = np.nan_to_num(start_s + sampled.duration_s)
    past = np.flatnonzero((end_s > snapshot_s) & (start_s < snapshot_s))
    last = past[np.argsort(-end_s[past], kind="stable")[:running]]
    duration_s, state = sampled.duration_s.copy(), sampled.state.copy()
    untimed = rng.permutation(np.flatnonzero(np.isnan(duration_s)))
    for cell in np.unique(sampled.cell[last]):
        to = untimed[sampled.cell[untimed] == cell]
        sources = last[sampled.cell[last] == cell][: to.size]
        to = to[: sources.size]
        duration_s[to], state[to] = sampled.duration_s[sources], sampled.state[sources]
    duration_s[last] = np.floor(snapshot_s - start_s[last])
    state[last] = RUNNING
    return replace(sampled, duration_s=duration_s, state=state)


def to_frame(model: WorkloadModel, sampled: SampledJobs, begin: int, end: int) -> pl.DataFrame:
    """Return rows ``begin`` to ``end`` in the canonical columns."""
    rows = slice(begin, end)
    holdings = model.holdings
    kind = model.owners.kind
    width = len(str(sampled.submit_us.size))
    columns: dict[str, pl.Series | None] = dict.fromkeys(CANONICAL)
    number = pl.Series(np.arange(begin + 1, end + 1)).cast(pl.String).str.zfill(width)
    columns["job_id"] = "synth-" + number
    if kind is not None:
        columns[kind] = _named(kind, model.owners.count, sampled.owner[rows])
    if sampled.group.size:
        columns["group"] = _named("group", model.owners.groups, sampled.group[rows])
    columns["job_class"] = _pick([c.job_class for c in model.cells], sampled.cell[rows])
    columns["submit_time"] = pl.Series(sampled.submit_us[rows])
    columns["queue_s"] = pl.Series(sampled.queue_s[rows]).fill_nan(None)
    columns["duration_s"] = pl.Series(sampled.duration_s[rows]).fill_nan(None)
    columns["num_gpus"] = pl.Series(sampled.num_gpus[rows])
    for name in ("num_workers", "gpu_type", "priority", "attempts"):
        columns[name] = _pick([getattr(h, name) for h in holdings], sampled.holding[rows])
    columns["state"] = _pick(list(STATES), sampled.state[rows])
    return pl.DataFrame(
        [
            pl.Series(name, [None], dtype=kind).new_from_index(0, end - begin)
            if (column := columns[name]) is None
            else column.cast(kind).alias(name)
            for name, kind in CANONICAL.items()
        ]
    )


def _named(prefix: str, count: int, codes: NDArray[np.int32]) -> pl.Series:
    width = len(str(count))
    return _pick([f"{prefix}-{n + 1:0{width}}" for n in range(count)], codes)


def _pick(values: list[object], codes: NDArray[np.generic]) -> pl.Series:
    """Return the values at positions, as a column."""
    return pl.Series(values, strict=False).gather(codes.astype(np.uint32))
