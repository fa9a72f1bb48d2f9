"""Settings of Allpass from prices: a table of ``gpuplan prices``, or the built-in list."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed, price_text
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE, SOURCE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.ladder import Ladder, TooManyOffers, ladder_of
from gpuplan.analysis.prices.price_table import PriceTable
from gpuplan.planner.money.price_selection import (
    check_region,
    gpu_of,
    gpus_offered,
    option_of,
    provider_of,
    sources_of,
    the_prices,
)
from gpuplan.planner.money.renting_settings import LADDER, OF_PRICES, RENTED, SERVERLESS
from gpuplan.planner.runs.cluster_setting import gpus_of
from gpuplan.planner.runs.settings import SettingError, defaults_of
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.renting.market import MOST_USD, Market, price_ladder

MARKET_KINDS = ("marketplace", "spot")
TIERS = {  # kind of price -> the setting that names its provider, and the one that is its price
    "serverless": ("serverless_provider", "serverless_usd_per_gpu_h"),
    "on_demand": ("conventional_provider", "conventional_usd_per_gpu_h"),
}
PRICED = SERVERLESS | RENTED | OF_PRICES
"""What prices may fill in of a policy that pays for all kinds of GPUs, as Allpass does."""
USUAL_GPU = "A100"
"""The GPU of the default prices, also looked up in the built-in list."""
NO_MARKET = "--set marketplace_offers=0 rents from the conventional cloud alone"
BUILT_IN_NOTE = f"built-in prices: {SOURCE}, as of {AS_OF:%Y-%m-%d}"
RENTED_PRICES = tuple(name for name in LADDER if name != "marketplace_offers")
"""Settings that are the prices of offers."""


@dataclass(frozen=True, slots=True)
class PricedSettings:
    """Settings filled in from prices.

    Attributes:
        settings: the given ones without the choices among prices, plus those from the prices.
        gpu: the GPU of the prices; empty if none were looked up.
        notes: the sources of the prices, one sentence each.
    """

    settings: dict[str, Any]
    gpu: str
    notes: tuple[str, ...]


def with_prices(
    settings: Mapping[str, Any],
    table: PriceTable | None,
    first_submit_us: int | None,
    policy_settings: Container[str] = PRICED,
) -> PricedSettings:
    """Return settings with the prices and offers of a price table; explicit settings stay.

    The marketplace follows the source's offers over time, always ``marketplace_offers`` of them if
    that is set; with 0 there is no marketplace. The serverless and the
    conventional price are the means of theirs over time. A provider that is not named is one of
    which the start-up times are known, or else the cheapest. A cluster does without a marketplace
    where the prices have none, and without prices where ``usd_per_gpu_h`` is set. For a price that
    is missing, the default is used for an A100, for which it was published, and otherwise none.

    Args:
        settings: by name; ``gpu``, ``provider``, ``region``, ``serverless_provider`` and
            ``conventional_provider`` choose among the prices.
        table: the prices; None for the built-in list.
        first_submit_us: microseconds of the Unix epoch at which the run begins; None where the
            trace has no calendar.
        policy_settings: the settings of the policy; it gets no prices that it does not pay.

    Raises:
        UsageError: the prices lack the GPU, provider, region or a price that the policy may have to
            pay, conflict with explicit settings, or have too many or too expensive offers.
    """
    if settings.get("usd_per_gpu_h") is not None:
        return _done(settings, "", ("price of every GPU: as set, whatever --prices says",))
    tiers = {kind: tier for kind, tier in TIERS.items() if tier[1] in policy_settings}
    rents, held = "provider" in policy_settings, "usd_per_gpu_h" in policy_settings
    if table is None:
        return _from_list(settings, tiers, rents, held)
    kinds = MARKET_KINDS if rents else tuple(tiers)
    gpu = gpu_of(settings, table, kinds)
    filled, notes = dict(settings), []
    means: dict[str, dict[str, float]] = {}
    for series in hourly_prices(table, gpu):
        means.setdefault(series.kind, {}).setdefault(series.provider, series.mean)
    if rents and _without_market(settings):
        notes.append(_no_market(settings))
    elif rents:
        notes += _market(filled, table, gpu, means, first_submit_us, held)
    fixed = [
        _fixed(filled, means.get(kind, {}), kind, *tier, gpu=gpu, table=table)
        for kind, tier in tiers.items()
    ]
    return _done(filled, gpu, [*fixed, *notes])


def _word(kind: str) -> str:
    return kind.replace("_", "-")


def _without_market(settings: Mapping[str, Any]) -> bool:
    return settings.get("marketplace_offers") == 0


def _no_market(settings: Mapping[str, Any]) -> str:
    """Return a note that offers are off by choice, and which settings then have no effect."""
    idle = [
        name for name in ("provider", "region", *RENTED_PRICES) if settings.get(name) is not None
    ]
    text = "marketplace: none, as set (marketplace_offers=0)"
    return f"{text}, so {', '.join(idle)} has no effect" if idle else text


def _from_list(
    settings: Mapping[str, Any], tiers: Mapping[str, tuple[str, str]], rents: bool, held: bool
) -> PricedSettings:
    gpu = gpu_name(settings.get("gpu") or USUAL_GPU)
    offered = [
        listing
        for listing in CATALOGUE
        if same_gpu(gpu, listing.gpu_type) and listing.typical is not None
    ]
    if not offered:
        every = sorted({listing.gpu_type for listing in CATALOGUE})
        problem = f"the built-in prices do not have {gpu}; they have {listed(every)}"
        raise SettingError(["gpu"], problem)
    if settings.get("region"):
        raise SettingError(["region"], "the built-in prices have no regions")
    filled = dict(settings)
    notes = [BUILT_IN_NOTE]
    for kind, tier in tiers.items():
        prices = {
            listing.provider: listing.typical or 0.0 for listing in offered if listing.kind == kind
        }
        notes.append(_fixed(filled, prices, kind, *tier, gpu=gpu, table=None))
    if not rents:
        return _done(filled, gpu, notes)
    if _without_market(settings):
        return _done(filled, gpu, [*notes, _no_market(settings)])
    market = {listing.provider: listing for listing in offered if listing.kind == "marketplace"}
    if held and not market:
        is_there = any(listing.kind == "on_demand" for listing in offered)
        notes.append(_conventional_alone(filled, gpu, table=None, is_there=is_there))
        return _done(filled, gpu, notes)
    if not market:
        names = sorted({listing.gpu_type for listing in CATALOGUE if listing.kind == "marketplace"})
        raise SettingError(
            ["gpu"],
            f"the built-in prices have no marketplace with {gpu}, only with {listed(names)}",
            NO_MARKET,
        )
    typical = {name: listing.typical or 0.0 for name, listing in market.items()}
    listing = market[provider_of(settings.get("provider"), typical, "provider")]
    parts = {"min": listing.least, "median": listing.typical, "max": listing.most}
    as_set_parts = [part for part in parts if f"marketplace_{part}_usd_per_gpu_h" in settings]
    for part, usd in parts.items():
        filled.setdefault(f"marketplace_{part}_usd_per_gpu_h", usd)
    as_set = f", {listed(as_set_parts)} price as set" if as_set_parts else ""
    notes.append(f"marketplace: {listing.provider}, {listing.gpu_type}{as_set}")
    return _done(filled, gpu, notes)


def _done(filled: Mapping[str, Any], gpu: str, notes: Iterable[str]) -> PricedSettings:
    left = {name: value for name, value in filled.items() if name not in OF_PRICES}
    return PricedSettings(left, gpu, tuple(notes))


def _fixed(
    filled: dict[str, Any],
    prices: Mapping[str, float],
    kind: str,
    named: str,
    price: str,
    *,
    gpu: str,
    table: PriceTable | None,
) -> str:
    """Fill in the price of a tier that does not change; return where it comes from."""
    word = _word(kind)
    if price in filled:
        idle = f", so {named} has no effect" if filled.get(named) else ""
        return f"{word} price: as set{idle}"
    if not prices:
        if filled.get(named):
            raise SettingError([named], f"{the_prices(table)} have no {word} one of {gpu}")
        usual = PRICED[price].default
        if not same_gpu(gpu, USUAL_GPU):
            why = f", and the default of ${usual:.2f} is of an {USUAL_GPU}"
            is_alone = table is not None and len({name for _, name, _ in sources_of(table)}) == 1
            another = "" if is_alone else ", or choose another GPU with --set gpu=NAME"
            raise UsageError(
                f"{option_of(table)}: no {word} price of {gpu}{why}\n"
                f"  next: --set {price}=N{another}"
            )
        return f"{word} price: ${usual:.2f}, the default of an {USUAL_GPU}, as the prices have none"
    provider = provider_of(filled.get(named), prices, named)
    if prices[provider] > MOST_USD:
        raise UsageError(
            f"{option_of(table)}: ${prices[provider]:,.4g} per GPU-hour of {provider} ({word}) is "
            f"too much for a replay, at most ${MOST_USD:g}\n  next: --set {price}=N, or another "
            f"provider with --set {named}=NAME"
        )
    filled[price] = prices[provider]
    return f"{word} price: {provider}, ${price_text(prices[provider])} per GPU-hour"


def _conventional_alone(
    filled: dict[str, Any], gpu: str, *, table: PriceTable | None, is_there: bool
) -> str:
    """Set no offers for a cluster, as the prices have none of its GPU; return a note about it."""
    for name in ("provider", "region", *LADDER):
        if filled.get(name) is not None:
            raise SettingError([name], f"{the_prices(table)} have no marketplace with {gpu}")
    if not (is_there or "conventional_usd_per_gpu_h" in filled):
        raise UsageError(
            f"{option_of(table)}: no offers of {gpu} on a marketplace, as spot or on demand\n"
            "  next: --set usd_per_gpu_h=N, or choose another GPU with --set gpu=NAME"
        )
    filled["marketplace_offers"] = 0
    return f"marketplace: none with {gpu}, so the cluster is of the conventional cloud"


def _market(
    filled: dict[str, Any],
    table: PriceTable,
    gpu: str,
    means: Mapping[str, Mapping[str, float]],
    first_submit_us: int | None,
    held: bool,
) -> Iterable[str]:
    """Fill in the marketplace; return where it comes from."""
    sources = [source for source in sources_of(table) if same_gpu(gpu, source[1])]
    providers = {
        provider: means.get(kind, {}).get(provider, np.inf)
        for kind in reversed(MARKET_KINDS)
        for provider, _, kind_of_source in sources
        if kind_of_source == kind
    }
    if held and not providers:
        yield _conventional_alone(filled, gpu, table=table, is_there="on_demand" in means)
        return
    if not providers:
        alone = " and ".join(sorted({_word(kind) for _, _, kind in sources}))
        other_gpus = gpus_offered(table, MARKET_KINDS)
        only_of = f", only of {listed(other_gpus)}; it has" if other_gpus else ", only"
        another = "choose another GPU with --set gpu=NAME, or " if other_gpus else ""
        raise UsageError(
            f"{option_of(table)}: no offers of {gpu} on a marketplace or as spot{only_of} {alone} "
            f"prices\n  next: {another}{NO_MARKET}"
        )
    provider = provider_of(filled.get("provider"), providers, "provider")
    kinds = {kind for name, _, kind in sources if name == provider}
    kind = next(kind for kind in MARKET_KINDS if kind in kinds)
    check_region(filled.get("region"), table, gpu, provider, kind)
    values = defaults_of(LADDER) | {name: filled[name] for name in LADDER if name in filled}
    size = "cluster" if held else "capacity"
    try:
        ladder = ladder_of(
            table,
            gpu=gpu,
            provider=provider,
            kind=kind,
            region=filled.get("region"),
            assumed=values["marketplace_offers"],
            recorded="marketplace_offers" not in filled,
            most=gpus_of(filled) if held else filled.get("capacity"),
        )
    except TooManyOffers as error:
        raise UsageError(
            f"{option_of(table)}: {error}\n"
            f"  next: keep the cheapest that matter with --set {size}=N"
        ) from error
    except ValueError as error:
        raise UsageError(f"{option_of(table)}: {error}") from error
    if ladder.price is not None:
        _check_not_set(filled, ladder.price, provider, kind, table)
    elif not same_gpu(gpu, USUAL_GPU) and (
        missing := [name for name in RENTED_PRICES if name not in filled]
    ):
        raise UsageError(
            f"{option_of(table)}: {provider} ({kind}) has availability of {gpu} alone, and the "
            f"default prices of offers are of an {USUAL_GPU}\n  next: "
            f"{', '.join(f'--set {name}=N' for name in missing)}"
        )
    filled["market"], is_dated = _in_run(ladder, values, first_submit_us)
    days = (ladder.edges_us[-1] - ladder.edges_us[0]) / 86_400e6
    yield f"marketplace: {provider} ({kind}), {days:,.1f} days of prices and offers"
    if "marketplace_offers" in filled:
        yield f"offers: {values['marketplace_offers']} all along, as set"
    elif not ladder.counted:
        yield (
            f"the prices do not say how many GPUs there are: {values['marketplace_offers']} are "
            "assumed (--set marketplace_offers=N)"
        )
    if ladder.price is None:
        yield "the source has availability alone: offers ask the prices of marketplace_..._usd"
    if not is_dated:
        yield "the prices are of another time than the trace: they begin with it, and repeat"


def _check_not_set(
    filled: Mapping[str, Any], price: FloatArray, provider: str, kind: str, table: PriceTable
) -> None:
    """Raise `UsageError` for prices that are also set by name, or too high to add up."""
    for name in RENTED_PRICES:
        if name in filled:
            raise SettingError(
                [name],
                f"{the_prices(table)} say what offers of {provider} ({kind}) ask",
                "leave it out, or give no --prices",
            )
    if price.size and price.max() > MOST_USD:
        raise UsageError(
            f"{option_of(table)}: an offer of {provider} ({kind}) asks ${price.max():,.4g} per "
            f"GPU-hour, too much for a replay, at most ${MOST_USD:g}\n  next: another with "
            "--set provider=NAME"
        )


def _in_run(
    ladder: Ladder, values: Mapping[str, Any], first_submit_us: int | None
) -> tuple[Market, bool]:
    """Align a ladder with a run, from the date of the run on if it covers it."""
    begin, end = int(ladder.edges_us[0]), int(ladder.edges_us[-1])
    is_dated = first_submit_us is not None and begin <= first_submit_us < end
    phase = (first_submit_us or 0) - begin if is_dated else 0
    start, period = ladder.edges_us[:-1] - begin, end - begin
    at = int(np.searchsorted(start, phase, side="right")) - 1
    order = np.concatenate((np.arange(at, start.size), np.arange(at)))
    again = start[order] - phase
    again[order < at] += period
    again[0] = 0
    if start[at] < phase:  # the period ends with what of this step lies before
        order, again = np.append(order, at), np.append(again, start[at] + period - phase)
    if ladder.price is None:
        usd = [values[f"marketplace_{part}_usd_per_gpu_h"] for part in ("min", "median", "max")]
        counts = list(zip(ladder.offered.tolist(), ladder.offers.tolist(), strict=True))
        steps = {(n, kept): np.array(price_ladder(n, *usd, kept=kept)) for n, kept in set(counts)}
        prices = [steps[count] for count in counts]
    else:
        prices = np.split(ladder.price, np.cumsum(ladder.offers)[:-1])
    return Market(
        again, ladder.offers[order], np.concatenate([prices[i] for i in order.tolist()]), period
    ), is_dated
