"""Say what a workload is, how several differ, and what one would have cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Inlined
from gpuplan.analysis.bill import GpuPrices, gpu_hours_by
from gpuplan.analysis.characterize import COLUMNS, NAMES, Characterization
from gpuplan.analysis.characterize.group_bill import priced_groups
from gpuplan.analysis.characterize.options import PortraitOptions, portray
from gpuplan.analysis.characterize.today import COLUMNS as COLUMNS_OF_TODAY
from gpuplan.analysis.characterize.today import UNNAMED, Today, today
from gpuplan.analysis.characterize.two_sample import TwoSample
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.prices.view import PriceView, read_market
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.pricing.on_demand import on_demand_prices
from gpuplan.planner.pricing.trace_bill import (
    TraceCost,
    TracePriceResults,
    trace_cost,
    trace_price_results,
)
from gpuplan.planner.studies.answer import Answer

MOST_TRACES = 6  # the picture has as many colors


@dataclass(frozen=True, slots=True)
class TracePrices:
    """The prices that a trace is billed at.

    Attributes:
        prices: a price table, or ``builtin`` for the list that comes with gpuplan.
        gpu: the GPU of jobs that name none; None takes the only one of the prices, if it is.
        reference: ``provider:kind`` that savings are counted against; None for the most expensive
            on-demand source of each GPU.
    """

    prices: str
    gpu: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class CharacterizeParameters:
    """What was requested, as JSON has it; what follows ``resamples`` only where it was given.

    Attributes:
        price: dollars per GPU-hour by GPU type; the empty name is every other type.
    """

    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int
    top: int
    fits: bool
    ci: float | None
    resamples: int
    prices: str | UnsetType = UNSET
    gpu: str | UnsetType | None = UNSET
    reference: str | UnsetType | None = UNSET
    as_of: str | UnsetType = UNSET
    price: dict[str, float] | UnsetType = UNSET
    period: dict[str, str | None] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CharacterizeRequest:
    """Which traces to characterize, and what to say of them.

    Attributes:
        traces: canonical traces; several are compared.
        jobs: which jobs of each, and when the age of prices is judged (``as_of``; None for the last
            submission).
        options: what to compute.
        prices: what sources ask for GPUs; None for no bill. For one trace alone.
        price: what an hour of a GPU costs; None for the prices, or for no monthly bill.
    """

    traces: tuple[Path, ...]
    jobs: Selection = field(default_factory=Selection)
    options: PortraitOptions = field(default_factory=PortraitOptions)
    prices: TracePrices | None = None
    price: GpuPrices | None = None

    def __post_init__(self) -> None:
        if not self.traces:
            raise ValueError("expected at least one trace")
        if len(self.traces) > MOST_TRACES:
            raise UsageError(
                f"{len(self.traces)} traces: at most {MOST_TRACES} are compared at once"
            )
        if self.prices is not None and len(self.traces) > 1:
            raise UsageError("--prices: give one trace, to say what it would have cost")
        if self.options.ci is not None and self.jobs.has_period:
            raise UsageError(
                "--ci: resamples jobs, not a period of time; choose jobs with --since and --until "
                "instead of --from and --to"
            )

    @property
    def reads(self) -> tuple[Path | str, ...]:
        """The files it reads."""
        return (*self.traces, *(() if self.prices is None else (self.prices.prices,)))

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check what can be checked before a trace is read: nothing more than the fields."""

    def parameters(self) -> CharacterizeParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        asked, options = self.prices, self.options
        return CharacterizeParameters(
            **self.jobs.parameters(),
            top=options.top,
            fits=options.fits,
            ci=options.ci,
            resamples=options.resamples,
            prices=UNSET if asked is None else asked.prices,
            gpu=UNSET if asked is None else asked.gpu,
            reference=UNSET if asked is None else asked.reference,
            price=UNSET if self.price is None else dict(self.price.usd_per_gpu_h),
        )


@dataclass(frozen=True, slots=True)
class TraceBill:
    """What one trace would have cost.

    Attributes:
        view: what sources ask.
        cost: what the trace would have cost at each.
    """

    view: PriceView
    cost: TraceCost


@dataclass(frozen=True)
class CharacterizeResults(Characterization):
    """What a workload is, and what it would have cost; null means undefined or not recorded.

    Attributes:
        prices: the prices and the bill, where requested.
        today: GPUs held, waits, run times and the monthly bill; null where no job has both a run
            time and GPUs.
    """

    prices: TracePriceResults | UnsetType = UNSET
    today: Today | None = None


@dataclass(frozen=True)
class NamedWorkload:
    """One of several workloads.

    Attributes:
        name: the file's own, or its path.
        workload: its statistics.
    """

    name: str
    workload: Inlined[Characterization]


@dataclass(frozen=True, slots=True)
class WorkloadComparison:
    """Several workloads.

    Attributes:
        traces: each workload.
        comparison: each pair of them in durations, gaps and GPU counts.
    """

    traces: tuple[NamedWorkload, ...]
    comparison: tuple[TwoSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterizeAnswer(Answer[CharacterizeRequest, CharacterizeResults | WorkloadComparison]):
    """What the traces are.

    Attributes:
        bill: what the only trace would have cost; None where not requested.
    """

    bill: TraceBill | None = None


def characterize(
    request: CharacterizeRequest, progress: Callable[[float], None] | None = None
) -> CharacterizeAnswer:
    """Return the statistics of the traces.

    Raises:
        InputError: a trace or a price table cannot be used.
        UsageError: a predicate that cannot be read, or prices that do not fit.
    """
    alone = len(request.traces) == 1
    columns = tuple(dict.fromkeys((*COLUMNS, *(COLUMNS_OF_TODAY if alone else ()))))
    names = (*NAMES, *(("gpu_type",) if alone else ()))
    traces = tuple(
        read_trace(path, request.jobs, columns=columns, categories=names) for path in request.traces
    )
    workloads = []
    for position, trace in enumerate(traces):
        workloads.append(portray(trace, request.options, position=position))
        if progress is not None and not alone:
            progress((position + 1) / len(traces))
    # Intervals resample jobs and cannot have a period.
    unmatched = () if request.options.ci is not None else request.jobs.submission_notes
    return (_one if alone else _compared)(request, traces, workloads, unmatched)


def _one(
    request: CharacterizeRequest,
    traces: Sequence[Trace],
    workloads: Sequence[Characterization],
    unmatched: tuple[str, ...],
) -> CharacterizeAnswer:
    """Return the answer for one trace, with what it shows today and what it would have cost."""
    (trace,), (workload,) = traces, workloads
    bill = None
    inputs: tuple[InputFile, ...] = (trace_input(trace),)
    if request.prices is not None:
        bill, files = _bill(trace, request.prices, request.jobs.as_of)
        inputs += files
    prices = _prices(trace, request, bill)
    groups = priced_groups(trace, workload.groups, prices)
    if request.price is not None:
        types = trace.jobs["gpu_type"].cast(pl.String).unique().to_list()
        unmatched += request.price.unmatched_note([name or UNNAMED for name in types])
    return CharacterizeAnswer(
        request=request,
        results=CharacterizeResults(
            **{**vars(workload), "groups": groups},
            prices=UNSET if bill is None else trace_price_results(bill.cost, bill.view),
            today=today(trace, prices),
        ),
        inputs=inputs,
        warnings=(*unmatched, *workload.notes),
        caveats=() if bill is None else (*bill.cost.notes, *bill.view.notes),
        bill=bill,
    )


def _compared(
    request: CharacterizeRequest,
    traces: Sequence[Trace],
    workloads: Sequence[Characterization],
    unmatched: tuple[str, ...],
) -> CharacterizeAnswer:
    """Return the answer for several traces."""
    from gpuplan.analysis.characterize.comparison import compare  # imports SciPy

    names = trace_names(request.traces)
    ends = [workload.ci for workload in workloads if workload.ci is not UNSET]
    notes = (
        f"{name}: {note}"
        for name, workload in zip(names, workloads, strict=True)
        for note in workload.notes
    )
    return CharacterizeAnswer(
        request=request,
        results=WorkloadComparison(
            tuple(map(NamedWorkload, names, workloads)),
            compare(traces, names, intervals=ends or None),
        ),
        inputs=tuple(map(trace_input, traces)),
        warnings=(*unmatched, *notes),
    )


def _prices(trace: Trace, request: CharacterizeRequest, bill: TraceBill | None) -> GpuPrices | None:
    """Return the prices given, or the on-demand prices of the types that jobs ran on."""
    if request.price is None and request.prices is not None and bill is not None:
        hours = gpu_hours_by(trace.jobs, "gpu_type")
        types = hours["gpu_type"].cast(pl.String).to_list()
        return on_demand_prices(types, bill.view.offers, request.prices.gpu)
    return request.price


def trace_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return a short name per trace: the file's own where those differ, else the path."""
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} ({position})" for position, name in enumerate(names, 1))


def _bill(
    trace: Trace, chosen: TracePrices, as_of: datetime | None
) -> tuple[TraceBill, tuple[InputFile, ...]]:
    """Return what a trace would have cost, and the price table where one was read."""
    if as_of is None and not trace.provenance.relative_time:
        as_of = trace.jobs["submit_time"][-1]
    view, book = read_market(chosen.prices, reference=chosen.reference, as_of=as_of)
    cost = trace_cost(trace, view, gpu=chosen.gpu)
    files = () if book is None else (InputFile(str(book.path), book.sha256, book.rows),)
    return TraceBill(view, cost), files
