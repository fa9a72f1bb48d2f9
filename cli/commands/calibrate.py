"""``gpuplan calibrate``: how well a site's rules explain the waits in its own log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.input_files import InputFile
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.shared_options import OUTPUT_PANEL, OutputWithoutRows, command
from gpuplan.cli.options.site_options import LogArgument, SiteChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.twin.calibrate import Calibration

EXAMPLE = "gpuplan calibrate sacct.txt --slurm-conf slurm.conf -o twin.toml"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan calibrate``."""

    @command(app, "calibrate", example=EXAMPLE)
    def calibrate(
        log: LogArgument,
        site: SiteChoice,
        output: OutputWithoutRows,
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
        from gpuplan.analysis.errors import UsageError
        from gpuplan.cli.documents.emit import emit
        from gpuplan.cli.options.outputs import check_output

        twins = [path for path in output.out or () if path.suffix.lower() == ".toml"]
        if len(twins) > 1:
            raise UsageError("--output: give one .toml file")
        output = replace(output, out=[path for path in output.out or () if path not in twins])
        check_output(output, picture=True, rows=False, inputs=[log, *site.files()], others=twins)
        from gpuplan.analysis.site.log import read_site_log
        from gpuplan.analysis.site.twin_file import twin_text
        from gpuplan.planner.twin.calibrate import calibrate as calibrated
        from gpuplan.planner.twin.infer import complete

        with messages.progress("calibrating"):
            document = site.document()
            site_log = read_site_log(log, site.zone)
            inferred = complete(document, site_log, cluster=site.shape(), infer=site.infer)
            found = calibrated(
                site_log,
                document,
                inferred,
                warmup_s=site.warmup_s(),
                limit_factor=site.limit_factor,
            )
        parameters = site.parameters() | {"advice": show_advice}
        text = twin_text(document, calibration_table(found, site))

        def write(path: Path) -> None:
            path.write_text(text, encoding="utf-8", newline="\n")

        emit(
            _report(found, parameters, show_advice),
            output,
            files=[(path, write) for path in twins],
        )


def calibration_table(found: Calibration, site: SiteChoice) -> dict[str, Any]:
    """Return what twin.toml keeps of a calibration."""
    score, jobs = found.score, found.log.jobs
    table: dict[str, Any] = {
        "log": str(found.log.path.name),
        "sha256": found.log.sha256,
        "first_submit": int(jobs["submit"].min()),  # type: ignore[arg-type]
        "last_submit": int(jobs["submit"].max()),  # type: ignore[arg-type]
        "level": found.chosen,
        "within": score.within,
        "mae_s": score.mae_s,
        "noise_mae_s": found.floor.mae_s,
        "noise_spread_s": found.floor.spread_s,
        "scored_jobs": score.jobs,
        "limit_factor": site.limit_factor,
        "levels": {
            level.name: {
                "within": level.within,
                "mae_s": level.mae_s,
                "bias_s": level.bias_s,
                "p95_s": level.p95_s,
                **({} if level.mean_rel is None else {"mean_rel": level.mean_rel}),
            }
            for level in found.levels
        },
        "excluded": dict(found.work.excluded),
    }
    if site.time_zone is not None:
        table["time_zone"] = site.time_zone
    if site.warmup is not None:
        table["warmup_s"] = site.warmup_s()
    return table


def _report(found: Calibration, parameters: dict[str, Any], show_advice: bool) -> Report:
    from gpuplan.cli.tables.twin_tables import calibration_headline, calibration_tables

    score = found.score
    results = {"within": score.within, "mae_s": score.mae_s} | found.summary()

    def draw() -> Figure:
        from gpuplan.cli.figures.twin import draw_calibration

        return draw_calibration(found)

    rows = found.log.jobs.height
    tables = tuple(calibration_tables(found, show_advice))
    return Report(
        command="calibrate",
        results=results,
        tables=tables,
        answer=(*tables[:2], *(tables[-1:] if show_advice else ())),
        inputs=(InputFile(str(found.log.path), found.log.sha256, rows),),
        parameters=parameters,
        headline=calibration_headline(found),
        warnings=found.warnings,
        notes=found.notes,
        figure=draw,
    )
