"""A price book as its TOML file has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from decimal import Decimal, localcontext

from gpuplan.analysis.base.time_units import time_of
from gpuplan.analysis.prices.contracts import (
    ALWAYS_US,
    FOREVER_US,
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
)


def contracts_text(book: Contracts, zone: tzinfo, comments: Sequence[str] = ()) -> str:
    """Return a price book as a TOML file that `read_contracts` reads.

    Args:
        book: the price book.
        zone: in which dates are written; a time that is no midnight there is written with its
            offset.
        comments: lines at its begin.
    """
    blocks = ["".join(f"# {line}\n" for line in comments)] if comments else []
    for pool in book.pools:
        table = "owned" if pool.market == OWNED else "commitment"
        pairs = [_text("gpu_type", pool.gpu_type), f"gpus = {pool.gpus}"]
        pairs.append(_usd(pool))
        pairs += _dates(zone, pool.from_us, pool.until_us)
        blocks.append(_block(table, pairs))
    for price in book.prices:
        pairs = [_text("gpu_type", price.gpu_type), _text("kind", price.kind), _usd(price)]
        blocks.append(_block("price", [*pairs, *_dates(zone, price.from_us, FOREVER_US)]))
    return "\n".join(blocks)


def _block(table: str, pairs: Iterable[str]) -> str:
    return f"[[{table}]]\n" + "".join(f"{pair}\n" for pair in pairs)


def _text(key: str, value: str) -> str:
    escaped = "".join(
        f"\\u{ord(c):04x}" if c in '"\\' or ord(c) < 32 or ord(c) == 127 else c for c in value
    )
    return f'{key} = "{escaped}"'


def _usd(entry: PaidPool | DatedPrice) -> str:
    with localcontext() as context:
        context.prec = 40
        usd = Decimal(entry.usd_per_gpu_h.numerator) / Decimal(entry.usd_per_gpu_h.denominator)
    return f"usd_per_gpu_h = {usd:f}"


def _dates(zone: tzinfo, from_us: int, until_us: int) -> list[str]:
    dates = []
    for key, at_us, never in (("from", from_us, ALWAYS_US), ("until", until_us, FOREVER_US)):
        if at_us != never:
            at = time_of(at_us, zone)
            is_midnight = not (at.hour or at.minute or at.second or at.microsecond)
            dates.append(f"{key} = {at.date() if is_midnight else at.isoformat()}")
    return dates
