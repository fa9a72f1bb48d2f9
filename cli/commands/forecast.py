"""``gpuplan forecast``: GPUs that each group asks for in the next hours, and what can be lent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.forecast_tables import forecast_tables, headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.requests.forecast import ForecastRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.forecast import ForecastResults


def show(study: Answer[ForecastRequest, ForecastResults]) -> StudyView:
    """Return the next hours as people see them."""
    results, request = study.results, study.request

    def draw() -> Figure:
        from gpuplan.cli.figures.forecast import draw_forecast

        return draw_forecast(results.demand)

    tables, answer = forecast_tables(results, request.backtest)
    return StudyView(
        headline=headline(
            results, request.model, low_hours=results.low_hours, backtest=request.backtest
        ),
        tables=tuple(tables),
        answer=answer,
        figure=draw,
    )
