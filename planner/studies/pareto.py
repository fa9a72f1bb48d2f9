"""Show what mean completion time each GPU budget buys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize.gpu_mix import gpu_mix
from gpuplan.analysis.characterize.today import COLUMNS as TODAY_COLUMNS
from gpuplan.analysis.characterize.today import today
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.budget import Budget
from gpuplan.planner.frontier.reference_points import Mark, reference_points_of
from gpuplan.planner.frontier.study import (
    EXACT,
    FrontierStudy,
    PlanRequest,
    Section,
    study_frontier,
)
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.planner.speedup.registry import DEFAULT_SPEEDUP, load_speedup
from gpuplan.planner.studies.gpu_types import GpuTypes
from gpuplan.planner.studies.pareto_results import ParetoParameters, ParetoResults, pareto_results

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ParetoRequest:
    """Which jobs to plan for, at which budgets, and what to compare the plans with.

    Attributes:
        trace: a canonical trace.
        jobs: which of its jobs.
        budgets: those to plan for; none takes 8 from the least to the most that is of use.
        target_jct_s: mean completion times to find the least budget for.
        speedup: how jobs gain from GPUs, as ``power:0.8``; None assumes that.
        classes: how the jobs become classes, and which widths these may get.
        cluster: how GPUs are rented in the replay; None replays nothing.
        types: the GPU types.
        prices: what they cost, and others that the jobs ran on; empty for no dollars.
        method: of the plan, one of `gpuplan.planner.frontier.methods.registry.METHODS`.
        baselines: policies to replay at the same budgets.
        marks: known points to show beside the frontier.
        ci: level of the confidence bands, percent; None for none.
        sensitivity: whether to say what errors of the speedups and bursts do to the plan.
        budget_text, gpu_texts, mark_texts: the budgets, GPU types and known points as given.
    """

    trace: Path
    jobs: Selection = field(default_factory=Selection)
    budgets: tuple[Budget, ...] = ()
    target_jct_s: tuple[float, ...] = ()
    speedup: str | None = None
    classes: ClassOptions = field(default_factory=ClassOptions)
    cluster: RentedCluster | None = field(default_factory=RentedCluster)
    types: GpuTypes = field(default_factory=GpuTypes)
    prices: PriceRequest = field(default_factory=PriceRequest)
    method: str = EXACT
    baselines: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    ci: float | None = None
    sensitivity: bool = False
    budget_text: str | None = None
    gpu_texts: tuple[str, ...] = ()
    mark_texts: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, also as part of a text."""
        return (self.trace, self.speedup, self.prices.prices)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.open()

    def open(self) -> tuple[SpeedupModel, SpeedupModel, Prices]:
        """Return the speedups, as named and on the GPU types, and the prices.

        Raises:
            InputError: a table that cannot be read.
            UsageError: fields that do not fit together.
        """
        model = load_speedup(DEFAULT_SPEEDUP if self.speedup is None else self.speedup)
        on_types, prices = self.types.model(model), self.types.price(self.prices)
        self._check_compared(is_mixed=self.types.is_mixed)
        return model, on_types, prices

    def _check_compared(self, *, is_mixed: bool) -> None:
        """Refuse what cannot be compared."""
        compared = {
            "--baseline": bool(self.baselines),
            "--mark": bool(self.marks),
            "--method": self.method != EXACT,
            "--ci": self.ci is not None,
            "--sensitivity": self.sensitivity,
        }
        for option, is_given in compared.items():
            if is_given and is_mixed:
                raise UsageError(f"{option}: works with one GPU type, not with several --gpu")
            if option == "--ci" and is_given and self.method != EXACT:
                raise UsageError(
                    "--ci needs --method exact; confidence bands are for the optimum only"
                )
            if is_given and self.cluster is None and option in ("--baseline", "--sensitivity"):
                raise UsageError(f"{option} needs the replay; remove --no-replay")


@dataclass(frozen=True, slots=True)
class ParetoStudy:
    """The frontier of a trace.

    Attributes:
        request: what was asked for.
        trace: the jobs.
        model: the speedups as named.
        prices: of the GPU types, and those of the log.
        frontier: the plans.
    """

    request: ParetoRequest
    trace: Trace
    model: SpeedupModel
    prices: Prices
    frontier: FrontierStudy

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The files read."""
        return (trace_input(self.trace), *self.prices.inputs)

    @property
    def results(self) -> ParetoResults:
        """What goes under ``results`` in the JSON output."""
        return pareto_results(self.frontier)

    @property
    def parameters(self) -> ParetoParameters:
        """What goes under ``parameters`` in the JSON output."""
        request, classes = self.request, self.request.classes
        return ParetoParameters(
            budget=request.budget_text,
            target_jct_s=list(request.target_jct_s),
            speedup=self.model.name if request.speedup is None else request.speedup,
            class_by=classes.class_by,
            horizon_s=classes.horizon_s,
            rescale_s=classes.rescale_s,
            max_width=classes.max_width,
            widths=None if classes.widths is None else list(classes.widths),
            width_step=classes.width_step,
            limits_gpus=dict(classes.limits),
            require_s=dict(classes.caps_s),
            weights=dict(classes.weights),
            gpu=list(request.gpu_texts),
            recorded_on=request.types.recorded_on,
            price_usd_per_gpu_h=self._prices(),
            prices=request.prices.prices,
            provider=request.prices.provider,
            replay=request.cluster is not None,
            cluster=None if request.cluster is None else request.cluster.shape,
            method=request.method,
            baselines=list(request.baselines),
            marks=list(request.mark_texts),
            ci=request.ci,
            sensitivity=request.sensitivity,
            **request.jobs.parameters(),
        )

    def _prices(self) -> dict[str, float] | float | None:
        """Return the price of each named GPU type, or the only price."""
        types = self.request.types
        if not types.names:
            return self.prices.usd(None)
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
    model, on_types, prices = request.open()
    types = request.types
    columns = tuple(dict.fromkeys((*COLUMNS, *TODAY_COLUMNS)))
    trace = read_trace(request.trace, request.jobs, columns=columns)
    classes = replace(request.classes, scale_work=request.jobs.scale_duration)
    now = today(trace)
    log_types = () if now is None else tuple(usage.gpu_type for usage in now.gpu_types)
    prices = types.for_log(prices, log_types)
    now = None if now is None else now.at_prices(prices.usd)
    mix = None if types.is_mixed else gpu_mix(now, next(iter(types.names), None))
    price = prices.get(None)
    plans = PlanRequest(
        budgets=request.budgets,
        targets_s=request.target_jct_s,
        method=request.method,
        cluster=request.cluster,
        prices=types.priced(prices) if types.is_mixed else {} if price is None else {"": price},
        recorded_on=types.recorded_on,
    )
    study = study_frontier(trace, on_types, classes, plans, today=now, progress=progress)
    sections = _sections(request, study, progress)
    if not types.is_mixed and _needs_other_laws(request, model):
        from gpuplan.planner.frontier.uncertainty.laws import laws_of

        sections = (*sections, laws_of(study, trace, classes))
    return ParetoStudy(request, trace, model, prices, replace(study, sections=sections, mix=mix))


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
        sections.append(reference_points_of(study, request.marks))
    if request.baselines:
        from gpuplan.planner.baselines import compare_baselines

        sections.append(compare_baselines(study, request.baselines, progress))
    if request.ci is not None or request.sensitivity:
        from gpuplan.planner.frontier.uncertainty.confidence import confidence_of, sensitivity_of

        if request.ci is not None:
            sections.append(confidence_of(study, request.ci, request.jobs.seed, progress))
        if request.sensitivity:
            sections.append(sensitivity_of(study, request.jobs.seed, progress))
    return tuple(sections)
