"""What the policies of a replay pay: one price for owned GPUs, or those of a market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.compare import PolicySpec, has_own_price, own_price, price
from gpuplan.planner.pricing.mixed_types import mixed_types_note, todays_prices
from gpuplan.planner.pricing.on_demand import conventional_prices
from gpuplan.planner.pricing.price_settings import RENTED_PRICES, USUAL_GPU
from gpuplan.planner.runs.policy_results import CommonResults
from gpuplan.planner.studies.replay import ReplayInputs, ReplayRequest

WORTH_SAYING = 0.01
"""A backlog above this share of the GPU-hours of all jobs is a warning."""
CLOUD = "conventional_usd_per_gpu_h"
SET_PRICES = ("serverless_usd_per_gpu_h", CLOUD, *RENTED_PRICES)
"""Prices that, set by hand, are of a GPU that nothing names."""


@dataclass(frozen=True, slots=True)
class PricedPolicies:
    """Policies with their prices.

    Attributes:
        policies: as they pay.
        mixed: which share of the log is on other GPU types than the one replayed.
        notes: where prices come from.
        today: what the log shows, at the price of `usd_per_gpu_h`.
        usd_per_gpu_h: what an owned GPU costs; the mean over the log where types differ.
        unmatched: which prices given are of types that neither the log nor a cluster has.
    """

    policies: tuple[PolicySpec, ...]
    mixed: tuple[str, ...]
    notes: tuple[str, ...]
    today: Today | None
    usd_per_gpu_h: float | None
    unmatched: tuple[str, ...] = ()


def check_price(policies: Sequence[PolicySpec], prices: GpuPrices | None) -> None:
    """Refuse a price that no policy pays. Raises `UsageError`."""
    if prices is None or any(map(has_own_price, policies)):
        return
    raise UsageError(
        f"--price does not apply to {', '.join(one.label for one in policies)}\n  next: --set "
        "conventional_usd_per_gpu_h=USD or --prices FILE for policies that rent"
    )


def price_policies(
    policies: Sequence[PolicySpec],
    prices: GpuPrices | None,
    replay: ReplayRequest,
    read: ReplayInputs,
) -> PricedPolicies:
    """Return policies as they pay, and today at the price of owned GPUs.

    Args:
        policies: with their settings.
        prices: of ``--price``; None for the settings of the policies.
        replay: says whether a market's prices are looked up.
        read: the jobs and the files.

    Raises:
        UsageError: prices that do not fit the policies, the GPU types or each other.
    """
    today = read.today
    types = {one.gpu_type for one in policies if one.gpu_type is not None}
    planned = types.pop() if len(types) == 1 else None
    unmatched = () if prices is None else _unmatched(prices, policies, today)
    is_mixed = any(_has_several_types(one) for one in policies)
    found, notes = list(policies), tuple[str, ...]()
    if prices is not None:
        found = own_price(found, prices, {} if today is None else today.gpu_h_by_type())
    if replay.prices is not None:
        found, notes = price(found, read.files.book, read.jobs.first_submit_us)
    rents = not any(map(has_own_price, policies))
    if rents and planned is None:
        planned = next(iter(map(usual_gpu, policies)), None)
    mixed = () if is_mixed else mixed_types_note(today, planned, prices)
    if prices is None:
        usd = next((usd for usd in map(_cloud_usd, found) if usd is not None), None)
        own = today.gpu_h_by_type() if today is not None and rents else {}
        if usd is not None:
            prices = conventional_prices(own, planned, usd, read.files.book)
    if today is not None and prices is not None:
        today = today.at_prices(prices)
    if rents:
        mixed = tuple(f"{note}{todays_prices(today, planned)}" for note in mixed)
    usd = None if today is None else today.usage.usd_per_gpu_h
    return PricedPolicies(tuple(found), mixed, notes, today, usd, unmatched)


def _unmatched(
    prices: GpuPrices, policies: Sequence[PolicySpec], today: Today | None
) -> tuple[str, ...]:
    """Return what to say of prices for GPU types that neither the log nor a cluster has."""
    known: list[str | None] = []
    known += () if today is None else (usage.gpu_type for usage in today.gpu_types)
    for one in policies:
        shape = one.settings.get("cluster")
        known += [one.gpu_type, *(() if shape is None else (p.gpu_type for p in shape.pools))]
    return prices.unmatched_note(known)


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


def backlog_note(results: Sequence[tuple[str, CommonResults]]) -> tuple[str, ...]:
    """Return what is not done at the end of the window, where it matters beside all work."""
    left = [
        f"{label} {_about(found.backlog_gpu_h)} ({counted(found.backlog_jobs, 'job')})"
        for label, found in results
        if found.backlog_gpu_h > WORTH_SAYING * found.gpu_h
    ]
    if not left:
        return ()
    return (f"not done at the end of the window, and not charged: {listed(left)}",)


def _about(gpu_h: float) -> str:
    text = f"{gpu_h:,.0f}" if gpu_h >= 100 else f"{gpu_h:.2g}"
    return f"{text} GPU-hour{'' if text == '1' else 's'}"
