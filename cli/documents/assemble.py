"""From a trace and the names of studies to a document."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuplan.analysis.errors import GpuplanError, UsageError
from gpuplan.analysis.lookup import did_you_mean
from gpuplan.cli.app import messages
from gpuplan.cli.documents.studies import (
    check_study,
    given_options,
    run_study,
    study_options,
    takes_trace,
    words_of,
)
from gpuplan.cli.documents.study import StudyResult, result_of
from gpuplan.cli.documents.view import TITLES

USUAL = ("characterize", "pareto", "sweep", "compare")
SETTING = re.compile(r"(?P<study>\w+)\.(?P<option>[\w-]+)=(?P<value>.*)", re.DOTALL)
Options = dict[str, dict[str, Any]]
"""Study -> its options, by the names of `gpuplan.cli.documents.studies`."""


def read_options(
    names: Sequence[str], settings: Iterable[str], shared: Mapping[str, Any]
) -> Options:
    """Return the options of each study: those of all, then its own.

    Args:
        names: commands, each once.
        settings: ``study.option=value``; an option that may be repeated takes several.
        shared: options that go to each study which has them.

    Raises:
        UsageError: a name that is no study, or a setting that cannot be read.
    """
    options: Options = {}
    for name in names:
        if name not in TITLES:
            raise UsageError(f"--study {name}: no such study{did_you_mean(name, TITLES)}")
        if name in options:
            raise UsageError(f"--study {name}: given twice")
        known = study_options(name)
        options[name] = {key: value for key, value in shared.items() if key in known}
    for setting in settings:
        match = SETTING.fullmatch(setting)
        if match is None:
            raise UsageError(
                f"--set {setting}: expected study.option=value, for example pareto.budget=1.2x,2x"
            )
        _set(options, match["study"], match["option"].replace("-", "_"), match["value"])
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


def run_all(
    trace: Path, options: Options, *, needed: Collection[str]
) -> tuple[tuple[StudyResult, ...], tuple[str, ...]]:
    """Run every study on a trace; return the results, and why others are missing.

    Args:
        trace: a canonical trace, or a log.
        options: the studies, in order.
        needed: studies of which it is an error that they cannot be made; of the others it is one
            only where no study can.

    Raises:
        GpuplanError: a study cannot be made; the message names it.
    """
    from gpuplan.analysis.ingest.logs import each_log_once

    with each_log_once():
        return _run_all(trace, options, needed)


def _run_all(
    trace: Path, options: Options, needed: Collection[str]
) -> tuple[tuple[StudyResult, ...], tuple[str, ...]]:
    results, notes = [], []
    failed: GpuplanError | None = None
    for name, chosen in options.items():
        given = given_options(name, chosen)
        try:
            with _named(name):
                report = run_study(name, given, trace=trace)
                read = [str(trace)] if takes_trace(name, chosen) else []
                results.append(result_of(name, [*read, *words_of(given)], report))
        except GpuplanError as error:
            failed = failed or error
            if name in needed:
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
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")
