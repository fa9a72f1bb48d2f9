"""Replay a trace under many serverless thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.option import files_read
from gpuplan.analysis.characterize.gpu_mix import gpu_mix
from gpuplan.analysis.characterize.intervals import check_level
from gpuplan.planner.compare import PolicySpec, price
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_selection import conventional_prices
from gpuplan.planner.money.price_settings import with_prices
from gpuplan.planner.money.renting_settings import OF_PRICES
from gpuplan.planner.policies.allpass_settings import parameters_from, settings_of
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.requests.compare import ComparedParameters
from gpuplan.planner.requests.replays import LOG_WINDOW, ReplayRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.policy_prices import usual_gpu
from gpuplan.planner.studies.replay import ReplayInputs, price_choice, read_replay
from gpuplan.planner.sweep.alternatives import todays_cluster
from gpuplan.planner.sweep.results import SweepResults, sweep_frame, sweep_results
from gpuplan.planner.sweep.sweep import Sweep, SweepGrid
from gpuplan.planner.sweep.sweep import sweep as run_sweep
from gpuplan.simkit.allpass.parameters import Allpass

DEFAULT_THRESHOLDS_S = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
ALLPASS = PolicySpec("allpass", "allpass", {})
NO_GPU = "no GPU"
"""Part of the note on jobs that are left out because they use none."""
SWEPT = ("controller", "capacity")
"""Settings of the policy that the sweep varies."""


@dataclass(frozen=True, kw_only=True)
class ReplayParameters:
    """Which jobs are replayed, and what they and their GPUs cost.

    Attributes:
        deadline: where deadlines come from; null for the trace's own, and assumed ones where it
            has none.
        deadline_factor: bounds of assumed deadlines, in multiples of the run time.
        spot: which jobs are spot.
    """

    prices: str | None
    checkpoints: str | None
    throughputs: str | None
    gpu_speed: dict[str, float] | None
    deadline: str | None
    deadline_factor: list[float] | None
    include_running: bool
    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int
    as_of: str | UnsetType = UNSET
    spot: str | UnsetType = UNSET
    by: str | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class SweptParameters:
    """What is swept, and how the choice is made.

    Attributes:
        threshold_s: fixed thresholds, in seconds.
        mark: a threshold to replay and mark, as given.
        policy: the rules replayed, adaptive and fixed.
        capacity: most workers rented at once; null for no limit.
        price_ratio: serverful over serverless price; null for the prices as set.
        settings: the effective value of every setting that is not swept.
        price_choice: settings that choose among prices.
        against: the policy that the choice is compared with; null without one.
        cluster: today's cluster as given.
        value_of_time_usd_per_h: of one job; null where not given.
        ci: confidence of the intervals, percent; null without resamples.
        resamples: of the jobs.
    """

    threshold_s: list[float]
    mark: str | None
    policy: list[str]
    capacity: list[int | None]
    price_ratio: list[float] | None
    settings: dict[str, Any]
    price_choice: dict[str, Any]
    against: ComparedParameters | None
    cluster: str | None
    value_of_time_usd_per_h: list[float | None] | None
    ci: float | None
    resamples: int


@dataclass(frozen=True, kw_only=True)
class SweepParameters(ReplayParameters, SweptParameters):  # in JSON what is swept comes first
    """What was asked for, as JSON has it."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Which thresholds to replay, at which capacities and prices, and how to choose among them.

    Attributes:
        replay: the jobs, and what they cost.
        policy: ``allpass`` with its settings, without its controller.
        thresholds_s: fixed thresholds.
        fixed: whether these are replayed.
        adaptive: whether the adaptive rule is replayed.
        mark_s: a further fixed threshold, which is replayed and marked in tables and pictures.
        capacities: most workers rented at once, None for no limit; empty for the policy's own.
        price_ratios: serverful over serverless price; empty for the prices as set.
        values_of_time_usd_per_h: what an hour of a job is worth; None for the rule that takes the
            cheapest of nearly the least mean completion time.
        against: the policy that the choice is compared with; None for everything serverless.
        level: of the confidence in the recommendation, percent.
        resamples: of the bootstrap behind it; 0 leaves it out.
        engine: where the replays run; the result does not depend on it.
        timelines: keep what happened over time.
        cluster: GPUs of today's cluster, and the option that gave them; None for the most that the
            log ever held.
        mark_text, cluster_text: the marked threshold and today's cluster as given.
    """

    replay: ReplayRequest
    policy: PolicySpec = ALLPASS
    thresholds_s: tuple[float, ...] = DEFAULT_THRESHOLDS_S
    fixed: bool = True
    adaptive: bool = True
    mark_s: float | None = None
    capacities: tuple[int | None, ...] = ()
    price_ratios: tuple[float, ...] = ()
    values_of_time_usd_per_h: tuple[float | None, ...] = (None,)
    against: PolicySpec | None = None
    level: float = 90.0
    resamples: int = 200
    engine: Engine = field(default=THREADS, compare=False)
    timelines: bool = False
    cluster: tuple[int, str] | None = None
    mark_text: str | None = None
    cluster_text: str | None = None

    def __post_init__(self) -> None:
        if self.resamples:
            check_level(self.level, self.resamples)

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads."""
        return files_read(self.replay)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.parameters_of_policy()
        self.replay.check()

    @property
    def replayed_thresholds_s(self) -> tuple[float, ...]:
        """The fixed thresholds to replay."""
        marked = () if self.mark_s is None else (self.mark_s,)
        return (*(self.thresholds_s if self.fixed else ()), *marked)

    @property
    def settings(self) -> dict[str, Any]:
        """What is set of the policy, with its controller."""
        return {**self.policy.settings, "controller": "adaptive" if self.adaptive else "fixed"}

    def parameters_of_policy(self) -> Allpass:
        """Return the parameters of the policy, without prices from a table.

        Raises `UsageError` for settings that no run can have.
        """
        kept = OF_PRICES if self.replay.prices is not None else ()
        with self.policy.blamed(is_alone=True):
            return parameters_from(
                {name: value for name, value in self.settings.items() if name not in kept}
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer(Answer[SweepRequest, SweepResults]):
    """All replays of a sweep.

    Attributes:
        parameters: as JSON has them.
        found: the replays, and which one to choose.
    """

    parameters: SweepParameters
    found: Sweep

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, and one per run without a threshold (see `sweep_frame`)."""
        return sweep_frame(self.found)


def sweep(request: SweepRequest, progress: Callable[[float], None] | None = None) -> SweepAnswer:
    """Replay a trace under every threshold.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    base = request.parameters_of_policy()
    capacities = request.capacities or (base.capacity,)
    against, notes, gpu = request.against, tuple[str, ...](), usual_gpu(request.policy)
    by_class = against is not None and needs_classes(against.effective())
    read = read_replay(request.replay, by_class=by_class, window=LOG_WINDOW)
    if request.replay.prices is not None:
        base, against, notes, gpu = _priced(request, base, capacities, read)
    with request.policy.blamed(is_alone=True):
        found = run_sweep(
            read.jobs,
            base,
            SweepGrid(
                thresholds_s=request.replayed_thresholds_s,
                adaptive=request.adaptive,
                capacities=capacities,
                price_ratios=request.price_ratios,
                values_of_time=request.values_of_time_usd_per_h,
            ),
            read.draws,
            against=against,
            level=request.level if request.resamples else None,
            resamples=request.resamples,
            timelines=request.timelines,
            engine=request.engine,
            progress=progress,
        )
    usd = base.conventional_price
    types = () if read.today is None else read.today.gpu_h_by_type()
    found = _beside_today(
        found, request, read, conventional_prices(types, gpu, usd, read.files.book), gpu
    )
    effective = settings_of(base.on(read.jobs.workload))
    shared = {name: value for name, value in effective.items() if name not in SWEPT}
    left_out = [note for note in read.jobs.notes if NO_GPU in note]
    caveats = (*left_out, *read.deadline_notes([request.policy]), *notes)
    return SweepAnswer(
        request=request,
        results=sweep_results(found),
        inputs=read.inputs,
        warnings=(*found.warnings, *(note for note in read.notes if note not in caveats)),
        caveats=caveats,
        parameters=_parameters(request, read, found, capacities, shared),
        found=found,
    )


def _parameters(
    request: SweepRequest,
    read: ReplayInputs,
    found: Sweep,
    capacities: tuple[int | None, ...],
    settings: dict[str, Any],
) -> SweepParameters:
    rules = {"adaptive": request.adaptive, "fixed": request.fixed}
    worth, compared = request.values_of_time_usd_per_h, None
    if found.against is not None and request.against is not None:
        compared = ComparedParameters(
            name=found.against.label,
            label=found.against.label,
            policy=found.against.policy,
            settings=dict(found.against.settings),
            price_choice=price_choice(request.against.settings),
        )
    return SweepParameters(
        threshold_s=sorted(set(request.thresholds_s)),
        mark=request.mark_text,
        policy=[name for name, is_replayed in rules.items() if is_replayed],
        capacity=list(capacities),
        price_ratio=list(request.price_ratios) or None,
        settings=settings,
        price_choice=price_choice(request.settings),
        against=compared,
        cluster=request.cluster_text,
        value_of_time_usd_per_h=None if worth == (None,) else list(worth),
        ci=request.level if request.resamples else None,
        resamples=request.resamples,
        **request.replay.parameters(),
    )


def _priced(
    request: SweepRequest, base: Allpass, capacities: tuple[int | None, ...], read: ReplayInputs
) -> tuple[Allpass, PolicySpec | None, tuple[str, ...], str | None]:
    """Return the policies with the prices of the table, where those come from, and their GPU."""
    # The cheapest offers that any capacity can take.
    most = None if None in capacities else max(one for one in capacities if one is not None)
    ours, book, first_us = request.policy, read.files.book, read.jobs.first_submit_us
    with ours.blamed(is_alone=True):
        priced = with_prices({**request.settings, "capacity": most}, book, first_us)
        base = parameters_from({**priced.settings, "capacity": base.capacity})
    against, notes = request.against, priced.notes
    if against is not None:
        text = against.label
        (against,), more = price([against], book, first_us, beside=(priced.gpu, ours.label))
        notes = (*notes, *(f"{text}: {note}" for note in more if note not in notes))
    return base, against, notes, priced.gpu or None


def _beside_today(
    found: Sweep,
    request: SweepRequest,
    read: ReplayInputs,
    prices: Prices,
    gpu: str | None,
) -> Sweep:
    """Return a sweep with what the log shows, today's cluster, and other GPU types in the log.

    Args:
        found: the replays.
        request: what was asked for.
        read: the jobs.
        prices: of the GPUs of today's cluster, which costs the mean over the log's GPU-hours.
        gpu: the type that the replays rent; None where its prices are set.
    """
    now = None if read.today is None else read.today.at_prices(prices.usd)
    usd = None if now is None else now.usage.usd_per_gpu_h
    return replace(
        found,
        window_s=None if now is None else now.window_s,
        today=now,
        cluster=None
        if request.against is not None or usd is None
        else todays_cluster(now, usd, request.cluster),
        mix=gpu_mix(now, gpu),
        has_deadlines=read.jobs.has_deadlines,
    )
