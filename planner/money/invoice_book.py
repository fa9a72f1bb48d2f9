"""The price book that an invoice shows: prices and commitments by date, as found in its charges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.invoices.charges import UNUSED, USAGE
from gpuplan.analysis.prices.contracts import (
    ALWAYS_US,
    COMMITTED,
    FOREVER_US,
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
)
from gpuplan.planner.money.invoice_charges import Charge
from gpuplan.planner.money.invoice_table import DIGITS, unit_price
from gpuplan.planner.money.reconcile import LONG_US, Reconciliation, day_of

OPTION = "--invoice"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A price, or GPUs at a price, from a time until another."""

    begin_us: int
    end_us: int
    gpus: int
    usd: Fraction


def invoice_book(
    reconciliation: Reconciliation, book: Contracts, *, is_whole: bool = True
) -> Contracts:
    """Return the price book that an invoice shows, with the owned GPUs of another book.

    A price holds from the first charge at it; the first one of a type always. A pool has the GPUs
    that its used and unused hours make of a charge period, to a whole number; it is open where its
    charges begin or end with the invoice. ``is_whole`` is false where months of the invoice are
    left out: a pool then begins with its charges.
    """
    charges = [
        replace(charge, begin_us=span[0], end_us=span[1])
        for charge in reconciliation.charges
        if charge.kind in (USAGE, UNUSED) and charge.gpu_type is not None
        for span in [
            (charge.begin_us, charge.end_us)
            if charge.end_us - charge.begin_us >= LONG_US
            else day_of(charge.begin_us)
        ]
    ]
    prices: list[DatedPrice] = []
    pools = [pool for pool in book.pools if pool.market == OWNED]
    by_source: dict[tuple[str, str, str], list[Charge]] = defaultdict(list)
    for charge in charges:
        is_pool = charge.market == COMMITTED
        by_source[charge.name, charge.market, charge.commitment if is_pool else ""].append(charge)
    first = min((charge.begin_us for charge in charges), default=0)
    last = max((charge.end_us for charge in charges), default=0)
    for (gpu_type, market, _), of_source in sorted(by_source.items()):
        stretches = _merged(_stretches(of_source, is_pool=market == COMMITTED))
        for place, stretch in enumerate(stretches):
            if market != COMMITTED:
                begin = ALWAYS_US if place == 0 else stretch.begin_us
                prices.append(DatedPrice(gpu_type, market, stretch.usd, begin))
            elif stretch.gpus:
                is_open = is_whole and stretch.begin_us <= first
                begin = ALWAYS_US if is_open else stretch.begin_us
                end = FOREVER_US if stretch.end_us >= last else stretch.end_us
                pools.append(PaidPool(COMMITTED, gpu_type, stretch.gpus, stretch.usd, begin, end))
    return make_contracts(pools, prices, option=OPTION)


def _stretches(charges: Iterable[Charge], *, is_pool: bool) -> list[_Stretch]:
    """Return one stretch for each charge period; prices that differ within one are their mean.

    Only those of a pool have GPUs.
    """
    periods: dict[tuple[int, int], list[Charge]] = defaultdict(list)
    for charge in charges:
        periods[charge.begin_us, charge.end_us].append(charge)
    stretches = []
    for (begin, end), of_period in sorted(periods.items()):
        hours = sum((charge.gpu_h for charge in of_period), Fraction(0))
        if hours <= 0:
            continue
        usd = sum((charge.effective for charge in of_period), Fraction(0))
        prices = {unit_price(charge) for charge in of_period if charge.gpu_h > 0}
        price = prices.pop() if len(prices) == 1 else usd / hours
        gpus = round(hours * HOUR_US / (end - begin)) if is_pool else 0
        stretches.append(_Stretch(begin, end, gpus, max(Fraction(0), _short(price))))
    return stretches


def _short(price: Fraction) -> Fraction:
    return Fraction(round(price * 10**DIGITS), 10**DIGITS)


def _merged(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Return stretches of the same price and GPUs as one, with the time between them."""
    merged: list[_Stretch] = []
    for stretch in stretches:
        before = merged[-1] if merged else None
        if before and (before.gpus, before.usd) == (stretch.gpus, stretch.usd):
            merged[-1] = replace(before, end_us=max(before.end_us, stretch.end_us))
        else:
            merged.append(stretch)
    return merged
