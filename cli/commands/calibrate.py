"""``gpuplan calibrate``: how well a site's rules explain the waits in its own log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.log_choice import READING_PANEL
from gpuplan.cli.options.shared_options import OUTPUT_PANEL, OutputWithoutRows, command
from gpuplan.cli.options.site_options import LogArgument, SiteChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.calibrate import Calibration

EXAMPLE = "gpuplan calibrate sacct.txt --slurm-conf slurm.conf -o twin.toml"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan calibrate``."""

    @command(app, "calibrate", example=EXAMPLE)
    def calibrate(
        log: LogArgument,
        site: SiteChoice,
        output: OutputWithoutRows,
        all_jobs: Annotated[
            bool,
            typer.Option(
                "--all-jobs",
                help="Replay all jobs of a log of over 200,000, not only those of its last weeks.",
                rich_help_panel=READING_PANEL,
            ),
        ] = False,
        show_advice: Annotated[
            bool,
            COMMON,
            typer.Option(
                "--advice",
                help="Say what the pattern of the errors suggests to look at.",
                rich_help_panel=OUTPUT_PANEL,
            ),
        ] = False,
    ) -> None:
        """Show how well a site's Slurm rules explain its waits.

        The file twin.toml (-o twin.toml) keeps the settings for gpuplan whatif.
        """
        from gpuplan.analysis.base.errors import UsageError
        from gpuplan.cli.documents.emit import emit
        from gpuplan.cli.options.outputs import check_output

        twins = [path for path in output.out or () if path.suffix.lower() == ".toml"]
        if len(twins) > 1:
            raise UsageError("--output: give one .toml file")
        output = replace(output, out=[path for path in output.out or () if path not in twins])
        request = site.request(log, advice=show_advice, all_jobs=all_jobs)
        check_output(output, picture=True, rows=False, inputs=request.reads, others=twins)
        from gpuplan.planner.studies.calibrate import calibrate as run

        with messages.progress("calibrating") as advance:
            study = run(request, advance)
        text = study.twin_text()

        def write(path: Path) -> None:
            path.write_text(text, encoding="utf-8", newline="\n")

        emit(_report(study), output, files=[(path, write) for path in twins])


def _report(study: Calibration) -> Report:
    from gpuplan.cli.tables.twin_tables import calibration_headline, calibration_tables

    found, show_advice = study.results, study.request.advice

    def draw() -> Figure:
        from gpuplan.cli.figures.twin import draw_calibration

        return draw_calibration(found)

    tables = tuple(calibration_tables(found, show_advice))
    return Report(
        command="calibrate",
        results=plain(found),
        tables=tables,
        answer=(*tables[:2], *(tables[-1:] if show_advice else ())),
        inputs=study.inputs,
        parameters=plain(study.request.parameters()),
        headline=calibration_headline(found),
        warnings=study.warnings,
        notes=study.notes,
        figure=draw,
    )
