"""Who wastes GPUs, what it costs, and what waits would be without it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import floor

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US, MONTH_H, WEEK_S
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.characterize.clock import shown_zone
from gpuplan.analysis.characterize.today import COLUMNS as BILLED
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.kinds import (
    OPTIONAL,
    kinds_of_waste,
)
from gpuplan.analysis.waste.series import OPTIONAL as NODES
from gpuplan.analysis.waste.series import read_metrics
from gpuplan.planner.money.bill_today import at_end
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.requests.waste import WasteRequest
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.fidelity import NO_WAITS, unknown, why_not_today
from gpuplan.planner.site.pool_replays import fidelity_of_pools
from gpuplan.planner.sizing.pools import JobPool, PoolTerms, pools_of
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.waste_results import (
    LongLimits,
    WasteResults,
    WasteSource,
)
from gpuplan.planner.twin.workload import MOST_JOBS
from gpuplan.planner.waste.class_speeds import check_classes, classes_of, read_class_speeds
from gpuplan.planner.waste.clock import waste_clock
from gpuplan.planner.waste.energy import energy_of
from gpuplan.planner.waste.mail import check_mail_folder, write_mail
from gpuplan.planner.waste.policy_replays import PoolReplay, within_cluster
from gpuplan.planner.waste.remedies import JobWaste, job_waste
from gpuplan.planner.waste.results import Counterfactual
from gpuplan.planner.waste.right_size import SizeTerms, right_sizes
from gpuplan.planner.waste.site_replays import site_counterfactual
from gpuplan.planner.waste.tally import (
    DOING_NOTHING,
    WasteTable,
    usd_of_jobs,
)
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.time import MICROS

COLUMNS = tuple(dict.fromkeys((*BILLED, *REPLAYED, "user", "group", "job_class")))
SITE = ("partition", "eligible_time", "runs")
ROW = "group"
"""Column in which pools carry the place of a job in the log."""
SERIES = "series of metrics"
UNKNOWN_USE = re.compile(r"\((utilization |the others are )?unknown\)|which counts as 0%")
"""In notes of readers on jobs whose use they could not read, or took as none."""
USUAL = ("runs that jobstats calls too short", "runs without a summary of jobstats")
"""Begins of such notes on what is not damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasteAnswer(Answer[WasteRequest, WasteResults]):
    """Who wastes GPUs.

    Attributes:
        table: what each job wasted.
        sizes: what less would do for each job.
        source_format: of the log.
    """

    table: WasteTable
    sizes: pl.DataFrame
    source_format: str = ""

    def to_frame(self) -> pl.DataFrame:
        """Return a row per job: its names, the GPU-hours of each kind, and what less would do."""
        names = [
            name for name in ("user", "group", "partition") if name in self.table.jobs.columns
        ]  # fmt: skip
        return pl.concat(
            [self.table.jobs.select(names), self.table.kinds, self.sizes], how="horizontal"
        ).select("job_id", *names, pl.exclude("job_id", *names))


def waste(request: WasteRequest) -> WasteAnswer:
    """Return who wastes GPUs, and what waits would be without the waste.

    Raises:
        InputError: a file cannot be used, or no job holds GPUs.
        UsageError: a GPU type without a price, or a cluster that does not fit.
    """
    request.check()
    if request.mail is not None:
        check_mail_folder(request.mail)
    speeds, speed_inputs = read_class_speeds(request.profile)
    trace = _trace(request)
    check_classes(speeds, classes_of(trace.jobs))
    metrics = read_metrics(request.metrics, trace) if request.metrics else None
    if request.mail is not None and metrics is not None and metrics.misfit:
        raise InputError(
            request.trace,
            f"does not fit --metrics: {metrics.misfit.partition(chr(10))[0]}",
            expected="metrics of these jobs, by the same clock, where --mail tells users of them",
            hint=metrics.misfit.rpartition("next: ")[2],
        )
    series = None if metrics is None else metrics.jobs
    zone_name = trace.provenance.time_zone
    prices = Prices.read(request.prices, request.jobs.log.time_zone)
    usd_of_others = _usd_of_alternatives(request, trace, prices)
    kinds = kinds_of_waste(trace, series)
    arrays = trace.arrays()
    begin, end = arrays.window_us()
    months = (end - begin) / HOUR_US / MONTH_H
    usd = usd_of_jobs(trace, prices) if request.prices.is_given else None
    table = WasteTable(trace.jobs, kinds, usd, months)
    idle, held = table.hours(*DOING_NOTHING), float(table.held.sum())
    unknown_h, idle_h = float(table.without_figures.sum()), float(idle.sum())
    known_h = held - unknown_h
    share = idle_h / known_h if known_h > 0 else None
    usd_of_idle, usd_per_month = (None, None) if share is None else table.dollars(idle)
    zone = shown_zone(zone_name)
    removed = job_waste(trace, kinds, series, request.end_idle_after)
    fits = metrics is None or not metrics.misfit
    replayed = _replayed_waits(request, trace, removed) if fits else MISFIT
    counterfactual, notes = replayed.waits, replayed.notes
    if counterfactual is not None and request.prices.is_given:
        counterfactual = _with_dollars(counterfactual, at_end(trace, prices))
    terms = SizeTerms(request.gpu_memory, speeds, usd_of_others)
    sizes, told_sizes, sizes_of_jobs = right_sizes(table, terms, series if fits else None)
    users = table.by("user")
    if request.mail is not None:
        count = write_mail(request.mail, table, users, (begin, end), zone)
        notes += (f"wrote {counted(count, 'text')} to {request.mail}; nothing was sent",)
    notes += (*_unread(trace, known_h), *_stateless_note(table))
    if request.replay and fits and counterfactual is None and idle_h > 0:
        notes += (
            "no waits are replayed: no job could be ended after "
            f"{request.end_idle_after / 60:g} min of idling, and none is to be shrunk",
        )
    factors = (request.usd_per_kwh, request.kg_co2_per_kwh)
    energy = None if series is None else energy_of(trace, series, held, *factors)
    if any(factor is not None for factor in factors) and (energy is None or not energy.kwh):
        notes += ("energy is not known: --metrics have no power of the GPUs that jobs held",)
    return WasteAnswer(
        request=request,
        source_format=trace.provenance.source_format,
        results=WasteResults(
            idle_gpu_h=idle_h,
            share=share,
            idle_gpu_h_share=share,
            idle_gpu_h_per_month=idle_h / months if months else 0.0,
            usd=usd_of_idle,
            usd_per_month=usd_per_month,
            gpu_h=held,
            unknown_gpu_h=unknown_h,
            unknown_jobs=int(np.count_nonzero(table.without_figures > 0)),
            known_share=known_h / held if held else 0.0,
            jobs=int(np.count_nonzero(table.held > 0)),
            window_s=(end - begin) / MICROS,
            kinds=table.by_kind(),
            users=users,
            groups=table.by("group"),
            classes=table.by("job_class"),
            partitions=table.by("partition"),
            long_limits=_long_limits(kinds),
            sources=_sources(trace, series),
            metrics=None if metrics is None else metrics.coverage,
            right_size=sizes,
            right_size_coverage=told_sizes,
            energy=energy,
            clock=waste_clock(trace, idle, zone),
            counterfactual=counterfactual,
            zone=zone,
        ),
        inputs=(
            trace_input(trace),
            *prices.inputs,
            *speed_inputs,
            *(() if metrics is None else metrics.inputs),
            *replayed.inputs,
        ),
        warnings=tuple(
            dict.fromkeys(
                (
                    *trace.notes,
                    *(() if metrics is None else metrics.warnings),
                    *replayed.warnings,
                )
            )
        ),
        notes=(*notes, *(() if metrics is None else metrics.notes)),
        table=table,
        sizes=sizes_of_jobs,
    )


def _trace(request: WasteRequest) -> Trace:
    """Return the log with what is known of its GPUs."""
    trace = read_trace(
        request.trace, request.selection(), columns=COLUMNS, optional=(*OPTIONAL, *SITE, *NODES)
    )
    gpu = request.prices.gpu
    if gpu is None:
        return trace
    return replace(trace, jobs=trace.jobs.with_columns(pl.col("gpu_type").fill_null(gpu)))


def _stateless_note(table: WasteTable) -> tuple[str, ...]:
    """Return a sentence on jobs of which the log has no state, where it has states of others."""
    jobs, gpu_h = table.stateless()
    if not jobs or not table.has_states:
        return ()
    return (
        f"the log has no state of {counted(jobs, 'job')} ({gpu_h:,.0f} GPU-hours); whether they "
        "failed is not known",
    )


def _unread(trace: Trace, known_h: float) -> tuple[str, ...]:
    """Return what the log's reader could not use; where use is known, what is damaged of it."""
    unknown = (note for note in trace.provenance.notes if UNKNOWN_USE.search(note))
    return tuple(note for note in unknown if known_h <= 0 or not note.startswith(USUAL))


def _usd_of_alternatives(request: WasteRequest, trace: Trace, prices: Prices) -> dict[str, float]:
    """Return the prices of the GPU types that jobs could have instead of theirs.

    These are the types with a memory and a price of their own. The memory of a type that no job
    has and that is not cheaper than any is a slip that would change nothing.

    Raises:
        UsageError: names the types of the log.
    """
    types = trace.jobs["gpu_type"].cast(pl.String).unique().drop_nulls().sort().to_list()
    if not types:
        return {}
    today, instead = at_end(trace, prices), dict[str, float]()
    usd_of_log = [usd for usd in map(today.usd, types) if usd is not None]
    for name in request.gpu_memory:
        usd = today.usd(name) if request.prices.is_given else None
        if usd is not None:
            instead[name] = usd
        if any(same_gpu(name, kind) for kind in types):
            continue
        if usd is None or usd >= max(usd_of_log, default=0.0):
            why = "" if usd is None else f", and at ${usd:g} it is not cheaper"
            raise UsageError(
                f"--gpu-memory {name}: no job has such a GPU{why}; the log has {listed(types)}\n"
                f"  next: name one of these, or a cheaper type with its price, --price {name}=USD"
            )
    return instead


def _long_limits(kinds: pl.DataFrame) -> LongLimits:
    is_long = kinds["is_long_limit"]
    limited = is_long.len() - is_long.null_count()
    long = kinds.filter(is_long.fill_null(False))
    return LongLimits(
        long.height, long.height / limited if limited else None,
        float(long["beyond_limit_gpu_h"].sum()),
    )  # fmt: skip


def _sources(trace: Trace, series: pl.DataFrame | None) -> tuple[WasteSource, ...]:
    rows = []
    if "gpu_util_source" in trace.jobs.columns:
        counts = trace.jobs["gpu_util_source"].drop_nulls().value_counts(sort=True)
        rows += [WasteSource(str(name), int(jobs)) for name, jobs in counts.iter_rows()]
    if series is not None:
        rows.append(WasteSource(SERIES, series.height))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class ReplayedWaits:
    """The waits without the waste, and what to say of them.

    Attributes:
        waits: None where there are none.
        inputs: files read for them.
        notes, warnings: one sentence each.
    """

    waits: Counterfactual | None = None
    inputs: tuple[InputFile, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


MISFIT = ReplayedWaits(
    notes=("no waits are replayed: metrics that do not fit the log may be of other jobs",)
)


def _replayed_waits(request: WasteRequest, trace: Trace, removed: JobWaste) -> ReplayedWaits:
    """Return the waits without the waste."""
    if not request.replay:
        return ReplayedWaits()
    after_s = request.end_idle_after
    site = request.site()
    if site is not None:
        document, calibration = site
        log = read_site_log(request.trace, calibration.time_zone)
        ids = trace.jobs["job_id"].cast(pl.String).to_list()
        waits = site_counterfactual(log, document, calibration, removed, ids, after_s)
        lacks = () if calibration.lacks is None else (calibration.lacks,)
        files = (InputFile(str(log.path), log.sha256, log.jobs.height),)
        return ReplayedWaits(waits, files, tuple(log.notes), (*log.warnings, *lacks))
    recent, note = _recent(trace)
    terms = PoolTerms(
        request.prices.gpu, request.shape(), 0.0, None, None, include_running=True,
        seed=request.jobs.seed, by=(ROW,),
    )  # fmt: skip
    numbered = recent.jobs.with_columns(pl.col("row").cast(pl.String).alias(ROW))
    pools, seen = pools_of(replace(recent, jobs=numbered), terms)
    why = why_not_today(request.jobs, trace.provenance)
    why = why or (NO_WAITS if seen.mean_wait_s is None else "")
    fidelity, spec = unknown(why), request.spec()
    if not why:
        is_part = request.jobs.where is not None
        _, draws = np.random.default_rng(request.jobs.seed).spawn(2)
        fidelity, _ = fidelity_of_pools(pools, seen, spec, draws, is_part=is_part)
    fidelity = within_cluster(pools, spec.policy, fidelity)
    rows = tuple(map(_rows, pools))
    replays = PoolReplay(pools, rows, removed, spec, fidelity, after_s)
    return ReplayedWaits(replays.run(), notes=note)


def _recent(trace: Trace) -> tuple[Trace, tuple[str, ...]]:
    """Return the last weeks of a long log, with the place of each job, and a note on it."""
    numbered = trace.jobs.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
    count = numbered.height
    if count <= MOST_JOBS:
        return replace(trace, jobs=numbered), ()
    submit_us = numbered["submit_time"].dt.epoch("us").to_numpy()
    week_us, last = WEEK_S * MICROS, int(submit_us[-1])
    span = last - int(submit_us[count - MOST_JOBS])
    first = int(np.searchsorted(submit_us, last - (span // week_us * week_us or span), "right"))
    first = max(first, count - MOST_JOBS)
    note = (
        f"waits are replayed for the {count - first:,} jobs of the last "
        f"{floor((last - int(submit_us[first])) / MICROS / 86400):,} days"
    )
    return replace(trace, jobs=numbered[first:]), (note,)


def _rows(pool: JobPool) -> IntArray:
    """Return the place of each job of a pool in the log."""
    labels = pool.jobs.labels
    if labels is None:
        raise ValueError("the jobs do not carry their places")
    rows: IntArray = labels[ROW].cast(pl.String).cast(pl.Int64).to_numpy()
    return rows


def _with_dollars(waits: Counterfactual, prices: Prices) -> Counterfactual:
    """Return what replays say, with what freed GPUs cost a month."""
    kinds = [None if row.gpu_type == "all" else row.gpu_type for row in waits.freed]
    now, then = (
        prices.above_pools(dict(zip(kinds, gpus, strict=True)))
        for gpus in (
            [row.gpus for row in waits.freed],
            [row.gpus - row.freed_gpus for row in waits.freed],
        )
    )
    freed = []
    for row, kind in zip(waits.freed, kinds, strict=True):
        usd = prices.usd(kind)
        saved = None if usd is None else (now[kind] - then[kind]) * usd * MONTH_H
        freed.append(replace(row, usd_per_month=saved))
    return replace(waits, freed=tuple(freed))
