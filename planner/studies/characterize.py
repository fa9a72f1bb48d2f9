"""Say what a workload is, how several differ, and what one would have cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Inlined
from gpuplan.analysis.characterize import COLUMNS, NAMES, Characterization
from gpuplan.analysis.characterize import characterize as portrait
from gpuplan.analysis.characterize.capacity import NODES, warnings_above_nodes
from gpuplan.analysis.characterize.intervals import intervals
from gpuplan.analysis.characterize.today import COLUMNS as COLUMNS_OF_TODAY
from gpuplan.analysis.characterize.today import Today, today
from gpuplan.analysis.characterize.two_sample import TwoSample
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.view import PriceView, read_market
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.results import WaitSummary
from gpuplan.analysis.waits.spells import SITE
from gpuplan.planner.money.bill_today import at_book, at_end, groups_at_book
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.money.trace_bill import (
    TraceCost,
    TracePrices,
    trace_cost,
)
from gpuplan.planner.requests.characterize import RESAMPLES, CharacterizeRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.waits import quotas_of_dump, wait_analysis

MOST_JOBS = 2_000_000
"""Jobs of a log up to which the reasons of waits are part of the answer: beyond, of ``waits``."""


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
        waits: why jobs wait, and whether the cluster is too small; null where the log has no waits
            or is scaled, or has over two million jobs (see ``gpuplan waits``).
    """

    prices: TracePrices | UnsetType = UNSET
    today: Today | None = None
    waits: WaitSummary | None = None


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
    request.check()
    is_alone = len(request.traces) == 1
    columns = tuple(dict.fromkeys((*COLUMNS, *(COLUMNS_OF_TODAY if is_alone else ()))))
    names = (*NAMES, *(("gpu_type",) if is_alone else ()))
    optional = (NODES, *(SITE if is_alone else ()))
    traces = tuple(
        read_trace(path, request.jobs, columns=columns, categories=names, optional=optional)
        for path in request.traces
    )
    with ThreadPoolExecutor(max_workers=1) as executor:
        waits = (
            executor.submit(copy_context().run, _waits, traces[0], request) if is_alone else None
        )
        workloads = []
        for position, trace in enumerate(traces):
            workloads.append(_portrait(trace, request, position))
            if progress is not None and not is_alone:
                progress((position + 1) / len(traces))
        # Intervals resample jobs and cannot have a period.
        unmatched = () if request.ci is not None else request.jobs.submission_notes
        if waits is None:
            return _compared(request, traces, workloads, unmatched)
        return _alone(request, traces[0], workloads[0], unmatched, waits)


def _portrait(trace: Trace, request: CharacterizeRequest, position: int) -> Characterization:
    """Return the statistics of a trace with the requested parts.

    Its position among the traces gives each a random stream of its own.
    """
    workload = portrait(trace, top=request.top)
    if request.fits:
        from gpuplan.analysis.fits.models import fit_trace  # imports SciPy

        workload = replace(workload, fits=fit_trace(trace))
    if request.ci is None:
        return workload
    stream = np.random.SeedSequence(request.jobs.seed, spawn_key=(position,))
    ends = intervals(
        trace,
        level=request.ci,
        resamples=request.resamples or RESAMPLES,
        rng=np.random.default_rng(stream),
    )
    return replace(workload, ci=ends)


def _alone(
    request: CharacterizeRequest,
    trace: Trace,
    workload: Characterization,
    unmatched: tuple[str, ...],
    waits: Future[WaitSummary | None],
) -> CharacterizeAnswer:
    """Return the answer for one trace, with what it shows today and what it would have cost."""
    bill = None
    inputs: tuple[InputFile, ...] = (trace_input(trace),)
    if request.prices.prices is not None:
        bill, files = _bill(trace, request, request.prices.prices)
        inputs += files
    now, groups = today(trace), workload.groups
    if request.prices.is_given:
        prices = Prices.read(request.prices, request.jobs.log.time_zone)
        prices = at_end(trace, prices, is_part=request.jobs.where is not None)
        inputs += prices.book.inputs
        prices.check_provider(usage.gpu_type for usage in ([] if now is None else now.gpu_types))
        if request.prices.is_own or _has_prices(prices, now):
            now = at_book(trace, now, prices)
            groups = groups_at_book(trace, groups, now, prices)
        types = trace.jobs["gpu_type"].cast(pl.String).unique().to_list()
        unmatched += prices.unmatched_note([name or UNNAMED for name in types])
        unmatched += price_time_notes(trace, prices, types)
    return CharacterizeAnswer(
        request=request,
        results=CharacterizeResults(
            **{**vars(workload), "groups": groups},
            prices=UNSET if bill is None else TracePrices(bill.view, bill.cost),
            today=now,
            waits=waits.result(),
        ),
        inputs=inputs,
        warnings=(*unmatched, *workload.notes, *warnings_above_nodes(trace)),
        caveats=() if bill is None else (*bill.cost.notes, *bill.view.notes),
        bill=bill,
    )


def _waits(trace: Trace, request: CharacterizeRequest) -> WaitSummary | None:
    """Return why jobs wait; None where the log has no waits, is scaled, or has too many jobs."""
    jobs = request.jobs
    is_scaled = (jobs.scale_duration, jobs.scale_interarrival) != (1.0, 1.0)
    if is_scaled or trace.rows > MOST_JOBS:
        return None
    path = request.traces[0]
    analysis = wait_analysis(trace, path, jobs=jobs, quotas=quotas_of_dump(path))
    summary = None if analysis is None else analysis.summary()
    return summary if summary is not None and summary.wait_h else None


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


def _has_prices(prices: Prices, now: Today | None) -> bool:
    """Return whether a price table has every type; the market is shown where it has not."""
    types = [] if now is None else [usage.gpu_type for usage in now.gpu_types]
    return all(prices.get(gpu_type) is not None for gpu_type in types)


def trace_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return a short name per trace: the file's own where those differ, else the path."""
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} ({position})" for position, name in enumerate(names, 1))


def _bill(
    trace: Trace, request: CharacterizeRequest, table: str
) -> tuple[TraceBill, tuple[InputFile, ...]]:
    """Return what a trace would have cost, and the price table where one was read."""
    as_of: datetime | None = request.jobs.as_of
    if as_of is None and not trace.provenance.relative_time:
        as_of = trace.jobs["submit_time"][-1]
    view, book = read_market(table, reference=request.reference, as_of=as_of)
    cost = trace_cost(trace, view, gpu=request.prices.gpu)
    files = () if book is None else (book.input,)
    return TraceBill(view, cost), files
