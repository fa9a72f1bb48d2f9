"""Run a checked scenario: its trace, its studies, what its gates say; only what has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gpuplan.analysis.base.errors import GpuplanError, OutOfMemoryError, OutputError
from gpuplan.analysis.base.option import declared_options
from gpuplan.analysis.storage.cache import Cache, hashes_of, key_of, open_cache
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.cli.app import messages
from gpuplan.cli.documents.gates import judge_all
from gpuplan.cli.documents.studies import read_study, run_study
from gpuplan.cli.documents.study import Document, StudyResult, result_of
from gpuplan.cli.gates.gates import warnings_only
from gpuplan.cli.scenario.scenario import DeclaredStudy, DeclaredWorkload, Scenario
from gpuplan.planner.engine import Engine
from gpuplan.planner.money.price_request import NoServerlessPrice

WHERE_IT_RUNS = tuple(f"{option.flag}=" for option in declared_options(Engine))
"""Options that change no result."""


@dataclass(frozen=True, slots=True)
class _Trace:
    """The trace that studies read.

    Attributes:
        path: where it is.
        sha256: of its bytes.
        name: what documents call it.
        log: what the user calls it: the log that it is made of.
        warnings: what was said when it was made.
    """

    path: Path
    sha256: str
    name: str
    log: str
    warnings: tuple[str, ...] = ()

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Name the log in what is raised inside, in place of the trace in the cache."""
        try:
            yield
        except GpuplanError as error:
            error.args = (self.named(str(error).replace(str(self.path), self.log)),)
            raise

    def named(self, text: str, write: Callable[[str], str] = str) -> str:
        """Return a text that calls the trace, and files beside it, by its name.

        Args:
            text: the text.
            write: how names are written in it.
        """
        if Path(self.name) == self.path:
            return text
        written = write(str(self.path.with_suffix("")))
        return text.replace(written, write(self.name.removesuffix(".parquet")))


def run_scenario(scenario: Scenario, cache: Cache, *, time: str | None = None) -> Document:
    """Run what is not in the cache, and return everything as a document.

    The document is the same, byte for byte, whatever was in the cache.

    Args:
        scenario: as `load_scenario` returns it.
        cache: what was run before.
        time: when the document is made; None to leave it out.

    Raises:
        GpuplanError: no study can be done; the message names the first.
    """
    with chdir(scenario.folder), ExitStack() as until_done:
        trace = _existing_trace(scenario.workload, cache)
        if trace is None:
            trace = _made_in(cache, scenario.workload)
        if trace is None:  # a trace must stand somewhere
            cache = until_done.enter_context(open_cache(None))
            trace = _made(scenario.workload, cache)
        making = [f"{scenario.workload.command}: {warning}" for warning in trace.warnings]
        for warning in (*scenario.warnings, *scenario.notes, *making):
            messages.warn(warning)
        results, missing = _results(scenario.studies, trace, cache)
    notes = {name: f"without {name}: {' '.join(str(why).split())}" for name, why in missing.items()}
    failed = {name: why for name, why in missing.items() if not _lacks_prices(why)}
    for name in missing.keys() - failed.keys():
        messages.warn(notes[name])
    return Document(
        title=scenario.title,
        studies=results,
        gates=(
            *judge_all(results, scenario.gates, [*missing]),
            *warnings_only(judge_all(results, scenario.warning_gates, [*missing])),
        ),
        time=time,
        notes=(*scenario.notes, *notes.values(), *(trace.named(warning) for warning in making)),
        failed=failed,
    )


def planned(scenario: Scenario, cache: Cache) -> list[tuple[DeclaredStudy, bool]]:
    """Return the studies, each with whether its result is in the cache."""
    with chdir(scenario.folder):
        trace = _existing_trace(scenario.workload, cache)
        return [
            (study, trace is not None and _kept(_key(study, trace), cache) is not None)
            for study in scenario.studies
        ]


def _existing_trace(workload: DeclaredWorkload, cache: Cache) -> _Trace | None:
    """Return the trace if it is there; None where it must be made."""
    if not (workload.command or workload.trace):  # no study takes one
        return _Trace(Path(), "", "", "")
    if not workload.command:
        path = Path(workload.trace)
        return _Trace(path, sha256_of(path), workload.trace, workload.log)
    key = _trace_key(workload)
    path, text = cache.path("traces", f"{key}.parquet"), cache.read("traces", key)
    if text is None or not os.path.isfile(path):
        return None
    try:
        kept = json.loads(text)
        sha256, warnings = kept["sha256"], tuple(kept["warnings"])
        made = _Trace(path, sha256, workload.trace, workload.log, warnings)
        return made if sha256_of(path) == made.sha256 else None
    except (OSError, ValueError, LookupError, TypeError):  # damaged, or not ours to read
        return None


def _made_in(cache: Cache, workload: DeclaredWorkload) -> _Trace | None:
    """Return the trace, made in the cache; None where the cache cannot take it, which is said."""
    if not cache.takes("traces"):
        return None
    try:
        return _made(workload, cache)
    except GpuplanError as error:
        if not isinstance(error.__cause__ or error, OutputError):
            raise
        messages.warn(f"not cached: {error}")  # a full disk
        return None


def _made(workload: DeclaredWorkload, cache: Cache) -> _Trace:
    key = _trace_key(workload)
    path = cache.path("traces", f"{key}.parquet")
    cache.make("traces")
    with workload.places.located():
        sources = {"sources": workload.files} if workload.files else {}
        report = run_study(workload.command, workload.options, **sources, output=path)
    made = _Trace(path, sha256_of(path), workload.trace, workload.log, report.warnings)
    cache.keep("traces", key, json.dumps({"sha256": made.sha256, "warnings": made.warnings}))
    return made


def _trace_key(workload: DeclaredWorkload) -> str:
    from gpuplan.analysis.job_table.schema import TRACE_COLUMNS

    return key_of(
        "trace",
        command=workload.command,
        arguments=workload.arguments,
        files=hashes_of(*workload.arguments),
        holds=TRACE_COLUMNS,
    )


def _results(
    studies: Sequence[DeclaredStudy], trace: _Trace, cache: Cache
) -> tuple[tuple[StudyResult, ...], dict[str, GpuplanError]]:
    """Return the results, and by study why others are missing.

    Raises `GpuplanError` where no study has a result, and where disk or memory is full.
    """
    results, missing = list[StudyResult](), dict[str, GpuplanError]()
    for study in studies:
        try:
            results.append(_result(study, trace, cache))
        except GpuplanError as error:
            if isinstance(error.__cause__ or error, OutputError | OutOfMemoryError):
                raise
            missing[study.name] = error
    if missing and not results:
        raise min(missing.values(), key=_lacks_prices)
    return tuple(results), missing


def _lacks_prices(error: GpuplanError) -> bool:
    """Return whether a study is missing for want of serverless prices alone, which is no error."""
    return isinstance(error.__cause__ or error, NoServerlessPrice)


def _result(study: DeclaredStudy, trace: _Trace, cache: Cache) -> StudyResult:
    """Return the result of a study, from the cache or by running it."""
    key = _key(study, trace)
    result = _kept(key, cache)
    if result is not None:
        messages.note(f"{study.name}: from the cache")
    else:
        messages.note(f"{study.name}: gpuplan {study.command}")
        with study.places.located(), trace.named_in_errors():
            report = run_study(study.command, study.options, trace=trace.path)
        result = result_of(study.name, study.arguments, report)
        text = trace.named(result.to_text(), _inside_json)
        result = StudyResult.from_text(text)
        cache.keep("studies", key, text)
    named = (trace.name,) if study.takes_trace else ()
    return replace(result, arguments=(*named, *study.arguments))


def _kept(key: str, cache: Cache) -> StudyResult | None:
    text = cache.read("studies", key)
    try:
        return None if text is None else StudyResult.from_text(text)
    except (ValueError, LookupError, TypeError, AttributeError):  # of another version of ours
        return None


def _key(study: DeclaredStudy, trace: _Trace) -> str:
    arguments = [word for word in study.arguments if not word.startswith(WHERE_IT_RUNS)]
    return key_of(
        "study",
        name=study.name,
        command=study.command,
        arguments=arguments,
        trace=(trace.name, trace.sha256),
        files=hashes_of(*arguments, *_read_by(study, trace)),
    )


def _read_by(study: DeclaredStudy, trace: _Trace) -> list[str]:
    """Return the files that a study reads beside the trace, those that its files name too."""
    reads = read_study(study.command, study.options, trace=trace.path).request.reads
    return [str(path) for path in reads if path is not None and path != trace.path]


def _inside_json(text: str) -> str:
    """Return a text as `StudyResult.to_text` writes it: letters beyond ASCII are escaped."""
    return json.dumps(text)[1:-1]
