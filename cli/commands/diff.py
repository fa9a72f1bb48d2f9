"""``gpuplan diff``: what changed between two JSON outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuplan.analysis.base.amounts import parse_share
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.diff.changes import compare
from gpuplan.cli.diff.gates import check_changes, read_change
from gpuplan.cli.diff.read import read_versions
from gpuplan.cli.diff.show import report_of
from gpuplan.cli.documents.contract import as_junit
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.documents.gates import announce
from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.render import as_markdown
from gpuplan.cli.gates.gates import allowing, raise_tripped, warnings_only
from gpuplan.cli.options.outputs import check_output, check_suffix
from gpuplan.cli.options.shared_options import (
    AllowUnchecked,
    Full,
    Output,
    OutputFormat,
    ResultFormat,
    TextFiles,
    WarnIf,
    command,
    output_option,
)

EXAMPLE = "gpuplan diff main.json branch.json --fail-if 'knee.replay.mean_jct > +10%'"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "diff", example=EXAMPLE)(diff)


def _document(which: str) -> typer.models.ArgumentInfo:
    text = f"The {which} JSON: the output of a command (-o x.json), a report.json, or a plan.toml."
    argument: typer.models.ArgumentInfo = typer.Argument(
        help=text, show_default=False, metavar=which.upper()
    )
    return argument


def diff(
    old: Annotated[Path, _document("old")],
    new: Annotated[Path, _document("new")],
    tolerance: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Ignore differences up to this share of the larger number: 0.1%, 0.001, "
            "or 0 for none. Gates see every difference.",
            metavar="SHARE",
        ),
    ] = "0.1%",
    top: Annotated[
        int,
        COMMON,
        typer.Option(
            help="Most rows shown per table, besides those that matter. JSON and CSV have "
            "all rows.",
            min=0,
        ),
    ] = 20,
    output_format: OutputFormat = ResultFormat.table,
    out: TextFiles = None,
    junit: Annotated[
        Path | None,
        COMMON,
        output_option(
            help="Write the gates as test cases to this JUnit file (.xml).",
            metavar="FILE",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        COMMON,
        output_option(
            help="Exit with 1 if a field changed like this: 'knee.replay.mean_jct > +10%', 'cost "
            "> +$50', 'utilization < -5pp' (percentage points), 'jobs != 0'. May be "
            "repeated.",
        ),
    ] = None,
    warn_if: WarnIf = None,
    allow_unchecked: AllowUnchecked = False,
    full: Full = False,
) -> None:
    """Show what changed between two results: workload, cost, and completion times.

    Rows are matched by what they are about (policy, threshold, budget, class), not by position.
    """
    output = Output(output_format=output_format, out=out, full=full)
    share = parse_share(tolerance, "--tolerance")
    for condition in fail_if or ():
        read_change(condition)
    for condition in warn_if or ():
        read_change(condition, "--warn-if")
    check_output(output, picture=False, rows=False, inputs=[old, new], more_files=[junit])
    check_suffix("--junit", junit, ".xml")
    comparison = compare(*read_versions(old, new))
    gates = (
        *allowing(check_changes(comparison, fail_if or ()), allow_unchecked),
        *warnings_only(check_changes(comparison, warn_if or ())),
    )
    report = report_of(comparison, tolerance=share, top=top, gates=gates)

    def write_junit(path: Path) -> None:
        document = Document(f"{old.name} to {new.name}", (), tuple(gates))
        path.write_text(as_junit(document), encoding="utf-8", newline="\n")

    emit(report, output, files=[] if junit is None else [(junit, write_junit)])
    announce(gates, lambda: as_markdown(report))
    raise_tripped(gates)
