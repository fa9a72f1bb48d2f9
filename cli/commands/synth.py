"""``gpuplan synth``: a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import Column, Input, Report, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number, show_share
from gpuplan.cli.options.completion import one_of, presets
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    Output,
    ResultFormat,
    command,
    the_only,
)

if TYPE_CHECKING:
    from gpuplan.analysis.schema import SourceFile
    from gpuplan.analysis.synth import Synthesis, WorkloadModel
    from gpuplan.analysis.synth.compare import Verdict
    from gpuplan.analysis.trace import Trace

SOURCE_PANEL = "What it is like (one of these)"
UNIT_SHOW = {
    "s": show_duration,
    "share": show_share,
    "jobs": show_count,
    "gpus": show_number,
    "gpu_h": show_number,
    "1": show_number,
}


def register(app: typer.Typer) -> None:
    """Add ``gpuplan synth``."""

    @command(
        app, "synth", example="gpuplan synth --preset kalos --jobs 10000 --seed 1 -o kalos.parquet"
    )
    def synth(
        jobs: Annotated[int, typer.Option(help="Jobs to draw.", min=1, show_default=False)],
        outs: Annotated[
            list[Path],
            typer.Option(
                "--output",
                "-o",
                help="The trace to write (.parquet).",
                metavar="FILE.parquet",
                show_default=False,
                rich_help_panel=OUTPUT_PANEL,
            ),
        ],
        like: Annotated[
            Path | None,
            typer.Option(
                help="A canonical trace (Parquet), made by [bold]gpuplan ingest[/bold]; a model is "
                "fitted to it.",
                metavar="TRACE",
                show_default=False,
                rich_help_panel=SOURCE_PANEL,
            ),
        ] = None,
        preset: Annotated[
            str | None,
            typer.Option(
                help="Published figures of a workload: seren, kalos, philly, helios (GPU jobs, "
                "AcmeTrace), wandb, abc (all jobs, Allpass).",
                metavar="NAME",
                autocompletion=one_of(presets),
                show_default=False,
                rich_help_panel=SOURCE_PANEL,
            ),
        ] = None,
        model: Annotated[
            Path | None,
            typer.Option(
                help="A model that --save-model wrote.",
                metavar="FILE.json",
                show_default=False,
                rich_help_panel=SOURCE_PANEL,
            ),
        ] = None,
        days: Annotated[
            float | None,
            typer.Option(
                help="Length of the trace in days; otherwise as many jobs a day as the original "
                "has.",
                show_default=False,
            ),
        ] = None,
        start: Annotated[
            datetime | None,
            typer.Option(
                help="First day, in the original's time zone; otherwise the original's.",
                formats=["%Y-%m-%d"],
                metavar="YYYY-MM-DD",
                show_default=False,
            ),
        ] = None,
        seed: Annotated[
            int,
            typer.Option(
                help="Seed of everything random; the same seed gives the same bytes.", min=0
            ),
        ] = 0,
        save_model: Annotated[
            Path | None,
            typer.Option(
                help="Also write the model as JSON: numbers, names of classes and GPU types, no "
                "job.",
                metavar="FILE.json",
                show_default=False,
                rich_help_panel=OUTPUT_PANEL,
            ),
        ] = None,
        output_format: Annotated[
            ResultFormat,
            typer.Option(
                "--output-format", help="Form of the comparison.", rich_help_panel=OUTPUT_PANEL
            ),
        ] = ResultFormat.table,
        fail_if: Annotated[
            list[str] | None,
            typer.Option(
                help="Exit with 1 if this holds, for example 'statistics_outside > 0'; may be "
                "repeated.",
                rich_help_panel=OUTPUT_PANEL,
                show_default=False,
            ),
        ] = None,
        allow_unchecked: AllowUnchecked = False,
    ) -> None:
        """Draw a synthetic trace with the statistics of a real one, and say how near it is."""
        from gpuplan.cli.documents.emit import emit
        from gpuplan.cli.options.outputs import check_output, check_suffix

        out = the_only(outs)
        output = Output(
            output_format=output_format, fail_if=fail_if, allow_unchecked=allow_unchecked
        )
        if out.suffix != ".parquet":
            raise UsageError(f"{out}: a trace is Parquet; give it a name that ends in .parquet")
        written = [out, save_model]
        check_output(output, picture=False, rows=False, inputs=[like, model], others=written)
        check_suffix("--save-model", save_model, ".json")
        _check_choice(like, preset, model)
        from gpuplan.analysis.files import atomic_output
        from gpuplan.analysis.synth import Request, synthesize
        from gpuplan.analysis.synth.write import RECORDED

        request = Request(jobs, seed, days, start and start.date())
        with messages.progress("drawing"), ExitStack() as files:
            described, sources, trace = _model(like, preset, model)
            if save_model is not None:  # kept where the trace can be written too
                temporary = files.enter_context(atomic_output(save_model))
                temporary.write_text(described.to_json(), encoding="utf-8", newline="\n")
            result = synthesize(
                described,
                request,
                out,
                sources=sources,
                recorded=None if trace is None else trace.jobs.select(RECORDED),
            )
        if save_model is not None:
            messages.note(f"wrote {save_model}")
        parameters: dict[str, Any] = {
            "like": like and str(like),
            "preset": preset,
            "model": model and str(model),
            "jobs": jobs,
            "days": days,
            "start": start and start.date().isoformat(),
            "seed": seed,
        }
        emit(_report(result, parameters, sources, trace), output, written=written)


def _check_choice(like: Path | None, preset: str | None, model: Path | None) -> None:
    given = [name for name, x in (("--like", like), ("--preset", preset), ("--model", model)) if x]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise UsageError(f"give one of --like, --preset and --model; found {found}")


def _model(
    like: Path | None, preset: str | None, model: Path | None
) -> tuple[WorkloadModel, tuple[SourceFile, ...], Trace | None]:
    """Return the model, the files it comes from, and the trace it was fitted to."""
    from gpuplan.analysis.files import sha256_of
    from gpuplan.analysis.schema import SourceFile
    from gpuplan.analysis.synth import PRESETS, fit_model, preset_model
    from gpuplan.analysis.synth.fit import COLUMNS
    from gpuplan.analysis.synth.store import read_model
    from gpuplan.analysis.trace import read_trace

    if like is not None:
        trace = read_trace(like, columns=COLUMNS)
        return fit_model(trace), (SourceFile(str(like), trace.sha256),), trace
    if model is not None:
        return read_model(model), (SourceFile(str(model), sha256_of(model)),), None
    if preset not in PRESETS:
        raise UsageError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
    return preset_model(preset), (), None


def _report(
    result: Synthesis,
    parameters: dict[str, Any],
    sources: tuple[SourceFile, ...],
    trace: Trace | None,
) -> Report:
    told = result.summary()
    labels = ", ".join(row.statistic.label for row in result.outside)
    few = told["statistics_too_few_data"]
    return Report(
        command="synth",
        results=told,
        tables=tuple(_tables(result)),
        inputs=tuple(
            Input(path=file.name, sha256=file.sha256, rows=trace.rows if trace else 1)
            for file in sources
        ),
        parameters=parameters,
        headline=f"{result.request.jobs:,} jobs over {show_duration(result.span_s)} in "
        f"{result.output}: {told['statistics_within']} of {told['statistics_compared']} statistics "
        f"within their tolerance{f', {few} with too few data to tell' if few else ''}",
        warnings=((f"outside their tolerance: {labels}",) if labels else ())
        + result.model.warnings,
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
        show = UNIT_SHOW[row.statistic.unit]
        rows.append(
            (
                row.statistic.key,
                row.statistic.label,
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
