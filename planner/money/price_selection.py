"""Choose the GPU, provider and region that a run uses, and name them in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.prices.catalogue import STARTUP
from gpuplan.analysis.prices.price_table import PriceTable
from gpuplan.planner.runs.settings import SettingError


def option_of(table: PriceTable | None) -> str:
    """Return the option that gave prices."""
    return f"--prices {'builtin' if table is None else table.path}"


def the_prices(table: PriceTable | None) -> str:
    """Return the name of the prices within a sentence."""
    return "the built-in prices" if table is None else f"the prices of {table.path}"


def gpu_of(settings: Mapping[str, Any], table: PriceTable, kinds: Sequence[str]) -> str:
    """Return the GPU to price: the one named, or the only one, of these kinds if any has them."""
    every = sorted({gpu for _, gpu, _ in sources_of(table)})
    if named := settings.get("gpu"):
        if not any(same_gpu(named, gpu) for gpu in every):
            problem = f"{the_prices(table)} have no {named}, only {listed(every)}"
            choice = f"={every[0]}" if len(every) == 1 else " to one of these"
            hint = f"set gpu{choice}, or use a price table that has {named}"
            raise SettingError(["gpu"], problem, hint)
        return gpu_name(named)
    offered = gpus_offered(table, kinds) or every
    if len(offered) == 1:
        return offered[0]
    raise UsageError(
        f"{option_of(table)}: name a GPU with --set gpu=NAME, one of {listed(offered)}"
    )


def gpus_offered(table: PriceTable, kinds: Sequence[str]) -> list[str]:
    """Return the GPUs that a table has as one of these kinds."""
    return sorted({gpu for _, gpu, kind in sources_of(table) if kind in kinds})


def sources_of(table: PriceTable) -> list[tuple[str, str, str]]:
    """Return provider, GPU and kind of everything in a price table, each once."""
    rows = {
        (str(provider), str(gpu), str(kind))
        for frame in (table.prices, table.supply)
        for provider, gpu, kind in frame.select("provider", "gpu_type", "kind").unique().rows()
    }
    return sorted(rows)


def provider_of(named: str | None, prices: Mapping[str, float], setting: str) -> str:
    """Return a provider by its name or a prefix of it.

    Without a name it is one with known start-up times, or else the cheapest.
    """
    if not named:
        tested = [name for name in prices if name in STARTUP]
        return min(tested or prices, key=lambda name: (prices[name], name))
    word = named.lower()
    exact = [name for name in prices if name.lower() == word]
    matching = exact or [name for name in prices if name.lower().startswith(word)]
    if len(matching) != 1:
        has = ", ".join(sorted(prices))
        raise SettingError([setting], f"found {named}, expected one of {has}")
    return matching[0]


def check_region(region: str | None, table: PriceTable, gpu: str, provider: str, kind: str) -> None:
    """Raise `UsageError` if a source has nothing in a region; the message lists its regions."""
    if not region:
        return
    regions = {
        str(name)
        for frame in (table.prices, table.supply)
        for *source, name in frame.select("provider", "gpu_type", "kind", "region").unique().rows()
        if name is not None and (source[0], source[2]) == (provider, kind)
        if same_gpu(gpu, source[1])
    }
    if region not in regions:
        only = f"expected one of {listed(sorted(regions))}" if regions else "it names no region"
        raise SettingError(
            ["region"], f"{the_prices(table)} have no {gpu} of {provider} in {region}; {only}"
        )


def only_gpu(table: PriceTable) -> str | None:
    """Return the GPU of a table that has one; None of several."""
    every = sorted({gpu for _, gpu, _ in sources_of(table)})
    return every[0] if len(every) == 1 else None
