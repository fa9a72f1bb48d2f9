"""GPUs owned and committed, and prices by type and date, as options give them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from fractions import Fraction

from gpuplan.analysis.base.amounts import check_finite
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.prices.contracts import (
    A_DATE,
    ALWAYS_US,
    COMMITTED,
    MOST_GPUS,
    MOST_USD_DIGITS,
    MOST_USD_PER_GPU_H,
    ON_DEMAND,
    OWNED,
    DatedPrice,
    PaidPool,
    instant_us,
)

PRICE_FORM = (
    "dollars per GPU-hour above 0, such as 1.29, or TYPE=USD such as A100=2.5,T4=1; another price "
    "from a date on as H100=2.60,2026-04-01:3.00"
)
Dated = Mapping[str, float]
"""Prices by the date from which they hold; the empty text is from the beginning."""
FORM = re.compile(r"(?P<type>[^=@]+)=(?P<gpus>\d+)(?:@\$?(?P<usd>[\d.]+))?")
NUMBER = re.compile(r"\$?\d+(\.\d+)?")

DECIMAL_COMMA = re.compile(r"(?P<whole>(?:[^=,]+=)?\$?\d+),(?P<cents>\d{2})")
"""A price with a comma for its point: 2,60 or H100=2,60."""


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
            is_bare = market == OWNED and text.isdecimal()
            unnamed = " (and --gpu A100 where the log names no GPU types)" if is_bare else ""
            plans = market == COMMITTED and NUMBER.fullmatch(text)
            next_step = f"\n  next: to find how many to commit to, gpuplan plan {option} {text}"
            raise UsageError(
                f"{option} {text!r}: expected {form}, such as A100=32@0.90{unnamed}"
                + (next_step if plans else "")
            )
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
            next_step = f"\n  next: for one price of every type, --price {text}"
            raise UsageError(
                f"{option} {text!r}: expected TYPE=USD, such as A100=1.60"
                + (next_step if NUMBER.fullmatch(text) else "")
            )
        price = _usd(usd.removeprefix("$"), f"{option} {text!r}")
        prices.append(DatedPrice(gpu_name(name), ON_DEMAND, price))
    return tuple(prices)


def parse_prices(texts: Sequence[str], option: str) -> dict[str, float | Dated]:
    """Return the prices of ``1.29``, ``A100=2.5,T4=1`` and ``H100=2.60,2026-04-01:3.00`` by type.

    The empty name is every other type. Raises `UsageError` for a text that is none, and where a
    type or date is repeated.
    """
    prices: dict[str, float | Dated] = {}
    for several in texts:
        if comma := DECIMAL_COMMA.fullmatch(several.strip()):
            meant = ".".join(comma.group("whole", "cents"))
            raise UsageError(
                f"{option} {several!r}: found a comma in a number\n  next: {option} {meant}"
            )
        parts = [part.strip() for part in several.split(",") if part.strip()] or [several]
        last: str | None = None
        for text in parts:
            head, colon, later_usd = text.rpartition(":")
            if colon:
                if last is None:
                    raise UsageError(f"{option} {text!r}: expected {PRICE_FORM}")
                dated = prices[last]
                steps = {"": dated} if isinstance(dated, float) else dict(dated)
                if head in steps or instant_us(head, UTC) is None:
                    raise UsageError(f"{option} {text!r}: expected {A_DATE}, each once, then :USD")
                prices[last] = steps | {head: _above_zero(later_usd, text, option)}
                continue
            last, _, number = (word.strip() for word in text.rpartition("="))
            if "=" in last or ("=" in text and not last):
                raise UsageError(f"{option} {text!r}: expected {PRICE_FORM}")
            usd = _above_zero(number, text, option)
            if last in prices:
                twice = f"{last!r} is given twice" if last else "given twice"
                raise UsageError(f"{option}: {twice}")
            prices[last] = usd
    return prices


def _above_zero(number: str, text: str, option: str) -> float:
    """Return a price; raises `UsageError` for one that is not above 0."""
    check_finite(number, option)
    try:
        usd = float(number.strip().removeprefix("$"))
    except ValueError:
        usd = -1.0
    if not 0 < usd < float("inf"):
        raise UsageError(f"{option} {text!r}: expected {PRICE_FORM}")
    return usd


def stated_prices(prices: Mapping[str, float | Dated]) -> dict[str, float | dict[str, float]]:
    """Return prices as JSON has them: a number, or prices by date."""
    return {name: dict(usd) if isinstance(usd, Mapping) else usd for name, usd in prices.items()}


def price_texts(prices: Mapping[str, float | Dated]) -> list[str]:
    """Return prices of ``--price`` as it gives them, a text by type."""
    texts = []
    for name, usd in prices.items():
        steps = usd if isinstance(usd, Mapping) else {"": usd}
        each = [f"{begin}:{price!r}" if begin else repr(price) for begin, price in steps.items()]
        texts.append((f"{name}=" if name else "") + ",".join(each))
    return texts


def price_steps(
    usd: float | Dated, zone: tzinfo = UTC, gpu_type: str = "", option: str = "--price"
) -> tuple[DatedPrice, ...]:
    """Return the pay-per-use prices of a type in order of time; dates are of a time zone.

    Raises `UsageError` where two begin at one instant.
    """
    if not isinstance(usd, Mapping):
        return (DatedPrice(gpu_type, ON_DEMAND, Fraction(str(usd))),)
    begins = {text: instant_us(text, zone) if text else ALWAYS_US for text in usd}
    steps = [
        DatedPrice(gpu_type, ON_DEMAND, Fraction(str(usd[text])), begin)
        for text, begin in begins.items()
        if begin is not None
    ]
    if len({step.from_us for step in steps}) < len(usd):
        raise UsageError(f"{option}: two prices of {gpu_type or 'every type'} from the same date")
    return tuple(sorted(steps, key=lambda step: step.from_us))


def pool_texts(pools: Sequence[PaidPool]) -> list[str]:
    """Return pools as their option gives them."""
    return [f"{p.gpu_type}={p.gpus}@{float(p.usd_per_gpu_h):g}" for p in pools]


def on_demand_texts(prices: Sequence[DatedPrice]) -> list[str]:
    """Return prices of ``--on-demand`` as it gives them."""
    return [f"{p.gpu_type}={float(p.usd_per_gpu_h):g}" for p in prices]


def _usd(text: str, where: str) -> Fraction:
    try:
        is_near = abs(Decimal(text).adjusted()) <= MOST_USD_DIGITS
        usd = Fraction(text) if is_near else Fraction(-1)
    except (ValueError, ArithmeticError):
        usd = Fraction(-1)
    if not 0 <= usd <= MOST_USD_PER_GPU_H:
        raise UsageError(f"{where}: expected dollars per GPU-hour, 0 to {MOST_USD_PER_GPU_H:,}")
    return usd
