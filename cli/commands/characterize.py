"""``gpuplan characterize``: what a workload is, or how several differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import Report, trace_input
from gpuplan.cli.options.shared_options import OutputWithoutRows, PriceChoice, TraceChoice, command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.characterize.options import CharacterizedTrace, PortraitOptions
    from gpuplan.analysis.trace import Trace

RESAMPLES = 200
MOST_TRACES = 6  # as many colours as the picture has


def register(app: typer.Typer) -> None:
    """Add ``gpuplan characterize``."""

    @command(app, "characterize", example="gpuplan characterize trace.parquet --fits --ci 95")
    def characterize(
        trace: Annotated[
            list[Path],
            typer.Argument(
                help="A canonical trace (Parquet), made by [bold]gpuplan ingest[/bold]; "
                "several are compared.",
                show_default=False,
                metavar="TRACE",
            ),
        ],
        choice: TraceChoice,
        priced: PriceChoice,
        output: OutputWithoutRows,
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
        fits: Annotated[
            bool,
            typer.Option(
                "--fits",
                help="Fit heavy-tailed models to durations and gaps, and name the best.",
            ),
        ] = False,
        ci: Annotated[
            float | None,
            typer.Option(
                help="Add confidence intervals of this level, percent, for example 95; "
                "by a block bootstrap.",
                show_default=False,
            ),
        ] = None,
        resamples: Annotated[
            int | None,
            typer.Option(
                help=f"Resamples of the bootstrap behind --ci; otherwise {RESAMPLES}.",
                min=1,
                show_default=False,
            ),
        ] = None,
    ) -> None:
        """Say what a workload is: durations, GPU time, arrivals, load, groups, and its cost."""
        from gpuplan.cli.documents.emit import emit
        from gpuplan.cli.options.outputs import check_output

        check_output(output, picture=True, rows=False, inputs=[*trace, priced.prices])
        priced.check()
        from gpuplan.analysis.characterize import COLUMNS, NAMES
        from gpuplan.analysis.characterize.options import PortraitOptions, portray
        from gpuplan.analysis.errors import UsageError
        from gpuplan.cli.options.inputs import read_trace
        from gpuplan.cli.tables.price_tables import with_prices

        if len(trace) > MOST_TRACES:
            raise UsageError(f"{len(trace)} traces: at most {MOST_TRACES} are compared at once")
        if resamples is not None and ci is None:
            raise UsageError("--resamples: needs --ci LEVEL")
        if priced.prices is not None and len(trace) > 1:
            raise UsageError("--prices: give one trace, to say what it would have cost")
        gpu_type = () if priced.prices is None else ("gpu_type",)
        columns, names = (*COLUMNS, *gpu_type), (*NAMES, *gpu_type)
        options = PortraitOptions(
            include_running, top, fits, ci, resamples or RESAMPLES, choice.seed
        )
        with messages.progress("characterizing") as progress:
            sources = [
                read_trace(path, choice.selection(), columns=columns, categories=names)
                for path in trace
            ]
            portraits = []
            for position, one in enumerate(sources):
                portraits.append(portray(one, options, position=position))
                if len(sources) > 1:
                    progress((position + 1) / len(sources))
        parameters = choice.parameters() | options.parameters()
        if len(sources) == 1:
            report = _one(sources[0], portraits[0], parameters)
            if priced.prices is not None:
                report = with_prices(report, sources[0], priced, include_running=include_running)
        else:
            report = _several(sources, portraits, parameters, options)
        emit(report, output)


def _one(source: Trace, portrait: CharacterizedTrace, parameters: dict[str, object]) -> Report:
    from gpuplan.cli.tables.characterize_tables import headline, workload_tables
    from gpuplan.cli.tables.fit_tables import fit_tables

    def draw() -> Figure:
        from gpuplan.cli.figures.workload import draw_workload

        return draw_workload(portrait.workload, portrait.fits)

    tables = workload_tables(portrait.workload, portrait.intervals)
    return Report(
        command="characterize",
        results=portrait.summary(),
        tables=(*tables, *(fit_tables(portrait.fits) if portrait.fits else ())),
        inputs=(trace_input(source),),
        parameters=parameters,
        headline=headline(portrait.workload),
        warnings=portrait.workload.notes,
        figure=draw,
    )


def _several(
    sources: list[Trace],
    portraits: list[CharacterizedTrace],
    parameters: dict[str, object],
    options: PortraitOptions,
) -> Report:
    from gpuplan.analysis.characterize.comparison import compare
    from gpuplan.cli.tables.trace_comparison import (
        comparison_headline,
        comparison_tables,
        trace_names,
    )

    names = trace_names([source.path for source in sources])
    drawn = [portrait.intervals for portrait in portraits if portrait.intervals is not None]
    pairs = compare(
        sources, names, include_running=options.include_running, intervals=drawn or None
    )

    def draw() -> Figure:
        from gpuplan.cli.figures.cdf import draw_comparison

        return draw_comparison(names, [portrait.workload for portrait in portraits])

    named = list(zip(names, portraits, strict=True))
    return Report(
        command="characterize",
        results={
            "traces": [{"name": name, **portrait.summary()} for name, portrait in named],
            "comparison": [pair.summary() for pair in pairs],
        },
        tables=tuple(comparison_tables(names, portraits, pairs)),
        inputs=tuple(trace_input(source) for source in sources),
        parameters=parameters,
        headline=comparison_headline(names, portraits),
        warnings=tuple(
            f"{name}: {note}" for name, portrait in named for note in portrait.workload.notes
        ),
        figure=draw,
    )
