"""What the policies of a replay pay: one price for owned GPUs, or those of a market."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import counted, listed, price_text
from gpuplan.analysis.characterize.gpu_mix import GpuMix, gpu_mix
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.bill_today import pools_usd_per_h, price_note
from gpuplan.planner.money.book_types import shared_pool_notes
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.money.price_settings import RENTED_PRICES, USUAL_GPU
from gpuplan.planner.money.price_times import period_notes
from gpuplan.planner.money.todays_basis import NO_BASIS, TodaysBasis, todays_basis
from gpuplan.planner.runs.simulation import PolicyResults
from gpuplan.planner.spec_prices import (
    CLOUD,
    book_price,
    cloud_price,
    has_own_price,
    is_priced_by_table,
    own_price,
    price,
)
from gpuplan.planner.studies.replay import ReplayInputs

WORTH_SAYING = 0.01
"""A backlog above this share of the GPU-hours of all jobs is a warning."""
AS_ONE_TYPE = "the replay treats all GPUs as one type"
UNLIKE = 0.05
"""Relative difference of prices from which on the dollars of today and of replays are not alike."""
REPLAYS = "replays"
MOST_NAMED = 3
"""GPU types that a note lists."""
SET_PRICES = ("serverless_usd_per_gpu_h", CLOUD, *RENTED_PRICES)
"""Prices that, set by hand, are of a GPU that nothing names."""


@dataclass(frozen=True, slots=True)
class PricedPolicies:
    """Policies with their prices.

    Attributes:
        policies: as they pay.
        warnings: which prices given are of types that neither the log nor a cluster has.
        mixed: which share of the log is on other GPU types than the one replayed.
        mix: the same in numbers; None without other types, or on a cluster of several.
        at_mean: the clause of ``mixed`` on the mean price of all types; empty for none.
        is_alike: whether today and the replays are charged the same prices.
        pools_usd_per_month: of GPUs owned and committed, which are part of what a cluster costs.
        is_constant: whether these and all prices stay the same while the log lasts.
        notes: where prices come from.
        today: what the log shows, with its bill.
        inputs: the price book read, if any.
        basis: of dollars of today's GPUs under other policies, where today's bill is a ledger's.
        usd_per_gpu_h: of GPUs more or fewer than today's, under that basis.
    """

    policies: tuple[PolicySpec, ...]
    warnings: tuple[str, ...]
    mixed: tuple[str, ...]
    notes: tuple[str, ...]
    today: Today | None
    inputs: tuple[InputFile, ...] = ()
    basis: TodaysBasis = NO_BASIS
    usd_per_gpu_h: float = 0.0
    mix: GpuMix | None = None
    at_mean: str = ""
    is_alike: bool = True
    pools_usd_per_month: float = 0.0
    is_constant: bool = True

    def usd_per_month(self, gpus: int, utilization: float | None) -> float | None:
        """Return what today's GPUs cost a month under a policy, paid as today's are.

        None for other numbers of GPUs, and where today's bill is no ledger's.
        """
        today = self.today
        if self.basis == NO_BASIS or today is None or gpus != ceil(today.usage.peak_gpus):
            return None
        held = gpus * (utilization or 0.0)
        return self.basis.usd_per_h(held, self.usd_per_gpu_h) * MONTH_H


def price_policies(
    policies: Sequence[PolicySpec],
    price_request: PriceRequest,
    read: ReplayInputs,
) -> PricedPolicies:
    """Return policies as they pay, and today's bill under the same price book.

    Args:
        policies: with their settings.
        price_request: what GPUs cost; empty for the settings of the policies. Rented GPUs have the
            prices of the market of its price table.
        read: the jobs and the files.

    Raises:
        UsageError: prices that do not fit the policies, the GPU types or each other.
    """
    today, hours = read.today, read.used_types
    table = price_request.prices
    types = {policy.gpu_type for policy in policies if policy.gpu_type is not None}
    planned = types.pop() if len(types) == 1 else None
    prices = read.prices(price_request, [policy.settings.get("gpu") for policy in policies])
    unmatched = () if prices is None else _unmatched(prices, policies, today)
    is_mixed = any(_has_several_types(policy) for policy in policies)
    priced, notes = list(policies), tuple[str, ...]()
    if prices is not None and price_request.is_own:
        priced = own_price(priced, prices, hours)
        priced, notes = book_price(priced, prices, hours, looked_up=table is not None)
    elif prices is not None:
        priced = own_price(priced, prices, hours, of_table=True)
        priced, notes = cloud_price(priced, prices, hours)
    if table is not None:
        log_types = tuple(hours)
        priced, looked_up = price(
            *(priced, read.files.prices, read.jobs.first_submit_us),
            log_types=log_types,
            provider=None if prices is None else prices.provider,
        )
        notes += looked_up
    rents = not any(map(has_own_price, policies))
    if prices is None and rents and planned is None:
        planned = next(iter(map(usual_gpu, policies)), None)
    as_one = None if any(policy.settings.get("gpu") for policy in policies) else prices
    mixed = () if is_mixed else mixed_types_note(today, planned, as_one)
    usd = next((usd for usd in map(_cloud_usd, priced) if usd is not None), None)
    is_set = any({CLOUD, "usd_per_gpu_h"} & policy.settings.keys() for policy in policies)
    today = read.todays_bill(prices, usd, is_assumed=not is_set)
    if rents:
        mixed = tuple(f"{note}{todays_prices(today, planned)}" for note in mixed)
    shared = [] if prices is None else shared_pool_notes(prices.book, list(hours), read.selection)
    at_end = (
        ()
        if prices is None or not (price_request.is_own or any(map(is_priced_by_table, priced)))
        else price_note(prices, hours, pays_pools=True)
    )
    of_clusters = _cluster_types(spec for spec in priced if is_priced_by_table(spec))
    old = () if prices is None else period_notes(read.dated_us, prices, [*hours, *of_clusters])
    inputs = () if prices is None else prices.book.inputs
    basis, mean = NO_BASIS, None if prices is None else prices.mean(hours)
    unlike: tuple[str, ...] = ()
    if table is not None and not price_request.is_own:
        renting = [spec for spec in priced if not is_priced_by_table(spec)]
        cloud_usd = next((usd for usd in map(_cloud_usd, renting) if usd is not None), None)
        who = REPLAYS if len(renting) == len(priced) else listed([s.label for s in renting], 4)
        of = None if prices is None else prices.provider
        unlike = unlike_prices_note(mean, cloud_usd, who, of)
    if prices is not None and mean is not None and price_request.is_own:
        basis = todays_basis(today, mean, prices, hours)
    return PricedPolicies(
        tuple(priced),
        (*unmatched, *shared, *old),
        (*mixed, *unlike),
        (*notes, *at_end),
        today,
        inputs,
        basis=basis,
        usd_per_gpu_h=mean or 0.0,
        mix=None if is_mixed else gpu_mix(read.today, planned),
        at_mean=_at_mean(read.today, planned, as_one),
        is_alike=not unlike,
        pools_usd_per_month=0.0 if prices is None else pools_usd_per_h(prices) * MONTH_H,
        is_constant=prices is None or not prices.change_within(hours, read.period_us),
    )


def unlike_prices_note(
    today_usd: float | None,
    replay_usd: float | None,
    who: str = REPLAYS,
    provider: str | None = None,
) -> tuple[str, ...]:
    """Return that today and the replays are charged different prices of one list, if they are.

    Args:
        today_usd: per GPU-hour, the mean price of the GPUs in use; None where it has none.
        replay_usd: per GPU-hour, what a replay pays on demand; None where it pays none.
        who: the policies that pay it; the others of a comparison pay what today does.
        provider: the one that today pays; None for the median on demand.
    """
    if today_usd is None or replay_usd is None or abs(today_usd - replay_usd) <= UNLIKE * today_usd:
        return ()
    usd, of = price_text(replay_usd), "on demand" if provider is None else f"of {provider}"
    charged = "today is" if who == REPLAYS else "today and the other policies are"
    return (
        f"{charged} charged ${price_text(today_usd)} per GPU-hour {of}, and {who} ${usd}, of "
        f"the provider that they rent from: do not compare the dollars of both\n"
        f"  next: --price {usd} charges today as the replays",
    )


def besides_pools(labels: Sequence[str], usd_per_month: float) -> tuple[str, ...]:
    """Return that the cost of policies leaves out GPUs owned and committed, if any does.

    Args:
        labels: of the policies that rent all GPUs, or have a price of their own for all.
        usd_per_month: what GPUs owned and committed to cost.
    """
    if not labels or not usd_per_month:
        return ()
    return (
        f"the cost of {listed(labels, MOST_NAMED)} leaves out GPUs owned and committed to: their "
        f"${usd_per_month:,.0f} a month is due on top of that",
    )


def _unmatched(
    prices: Prices, policies: Sequence[PolicySpec], today: Today | None
) -> tuple[str, ...]:
    """Return what to say of prices for GPU types that neither the log nor a cluster has."""
    types: list[str | None] = []
    types += () if today is None else (usage.gpu_type for usage in today.gpu_types)
    types += _cluster_types(policies)
    return prices.unmatched_note(types)


def _cluster_types(policies: Iterable[PolicySpec]) -> list[str | None]:
    """Return the GPU types of the clusters of policies."""
    types: list[str | None] = []
    for policy in policies:
        shape = policy.settings.get("cluster")
        types += [policy.gpu_type, *(() if shape is None else (p.gpu_type for p in shape.pools))]
    return types


def usual_gpu(policy: PolicySpec) -> str | None:
    """Return the GPU of the prices in force without a table; None where some price is set."""
    is_set = any(name in policy.settings for name in SET_PRICES)
    return str(policy.settings.get("gpu") or "") or (None if is_set else USUAL_GPU)


def _has_several_types(spec: PolicySpec) -> bool:
    shape = spec.settings.get("cluster")
    return shape is not None and len(shape.pools) > 1


def _cloud_usd(spec: PolicySpec) -> float | None:
    """Return what every GPU of a policy costs, or those of its conventional cloud."""
    values = spec.effective()
    usd: float | None = values.get("usd_per_gpu_h")
    return values.get(CLOUD) if usd is None else usd


def mixed_types_note(
    today: Today | None, planned: str | None = None, prices: Prices | None = None
) -> tuple[str, ...]:
    """Return one sentence on the GPU-hours of other types than the planned one, if there are any.

    Args:
        today: usage of the log by type; jobs that name no type count for none.
        planned: the type of the cluster; None for the one of the most GPU-hours.
        prices: where given, the mean price that a GPU then has is named.
    """
    mix = gpu_mix(today, planned)
    if today is None or mix is None:
        return ()
    share = f"{mix.other_gpu_h_share:.0%}" if mix.other_gpu_h_share >= 0.01 else "under 1%"
    priced = _at_mean(today, planned, prices)
    return (
        f"{share} of the GPU-hours ran on {listed(mix.other_gpu_types, MOST_NAMED)}, not on "
        f"{mix.planned_gpu_type}; {AS_ONE_TYPE}{priced}",
    )


def _at_mean(today: Today | None, planned: str | None, prices: Prices | None) -> str:
    """Return the clause on the mean price of GPUs that count as one type; empty for none."""
    if today is None or prices is None or planned is not None:
        return ""
    mean = prices.mean(today.gpu_h_by_type())
    if mean is None:
        return ""
    above = ", those above the owned and committed ones" if prices.pools_now else ""
    return f"{above} at ${price_text(mean, 3)} per GPU-hour, the mean of their prices"


def todays_prices(today: Today | None, planned: str | None = None) -> str:
    """Return the clause on the types that today's bill prices by their own; empty without any."""
    mix = gpu_mix(today, planned)
    if today is None or mix is None:
        return ""
    priced = [usage for usage in today.gpu_types if usage.usd_per_gpu_h is not None]
    if len({usage.usd_per_gpu_h for usage in priced}) < 2 and planned is None:
        return ""
    prices = [
        f"${usage.usd_per_gpu_h:.3g} per {usage.gpu_type}-hour"
        for usage in priced
        if usage.gpu_type in mix.other_gpu_types
    ]
    return f"; today's bill pays {listed(prices, MOST_NAMED)}" if prices else ""


def backlog_note(results: Sequence[tuple[str, PolicyResults]]) -> tuple[str, ...]:
    """Return what is not done at the end of the window, where it matters beside all work."""
    left = [
        f"{label} {_about(result.backlog_gpu_h)} ({counted(result.backlog_jobs, 'job')})"
        for label, result in results
        if result.backlog_gpu_h > WORTH_SAYING * result.gpu_h
    ]
    if not left:
        return ()
    return (f"not done at the end of the window, and not charged: {listed(left)}",)


def _about(gpu_h: float) -> str:
    text = f"{gpu_h:,.0f}" if gpu_h >= 100 else f"{gpu_h:.2g}"
    return f"{text} GPU-hour{'' if text == '1' else 's'}"
