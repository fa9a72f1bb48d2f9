"""Forms and files of output: which there are, and their check before the work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.storage.files import (
    check_writable,
    files_named_in,
    is_stream,
    refuse_overwrite,
)
from gpuplan.cli.gates.conditions import read_condition, refuse_change
from gpuplan.cli.options.shared_options import Output, ResultFormat

if TYPE_CHECKING:
    import polars as pl

WriteFile = Callable[[Path], None]
"""Writes a file to the path given."""
TEXT_SUFFIXES = {
    ".json": ResultFormat.json,
    ".md": ResultFormat.md,
    ".csv": ResultFormat.csv,
    ".txt": ResultFormat.table,
}
PICTURE_SUFFIXES = (".svg", ".png")


def check_output(
    output: Output,
    *,
    picture: bool,
    rows: bool,
    inputs: Collection[Path | str | None] = (),
    more_files: Iterable[Path | None] = (),
    more: Collection[str] = (),
) -> None:
    """Refuse an output that cannot be made, before the work and not after it.

    Args:
        output: the options.
        picture: whether the command draws one.
        rows: whether the command has rows for a Parquet file.
        inputs: what the command reads, also as part of a text (``table:FILE``); None and what is no
            file are passed over.
        more_files: files the command writes beside those of ``output``.
        more: suffixes of these files, which a message names too.

    Raises:
        OutputError: a file that cannot be written, is an input, or is given twice.
        UsageError: a suffix that names no form this command has, or a condition that cannot be
            read.
    """
    kinds = [
        *TEXT_SUFFIXES,
        *([".parquet"] if rows else []),
        *(PICTURE_SUFFIXES if picture else ()),
    ]
    for path in output.out or ():
        if path.suffix.lower() not in kinds and not has_form_of_stdout(path):
            what = f"cannot write {path.suffix!r} files" if path.suffix else "has no suffix"
            raise UsageError(
                f"--output {path}: {what}; expected a name that ends in one of "
                f"{', '.join([*kinds, *more])}"
            )
    for plot in output.plot or ():
        if not picture:
            raise UsageError("--plot: this command has no picture")
        if plot.suffix.lower() not in PICTURE_SUFFIXES:
            raise UsageError(f"--plot {plot}: expected {' or '.join(PICTURE_SUFFIXES)}")
    if output.fail_if:
        for condition in output.fail_if:
            next_step = f"write both as JSON, then gpuplan diff OLD NEW --fail-if '{condition}'"
            refuse_change(read_condition(condition), "--fail-if", next_step)
    written = [*output_files(output), *(path for path in more_files if path is not None)]
    named = files_named_in(*(text for text in inputs if isinstance(text, str)))
    refuse_overwrite(written, [*named, *(path for path in inputs if isinstance(path, Path))])
    for path in written:
        check_writable(path)


def check_suffix(option: str, path: Path | None, suffix: str) -> None:
    """Refuse a file name without the suffix of its form; a pipe or device needs none.

    Raises `UsageError`.
    """
    if path is not None and path.suffix.lower() != suffix and not has_form_of_stdout(path):
        raise UsageError(f"{option} {path}: expected a name that ends in {suffix}")


def has_form_of_stdout(path: Path) -> bool:
    """Return whether a file takes the form of ``--output-format``: /dev/stdout, a pipe."""
    return not path.suffix and is_stream(path)


def output_files(output: Output) -> list[Path]:
    """Return the files that the options of a command ask for."""
    return [*(output.out or ()), *(output.plot or ())]


def text_file(made: Callable[[Path], str], path: Path) -> tuple[Path, WriteFile]:
    """Return a file of text and the function that writes it."""

    def write(temporary: Path) -> None:
        temporary.write_text(made(path), encoding="utf-8", newline="\n")

    return path, write


def frame_file(made: Callable[[], pl.DataFrame], path: Path) -> tuple[Path, WriteFile]:
    """Return a file of rows and the function that writes it."""

    def write(temporary: Path) -> None:
        from gpuplan.analysis.storage.parquet import write_parquet

        write_parquet(made(), temporary)

    return path, write
