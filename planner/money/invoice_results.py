"""What a reconciliation says, as JSON has it: lines, GPU types, rates and days of an invoice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """One line of an invoice; in each column lines add up to the invoice, to the cent.

    Attributes:
        kind: ``log``, what jobs of the log explain; ``not_in_log``, GPU-hours that are billed and
            in no log; ``unused``, commitments that nobody used; ``unused_capacity``, reserved
            instances that nobody used; ``other``, services without GPUs; ``purchase``, fees of
            commitments; ``correction``, ``credit``, ``adjustment`` and ``tax``.
        name: the GPU type, the SKU, or the commitment; empty for what stands below the charges.
        billed_usd: BilledCost.
        effective_usd: EffectiveCost, amortized.
        share: of the charges; null for purchases and for what stands below the charges.
    """

    kind: str
    name: str
    billed_usd: float
    effective_usd: float
    share: float | None


@dataclass(frozen=True, slots=True)
class InvoiceType:
    """GPU-hours of one type in the log and on the invoice.

    Attributes:
        gpu_type: as the price book or the log names it, else as the invoice does.
        log_gpu_h: GPU-hours of jobs above the GPUs that are owned.
        billed_gpu_h: GPU-hours on the invoice, without those of commitments that nobody used.
        difference_gpu_h: billed less log.
        explained_gpu_h: billed and in the log, by day.
        used_gpu_h: of the billed ones, those that a commitment covers.
        pay_per_use_gpu_h: the other ones.
        unused_gpu_h: of commitments that nobody used.
        effective_usd: of the billed GPU-hours.
        unused_usd: of commitments that nobody used.
    """

    gpu_type: str
    log_gpu_h: float
    billed_gpu_h: float
    difference_gpu_h: float
    explained_gpu_h: float
    used_gpu_h: float
    pay_per_use_gpu_h: float
    unused_gpu_h: float
    effective_usd: float
    unused_usd: float


@dataclass(frozen=True, slots=True)
class InvoiceRate:
    """What a GPU-hour cost on one market.

    Attributes:
        gpu_type: the type.
        market: ``committed``, ``on_demand``, ``spot`` or ``marketplace``.
        unit_usd: the price of a GPU-hour, as the invoice states it or to a millionth.
        gpu_h: GPU-hours billed at it.
        usd: their effective cost.
        usd_per_gpu_h: effective dollars per GPU-hour.
    """

    gpu_type: str
    market: str
    unit_usd: float
    gpu_h: float
    usd: float
    usd_per_gpu_h: float


@dataclass(frozen=True, slots=True)
class InvoiceDay:
    """A charge period in which log and invoice differ by over 5% and by 1 GPU-hour or more.

    Attributes:
        gpu_type: the type.
        begin, end: of the period, UTC; the end is not in it.
        log_gpu_h, billed_gpu_h: GPU-hours.
        difference_gpu_h: billed less log.
        usd: effective dollars of GPU-hours that are billed and not in the log.
    """

    gpu_type: str
    begin: str
    end: str
    log_gpu_h: float
    billed_gpu_h: float
    difference_gpu_h: float
    usd: float


@dataclass(frozen=True, slots=True)
class InvoiceResults:
    """An invoice of several months beside the log.

    Attributes:
        rows: of the files.
        formats: of the files.
        currency: of all amounts.
        begin, end: of its billing periods: the time in which it is compared with the log.
        billed_usd, effective_usd: the invoice, as the sum of its months to the cent.
        charges_usd: effective cost without tax, credits, adjustments and corrections.
        explained_share: share of the charges that jobs of the log explain; null without charges.
        unused_share: of commitments and reserved instances that nobody used.
        not_in_log_share: of GPU-hours that are in no log.
        other_share: of services without GPUs.
        usd_per_gpu_h: effective dollars per GPU-hour billed; null without any.
        log_gpu_h: GPU-hours of the log above those owned, in this time.
        log_usd_at_mean_rate: these GPU-hours at ``usd_per_gpu_h``, at most all that are billed.
        lines: of all months.
        gpu_types: of all months.
        rates: of all months.
        days: where log and invoice differ.
    """

    rows: int
    formats: tuple[str, ...]
    currency: str
    begin: str
    end: str
    billed_usd: float
    effective_usd: float
    charges_usd: float
    explained_share: float | None
    unused_share: float | None
    not_in_log_share: float | None
    other_share: float | None
    usd_per_gpu_h: float | None
    log_gpu_h: float
    log_usd_at_mean_rate: float | None
    lines: tuple[InvoiceLine, ...]
    gpu_types: tuple[InvoiceType, ...]
    rates: tuple[InvoiceRate, ...]
    days: tuple[InvoiceDay, ...]
