"""Bring price lists and histories into one table, and see what GPUs cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import written_utc
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit
from gpuplan.analysis.price_formats.format import PriceChoices
from gpuplan.analysis.price_formats.schema import SAMPLINGS, PriceProvenance
from gpuplan.analysis.prices.book import PriceBook, book_of
from gpuplan.analysis.prices.ingest import PricesResult, ingest_prices
from gpuplan.analysis.prices.results import PricesResults, prices_results
from gpuplan.analysis.prices.view import PriceView, market
from gpuplan.analysis.reading.rejects import rejects_path


@dataclass(frozen=True, slots=True)
class PricesParameters:
    """The options of a price table, as JSON has them."""

    source_format: str | None
    as_of: str | None
    gpu: str | None
    provider: str | None
    sampling: str | None
    max_rejects: str
    reference: str | None


@dataclass(frozen=True, slots=True)
class PricesRequest:
    """Which price lists and histories to read, how, and where the table goes.

    Attributes:
        sources: files of one format or several, plain or compressed, archives and folders of them.
        output: the price table to write; its name ends in ``.parquet``.
        source_format: name of the format of all sources; None detects that of each.
        as_of: when the prices held, for a list without times.
        gpu: the GPU of a source that names none.
        provider: the provider of a catalogue whose file or folder is not named so.
        sampling: ``snapshot`` or ``change``; None as gpuplan takes it.
        max_rejects: how many rows may be rejected.
        reference: ``provider:kind`` that savings are counted against; None for the most expensive
            on-demand source of each GPU.
    """

    sources: tuple[Path, ...]
    output: Path
    source_format: str | None = None
    as_of: datetime | None = None
    gpu: str | None = None
    provider: str | None = None
    sampling: str | None = None
    max_rejects: Limit = DEFAULT_LIMIT
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.sampling is not None and self.sampling not in SAMPLINGS:
            raise UsageError(f"--sampling {self.sampling}: expected {' or '.join(SAMPLINGS)}")

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads."""
        return self.sources

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes."""
        return (self.output, rejects_path(self.output))

    def check(self) -> None:
        """Check what can be checked before the sources are read: nothing more than the fields."""

    def parameters(self) -> PricesParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        return PricesParameters(
            source_format=self.source_format,
            as_of=written_utc(self.as_of),
            gpu=self.gpu,
            provider=self.provider,
            sampling=self.sampling,
            max_rejects=self.max_rejects.text,
            reference=self.reference,
        )


@dataclass(frozen=True, slots=True)
class PricesStudy:
    """A written price table and what it says.

    Attributes:
        account: the table and what became of every row.
        book: the prices by source.
        view: what sources ask, who is the cheapest, and how GPUs come and go.
    """

    account: PricesResult
    book: PriceBook
    view: PriceView

    @property
    def results(self) -> PricesResults:
        """The numbers as JSON has them."""
        return prices_results(self.account, self.view)


def prices(
    request: PricesRequest,
    progress: Callable[[float], None] | None = None,
    before_writing: Callable[[PriceBook, PriceView], None] | None = None,
) -> PricesStudy:
    """Write the price table and return what it says.

    Args:
        request: what to read.
        progress: called with the share of the bytes read, 0 to 1.
        before_writing: given the prices before the table is written; if it raises, no file is.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the table cannot be written.
        UsageError: the fields of the request do not fit the sources.
    """
    found: list[tuple[PriceBook, PriceView]] = []

    def consider(table: pl.DataFrame, provenance: PriceProvenance) -> None:
        book = book_of(table, provenance, path=request.output)
        found.append((book, market(book, reference=request.reference)))
        if before_writing is not None:
            before_writing(*found[-1])

    account = ingest_prices(
        request.sources,
        request.output,
        source_format=request.source_format,
        choices=PriceChoices(
            as_of=request.as_of,
            gpu=request.gpu,
            provider=request.provider,
            sampling=request.sampling,
        ),
        limit=request.max_rejects,
        on_progress=progress,
        on_read=consider,  # what cannot be understood as prices is not written
    )
    ((book, view),) = found
    return PricesStudy(account, book, view)
