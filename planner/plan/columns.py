"""The columns of the program: what each class holds on each route, bin by bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.planner.plan.classes import PlannedClass, classes_of
from gpuplan.planner.plan.jobs import PlannedJobs, ServiceLoad, TimeBins, bins_of
from gpuplan.planner.plan.markets import GpuMarkets, check_priced
from gpuplan.planner.plan.routes import (
    SERVERLESS,
    SPOT,
    WIDTH,
    JobPaths,
    JobRoute,
    RouteSettings,
    job_paths,
    profile_of,
    routes_offered,
)
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RouteColumns:
    """All routes of all classes, class by class; arrays have shape (r,) or (r, bins).

    Attributes:
        jobs: of the plan.
        classes: in their order.
        bins: of the window.
        types: GPU types of the jobs, in order of name.
        markets: of each type.
        settings: overheads of the routes.
        speedup: how jobs scale; None where widths are as recorded.
        routes: of each column.
        class_of: place of its class.
        type_of: place of its GPU type.
        pool_gpus: mean GPUs on the pool, by bin.
        outside_gpus: mean GPUs outside it, by bin; 0 for a column that has none.
        outside_usd: price of an hour of these.
        time_s: mean time of a job, from submission to the end.
        spot_gpu_s: recorded GPU-seconds of the jobs that the route takes to spot GPUs.
        arrived, due: deferred work by type and bin, running sums in GPU-bins; (types, bins).
        services: what services hold on the pool, beside all jobs, by GPU type.
        within_s: deferred jobs start at most this late.
    """

    jobs: PlannedJobs
    classes: tuple[PlannedClass, ...]
    bins: TimeBins
    types: tuple[str, ...]
    markets: tuple[GpuMarkets, ...]
    settings: RouteSettings
    speedup: SpeedupModel | None
    routes: tuple[JobRoute, ...]
    class_of: IntArray
    type_of: IntArray
    pool_gpus: FloatArray
    outside_gpus: FloatArray
    outside_usd: FloatArray
    time_s: FloatArray
    spot_gpu_s: FloatArray
    arrived: FloatArray
    due: FloatArray
    services: Mapping[str, ServiceLoad] = field(default_factory=dict)
    within_s: float = 0.0

    @property
    def market_of(self) -> dict[str, GpuMarkets]:
        """The markets of each GPU type, by its name."""
        return dict(zip(self.types, self.markets, strict=True))

    def by_type(self) -> Iterator[tuple[int, str, GpuMarkets, BoolArray]]:
        """Yield place, name and markets of each GPU type, and which jobs are of it."""
        job_types = self.jobs.gpu_type.to_numpy()
        for number, (gpu_type, market) in enumerate(self.market_of.items()):
            yield number, gpu_type, market, job_types == gpu_type

    @property
    def service_gpus(self) -> FloatArray:
        """GPUs that services hold, by type and bin."""
        held = np.zeros((len(self.types), self.bins.count))
        for name, load in self.services.items():
            held[self.types.index(name)] = load.means(self.bins)
        return held

    @property
    def rate_per_s(self) -> FloatArray:
        """Jobs of each class a second."""
        return np.array([planned.jobs.size for planned in self.classes]) / self.bins.window_s

    @property
    def recorded_s(self) -> FloatArray:
        """Mean time of each class, as recorded."""
        return np.array([planned.recorded_s for planned in self.classes])

    @property
    def now_s(self) -> float:
        """Mean time of all jobs of classes, as recorded."""
        rate = self.rate_per_s
        return float(rate @ self.recorded_s / rate.sum()) if rate.size else 0.0

    @property
    def has_deferred(self) -> bool:
        """Whether any job may wait for idle GPUs."""
        return bool(self.jobs.is_deferred.any())

    def paths_of(self, planned: PlannedClass) -> list[tuple[JobRoute, JobPaths]]:
        """Return the routes that fit any job of a class, and what its jobs then hold."""
        market = self.market_of[planned.gpu_type]
        return _paths_of(self.jobs, planned, market, self.speedup, self.settings)

    def of_kind(self, kind: str) -> BoolArray:
        """Return which columns are routes of a kind; shape (r,)."""
        return np.array([route.kind == kind for route in self.routes], bool)


def route_columns(
    jobs: PlannedJobs,
    markets: Mapping[str, GpuMarkets],
    *,
    speedup: SpeedupModel | None = None,
    settings: RouteSettings | None = None,
    within_s: float = 0.0,
    services: Mapping[str, ServiceLoad] | None = None,
    bins: TimeBins | None = None,
) -> RouteColumns:
    """Return the columns of the program for some jobs.

    Args:
        jobs: those of the plan.
        markets: of every GPU type of the jobs.
        speedup: how jobs scale; None for the recorded widths alone.
        settings: overheads; None for the usual ones.
        within_s: deferred jobs start at most this late.
        services: what services hold on the pool, by GPU type; None for none.
        bins: of time; None for those up to the last recorded end.

    Raises:
        UsageError: a GPU type has no price to commit to it, and none on demand.
    """
    settings = settings or RouteSettings()
    types = tuple(jobs.gpu_type.unique().sort().to_list())
    check_priced(markets, types)
    bins, classes = bins or bins_of(jobs.window_s), classes_of(jobs)
    routes: list[JobRoute] = []
    owners: list[int] = []
    pool, outside, price, time_s, spot_gpu_s = [], [], [], [], []
    for number, planned in enumerate(classes):
        market, rows = markets[planned.gpu_type], planned.jobs
        submit_s, gpus = jobs.submit_s[rows], jobs.gpus[rows]
        for route, path in _paths_of(jobs, planned, market, speedup, settings):
            routes.append(route)
            owners.append(number)
            end_s = submit_s + path.time_s
            pool.append(bins.means(submit_s + path.pool_from_s, end_s, path.pool_gpus))
            outside.append(
                bins.means(submit_s, submit_s + path.outside_s, gpus)
                if path.outside_s.any()
                else np.zeros(bins.count)
            )
            price.append(outside_price(route.kind, market))
            time_s.append(path.time_s.mean())
            to_spot = path.fits if route.kind == SPOT else np.zeros(rows.size, bool)
            spot_gpu_s.append(jobs.gpu_s[rows][to_spot].sum())
    arrived, due = _deferred_work(jobs, types, bins, within_s)
    type_of = [types.index(classes[number].gpu_type) for number in owners]
    empty = np.zeros((0, bins.count))
    return RouteColumns(
        jobs=jobs,
        classes=classes,
        bins=bins,
        types=types,
        markets=tuple(markets[gpu_type] for gpu_type in types),
        settings=settings,
        speedup=speedup,
        routes=tuple(routes),
        class_of=np.array(owners, np.int64),
        type_of=np.array(type_of, np.int64),
        pool_gpus=np.array(pool) if pool else empty,
        outside_gpus=np.array(outside) if outside else empty,
        outside_usd=np.array(price, np.float64),
        time_s=np.array(time_s, np.float64),
        spot_gpu_s=np.array(spot_gpu_s, np.float64),
        arrived=arrived,
        due=due,
        services=services or {},
        within_s=within_s,
    )


def _paths_of(
    jobs: PlannedJobs,
    planned: PlannedClass,
    market: GpuMarkets,
    speedup: SpeedupModel | None,
    settings: RouteSettings,
) -> list[tuple[JobRoute, JobPaths]]:
    """Return the routes that fit any job of a class, and what its jobs then hold."""
    rows = planned.jobs
    profile = profile_of(speedup, planned.label, planned.gpu_type)
    is_spot = jobs.is_spot[rows]
    offered = routes_offered(
        has_speedup=profile is not None,
        has_spot=market.spot_usd is not None and bool(is_spot.any()),
        has_serverless=market.serverless_usd is not None,
    )
    paths = (
        (
            route,
            job_paths(
                route,
                jobs.run_s[rows],
                jobs.gpus[rows],
                settings=settings,
                profile=profile,
                may_be_spot=is_spot,
                gpus_per_node=market.gpus_per_node,
            ),
        )
        for route in offered
    )
    return [(route, path) for route, path in paths if path.fits.any()]


def unused_levers(columns: RouteColumns, speedup: str | None) -> tuple[str, ...]:
    """Return why no job of those that may be on spot GPUs, or on other widths, fits there."""
    reasons = []
    if columns.jobs.is_spot.any() and not columns.of_kind(SPOT).any():
        priced = any(market.spot_usd is not None for market in columns.markets)
        hazard = columns.settings.hazard_per_s * HOUR_S
        reasons.append(
            f"no job is put on spot GPUs: at {hazard:.3g} losses of a node an hour (--spot-hazard) "
            "checkpoints and restarts take longer than the work"
            if priced
            else "no job is put on spot GPUs: those of --spot are of GPU types without --spot-price"
        )
    if columns.speedup is not None and not columns.of_kind(WIDTH).any():
        reasons.append(f"no job has another width: --speedup {speedup} has none for these classes")
    return tuple(reasons)


def outside_price(kind: str, market: GpuMarkets) -> float:
    """Return what an hour of a GPU outside the pool costs on a kind of route; 0 without any."""
    prices = {SPOT: market.spot_usd, SERVERLESS: market.serverless_usd}
    return prices.get(kind) or 0.0


def _deferred_work(
    jobs: PlannedJobs, types: tuple[str, ...], bins: TimeBins, within_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return the work of deferred jobs that arrived, and that is due, by type and bin."""
    arrived, due = np.zeros((2, len(types), bins.count))
    for number, gpu_type in enumerate(types):
        waiting = jobs.is_deferred & (jobs.gpu_type == gpu_type).to_numpy()
        if not waiting.any():
            continue
        begin_s, run_s, gpus = (
            values[waiting] for values in (jobs.submit_s, jobs.run_s, jobs.gpus)
        )
        late_s = begin_s + within_s
        arrived[number] = np.cumsum(bins.means(begin_s, begin_s + run_s, gpus))
        due[number] = np.cumsum(bins.means(late_s, late_s + run_s, gpus))
        due[number, -1] = arrived[number, -1]
    due = np.minimum(due, arrived)  # a rounding error apart at most
    return arrived, due


def undominated(columns: RouteColumns) -> IntArray:
    """Return the columns that no other of their class dominates; of equal ones the first stays.

    A column dominates another that in every bin holds as many GPUs or more and costs as much or
    more outside the pool, takes as long or longer, and has as much on spot GPUs or more.
    """
    pool, outside = columns.pool_gpus, columns.outside_usd[:, None] * columns.outside_gpus
    sums = np.stack(
        [pool.sum(axis=1), outside.sum(axis=1), columns.time_s, columns.spot_gpu_s], axis=1
    )

    def dominates(better: int, worse: int) -> bool:
        if (sums[better] > sums[worse]).any():
            return False
        if (pool[better] > pool[worse]).any() or (outside[better] > outside[worse]).any():
            return False
        return better < worse or (sums[better] < sums[worse]).any()

    kept = np.ones(columns.class_of.size, bool)
    for number in range(len(columns.classes)):
        rows = np.flatnonzero(columns.class_of == number).tolist()
        for row in rows:
            kept[row] = not any(
                kept[other] and dominates(other, row) for other in rows if other != row
            )
    return np.flatnonzero(kept)
