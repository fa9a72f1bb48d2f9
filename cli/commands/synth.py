"""``gpuplan synth``: a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number, show_share
from gpuplan.cli.options.completion import one_of, presets
from gpuplan.cli.options.log_choice import TRACE_HELP, LogChoice
from gpuplan.cli.options.outputs import table_file
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    ResultFormat,
    the_only,
)

if TYPE_CHECKING:
    from gpuplan.analysis.synth import Synthesis
    from gpuplan.analysis.synth.compare import Verdict
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.synth import SynthRequest

SOURCE_PANEL = "What to imitate (one of these)"
UNIT_SHOW: dict[str, Callable[[Any], str]] = {
    "s": show_duration,
    "share": show_share,
    "jobs": show_count,
    "gpus": show_number,
    "gpu_h": show_number,
    "1": show_number,
}


@dataclass(frozen=True, slots=True)
class SynthOutput:
    """How the comparison with the original is shown."""

    output_format: Annotated[
        ResultFormat,
        COMMON,
        typer.Option(
            "--output-format",
            help="Form of the comparison on standard output.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = ResultFormat.table
    fail_if: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Exit with 1 if this holds, such as 'statistics_outside > 0'. May be repeated.",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None
    allow_unchecked: AllowUnchecked = False


def synth(
    log: LogChoice,
    outs: Annotated[
        list[Path],
        COMMON,
        table_file(
            "Trace to write (.parquet).",
        ),
    ],
    jobs: Annotated[
        int | None,
        COMMON,
        typer.Option(
            help="Number of jobs. Needed, except for --preset gfs.", min=1, show_default=False
        ),
    ] = None,
    like: Annotated[
        Path | None,
        COMMON,
        typer.Option(
            help=f"{TRACE_HELP} The new trace is like it.",
            metavar="TRACE|LOG",
            show_default=False,
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Published statistics to imitate: seren, kalos, philly, helios (GPU jobs, "
            "AcmeTrace), wandb, abc (all jobs, Allpass), gfs (high-priority and spot jobs).",
            metavar="NAME",
            autocompletion=one_of(presets),
            show_default=False,
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        COMMON,
        typer.Option(
            help="Model to use, written by --save-model.",
            metavar="FILE.json",
            show_default=False,
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = None,
    days: Annotated[
        float | None,
        COMMON,
        typer.Option(
            help="Length of the trace in days. Default: as many jobs per day as the original.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        datetime | None,
        typer.Option(
            help="First day, in the original's time zone. Default: the original's.",
            formats=["%Y-%m-%d"],
            metavar="YYYY-MM-DD",
            show_default=False,
        ),
    ] = None,
    spot_load: Annotated[
        str | None,
        typer.Option(
            help="Spot jobs of --preset gfs, as a multiple of the published number: 4x.",
            metavar="FACTOR",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int,
        COMMON,
        typer.Option(help="Seed of everything random. The same seed gives the same bytes.", min=0),
    ] = 0,
    save_model: Annotated[
        Path | None,
        COMMON,
        typer.Option(
            help="Also write the model as JSON, without any jobs.",
            metavar="FILE.json",
            show_default=False,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
) -> Study[SynthRequest]:
    """Make a synthetic trace that is like a real one."""
    from gpuplan.planner.studies.synth import SynthRequest

    request = SynthRequest(
        jobs=jobs,
        output=the_only(outs),
        like=like,
        preset=preset,
        model=model,
        days=days,
        start=start and start.date(),
        seed=seed,
        save_model=save_model,
        log=log.log_options(),
        spot_load=_factor(spot_load),
    )
    return Study(request, _answer)


def _factor(text: str | None) -> float | None:
    """Return the number of ``4x``. Raises `UsageError`."""
    from gpuplan.analysis.base.errors import UsageError

    if text is None:
        return None
    try:
        factor = float(text.strip().removesuffix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor < float("inf"):
        raise UsageError(f"--spot-load {text!r}: expected a factor such as 4x")
    return factor


COMMAND = StudyCommand(
    "synth",
    synth,
    "gpuplan synth --preset kalos --jobs 1000 --seed 1 -o kalos.parquet",
    output=SynthOutput,
    has_picture=False,
    has_rows=False,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: SynthRequest) -> Report:
    from gpuplan.cli.options.outputs import check_suffix
    from gpuplan.planner.studies.synth import synth as run

    check_suffix("--save-model", request.save_model, ".json")
    with messages.progress("drawing"):
        study = run(request)
    if request.save_model is not None:
        messages.note(f"wrote {request.save_model}")
    return _report(study, plain(request.parameters()))


def _report(study: Answer[SynthRequest, Synthesis], parameters: dict[str, Any]) -> Report:
    result, few = study.results, study.results.statistics_too_few_data
    return Report(
        command="synth",
        results=plain(result),
        tables=tuple(_tables(result)),
        inputs=study.inputs,
        parameters=parameters,
        headline=f"{result.jobs:,} jobs over {show_duration(result.span_s)} in "
        f"{result.output}: {result.statistics_within} of {result.statistics_compared} statistics "
        f"within their tolerance{f', {few} with too few data to tell' if few else ''}",
        warnings=study.warnings,
    )


def _tables(result: Synthesis) -> list[Table]:
    columns = (
        Column("statistic", ""),
        Column("", "statistic"),
        Column("original", "original"),
        Column("synthetic", "synthetic"),
        Column("difference", "difference"),
        Column("allowed", "tolerance"),
        Column("verdict", "within", _show_verdict),
    )
    rows = []
    for row in result.compared:
        show = UNIT_SHOW[row.unit]
        rows.append(
            (
                row.statistic,
                row.label,
                Shown(row.original, show(row.original)),
                Shown(row.synthetic, show(row.synthetic)),
                Shown(row.difference, show(row.difference)),
                None if row.allowed is None else Shown(row.allowed, show(row.allowed)),
                row.verdict,
            )
        )
    tables = [Table(f"How near it is ({result.model.source})", columns, rows)]
    if result.model.notes:
        notes = [(note,) for note in result.model.notes]
        tables.append(Table("Assumptions", (Column("note", "note"),), notes))
    return tables


def _show_verdict(verdict: Verdict) -> str:
    return {"within": "yes", "outside": "NO"}.get(verdict, "too few data")
