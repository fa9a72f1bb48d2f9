"""Send a report where the user asked for it: standard output, a file, a picture, a gate."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpuplan.analysis.errors import OutputError, UsageError
from gpuplan.analysis.files import atomic_output
from gpuplan.cli import talk
from gpuplan.cli.gates import check_gates, read_condition
from gpuplan.cli.options import Format, Output
from gpuplan.cli.render import as_csv, as_json, as_markdown, as_text
from gpuplan.cli.report import Report

TEXT_SUFFIXES = {
    ".json": Format.json,
    ".md": Format.md,
    ".csv": Format.csv,
    ".txt": Format.table,
}
PICTURE_SUFFIXES = (".svg", ".png")


def check_output(output: Output, *, picture: bool, rows: bool) -> None:
    """Refuse an output that cannot be made, before the work and not after it.

    Args:
        output: the options.
        picture: whether the command draws one.
        rows: whether the command has rows for a Parquet file.

    Raises:
        UsageError: a suffix that names no form this command has, or a condition that cannot be
            read.
    """
    kinds = [
        *TEXT_SUFFIXES,
        *([".parquet"] if rows else []),
        *(PICTURE_SUFFIXES if picture else ()),
    ]
    if output.out is not None and output.out.suffix.lower() not in kinds:
        raise UsageError(
            f"--output {output.out}: no form is named {output.out.suffix!r}; "
            f"expected one of {', '.join(kinds)}"
        )
    for plot in output.plot or ():
        if not picture:
            raise UsageError("--plot: this command has no picture")
        if plot.suffix.lower() not in PICTURE_SUFFIXES:
            raise UsageError(f"--plot {plot}: expected {' or '.join(PICTURE_SUFFIXES)}")
    for condition in output.fail_if or ():
        read_condition(condition)


def emit(report: Report, output: Output) -> None:
    """Write the report to standard output and to the files asked for, then check the gates.

    Raises:
        GateFailed: a ``--fail-if`` condition holds; everything has been written by then.
        OutputError: a file cannot be written, or is an input.
        UsageError: a condition cannot be read.
    """
    _spare_inputs(report, output)
    for warning in report.warnings:
        talk.warn(warning)
    for plot in output.plot or ():
        _draw(report, plot)
    if output.out is not None:
        _write(report, output.out)
    write_stdout(_text(report, output.output_format))
    check_gates(report.results, output.fail_if or [])


def _spare_inputs(report: Report, output: Output) -> None:
    """Refuse to write over a file that the result was computed from."""
    inputs = {Path(source.path).resolve() for source in report.inputs}
    for path in (output.out, *(output.plot or ())):
        if path is not None and path.resolve() in inputs:
            raise OutputError(f"{path}: is the input; write to another file")


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


def _text(report: Report, form: Format) -> str:
    match form:
        case Format.json:
            return as_json(report)
        case Format.md:
            return as_markdown(report)
        case Format.csv:
            return as_csv(report)
        case Format.table:
            return as_text(report, sys.stdout)


def _write(report: Report, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        _draw(report, path)
        return
    with atomic_output(path) as temporary:
        if suffix == ".parquet" and report.frame is not None:
            report.frame().write_parquet(temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as stream:
                form = TEXT_SUFFIXES[suffix]
                stream.write(
                    as_text(report, stream) if form is Format.table else _text(report, form)
                )
    talk.note(f"wrote {path}")


def _draw(report: Report, path: Path) -> None:
    from gpuplan.cli.figures.style import save

    if report.figure is None:
        raise UsageError(f"{path}: this result has no picture")
    with atomic_output(path) as temporary:
        save(report.figure(), temporary)
    talk.note(f"wrote {path}")
