"""``gpuplan synth``: a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import StudyView, declared_command
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number, show_share
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    ResultFormat,
)

if TYPE_CHECKING:
    from gpuplan.analysis.synth import Synthesis
    from gpuplan.analysis.synth.compare import Verdict
    from gpuplan.planner.studies.synth import SynthStudy

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


def show(study: SynthStudy) -> StudyView:
    """Return how near the new trace is as people see it."""
    result = study.synthesis
    summary = plain(study.results)
    within, compared = summary["statistics_within"], summary["statistics_compared"]
    labels = ", ".join(row.statistic.label for row in result.outside)
    few = summary["statistics_too_few_data"]
    if study.request.save_model is not None:
        messages.note(f"wrote {study.request.save_model}")
    return StudyView(
        tables=tuple(_tables(result)),
        headline=f"{result.request.jobs:,} jobs over {show_duration(result.span_s)} in "
        f"{result.output}: {within} of {compared} statistics "
        f"within their tolerance{f', {few} with too few data to tell' if few else ''}",
        warnings=(f"outside their tolerance: {labels}",) if labels else (),
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


COMMAND = declared_command("synth", show, output=SynthOutput)
register = COMMAND.register
