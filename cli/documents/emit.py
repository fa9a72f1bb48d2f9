"""Send a report where the user asked for it: standard output, a file, a picture, a gate."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpuplan.analysis.base.errors import OutputError, UsageError
from gpuplan.analysis.storage.files import atomic_output, is_stdout, is_stream, refuse_overwrite
from gpuplan.cli.app import messages
from gpuplan.cli.documents.gates import announce, gates_table
from gpuplan.cli.formats.render import as_csv, as_json, as_markdown, as_text
from gpuplan.cli.formats.report import Report
from gpuplan.cli.gates.gates import allowing, check, raise_tripped
from gpuplan.cli.options.outputs import (
    PICTURE_SUFFIXES,
    TEXT_SUFFIXES,
    WriteFile,
    frame_file,
    output_files,
)
from gpuplan.cli.options.shared_options import Output, ResultFormat

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_WARNINGS = 3
"""Warnings on standard error without ``--full``; JSON has all."""


def emit(
    report: Report,
    output: Output,
    *,
    files: Sequence[tuple[Path, WriteFile]] = (),
    written: Iterable[Path | None] = (),
) -> None:
    """Write the report to standard output and to the files requested, then check the gates.

    Either all files are written or none. Where one of them is standard output, as
    ``/dev/stdout``, nothing else is written there.

    Args:
        report: the result.
        output: the options.
        files: further files of the command, each with the function that writes it.
        written: files that the command has already written.

    Raises:
        GateFailed: a ``--fail-if`` condition holds or could not be checked; everything has been
            written by then.
        OutputError: a file cannot be written, or is an input.
        UsageError: a condition cannot be read.
    """
    refuse_overwrite(output_files(output), (Path(source.path) for source in report.inputs))
    for note in report.notes:
        messages.note(note)
    has_all = output.output_format in (ResultFormat.json, ResultFormat.csv)
    _warn(report, output.full, hint=not has_all)
    to_write = [*_files_of(report, output), *files]
    paths = [path for path, _ in to_write]
    done = (path for path in written if path is not None)
    takes_stdout = any(map(is_stdout, (*paths, *done)))  # before a file replaces another
    write_files(to_write)
    for path in paths:
        messages.note(f"wrote {path}")
    if not takes_stdout:
        write_stdout(_text(report, output.output_format, sys.stdout, output.full))
    if output.fail_if:
        _judge(report.shown(output.full), output.fail_if, output.allow_unchecked)


def _warn(report: Report, full: bool, hint: bool) -> None:
    """Say the warnings on standard error, and with a ``hint`` what ``--full`` would add."""
    every = (*report.warnings, *report.caveats)
    shown = every if full else report.warnings[:MOST_WARNINGS]
    for warning in shown:
        messages.warn(warning)
    tables = len(report.tables) - len(report.shown(full).tables)
    warnings = len(every) - len(shown)
    counted = ((tables, "table"), (warnings, "warning"))
    more = [f"{n} more {name}{'' if n == 1 else 's'}" for n, name in counted if n > 0]
    if more and hint:
        messages.note(f"--full shows {' and '.join(more)}")


def write_files(to_write: Iterable[tuple[Path, WriteFile]]) -> None:
    """Write files under temporary names, and rename them when all are complete.

    Raises:
        OutputError: one of them cannot be written; then none is.
    """
    # Files are completed in reverse order. Pipes and devices come first, as they can still fail.
    in_order = sorted(to_write, key=lambda item: is_stream(item[0]))
    with ExitStack() as stack:
        for path, write in in_order:
            write(stack.enter_context(atomic_output(path)))


def _judge(report: Report, conditions: Sequence[str], allow_unchecked: bool) -> None:
    gates = allowing(check(report.results, conditions, report.command), allow_unchecked)
    announce(gates, lambda: f"{as_markdown(report)}\n{gates_table(gates)}")
    raise_tripped(gates)


def write_stdout(text: str) -> None:
    """Write to standard output; a reader that has closed the pipe is not an error.

    What the stream's encoding lacks is written in UTF-8, so that nothing is lost.

    Raises:
        OutputError: it cannot be written, for example because the disk is full.
    """
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except OSError as error:
        # Python would complain again when it flushes at exit, so give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def _text(report: Report, form: ResultFormat, stream: TextIO, full: bool) -> str:
    match form:
        case ResultFormat.json:
            return as_json(report)
        case ResultFormat.md:
            return as_markdown(report.shown(full))
        case ResultFormat.csv:
            return as_csv(report)
        case ResultFormat.table:
            return as_text(report.shown(full), stream)


def _files_of(report: Report, output: Output) -> Iterator[tuple[Path, WriteFile]]:
    """Yield the files of the options, each with the function that writes it.

    Raises `UsageError` for a picture of a result that has none.
    """
    for path in (*(output.plot or ()), *(output.out or ())):
        suffix = path.suffix.lower()
        if suffix == ".parquet" and report.frame is not None:
            yield frame_file(report.frame, path)
        elif suffix not in PICTURE_SUFFIXES:
            yield path, partial(_write, report, suffix, output)
        elif report.figure is None:
            raise UsageError(f"{path}: this result has no picture")
        else:
            yield path, partial(_draw, report.figure)


def _write(report: Report, suffix: str, output: Output, path: Path) -> None:
    """Write a report in the form that a suffix stands for; without one, in the form asked for."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        form = TEXT_SUFFIXES.get(suffix, output.output_format)
        stream.write(_text(report, form, stream, output.full))


def _draw(figure: Callable[[], Figure], path: Path) -> None:
    from gpuplan.cli.figures.style import save

    save(figure(), path)
