"""Replay a trace under many serverless thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.gpu_mix import gpu_mix
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.bill_today import pools_usd_per_h, price_note
from gpuplan.planner.money.book_types import shared_pool_notes
from gpuplan.planner.money.cluster_prices import ClusterPrices
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_settings import with_prices
from gpuplan.planner.money.price_times import period_notes
from gpuplan.planner.money.renting_settings import CLUSTER_PRICES, OF_PRICES
from gpuplan.planner.policies.allpass_settings import parameters_from, settings_of
from gpuplan.planner.requests.clusters import ClusterSize
from gpuplan.planner.requests.compare import ComparedParameters
from gpuplan.planner.requests.replays import LOG_WINDOW
from gpuplan.planner.requests.sweep import SweepRequest
from gpuplan.planner.spec_prices import (
    CLOUD,
    book_price,
    cloud_price,
    is_priced_by_table,
    own_price,
    price,
    with_gpu,
)
from gpuplan.planner.speedup.registry import needs_classes
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.policy_prices import unlike_prices_note, usual_gpu
from gpuplan.planner.studies.replay import ReplayInputs, price_choice, read_replay
from gpuplan.planner.sweep.alternatives import todays_cluster
from gpuplan.planner.sweep.results import SweepResults, sweep_frame, sweep_results
from gpuplan.planner.sweep.sweep import Sweep, SweepGrid
from gpuplan.planner.sweep.sweep import sweep as run_sweep
from gpuplan.simkit.allpass.parameters import Allpass

NO_GPU = "no GPU"
"""Part of the note on jobs that are left out because they use none."""
SWEPT = ("controller", "capacity")
"""Settings of the policy that the sweep varies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer(Answer[SweepRequest, SweepResults]):
    """All replays of a sweep.

    Attributes:
        replays: the points, and which one to choose.
        computed: parameters that the trace and the policy settle.
        policies: ``allpass``, and the one that the choice is compared with.
    """

    replays: Sweep
    computed: dict[str, Any]
    policies: tuple[PolicySpec, ...]

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return self.request.parameters() | self.computed

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, and one per run without a threshold (see `sweep_frame`)."""
        return sweep_frame(self.replays)


def sweep(request: SweepRequest, progress: Callable[[float], None] | None = None) -> SweepAnswer:
    """Replay a trace under every threshold.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    request.check()
    policy, against = request.spec(), request.against_spec()
    policies = (policy, *([] if against is None else [against]))
    base = request.parameters_of_policy()
    capacities = request.capacities or (base.capacity,)
    table, is_set = request.replay.prices, CLOUD in policy.settings
    is_chosen = table is not None or is_set or policy.settings.get("gpu") is not None
    notes, gpu = tuple[str, ...](), usual_gpu(policy) if not request.price.is_own else None
    by_class = against is not None and needs_classes(against.effective())
    inputs = read_replay(request.replay, by_class=by_class, window=LOG_WINDOW)
    hours = inputs.used_types
    prices = inputs.prices(request.book, [spec.settings.get("gpu") for spec in policies])
    if prices is not None and request.price.is_own:
        owned = own_price(policies, prices, hours)
        paying, notes = book_price(owned, prices, hours, looked_up=table is not None)
        policy, against = paying[0], next(map(_above_pools, paying[1:]), None)
        notes += price_note(prices, hours, pays_pools=True)
        with policy.blamed(is_alone=True):
            dropped = OF_PRICES if table is not None else ()  # used up by the table
            chosen = {
                n: value for n, value in _settings(request, policy).items() if n not in dropped
            }
            base = replace(parameters_from(chosen), capacity=base.capacity)
    if table is not None:
        specs = (policy, *([] if against is None else [against]))
        if prices is not None and not request.price.is_own:
            owned = own_price(specs[1:], prices, hours, of_table=True)
            at_provider, more = cloud_price((policy, *owned), prices, hours)
            specs, notes = tuple(at_provider), (*notes, *more)
            if any(map(is_priced_by_table, specs)):
                notes += price_note(prices, hours, pays_pools=True)
        base, against, more, gpu = _priced(request, specs, base, capacities, inputs)
        notes += more
    with policy.blamed(is_alone=True):
        replays = run_sweep(
            inputs.jobs,
            base,
            SweepGrid(
                thresholds_s=request.fixed_s(),
                adaptive=request.is_adaptive,
                capacities=capacities,
                price_ratios=request.price_ratios,
                values_of_time=request.values_of_time or (None,),
            ),
            inputs.draws,
            against=against,
            level=request.ci if request.resamples else None,
            resamples=request.resamples,
            timelines=request.timelines,
            engine=request.engine,
            progress=progress,
        )
    usd = base.conventional_price
    now = inputs.todays_bill(prices, usd, is_assumed=not is_set)
    inputs = replace(inputs, bill=None)  # it keeps the rows of the trace
    of_cluster = usd if prices is None else prices.mean(hours)
    if of_cluster is None and now is not None:
        of_cluster = now.usage.usd_per_gpu_h
    unlike = () if table is None or request.price.is_own else unlike_prices_note(of_cluster, usd)
    standing = None if of_cluster is None else _standing(prices, of_cluster, hours, request.size())
    replays = _with_today(replays, request, inputs, now, standing, gpu)
    if request.price.is_own and not is_chosen:
        replays = replace(replays, mean_usd=base.conventional_price)
    effective = settings_of(base.on(inputs.jobs.workload))
    left_out = [note for note in inputs.jobs.notes if NO_GPU in note]
    pools_usd = 0.0 if prices is None else pools_usd_per_h(prices) * MONTH_H
    jobs = request.replay.jobs
    shared = [] if prices is None else shared_pool_notes(prices.book, list(hours), jobs)
    caveats = (*left_out, *inputs.deadline_notes([policy]), *notes)
    return SweepAnswer(
        request=request,
        results=sweep_results(replays),
        inputs=(*inputs.inputs, *(() if prices is None else prices.book.inputs)),
        warnings=(
            *unlike,
            *pools_note(pools_usd, has_against=against is not None),
            *shared,
            *(() if prices is None else period_notes(inputs.dated_us, prices, hours)),
            *replays.warnings,
            *(note for note in inputs.notes if note not in caveats),
        ),
        caveats=caveats,
        replays=replays,
        computed={
            "capacity": list(capacities),
            "settings": {name: value for name, value in effective.items() if name not in SWEPT},
            "price_choice": price_choice(request.settings_of_policy()),
            "against": _compared(replays, policies),
        },
        policies=policies,
    )


def pools_note(usd_per_month: float, *, has_against: bool) -> tuple[str, ...]:
    """Return that GPUs owned and committed to are due on top of the rows, if there are any."""
    if not usd_per_month:
        return ()
    also = ", and --against counts only what it pays above them" if has_against else ""
    return (
        f"all rows rent every GPU{also}: the ${usd_per_month:,.0f} a month of GPUs owned and "
        "committed to is due on top of that; today and a cluster around the clock include it",
    )


def _compared(replays: Sweep, policies: tuple[PolicySpec, ...]) -> ComparedParameters | None:
    """Return the policy that the choice is compared with, as JSON has it."""
    if replays.against is None or len(policies) < 2:
        return None
    return ComparedParameters(
        name=replays.against.label,
        label=replays.against.label,
        policy=replays.against.policy,
        settings=dict(replays.against.settings),
        price_choice=price_choice(policies[1].settings),
    )


def _settings(request: SweepRequest, policy: PolicySpec) -> dict[str, Any]:
    """Return what is set of the policy, with its controller."""
    return {**policy.settings, "controller": "adaptive" if request.is_adaptive else "fixed"}


def _priced(
    request: SweepRequest,
    policies: tuple[PolicySpec, ...],
    base: Allpass,
    capacities: tuple[int | None, ...],
    inputs: ReplayInputs,
) -> tuple[Allpass, PolicySpec | None, tuple[str, ...], str | None]:
    """Return the policies with the prices of the table, where those come from, and their GPU."""
    # The cheapest offers that any capacity can take.
    limits = [most for most in capacities if most is not None]
    most = max(limits) if len(limits) == len(capacities) else None
    policy, table, first_us = (
        policies[0],
        inputs.files.prices,
        inputs.jobs.first_submit_us,
    )
    settings = {**_settings(request, policy), "capacity": most}
    chosen = with_gpu(replace(policy, settings=settings), table, tuple(inputs.used_types))
    with policy.blamed(is_alone=True):
        priced = with_prices(chosen, table, first_us)
        base = parameters_from({**priced.settings, "capacity": base.capacity})
    against, notes = None, priced.notes
    for spec in policies[1:]:
        (against,), more = price(
            [spec], table, first_us, other_gpu=(priced.gpu, policy.label),
            log_types=tuple(inputs.used_types), provider=request.replay.provider,
        )  # fmt: skip
        notes = (*notes, *(f"{spec.label}: {note}" for note in more if note not in notes))
    return base, against, notes, priced.gpu or None


def _above_pools(against: PolicySpec) -> PolicySpec:
    """Return a policy without the cost of GPUs owned and committed to, as what is swept is."""
    cluster = against.settings.get(CLUSTER_PRICES)
    if cluster is None:
        return against
    settings = {**against.settings, CLUSTER_PRICES: replace(cluster, pays_pools=False)}
    return replace(against, settings=settings)


def _standing(
    prices: Prices | None,
    mean_usd: float,
    gpu_h: Mapping[str | None, float],
    size: ClusterSize | None,
) -> Callable[[int], float]:
    """Return what so many GPUs around the clock cost an hour, by their number.

    Args:
        prices: the price book; None for one price.
        mean_usd: that price.
        gpu_h: GPU-hours of the log by type.
        size: of the cluster, with its types; None for GPUs of any type.
    """
    if prices is None:
        return lambda gpus: gpus * mean_usd
    cluster = ClusterPrices(prices, gpu_h)
    by_type: dict[str | None, int] = {}
    if size is not None:
        by_type.update(size.shape.gpus_by_type)
    return lambda gpus: cluster.usd_per_h(by_type or {None: gpus})


def _with_today(
    replays: Sweep,
    request: SweepRequest,
    inputs: ReplayInputs,
    now: Today | None,
    usd_per_h: Callable[[int], float] | None,
    gpu: str | None,
) -> Sweep:
    """Return a sweep with what the log shows, today's cluster, and other GPU types in the log.

    Args:
        replays: of the sweep.
        request: what was asked for.
        inputs: the jobs.
        now: what the log shows, with its bill.
        usd_per_h: what so many GPUs of today's cluster cost an hour; None for no price.
        gpu: the type that the replays rent; None where its prices are set.
    """
    size = request.size()
    cluster = None
    if size is not None and size.shape.gpus is not None:
        cluster = size.shape.gpus, size.option
    return replace(
        replays,
        window_s=None if now is None else now.window_s,
        today=now,
        cluster=None
        if request.against is not None or usd_per_h is None
        else todays_cluster(now, usd_per_h, cluster),
        mix=gpu_mix(now, gpu),
        has_deadlines=inputs.jobs.has_deadlines,
    )
