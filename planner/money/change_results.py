"""What changed between two bills, as JSON has it: of two months of one bill, or of two bills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.planner.money.bill import BillCell
from gpuplan.planner.money.bill_results import BillUse, ChangeResults, ChangeRow
from gpuplan.planner.money.change import PartsOfChange, bill_change


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


def change_results(before: ComparedBill, after: ComparedBill) -> ChangeResults:
    """Return what changed between two bills."""
    change = bill_change(before.cells, after.cells, after.length / before.length)
    use = change.use
    idle_usd = change.idle_after_usd - change.idle_before_usd
    rows = _rows(change.labels)
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
        new_usd=sum((row.after_usd for row in rows if row.new), 0.0),
        gone_usd=sum((row.before_usd for row in rows if row.gone), 0.0),
        groups=rows,
        gpu_types=_rows(change.gpu_types),
        between_groups_usd=_usd(change.between_labels[0]),
        between_types_usd=_usd(change.between_types[0]),
    )


def _usd(usd: Fraction) -> float:
    """Return dollars without what prices lose in binary, far below a cent."""
    return round(float(usd), 9) + 0.0


def _rows(rows: Mapping[str, PartsOfChange]) -> tuple[ChangeRow, ...]:
    """Return rows of a change, the greatest first."""
    shown = [
        ChangeRow(
            name=name,
            usd=_usd(row.usd),
            before_usd=_usd(row.before_usd),
            after_usd=_usd(row.after_usd),
            price_usd=_usd(row.price_usd),
            calendar_usd=_usd(row.calendar_usd),
            volume_usd=_usd(row.volume_usd),
            mix_usd=_usd(row.mix_usd),
            new=not row.before_h,
            gone=not row.after_h,
        )
        for name, row in rows.items()
    ]
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
