"""``gpuplan bill``: what a log costs a month or in a period, and who pays."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.cluster_options import read_shape
from gpuplan.cli.options.completion import one_of
from gpuplan.cli.options.price_options import LogPriceChoice
from gpuplan.cli.options.shared_options import PeriodChoice, TraceArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.bill import BillRequest, Pools

EXAMPLE = "gpuplan bill trace.parquet --price 1.29 --by user --cluster peak"
PEAK = "peak"


class IdleGpus(StrEnum):
    """Who pays for GPUs that no job holds."""

    apart = "apart"
    spread = "spread"


def bill(
    trace: TraceArgument,
    choice: PeriodChoice,
    priced: LogPriceChoice,
    by: Annotated[
        str,
        COMMON,
        typer.Option(
            help="What to split the bill by: group, user, type, class, or a column kept by --keep.",
            metavar="WHAT",
            autocompletion=one_of(lambda: ("group", "user", "type", "class")),
        ),
    ] = "group",
    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs that you pay for, busy or not: 64, 8x4, A100=8x4,T4=16, or peak for the "
            "most that jobs held at once. Default: only GPUs that jobs hold.",
            metavar="SHAPE|peak",
            show_default=False,
        ),
    ] = None,
    idle: Annotated[
        IdleGpus,
        COMMON,
        typer.Option(
            help="Who pays for idle GPUs: a row apart, or all jobs by their GPU-hours (spread).",
            metavar="WHO",
        ),
    ] = IdleGpus.apart,
) -> Study[BillRequest]:
    """Show what a log costs a month, and who pays: by group, user, class, or GPU type."""
    from gpuplan.planner.studies.bill import BillRequest

    request = BillRequest(
        trace,
        choice.selection(),
        by=by,
        prices=priced.request(priced.gpu),
        cluster=_pools(cluster),
        cluster_text=cluster,
        spread_idle=idle is IdleGpus.spread,
    )
    return Study(request, _answer)


COMMAND = StudyCommand("bill", bill, EXAMPLE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _pools(text: str | None) -> Pools | str | None:
    """Return the pools of ``--cluster``. Raises `UsageError`."""
    if text is None or text.strip().lower() == PEAK:
        return None if text is None else PEAK
    pools: list[tuple[str | None, int]] = []
    for pool in read_shape(text, "--cluster").pools:
        if pool.gpus is None:
            raise UsageError(f"--cluster {text}: a bill needs a number of GPUs, or peak")
        pools.append((pool.gpu_type, pool.gpus))
    return tuple(pools)


def _answer(request: BillRequest) -> Report:
    from gpuplan.cli.tables.bill_tables import (
        focus_table,
        groups_table,
        headline,
        months_table,
        types_table,
    )
    from gpuplan.planner.studies.bill import bill as run

    with messages.progress("billing"):
        study = run(request)
    results = study.results

    def figure() -> Figure:
        from gpuplan.cli.figures.bill import draw_bill

        return draw_bill(results)

    shown, period = study.shown, study.period
    types = types_table(shown, period)
    is_mixed = len(results.gpu_types) > 1
    return Report(
        command="bill",
        results=plain(results),
        tables=(groups_table(shown, period, most=None), types, months_table(results)),
        inputs=study.inputs,
        parameters=plain(request.parameters()),
        headline=headline(shown, period, results.usd_per_month),
        warnings=study.warnings,
        answer=(groups_table(shown, period), *([types] if is_mixed else [])),
        csv=focus_table(study),
        figure=figure,
        frame=study.to_frame,
    )
