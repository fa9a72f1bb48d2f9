"""What prices say, as JSON has it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.ingest import PricesResult
from gpuplan.analysis.prices.offers import Availability, Offer
from gpuplan.analysis.prices.supply import Supply
from gpuplan.analysis.prices.view import Lead, PriceView

IN_USD = ("median", "mean", "least", "most", "p25", "p75")
"""Fields of an offer whose results have their unit in their names."""


@dataclass(frozen=True, slots=True)
class OfferResults:
    """A source of GPUs: one provider, GPU and kind.

    Attributes:
        provider: who rents them.
        gpu_type: the GPU.
        kind: of renting.
        rows: its prices.
        regions: regions that they are of; 0 where none is named.
        sampling: ``snapshot``, ``change`` or ``list``.
        variation: standard deviation of the price over its mean.
        daily_volatility: standard deviation of the daily change of the logarithm of the price.
        listed_share: the share of the hours with anything known of this GPU in which it has a
            price.
        first: instant of its first price.
        last: instant until which its last price is known to hold.
        age_days: days from there to the date that the prices are used for.
        begins_after_days: days from that date to its first price.
        available: how many GPUs it has.
        saving: share saved against the reference of its GPU.
        median_usd_per_gpu_h: median price.
        mean_usd_per_gpu_h: mean price.
        least_usd_per_gpu_h: lowest price.
        most_usd_per_gpu_h: highest price.
        p25_usd_per_gpu_h: 25th percentile of the price.
        p75_usd_per_gpu_h: 75th percentile of the price.
        stale: whether its last price is too old.
    """

    provider: str
    gpu_type: str
    kind: str
    rows: int
    regions: int
    sampling: str
    variation: float | None
    daily_volatility: float | None
    listed_share: float | None
    first: datetime | None
    last: datetime | None
    age_days: float | None
    begins_after_days: float | None
    available: Availability | None
    saving: float | None
    median_usd_per_gpu_h: float | None
    mean_usd_per_gpu_h: float | None
    least_usd_per_gpu_h: float
    most_usd_per_gpu_h: float
    p25_usd_per_gpu_h: float | None
    p75_usd_per_gpu_h: float | None
    stale: bool


@dataclass(frozen=True, slots=True)
class LeadShare:
    """How long a source is the cheapest of its GPU.

    Attributes:
        provider: who rents it.
        kind: of renting.
        share_hours: share of the hours in which it is the cheapest.
    """

    provider: str
    kind: str
    share_hours: float


@dataclass(frozen=True, slots=True)
class CheapestResults:
    """Who is the cheapest source of a GPU, hour by hour.

    Attributes:
        gpu_type: the GPU.
        hours: hours with a price.
        mean_usd_per_gpu_h: mean of the lowest price.
        shares: how long each source is the cheapest.
        leads: the stretches of time of each.
    """

    gpu_type: str
    hours: int
    mean_usd_per_gpu_h: float
    shares: tuple[LeadShare, ...]
    leads: tuple[Lead, ...]


@dataclass(frozen=True)
class PriceViewResults:
    """What sources ask for GPUs.

    Attributes:
        source: the price table, or ``builtin``.
        references: GPU -> ``provider:kind`` that savings are counted against.
        offers: every source.
        cheapest: who is the cheapest when, per GPU.
        supply: how GPUs come and go.
    """

    source: str
    references: dict[str, str]
    offers: tuple[OfferResults, ...]
    cheapest: tuple[CheapestResults, ...]
    supply: tuple[Supply, ...]


@dataclass(frozen=True, slots=True)
class PriceSourceResults:
    """One input of a price table.

    Attributes:
        path: the file.
        source_format: format it was read in.
        sampling: ``snapshot``, ``change`` or ``mixed``.
        rows: prices found in it.
    """

    path: str
    source_format: str
    sampling: str
    rows: int


@dataclass(frozen=True)
class PriceAccount:
    """What became of the rows of price lists; read = kept + skipped + rejected.

    Attributes:
        rows_read: rows found.
        rows_kept: rows in the table.
        rows_skipped: rows that are not prices.
        rows_rejected: rows that cannot be used.
        rows_without_price: rows of availability alone.
        skipped_by_reason: skipped rows by reason.
        rejected_by_reason: rejected rows by reason.
        first_time: instant of the first price.
        last_time: instant of the last price.
        sources: the inputs.
        output: the table.
        rejects_file: the rejected rows; null where there are none.
        notes: what a reader of the table should know.
    """

    rows_read: int
    rows_kept: int
    rows_skipped: int
    rows_rejected: int
    rows_without_price: int
    skipped_by_reason: dict[str, int]
    rejected_by_reason: dict[str, int]
    first_time: str
    last_time: str
    sources: tuple[PriceSourceResults, ...]
    output: str
    rejects_file: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PricesResults(PriceViewResults, PriceAccount):  # in JSON the account comes first
    """A written price table, and what it says."""


def view_results(view: PriceView) -> PriceViewResults:
    """Return what sources ask, as JSON has it."""
    return PriceViewResults(
        source=view.source,
        references=view.references,
        offers=tuple(_offer(offer) for offer in view.offers),
        cheapest=tuple(
            CheapestResults(
                gpu_type=cheapest.gpu_type,
                hours=cheapest.hours,
                mean_usd_per_gpu_h=cheapest.mean_usd_per_gpu_h,
                shares=tuple(LeadShare(*share) for share in cheapest.shares),
                leads=cheapest.leads,
            )
            for cheapest in view.cheapest
        ),
        supply=view.supply,
    )


def _offer(offer: Offer) -> OfferResults:
    plain = {name: value for name, value in asdict(offer).items() if name not in IN_USD}
    usd = {f"{name}_usd_per_gpu_h": getattr(offer, name) for name in IN_USD}
    return OfferResults(**plain | {"available": offer.available} | usd, stale=offer.is_stale)


def prices_results(account: PricesResult, view: PriceView) -> PricesResults:
    """Return what became of every row and what sources ask, as JSON has it."""
    provenance, times = account.provenance, account.prices["timestamp"]
    return PricesResults(
        rows_read=provenance.rows_read,
        rows_kept=provenance.rows_kept,
        rows_skipped=sum(provenance.rows_skipped.values()),
        rows_rejected=sum(provenance.rows_rejected.values()),
        rows_without_price=account.prices[PRICE].null_count(),
        skipped_by_reason=provenance.rows_skipped,
        rejected_by_reason=provenance.rows_rejected,
        first_time=times[0].isoformat(),
        last_time=times[-1].isoformat(),
        sources=tuple(
            PriceSourceResults(source.name, source.source_format, source.sampling, source.rows)
            for source in provenance.sources
        ),
        output=str(account.output),
        rejects_file=None if account.rejects_file is None else str(account.rejects_file),
        notes=tuple(provenance.notes),
        **vars(view_results(view)),
    )
