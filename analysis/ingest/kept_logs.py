"""Make a trace of a log, or take it from the cache: a file, a folder, an archive, standard input.

The trace of a log is kept in the cache of `analysis.storage.cache`, named by the hash of everything
it depends on: the bytes and names of the files, the options and the version of gpuplan.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gpuplan.analysis.base.errors import GpuplanError, OutputError
from gpuplan.analysis.base.words import a_log, counted
from gpuplan.analysis.ingest.ingest import LogReader, log_reader
from gpuplan.analysis.job_table.log_options import LogAccount, LogOptions
from gpuplan.analysis.job_table.schema import TRACE_COLUMNS, Provenance
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.log_formats.kubernetes_jobs import NO_TYPE, WAIT_HAS_ATTEMPTS
from gpuplan.analysis.reading.batch import OTHER_DEVICES
from gpuplan.analysis.reading.inputs import Inputs
from gpuplan.analysis.reading.rejects import rejects_path
from gpuplan.analysis.reading.times import LOCAL_TIMES
from gpuplan.analysis.storage.cache import Cache, key_of, usual_folder
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.storage.temporary import temporary_folder

LOG = logging.getLogger("gpuplan")
ALWAYS_SHOWN = (LOCAL_TIMES, OTHER_DEVICES, WAIT_HAS_ATTEMPTS, NO_TYPE)
"""Notes of a trace without which its dates, GPUs or waits may be misread."""
KIND = "logs"
"""Folder of the traces of logs in the cache."""

MOST_BYTES = 4 << 30
"""Beyond this the traces that were not used for the longest time are removed."""

IN_USE_S = 3600.0
"""A trace that was used since may still be read by another run."""


@dataclass(frozen=True, slots=True)
class IngestedLog:
    """The trace of a log.

    Attributes:
        trace: the file.
        sha256: hash of the log; of several files the hash of their names and hashes.
        account: what became of its rows.
        warnings: what makes it doubtful.
        shown_notes: notes of the trace that every command shows.
        is_kept: whether it is in the cache; otherwise it is temporary.
    """

    trace: Path
    sha256: str
    account: LogAccount
    warnings: tuple[str, ...] = ()
    shown_notes: tuple[str, ...] = ()
    is_kept: bool = True


@dataclass(slots=True)
class _Ingested:
    """The logs of a block of `each_log_once`."""

    files: ExitStack
    logs: dict[tuple[str, str], IngestedLog] = field(default_factory=dict)


_ingested: ContextVar[_Ingested | None] = ContextVar("ingested", default=None)


@contextmanager
def each_log_once() -> Iterator[None]:
    """Read each log once inside the block, for several studies: standard input has no second time.

    A log that changes meanwhile is not read again.
    """
    with ExitStack() as files:
        token = _ingested.set(_Ingested(files))
        try:
            yield
        finally:
            _ingested.reset(token)


@contextmanager
def opened_log(path: Path, options: LogOptions, *, is_quiet: bool = False) -> Iterator[IngestedLog]:
    """Yield the trace of a log; a temporary one is removed at the end.

    Args:
        path: the log.
        options: how to read it.
        is_quiet: whether nothing but warnings is said, as the caller tells what was read.
    """
    kept = _ingested.get()
    if kept is None:
        with ExitStack() as files:
            yield _ingest(path, options, files, is_quiet)
        return
    key = (str(path), repr(options))
    if key not in kept.logs:
        kept.logs[key] = _ingest(path, options, kept.files, is_quiet)
    yield kept.logs[key]


def _ingest(path: Path, options: LogOptions, files: ExitStack, is_quiet: bool) -> IngestedLog:
    """Return the trace of a log, from the cache or made now, with a note of which."""
    choices = IngestOptions(
        options.columns, options.time_zone, values=options.values, keep=options.keep
    )
    reader = log_reader(options.source_format, choices, options.max_rejects)
    with reader.opened([path]) as inputs:
        contents = _contents(inputs)
        sha256 = contents[0][1] if contents else ""  # an empty folder is refused below
        if len(contents) > 1:
            sha256 = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        key = key_of(
            "log",
            contents=contents,
            source_format=options.source_format,
            columns=list(options.columns.items()),
            time_zone=options.time_zone,
            values=[(name, list(words.items())) for name, words in options.values.items()],
            max_rejects=options.max_rejects.text,
            keep=options.keep,
            holds=TRACE_COLUMNS,
        )
        cache = _usual_cache()
        log = None if cache is None else _from_cache(cache, key, sha256)
        done = "from the cache"
        if log is None:
            log = _ingested_now(reader, inputs, cache, key, sha256, files)
            done = "ingested into the cache" if log.is_kept else "ingested"
    if not is_quiet:
        LOG.info("%s is %s", path, _summary(log, done))
        for note in log.shown_notes:
            LOG.info("%s: %s", path, note)
        for warning in log.warnings:
            LOG.warning("%s: %s", path, warning)
    return log


def always_shown_notes(provenance: Provenance) -> tuple[str, ...]:
    """Return what every command says of a trace of this provenance."""
    return tuple(note for note in provenance.notes if any(text in note for text in ALWAYS_SHOWN))


def _contents(inputs: Inputs) -> list[tuple[str, str]]:
    """Return the names and hashes of the files of a log, in order.

    Formats may look at the name of a file and its folder.
    """
    contents: dict[Path, tuple[str, str]] = {}
    for source in inputs.sources:
        if source.file not in contents:
            shown = Path(str(source.path).partition("!")[0]) if source.member else source.path
            contents[source.file] = ("/".join(shown.parts[-2:]), sha256_of(source.file))
    return list(contents.values())


def _usual_cache() -> Cache | None:
    try:
        return Cache(usual_folder())
    except OutputError:  # no home folder
        return None


def _from_cache(cache: Cache, key: str, sha256: str) -> IngestedLog | None:
    """Return a log of the cache; None where it is not there or is damaged."""
    text, trace = cache.read(KIND, key), cache.path(KIND, f"{key}.parquet")
    if text is None or not trace.is_file():
        return None
    try:
        entry = json.loads(text)
        if sha256_of(trace) != entry["trace_sha256"]:
            return None
        account = LogAccount(**entry["account"])
        if account.rejected_by_reason and not rejects_path(trace).is_file():
            return None
        warnings, notes = tuple(entry["warnings"]), tuple(entry["shown_notes"])
    except (GpuplanError, ValueError, LookupError, TypeError):  # damaged, or of another version
        return None
    with suppress(OSError):
        os.utime(trace)  # it was used now
    return IngestedLog(trace, sha256, account, warnings, notes)


def _ingested_now(
    reader: LogReader,
    inputs: Inputs,
    cache: Cache | None,
    key: str,
    sha256: str,
    files: ExitStack,
) -> IngestedLog:
    """Ingest a log into the cache, or into a temporary folder where the cache cannot take it."""
    if cache is not None and cache.takes(KIND):
        try:
            log = _write_trace(reader, inputs, cache.path(KIND, f"{key}.parquet"), sha256)
            entry = {
                "trace_sha256": sha256_of(log.trace),
                "account": asdict(log.account),
                "warnings": log.warnings,
                "shown_notes": log.shown_notes,
            }
            cache.keep(KIND, key, json.dumps(entry))
            _remove_oldest(cache, keep=log.trace)
            return log
        except OutputError as error:  # a full disk
            LOG.warning("not cached: %s", error)
    try:
        folder = temporary_folder()
    except OSError as error:
        raise OutputError(
            f"no temporary folder can be made ({error.strerror or error})\n"
            "  next: set TMPDIR to a folder with room"
        ) from error
    files.callback(folder.release)
    log = _write_trace(reader, inputs, folder.path / "trace.parquet", sha256)
    return replace(log, is_kept=False)


def _write_trace(reader: LogReader, inputs: Inputs, output: Path, sha256: str) -> IngestedLog:
    done = reader.write(inputs, output)
    provenance = done.provenance
    account = LogAccount(
        source_format=provenance.source_format,
        rows_read=provenance.rows_read,
        rows_kept=provenance.rows_kept,
        rejected_by_reason=dict(provenance.rows_rejected or {}),
    )
    notes = always_shown_notes(provenance)
    return IngestedLog(done.output, sha256, account, done.warnings, notes)


def _remove_oldest(cache: Cache, keep: Path) -> None:
    """Remove what was not used for the longest time where the traces of logs take much room."""
    traces = []
    with suppress(OSError):
        for trace in cache.path(KIND, "").glob("*.parquet"):
            with suppress(OSError):  # another run has just removed it
                state = trace.stat()
                traces.append((state.st_mtime, state.st_size, trace))
    total, now = sum(size for _, size, _ in traces), time.time()
    for used, size, trace in sorted(traces):
        if total <= MOST_BYTES or now - used < IN_USE_S:
            return
        if trace != keep:
            for part in (trace.with_suffix(".json"), trace):
                with suppress(OSError):
                    part.unlink()
            total -= size


def _summary(log: IngestedLog, done: str) -> str:
    """Return in one sentence what was read, and what was done."""
    account = log.account
    said = f"{a_log(account.source_format)}: {counted(account.rows_kept, 'job')}, {done}"
    rejected = sum(account.rejected_by_reason.values())
    if not rejected:
        return said
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in account.rejected_by_reason.items())
    where = f" in {rejects_path(log.trace)}" if log.is_kept else ""
    rows = counted(account.rows_read, "row")
    return f"{said}; {rejected:,} of {rows} set aside ({reasons}){where}"
