"""What recorded use would cost in another month: the bill of its runs under that month's book.

A month is cut where pools or prices change. In each part the use of a past month is billed under
the pools and prices in force in the part, times the length of the part over that of the past month.
Pools are paid for whether they are used or not, so that other use moves only what is above them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta, tzinfo
from fractions import Fraction
from itertools import pairwise

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray, distinct
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import DAY_US, HOUR_US, time_of
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.contracts import Contracts
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.held_runs import Months, midnight_us
from gpuplan.planner.money.ledger import HeldRuns, Ledger, UnpricedUse, ledger

WEEK_US = 7 * DAY_US
SEASON_DAYS = 56
"""Days that the weekdays of a season are the means of."""
UNCHANGED = Fraction(1)
Usd = dict[str, Fraction]
"""Label, or `IDLE` -> dollars, exact."""


@dataclass(frozen=True, slots=True)
class MonthSpend:
    """What a month would cost.

    Attributes:
        usd: by label.
        weeks: returns, of each week of the use behind it, what the month would cost if all of its
            weeks were like that one.
    """

    usd: Usd
    weeks: Callable[[], tuple[Usd, ...]]

    @property
    def total(self) -> Fraction:
        """The dollars of all labels and of idle GPUs."""
        return sum(self.usd.values(), Fraction(0))


@dataclass(frozen=True, slots=True)
class PartOfMonth:
    """A part of a month in which neither pools nor prices change."""

    begin_us: int
    end_us: int
    book: Contracts


@dataclass(frozen=True, slots=True)
class RecordedUse:
    """The use of whole months, to be billed under the book of others.

    Attributes:
        runs: of all jobs; their types in the names of the book.
        names: of each label.
        book: the price book.
        gpu_types: that are used or in a pool.
        months: the whole months recorded, then those ahead.
        recorded_months: how many of them are recorded.
        gpu_h: GPU-hours that jobs hold in each of these; shape (recorded_months,).
        zone: in which days begin; None for a log without dates, which has no weekdays.
    """

    runs: HeldRuns
    names: tuple[str, ...]
    book: Contracts
    gpu_types: tuple[str, ...]
    months: Months
    recorded_months: int
    gpu_h: FloatArray
    zone: tzinfo | None
    _parts: dict[int, list[PartOfMonth]] = field(default_factory=dict)
    _billed: dict[tuple[object, ...], list[Usd]] = field(default_factory=dict)

    def span(self, month: int) -> tuple[int, int]:
        """Return begin and end of a month."""
        return int(self.months.edges_us[month]), int(self.months.edges_us[month + 1])

    def as_in_month(self, past: int, month: int, growth: Fraction = UNCHANGED) -> MonthSpend:
        """Return what a month costs if jobs use GPUs as in a past month.

        Args:
            past: place of the past month.
            month: place of the month.
            growth: factor of the GPUs that jobs use at every instant.

        Raises:
            UsageError: use above the pools in a part without a price.
        """
        begin, end = self.span(past)
        usd: Usd = defaultdict(Fraction)
        for part in self._parts_of(month):
            (billed,) = self._bill((begin, end), part, past, month, growth)
            for name, amount in billed.items():
                usd[name] += amount * Fraction(part.end_us - part.begin_us, end - begin)
        return MonthSpend(dict(usd), lambda: self._weeks_as_in(past, month, growth))

    def _weeks_as_in(self, past: int, month: int, growth: Fraction) -> tuple[Usd, ...]:
        """Return what a month costs if jobs use GPUs as in each whole week of a past month."""
        begin, end = self.span(past)
        edges = range(begin, end + 1, WEEK_US)
        weeks: list[Usd] = [defaultdict(Fraction) for _ in edges[1:]]
        for part in self._parts_of(month):
            share = Fraction(part.end_us - part.begin_us, WEEK_US)
            for usd, week in zip(weeks, self._bill(edges, part, past, month, growth), strict=True):
                for name, amount in week.items():
                    usd[name] += amount * share
        return tuple(map(dict, weeks))

    def has_season(self, last: int) -> bool:
        """Return whether `as_weekdays` has the days that it needs."""
        return self.zone is not None and self._season_us(last)[0] >= self.span(0)[0]

    def as_weekdays(self, last: int, month: int) -> MonthSpend:
        """Return what a month costs if each day is as its weekday was in the last 8 weeks.

        Args:
            last: place of the last month known; these weeks end with it.
            month: place of the month.

        Raises:
            UsageError: as `as_in_month`.
        """
        edges = self._season_us(last)
        lengths = [after - before for before, after in pairwise(edges)]
        usd: Usd = defaultdict(Fraction)
        weeks: list[Usd] = [defaultdict(Fraction) for _ in range(SEASON_DAYS // 7)]
        for part in self._parts_of(month):
            days = self._bill(edges, part, last, month)
            for weekday, length_us in enumerate(self._weekdays(edges[-1], part)):
                places = range(weekday, SEASON_DAYS, 7)
                same_us = sum(lengths[place] for place in places)
                for place in places:
                    for name, amount in days[place].items():
                        usd[name] += amount * Fraction(length_us, same_us)
                        weeks[place // 7][name] += amount * Fraction(length_us, lengths[place])
        return MonthSpend(dict(usd), lambda: tuple(map(dict, weeks)))

    def paid_usd(self, month: int) -> Fraction:
        """Return what owned and committed GPUs cost in a month, whoever uses them."""
        begin, end = self.span(month)
        hours = (
            (pool, max(0, min(pool.until_us, end) - max(pool.from_us, begin)))
            for pool in self.book.pools
        )
        return sum(
            (pool.gpus * pool.usd_per_gpu_h * Fraction(us, HOUR_US) for pool, us in hours),
            Fraction(0),
        )

    def _parts_of(self, month: int) -> list[PartOfMonth]:
        if month not in self._parts:
            begin, end = self.span(month)
            inside = [at for at in self.book.changes_us(self.gpu_types) if begin < at < end]
            self._parts[month] = [
                PartOfMonth(first, last, self.book.in_force(first, self.gpu_types))
                for first, last in pairwise((begin, *inside, end))
            ]
        return self._parts[month]

    def _bill(
        self,
        edges: Sequence[int],
        part: PartOfMonth,
        past: int,
        month: int,
        growth: Fraction = UNCHANGED,
    ) -> list[Usd]:
        """Return the dollars of recorded use in each period under the book of a part."""
        key = (edges[0], edges[-1], len(edges), growth, part.book.pools, part.book.prices)
        if key not in self._billed:
            try:
                self._billed[key] = self._billed_use(np.array(edges, np.int64), part.book, growth)
            except UnpricedUse as error:
                raise UsageError(
                    self._unpriced(error.gpu_type, self.months.names[past], month, part)
                ) from error
        return self._billed[key]

    def _billed_use(self, edges: IntArray, book: Contracts, growth: Fraction) -> list[Usd]:
        # GPUs in use times n/d within pools of C are GPUs in use times n within pools of C x d.
        runs = self.runs.only((self.runs.end_us > edges[0]) & (self.runs.start_us < edges[-1]))
        runs = replace(runs, gpus=runs.gpus * growth.numerator)
        pools = [replace(pool, gpus=pool.gpus * growth.denominator) for pool in book.pools]
        book = replace(book, pools=tuple(pools))
        used = {self.runs.gpu_types[code] for code in distinct(runs.gpu_type).tolist()}
        for name in self.gpu_types:
            if name in used and name not in book.gpu_types:
                raise UnpricedUse(name, "")
        periods = usd_by_label(ledger(runs, book, edges), self.names)
        return [
            {name: amount / growth.denominator for name, amount in usd.items()} for usd in periods
        ]

    def _unpriced(self, gpu_type: str, past: str, month: int, part: PartOfMonth) -> str:
        when = f"in {self.months.names[month]}"
        if self.zone is not None:
            when = f"from {time_of(part.begin_us, self.zone):%Y-%m-%d}"
        return (
            f"{self.book.option}: no pay-per-use price of {gpu_type} {when}, where use as in {past}"
            f" is above its pools\n  next: add a [[price]] of {gpu_type}, or --on-demand"
        )

    def _season_us(self, last: int) -> tuple[int, ...]:
        """Return the edges of the last `SEASON_DAYS` days of a month."""
        zone = self.zone
        assert zone is not None
        end = time_of(self.span(last)[1], zone).date()
        days = range(SEASON_DAYS, -1, -1)
        return tuple(midnight_us(end - timedelta(days=back), zone) for back in days)

    def _weekdays(self, season_end_us: int, part: PartOfMonth) -> list[int]:
        """Return how long a part has each weekday, the first that of the begin of the season."""
        zone = self.zone
        assert zone is not None
        lasting = [0] * 7
        first = time_of(season_end_us, zone).date()
        day = time_of(part.begin_us, zone).date()
        while (begin := midnight_us(day, zone)) < part.end_us:
            end = midnight_us(day + timedelta(days=1), zone)
            length_us = max(0, min(end, part.end_us) - max(begin, part.begin_us))
            lasting[(day - first).days % 7] += length_us
            day += timedelta(days=1)
        return lasting


def usd_by_label(entries: Ledger, names: Sequence[str]) -> list[Usd]:
    """Return the dollars of each period by label; those of GPUs that nobody uses are `IDLE`."""
    periods: list[Usd] = [defaultdict(Fraction) for _ in range(entries.edges_us.size - 1)]
    for cell in entries.cells:
        periods[cell.period][IDLE if cell.label is None else names[cell.label]] += cell.usd
    return [dict(usd) for usd in periods]


def gpu_h_of_periods(entries: Ledger) -> list[float]:
    """Return the GPU-hours that jobs hold in each period."""
    hours = [Fraction(0)] * (entries.edges_us.size - 1)
    for cell in entries.cells:
        hours[cell.period] += cell.gpu_h if cell.label is not None else 0
    return list(map(float, hours))


def mean_of(spends: Sequence[MonthSpend]) -> MonthSpend:
    """Return the mean of what a month would cost; it has the weeks of all."""
    usd: Usd = defaultdict(Fraction)
    for spend in spends:
        for name, amount in spend.usd.items():
            usd[name] += amount / len(spends)
    return MonthSpend(dict(usd), lambda: tuple(week for spend in spends for week in spend.weeks()))


def named_types(runs: HeldRuns, names: Mapping[str | None, str | None]) -> HeldRuns:
    """Return runs whose types have the names of a book."""
    return replace(runs, gpu_types=[names[name] or name or UNNAMED for name in runs.gpu_types])
