"""Replays on GPUs that are paid by time: settings and prices, the bill, and what all report.

A policy says what happened (`ClusterReplay`); `replayed` adds what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.money.cluster_prices import ClusterPrices
from gpuplan.planner.money.renting_settings import (
    CLUSTER_PRICES,
    OF_PRICES,
    RENTED,
    idle_of_market,
    priced_values,
    shown_terms,
    terms_of_rental,
)
from gpuplan.planner.runs.panels import TimeLines, usage_frame, usage_lines
from gpuplan.planner.runs.settings import Setting, check_values, defaults_of
from gpuplan.planner.runs.simulation import RunBill, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import leases_within, window_of
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.renting.billing import RentalTerms, hold_leases
from gpuplan.simkit.run import Run
from gpuplan.simkit.steps import time_average
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class RentedParts:
    """What GPUs cost by where they are rented.

    Attributes:
        cost_marketplace_usd: the part that is for GPUs rented on the marketplace.
        cost_conventional_usd: the part that is for GPUs of a conventional cloud.
    """

    cost_marketplace_usd: float | UnsetType = UNSET
    cost_conventional_usd: float | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class ClusterResults(RentedParts):
    """What policies on GPUs that are paid by time measure.

    Attributes:
        mean_usd_per_gpu_h: mean price of the GPUs; null where they were rented for no time.
        median_jqt_s, p90_jqt_s, p95_jqt_s, p99_jqt_s: time without GPUs.
        preemptions: times that a job was stopped.
        preempted_jobs: jobs stopped at least once.
        waiting_mean, waiting_peak: jobs in the queue, mean over time and most at once.
        mean_preemption_s: checkpoints and restores of jobs that were stopped.
        mean_lost_s: run time that evictions undo, the grace after them included; part of the JCT.
        lost_gpu_h: the same in GPU-hours of all jobs.
        gpu_busy_share: GPU time held within the window, over that billed.
        fragmented_share: GPU time free while the first job in line fits by count, but not into
            nodes.
    """

    mean_usd_per_gpu_h: float | UnsetType | None = UNSET
    median_jqt_s: float | UnsetType = UNSET
    p90_jqt_s: float | UnsetType = UNSET
    p95_jqt_s: float | UnsetType = UNSET
    p99_jqt_s: float | UnsetType = UNSET
    preemptions: int | UnsetType = UNSET
    preempted_jobs: int | UnsetType = UNSET
    waiting_mean: float | UnsetType = UNSET
    waiting_peak: int | UnsetType = UNSET
    mean_preemption_s: float | UnsetType = UNSET
    mean_lost_s: float | UnsetType = UNSET
    lost_gpu_h: float | UnsetType = UNSET
    gpu_busy_share: float | UnsetType | None = UNSET
    fragmented_share: float | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings of one replay.

    Attributes:
        policy: its name.
        declared: settings that the policy has.
        values: the value of every setting.
        typed: what was set.
        usd_per_gpu_h: price of every GPU; None where they are rented.
        rented: offers, prices and billing, where they are.
    """

    policy: str
    declared: Mapping[str, Setting]
    values: Mapping[str, Any]
    typed: Mapping[str, Any]
    usd_per_gpu_h: float | None
    rented: RentalTerms

    @property
    def size_setting(self) -> str:
        """The setting that gives the size of the cluster."""
        return "gpus" if self.values["cluster"] is None else "cluster"

    def shown(self, size: Mapping[str, Any]) -> dict[str, Any]:
        """Return the effective value of every setting that counts; ``size`` says that of some."""
        plain = set(self.declared) - OF_PRICES.keys() - RENTED.keys()
        kept = {name: value for name, value in self.values.items() if name in plain}
        if self.usd_per_gpu_h is not None:
            return {**kept, **size}
        return {**kept, **size, **shown_terms(self.rented)}

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of settings that change nothing."""
        if self.usd_per_gpu_h is None:
            return idle_of_market(self.rented)
        offered = [name for name in RENTED if name in self.typed]
        if not offered:
            return ()
        return (f"usd_per_gpu_h is the whole price, so {', '.join(offered)} has no effect",)


def replay_settings(
    policy: str,
    settings: Mapping[str, Setting],
    typed: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
) -> ReplaySettings:
    """Return the settings of a replay; ``usual`` are their defaults, where they are others.

    Raises:
        SettingError: a value that its setting cannot have, or prices that do not ascend.
    """
    check_values(settings, typed)
    values = priced_values(defaults_of(settings) if usual is None else usual, typed)
    return ReplaySettings(
        policy, settings, values, typed, values["usd_per_gpu_h"], terms_of_rental(values)
    )


def size_shown(gpus: int | None, each: int | None, gpu_type: str | None) -> dict[str, Any]:
    """Return the size of a cluster of one GPU type as settings: its text form, GPUs, of a node."""
    is_set = gpus is not None or each is not None
    shape = str(GpuPool(gpus, each, gpu_type)) if is_set else None
    return {"cluster": shape, "gpus": gpus, "gpus_per_node": each}


def size_note(gpus: int, why: str = "the peak use if no job waits") -> str:
    """Return the note on a size that was not set."""
    return f"the cluster has {counted(gpus, 'GPU')}, {why}; --cluster is for another size"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReplay:
    """What a policy made of the jobs.

    Attributes:
        run: what happened to jobs and GPUs.
        size: the settings that say how large the cluster is; ``gpus`` among them.
        is_standing: whether the cluster stands throughout, and is paid for the whole window; else
            GPUs are rented as needed.
        is_rescaled: as `Simulation` has it.
        measured: makes more numbers, given the bill.
        notes: what a reader must know, besides what is said of prices.
        loses_work, loop, gpus_by_type, site_gpus: as `Simulation` has them.
        billed_by_type: GPUs of each type, where fewer than those of the cluster that was set count.
        columns, timeline, lines: as `Simulation` has them; None for GPUs in use and jobs waiting.
    """

    run: Run
    size: Mapping[str, Any]
    is_standing: bool = True
    is_rescaled: bool = False
    measured: Callable[[RunBill], Mapping[str, Any]] = lambda bill: {}
    notes: tuple[str, ...] = ()
    loses_work: bool = False
    loop: str = ""
    gpus_by_type: Mapping[str, int] = field(default_factory=dict)
    billed_by_type: Mapping[str, int] = field(default_factory=dict)
    site_gpus: int | None = None
    columns: Callable[[], Mapping[str, Any]] = dict
    timeline: Callable[[], pl.DataFrame] | None = None
    lines: Callable[[], TimeLines] | None = None


def replayed(jobs: TraceJobs, settings: ReplaySettings, replay: ClusterReplay) -> Simulation:
    """Return a replay with its bill, and what policies on GPUs paid by time report."""
    run, standing_gpus = replay.run, replay.size["gpus"] if replay.is_standing else None
    settings, unpriced = _at_own_prices(jobs, settings, replay)
    bill = bill_of(jobs, settings, run, standing_gpus)
    measured = {**fields_of(_cluster_results(run, bill)), **replay.measured(bill)}
    return Simulation(
        policy=settings.policy,
        settings=settings.shown(replay.size),
        jobs=jobs,
        run=run,
        bill=bill,
        gpus=_peak_rented(run) if standing_gpus is None else standing_gpus,
        measured={name: value for name, value in measured.items() if value is not UNSET},
        warnings=(*replay.notes, *unpriced, *settings.notes),
        timeline=replay.timeline or partial(usage_frame, run),
        lines=replay.lines or partial(usage_lines, run),
        columns=lambda: {"preemptions": run.stops, **replay.columns()},
        is_rescaled=replay.is_rescaled,
        loses_work=replay.loses_work,
        loop=replay.loop,
        gpus_by_type=replay.gpus_by_type,
        site_gpus=replay.site_gpus,
    )


def _at_own_prices(
    jobs: TraceJobs, settings: ReplaySettings, replay: ClusterReplay
) -> tuple[ReplaySettings, tuple[str, ...]]:
    """Return settings with the mean price of the GPUs, owned and committed ones among them.

    Where the price book has none of those and jobs keep to no types, the price stays as it is.
    The second value says which types have no price.
    """
    prices: ClusterPrices | None = settings.values.get(CLUSTER_PRICES)
    gpus_by_type = _types_of(settings, replay)
    if prices is None or not (gpus_by_type or prices.has_pools):
        return settings, ()
    if not replay.is_standing:
        leases = leases_within(replay.run, jobs.window_us, None)
        usd = prices.leases_usd(leases, window_of(replay.run, jobs.window_us))
        gpus = leases.gpu_us / MICROS_PER_HOUR
    else:
        gpus = replay.size["gpus"]
        keeps_types = bool(replay.gpus_by_type)
        usd = prices.usd_per_h(gpus_by_type or {None: gpus}, or_mean=keeps_types)
        if gpus_by_type and (others := gpus - sum(gpus_by_type.values())) > 0:
            usd += others * prices.mean_usd()  # of types that no job keeps to
    if gpus:
        settings = replace(settings, usd_per_gpu_h=usd / gpus)
    if not replay.gpus_by_type or not (unpriced := prices.unpriced(gpus_by_type)):
        return settings, ()
    return settings, (f"no price of {listed(unpriced)}: these GPUs cost the mean of the log's",)


def _types_of(settings: ReplaySettings, replay: ClusterReplay) -> Mapping[str | None, int]:
    """Return the GPUs of each type of a cluster that has types; empty where it names none."""
    gpus = replay.gpus_by_type or replay.billed_by_type
    shape = settings.values.get("cluster")
    if not gpus and replay.is_standing and shape is not None:
        gpus = shape.gpus_by_type
        if not gpus and len(shape.gpu_types) == len(shape.pools) == 1:  # A100=x4
            gpus = {shape.gpu_types[0]: replay.size["gpus"]}
    return dict[str | None, int](gpus.items())


def bill_of(
    jobs: TraceJobs, settings: ReplaySettings, run: Run, standing_gpus: int | None
) -> RunBill:
    """Return the bill for every GPU rented within the window, whether in use or not.

    ``standing_gpus`` are those of a cluster that stands throughout it; None for GPUs rented as
    needed.
    """
    leases = leases_within(run, jobs.window_us, standing_gpus)
    gpu_h, mean_usd = leases.gpu_us / MICROS_PER_HOUR, settings.usd_per_gpu_h
    parts: dict[str, float] = {}
    if mean_usd is None:
        marketplace = conventional = metered = 0.0
        for rent in hold_leases(settings.rented, leases, int(run.submit_us[0])):
            marketplace += float(rent.billed_usd[: rent.offers].sum())
            conventional += float(rent.billed_usd[rent.offers :].sum())
            metered += float(rent.metered_usd.sum())
        parts = {"marketplace": marketplace, "conventional": conventional}
        total_usd, mean_usd = marketplace + conventional, metered / gpu_h if gpu_h else None
    else:
        total_usd = gpu_h * mean_usd

    def jobs_usd() -> FloatArray:
        """Return shares by the GPU time that jobs held: idle GPUs are thus paid by all."""
        held = run.held_gpu_us
        if not held.any():
            held = jobs.workload.gpus.astype(np.float64)
        shares: FloatArray = total_usd * held / held.sum()
        return shares

    return RunBill(total_usd, leases.gpu_us, jobs_usd, mean_usd, parts)


def _cluster_results(run: Run, bill: RunBill) -> ClusterResults:
    jqt_s = distribution(run.waited_us / MICROS, "jqt", "s")
    del jqt_s["mean_jqt_s"]
    usage = run.usage
    time_s = (usage.time_us - usage.time_us[0]) / MICROS
    makespan_s = float(run.finish_us.max() - run.submit_us[0]) / MICROS
    return ClusterResults(
        **{f"cost_{tier}_usd": usd for tier, usd in bill.parts.items()},
        mean_usd_per_gpu_h=bill.mean_usd_per_gpu_h,
        **jqt_s,
        preemptions=int(run.stops.sum()),
        preempted_jobs=int((run.stops > 0).sum()),
        waiting_mean=time_average(time_s, usage.waiting.astype(np.float64), makespan_s),
        waiting_peak=int(usage.waiting.max(initial=0)),
    )


def _peak_rented(run: Run) -> int:
    """Return the most GPUs rented at once."""
    leases = run.rented
    time = np.concatenate((leases.end_us, leases.begin_us))
    step = np.concatenate((-leases.gpus, leases.gpus))
    order = np.lexsort((step, time))  # what goes back makes room for what is rented
    return int(np.cumsum(step[order]).max(initial=0))
