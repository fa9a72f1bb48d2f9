"""``gpuplan profile``: batch size and share of the GPU of each model, from measured tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.options.log_choice import READING_PANEL
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    FailIf,
    Output,
    OutputFormat,
    Plot,
    ResultFormat,
    command,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from gpuplan.planner.sharing.profile_search import LoadChoice
    from gpuplan.planner.sharing.profiling import ProfiledFunction, ProfileResults

EXAMPLE = "gpuplan profile resnet152.csv --slo 100ms -o functions.toml"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan profile``."""
    command(app, "profile", example=EXAMPLE)(profile)


def profile(
    tables: Annotated[
        list[Path],
        typer.Argument(
            help="Measured tables of services: batch size, percent of the SMs, seconds per batch, "
            "items per second; with or without a header.",
            metavar="TABLE...",
            show_default=False,
        ),
    ],
    slo: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Latency target of a request, for example 100ms. A batch may take half of it. "
            "Required without --training.",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    load: Annotated[
        float | None,
        COMMON,
        typer.Option(
            help="Requests per second that the service receives: choose the batch and share that "
            "serve it on the least of a GPU. Default: the most throughput per share.",
            metavar="RPS",
            show_default=False,
        ),
    ] = None,
    training: Annotated[
        bool,
        COMMON,
        typer.Option(
            "--training",
            help="The tables measure training: find the shares that keep 80% (request) and 100% "
            "(limit) of its speed.",
        ),
    ] = False,
    te_drop: Annotated[
        float,
        typer.Option(
            help="Largest drop in throughput per percent of the SMs that a step may cause.",
            min=0.0,
        ),
    ] = 0.2,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="OURS=THEIRS: the header that stands for batch, sm_percent, latency_s or "
            "throughput; may be repeated.",
            metavar="OURS=THEIRS",
            rich_help_panel=READING_PANEL,
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        list[Path] | None,
        COMMON,
        typer.Option(
            "--output",
            "-o",
            help="Write the functions that gpuplan share reads (.toml), or the result (.json, .md, "
            ".csv, .txt, .svg, .png); may be repeated.",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None,
    output_format: OutputFormat = ResultFormat.table,
    plot: Plot = None,
    fail_if: FailIf = None,
    allow_unchecked: AllowUnchecked = False,
) -> None:
    """Choose batch size and GPU share of a measured service."""
    functions = [path for path in out or () if path.suffix.lower() == ".toml"]
    output = Output(
        output_format=output_format,
        out=[path for path in out or () if path not in functions] or None,
        plot=plot,
        fail_if=fail_if,
        allow_unchecked=allow_unchecked,
    )
    check_output(output, picture=not training, rows=False, inputs=tables, others=functions)
    from gpuplan.analysis.base.errors import UsageError
    from gpuplan.analysis.user_tables.sharing_profiles import COLUMNS
    from gpuplan.cli.options.sharing_inputs import parse_latency
    from gpuplan.planner.studies.profile import ProfileRequest
    from gpuplan.planner.studies.profile import profile as run

    names: dict[str, str] = {}
    for text in columns or ():
        ours, found, theirs = (part.strip() for part in text.partition("="))
        if not found or ours not in COLUMNS or not theirs:
            raise UsageError(f"--map {text!r}: expected OURS=THEIRS, OURS of {', '.join(COLUMNS)}")
        names[ours] = theirs
    slo_s = None if slo is None else parse_latency(slo, "--slo")
    request = ProfileRequest(tuple(tables), slo_s, training, te_drop, names, load)
    study = run(request)
    files = [
        (path, _writer(study.results.functions, path.parent, _note(slo))) for path in functions
    ]
    report = Report(
        command="profile",
        results=plain(study.results),
        tables=(_table(study.results),),
        inputs=study.inputs,
        parameters=plain(request.parameters()),
        headline=_headline(study.results.functions),
        warnings=study.warnings,
        figure=None if training else lambda: _figure(study.results),
    )
    emit(report, output, files=files)


def _writer(
    profiled: Sequence[ProfiledFunction], folder: Path, note: str
) -> Callable[[Path], None]:
    """Return what writes the file of functions."""
    from gpuplan.analysis.user_tables.sharing_functions import functions_text

    text = functions_text((one.function for one in profiled), folder, note)

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write


def _note(slo: str | None) -> str:
    what = "training" if slo is None else f"an SLO of {slo.strip()}"
    return f"Functions that share GPUs, profiled for {what}. Add memory_gb, work and load by hand."


def _figure(results: ProfileResults) -> Figure:
    from gpuplan.cli.figures.sharing import draw_profiles

    return draw_profiles(
        [(one.table, one.service) for one in results.functions if one.service is not None]
    )


def _headline(profiled: Sequence[ProfiledFunction]) -> str:
    one = profiled[0]
    function = one.function
    if len(profiled) > 1:
        shares = [
            model.function.request if model.for_load is None else model.for_load.gpus
            for model in profiled
        ]
        low, high = (f"{100 * share:g}%" for share in (min(shares), max(shares)))
        between = low if low == high else f"{low} to {high}"
        return f"{len(profiled)} models need {between} of a GPU each."
    if one.for_load is not None:
        return _for_load(function.name, one.for_load)
    if one.service is None:
        return (
            f"{function.name} trains at 80% of its speed on {100 * function.request:g}% of a GPU, "
            f"and at full speed on {100 * function.limit:g}%."
        )
    gap = 1 - one.service.te / one.service.best.te
    best = "the optimum" if gap < 0.005 else f"{100 * gap:.0f}% less per share than the optimum"
    return (
        f"{function.name} needs {100 * function.request:g}% of a GPU at batch {function.batch}: "
        f"{one.service.throughput:,.0f} items/s, {best}, found in {len(one.service.path)} trials."
    )


def _for_load(name: str, found: LoadChoice) -> str:
    from gpuplan.cli.tables.sharing_tables import show_latency

    share = f"{100 * found.request:g}% of a GPU"
    needs = share if found.instances == 1 else f"{found.instances:,} instances, each with {share},"
    return (
        f"{name} needs {needs} at batch {found.batch} for {found.load_rps:g} requests/s: "
        f"{found.throughput:,.1f} requests/s per instance, {show_latency(found.latency_s)} a batch."
    )


def _percent(share: Any) -> str:
    return f"{100 * share:g}%"


def _served(found: dict[str, Any]) -> str:
    return f"{found['instances']:,} x {_percent(found['request'])}, batch {found['batch']}"


def _table(results: ProfileResults) -> Table:
    columns: tuple[Column, ...] = (
        Column("name", "model"),
        Column("batch", "batch", str),
        Column("request", "request", _percent),
        Column("limit", "limit", _percent),
        Column("te", "items/s per %", lambda value: f"{value:.2f}"),
        Column("te_best", "best", lambda value: f"{value:.2f}"),
        Column("evaluations", "trials", str),
        Column("moves", "", None),
    )
    rows = plain(results.functions)
    if any(row["for_load"] for row in rows):
        columns += (Column("for_load", f"for {rows[0]['for_load']['load_rps']:g}/s", _served),)
    cells = [[row[column.key] for column in columns] for row in rows]
    return Table("Batch size and share of the GPU", columns, cells)
