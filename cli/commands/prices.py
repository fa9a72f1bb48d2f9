"""``gpuplan prices``: bring price lists, price histories and availability into one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.prices.bands import bands
from gpuplan.analysis.storage.files import atomic_output, refuse_overwrite
from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import StudyView, cells_table, picture, table
from gpuplan.cli.tables.price_tables import has_changed, market_tables, show_price, snapshot_note
from gpuplan.planner.studies.prices import prices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.prices.offers import Offer
    from gpuplan.analysis.prices.price_table import PriceTable
    from gpuplan.analysis.prices.view import PriceView
    from gpuplan.planner.requests.prices import PricesRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.prices import PricesResults


GPUS_NAMED, OFFERS_SHOWN = 3, 24


def run(
    request: PricesRequest,
    progress: Callable[[float], None],
    pictures: Sequence[Path] = (),
) -> Answer[PricesRequest, PricesResults]:
    """Write the price table and the pictures: a picture gets its name after the table is written.

    So either all files appear or none.
    """

    def draw(price_table: PriceTable, view: PriceView) -> None:
        from gpuplan.cli.figures.style import save

        refuse_overwrite(pictures, (Path(source.name) for source in price_table.provenance.sources))
        for path in pictures:
            save(_figure(price_table, view), drawn.enter_context(atomic_output(path)))

    with ExitStack() as drawn:
        study = prices(request, progress, draw if pictures else None)
    for path in pictures:
        messages.note(f"wrote {path}")
    return study


def show(study: Answer[PricesRequest, PricesResults]) -> StudyView:
    """Return the prices by source as people see them."""
    account, price_table, view = (
        study.results.account,
        study.results.price_table,
        study.results.view,
    )
    facts = [
        (key, value) for key, value in plain(account).items() if not isinstance(value, dict | list)
    ]
    tables = list(market_tables(view))
    answer = [replace(tables[0], most=OFFERS_SHOWN)] if tables else []
    tables.append(cells_table("Price table", "field value", facts))
    headers = {"path": "source", "source_format": "format", "sampling": "sampling", "rows": "rows"}
    tables.append(table("Sources", account.sources, headers))
    if account.rows_rejected:
        rejected = account.rejected_by_reason.items()
        tables.append(cells_table("Rejected rows", "reason rows", rejected))
    if account.notes:
        tables.append(cells_table("Notes", "note", [(note,) for note in account.notes]))
    unpriced, kept = account.rows_without_price, list[str]()
    if unpriced < account.rows_kept:
        priced = counted(account.rows_kept - unpriced, "price")
        kept.append(f"{priced} of {counted(len(view.offers), 'source')}")
    if unpriced:
        kept.append(f"{counted(unpriced, 'count')} of availability without a price")
    unused = f"{counted(account.rows_rejected, 'row')} cannot be used; see {account.rejects_file}"
    return StudyView(
        tables=tuple(tables),
        headline=_headline(view, " and ".join(kept), str(account.output)),
        notes=snapshot_note(view.offers),
        warnings=(unused,) if account.rows_rejected else (),
        answer=tuple(answer) or None,
        figure=lambda: _figure(price_table, view),
    )


def _headline(view: PriceView, kept: str, output: str) -> str:
    """Return the cheapest source of each GPU, and what was written where."""
    least: dict[str, tuple[float, Offer]] = {}
    for offer in view.offers:
        usd = offer.latest_usd_per_gpu_h
        if usd is not None and (offer.gpu_type not in least or usd < least[offer.gpu_type][0]):
            least[offer.gpu_type] = usd, offer
    shown = [
        f"{gpu} at {_price(usd)} per GPU-hour ({offer.provider} {offer.kind.replace('_', '-')}"
        f"{_before(offer)})"
        for gpu, (usd, offer) in list(least.items())[:GPUS_NAMED]
    ]
    more = len(least) - len(shown)
    lead = (
        f"Cheapest by latest price: {', '.join(shown)}{f', {more} more GPUs' if more > 0 else ''}"
    )
    return f"{lead}. {kept} in {output}." if shown else f"{kept} in {output}."


def _before(offer: Offer) -> str:
    """Return the mean of a price that was another one before, and the time that it is of."""
    if offer.first is None or offer.period_end is None or not has_changed(offer):
        return ""
    mean, begin, end = offer.period_mean_usd_per_gpu_h, offer.first, offer.period_end
    return f"; {_price(mean or 0.0)} in the mean from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"


def _price(usd: float) -> str:
    if usd == round(usd, 2):
        return f"${usd:,.0f}" if usd == round(usd) else f"${usd:,.2f}"
    return f"${show_price(usd)}"


def _figure(price_table: PriceTable, view: PriceView) -> Figure:
    return picture("prices:draw_prices", bands(price_table, view.hourly))()
