"""``gpuplan whatif``: what a change of a site does to waits, with its error."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.input_files import InputFile
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.log_choice import READING_PANEL
from gpuplan.cli.options.shared_options import (
    DATE_FORMATS,
    OUTPUT_PANEL,
    OutputWithoutRows,
    command,
)
from gpuplan.cli.options.site_options import SITE_PANEL, LogArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.log import SiteLog
    from gpuplan.planner.twin.whatif import SiteChange, WhatIf

EXAMPLE = "gpuplan whatif sacct.txt --twin twin.toml --add-nodes 2"
CHANGES_PANEL = "Changes"
NONE_GIVEN = (
    "give a change: --add-nodes, --remove-nodes, --set, --slurm-conf, --scale-load or "
    "--limits-times"
)
LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""


def _many(help_text: str, metavar: str) -> Any:
    return typer.Option(
        help=f"{help_text}; may be repeated.", metavar=metavar, show_default=False,
        rich_help_panel=CHANGES_PANEL,
    )  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add ``gpuplan whatif``."""

    @command(app, "whatif", example=EXAMPLE)
    def whatif(
        log: LogArgument,
        output: OutputWithoutRows,
        twin: Annotated[
            Path,
            COMMON,
            typer.Option(
                help="The site's settings, written by [bold]gpuplan calibrate[/bold].",
                metavar="FILE.toml",
                show_default=False,
                rich_help_panel=SITE_PANEL,
            ),
        ],
        add_nodes: Annotated[
            list[str] | None,
            COMMON,
            _many(
                "Add nodes like the most common one of a partition, or of the site", "[PARTITION=]N"
            ),
        ] = None,
        remove_nodes: Annotated[
            list[str] | None,
            COMMON,
            _many("Remove nodes of the most common kind", "[PARTITION=]N"),
        ] = None,
        values: Annotated[
            list[str] | None,
            COMMON,
            typer.Option(
                "--set",
                help="Change a setting of twin.toml, for example qos.normal.MaxTRESPU.gpu=32; may "
                "be repeated.",
                metavar="KEY=VALUE",
                show_default=False,
                rich_help_panel=CHANGES_PANEL,
            ),
        ] = None,
        slurm_conf: Annotated[
            list[Path] | None, _many("Take nodes, partitions and priorities from this file", "FILE")
        ] = None,
        load: Annotated[
            list[float] | None,
            COMMON,
            typer.Option(
                "--scale-load",
                help="Let jobs come this many times as fast; may be repeated.",
                show_default=False,
                rich_help_panel=CHANGES_PANEL,
            ),
        ] = None,
        limits: Annotated[
            list[float] | None,
            COMMON,
            typer.Option(
                "--limits-times",
                help="Multiply every time limit, down to the run time; may be repeated.",
                show_default=False,
                rich_help_panel=CHANGES_PANEL,
            ),
        ] = None,
        together: Annotated[
            bool,
            typer.Option(
                "--together",
                help="Make all changes at once, not one by one.",
                rich_help_panel=CHANGES_PANEL,
            ),
        ] = False,
        by: Annotated[
            str,
            COMMON,
            typer.Option(
                help="Groups of the answer: account, user, partition, qos or size.",
                metavar="GROUP",
                rich_help_panel=OUTPUT_PANEL,
            ),
        ] = "account",
        level: Annotated[
            str | None,
            typer.Option(
                help="Rules to replay: fifo, easy, bf, multifactor, limits or events; otherwise "
                "those that calibrate chose.",
                metavar="LEVEL",
                show_default=False,
                rich_help_panel=SITE_PANEL,
            ),
        ] = None,
        limit_factor: Annotated[
            float | None,
            typer.Option(
                help="Time limit of a job without one, over its run time. Default: as calibrated.",
                min=1.0,
                max=1000.0,
                show_default=False,
                rich_help_panel=READING_PANEL,
            ),
        ] = None,
        strict: Annotated[
            bool,
            typer.Option(
                "--strict",
                help="Let gates on wait growth trip where it could be, not only where the effect "
                "exceeds its error.",
                rich_help_panel=OUTPUT_PANEL,
            ),
        ] = False,
        validate: Annotated[
            datetime | None,
            COMMON,
            typer.Option(
                help="Instead: replay a change that happened at this time (UTC), with --before "
                "and --after.",
                formats=DATE_FORMATS,
                show_default=False,
                rich_help_panel="A change that happened",
            ),
        ] = None,
        before: Annotated[
            Path | None,
            typer.Option(
                help="slurm.conf before --validate.",
                metavar="FILE",
                show_default=False,
                rich_help_panel="A change that happened",
            ),
        ] = None,
        after: Annotated[
            Path | None,
            typer.Option(
                help="slurm.conf after --validate.",
                metavar="FILE",
                show_default=False,
                rich_help_panel="A change that happened",
            ),
        ] = None,
    ) -> None:
        """Show what a change of a Slurm site would do to waits, and how sure that is.

        Whether users would submit otherwise is not modeled.
        """
        from gpuplan.analysis.errors import UsageError
        from gpuplan.cli.documents.emit import emit
        from gpuplan.cli.options.outputs import check_output

        output = replace(output, fail_if=[gate_of(text) for text in output.fail_if or ()])
        named = [path for path in (before, after) if path is not None]
        inputs = [log, twin, *(slurm_conf or ()), *named]
        check_output(output, picture=validate is None, rows=False, inputs=inputs)
        from gpuplan.analysis.site.log import read_site_log
        from gpuplan.analysis.site.twin_file import read_twin

        document, calibration = read_twin(twin)
        changes = _changes(add_nodes, remove_nodes, values, slurm_conf, load, limits)
        if validate is None and named:
            raise UsageError("--before and --after: need --validate DATE")
        if validate is not None and (changes or len(named) < 2):
            raise UsageError("--validate: needs --before FILE and --after FILE, and no change")
        if validate is None and not changes:
            raise UsageError(NONE_GIVEN)
        told = read_site_log(log, str(calibration.get("time_zone", "UTC")))
        settings = _settings(calibration, by, level)
        parameters = {
            "twin": str(twin), "add_nodes": add_nodes or [], "remove_nodes": remove_nodes or [],
            "set": values or [], "slurm_conf": [str(path) for path in slurm_conf or ()],
            "scale_load": load or [], "limits_times": limits or [], "together": together,
            "by": by, "strict": strict, "level": settings["level"],
        }  # fmt: skip
        warnings = (*_warnings(told, calibration), *_unused(settings["level"], values or []))
        with messages.progress("replaying"):
            if validate is not None and before is not None and after is not None:
                at = int(validate.replace(tzinfo=UTC).timestamp())
                report = _validation(told, document, before, after, at, settings, parameters)
            else:
                from gpuplan.planner.twin.whatif import combined, what_if

                asked = [combined(changes)] if together else changes
                found = what_if(told, document, asked, **settings)
                report = _report(told, found, calibration, parameters, warnings, strict)
        emit(report, output)


def gate_of(text: str) -> str:
    """Return a condition in the form that gates read: ``growth[any team].p95_wait_growth > 20%``.

    People write ``p95_wait_growth[any team] > 20%``.
    """
    return re.sub(r"^\s*(\w+_wait_growth)(\[[^\]]*\])", r"growth\2.\1", text)


def _settings(calibration: dict[str, Any], by: str, level: str | None) -> dict[str, Any]:
    warmup = calibration.get("warmup_s")
    return {
        "level": level or str(calibration.get("level", "events")),
        "by": by,
        "warmup_s": None if warmup is None else int(warmup),
        "limit_factor": float(calibration.get("limit_factor", 2.0)),
    }


def _warnings(log: SiteLog, calibration: dict[str, Any]) -> tuple[str, ...]:
    if calibration.get("sha256") in (None, log.sha256):
        return ()
    return ("the settings were calibrated on another log; the error is that of this one",)


def _unused(level: str, values: list[str]) -> list[str]:
    """Return a warning per setting that the rules replayed do not use."""
    from gpuplan.planner.twin.levels import LEVELS, NEEDED_LEVEL

    found = []
    for text in values:
        table = text.partition(".")[0].strip()
        needed = NEEDED_LEVEL.get(table)
        if needed is not None and level in LEVELS and LEVELS.index(level) < LEVELS.index(needed):
            found.append(
                f"--set {text}: the rules replayed ({level}) do not use it; --level {needed} does"
            )
    return found


def _changes(
    add_nodes: list[str] | None, remove_nodes: list[str] | None, values: list[str] | None,
    slurm_conf: list[Path] | None, load: list[float] | None, limits: list[float] | None,
) -> list[SiteChange]:  # fmt: skip
    from gpuplan.analysis.site.slurm_conf import read_slurm_conf
    from gpuplan.planner.twin import whatif as library

    return [
        *map(library.add_nodes, add_nodes or ()),
        *map(library.remove_nodes, remove_nodes or ()),
        *map(library.set_value, values or ()),
        *(library.new_settings(path.name, read_slurm_conf(path)) for path in slurm_conf or ()),
        *map(library.scale_load, load or ()),
        *map(library.scale_limits, limits or ()),
    ]


def _report(
    log: SiteLog, found: WhatIf, calibration: dict[str, Any], parameters: dict[str, Any],
    warnings: tuple[str, ...], strict: bool,
) -> Report:  # fmt: skip
    from gpuplan.cli.tables.twin_tables import whatif_headline, whatif_tables

    def draw() -> Figure:
        from gpuplan.cli.figures.twin import draw_whatif

        return draw_whatif(found)

    results = found.summary()
    results["growth"] = growth(found, strict)
    results["calibration"] = {
        "within": calibration.get("within"), "mae_s": calibration.get("mae_s")
    }  # fmt: skip
    lost = sum(sum(change.rejected.values()) for change in found.changes)
    if lost:
        warnings = (*warnings, f"{lost:,} jobs that start today never start with a change")
    return Report(
        command="whatif",
        results=results,
        tables=tuple(whatif_tables(found)),
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height),),
        parameters=parameters,
        headline=whatif_headline(found),
        warnings=warnings,
        notes=("whether users would submit otherwise is not modeled",),
        figure=draw,
    )


def growth(found: WhatIf, strict: bool) -> list[dict[str, Any]]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth within its error counts as none; with ``strict`` the error is added to the effect.
    ``any team`` is the greatest of all groups.
    """
    rows: dict[str, dict[str, Any]] = {}
    names = ("mean", "p95")
    for change in found.changes:
        for group in change.groups:
            values = {}
            for kind, effect, error, said, base in (
                ("mean", group.effect_s, group.error_s, group.verdict,
                 group.replayed_mean_wait_s),
                ("p95", group.p95_effect_s, group.p95_error_s, group.p95_verdict,
                 group.replayed_p95_wait_s),
            ):  # fmt: skip
                counted = effect if said != "within the error" else 0.0
                if strict:
                    counted = effect + error
                values[kind] = counted / max(base, LEAST_WAIT_S)
            told = ["any team", f"any {found.by}"] if group is not change.groups[0] else []
            for name in dict.fromkeys([*told, group.name]):
                row = rows.setdefault(name, {"name": name})
                for kind in names:
                    key = f"{kind}_wait_growth"
                    row[key] = max(row.get(key, values[kind]), values[kind])
    return list(rows.values())


def _validation(
    log: SiteLog, document: SiteDocument, before: Path, after: Path, at: int,
    settings: dict[str, Any], parameters: dict[str, Any],
) -> Report:  # fmt: skip
    from gpuplan.analysis.site.slurm_conf import read_slurm_conf
    from gpuplan.cli.tables.twin_tables import show_signed, validation_table
    from gpuplan.planner.twin.validate import validate
    from gpuplan.planner.twin.whatif import with_settings

    old, new = (with_settings(document, read_slurm_conf(path)) for path in (before, after))
    found = validate(log, old, new, at, **settings)
    whole = found.groups[0]
    return Report(
        command="whatif",
        results={"validation": found.summary()},
        tables=(validation_table(found),),
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height),),
        parameters=parameters | {"validate": at, "before": str(before), "after": str(after)},
        headline=(
            f"The change was predicted to move the mean wait by "
            f"{show_signed(whole.predicted_effect_s)}; recorded was "
            f"{show_signed(whole.recorded_effect_s)}."
        ),
        notes=("both effects hold what the load did before and after",),
    )
