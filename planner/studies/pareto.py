"""Show what mean completion time each GPU budget buys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.gpu_mix import gpu_mix
from gpuplan.analysis.characterize.today import today
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.baselines import compare_baselines
from gpuplan.planner.elastic.job_classes import COLUMNS
from gpuplan.planner.frontier.reference_points import reference_points_of
from gpuplan.planner.frontier.study import FrontierStudy, PlanRequest, Section, study_frontier
from gpuplan.planner.frontier.uncertainty.confidence import confidence_of, sensitivity_of
from gpuplan.planner.frontier.uncertainty.laws import laws_of
from gpuplan.planner.money.bill_today import at_book, at_end, price_note
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.money.todays_basis import NO_BASIS, TodaysBasis, pay_per_use, todays_basis
from gpuplan.planner.requests.pareto import ParetoRequest
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.planner.site.log_replay import COLUMNS as REPLAYED
from gpuplan.planner.site.log_replay import WHERE_KNOWN, todays_fidelity
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.planner.studies.pareto_results import ParetoResults, pareto_results

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ParetoStudy:
    """The frontier of a trace.

    Attributes:
        request: what was asked for.
        trace: the jobs.
        model: the speedups as named.
        prices: of the GPU types, and those of the log.
        frontier: the plans.
        fidelity: how a replay of today compares with the log.
        unmatched: which prices are not used.
        today_at_plan_prices: what today's GPUs cost a month at the pay-per-use prices that plans
            on named GPU types pay; None where plans are on the basis of today's bill.
    """

    request: ParetoRequest
    trace: Trace
    model: SpeedupModel
    prices: Prices
    frontier: FrontierStudy
    fidelity: Fidelity
    unmatched: tuple[str, ...] = ()
    today_at_plan_prices: float | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision: of the log."""
        return (*self.trace.notes, *self.unmatched)

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The files read."""
        return (trace_input(self.trace), *self.prices.inputs)

    @property
    def results(self) -> ParetoResults:
        """What goes under ``results`` in the JSON output."""
        return pareto_results(self.frontier, self.fidelity)

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return self.request.parameters() | {"price_usd_per_gpu_h": self._prices()}

    def _prices(self) -> dict[str, float] | float | None:
        """Return the price of each named GPU type, or the only price."""
        types = self.request.types
        if not types.names:
            return None if self.frontier.price is None else self.frontier.price.usd_per_gpu_h
        return {name: price.usd_per_gpu_h for name, price in types.priced(self.prices).items()}

    @property
    def caveats(self) -> tuple[str, ...]:
        """What limits the plan: a GPU type that changes no speedup."""
        names = self.request.types.names
        if len(names) != 1 or self.model.law is not None or self.model.types:
            return ()
        return (
            f"--gpu {names[0]} only names the price: {self.model.name} is used as it was measured",
        )


def pareto(request: ParetoRequest, progress: Progress | None = None) -> ParetoStudy:
    """Return the plans of a trace at every budget.

    Raises:
        InfeasibleError: a budget under the load.
        InputError: the trace or a table cannot be used.
        UsageError: fields that do not fit together.
    """
    request.check()
    model, on_types, prices = request.open()
    types, cluster = request.types, request.rented()
    columns = tuple(dict.fromkeys((*COLUMNS, *REPLAYED)))
    trace = read_trace(request.trace, request.jobs, columns=columns, optional=WHERE_KNOWN)
    classes = replace(request.classes, scale_work=request.jobs.scale_duration)
    now = today(trace)
    types.check_log(prices, () if now is None else [usage.gpu_type for usage in now.gpu_types])
    prices = at_end(trace, prices, is_part=request.jobs.where is not None)
    basis, priced_at = NO_BASIS, tuple[str, ...]()
    unmatched, price, at_plan = tuple[str, ...](), None, None
    if request.prices.is_given and now is not None:
        hours = now.gpu_h_by_type()
        unmatched = prices.unmatched_note([*types.names, *hours])
        unmatched += price_time_notes(trace, prices, hours)
        now = at_book(trace, now, prices)
        priced_at = price_note(prices, hours)
        price = types.plan_price(prices, hours)
        if types.names and now is not None and not prices.is_flat(hours):
            at_plan = pay_per_use(now, prices)
        if not types.names and price is not None:
            basis = todays_basis(now, price.usd_per_gpu_h, prices, hours)
    elif types.names or request.prices.is_given:
        price = types.plan_price(prices, {})
    mix = None if types.is_mixed else gpu_mix(now, next(iter(types.names), None))
    plans = PlanRequest(
        budgets=request.budgets(),
        targets_s=request.target_jct_s,
        method=request.method,
        cluster=cluster,
        prices=types.priced(prices) if types.is_mixed else {} if price is None else {"": price},
        recorded_on=types.recorded_on,
        basis=basis,
    )
    study = study_frontier(trace, on_types, classes, plans, today=now, progress=progress)
    sections = _sections(request, study, progress)
    if not types.is_mixed and _needs_other_laws(request, model):
        sections = (*sections, laws_of(study, trace, classes))
    fidelity = todays_fidelity(trace, request.jobs, now)
    notes = (*study.notes, *priced_at, *_on_basis(basis))
    study = replace(study, sections=sections, mix=mix, recommends=fidelity.may_speak, notes=notes)
    return ParetoStudy(
        request, trace, model, prices, study, fidelity, unmatched, today_at_plan_prices=at_plan
    )


def _on_basis(basis: TodaysBasis) -> tuple[str, ...]:
    """Return what dollars of a budget are, where GPUs do not all cost the same."""
    if basis == NO_BASIS:
        return ()
    least = basis.least_usd_per_h * MONTH_H
    fixed = f", and at least the ${least:,.0f} of GPUs owned and committed" if least else ""
    return (
        "dollars a month are today's bill, with GPUs more or fewer than today's at the mean "
        f"pay-per-use price{fixed}",
    )


def first_submit_of(trace: Trace) -> datetime | None:
    """Return the time of the first submission; None where the trace has no calendar."""
    if trace.provenance.relative_time:
        return None
    first = trace.jobs["submit_time"].min()
    return first if isinstance(first, datetime) else None


def _needs_other_laws(request: ParetoRequest, model: SpeedupModel) -> bool:
    """Return whether to say what other speedups would give: of one assumed law."""
    is_assumed = request.speedup is None or request.sensitivity
    return model.law is not None and not model.ends and is_assumed


def _sections(
    request: ParetoRequest, study: FrontierStudy, progress: Progress | None
) -> tuple[Section, ...]:
    """Return what else was asked for."""
    sections: list[Section] = []
    if request.marks:
        sections.append(reference_points_of(study, request.reference_points()))
    if request.baselines:
        sections.append(compare_baselines(study, request.baselines, progress))
    if request.ci is not None or request.sensitivity:
        if request.ci is not None:
            sections.append(confidence_of(study, request.ci, request.jobs.seed, progress))
        if request.sensitivity:
            sections.append(sensitivity_of(study, request.jobs.seed, progress))
    return tuple(sections)
