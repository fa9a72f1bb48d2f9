"""Say what a log costs a month, and who pays: by group, user, class or GPU type."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from gpuplan.analysis.base.time_units import HOUR_US, MICROS, MONTH_H
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.characterize.capacity import time_above
from gpuplan.analysis.history.jobs import BY
from gpuplan.analysis.history.runs import written
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.focus import focus_rows, month_names, row_name
from gpuplan.planner.money.gpu_hours import COLUMNS, UNKNOWN, gpu_hours
from gpuplan.planner.money.group_bill import GroupBill, bill_of, cluster_of
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.requests.bill import BillRequest


@dataclass(frozen=True, slots=True)
class BillGroup:
    """One row of a bill.

    Attributes:
        name: the group, user, class or GPU type; ``unknown`` where the log names none, and
            ``idle`` for GPUs that no job holds.
        usd_per_month: its part of the bill.
        gpu_h: GPU-hours that it holds in the window.
        jobs: that held GPUs.
        mean_gpus: GPU-hours over the window.
        share: of the whole bill; null where that is 0.
        usd: its part of the bill of the window.
        idle_usd_per_month: what of it pays for idle GPUs.
    """

    name: str
    usd_per_month: float
    gpu_h: float
    jobs: int
    mean_gpus: float
    share: float | None
    usd: float
    idle_usd_per_month: float


@dataclass(frozen=True, slots=True)
class BillType:
    """The bill of one GPU type.

    Attributes:
        gpu_type: the type; ``unknown`` for jobs that name none.
        usd_per_gpu_h: its price.
        price_source: where the price comes from.
        gpus: of the cluster; null without one.
        gpu_h: GPU-hours that jobs hold in the window.
        mean_gpus: GPU-hours over the window.
        peak_gpus: most GPUs held at once.
        usd_per_month: its part of the bill.
        idle_usd_per_month: what of it pays for idle GPUs.
    """

    gpu_type: str
    usd_per_gpu_h: float
    price_source: str
    gpus: int | None
    gpu_h: float
    mean_gpus: float
    peak_gpus: float
    usd_per_month: float
    idle_usd_per_month: float


@dataclass(frozen=True, slots=True)
class MonthPart:
    """What one group pays in one calendar month.

    Attributes:
        name: as that of the group.
        usd: the amount.
    """

    name: str
    usd: float


@dataclass(frozen=True, slots=True)
class BillMonth:
    """One month of the window.

    Attributes:
        name: ``2017-10``; ``month 1`` where the log has no dates.
        hours: of it within the window.
        usd: the bill of these hours.
        groups: who pays.
    """

    name: str
    hours: float
    usd: float
    groups: tuple[MonthPart, ...]


@dataclass(frozen=True, slots=True)
class BillResults:
    """The bill of a log.

    Attributes:
        usd_per_month: the whole bill, scaled to a month of 730.5 hours.
        used_usd_per_month: of GPUs that jobs hold.
        idle_usd_per_month: of GPUs that no job holds; null without a cluster.
        idle_share: share of the cluster's GPU-hours that no job holds; null without a cluster.
        usd: the whole bill of the window.
        idle_usd: of it, that of GPUs that no job holds; null without a cluster.
        by: what the bill is split by.
        jobs: billed.
        window_s: first submission to last submission or end, or the period.
        gpu_h: GPU-hours that jobs hold.
        mean_gpus: GPU-hours over the window.
        cluster_gpus: GPUs of the cluster; null without one.
        groups: the rows of the bill, idle GPUs last; they add up to it.
        gpu_types: the same by GPU type.
        months: the bill of the window by month.
    """

    usd_per_month: float
    used_usd_per_month: float
    idle_usd_per_month: float | None
    idle_share: float | None
    usd: float
    idle_usd: float | None
    by: str
    jobs: int
    window_s: float
    gpu_h: float
    mean_gpus: float
    cluster_gpus: int | None
    groups: tuple[BillGroup, ...]
    gpu_types: tuple[BillType, ...]
    months: tuple[BillMonth, ...]


@dataclass(frozen=True, slots=True)
class BillStudy:
    """The bill of a log.

    Attributes:
        request: what was asked for.
        trace: as read.
        bill: exact.
        results: as JSON has them.
        shown: as people see them: of a period, with its amounts in place of those of a month.
        inputs: the files read.
        warnings: what would change the reader's decision.
    """

    request: BillRequest
    trace: Trace
    bill: GroupBill
    results: BillResults
    shown: BillResults
    inputs: tuple[InputFile, ...]
    warnings: tuple[str, ...]

    @property
    def period(self) -> str:
        """The begin and the end of the period in words; empty without one."""
        if self.trace.period is None:
            return ""
        begin, end = (written(edge).removesuffix(" 00:00:00") for edge in self.trace.period)
        return f"from {begin} to {end}"

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as FOCUS."""
        return focus_rows(self.bill, self.request.by, self.trace.path.stem)


def bill(request: BillRequest) -> BillStudy:
    """Return the bill of a trace.

    Raises:
        InputError: the trace or a price table cannot be used.
        UsageError: a GPU type without a price, or a cluster that the jobs do not fit.
    """
    request.check()
    trace = read_trace(
        request.trace, request.jobs, columns=(*COLUMNS, BY.get(request.by, request.by))
    )
    if request.prices.gpu is not None:
        named = pl.col("gpu_type").fill_null(request.prices.gpu)
        trace = replace(trace, jobs=trace.jobs.with_columns(named))
    hours = gpu_hours(trace, request.by)
    cluster = cluster_of(hours, request.pools(), is_peak=request.is_peak)
    prices = Prices.read(request.prices)
    is_spread = request.idle == "spread"
    found = bill_of(hours, prices, cluster, spread_idle=is_spread)
    shown = results = _results(request, trace, found)
    if trace.period is not None:
        in_period = bill_of(hours, prices, cluster, spread_idle=is_spread, month_us=hours.window_us)
        shown = _results(request, trace, in_period)
    return BillStudy(
        request=request,
        trace=trace,
        bill=found,
        results=results,
        shown=shown,
        inputs=(trace_input(trace), *prices.inputs),
        warnings=tuple(_warnings(request, trace, found, prices)),
    )


def _results(request: BillRequest, trace: Trace, found: GroupBill) -> BillResults:
    hours = found.hours
    window_h = hours.window_us / HOUR_US
    jobs = dict(zip(hours.names, hours.jobs.tolist(), strict=True))
    held = float(hours.gpu_h.sum())
    gpus = sum(found.cluster) if found.cluster else None
    groups = tuple(
        BillGroup(
            name=row_name(row.name, hours.names),
            usd_per_month=row.month_cents / 100,
            gpu_h=row.gpu_h,
            jobs=0 if row.name is None else jobs[row.name],
            mean_gpus=row.gpu_h / window_h,
            share=row.month_cents / found.month_cents if found.month_cents else None,
            usd=row.cents / 100,
            idle_usd_per_month=row.idle_month_cents / 100,
        )
        for row in found.rows
    )
    return BillResults(
        usd_per_month=found.month_cents / 100,
        used_usd_per_month=(found.month_cents - found.idle_month_cents) / 100,
        idle_usd_per_month=None if gpus is None else found.idle_month_cents / 100,
        idle_share=None if not gpus else max(0.0, 1 - held / (gpus * window_h)),
        usd=found.cents / 100,
        idle_usd=None if gpus is None else found.idle_cents / 100,
        by=request.by,
        jobs=int(hours.jobs.sum()),
        window_s=hours.window_us / MICROS,
        gpu_h=held,
        mean_gpus=held / window_h,
        cluster_gpus=gpus,
        groups=groups,
        gpu_types=tuple(_types(found, window_h)),
        months=tuple(_months(trace, found)),
    )


def _types(found: GroupBill, window_h: float) -> list[BillType]:
    hours = found.hours
    by_type = [*hours.gpu_h.sum(axis=(0, 2)).tolist()]
    peaks = hours.peak_gpus.tolist()
    more = len(found.gpu_types) - len(by_type)
    by_type, peaks = by_type + [0.0] * more, peaks + [0.0] * more
    return [
        BillType(
            gpu_type=name or UNKNOWN,
            usd_per_gpu_h=price.usd_per_gpu_h,
            price_source=price.source,
            gpus=found.cluster[place] if found.cluster else None,
            gpu_h=by_type[place],
            mean_gpus=by_type[place] / window_h,
            peak_gpus=peaks[place],
            usd_per_month=found.type_month_cents[place][0] / 100,
            idle_usd_per_month=found.type_month_cents[place][1] / 100,
        )
        for place, (name, price) in enumerate(zip(found.gpu_types, found.prices, strict=True))
    ]


def _months(trace: Trace, found: GroupBill) -> list[BillMonth]:
    edges = found.hours.edges_us
    names = month_names(found, has_calendar=not trace.provenance.relative_time)
    cents: list[dict[str, int]] = [{} for _ in names]
    for cell in found.cells:
        called = row_name(cell.name, found.hours.names)
        cents[cell.period][called] = cents[cell.period].get(called, 0) + cell.cents
    return [
        BillMonth(
            name=name,
            hours=float(edges[place + 1] - edges[place]) / HOUR_US,
            usd=sum(parts.values()) / 100,
            groups=tuple(MonthPart(one, amount / 100) for one, amount in parts.items()),
        )
        for place, (name, parts) in enumerate(zip(names, cents, strict=True))
    ]


def _warnings(request: BillRequest, trace: Trace, found: GroupBill, prices: Prices) -> list[str]:
    hours = found.hours
    notes = [*trace.notes, *prices.unmatched_note(found.gpu_types), *request.jobs.submission_notes]
    named = [name for name in hours.names if UNKNOWN not in name]
    if not named:
        notes.append(f"the log names no {request.by} for any job; choose another --by")
    for place, gpus in enumerate(found.cluster):
        peak = hours.peak_gpus[place] if place < hours.peak_gpus.size else 0
        gpu_type = found.gpu_types[place]
        is_typed = trace.jobs["gpu_type"].cast(pl.String).eq_missing(gpu_type).to_numpy()
        above = time_above(trace, is_typed, gpus) if peak > gpus else None
        if above is not None:
            notes.append(above.warning(gpu_type, f"the {gpus:,} of --cluster"))
    if hours.window_us < MONTH_H * HOUR_US / 4:
        notes.append(
            f"the log covers {hours.window_us / HOUR_US / 24:.2g} days, and the bill of a month "
            "assumes that the rest of the month is like them"
        )
    count, held_h = hours.running
    if count:
        notes.append(
            f"{counted(count, 'job')} still running: billed for the {held_h:,.0f} GPU-hours so far"
        )
    return notes
