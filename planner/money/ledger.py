"""Who uses which pool, pays which price and leaves what idle: exact, by label, type and period.

At an instant at which jobs use ``u`` GPUs of a type, its pools fill in their order; what is above
them is pay-per-use at the price of that instant. A label that uses ``x`` of the ``u`` has the share
``x / u`` of each. What a pool does not cover is idle, and is paid for too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray, distinct
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_US, time_of
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types
from gpuplan.analysis.prices.contracts import Contracts, DatedPrice, PaidPool

GUARD = 10**24
"""Shares of a pool are exact to this part of a GPU-microsecond."""
SETTLED = 10**18
"""Amounts are whole multiples of its inverse, so that half a cent is half a cent."""
PARTS_PER_GPU = 1_000_000
IDLE = -1


@dataclass(frozen=True, slots=True)
class HeldRuns:
    """Runs that hold GPUs; arrays of shape (n,).

    Attributes:
        start_us, end_us: microseconds since 1970.
        gpus: that each holds; a fraction counts as such, to a millionth.
        label: who pays, a code.
        gpu_type: a code.
        labels: how many labels there are.
        gpu_types: the names of the types; None for jobs that name none.
    """

    start_us: IntArray
    end_us: IntArray
    gpus: FloatArray
    label: IntArray
    gpu_type: IntArray
    labels: int
    gpu_types: Sequence[str | None]

    def only(self, chosen: BoolArray) -> HeldRuns:
        """Return these runs."""
        columns = ("start_us", "end_us", "gpus", "label", "gpu_type")
        return replace(self, **{name: getattr(self, name)[chosen] for name in columns})


@dataclass(frozen=True, slots=True)
class LedgerCell:
    """GPU-hours of one label, from one pool or at one price, in one period.

    Attributes:
        label: a code; None for GPUs of a pool that nobody uses.
        gpu_type: place among `Ledger.gpu_types`.
        source: the pool, or the pay-per-use price.
        period: place among the periods.
        gpu_h, usd: GPU-hours and dollars, exact.
    """

    label: int | None
    gpu_type: int
    source: PaidPool | DatedPrice
    period: int
    gpu_h: Fraction
    usd: Fraction

    @property
    def market(self) -> str:
        """``owned``, ``committed``, or the kind of the pay-per-use price."""
        return self.source.market if isinstance(self.source, PaidPool) else self.source.kind


@dataclass(frozen=True, slots=True)
class Ledger:
    """All cells of a log under a price book.

    Attributes:
        gpu_types: as the book names them, else as the log does; then those of the book alone.
        edges_us: of the periods; shape (m + 1,).
        cells: by type, period, label and source.
        log_types: type -> as the log names it.
    """

    gpu_types: tuple[str, ...]
    edges_us: IntArray
    cells: tuple[LedgerCell, ...]
    log_types: Mapping[str, tuple[str | None, ...]]


class UnpricedUse(UsageError):
    """Jobs use GPUs of a type above its pools, and no price is in force.

    Attributes:
        gpu_type: as the book names it.
    """

    def __init__(self, gpu_type: str, message: str) -> None:
        super().__init__(message)
        self.gpu_type = gpu_type


def ledger(runs: HeldRuns, book: Contracts, edges_us: IntArray) -> Ledger:
    """Return what runs use under a price book, by period.

    Args:
        runs: of all jobs.
        book: the price book.
        edges_us: of the periods, ascending; what lies outside of them is left out.

    Raises:
        UsageError: a type without a price.
        UnpricedUse: hours above its pools without one.
    """
    means = match_types(book.gpu_types, runs.gpu_types, book.option)
    named = [means[name] or name or UNNAMED for name in runs.gpu_types]
    is_used = np.bincount(runs.gpu_type, minlength=len(named)) > 0
    with_use = [name for name, used in zip(named, is_used.tolist(), strict=True) if used]
    types = tuple(dict.fromkeys([*with_use, *(pool.gpu_type for pool in book.pools)]))
    _check_priced(types, book)
    cells: list[LedgerCell] = []
    for place, name in enumerate(types):
        codes = [code for code, other in enumerate(named) if other == name]
        cells += _cells_of_type(
            runs.only(np.isin(runs.gpu_type, codes)), place, name, book, edges_us
        )
    log_types = {
        name: tuple(
            log_type for log_type, other in zip(runs.gpu_types, named, strict=True) if other == name
        )
        for name in types
    }
    return Ledger(types, edges_us, tuple(cells), log_types)


def _check_priced(types: Sequence[str], book: Contracts) -> None:
    lacking = [name for name in types if name not in book.gpu_types]
    if lacking:
        raise UsageError(
            f"{book.option}: no price of {', '.join(lacking)}; it has {', '.join(book.gpu_types)}\n"
            f"  next: add a price of {lacking[0]}"
        )


def _cells_of_type(
    runs: HeldRuns, place: int, name: str, book: Contracts, edges_us: IntArray
) -> list[LedgerCell]:
    """Return the cells of the runs of one type."""
    pools, prices = book.pools_of(name), book.prices_of(name)
    sources: tuple[PaidPool | DatedPrice, ...] = (*pools, *prices)
    begins = _without_idle_edges(_stretches(edges_us, pools, prices), runs, pools)
    period_of = np.searchsorted(edges_us, begins[:-1], side="right") - 1
    open_at = [[p for p in pools if p.is_paid_at(at)] for at in begins[:-1].tolist()]
    levels = _in_use(runs, begins, [pools[0].gpus if pools else 0 for pools in open_at])
    gpu_us: dict[tuple[int, int, int], Fraction] = defaultdict(Fraction)
    for number, in_use in enumerate(levels):
        at, period = int(begins[number]), int(period_of[number])
        price = next((p for p in reversed(prices) if p.from_us <= at), None)
        filled = 0
        for pool in open_at[number]:
            covered = in_use.between(filled, filled + pool.gpus)
            filled += pool.gpus
            source = sources.index(pool)
            for label, amount in covered.items():
                gpu_us[period, label, source] += amount
            pool_us = pool.gpus * (int(begins[number + 1]) - at)
            gpu_us[period, IDLE, source] += pool_us - sum(covered.values())
        above = in_use.between(filled, None)
        if not above:
            continue
        if price is None:
            total = sum(above.values(), Fraction(0))
            problem = _unpriced(book, name, total, begins[number : number + 2])
            raise UnpricedUse(name, problem)
        for label, amount in above.items():
            gpu_us[period, label, sources.index(price)] += amount
    return [
        LedgerCell(
            label=None if label == IDLE else label,
            gpu_type=place,
            source=sources[source],
            period=period,
            gpu_h=gpu_h,
            usd=_settled(gpu_h * sources[source].usd_per_gpu_h),
        )
        for (period, label, source), amount in sorted(gpu_us.items())
        if (gpu_h := _settled(amount / HOUR_US))
    ]


def _settled(amount: Fraction) -> Fraction:
    return Fraction(round(amount * SETTLED), SETTLED)


def _unpriced(book: Contracts, name: str, gpu_us: Fraction, span: IntArray) -> str:
    begin, end = (f"{time_of(at):%Y-%m-%d %H:%M} UTC" for at in span.tolist())
    return (
        f"{book.option}: no pay-per-use price of {name} from {begin} to {end}, where jobs use "
        f"{float(gpu_us) / HOUR_US:,.1f} GPU-hours above its pools\n"
        f"  next: add a [[price]] of {name} that begins by {begin}"
    )


def _stretches(
    edges_us: IntArray, pools: Sequence[PaidPool], prices: Sequence[DatedPrice]
) -> IntArray:
    """Return the edges of the stretches in which neither period, pools nor price change."""
    dates = [edge for pool in pools for edge in (pool.from_us, pool.until_us)]
    dates += [price.from_us for price in prices]
    inside = [at for at in dates if edges_us[0] < at < edges_us[-1]]
    return distinct(np.concatenate([edges_us, np.array(inside, np.int64)]))


def _without_idle_edges(begins: IntArray, runs: HeldRuns, pools: Sequence[PaidPool]) -> IntArray:
    """Return edges without those between two stretches in which nothing is used or paid for."""
    start = np.concatenate([runs.start_us, [pool.from_us for pool in pools]]).astype(np.int64)
    end = np.concatenate([runs.end_us, [pool.until_us for pool in pools]]).astype(np.int64)
    start, end = (np.clip(edge, begins[0], begins[-1]) for edge in (start, end))
    lasts = end > start
    change = np.zeros(begins.size, np.int64)
    np.add.at(change, np.searchsorted(begins, start[lasts], side="right") - 1, 1)
    np.add.at(change, np.searchsorted(begins, end[lasts], side="left"), -1)
    is_used = np.cumsum(change)[:-1] > 0
    kept = np.concatenate([[True], is_used[:-1] | is_used[1:], [True]])
    needed: IntArray = begins[kept]
    return needed


@dataclass(frozen=True, slots=True)
class _InUse:
    """What labels hold in one stretch, by the GPUs of the type in use at the time.

    Attributes:
        unit: GPU-microseconds of a unit of the sums.
        per_gpu: units of a level that make a GPU.
        levels: the levels in use; the first one stands for all at which nobody shares a pool.
        label, code, held: of each sum that is not 0 the label, the place of the level, the sum.
    """

    unit: Fraction
    per_gpu: int
    levels: Sequence[int]
    label: Sequence[int]
    code: Sequence[int]
    held: Sequence[int]

    def between(self, low: int, high: int | None) -> dict[int, Fraction]:
        """Return the GPU-microseconds of each label among the GPUs from ``low`` to ``high``."""
        tops = self.levels
        if high is not None:
            tops = [min(level, high * self.per_gpu) for level in self.levels]
        part = [max(0, top - low * self.per_gpu) for top in tops]
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for label, code, held in zip(self.label, self.code, self.held, strict=True):
            covered, level = part[code], self.levels[code]
            if covered == level:
                sums[label][0] += held
            elif covered:
                sums[label][1] += (2 * held * covered * GUARD + level) // (2 * level)
        return {
            label: (full + Fraction(shared, GUARD)) * self.unit
            for label, (full, shared) in sums.items()
        }


def _in_use(runs: HeldRuns, begins: IntArray, first_pool: Sequence[int]) -> list[_InUse]:
    """Return what labels hold in each stretch.

    Args:
        runs: of one type.
        begins: edges of the stretches.
        first_pool: GPUs of the pool that fills first in each; 0 where all are pay-per-use.
    """
    from gpuplan.simkit.renting.levels import held_at_levels  # loads numba

    parts = np.rint(runs.gpus * PARTS_PER_GPU).astype(np.int64)
    start = np.clip(runs.start_us, begins[0], begins[-1])
    end = np.clip(runs.end_us, begins[0], begins[-1])
    holds = (end > start) & (parts > 0)
    parts, label = parts[holds], runs.label[holds]
    gpu_unit = int(np.gcd.reduce(np.append(parts, PARTS_PER_GPU)))
    at = np.concatenate([begins, start[holds], end[holds]])
    order = np.argsort(at, kind="stable")  # the edges come first among the events of an instant
    nothing = np.zeros(begins.size, np.int64)
    user = np.concatenate([nothing, label, label])[order]
    change = np.concatenate([nothing, parts, -parts])[order] // gpu_unit
    at = at[order]
    time_unit = int(np.gcd.reduce(at - at[0])) or 1
    lasting = np.append(np.diff(at) // time_unit, 0)
    level = np.cumsum(change)
    edges = np.flatnonzero(order < begins.size)
    per_gpu = PARTS_PER_GPU // gpu_unit
    code = np.full(at.size, -1)
    levels = []
    for first, last, alone in zip(edges[:-1], edges[1:], first_pool, strict=True):
        held = first + np.flatnonzero((level[first:last] > 0) & (lasting[first:last] > 0))
        shared = np.maximum(level[held], alone * per_gpu) if alone else np.ones(held.size, np.int64)
        values, code[held] = np.unique(shared, return_inverse=True)
        levels.append(values.tolist())
    sums = held_at_levels(user, change, lasting, code, runs.labels, edges)
    unit = Fraction(gpu_unit * time_unit, PARTS_PER_GPU)
    return [
        _InUse(unit, per_gpu, values, who.tolist(), codes.tolist(), held)
        for values, (who, codes, held) in zip(levels, sums, strict=True)
    ]
