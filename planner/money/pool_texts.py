"""GPUs owned and committed, and prices of one type, as options give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    MOST_GPUS,
    MOST_USD_PER_GPU_H,
    ON_DEMAND,
    OWNED,
    DatedPrice,
    PaidPool,
)

FORM = re.compile(r"(?P<type>[^=@]+)=(?P<gpus>\d+)(?:@\$?(?P<usd>[\d.]+))?")


def parse_pools(texts: Sequence[str], option: str) -> tuple[PaidPool, ...]:
    """Return the pools of ``A100=32@0.90``; of ``--owned A100=128`` at $0.

    Raises `UsageError` for a text that is none.
    """
    market = OWNED if option == "--owned" else COMMITTED
    form = "TYPE=GPUS[@USD]" if market == OWNED else "TYPE=GPUS@USD"
    pools = []
    for text in (part.strip() for several in texts for part in several.split(",")):
        match = FORM.fullmatch(text)
        if match is None or (match["usd"] is None and market == COMMITTED):
            raise UsageError(f"{option} {text!r}: expected {form}, such as A100=32@0.90")
        gpus = int(match["gpus"])
        if not 1 <= gpus <= MOST_GPUS:
            raise UsageError(f"{option} {text!r}: expected 1 to {MOST_GPUS:,} GPUs")
        usd = _usd(match["usd"] or "0", f"{option} {text!r}")
        pools.append(PaidPool(market, gpu_name(match["type"]), gpus, usd))
    return tuple(pools)


def parse_on_demand(texts: Sequence[str], option: str) -> tuple[DatedPrice, ...]:
    """Return the prices of ``A100=1.60``. Raises `UsageError` for a text that is none."""
    prices = []
    for text in (part.strip() for several in texts for part in several.split(",")):
        name, equals, usd = (word.strip() for word in text.partition("="))
        if not (name and equals and usd):
            raise UsageError(f"{option} {text!r}: expected TYPE=USD, such as A100=1.60")
        price = _usd(usd.removeprefix("$"), f"{option} {text!r}")
        prices.append(DatedPrice(gpu_name(name), ON_DEMAND, price))
    return tuple(prices)


def pool_texts(pools: Sequence[PaidPool]) -> list[str]:
    """Return pools as their option gives them."""
    return [f"{p.gpu_type}={p.gpus}@{float(p.usd_per_gpu_h):g}" for p in pools]


def price_texts(prices: Sequence[DatedPrice]) -> list[str]:
    """Return prices as their option gives them."""
    return [f"{p.gpu_type}={float(p.usd_per_gpu_h):g}" for p in prices]


def _usd(text: str, where: str) -> Fraction:
    try:
        usd = Fraction(text)
    except (ValueError, ZeroDivisionError):
        usd = Fraction(-1)
    if not 0 <= usd <= MOST_USD_PER_GPU_H:
        raise UsageError(f"{where}: expected dollars per GPU-hour, 0 to {MOST_USD_PER_GPU_H:,}")
    return usd
