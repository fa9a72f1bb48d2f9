"""Send a report where the user asked for it: standard output, a file, a picture, a gate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from gpuplan.analysis.errors import OutputError, UsageError
from gpuplan.analysis.files import atomic_output, is_stdout, spare
from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.outputs import PICTURE_SUFFIXES, TEXT_SUFFIXES, output_files
from gpuplan.cli.options.shared_options import Output, ResultFormat


def emit(report: Report, output: Output, others: Iterable[Path | None] = ()) -> None:
    """Write the report to standard output and to the files requested, then check the gates.

    Where one of the files is standard output, as ``/dev/stdout``, nothing else is written there.

    Args:
        report: the result.
        output: the options.
        others: files that the command writes beside those of ``output``.

    Raises:
        GateFailed: a ``--fail-if`` condition holds or could not be checked; everything has been
            written by then.
        OutputError: a file cannot be written, or is an input.
        UsageError: a condition cannot be read.
    """
    spare(output_files(output), (Path(source.path) for source in report.inputs))
    for note in report.notes:
        messages.note(note)
    for warning in report.warnings:
        messages.warn(warning)
    written = [*output_files(output), *(path for path in others if path is not None)]
    takes_stdout = any(map(is_stdout, written))  # before a file replaces another
    for plot in output.plot or ():
        _draw(report, plot)
    for path in output.out or ():
        _write(report, path, output.output_format)
    if not takes_stdout:
        write_stdout(_text(report, output.output_format, sys.stdout))
    if output.fail_if:
        _judge(report, output.fail_if, output.allow_unchecked)


def _judge(report: Report, conditions: Sequence[str], allow_unchecked: bool) -> None:
    from gpuplan.cli.documents.annotations import announce, gates_table
    from gpuplan.cli.formats.render import as_markdown
    from gpuplan.cli.gates.gates import allowing, check, raise_tripped

    gates = allowing(check(report.results, conditions), allow_unchecked)
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


def _text(report: Report, form: ResultFormat, stream: TextIO) -> str:
    from gpuplan.cli.formats.render import as_csv, as_json, as_markdown, as_text

    match form:
        case ResultFormat.json:
            return as_json(report)
        case ResultFormat.md:
            return as_markdown(report)
        case ResultFormat.csv:
            return as_csv(report)
        case ResultFormat.table:
            return as_text(report, stream)


def _write(report: Report, path: Path, form: ResultFormat) -> None:
    """Write a report to a file, in the form of its suffix; without one, in the form given."""
    suffix = path.suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        _draw(report, path)
        return
    with atomic_output(path) as temporary:
        if suffix == ".parquet" and report.frame is not None:
            from gpuplan.analysis.parquet import write_parquet

            write_parquet(report.frame(), temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(_text(report, TEXT_SUFFIXES.get(suffix, form), stream))
    messages.note(f"wrote {path}")


def _draw(report: Report, path: Path) -> None:
    from gpuplan.cli.figures.style import save

    if report.figure is None:
        raise UsageError(f"{path}: this result has no picture")
    with atomic_output(path) as temporary:
        save(report.figure(), temporary)
    messages.note(f"wrote {path}")
