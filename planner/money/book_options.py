"""The price book of a log: contracts, a price for each of its types, and a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types
from gpuplan.analysis.prices.contracts import (
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
)
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.price_book import Prices

Pools = Sequence[tuple[str | None, int]]


def complete_book(
    prices: Prices,
    gpu_types: Sequence[str | None],
    cluster: Mapping[str | None, int],
    window_us: tuple[int, int],
) -> tuple[Contracts, dict[str, str]]:
    """Return the book with a price for each type of a log too, and where these come from.

    Args:
        prices: the book, and prices of types that it has none of.
        gpu_types: of the log; None for jobs that name none.
        cluster: owned GPUs by type of the log, at the price of the type.
        window_us: when the cluster is paid for.

    Raises:
        UsageError: types without a price; the message says which options give one.
    """
    book = prices.book
    prices.check([*gpu_types, *cluster])
    means = match_types(book.gpu_types, gpu_types, book.option)
    pools, entries = list(book.pools), list(book.prices)
    sources: dict[str, str] = {}
    for gpu_type in dict.fromkeys([*gpu_types, *cluster]):
        name = means.get(gpu_type) or gpu_type or UNNAMED
        has_price = any(entry.gpu_type == name for entry in entries)
        if not has_price and (price := prices.get(gpu_type)) is not None:
            sources[name] = price.source
            entries += [replace(step, gpu_type=name) for step in prices.steps(gpu_type)]
        if gpus := cluster.get(gpu_type, 0):
            pools += _cluster_pools(
                name, gpus, [entry for entry in entries if entry.gpu_type == name], window_us
            )
    return make_contracts(pools, entries, inputs=book.inputs, option=book.option), sources


def check_dated(trace: Trace, prices: Prices) -> None:
    """Raise `UsageError` where a book has dates and the log has none."""
    if not trace.provenance.relative_time:
        return
    book = prices.book
    changes = book.changes_us(book.gpu_types)
    option, what = book.option, "GPUs or prices"
    if not changes:
        option, what = prices.option, "prices"
        dated = [usd for usd in prices.usd_per_gpu_h.values() if isinstance(usd, Mapping)]
        if not any(begin for usd in dated for begin in usd):
            return
    raise UsageError(
        f"{option}: it has dates, and the log has none: its times count from its start, so "
        f"nothing says which {what} were in force\n"
        "  next: give the log times with dates, or leave those out that were not in force and "
        "the dates of the others"
    )


def _cluster_pools(
    name: str, gpus: int, prices: Sequence[DatedPrice], window_us: tuple[int, int]
) -> list[PaidPool]:
    """Return the GPUs of a cluster as pools: one for each price while the log lasts."""
    begin, end = window_us
    until = [min(max(price.from_us, begin), end) for price in prices[1:]] + [end]
    pools = []
    for price, last in zip(prices, until, strict=True):
        first = max(price.from_us, begin)
        if first < last:
            pools.append(PaidPool(OWNED, name, gpus, price.usd_per_gpu_h, first, last))
    return pools


def cluster_of(
    gpu_types: Sequence[str | None], peaks: Sequence[float], pools: Pools | None, *, is_peak: bool
) -> dict[str | None, int]:
    """Return the GPUs of each type of a log in a cluster.

    Args:
        gpu_types: of the log.
        peaks: most GPUs of each held at once.
        pools: type and GPUs of each pool; None for no cluster.
        is_peak: whether the cluster is the peak of each type.

    Raises:
        UsageError: GPUs of no type where the log names several, or a name that means several.
    """
    if is_peak:
        return {
            name: ceil(peak - 1e-9) for name, peak in zip(gpu_types, peaks, strict=True) if peak > 0
        }
    if pools is None:
        return {}
    held = [name for name, peak in zip(gpu_types, peaks, strict=True) if peak > 0]
    used = held or list(gpu_types)  # all of them where no job took time
    if len(pools) == 1 and pools[0][0] is None:
        gpus = pools[0][1]
        if len(used) > 1:
            each = ",".join(f"{name or UNNAMED}=N" for name in used)
            raise UsageError(
                f"--cluster {gpus}: the log has several GPU types\n"
                f"  next: give the GPUs of each, --cluster {each}, or choose one with --where"
            )
        return {used[0]: gpus}
    names = [kind for kind, _ in pools if kind]
    if len(names) == 1 and used == [None]:
        return {None: pools[0][1]}
    means = match_types(names, used, "--cluster", one_type_each=True)
    type_of = {name: log_type for log_type, name in means.items() if name is not None}
    return {type_of.get(kind or "", kind): gpus for kind, gpus in pools}
