"""What a bill says, as JSON has it: rows, GPU types, months, and what changed."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from gpuplan.planner.money.invoice_results import (
    InvoiceLine,
    InvoiceRate,
    InvoiceResults,
    InvoiceType,
)


@dataclass(frozen=True, slots=True)
class BillPart:
    """The second split of a row.

    Attributes:
        name: the label; ``(none)`` where the log names none.
        usd: its part of the bill.
        gpu_h: GPU-hours that it holds.
    """

    name: str
    usd: float
    gpu_h: float


@dataclass(frozen=True, slots=True)
class BillGroup:
    """One row of a bill.

    Attributes:
        name: the group, user, class or GPU type; ``(none)`` where the log names none, and
            ``(idle)`` for GPUs that are paid for and that nobody uses.
        usd_per_month: its part of the bill of a month.
        gpu_h: GPU-hours that it holds.
        jobs: that held GPUs.
        mean_gpus: GPU-hours over the window; of ``(idle)`` owned and committed GPUs in the mean,
            less those of them in use.
        share: of the whole bill; null where that is 0.
        usd: its part of the bill.
        idle_usd, idle_usd_per_month: what of it pays for idle GPUs.
        parts: its rows of a bill by two columns.
    """

    name: str
    usd_per_month: float
    gpu_h: float
    jobs: int
    mean_gpus: float
    share: float | None
    usd: float
    idle_usd: float
    idle_usd_per_month: float
    parts: tuple[BillPart, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class BillMarket:
    """What of a GPU type was used and paid for on one market.

    Attributes:
        market: ``owned``, ``committed``, or the kind of a pay-per-use price.
        gpu_h: GPU-hours used.
        usd: paid for them.
        idle_gpu_h: GPU-hours of a pool that nobody used.
        idle_usd: paid for them.
    """

    market: str
    gpu_h: float
    usd: float
    idle_gpu_h: float
    idle_usd: float


@dataclass(frozen=True, slots=True)
class BillType:
    """The bill of one GPU type.

    Attributes:
        gpu_type: the type; ``unknown`` for jobs that name none.
        usd_per_gpu_h: its pay-per-use price at the end; null where it has none.
        price_source: where the price comes from.
        gpus: owned and committed at the end; null where there never are any.
        gpu_h: GPU-hours that jobs hold.
        mean_gpus: GPU-hours over the window.
        peak_gpus: most GPUs held at once.
        usd_per_month: its part of the bill of a month.
        idle_usd_per_month: what of it pays for idle GPUs.
        usd, idle_usd: the same of the period.
        markets: the same by market.
    """

    gpu_type: str
    usd_per_gpu_h: float | None
    price_source: str
    gpus: int | None
    gpu_h: float
    mean_gpus: float
    peak_gpus: float
    usd_per_month: float
    idle_usd_per_month: float
    usd: float
    idle_usd: float
    markets: tuple[BillMarket, ...]


@dataclass(frozen=True, slots=True)
class MonthPart:
    """What one group pays in one calendar month.

    Attributes:
        name: as that of the group.
        usd: the amount.
        parts: its rows of a bill by two columns.
    """

    name: str
    usd: float
    parts: tuple[BillPart, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class BillMonth:
    """One month of the period.

    Attributes:
        name: ``2017-10``; ``month 1`` where the log has no dates.
        hours: billed in the month: of the period, or with ``--cluster`` of the log.
        is_partial: whether the period has not the whole month.
        usd: the bill of these hours.
        idle_usd: of it, that of GPUs that nobody uses.
        groups: who pays.
        billed_usd, effective_usd: the invoice of the month; with ``--invoice`` alone, as all below.
        charges_usd: effective cost without tax, credits, adjustments and corrections.
        explained_share, unused_share, not_in_log_share, other_share: of the charges, what jobs of
            the log explain, what nobody used, what is in no log, and other services; null without
            charges.
        lines: of the invoice; in both columns they add up to it.
        invoice_types: GPU-hours in the log and on the invoice.
        rates: what GPU-hours cost.
    """

    name: str
    hours: float
    is_partial: bool
    usd: float
    idle_usd: float
    groups: tuple[MonthPart, ...]
    billed_usd: float | UnsetType = UNSET
    effective_usd: float | UnsetType = UNSET
    charges_usd: float | UnsetType = UNSET
    explained_share: float | UnsetType | None = UNSET
    unused_share: float | UnsetType | None = UNSET
    not_in_log_share: float | UnsetType | None = UNSET
    other_share: float | UnsetType | None = UNSET
    lines: tuple[InvoiceLine, ...] | UnsetType = UNSET
    invoice_types: tuple[InvoiceType, ...] | UnsetType = UNSET
    rates: tuple[InvoiceRate, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class BillUse:
    """What one label uses, or leaves idle, on one market: of these `gpuplan diff` makes its parts.

    Attributes:
        month: ``2017-10``; null for the whole period, where that has more than three months.
        name: as that of the group.
        part: the second label of a bill by two columns; empty otherwise.
        gpu_type: the type.
        market: ``owned``, ``committed``, the kind of a pay-per-use price, or ``idle`` for a share
            of idle GPUs.
        gpu_h: GPU-hours.
        usd: exact, before it is rounded to cents.
    """

    month: str | None
    name: str
    part: str
    gpu_type: str
    market: str
    gpu_h: float
    usd: float


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """What changed for one label or GPU type, in dollars of use.

    Attributes:
        name: the label or the type.
        usd: the change.
        before_usd, after_usd: in the two months.
        price_usd: of other prices per GPU-hour.
        calendar_usd: of more or fewer days.
        volume_usd: of more or fewer GPU-hours a day.
        mix_usd: the rest: other GPU types and markets.
        new, gone: whether it has no GPU-hours in the first month, or in the second.
    """

    name: str
    usd: float
    before_usd: float
    after_usd: float
    price_usd: float
    calendar_usd: float
    volume_usd: float
    mix_usd: float
    new: bool
    gone: bool


@dataclass(frozen=True, slots=True)
class ChangeResults:
    """What changed between two months; price, calendar, volume and mix add up to the use.

    Attributes:
        before, after: the months.
        before_usd, after_usd: the whole bills.
        usd: the change of the whole bill: that of use, and that of idle GPUs.
        use_usd: the change of what GPUs in use cost.
        price_usd: of it, other prices per GPU-hour.
        calendar_usd: of it, more or fewer days.
        volume_usd: of it, more or fewer GPU-hours a day.
        mix_usd: the rest: other labels, GPU types and markets.
        idle_usd: the change of what GPUs cost that nobody uses.
        idle_per_day_change_share: the change of that a day, as a share of before; null without any
            before.
        new_usd: what labels pay that have no GPU-hours in the first month.
        gone_usd: what labels paid that have none in the second.
        groups, gpu_types: the same by label and by GPU type.
        between_groups_usd, between_types_usd: what of the volume lies between the rows; as much of
            the mix, with the other sign.
    """

    before: str
    after: str
    before_usd: float
    after_usd: float
    usd: float
    use_usd: float
    price_usd: float
    calendar_usd: float
    volume_usd: float
    mix_usd: float
    idle_usd: float
    idle_per_day_change_share: float | None
    new_usd: float
    gone_usd: float
    groups: tuple[ChangeRow, ...]
    gpu_types: tuple[ChangeRow, ...]
    between_groups_usd: float
    between_types_usd: float


@dataclass(frozen=True, slots=True)
class BillResults:
    """The bill of a log.

    Attributes:
        usd_per_month: the whole bill, scaled to a month of 730.5 hours.
        used_usd_per_month: of GPUs that jobs hold.
        idle_usd_per_month: of GPUs that are paid for and that nobody uses; null without such.
        idle_share: share of owned and committed GPUs that nobody uses, in the mean of the time that
            ``usd_per_month`` is of; null without such.
        idle_usd_share: share of the bill that pays for them; null without such, or without a bill.
        usd: the whole bill.
        idle_usd: of it, that of GPUs that nobody uses; null without a pool.
        by: what the bill is split by.
        begin, end: of the period, UTC; the end is not in it.
        jobs: billed.
        window_s: first submission to last submission or end, or the period asked for.
        gpu_h: GPU-hours that jobs hold.
        mean_gpus: GPU-hours over the window.
        cluster_gpus: GPUs owned and committed at the end; null without such.
        mean_cluster_gpus: the same in the mean of the period; null without such.
        groups: the rows of the bill, idle GPUs last; they add up to it.
        gpu_types: the same by GPU type.
        months: the bill by month.
        uses: the bill by label, GPU type and market.
        change: what changed between the two months of ``--months``.
        invoice: the invoice beside the log.
    """

    usd_per_month: float
    used_usd_per_month: float
    idle_usd_per_month: float | None
    idle_share: float | None
    idle_usd_share: float | None
    usd: float
    idle_usd: float | None
    by: str
    begin: str
    end: str
    jobs: int
    window_s: float
    gpu_h: float
    mean_gpus: float
    cluster_gpus: int | None
    mean_cluster_gpus: float | None
    groups: tuple[BillGroup, ...]
    gpu_types: tuple[BillType, ...]
    months: tuple[BillMonth, ...]
    uses: tuple[BillUse, ...]
    change: ChangeResults | UnsetType = UNSET
    invoice: InvoiceResults | UnsetType = UNSET
