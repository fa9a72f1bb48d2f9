"""Prices of committed GPU-hours as ``gpuplan size --commit`` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from gpuplan.analysis.base.amounts import check_finite
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.prices.contracts import MOST_GPUS, MOST_USD_PER_GPU_H

FORM = re.compile(
    r"(?:(?P<type>[^=@:]*)=)?\s*(?:(?P<gpus>\d+)@)?\$?(?P<usd>[^:@$=]*)(?::(?P<term>.*))?"
)
TERM = re.compile(r"\s*(\d{1,3})\s*(y|mo)\s*")
MOST_MONTHS = 1200
MONTHS_A_YEAR = 12


@dataclass(frozen=True, slots=True)
class TermOffer:
    """A price of a committed GPU-hour.

    Attributes:
        usd_per_gpu_h: paid for each hour of each GPU.
        months: of the term; None where it does not matter.
    """

    usd_per_gpu_h: Fraction
    months: int | None = None

    @property
    def name(self) -> str:
        """The term as it is written, ``3y``; empty without one."""
        if self.months is None:
            return ""
        years, rest = divmod(self.months, MONTHS_A_YEAR)
        return f"{self.months}mo" if rest else f"{years}y"


@dataclass(frozen=True, slots=True)
class CommitPrice:
    """One price of ``--commit``.

    Attributes:
        gpu_type: as written; empty for every type.
        offer: the price and its term.
        gpus: committed to at this price today; None where it is only a price.
    """

    gpu_type: str
    offer: TermOffer
    gpus: int | None = None

    @property
    def key(self) -> str:
        """Its name in JSON: ``A100``, ``A100:1y``, ``A100=24``; empty for every type."""
        gpus = "" if self.gpus is None else f"={self.gpus}"
        return f"{self.gpu_type}{gpus}{f':{self.offer.name}' if self.offer.name else ''}"


def parse_commit(texts: Sequence[str], option: str) -> tuple[CommitPrice, ...]:
    """Return the prices of ``0.9``, ``A100=0.9,T4=0.2``, ``A100=0.90:1y,0.75:3y``.

    ``A100=24@1.05`` says that 24 GPUs are committed to today. A price with a term and without a
    type is of the type before it.

    Raises:
        UsageError: a text is not such a price, or one is given twice.
    """
    prices: list[CommitPrice] = []
    for text in texts:
        before = ""
        for part in [part for part in text.split(",") if part.strip()] or [text]:
            price = _price(part, option, before)
            if any(other.key == price.key for other in prices):
                raise UsageError(
                    f"{option}: {price.key!r} is given twice"
                    if price.key
                    else f"{option}: given twice"
                )
            prices.append(price)
            before = price.gpu_type
    return tuple(prices)


def _price(text: str, option: str, before: str) -> CommitPrice:
    match = FORM.fullmatch(text.strip())
    number = "" if match is None else match["usd"].strip()
    check_finite(number, option)
    try:
        usd = float(number)
    except ValueError:
        usd = -1.0
    gpu_type = None if match is None else match["type"]
    is_price = isfinite(usd) and 0 < usd <= MOST_USD_PER_GPU_H
    if match is None or not is_price or (gpu_type is not None and not gpu_type.strip()):
        raise UsageError(
            f"{option} {text!r}: expected dollars per GPU-hour above 0, such as 0.9, A100=0.9, "
            "A100=0.90:1y,0.75:3y for several terms, or A100=24@1.05 for 24 GPUs committed today"
        )
    gpus = None if match["gpus"] is None else int(match["gpus"])
    if gpus is not None and (gpu_type is None or gpus > MOST_GPUS):
        raise UsageError(
            f"{option} {text!r}: expected TYPE=GPUS@USD with at most {MOST_GPUS:,} GPUs, such as "
            "A100=24@1.05"
        )
    term = match["term"]
    name = (before if term is not None else "") if gpu_type is None else gpu_type.strip()
    return CommitPrice(name, TermOffer(Fraction(number), months_of_term(term, text, option)), gpus)


def months_of_term(term: str | None, text: str, option: str) -> int | None:
    """Return the months of ``1y`` or ``6mo`` in a text of an option. Raises `UsageError`."""
    if term is None:
        return None
    match = TERM.fullmatch(term.lower())
    months = 0 if match is None else int(match[1]) * (MONTHS_A_YEAR if match[2] == "y" else 1)
    if not 1 <= months <= MOST_MONTHS:
        raise UsageError(f"{option} {text!r}: expected a term such as 1y, 3y or 6mo")
    return months


def commit_prices(prices: Sequence[CommitPrice]) -> dict[str, float]:
    """Return dollars per GPU-hour as JSON has them, by type and term."""
    return {price.key: float(price.offer.usd_per_gpu_h) for price in prices}
