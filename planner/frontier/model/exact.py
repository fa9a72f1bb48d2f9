"""The exact frontier: the least mean completion time at every GPU budget.

With a multiplier mu on GPU-hours the problem separates by class, and the arrival rates cancel;
`class_hull` finds all that a class can choose at some mu. The frontier is the Minkowski sum of the
classes' hulls, so one sort of all hull edges by slope answers every budget (docs/boa.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.extreme_points import class_hull
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.model.hull import NO_SHARE, TOLERANCE, ClassHull, capped
from gpuplan.planner.frontier.model.plan import Assignment, ClassPlan, Plan
from gpuplan.planner.frontier.model.slower import refuse_slower
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import HOUR_S

OUT_OF_REACH_H = 1e18
"""Hours on a candidate that may not be taken: no path with it is ever the best."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Every optimal trade of budget against mean completion time; made by `solve_frontier`.

    Budgets and costs are GPUs on average and GPU-hours on one GPU type; where `prices` has what
    each of several types costs, they are dollars an hour and dollars.

    Attributes:
        classes: the job classes.
        hulls: their hulls, in the same order.
        edge_class: class that changes along each edge of the frontier; shape (E,).
        edge_slope: weighted hours saved per unit of cost along it, descending, strictly within a
            class; shape (E,).
        budgets: at the vertices, ascending; shape (E + 1,).
        objective_s: weighted mean completion time at the vertices, descending and convex; shape
            (E + 1,).
        mean_jct_s: plain mean completion time there, descending; the same where all weights are
            equal; shape (E + 1,).
        prices: dollars per GPU-hour of each GPU type; empty where budgets are GPUs.
    """

    classes: tuple[JobClass, ...]
    hulls: tuple[ClassHull, ...]
    edge_class: IntArray
    edge_slope: FloatArray
    budgets: FloatArray
    objective_s: FloatArray
    mean_jct_s: FloatArray
    prices: Mapping[str, float] = field(default_factory=dict)

    @property
    def load_gpus(self) -> float:
        """GPUs in use if every job runs on one."""
        return sum(c.load_gpus for c in self.classes)

    @property
    def rate_per_h(self) -> float:
        """Arrivals per hour of all classes."""
        return sum(c.rate_per_h for c in self.classes)

    @property
    def is_weighted(self) -> bool:
        """Return whether some class counts more than another."""
        return len({c.weight for c in self.classes}) > 1

    @property
    def one_gpu_jct_s(self) -> float:
        """Mean completion time with every job on one GPU, start-up included."""
        start_h = sum(c.rate_per_h * c.rescale_h for c in self.classes)
        return HOUR_S * (self.load_gpus + start_h) / self.rate_per_h

    @property
    def min_budget(self) -> float:
        """Least budget that can sustain the arrivals."""
        return float(self.budgets[0])

    @property
    def saturation_budget(self) -> float:
        """Budget beyond which more is of no use."""
        return float(self.budgets[-1])

    @property
    def duty(self) -> str:
        """The minimum requirements of a budget, as text: the arrivals, and the binding caps."""
        bound = [c.name for c, h in zip(self.classes, self.hulls, strict=True) if h.is_capped]
        if self.slower is not None:
            return (
                f"keep up with the arrivals and keep jobs within {self.slower:g} times their "
                "recorded run"
            )
        caps = f" and keep the cap on the time of {', '.join(bound)}" if bound else ""
        return f"keep up with the arrivals{caps}"

    @property
    def slower(self) -> float | None:
        """Most times as long as recorded that jobs may run; None without such a bound."""
        return next((c.slower for c in self.classes if c.is_bounded), None)

    @property
    def widest(self) -> float:
        """Most GPUs that any job may get."""
        return max(float(c.widths.max()) for c in self.classes)

    def show(self, budget: float) -> str:
        """Return a budget as text, rounded up: ``60.25 GPUs``, or ``$12.50/h``."""
        return f"${show_gpus(budget)}/h" if self.prices else f"{show_gpus(budget)} GPUs"

    def spent(self, gpus: Mapping[str, float]) -> float:
        """Return what GPUs of each type take of a budget."""
        return sum(self.prices.get(gpu_type, 1.0) * count for gpu_type, count in gpus.items())

    def saved_s(self, budget: float, more: float) -> float:
        """Return by how many seconds ``more`` over a budget reduces the mean completion time."""
        before, after = np.interp((budget, budget + more), self.budgets, self.mean_jct_s).tolist()
        return float(before - after)

    def is_enough(self, budget: float) -> bool:
        """Return whether a budget can sustain the arrivals."""
        return budget >= self.min_budget * (1 - TOLERANCE)

    def at_budget(self, budget: float) -> Plan:
        """Return the optimal plan for a budget.

        Raises:
            InfeasibleError: the budget is below `min_budget`; the message names that.
        """
        return self.plan_at(budget, *self.place_of(budget))

    def mean_jct_at(self, budget: float) -> float:
        """Return the mean completion time of `at_budget`, without its plan; same errors."""
        edge, share = self.place_of(budget)
        before = float(self.mean_jct_s[edge])
        return _between(before, float(self.mean_jct_s[edge + 1]), share) if share else before

    def place_of(self, budget: float) -> tuple[int, float]:
        """Return the last vertex within a budget, and the share of the way to the next one.

        Raises:
            InfeasibleError: as `at_budget`.
        """
        if not self.is_enough(budget):
            least = self.show(self.min_budget)
            if self.prices:
                raise InfeasibleError(
                    f"${budget:g}/h cannot {self.duty} on any mix of {', '.join(self.prices)}: "
                    f"the least is {least}"
                )
            raise InfeasibleError(
                f"a budget of {budget:g} GPUs cannot {self.duty}: the least is {least} on average "
                f"(the load on one GPU per job is {show_gpus(self.load_gpus)})"
            )
        edge = int(np.searchsorted(self.budgets, budget * (1 + TOLERANCE), side="right")) - 1
        if edge == self.edge_class.size:
            return edge, 0.0
        low, high = self.budgets[edge : edge + 2]
        share = min(1.0, float((budget - low) / (high - low)))
        return edge, share if share > NO_SHARE else 0.0

    def at_target_jct(self, seconds: float) -> Plan:
        """Return the plan of the least budget whose mean completion time is at most ``seconds``.

        With weights, that is the weighted mean.

        Raises:
            InfeasibleError: no budget is enough; the message names the least time.
        """
        least = float(self.objective_s[-1])
        if not seconds >= least * (1 - TOLERANCE):
            weighted = "weighted " if self.is_weighted else ""
            raise InfeasibleError(
                f"a {weighted}mean completion time of {seconds:,.0f} s is out of reach at any "
                f"budget: the least is {ceil(10 * least) / 10:,.1f} s, from "
                f"{self.show(self.saturation_budget)}\n"
                f"  next: --target-jct {ceil(10 * least) / 10:.1f}s at least, or more GPUs a job "
                "(--max-width, --widths)"
            )
        # Times descend: count the vertices that are still too slow.
        slow = int(np.searchsorted(-self.objective_s, -seconds * (1 + TOLERANCE), side="left"))
        if slow == 0:
            return self.plan_at(self.min_budget, 0, 0.0)
        edge = slow - 1
        high, low = self.objective_s[edge : edge + 2]
        share = min(1.0, max(0.0, float((high - seconds) / (high - low))))
        start, end = self.budgets[edge : edge + 2]
        return self.plan_at(float(start + share * (end - start)), edge, share)

    def knee(self) -> Plan:
        """Return the plan where the frontier bends most.

        With budget and (weighted) mean completion time each scaled to 0..1 over the frontier, it is
        the vertex farthest under the straight line between the ends (Satopaa et al. 2011, "Finding
        a 'Kneedle' in a Haystack"): before it a step to the right saves more than it costs.
        """
        if not self.edge_class.size:
            return self.plan_at(self.min_budget, 0, 0.0)
        spent = self.budgets - self.budgets[0]
        left = self.objective_s - self.objective_s[-1]
        vertex = int(np.argmin(spent / spent[-1] + left / left[0]))
        return self.plan_at(float(self.budgets[vertex]), vertex, 0.0)

    def plan_at(self, budget: float, edge: int, share: float) -> Plan:
        """Return the plan ``share`` of the way from the vertex ``edge`` to the next one.

        Its totals are those of its paths; ``budget`` is only noted in it.
        """
        at = np.bincount(self.edge_class[:edge], minlength=len(self.classes))
        mixed = int(self.edge_class[edge]) if share > 0 else -1
        classes = []
        for i, (job_class, hull) in enumerate(zip(self.classes, self.hulls, strict=True)):
            p = int(at[i])
            mix = share if i == mixed else 0.0
            nxt = p + 1 if mix else p
            quicker = hull.share_of_next(p, mix)
            by_cap = p == 0 and hull.is_split
            kept = p + 1 if by_cap else p
            classes.append(
                ClassPlan(
                    job_class=job_class.name,
                    rate_per_h=job_class.rate_per_h,
                    weight=job_class.weight,
                    cost=_between(hull.cost[p], hull.cost[nxt], mix),
                    time_h=_between(hull.time_h[p], hull.time_h[nxt], mix),
                    rounded_cost=float(hull.cost[kept]),
                    rounded_time_h=float(hull.time_h[kept]),
                    widths=_assignments(
                        job_class,
                        hull.paths[p],
                        hull.paths[p + 1 if quicker else p],
                        quicker,
                        keeps_quicker=by_cap,
                    ),
                )
            )
        slope = float(self.edge_slope[edge]) if edge < self.edge_class.size else 0.0
        return Plan(budget=budget, load_gpus=self.load_gpus, multiplier=slope, classes=classes)

    def gpus_of(self, plan: Plan) -> dict[str, float]:
        """Return the average GPUs of each type of an optimal plan; under no name on one type."""
        if not self.prices:
            return {"": plan.used}
        gpus = dict.fromkeys(self.prices, 0.0)
        for job_class, part in zip(self.classes, plan.classes, strict=True):
            candidates = list(zip(job_class.gpu_types, job_class.widths.tolist(), strict=True))
            for share, path in part.paths:
                before = -1
                for row in path:
                    at = candidates.index((str(row.gpu_type), row.width))
                    hours = job_class.work_h[row.epoch] / job_class.speedup[row.epoch, at]
                    hours += job_class.rescale_h if at != before else 0.0
                    gpus[str(row.gpu_type)] += float(part.rate_per_h * share * hours * row.width)
                    before = at
        return gpus


def solve_frontier(
    classes: Sequence[JobClass],
    *,
    prices: Mapping[str, float] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Frontier:
    """Solve the allocation problem at every budget at once.

    Exact where a fraction of a class' jobs may take one width path and the rest the neighbouring
    one; at any budget at most one class does, besides those whose cap on time binds.

    Args:
        classes: at least one, each with its candidate widths.
        prices: dollars per GPU-hour by GPU type, where these are the costs of the candidates.
        progress: called with the share of the classes done.

    Raises:
        InfeasibleError: no width keeps the cap on the time of a class, or its jobs within a bound
            on their run times; the message names the least.
    """
    if not classes:
        raise ValueError("a frontier needs at least one job class")
    refuse_slower(classes)
    hulls = []
    for job_class in classes:
        hulls.append(_hull_of(job_class))
        if progress is not None:
            progress(len(hulls) / len(classes))
    spent = [np.diff(hull.cost) for hull in hulls]
    saved = [-np.diff(hull.time_h) for hull in hulls]
    owner = np.repeat(np.arange(len(classes)), [edges.size for edges in spent])
    rate = np.array([c.rate_per_h for c in classes])
    weight = np.array([c.weight for c in classes])
    # A weight stretches the hull of its class along the axis of time; the vertices stay.
    slope = weight[owner] * np.concatenate(saved) / np.concatenate(spent)
    order = np.argsort(-slope, kind="stable")  # equal slopes: classes in their order
    cheapest_h = np.array([hull.cost[0] for hull in hulls])
    slowest_h = np.array([hull.time_h[0] for hull in hulls])
    owner, spent_h, saved_h = (
        owner[order],
        np.concatenate(spent)[order],
        np.concatenate(saved)[order],
    )

    def along(factor: FloatArray, first_h: FloatArray, steps_h: FloatArray) -> FloatArray:
        return np.cumsum(np.append(np.dot(factor, first_h), factor[owner] * steps_h))

    return Frontier(
        classes=tuple(classes),
        hulls=tuple(hulls),
        edge_class=owner,
        edge_slope=slope[order],
        budgets=along(rate, cheapest_h, spent_h),
        objective_s=HOUR_S * along(rate * weight, slowest_h, -saved_h) / np.dot(rate, weight),
        mean_jct_s=HOUR_S * along(rate, slowest_h, -saved_h) / rate.sum(),
        prices=prices or {},
    )


def _hull_of(job_class: JobClass) -> ClassHull:
    run_h = np.ascontiguousarray(job_class.work_h[:, None] / job_class.speedup)
    if job_class.is_bounded:
        run_h = np.where(job_class.too_slow(), OUT_OF_REACH_H, run_h)
    slopes = np.ascontiguousarray(job_class.slopes)
    hull = ClassHull(*class_hull(run_h, run_h * slopes, slopes, job_class.rescale_h))
    return capped(hull, job_class.cap_h, job_class.name)


def _between(start: float, end: float, share: float) -> float:
    return float(start + share * (end - start))


def _assignments(
    job_class: JobClass,
    path: NDArray[np.int32],
    other: NDArray[np.int32],
    share: float,
    *,
    keeps_quicker: bool,
) -> tuple[Assignment, ...]:
    """Return the widths of a class; an epoch in which both paths agree has one."""
    rows = []

    def add(epoch: int, candidate: int, part: float, rounded: bool) -> None:
        gpu_type = job_class.gpu_types[candidate] if job_class.gpu_types else None
        width = float(job_class.widths[candidate])
        rows.append(Assignment(job_class.name, epoch, width, part, rounded, gpu_type))

    for epoch, (a, b) in enumerate(zip(path.tolist(), other.tolist(), strict=True)):
        if a == b or not share:
            add(epoch, a, 1.0, True)
        else:
            add(epoch, a, 1.0 - share, not keeps_quicker)
            add(epoch, b, share, keeps_quicker)
    return tuple(rows)
