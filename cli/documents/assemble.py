"""From a trace and the names of studies to a document."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.errors import GpuplanError, UsageError
from gpuplan.analysis.base.lookup import did_you_mean
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.prices.contracts import COMMITTED, read_contracts
from gpuplan.cli.app import messages
from gpuplan.cli.app.main import CLICK_ERROR
from gpuplan.cli.app.parser_errors import usage_message
from gpuplan.cli.documents.book_options import book_options
from gpuplan.cli.documents.studies import (
    SPEND,
    check_study,
    given_options,
    read_study,
    run_study,
    study_options,
    takes_trace,
    words_of,
)
from gpuplan.cli.documents.study import StudyResult, result_of
from gpuplan.cli.documents.view import in_report_order, titles, usual_for
from gpuplan.planner.money.price_request import MissingPrice, NoServerlessPrice
from gpuplan.planner.requests.declaration import ALWAYS, OF_BOOK, OF_COMMITMENTS, OF_SERVERLESS_LOG

if TYPE_CHECKING:
    from gpuplan.analysis.trace.trace import Trace

SERVERLESS_LOGS = ("azure-functions", "azure-llm", "genai")
"""Formats of logs of services that start containers for requests."""

SCHEDULERS = ("fifo", "easy", "srtf")
"""Policies to compare on a cluster; serverless ones only where the log is of such a service."""
USE = ("gpu_util_mean",)
"""Column of what GPUs did."""
SETTING = re.compile(r"(?P<study>\w+)\.(?P<option>[\w-]+)=(?P<value>.*)", re.DOTALL)
Options = dict[str, dict[str, Any]]
"""Study -> its options, by the names of `gpuplan.cli.documents.studies`."""


def usual_studies(named_in: Iterable[str], of_book: Iterable[str] = ()) -> list[str]:
    """Return the studies that are run where none is named.

    Args:
        named_in: settings and conditions, which may begin with a study of their own.
        of_book: studies that the price book is of use for; see `studies_of_book`.
    """
    named = {re.split(r"[.\[]", text.strip())[0] for text in named_in}
    usual = {*usual_for(ALWAYS), *named, *of_book}
    return [name for name in in_report_order() if name in usual]


def studies_of_book(contracts: Path) -> tuple[str, ...]:
    """Return what a price book is of use for: the bill, commitments if it has any, and spend.

    Raises `InputError` where it cannot be read.
    """
    commits = any(pool.market == COMMITTED for pool in read_contracts(contracts).pools)
    return usual_for(OF_BOOK, *((OF_COMMITMENTS,) if commits else ()))


def read_options(
    names: Sequence[str],
    settings: Iterable[str],
    shared: Mapping[str, Any],
    prices: Mapping[str, Any] | None = None,
) -> Options:
    """Return the options of each study: those of all, then its own.

    Args:
        names: commands, each once.
        settings: ``study.option=value``; an option that may be repeated takes several.
        shared: options that go to each study which has them.
        prices: those of the price book, for each study that takes them.

    Raises:
        UsageError: a name that is no study, or a setting that cannot be read.
    """
    options: Options = {}
    for name in names:
        if name not in titles():
            hint = did_you_mean(name, titles())
            if name == SPEND:
                hint = "\n  next: --study forecast --set forecast.spend=true"
            raise UsageError(f"--study {name}: no such study{hint}")
        if name in options:
            raise UsageError(f"--study {name}: given twice")
        study_takes = study_options(name)
        options[name] = {key: value for key, value in shared.items() if key in study_takes}
    typed: dict[tuple[str, str], str] = {}
    for setting in settings:
        match = SETTING.fullmatch(setting)
        if match is None:
            raise UsageError(
                f"--set {setting}: expected study.option=value, for example pareto.budget=1.2x,2x"
            )
        study, key = match["study"], match["option"].replace("-", "_")
        _set(options, study, key, match["value"])
        if (study, key) in typed and not isinstance(options[study][key], list):
            first = typed[study, key]
            raise UsageError(f"--set {first} and --set {setting}: give one of the two")
        typed[study, key] = setting
    for name, chosen in options.items():
        options[name] = book_options(name, prices or {}, chosen) | chosen
    for name, chosen in options.items():
        given_options(name, chosen)  # says what is wrong before any study runs
    return options


def _set(options: Options, study: str, key: str, text: str) -> None:
    if study not in options:
        raise UsageError(f"--set {study}.{key}: no such study{did_you_mean(study, options)}")
    option = study_options(study).get(key)
    value: Any = text
    if option is not None and option.is_flag:
        if text not in ("true", "false"):
            raise UsageError(f"--set {study}.{key}={text}: expected true or false")
        value = text == "true"
    elif option is not None and option.multiple:
        value = [*options[study].get(key, []), text]
    options[study][key] = value


def check_all(trace: Path, options: Options) -> None:
    """Check the options of every study before any reads the trace; raises what the first would."""
    for name, chosen in options.items():
        with _named(name):
            check_study(name, given_options(name, chosen), trace=trace)


@contextmanager
def _named(study: str) -> Iterator[None]:
    """Name the study in what is raised inside."""
    try:
        yield
    except GpuplanError as error:
        error.args = (f"{study}: {error}",)
        raise
    except CLICK_ERROR as error:
        raise UsageError(f"{study}: {usage_message(error)}") from error


def run_all(
    trace: Path,
    options: Options,
    *,
    needed: Collection[str],
    is_usual: bool = False,
    of_use: Mapping[str, Mapping[str, Any]] | None = None,
    draws: bool = True,
) -> tuple[tuple[StudyResult, ...], tuple[str, ...]]:
    """Run every study on a trace; return the results, and why others are missing.

    Args:
        trace: a canonical trace, or a log.
        options: the studies, in order.
        needed: studies of which it is an error that they cannot be made; of the others, and where
            a price book only lacks serverless prices, it is one only where no study can.
        is_usual: whether the studies are those of `usual_studies`, which follow the log: one of a
            service that starts containers is also asked about serverless GPUs.
        of_use: studies that are run if the log tells what GPUs did -> their options.
        draws: whether to draw their pictures.

    Raises:
        GpuplanError: a study cannot be made; the message names it.
    """
    from gpuplan.analysis.ingest.kept_logs import each_log_once

    with each_log_once():
        log = _usual_log(trace, options) if is_usual else None
        if log is not None and of_use and _tells_use(log):
            new = {name: dict(chosen) for name, chosen in of_use.items() if name not in options}
            options = {**options, **new}
        if log is not None and log.provenance.source_format in SERVERLESS_LOGS:
            compared = {"compare": options["compare"]} if "compare" in options else {}
            options = {**{n: chosen for n, chosen in options.items() if n != "compare"}}
            of_serverless = {name: options.get(name, {}) for name in usual_for(OF_SERVERLESS_LOG)}
            options = {**options, **of_serverless, **compared}
            is_usual = False
        return _run_all(trace, options, needed, on_a_cluster=is_usual, draws=draws)


def _usual_log(trace: Path, options: Options) -> Trace:
    """Return the log, with its times and what it tells of the use of GPUs alone."""
    from gpuplan.analysis.ingest.logs import read_trace

    typed = given_options("characterize", options.get("characterize", {}))
    selection = read_study("characterize", typed, trace=trace).request.jobs
    return read_trace(trace, selection, columns=("submit_time",), optional=USE)


def _tells_use(log: Trace) -> bool:
    """Return whether the utilization of any job is known."""
    return any(
        log.jobs[name].null_count() < log.jobs.height for name in USE if name in log.jobs.columns
    )


def _on_todays_gpus(results: Sequence[StudyResult], chosen: dict[str, Any]) -> dict[str, Any]:
    """Return options of ``compare``: where none says else, schedulers on today's peak of GPUs."""
    settings = [text for text in chosen.get("set", ()) if not text.startswith("gpu=")]
    if settings or chosen.keys() & {"policy", "cluster", "gpus"}:
        return chosen
    todays = (result.results.get("today") for result in results if result.command == "characterize")
    peak = next((today["peak_gpus"] for today in todays if today), None)
    if not peak:
        return chosen
    return {**chosen, "policy": list(SCHEDULERS), "gpus": math.ceil(peak)}


def _run_all(
    trace: Path, options: Options, needed: Collection[str], *, on_a_cluster: bool, draws: bool
) -> tuple[tuple[StudyResult, ...], tuple[str, ...]]:
    results: list[StudyResult] = []
    notes: list[str] = []
    failed: GpuplanError | None = None
    serverless = usual_for(OF_SERVERLESS_LOG)
    for name, chosen in options.items():
        if name == "compare" and on_a_cluster:
            chosen = _on_todays_gpus(results, chosen)
        typed = given_options(name, chosen)
        try:
            with _named(name):
                report = run_study(name, typed, trace=trace)
                read = [str(trace)] if takes_trace(name, chosen) else []
                words = [*read, *words_of(typed)]
                results.append(result_of(name, words, report, draws=draws))
        except GpuplanError as error:
            failed = failed or error
            is_priced = not isinstance(error, MissingPrice) or name in serverless
            if not isinstance(error, NoServerlessPrice) and (name in needed or not is_priced):
                raise
            notes.append(" ".join(f"without {error}".split()))
    if failed is not None and not results:
        raise failed
    for note in notes:
        messages.warn(note)
    return tuple(results), tuple(notes)


def time_stamp(time: datetime | None) -> str | None:
    """Return when a document is made: as asked, or as ``SOURCE_DATE_EPOCH`` says, or nothing.

    Raises:
        UsageError: ``SOURCE_DATE_EPOCH`` is no number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if time is None and epoch:
        try:
            time = datetime.fromtimestamp(int(epoch), UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise UsageError(
                f"SOURCE_DATE_EPOCH={epoch}: expected seconds since 1970, for example 1767225600"
            ) from error
    return None if time is None else as_utc(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
