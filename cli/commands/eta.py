"""``gpuplan eta``: when a job would start, and what would start sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables.eta_tables import backtest_table, eta_headline, eta_tables

if TYPE_CHECKING:
    from gpuplan.planner.studies.eta import StartForecast


def show(study: StartForecast) -> StudyView:
    """Return the forecast as people see it."""
    results = study.results

    tables = tuple(eta_tables(results))
    shown = 2 if study.results.sooner else 1
    if study.request.backtest and results.backtest is not None:
        tables = (*tables[:shown], backtest_table(results.backtest), *tables[shown:])
        shown += 1
    return StudyView(
        headline=eta_headline(results),
        tables=tables,
        answer=tables[:shown],
        notes=study.notes,
        figure=picture("eta:draw_eta", results),
        texts={".toml": lambda _: study.twin_text()},
    )
