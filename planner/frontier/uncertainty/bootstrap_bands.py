"""Confidence bands of a frontier: a bootstrap over the jobs it was estimated from.

Source: moving blocks of consecutive jobs, see `analysis.statistics`. A resample has its own
arrival rate and mean work of each class, and its own frontier, so that a band is about the best
plan of each resample, not about one fixed plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.statistics.block_length import block_length
from gpuplan.analysis.statistics.bootstrap import Blocks, draw_blocks, expanded_tail, share_hint
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE, total_along
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S

RESAMPLES = 400
LEVELS = (50.0, 99.9)
NOT_COVERED = (
    "errors of the speedups and of the rescaling times",
    "kinds and sizes of jobs that the trace has none of; where few huge jobs make up the load, it "
    "is less certain than its band",
    "trends and seasons longer than a block of jobs: the band is for more of the same",
    "peaks, and waits for nodes: the frontier is one of averages",
)


@dataclass(frozen=True, slots=True)
class FrontierBand:
    """A figure and the interval around it.

    Attributes:
        value: the estimate; None if undefined, as for a budget below the load.
        low: lower end.
        high: upper end; None (as ``low`` may be) where the interval has none, since too many of
            the cases it is about have no such figure.
        missed_share: share of those cases that have none.
    """

    value: float | None
    low: float | None
    high: float | None
    missed_share: float = 0.0


def range_band(value: float | None, ends: Sequence[float | None]) -> FrontierBand:
    """Return the band between the minimum and the maximum of some cases, as the ends of a law.

    A case without the figure (None) counts as an infinite one.
    """
    numbers = [end for end in ends if end is not None]
    missed = 1 - len(numbers) / len(ends)
    return FrontierBand(value, min(numbers, default=None), None if missed else max(numbers), missed)


@dataclass(frozen=True, slots=True)
class Bands:
    """A frontier with confidence bands from resamples of its jobs; made by `bootstrap_frontier`.

    Attributes:
        level: confidence of each band, percent.
        resamples: how many there were.
        jobs: jobs that were resampled.
        block_jobs: consecutive jobs in a block.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        budget_gpus: requested budgets; shape (B,).
        mean_jct_s: least mean completion time at each of them.
        target_jct_s: requested mean completion times; shape (T,).
        target_budget_gpus: least average GPUs for each of them.
    """

    level: float
    resamples: int
    jobs: int
    block_jobs: int
    load_gpus: FrontierBand
    min_budget_gpus: FrontierBand
    budget_gpus: FloatArray
    mean_jct_s: tuple[FrontierBand, ...]
    target_jct_s: FloatArray
    target_budget_gpus: tuple[FrontierBand, ...]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per figure; ``at`` is its budget in GPUs or its completion time."""
        rows: list[tuple[str, float | None, FrontierBand]] = [
            ("load_gpus", None, self.load_gpus),
            ("min_budget_gpus", None, self.min_budget_gpus),
            *(
                ("mean_jct_s", gpus, band)
                for gpus, band in zip(self.budget_gpus.tolist(), self.mean_jct_s, strict=True)
            ),
            *(
                ("budget_gpus", seconds, band)
                for seconds, band in zip(
                    self.target_jct_s.tolist(), self.target_budget_gpus, strict=True
                )
            ),
        ]
        return pl.DataFrame(
            [{"figure": figure, "at": at, **asdict(band)} for figure, at, band in rows],
            schema={"figure": pl.String}
            | dict.fromkeys(("at", "value", "low", "high", "missed_share"), pl.Float64),
        )


def bootstrap_frontier(
    workload: ClassWorkload,
    frontier: Frontier,
    budgets_gpus: Sequence[float] = (),
    targets_s: Sequence[float] = (),
    *,
    level: float = 90.0,
    resamples: int = RESAMPLES,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> Bands:
    """Return the band of the least budget, and those at some budgets and completion times.

    A resample consists of blocks of consecutive jobs with the gaps before them, without the classes
    that have no job in it. A band is the expanded percentile interval of the resampled figures (see
    `analysis.statistics.bootstrap`); a budget that cannot keep up counts as an infinite completion
    time.

    Args:
        workload: the jobs.
        frontier: the solution of its classes.
        budgets_gpus: budgets, in GPUs on average or what else the frontier counts; > 0.
        targets_s: mean completion times to find the least budget for (weighted, with weights).
        level: confidence of a band, percent, 50 to 99.9.
        resamples: how many, at least 1.
        rng: draws the blocks.
        progress: called with the share of the resamples done.

    Raises:
        UsageError: a level out of range.
    """
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise UsageError(
            f"--ci must be between {LEVELS[0]:g} and {LEVELS[1]:g}, got {level:g}"
            f"{share_hint(level)}"
        )
    arrivals = workload.arrivals
    if arrivals is None:
        raise ValueError("this workload has no jobs to resample, only classes")
    if [c.name for c in frontier.classes] != [c.name for c in workload.classes]:
        raise ValueError("the frontier must be that of the classes of the workload")
    budgets, targets = np.array(budgets_gpus, float), np.array(targets_s, float)
    block = block_length(arrivals.work_h, np.diff(arrivals.submit_s, prepend=0.0))
    blocks = draw_blocks(arrivals.size, block, resamples, rng)
    requested = _Requested(budgets, targets)
    rates, scales = _estimates(frontier, arrivals, workload.horizon_h, blocks)
    rows = []
    for rate, scale in zip(rates, scales, strict=True):
        rows.append(_resampled(frontier, rate, scale, requested))
        if progress is not None:
            progress(len(rows) / resamples)
    held = requested.figures(
        frontier.load_gpus, frontier.budgets, frontier.objective_s, frontier.mean_jct_s
    )
    load, least, *rest = (
        _band(*figure, expanded_tail(level, blocks.count))
        for figure in zip(held, np.stack(rows).T, strict=True)
    )
    return Bands(
        level=level,
        resamples=resamples,
        jobs=arrivals.size,
        block_jobs=block,
        load_gpus=load,
        min_budget_gpus=least,
        budget_gpus=budgets,
        mean_jct_s=tuple(rest[: budgets.size]),
        target_jct_s=targets,
        target_budget_gpus=tuple(rest[budgets.size :]),
    )


@dataclass(frozen=True, slots=True)
class _Requested:
    budgets: FloatArray
    targets: FloatArray

    @property
    def missed(self) -> FloatArray:
        """The figures if no budget can sustain the arrivals."""
        return np.full(2 + self.budgets.size + self.targets.size, np.inf)

    def figures(
        self, load: float, budget: FloatArray, objective_s: FloatArray, mean_jct_s: FloatArray
    ) -> FloatArray:
        """Return load, least budget, time at each budget and budget for each time; infinite: none.

        The arrays are a frontier's at its vertices.
        """
        times = np.interp(self.budgets, budget, mean_jct_s)
        times[self.budgets < budget[0] * (1 - TOLERANCE)] = np.inf
        needs = np.interp(-self.targets, -objective_s, budget)
        needs[self.targets < objective_s[-1] * (1 - TOLERANCE)] = np.inf
        return np.concatenate([[load, budget[0]], times, needs])


def _estimates(
    frontier: Frontier, arrivals: ClassArrivals, horizon_h: float, blocks: Blocks
) -> tuple[FloatArray, FloatArray]:
    """Return arrivals per hour and the factor on the mean work, by resample and class; (R, C)."""
    gap_h = np.diff(arrivals.submit_s, prepend=0.0) / HOUR_S
    rest_h = horizon_h - float(gap_h.sum())  # after the last job, that is before the first
    if rest_h >= 0:
        gap_h[0] += rest_h
    else:  # a horizon that was given too short: rates are over it, here as in the estimate
        gap_h *= horizon_h / (horizon_h - rest_h)
    span_h = np.maximum(blocks.sums(gap_h), 0.0)
    rates, scales = [], []
    for index, job_class in enumerate(frontier.classes):
        of_class = (arrivals.job_class == index).astype(float)
        jobs, work_h = blocks.sums(of_class), blocks.sums(of_class * arrivals.work_h)
        mean_h = float(job_class.work_h.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            rates.append(np.where(jobs > 0, jobs / span_h, 0.0))
            is_known = (jobs > 0) & (mean_h > 0)
            scales.append(np.where(is_known, work_h / (jobs * mean_h), 1.0))
    return np.stack(rates, axis=1), np.stack(scales, axis=1)


def _resampled(
    frontier: Frontier, rate: FloatArray, scale: FloatArray, requested: _Requested
) -> FloatArray:
    """Return the requested figures with other arrival rates and mean works; shapes (C,)."""
    if not np.isfinite(rate).all():  # all jobs of the resample came at once
        return requested.missed
    classes = frontier.classes
    if all(c.rescale_h == 0 and c.cap_h == float("inf") and not c.is_bounded for c in classes):
        return requested.figures(*_scaled(frontier, rate, scale))
    resampled = [
        replace(c, rate_per_h=r, work_h=c.work_h * factor)
        for c, r, factor in zip(classes, rate.tolist(), scale.tolist(), strict=True)
        if r > 0
    ]
    try:
        again = solve_frontier(resampled)
    except InfeasibleError:  # a cap that these sizes cannot keep
        figures = requested.missed
        figures[0] = sum(c.load_gpus for c in resampled)
        return figures
    return requested.figures(again.load_gpus, again.budgets, again.objective_s, again.mean_jct_s)


def _scaled(
    frontier: Frontier, rate: FloatArray, scale: FloatArray
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return load, budgets, objective and times of the vertices without solving again.

    Without rescaling times or caps, the work of a class stretches its hull along both axes by the
    same factor: slopes stay, hence the order of all edges; and arrival rates never were in them.
    """
    weight = np.array([c.weight for c in frontier.classes])
    work_h = np.array([c.work_h.sum() for c in frontier.classes])
    cost, time = ([getattr(hull, axis) for hull in frontier.hulls] for axis in ("cost", "time_h"))
    factor = rate * scale
    return (
        float(np.dot(factor, work_h)),
        total_along(frontier.edge_class, factor, cost),
        HOUR_S * total_along(frontier.edge_class, factor * weight, time) / np.dot(rate, weight),
        HOUR_S * total_along(frontier.edge_class, factor, time) / rate.sum(),
    )


def _band(value: float, resampled: FloatArray, tail: float) -> FrontierBand:
    """Return the band of a figure, infinite values included, with ``tail`` percent on each side."""
    ordered = np.sort(resampled)
    at = tail / 100 * (ordered.size + 1) - 1
    low, high = max(floor(at), 0), min(ceil(ordered.size - 1 - at), ordered.size - 1)
    missed = float(np.isinf(resampled).mean())
    return FrontierBand(
        _finite(value), _finite(float(ordered[low])), _finite(float(ordered[high])), missed
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
