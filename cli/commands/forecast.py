"""``gpuplan forecast``: GPUs of the next hours and what can be lent, or what months will cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables import spend_tables as spend
from gpuplan.cli.tables.forecast_tables import forecast_tables, headline
from gpuplan.planner.money.spend.results import SpendResults

if TYPE_CHECKING:
    from gpuplan.planner.requests.forecast import ForecastRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.forecast import ForecastResults


def show(study: Answer[ForecastRequest, ForecastResults | SpendResults]) -> StudyView:
    """Return the next hours, or what the next months cost, as people see them."""
    if isinstance(study.results, SpendResults):
        return _spend(study.results, study.request.backtest)
    return _demand(study.results, study.request)


def _demand(results: ForecastResults, request: ForecastRequest) -> StudyView:

    tables, answer = forecast_tables(results, request.backtest)
    return StudyView(
        headline=headline(
            results, request.model, low_hours=results.low_hours, backtest=request.backtest
        ),
        tables=tuple(tables),
        answer=answer,
        figure=picture("forecast:draw_forecast", results.demand),
    )


def _spend(results: SpendResults, backtest: bool) -> StudyView:

    models = spend.models_table(results)
    tested = (spend.backtest_table(results),) if results.backtest else ()
    return StudyView(
        title="What the next months cost",
        headline=spend.spend_headline(results),
        tables=(
            spend.spend_table(results, is_full=True),
            models,
            *tested,
            spend.history_table(results),
        ),
        answer=(spend.spend_table(results), *((models,) if backtest else ())),
        csv=lambda: spend.spend_rows_table(results),
        figure=picture("spend:draw_spend", results),
    )
