"""``gpuplan characterize``: what a workload is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.characterize_tables import headline, workload_tables
from gpuplan.cli.options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.report import Report, trace_input

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.characterize import Characterization


def register(app: typer.Typer) -> None:
    """Add ``gpuplan characterize``."""

    @command(app, "characterize", example="gpuplan characterize trace.parquet --plot load.png")
    def characterize(
        trace: TraceArgument,
        choice: TraceChoice,
        output: Output,
        top: Annotated[
            int,
            typer.Option(help="Rows of the class, user and group tables; the rest is one.", min=1),
        ] = 10,
        include_running: Annotated[
            bool,
            typer.Option(
                "--include-running",
                help="Count jobs still running, with the time they have run so far.",
            ),
        ] = False,
    ) -> None:
        """Say what a workload is: durations, GPU time, arrivals, load, states and groups."""
        from gpuplan.cli.emit import check_output, emit

        check_output(output, picture=True, rows=False)
        from gpuplan.analysis.characterize import COLUMNS
        from gpuplan.analysis.characterize import characterize as compute
        from gpuplan.analysis.trace import read_trace

        source = read_trace(trace, choice.selection(), columns=COLUMNS)
        result = compute(source, include_running=include_running, top=top)
        parameters = choice.parameters() | {"top": top, "include_running": include_running}
        emit(
            Report(
                command="characterize",
                results=result.summary(),
                tables=tuple(workload_tables(result)),
                inputs=(trace_input(source),),
                parameters=parameters,
                headline=headline(result),
                warnings=result.notes,
                figure=lambda: _figure(result),
            ),
            output,
        )


def _figure(result: Characterization) -> Figure:
    from gpuplan.cli.figures.workload import draw_workload

    return draw_workload(result)
