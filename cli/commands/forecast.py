"""``gpuplan forecast``: GPUs that each group asks for in the next hours, and what can be lent."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.completion import demand_models, one_of
from gpuplan.cli.options.replays import Spot
from gpuplan.cli.options.shared_options import DATE_FORMATS, OutputWithoutRows, TraceChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.forecast_request import ForecastRequest


def forecast(
    trace: Annotated[
        Path,
        typer.Argument(
            help="A trace or a job log; or a CSV of hourly demand: hour or time, then one column "
            "of GPUs per group.",
            show_default=False,
            metavar="TRACE|LOG|CSV",
        ),
    ],
    choice: TraceChoice,
    by: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Forecast each of these on its own: group, user, job_class, gpu_type, all, or a "
            "column kept by --keep. GPU types are pools of their own.",
            metavar="WHAT",
            autocompletion=one_of(lambda: ("group", "user", "job_class", "gpu_type", "all")),
        ),
    ] = "group",
    horizon: Annotated[
        str,
        COMMON,
        typer.Option(help="Hours ahead, 1h to 24h.", metavar="TIME"),
    ] = "4h",
    at: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Forecast from this hour on, of the hours before it: a time (UTC), or an hour "
            "number where the trace has no calendar. Default: the end of the trace.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    backtest: Annotated[
        bool,
        COMMON,
        typer.Option("--backtest", help="Show how good each model was on the last 20% of hours."),
    ] = False,
    model: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Model: auto (the best in validation), last-value, seasonal-24h, seasonal-168h, "
            "last-week-peak, dlinear, or orglinear.",
            metavar="NAME",
            autocompletion=one_of(demand_models),
        ),
    ] = "auto",
    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs of the cluster: 512, 64x8, or by GPU type A100=432x8,A10=2494 (of --by "
            "gpu_type; only these are lent). Default: the most that jobs held at once so far.",
            metavar="SHAPE",
            show_default=False,
        ),
    ] = None,
    spot: Spot = None,
    holidays: Annotated[
        str | None,
        typer.Option(
            help="Days on which demand differs, for orglinear: 2026-12-25,2026-12-26, or a file "
            "with one date per line. Name past holidays and those to come (UTC).",
            metavar="DATES|FILE",
            show_default=False,
        ),
    ] = None,
) -> Study[ForecastRequest]:
    """Forecast the GPUs of each group, and how many to lend."""
    from dataclasses import replace

    from gpuplan.analysis.base.amounts import parse_duration
    from gpuplan.analysis.base.errors import UsageError
    from gpuplan.planner.requests.shapes import read_shape
    from gpuplan.planner.studies.forecast_request import ForecastRequest

    hours = parse_duration(horizon, "--horizon") / 3600
    if hours != int(min(hours, 25)):
        raise UsageError(f"--horizon {horizon!r}: expected whole hours, 1h to 24h")
    request = ForecastRequest(
        trace,
        replace(choice.selection(), spot=spot),
        by=by,
        horizon_h=int(hours),
        at=_at(at),
        model=model,
        cluster=None if cluster is None else read_shape(cluster, "--cluster"),
        backtest=backtest,
        holidays=holidays,
    )
    return Study(request, _answer)


COMMAND = StudyCommand(
    "forecast",
    forecast,
    "gpuplan forecast trace.parquet --by user --horizon 4h --cluster 64x8",
    output=OutputWithoutRows,
    has_rows=False,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _at(text: str | None) -> datetime | int | None:
    """Return a time, or the number of an hour. Raises `UsageError` for anything else."""
    from gpuplan.analysis.base.errors import UsageError
    from gpuplan.analysis.base.time_units import as_utc

    if text is None:
        return None
    if text.strip().isdecimal() and len(text) < 10:
        return int(text)
    for form in (*DATE_FORMATS, "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"):
        try:
            return as_utc(datetime.strptime(text.strip(), form))
        except ValueError:
            continue
    raise UsageError(f"--at {text!r}: expected a time such as 2026-01-31T12:00, or an hour number")


def _answer(request: ForecastRequest) -> Report:
    from gpuplan.cli.tables.forecast_tables import forecast_tables, headline
    from gpuplan.planner.studies.forecast import forecast as run

    with messages.progress("forecasting"):
        study = run(request)

    def draw() -> Figure:
        from gpuplan.cli.figures.forecast import draw_forecast

        return draw_forecast(study.found)

    tables, answer = forecast_tables(study.results, request.backtest)
    return Report(
        command="forecast",
        results=plain(study.results),
        tables=tables,
        answer=answer,
        inputs=study.inputs,
        parameters=plain(request.parameters()),
        headline=headline(
            study.results, request.model, low_hours=study.low_hours, backtest=request.backtest
        ),
        warnings=study.warnings,
        figure=draw,
    )
