"""What the policies of a replay pay: the price book, or the offers of a price table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed, price_text
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.prices.price_table import PriceTable
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.cluster_prices import ClusterPrices
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import NO_PRICE, MissingPrice, NoServerlessPrice
from gpuplan.planner.money.price_selection import option_of, the_prices
from gpuplan.planner.money.price_settings import BUILT_IN_NOTE, PricedSettings, with_prices
from gpuplan.planner.money.renting_settings import CLUSTER_PRICES, LADDER, OF_PRICES, RENTED
from gpuplan.planner.policies.quota_settings import has_quotas
from gpuplan.planner.registry import find_policy

OF_TABLE = "--prices"
"""Gives the price of a GPU where a book of a price table alone does."""
CLOUD_PROVIDER = "conventional_provider"
CLOUD, SERVERLESS_USD = "conventional_usd_per_gpu_h", "serverless_usd_per_gpu_h"


def price(
    specs: Sequence[PolicySpec],
    price_table: PriceTable | None,
    first_submit_us: int | None,
    *,
    other_gpu: tuple[str, str] | None = None,
    log_types: Sequence[str | None] = (),
    provider: str | None = None,
) -> tuple[list[PolicySpec], tuple[str, ...]]:
    """Return specs with the prices of one price table, each as it pays, and where those come from.

    Arguments are those of `gpuplan.planner.money.price_settings.with_prices`; ``other_gpu`` is the
    GPU of what else they are compared with, and its label; ``log_types`` the GPU types of the jobs,
    which are priced as their own type unless a GPU is set; ``provider`` the one whose price a
    cluster has; None for the median on demand.

    Raises:
        UsageError: as there, or the prices would be of several GPUs.
    """
    priced_specs: list[PolicySpec] = []
    gpus = {} if other_gpu is None else dict([other_gpu])
    labels_of: dict[str, list[str]] = {}
    for spec in specs:
        with spec.blamed(is_alone=len(specs) == 1):
            priced = _looked_up(spec, price_table, first_submit_us, log_types, provider)
        priced_specs.append(replace(spec, settings=priced.settings))
        if priced.gpu and not any(same_gpu(priced.gpu, gpu) for gpu in gpus):
            gpus[priced.gpu] = spec.label
        for note in priced.notes:
            labels_of.setdefault(note, []).append(spec.label)
    if len(gpus) > 1:
        each = " and ".join(f"{gpu} ({label})" for gpu, label in gpus.items())
        raise UsageError(
            f"{option_of(price_table)}: the policies would pay for different GPUs, {each}\n"
            "  next: --set gpu=NAME alone, one for all"
        )
    notes = (
        note if len(labels) == len(priced_specs) else f"{', '.join(labels)}: {note}"
        for note, labels in labels_of.items()
    )
    return priced_specs, tuple(notes)


def _looked_up(
    spec: PolicySpec,
    price_table: PriceTable | None,
    first_submit_us: int | None,
    log_types: Sequence[str | None],
    provider: str | None,
) -> PricedSettings:
    """Return the settings of a policy with the prices of a table; a book's price stays."""
    if is_priced_by_table(spec):
        usd = spec.settings["usd_per_gpu_h"]
        rest = {name: value for name, value in spec.settings.items() if name not in OF_PRICES}
        paid = "on demand" if provider is None else f"of {provider}"
        note = f"price of a GPU: ${price_text(usd)} per hour {paid} in {the_prices(price_table)}"
        source = () if price_table is not None else (BUILT_IN_NOTE,)
        return PricedSettings(rest, _gpu_priced(spec, log_types), (*source, note))
    settings = with_gpu(spec, price_table, log_types)
    policy_settings = find_policy(spec.policy).settings
    return with_prices(settings, price_table, first_submit_us, policy_settings)


def with_gpu(
    spec: PolicySpec, price_table: PriceTable | None, log_types: Sequence[str | None]
) -> Mapping[str, Any]:
    """Return settings with the GPU whose prices are looked up: as set, or that of the jobs.

    Args:
        spec: the policy.
        price_table: the prices; None for the built-in list.
        log_types: GPU types of the jobs; None for jobs that name none.

    Raises:
        UsageError: the jobs ran on several types.
    """
    settings, usual = spec.settings, find_policy(spec.policy).settings
    is_paid = settings.get("usd_per_gpu_h") is not None
    if settings.get("gpu") or "gpu" not in usual or is_paid:
        return settings
    if spec.gpu_type is not None:
        return {**settings, "gpu": spec.gpu_type}
    named = [name for name in log_types if name is not None]
    if len(named) > 1:
        raise UsageError(
            f"{option_of(price_table)}: the jobs ran on {listed(named, 4)}, and {spec.label} "
            f"rents GPUs of one type\n  next: --set gpu={named[0]} rents that one for all jobs, or "
            f"--where \"gpu_type = '{named[0]}'\" takes its jobs alone"
        )
    return {**settings, "gpu": named[0]} if named else settings


def rents(spec: PolicySpec) -> bool:
    """Return whether a policy pays a market for its GPUs, and has no price of its own GPUs."""
    settings = find_policy(spec.policy).settings
    return "usd_per_gpu_h" not in settings and bool({CLOUD, SERVERLESS_USD} & settings.keys())


def book_price(
    specs: Sequence[PolicySpec],
    prices: Prices,
    gpu_h: Mapping[str | None, float],
    *,
    looked_up: bool,
) -> tuple[list[PolicySpec], tuple[str, ...]]:
    """Return specs that rent as a price book prices them, and what to say of it.

    The conventional cloud has the pay-per-use price, the mean over the log's types by GPU-hours.
    Serverless GPUs have the price of that kind in the book, and offers that of a marketplace;
    without one there are no offers. No default stands beside a price that is given.

    Args:
        specs: the policies; those with GPUs of their own stay.
        prices: the book.
        gpu_h: GPU-hours of the log by type.
        looked_up: whether serverless prices and offers are those of a price table.

    Raises:
        UsageError: the book has no such price of a type.
    """
    priced_specs, notes = list[PolicySpec](), dict[str, None]()
    for spec in specs:
        usual, settings = find_policy(spec.policy).settings, dict(spec.settings)
        if not rents(spec):
            priced_specs.append(spec)
            continue
        hours: Mapping[str | None, float] = gpu_h
        if (gpu := spec.settings.get("gpu")) is not None:
            hours = {str(gpu): 1.0}
        if CLOUD in usual and CLOUD not in settings:
            usd = settings[CLOUD] = _mean(prices, hours)
            notes[f"conventional price: ${price_text(usd)} per GPU-hour, of the price book"] = None
        if not looked_up:
            if SERVERLESS_USD in usual and SERVERLESS_USD not in settings:
                settings[SERVERLESS_USD] = _mean_of_kind(prices, hours, "serverless")
            if "marketplace_offers" in usual and LADDER.keys().isdisjoint(settings):
                offer = mean_of_kind(prices, hours, "marketplace")
                if offer is None:
                    settings["marketplace_offers"] = 0
                    notes["marketplace: none, as the price book has no such price"] = None
                else:
                    settings |= {name: offer for name in LADDER if name != "marketplace_offers"}
        typed = {name: prices.option for name in settings.keys() - spec.settings.keys()}
        priced_specs.append(replace(spec, settings=settings, option_of={**spec.option_of, **typed}))
    return priced_specs, tuple(notes)


def cloud_price(
    specs: Sequence[PolicySpec], prices: Prices, gpu_h: Mapping[str | None, float]
) -> tuple[list[PolicySpec], tuple[str, ...]]:
    """Return specs whose conventional cloud is the provider that the user names, and a note.

    Args:
        specs: the policies; those that choose another cloud, or its price, keep it.
        prices: of that provider.
        gpu_h: GPU-hours of the log by type.

    Raises:
        UsageError: it has no such price of a type.
    """
    if prices.provider is None:
        return list(specs), ()
    priced_specs, notes = list[PolicySpec](), dict[str, None]()
    for spec in specs:
        settings = spec.settings
        is_of_cloud = CLOUD in find_policy(spec.policy).settings
        names = (CLOUD, CLOUD_PROVIDER, "usd_per_gpu_h")
        is_chosen = any(settings.get(name) is not None for name in names)
        if not is_of_cloud or is_chosen:
            priced_specs.append(spec)
            continue
        gpu = settings.get("gpu")
        usd = _mean(prices, gpu_h if gpu is None else {str(gpu): 1.0})
        notes[f"conventional price: ${price_text(usd)} per GPU-hour, of {prices.provider}"] = None
        typed = {**spec.option_of, CLOUD: "--provider"}
        priced_specs.append(replace(spec, settings={**settings, CLOUD: usd}, option_of=typed))
    return priced_specs, tuple(notes)


def lacks_serverless(spec: PolicySpec, prices: Prices, gpu_h: Mapping[str | None, float]) -> bool:
    """Return whether a policy needs a serverless price that neither it nor the book has."""
    settings = find_policy(spec.policy).settings
    needs = rents(spec) and SERVERLESS_USD in settings and SERVERLESS_USD not in spec.settings
    return needs and mean_of_kind(prices, gpu_h, "serverless") is None


def mean_of_kind(prices: Prices, gpu_h: Mapping[str | None, float], kind: str) -> float | None:
    """Return the mean price of a kind over GPU-hours by type; None where a type has none."""
    each = [(prices.usd_of_kind(name, kind), hours) for name, hours in gpu_h.items() if hours > 0]
    if not each or any(usd is None for usd, _ in each):
        return None
    return sum((usd or 0.0) * hours for usd, hours in each) / sum(hours for _, hours in each)


def _mean_of_kind(prices: Prices, gpu_h: Mapping[str | None, float], kind: str) -> float:
    usd = mean_of_kind(prices, gpu_h, kind)
    if usd is None:
        lacking = [name for name in gpu_h if prices.usd_of_kind(name, kind) is None]
        of = listed([name or "jobs that name no GPU type" for name in lacking] or ["the GPUs"], 4)
        raise NoServerlessPrice(
            f"{prices.book.option}: no {kind} price of {of}\n"
            f"  next: --set {SERVERLESS_USD}=USD, a [[price]] with kind = {kind!r} in --contracts, "
            "or --prices builtin"
        )
    return usd


def _mean(prices: Prices, gpu_h: Mapping[str | None, float]) -> float:
    """Return the mean pay-per-use price of GPU-hours by type. Raises `UsageError` as `Prices`."""
    prices.check(gpu_h)
    usd = prices.mean(gpu_h)
    if usd is None:
        raise MissingPrice(NO_PRICE)
    return usd


def own_price(
    specs: Sequence[PolicySpec],
    prices: Prices,
    gpu_h: Mapping[str | None, float],
    *,
    of_table: bool = False,
) -> list[PolicySpec]:
    """Return specs whose GPUs have one price, where their settings give none.

    The price is that of the GPU types of the cluster. Where it names none, it is the mean of the
    prices of the log's types by GPU-hours. A policy of a site has the price of each type besides.

    Args:
        specs: the policies; those that only rent keep the prices of their settings.
        prices: of a GPU-hour.
        gpu_h: GPU-hours of the log by type.
        of_table: whether the prices are those of a table alone: a policy that chooses a market of
            it, or of whose GPUs it has only other prices than on demand, then keeps its settings.

    Raises:
        UsageError: a type has no price, and no GPU is owned or committed to.
    """
    priced_specs: list[PolicySpec] = []
    for spec in specs:
        if not has_own_price(spec):
            priced_specs.append(spec)
            continue
        shape = spec.settings.get("cluster")
        pools = {} if shape is None else {p.gpu_type: float(p.gpus or 1) for p in shape.pools}
        hours = gpu_h if shape is None or None in pools else pools
        if of_table:
            if len(pools) < 2 and (gpu := spec.settings.get("gpu")) is not None:
                hours = {str(gpu): 1.0}
            is_rented = _chooses_market(spec)
            if not is_rented and (len(hours) > 1 or prices.provider is not None):
                prices.check(hours)
            if is_rented or prices.mean(hours) is None:
                priced_specs.append(spec)
                continue
        cluster = ClusterPrices(prices, hours)
        usd = prices.mean(hours) if cluster.has_pools else _mean(prices, hours)
        typed = {**spec.option_of, "usd_per_gpu_h": OF_TABLE if of_table else "--price"}
        settings = {**spec.settings, "usd_per_gpu_h": cluster.mean_pool_usd if usd is None else usd}
        if cluster.has_pools or has_quotas(find_policy(spec.policy).settings):
            settings[CLUSTER_PRICES] = cluster
        priced_specs.append(replace(spec, settings=settings, option_of=typed))
    return priced_specs


def _gpu_priced(spec: PolicySpec, log_types: Sequence[str | None]) -> str:
    """Return the one GPU type that a cluster is priced as; empty where there are several."""
    shape = spec.settings.get("cluster")
    if shape is not None and len(shape.gpu_types) > 1:
        return ""
    named = [name for name in log_types if name is not None]
    return str(spec.settings.get("gpu") or (named[0] if len(named) == 1 else ""))


def is_priced_by_table(spec: PolicySpec) -> bool:
    """Return whether a policy's GPUs have the on-demand price of a price table."""
    return spec.option_of.get("usd_per_gpu_h") == OF_TABLE


def _chooses_market(spec: PolicySpec) -> bool:
    """Return whether a policy rents its cluster from a market of a price table."""
    names = (*(name for name in OF_PRICES if name != "gpu"), *RENTED)
    chosen = {name for name in names if spec.settings.get(name) is not None}
    return bool(chosen - ({"marketplace_offers"} if _is_without_market(spec) else set()))


def _is_without_market(spec: PolicySpec) -> bool:
    return spec.settings.get("marketplace_offers") == 0


def has_own_price(spec: PolicySpec) -> bool:
    """Return whether ``--price`` is for this policy: its GPUs may have one, and none is set."""
    settings = find_policy(spec.policy).settings
    return "usd_per_gpu_h" in settings and spec.settings.get("usd_per_gpu_h") is None
