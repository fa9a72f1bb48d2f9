"""What changed between two bills: prices, the length of the periods, volume, and the mix.

A cell is a label on a GPU type and market, with ``q`` GPU-hours at ``p = dollars / q``. The change
of the dollars of use is exactly ``price + calendar + volume + mix``: ``price = sum q1 (p1 - p0)``;
with ``Q`` and ``P`` the hours and the mean price of all cells, ``calendar = Q0 P0 (days1 / days0 -
1)`` and ``volume = (Q1 - Q0 days1 / days0) P0``; the rest is mix, a move to a commitment too. Idle
GPUs are a line of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.planner.money.bill import BillCell, grouped, total_h, total_usd

ZERO = Fraction(0)


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


@dataclass(frozen=True, slots=True)
class BillChange:
    """What changed between two bills.

    Attributes:
        use: of all GPUs that jobs use.
        labels, gpu_types: by label and by GPU type.
        between_labels, between_types: volume and mix that lie between the rows, equal and opposite:
            that of ``use`` less those of the rows.
        idle_before_usd, idle_after_usd: paid for GPUs that nobody uses.
    """

    use: PartsOfChange
    labels: Mapping[str, PartsOfChange]
    gpu_types: Mapping[str, PartsOfChange]
    between_labels: tuple[Fraction, Fraction]
    between_types: tuple[Fraction, Fraction]
    idle_before_usd: Fraction
    idle_after_usd: Fraction


def bill_change(
    before: Sequence[BillCell], after: Sequence[BillCell], lengthening: Fraction
) -> BillChange:
    """Return what changed between two bills.

    Args:
        before, after: their cells.
        lengthening: length of the second period over that of the first.
    """
    used_before, used_after = ([c for c in cells if not c.is_idle] for cells in (before, after))
    use = _parts(used_before, used_after, lengthening)
    labels = _by(used_before, used_after, lengthening, lambda cell: cell.name)
    types = _by(used_before, used_after, lengthening, lambda cell: cell.gpu_type)
    return BillChange(
        use=use,
        labels=labels,
        gpu_types=types,
        between_labels=_between(use, labels),
        between_types=_between(use, types),
        idle_before_usd=total_usd([cell for cell in before if cell.is_idle]),
        idle_after_usd=total_usd([cell for cell in after if cell.is_idle]),
    )


def _by(
    before: Sequence[BillCell],
    after: Sequence[BillCell],
    lengthening: Fraction,
    key: Callable[[BillCell], str],
) -> dict[str, PartsOfChange]:
    old, new = grouped(before, key), grouped(after, key)
    return {
        name: _parts(old.get(name, ()), new.get(name, ()), lengthening)
        for name in sorted({*old, *new})
    }


def _between(use: PartsOfChange, rows: Mapping[str, PartsOfChange]) -> tuple[Fraction, Fraction]:
    volume = sum((row.volume_usd for row in rows.values()), ZERO)
    mix = sum((row.mix_usd for row in rows.values()), ZERO)
    return use.volume_usd - volume, use.mix_usd - mix


def _parts(
    before: Sequence[BillCell], after: Sequence[BillCell], lengthening: Fraction
) -> PartsOfChange:
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
