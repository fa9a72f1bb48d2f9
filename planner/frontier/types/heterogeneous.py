"""Several GPU types and budgets in dollars: the cheapest mix of types at every budget.

Source: BOA, Appendix E, with rescaling. A candidate is a type and a width; an hour of it costs
price x width, and a change of type is a rescale like any other. The solver is that of one type
(`gpuplan.planner.frontier.model.exact`); only its candidates are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.model.candidates import candidate_widths
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.exact import Frontier, JobClass, solve_frontier
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.job_classes import ClassWorkload, workload_of
from gpuplan.planner.frontier.model.plan import Assignment, Plan
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.arrays import FloatArray


@dataclass(frozen=True)
class MixPlanResults:
    """A plan on several GPU types, as JSON has it.

    Attributes:
        budget_usd_per_h: average dollars an hour allowed.
        mean_jct_s: mean completion time.
        weighted_mean_jct_s: the mean that the plan minimizes, each job counted by the weight of its
            class.
        used_usd_per_h, used_usd_per_month: spent on average.
        used_gpus: rented on average, by GPU type.
        marginal_jct_s_per_usd_h: seconds of mean completion time that one more dollar an hour would
            save.
        marginal_jct_s_per_100_usd_month: the same for 100 more dollars a month.
        rounded_mean_jct_s: mean completion time where no class is split over two widths.
        rounded_used_usd_per_h: spent on average without a split.
        rounding_gap_s: by how much the plan without a split is worse than any other in the budget,
            at most.
        widths: the GPUs of every class and epoch.
    """

    budget_usd_per_h: float
    mean_jct_s: float
    weighted_mean_jct_s: float
    used_usd_per_h: float
    used_usd_per_month: float
    used_gpus: dict[str, float]
    marginal_jct_s_per_usd_h: float
    marginal_jct_s_per_100_usd_month: float
    rounded_mean_jct_s: float
    rounded_used_usd_per_h: float
    rounding_gap_s: float
    widths: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """An optimal plan over several GPU types.

    Attributes:
        plan: the plan; its GPUs and GPU-hours are dollars an hour and dollars, but widths.
        gpus: average GPUs of each type, in the order of the prices.
    """

    plan: Plan
    gpus: Mapping[str, float]

    @property
    def budget(self) -> float:
        """Average dollars an hour allowed."""
        return self.plan.budget_gpus

    @property
    def usd_per_h(self) -> float:
        """Dollars an hour that it spends, on average."""
        return self.plan.used_gpus

    @property
    def marginal_jct_s_per_usd_h(self) -> float:
        """Seconds of (weighted) mean completion time that one more dollar an hour would save."""
        return self.plan.marginal_jct_s_per_gpu

    def results(self) -> MixPlanResults:
        """Return the plan as JSON has it."""
        plan = self.plan
        return MixPlanResults(
            budget_usd_per_h=plan.budget_gpus,
            mean_jct_s=plan.mean_jct_s,
            weighted_mean_jct_s=plan.objective_s,
            used_usd_per_h=self.usd_per_h,
            used_usd_per_month=self.usd_per_h * MONTH_H,
            used_gpus=dict(self.gpus),
            marginal_jct_s_per_usd_h=self.marginal_jct_s_per_usd_h,
            marginal_jct_s_per_100_usd_month=self.marginal_jct_s_per_usd_h * 100 / MONTH_H,
            rounded_mean_jct_s=plan.rounded_mean_jct_s,
            rounded_used_usd_per_h=plan.rounded_used_gpus,
            rounding_gap_s=plan.rounding_gap_s,
            widths=plan.widths,
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per class, epoch, GPU type and width."""
        return self.plan.to_frame().rename({"budget_gpus": "budget_usd_per_h"})


@dataclass(frozen=True, slots=True)
class TypedFrontier:
    """The least mean completion time at every budget in dollars an hour.

    Attributes:
        frontier: the result of the solver; its GPUs and GPU-hours are dollars, but widths
            and loads.
        price_usd_per_gpu_h: price of a GPU of each type for an hour.
    """

    frontier: Frontier
    price_usd_per_gpu_h: Mapping[str, float]

    @property
    def min_usd_per_h(self) -> float:
        """Least dollars an hour that can sustain the arrivals."""
        return self.frontier.min_budget

    @property
    def saturation_usd_per_h(self) -> float:
        """Dollars an hour beyond which no more are of use."""
        return self.frontier.saturation_budget

    @property
    def budget_usd_per_h(self) -> FloatArray:
        """Budgets at the vertices of the frontier, ascending; shape (E + 1,)."""
        return self.frontier.budget_gpus

    @property
    def mean_jct_s(self) -> FloatArray:
        """Mean completion times there, descending; shape (E + 1,)."""
        return self.frontier.mean_jct_s

    def at_budget(self, usd_per_h: float) -> TypedPlan:
        """Return the optimal plan for a budget.

        Raises:
            InfeasibleError: the budget is below `min_usd_per_h`; the message names that.
        """
        least = self.min_usd_per_h
        if not usd_per_h >= least * (1 - TOLERANCE):
            raise InfeasibleError(
                f"${usd_per_h:g}/h cannot {self.frontier.duty} on any mix of "
                f"{', '.join(self.price_usd_per_gpu_h)}: the least is ${show_gpus(least)}/h"
            )
        return self._typed(self.frontier.at_budget(usd_per_h))

    def at_target_jct(self, seconds: float) -> TypedPlan:
        """Return the cheapest plan whose (weighted) mean completion time is at most ``seconds``.

        Raises:
            InfeasibleError: no budget is enough; the message names the least time.
        """
        if not seconds >= float(self.frontier.objective_s[-1]) * (1 - TOLERANCE):
            raise InfeasibleError(
                f"a mean completion time of {seconds:,.0f} s is out of reach at any budget: the "
                f"least is {self.frontier.objective_s[-1]:,.1f} s, from "
                f"${show_gpus(self.saturation_usd_per_h)}/h"
            )
        return self._typed(self.frontier.at_target_jct(seconds))

    def knee(self) -> TypedPlan:
        """Return the plan where the frontier bends most, as `Frontier.knee` defines it."""
        return self._typed(self.frontier.knee())

    def _typed(self, plan: Plan) -> TypedPlan:
        gpus = dict.fromkeys(self.price_usd_per_gpu_h, 0.0)
        for job_class, part in zip(self.frontier.classes, plan.classes, strict=True):
            states = list(zip(job_class.gpu_types, job_class.widths.tolist(), strict=True))
            for share, path in part.paths:
                before = -1
                for row in path:
                    at = states.index((str(row.gpu_type), row.width))
                    hours = job_class.work_h[row.epoch] / job_class.speedup[row.epoch, at]
                    hours += job_class.rescale_h if at != before else 0.0
                    gpus[states[at][0]] += float(part.rate_per_h * share * hours * row.width)
                    before = at
        return TypedPlan(plan, gpus)


def workloads_by_type(
    trace: Trace,
    speedup: SpeedupModel,
    choices: ClassOptions | None = None,
    *,
    recorded_on: str | None = None,
) -> dict[str, ClassWorkload]:
    """Return the workload of a trace as it would be on each GPU type alone.

    Args:
        trace: the jobs.
        speedup: a model that knows GPU types.
        choices: how the trace becomes a workload.
        recorded_on: the type the jobs were recorded on; None for the model's first.

    Returns:
        Workloads by type, that of ``recorded_on`` first. They differ in work, speedups and
        candidate widths; a class is missing where its speed on the type is not known.

    Raises:
        UsageError: the model has no GPU types, or not that one.
        InputError: see `workload_of`.
    """
    if not speedup.types:
        raise UsageError(f"{speedup.name} has no GPU types: give each --gpu a speed")
    choices = choices or ClassOptions()
    first = recorded_on or next(iter(speedup.types))
    known = speedup.on(first)
    reference = workload_of(trace, known, choices)
    found = {first: reference}
    for gpu_type, model in speedup.types.items():
        if gpu_type == first:
            continue
        classes = []
        for job_class in reference.classes:
            profile, here = model.of(job_class.name), known.of(job_class.name)
            if profile is None or here is None:
                continue
            widths = candidate_widths(profile, choices, job_class.name)
            classes.append(
                replace(
                    job_class,
                    work_h=job_class.work_h / profile.speed_over(here),
                    widths=widths,
                    speedup=np.stack([epoch.at(widths) for epoch in profile.epochs]),
                    other_widths=None,
                    other_speedup=None,
                )
            )
        found[gpu_type] = replace(
            reference, classes=tuple(classes), notes=model.notes, arrivals=None
        )  # the jobs belong to the type they were recorded on and refer to its classes
    return found


def typed_classes(
    workloads: Mapping[str, ClassWorkload], price_usd_per_gpu_h: Mapping[str, float]
) -> tuple[JobClass, ...]:
    """Return the classes of the first workload with the candidates of all types.

    Speedups are over one GPU of the first type: work on it / time on the candidate.

    Args:
        workloads: by GPU type; classes of one name are the same jobs, with the work and speedups
            that they have on that type.
        price_usd_per_gpu_h: by GPU type, for each of these; > 0. Types of other names are not used.

    Raises:
        UsageError: a price is missing or not above 0.
        ValueError: a class has other epochs or another rescaling time on another type.
    """
    for gpu_type in workloads:
        price = price_usd_per_gpu_h.get(gpu_type)
        if price is None or not 0 < price < float("inf"):
            what = "has no price" if price is None else f"costs ${price:g}/h"
            raise UsageError(
                f"GPU type {gpu_type!r} {what}; each needs a price above 0 dollars per GPU-hour"
            )
    by_type = {name: {c.name: c for c in one.classes} for name, one in workloads.items()}
    return tuple(
        _joined(
            {t: known[c.name] for t, known in by_type.items() if c.name in known},
            price_usd_per_gpu_h,
        )
        for c in next(iter(workloads.values())).classes
    )


def solve_typed(
    workloads: Mapping[str, ClassWorkload], price_usd_per_gpu_h: Mapping[str, float]
) -> TypedFrontier:
    """Solve the allocation over several GPU types at every budget in dollars an hour.

    Raises:
        UsageError, ValueError: see `typed_classes`.
        InfeasibleError: a cap on the time of a class cannot be met on any type.
    """
    classes = typed_classes(workloads, price_usd_per_gpu_h)
    prices = {name: price_usd_per_gpu_h[name] for name in workloads}
    return TypedFrontier(solve_frontier(classes), prices)


def _joined(by_type: Mapping[str, JobClass], price: Mapping[str, float]) -> JobClass:
    """Return one class with the candidates it has on every type."""
    first = next(iter(by_type.values()))
    speedups = []
    for gpu_type, here in by_type.items():
        if (here.work_h.size, here.rescale_h) != (first.work_h.size, first.rescale_h):
            raise ValueError(f"{first.name}: other epochs or rescaling times on {gpu_type}")
        # An epoch without work takes no time anywhere, whatever its speed.
        faster = np.divide(
            first.work_h, here.work_h, out=np.ones_like(first.work_h), where=here.work_h > 0
        )
        speedups.append(faster[:, None] * here.speedup)
    return replace(
        first,
        widths=np.concatenate([here.widths for here in by_type.values()]),
        speedup=np.concatenate(speedups, axis=1),
        cost_per_h=np.concatenate([price[t] * here.widths for t, here in by_type.items()]),
        gpu_types=tuple(t for t, here in by_type.items() for _ in range(here.widths.size)),
        other_widths=first.other_widths if len(by_type) == 1 else None,
        other_speedup=first.other_speedup if len(by_type) == 1 else None,
    )
