"""What changed between two bills: prices, the length of the periods, volume, and the mix.

A cell is a label on a GPU type and market, with ``q`` GPU-hours at ``p = dollars / q``. The change
of the dollars of use is exactly ``price + calendar + volume + mix``: ``price = sum q1 (p1 - p0)``;
with ``Q`` and ``P`` the hours and the mean price of all cells, ``calendar = Q0 P0 (days1 / days0 -
1)`` and ``volume = (Q1 - Q0 days1 / days0) P0``; the rest is mix, a move to a commitment too. Idle
GPUs are a line of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.planner.money.bill import BillCell, grouped, total_h, total_usd
from gpuplan.planner.money.bill_results import BillUse, ChangeResults, ChangeRow

ZERO = Fraction(0)
ROW_USD = (
    "usd", "before_usd", "after_usd", "price_usd", "calendar_usd", "volume_usd", "mix_usd",
)  # fmt: skip
"""Dollars of a `PartsOfChange` that a `ChangeRow` has."""


@dataclass(frozen=True, slots=True)
class ComparedBill:
    """One of two bills.

    Attributes:
        name: its period, such as ``2026-03``.
        usd: the whole bill, to the cent.
        length: of the period, in any unit that both have.
        cells: the bill.
    """

    name: str
    usd: float
    length: Fraction
    cells: Sequence[BillCell]

    def split(self) -> tuple[list[BillCell], Fraction]:
        """Return the cells of GPUs in use, and the dollars of idle ones."""
        used = [cell for cell in self.cells if not cell.is_idle]
        return used, total_usd(self.cells) - total_usd(used)


@dataclass(frozen=True, slots=True)
class PartsOfChange:
    """A change of dollars and its parts; see the module.

    Attributes:
        before_usd, after_usd: in the two periods.
        price_usd, calendar_usd, volume_usd, mix_usd: add up to the change.
        before_h, after_h: GPU-hours.
    """

    before_usd: Fraction
    after_usd: Fraction
    price_usd: Fraction
    calendar_usd: Fraction
    volume_usd: Fraction
    mix_usd: Fraction
    before_h: Fraction
    after_h: Fraction

    @property
    def usd(self) -> Fraction:
        """The change."""
        return self.after_usd - self.before_usd


def change_results(before: ComparedBill, after: ComparedBill) -> ChangeResults:
    """Return what changed between two bills."""
    (old, idle_before_usd), (new, idle_after_usd) = before.split(), after.split()
    lengthening = after.length / before.length
    use = parts_of_change(old, new, lengthening)
    labels = change_by(old, new, lengthening, lambda cell: cell.name)
    types = change_by(old, new, lengthening, lambda cell: cell.gpu_type)
    idle_usd = idle_after_usd - idle_before_usd
    rows = _rows(labels)
    return ChangeResults(
        before=before.name,
        after=after.name,
        before_usd=before.usd,
        after_usd=after.usd,
        usd=_usd(use.usd + idle_usd),
        use_usd=_usd(use.usd),
        price_usd=_usd(use.price_usd),
        calendar_usd=_usd(use.calendar_usd),
        volume_usd=_usd(use.volume_usd),
        mix_usd=_usd(use.mix_usd),
        idle_usd=_usd(idle_usd),
        idle_per_day_change_share=(
            float(idle_after_usd / (idle_before_usd * lengthening) - 1) if idle_before_usd else None
        ),
        new_usd=sum((row.after_usd for row in rows if row.new), 0.0),
        gone_usd=sum((row.before_usd for row in rows if row.gone), 0.0),
        groups=rows,
        gpu_types=_rows(types),
        between_groups_usd=_usd(use.volume_usd - _volume_usd(labels)),
        between_types_usd=_usd(use.volume_usd - _volume_usd(types)),
    )


def _usd(usd: Fraction) -> float:
    """Return dollars without what prices lose in binary, far below a cent."""
    return round(float(usd), 9) + 0.0


def _volume_usd(rows: Mapping[str, PartsOfChange]) -> Fraction:
    return sum((row.volume_usd for row in rows.values()), ZERO)


def _rows(rows: Mapping[str, PartsOfChange]) -> tuple[ChangeRow, ...]:
    """Return rows of a change, the greatest first."""
    shown = (
        ChangeRow(
            name=name,
            **{dollars: _usd(getattr(row, dollars)) for dollars in ROW_USD},
            new=not row.before_h,
            gone=not row.after_h,
        )
        for name, row in rows.items()
    )
    return tuple(sorted(shown, key=lambda row: (-abs(row.usd), row.name)))


def used_cells(entries: Iterable[BillUse]) -> list[BillCell]:
    """Return the cells of a bill read from JSON."""
    return [
        BillCell(
            name=entry.name,
            part=entry.part,
            gpu_type=entry.gpu_type,
            market=entry.market,
            period=0,
            gpu_h=Fraction(entry.gpu_h),
            usd=Fraction(entry.usd),
            cents=0,
        )
        for entry in entries
    ]


def change_by(
    before: Sequence[BillCell],
    after: Sequence[BillCell],
    lengthening: Fraction,
    key: Callable[[BillCell], str],
) -> dict[str, PartsOfChange]:
    """Return the parts of the change of each label or GPU type; arguments as `parts_of_change`."""
    old, new = grouped(before, key), grouped(after, key)
    return {
        name: parts_of_change(old.get(name, ()), new.get(name, ()), lengthening)
        for name in sorted({*old, *new})
    }


def parts_of_change(
    before: Sequence[BillCell], after: Sequence[BillCell], lengthening: Fraction
) -> PartsOfChange:
    """Return the parts of a change, exact.

    Args:
        before, after: cells of GPUs in use.
        lengthening: length of the second period over that of the first.
    """
    old, new = _amounts(before), _amounts(after)
    price = quantity = ZERO
    for cell in {**old, **new}:
        (q0, c0), (q1, c1) = old.get(cell, (ZERO, ZERO)), new.get(cell, (ZERO, ZERO))
        p1 = c1 / q1 if q1 else ZERO
        p0 = c0 / q0 if q0 else p1
        if q1:
            price += q1 * (p1 - p0)
        quantity += (q1 - q0) * p0
    before_h, after_h = total_h(before), total_h(after)
    before_usd, after_usd = total_usd(before), total_usd(after)
    mean = before_usd / before_h if before_h else after_usd / after_h if after_h else ZERO
    calendar = before_h * mean * (lengthening - 1)
    volume = (after_h - before_h * lengthening) * mean
    return PartsOfChange(
        before_usd=before_usd,
        after_usd=after_usd,
        price_usd=price,
        calendar_usd=calendar,
        volume_usd=volume,
        mix_usd=quantity - calendar - volume,
        before_h=before_h,
        after_h=after_h,
    )


def _amounts(
    cells: Sequence[BillCell],
) -> dict[tuple[str, str, str, str], tuple[Fraction, Fraction]]:
    """Return GPU-hours and dollars of cells by label, part, GPU type and market."""
    same = grouped(cells, lambda cell: (cell.name, cell.part, cell.gpu_type, cell.market))
    return {key: (total_h(group), total_usd(group)) for key, group in same.items()}
