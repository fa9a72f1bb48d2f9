"""Bring price lists and histories into one table, and see what GPUs cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.price_formats.format import PriceChoices
from gpuplan.analysis.price_formats.schema import PriceProvenance
from gpuplan.analysis.prices.ingest import PriceAccount, ingest_prices
from gpuplan.analysis.prices.price_table import PriceTable, price_table_of
from gpuplan.analysis.prices.view import PriceView, market
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.requests.prices import PricesRequest
from gpuplan.planner.studies.answer import Answer


@dataclass(frozen=True, slots=True)
class PricesResults:
    """A written price table, and what it says.

    Attributes:
        account: the table and what became of every row.
        view: what sources ask, who is the cheapest, and how GPUs come and go.
        price_table: the prices by source.
    """

    account: Inlined[PriceAccount]
    view: Inlined[PriceView]
    price_table: Hidden[PriceTable]


def prices(
    request: PricesRequest,
    progress: Callable[[float], None] | None = None,
    before_writing: Callable[[PriceTable, PriceView], None] | None = None,
) -> Answer[PricesRequest, PricesResults]:
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
    considered: list[tuple[PriceTable, PriceView]] = []

    def consider(table: pl.DataFrame, provenance: PriceProvenance) -> None:
        price_table = price_table_of(table, provenance, path=request.output)
        _check_used(request, table)
        considered.append((price_table, market(price_table, reference=request.reference)))
        if before_writing is not None:
            before_writing(*considered[-1])

    account = ingest_prices(
        request.sources,
        request.output,
        source_format=request.source_format,
        choices=PriceChoices(
            as_of=request.as_of and as_utc(request.as_of),
            gpu=request.gpu,
            provider=request.provider,
            sampling=request.sampling,
        ),
        limit=request.max_rejects,
        on_progress=progress,
        on_read=consider,  # what cannot be understood as prices is not written
    )
    ((price_table, view),) = considered
    return Answer(
        request=request,
        results=PricesResults(account, view, price_table),
        inputs=tuple(
            InputFile(source.name, source.sha256, source.rows)
            for source in account.provenance.sources
        ),
    )


def _check_used(request: PricesRequest, table: pl.DataFrame) -> None:
    """Raise `UsageError` where ``--gpu`` or ``--provider`` names what no row is of.

    They stand for what a source leaves out, so they have no effect where every source says it.
    """
    gpu_type = None if request.gpu is None else gpu_name(request.gpu)
    options = (
        ("--gpu", "GPU", "gpu_type", gpu_type),
        ("--provider", "provider", "provider", request.provider),
    )
    for flag, thing, column, name in options:
        names = table[column].drop_nulls().unique().sort().to_list()
        if name is not None and name not in names:
            raise UsageError(
                f"{flag} {name} has no effect: every source names its {thing}, {listed(names)}"
            )
