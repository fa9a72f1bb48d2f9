"""``gpuplan report``: several studies of one trace as a page, a comment, JSON and test cases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import DATE_FORMATS, Group, changed_options
from gpuplan.analysis.storage.cache import chosen_folder, open_cache
from gpuplan.analysis.storage.files import STANDARD_INPUT, existing_file, files_named_in
from gpuplan.analysis.trace.selection import Selection
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.diff.gates import judge_since, read_baseline
from gpuplan.cli.documents.assemble import (
    check_all,
    read_options,
    run_all,
    studies_of_book,
    time_stamp,
    usual_studies,
)
from gpuplan.cli.documents.emit import write_stdout
from gpuplan.cli.documents.gates import conclude
from gpuplan.cli.documents.studies import given_options, left_out, takes_trace, words_of
from gpuplan.cli.documents.study import Document
from gpuplan.cli.documents.verdict import opening
from gpuplan.cli.documents.view import titles, usual_for
from gpuplan.cli.documents.write import (
    FORMS,
    check_folder,
    hold_pictures,
    read_forms,
    write_document,
)
from gpuplan.cli.gates.conditions import read_condition, refuse_change
from gpuplan.cli.gates.gates import allowing, warnings_only
from gpuplan.cli.options.completion import one_of, some_of
from gpuplan.cli.options.shared_options import (
    AllowUnchecked,
    CacheFolder,
    FailIf,
    NoCache,
    WarnIf,
    command,
    output_option,
)
from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.cli.scenario.running import run_scenario
from gpuplan.planner.money.pool_texts import price_texts
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.declaration import OF_USED_GPUS
from gpuplan.planner.requests.trace import TRACE_HELP

EXAMPLE = "gpuplan report trace.parquet -o report --set pareto.budget=1.2x,2x"


def _studies() -> Iterable[str]:
    """Return what ``--study`` takes."""
    return titles()


def _forms() -> Iterable[str]:
    """Return what ``--formats`` takes."""
    return FORMS


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "report", example=EXAMPLE)(report)


def report(
    source: Annotated[
        Path,
        typer.Argument(
            help=f"{TRACE_HELP} Or a scenario (.toml) of [bold]gpuplan run[/bold], which names "
            "its own studies.",
            show_default=False,
            metavar="TRACE|LOG|SCENARIO",
        ),
    ],
    jobs: Annotated[Selection, Group(without=("period_from", "period_to", "spot"))],
    prices: Annotated[PriceRequest, Group(common=("prices", "contracts"))],
    out: Annotated[
        Path,
        COMMON,
        output_option(
            "--output",
            "-o",
            help="Folder for the documents; made if missing.",
            metavar="DIR",
        ),
    ],
    study: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="A study to run, such as pareto, size, or sweep. May be repeated. Default: "
            "characterize, pareto, and compare, where the trace has what they need; sweep too "
            "where the log is of a serverless service, waste where it tells what GPUs did, or "
            "where --set names them; with --contracts bill, size, and the forecast of spend too.",
            metavar="NAME",
            autocompletion=one_of(_studies),
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="An option of one study, such as pareto.budget=1.2x,2x or "
            "sweep.set=checkpoint_s=20; or a value of a scenario, as in [bold]gpuplan "
            "run[/bold]. May be repeated.",
            metavar="STUDY.OPTION=VALUE",
            show_default=False,
        ),
    ] = None,
    formats: Annotated[
        str | None,
        COMMON,
        output_option(
            help="What to write, comma-separated: html, md, json, junit, svg, png. "
            "Default: as the scenario says, otherwise all.",
            autocompletion=some_of(_forms),
        ),
    ] = None,
    title: Annotated[
        str | None,
        COMMON,
        output_option(
            help="Title of the documents. Default: names the trace.",
        ),
    ] = None,
    time: Annotated[
        datetime | None,
        output_option(
            help="Date of the documents (UTC). Default: SOURCE_DATE_EPOCH if set, "
            "otherwise none, so that the same inputs give the same bytes.",
            formats=DATE_FORMATS,
        ),
    ] = None,
    fail_if: FailIf = None,
    warn_if: WarnIf = None,
    baseline: Annotated[
        Path | None,
        output_option(
            help="An earlier report.json, or the JSON output of one of its studies. A condition "
            "whose value has a sign, such as 'bill.usd_per_month > +10%', is on the change since "
            "then.",
            metavar="FILE",
        ),
    ] = None,
    allow_unchecked: AllowUnchecked = False,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
) -> None:
    """Run several studies of a trace, and write a page, a comment, JSON, and test cases."""
    shared = changed_options(jobs)
    book = {name: _texts(value) for name, value in changed_options(prices).items()}
    stamp = time_stamp(time)
    if source.suffix.lower() == ".toml":
        if study or book or shared:
            raise UsageError(
                f"{source} already names the studies, jobs and prices\n"
                "  next: change a value with --set, for example --set workload.seed=7"
            )
        make, studies, inputs, usual = _of_scenario(
            source, settings or (), cache, no_cache=no_cache
        )
    else:
        if cache is not None or no_cache:
            raise UsageError("--cache, --no-cache: only with a scenario (.toml)")
        make, studies, inputs = _of_trace(
            source, study, settings or (), shared, book, (*(fail_if or ()), *(warn_if or ()))
        )
        usual = FORMS
    for option, conditions in (("--fail-if", fail_if), ("--warn-if", warn_if)):
        for text in conditions or ():
            condition = read_condition(text, studies, option)
            if baseline is None:
                refuse_change(condition, option, "add --baseline with an earlier report.json")
    forms = usual if formats is None else read_forms(formats)
    check_folder(out, forms, [*inputs, *([] if baseline is None else [baseline])])
    before = None if baseline is None else read_baseline(baseline)
    document = make(hold_pictures(forms))
    gates = (
        *document.gates,
        *judge_since(before, document, fail_if or ()),
        *warnings_only(judge_since(before, document, warn_if or ())),
    )
    gates = allowing(gates, allow_unchecked)
    document = replace(document, title=title or document.title, gates=gates, time=stamp)
    written = write_document(document, out, forms)
    write_stdout(opening(document, sys.stdout))
    for path in written:
        messages.note(f"wrote {path}")
    conclude(document)


def _of_trace(
    trace: Path,
    names: Sequence[str] | None,
    settings: Sequence[str],
    shared: Mapping[str, Any],
    book: Mapping[str, Any],
    conditions: Sequence[str],
) -> tuple[Callable[[bool], Document], Mapping[str, str], Sequence[Path]]:
    """Return what runs the studies of a trace, their commands by name, and what they may read.

    Raises:
        GpuplanError: an option that cannot be meant, or no such trace.
    """
    before = studies = names or usual_studies((*settings, *conditions))
    if not names and "contracts" in book:
        of_book = studies_of_book(Path(book["contracts"]))
        studies = usual_studies((*settings, *conditions), of_book)
    spend = [] if "forecast" in before or "forecast" not in studies else ["forecast.spend=true"]
    options = read_options(studies, [*settings, *spend], shared, book)
    of_use = usual_for(OF_USED_GPUS)  # without a replay, which is for whoever names the study
    without = [f"{name}.replay=false" for name in of_use]
    of_use_options = {} if names else read_options(of_use, without, shared, book)
    if trace != STANDARD_INPUT and not trace.is_dir():
        existing_file(trace)
    check_all(trace, options)
    # What is configured is asked for; only a default may be more than the trace can support.
    needed = names or {setting.partition(".")[0] for setting in settings}

    def make(draws: bool) -> Document:
        results, notes = run_all(
            trace, options, needed=needed, is_usual=not names, of_use=of_use_options, draws=draws
        )
        left = [
            note
            for study in results
            if takes_trace(study.command, options.get(study.command, ()))
            for note in left_out(study.command, shared)
        ]
        for note in left:
            messages.warn(note)
        name = "standard input" if trace == STANDARD_INPUT else trace.stem
        return Document(f"GPU workload report: {name}", results, notes=(*notes, *left))

    named = [
        word for name, chosen in options.items() for word in words_of(given_options(name, chosen))
    ]
    return make, {name: name for name in options}, [trace, *files_named_in(*named)]


def _texts(value: Any) -> Any:
    """Return the value of an option of the price book as a command line gives it."""
    if not isinstance(value, dict):
        return value
    return price_texts(value)


def _of_scenario(
    path: Path,
    settings: Sequence[str],
    cache_folder: Path | None,
    *,
    no_cache: bool,
) -> tuple[Callable[[bool], Document], Mapping[str, str], Sequence[Path], Sequence[str]]:
    """Return as `_of_trace` for a scenario, and the forms of its documents."""
    folder = chosen_folder(cache_folder, no_cache=no_cache)
    scenario = load_scenario(path, settings)

    def make(_: bool) -> Document:  # results are kept with their pictures
        with open_cache(folder) as cache:
            return run_scenario(scenario, cache)

    forms = FORMS if scenario.documents is None else scenario.documents.forms
    commands = {study.name: study.command for study in scenario.studies}
    return make, commands, scenario.inputs, forms
