"""The sources that a user can name: files, folders, archives, pipes and standard input.

A folder or an archive means all files in it, sorted by name. Sources that can be read only once
(``-``, a named pipe) are copied to a temporary file while they are needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.reading.archives import WORKBOOK, archive_kind, members_of, workbook
from gpuplan.analysis.reading.limits import (
    FIRST_BYTES,
    MOST_LINE_BYTES,
    MOST_PIPED_BYTES,
    long_line,
)
from gpuplan.analysis.reading.rejects import REJECTS, rejects_path
from gpuplan.analysis.reading.source import Source, copy
from gpuplan.analysis.storage.files import (
    STANDARD_INPUT,
    check_writable,
    existing_file,
    is_pipe,
    not_a_device,
    readable,
    same_file,
)
from gpuplan.analysis.storage.temporary import temporary_folder

MACOS = "__MACOSX"  # files added by the archiver


@dataclass(slots=True)
class Inputs:
    """The files named by the arguments.

    Attributes:
        first: the first argument.
        spool: a folder for temporary files.
        sources: files that may be logs, in order.
        left_out: hidden files and outputs of gpuplan in folders and archives.
    """

    first: Path
    spool: Path
    sources: list[Source] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)


@contextmanager
def opened_inputs(
    paths: Sequence[Path], output: Path | None, look: Callable[[Source], bool]
) -> Iterator[Inputs]:
    """Yield the files named by the arguments; temporary ones are removed at the end.

    Args:
        paths: files, folders, archives, pipes, or ``-`` for standard input.
        output: the Parquet file to write; it must harm no source. None where the caller makes
            sure of that.
        look: refuses the start of a pipe that cannot be a log; returns whether it is plain
            text in lines.

    Raises:
        InputError: a path is missing or cannot be read.
        OutputError: the output is one of the sources, or the disk is too full for a pipe's bytes.
        UsageError: a source is given twice, none is given, or the output is not called Parquet.
    """
    written = () if output is None else (output, rejects_path(output))
    if not paths:
        raise UsageError("no source given; name at least one log")
    for path in paths:
        if (path == STANDARD_INPUT or is_pipe(path)) and paths.count(path) > 1:
            raise UsageError(f"{path}: given twice; it can be read only once")
    for path in written:
        check_writable(path)
    outputs = set(map(os.path.realpath, written))
    try:
        spool = temporary_folder()
    except OSError as error:
        raise OutputError(
            f"no temporary folder can be made ({error.strerror or error})\n"
            "  next: set TMPDIR to a folder with room"
        ) from error
    try:
        inputs = Inputs(paths[0], spool.path)
        for number, path in enumerate(paths):
            _take(inputs, path, spool.path / str(number), outputs, look)
        _check(inputs.sources, written)
        yield inputs
    finally:
        spool.release()


def share_of_bytes(
    sources: Sequence[Source], on_progress: Callable[[float], None] | None
) -> Callable[[int], None] | None:
    """Return what turns bytes read into the share of all, for `SourceStream`."""
    if on_progress is None:
        return None
    total = sum(source.size for source in sources) or 1
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        on_progress(min(done / total, 1.0))

    return advance


def _take(
    inputs: Inputs,
    path: Path,
    spool: Path,
    outputs: set[str],
    look: Callable[[Source], bool],
) -> None:
    """Add the files of one argument."""
    if os.path.isdir(path):
        sources: list[Source] = []
        for file in _files(path, inputs.left_out):
            if file.name.endswith(REJECTS) or os.path.realpath(file) in outputs:
                inputs.left_out.append(_shown(file))
            else:
                sources += _in_file(file, existing_file(file), inputs.left_out, is_named=False)
        inputs.sources += _mark_single(sources)
        return
    if path == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("-: nothing is piped in; give a file, or pipe a log into gpuplan")
        file = _spooled(sys.stdin.buffer, path, spool, look)
    elif not_a_device(path).is_file():
        file = path
    else:  # a named pipe, or the shell's <(command)
        with readable(path):
            pipe = path.open("rb")
        with pipe:
            file = _spooled(pipe, path, spool, look)
    inputs.sources += _in_file(path, file, inputs.left_out, is_named=True)


def _spooled(pipe: BinaryIO, path: Path, spool: Path, look: Callable[[Source], bool]) -> Path:
    """Keep the bytes of a pipe in a temporary file, once its first ones look like a log."""
    with readable(path):
        first = pipe.read(FIRST_BYTES)
    with spool.open("wb") as plain:
        copy(BytesIO(first).read, plain, path, MOST_PIPED_BYTES)
        if len(first) == FIRST_BYTES:  # there may be much more
            in_lines = look(Source(_shown(path), spool, len(first)))
            read = _lines_of(pipe, path, first) if in_lines else pipe.read
            copy(read, plain, path, MOST_PIPED_BYTES - len(first))
    return spool


def _lines_of(pipe: BinaryIO, path: Path, first: bytes) -> Callable[[int], bytes]:
    """Return what reads on in a pipe after its first bytes and refuses a line without end."""
    length = len(first) - first.rfind(b"\n") - 1

    def read(size: int) -> bytes:
        nonlocal length
        data = pipe.read(size)
        end = data.rfind(b"\n")
        length = length + len(data) if end < 0 else len(data) - end - 1
        if length > MOST_LINE_BYTES:
            raise long_line(path)
        return data

    return read


def _files(folder: Path, left_out: list[Path]) -> list[Path]:
    """Return the files below a folder in the order of their paths; hidden ones are left out."""

    def refuse(error: OSError) -> None:
        where = error.filename or folder
        raise InputError(where, f"cannot be read: {error.strerror}", hint="check its mode")

    paths: list[Path] = []
    for name, folders, files in os.walk(folder, onerror=refuse):
        here = Path(name)
        left_out += sorted(
            _shown(here / part) for part in [*folders, *files] if part.startswith(".")
        )
        folders[:] = [part for part in folders if not part.startswith(".")]
        paths += [here / part for part in files if not part.startswith(".")]
    return sorted(file for file in paths if file.is_file() or not file.exists())


def _in_file(path: Path, file: Path, left_out: list[Path], *, is_named: bool) -> list[Source]:
    """Return a file as a source, or the members of an archive."""
    with readable(path):
        kind, size = archive_kind(file), file.stat().st_size
    if kind is None:
        return [Source(_shown(path), file, size, is_named=is_named)]
    sources = []
    members = members_of(path, file, kind)
    if is_named and any(member.name == WORKBOOK for member in members):
        raise workbook(path)
    for member in members:
        name = _shown(Path(f"{path}!{member.name.removeprefix('./')}"))
        if any(p.startswith((".", MACOS)) for p in PurePosixPath(member.name).parts):
            left_out.append(name)
        else:
            sources.append(Source(name, file, member.size, member, False, kind))
    if not sources:
        raise InputError(path, f"is a {kind} file with no file in it", expected="a log in it")
    return _mark_single(sources) if is_named else sources


def _shown(path: Path) -> Path:
    """Return a path with bytes that are not UTF-8 shown as ``\\xff``."""
    return Path(os.fsencode(path).decode("utf-8", "backslashreplace"))


def _mark_single(sources: list[Source]) -> list[Source]:
    """Mark a single file as named by the user, so that its errors are reported."""
    return [replace(sources[0], is_named=True)] if len(sources) == 1 else sources


def _check(sources: Sequence[Source], outputs: Sequence[Path]) -> None:
    """Refuse sources given twice and an output that would overwrite a source."""
    seen = set()
    for source in sources:
        key = (source.file.resolve(), source.member)
        if key in seen:
            raise UsageError(f"{source.path}: given twice; every row would be a duplicate")
        seen.add(key)
        for written in outputs:
            if same_file(written, source.file):
                raise OutputError(f"{written}: is also a source; write to another file")
