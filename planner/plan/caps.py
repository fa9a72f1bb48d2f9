"""Caps on GPUs: with fewer GPUs on demand jobs queue, and idle commitments fill up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.market_use import ROUNDING, MarketUse, use_of
from gpuplan.planner.plan.replay import PlanRun
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.planner.plan.targets import TimeTarget, time_above, time_text

PARTS = (0.0, 0.25, 0.5, 0.75)
"""Caps to try, between the GPUs that are always there and the peak."""


@dataclass(frozen=True, slots=True)
class PlanCap:
    """A plan under a cap, as replayed.

    Attributes:
        gpus: most GPUs owned, committed and on demand, of all types.
        by_type: the same by GPU type.
        usd_per_month: what it costs; GPU time after the window counts too.
        mean_time_s: from submission to end.
        mean_wait_s, p95_wait_s: for GPUs.
        is_chosen: whether the answer is under this cap.
    """

    gpus: float
    by_type: Mapping[str, float]
    usd_per_month: float
    mean_time_s: float
    mean_wait_s: float
    p95_wait_s: float
    is_chosen: bool = False


def caps_at(run: PlanRun, part: float) -> dict[str, float]:
    """Return caps between what is always there, or the widest job, and the peak of a replay."""
    caps = {}
    for of in run.types:
        cluster, jobs = of.run.cluster, of.run.jobs
        most = cluster.fixed + of.run.peak_leased
        widest = float(jobs.pool_gpus[jobs.pool_us >= 0].max(initial=0.0))
        least = cluster.fixed + ceil(max(0.0, widest - cluster.fixed) / cluster.node) * cluster.node
        nodes = round(part * max(0.0, most - least) / cluster.node)
        caps[of.gpu_type] = min(max(most, least), least + nodes * cluster.node)
    return caps


def capped_runs(run: PlanRun) -> list[PlanRun]:
    """Return replays under some caps, ascending, the last without any but its peak."""
    runs: list[PlanRun] = []
    peak = caps_at(run, 1.0)
    for part in PARTS:
        caps = caps_at(run, part)
        if caps != peak and all(caps != other.caps for other in runs):
            runs.append(run.again(caps))
    return [*runs, replace(run, caps=peak)]


def cap_rows(runs: Iterable[PlanRun], chosen: PlanRun) -> tuple[PlanCap, ...]:
    """Return replays under caps as the answer has them; dollars until all jobs are done."""
    return tuple(
        PlanCap(
            gpus=sum((run.caps or {}).values()),
            by_type=dict(run.caps or {}),
            usd_per_month=run.usd_per_month(drains=True),
            is_chosen=run is chosen,
            **run.means_s(),
        )
        for run in runs
    )


def choose_cap(runs: list[PlanRun], target: TimeTarget) -> tuple[list[PlanRun], PlanRun]:
    """Return the replays with one more between two caps, and the cheapest that meets a target.

    Raises:
        InfeasibleError: none meets it; the message has the nearest that can be met.
    """
    limit_s = target.limit(0.0)
    meets = [run.measured_s(target) <= limit_s for run in runs]
    if not any(meets):
        least = min(run.measured_s(target) for run in runs)
        raise InfeasibleError(
            f"--target: {target.measure} <= {time_text(limit_s)} cannot be met: in the replay it "
            f"is {time_text(least)} at best\n  next: --target '{target.measure} <= "
            f"{time_above(least)}', a larger --cluster, or a shorter --provision-delay"
        )
    first = meets.index(True)
    if first:
        low, high = runs[first - 1].caps or {}, runs[first].caps or {}
        between = {
            of.gpu_type: _middle(of.run.cluster.node, low[of.gpu_type], high[of.gpu_type])
            for of in runs[first].types
        }
        if between not in (low, high):
            runs.insert(first, runs[0].again(between))
    met = [run for run in runs if run.measured_s(target) <= limit_s]
    return runs, min(met, key=lambda run: run.usd_per_month(drains=True))


def cap_holds(uses: Iterable[MarketUse], run: PlanRun) -> bool:
    """Return whether a cap of a replay is under the peak of jobs that do not wait, for any type."""
    rented = {use.gpu_type: use.peak_gpus for use in uses if use.name == "on_demand"}
    return any(
        of.run.cluster.most is not None
        and of.run.cluster.fixed + rented.get(of.gpu_type, 0.0) > of.run.cluster.most + ROUNDING
        for of in run.types
    )


def uses_under_cap(uses: tuple[MarketUse, ...], run: PlanRun) -> tuple[MarketUse, ...]:
    """Return what is used in each market in the replay under a cap, with the waits that it makes.

    Dollars are what is paid until the last job ends, since jobs that wait may end after the
    window; GPUs are those in the window. Spot GPUs and containers have no cap: their means and
    dollars are those of the replay, their peaks as planned.
    """
    window_s = run.columns.bins.window_s
    rows = []
    of_type = {of.gpu_type: of for of in run.types}
    usd_of = {of.gpu_type: of.usd_per_h(0.0, window_s, drains=True) for of in run.types}
    for use in uses:
        of = of_type[use.gpu_type]
        usd = usd_of[use.gpu_type].get(use.name, 0.0) * MONTH_H
        if use.name in (SPOT, SERVERLESS):
            mean = of.outside_gpus(window_s)[use.name]
            rows.append(replace(use, mean_gpus=mean, usd_per_month=usd))
            continue
        owned = of.market.owned
        low, high = {
            "owned": (0.0, owned),
            "committed": (owned, of.run.cluster.fixed),
        }.get(use.name, (of.run.cluster.fixed, None))
        held = of.pool_gpus(window_s)
        rows.append(use_of(use.name, use.gpu_type, held, (low, high), usd, use.gpus))
    return tuple(rows)


def _middle(node: int, low: float, high: float) -> float:
    """Return a number of GPUs between two, in whole nodes from the lower one."""
    return low + (high - low) / node // 2 * node
