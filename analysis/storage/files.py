"""Files at the edge of the library: hashes of inputs, outputs written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, OutputError
from gpuplan.analysis.base.lookup import nearest
from gpuplan.analysis.storage.temporary import Held, tempfile_folder, temporary_file

STANDARD_INPUT = Path("-")
URL = re.compile(r"(https?|s3|gs|ftp|file):/+")  # as a path has it
CHUNK_BYTES = 1 << 20
MOST_LINKS = 40
LONGEST_PATH = 4096  # of Linux; other systems allow no more characters
LONGEST_NAME = 255
PARQUET_MAGIC = b"PAR1"
MOST_SMALL_BYTES = 1 << 26
"""Size of a file that is read as a whole: scenarios, results, models and tables written by hand."""


def existing_file(path: Path) -> Path:
    """Return ``path`` if it is a readable file. Raises `InputError` otherwise."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _missing_path(path, error) from error
    if stat.S_ISDIR(mode):
        raise InputError(path, "is a folder", expected="a file")
    if not os.access(path, os.R_OK):
        raise InputError(path, "no permission to read it", hint="check its mode and owner")
    return path


def _missing_path(path: Path, error: OSError | ValueError) -> InputError:
    """Return the problem of a path that does not exist."""
    if isinstance(error, ValueError):
        return InputError(path, "is not a valid path (it has a NUL byte)", hint="check the path")
    if error.errno == errno.ELOOP:
        return InputError(
            path,
            "the links at this path form a loop",
            hint="link it to a file, or name the file itself",
        )
    if os.path.islink(path):
        return InputError(
            path,
            f"no such file (it is a link to {path.readlink()})",
            hint="link it to a file, or name the file itself",
        )
    if (url := URL.match(str(path))) is not None:
        return InputError(
            f"{url[1]}://{str(path)[url.end() :]}",
            "is a URL; gpuplan reads files",
            hint="download it first, or pipe it to gpuplan and name it -",
        )
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return InputError(path, f"cannot be read: {error.strerror}", hint="check the path")
    near = _nearest_name(path)
    return InputError(
        path, "no such file", hint=f"did you mean {near}?" if near else "check the path"
    )


def is_pipe(path: Path) -> bool:
    """Return whether a path is a named pipe; False if it does not exist."""
    try:
        return path.is_fifo()
    except (OSError, ValueError):
        return False


def regular_file(path: Path) -> Path:
    """Return ``path`` if it is a readable file in which a reader can move about.

    Raises:
        InputError: it is none, for example a pipe.
    """
    if not existing_file(path).is_file():
        raise InputError(path, "is a pipe or a device", expected="a file", hint="write it to one")
    return path


def not_a_device(path: Path) -> Path:
    """Return ``path`` unless it is a device, which may be endless. Raises `InputError`."""
    if existing_file(path).is_char_device() or path.is_block_device() or path.is_socket():
        raise InputError(path, "is a device", expected="a file, or a pipe", hint="name a file")
    return path


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file; a folder or a pipe is none.

    Raises `InputError` where there is nothing, or nothing that can be read.
    """
    if os.path.isdir(path) or not existing_file(path).is_file():
        return False
    with readable(path), path.open("rb") as stream:
        return stream.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of the system while reading a file into an `InputError` that names it."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InputError(path, problem, hint="check the disk, or fetch the file again") from error


def read_small(path: Path, most: int = MOST_SMALL_BYTES) -> bytes:
    """Return all bytes of a file or pipe that cannot be large.

    Raises:
        InputError: no such file, it cannot be read, or it is larger.
    """
    parts, size = [], 0
    with readable(path), not_a_device(path).open("rb") as stream:
        while part := stream.read(CHUNK_BYTES):
            size += len(part)
            if size > most:
                raise too_large(path, most)
            parts.append(part)
    return b"".join(parts)


def too_large(path: Path, most: int) -> InputError:
    """Return the error for a file that is read as a whole and is larger than it may be."""
    problem = f"is larger than {most >> 20} MiB"
    return InputError(path, problem, hint="name the file that is meant")


def files_named_in(*texts: str, folder: Path = Path()) -> list[Path]:
    """Return possible files named in arguments, relative to a folder.

    A file may stand in any part of an argument (``--speedup=table:FILE``); none of them need exist.
    Names longer than any file system allows are left out, so the work grows with the text alone.
    """
    names = set()
    for text in texts:
        for start in (0, *(i + 1 for i, sign in enumerate(text) if sign in "=:,")):
            if 0 < len(text) - start <= LONGEST_PATH:
                names.add(text[start:])
    return [folder / name for name in sorted(names) if _can_be_a_path(name)]


def _can_be_a_path(name: str) -> bool:
    return all(len(part) <= LONGEST_NAME for part in name.split("/"))


def without_missing_parents(path: Path) -> Path:
    """Return a path without each ``missing/..`` in it, which leads back to where it began.

    What makes the folders of the path then makes none beside it. ``..`` after a folder or link that
    exists stays, since a link may lead elsewhere.
    """
    kept = Path(path.anchor)
    for part in path.parts[len(kept.parts) :]:
        kept = kept.parent if part == ".." and _is_missing(kept) else kept / part
    return kept


def _is_missing(path: Path) -> bool:
    try:
        return not os.path.lexists(path)
    except ValueError:  # a name that no file has
        return True


def refuse_overwrite(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Refuse outputs that would harm an input or each other, through links too.

    Args:
        written: files to be written.
        read: the inputs of the result; those that are not files are ignored.

    Raises:
        OutputError: an output is one of the inputs, or two outputs are the same file.
    """
    outputs, inputs = list(written), list(read)
    for position, path in enumerate(outputs):
        for source in inputs:
            if same_file(path, source):
                name = "" if path == source else f" {source}"
                raise OutputError(f"{path}: is the input{name}; write to another file")
        if any(same_file(path, other) for other in outputs[:position]):
            raise OutputError(f"{path}: two outputs go to this file; name another for one of them")


def same_file(path: Path, other: Path) -> bool:
    """Return whether two paths are one file, also through links; neither need exist."""
    try:
        return path.resolve() == other.resolve() or path.samefile(other)
    except (OSError, RuntimeError, ValueError):  # missing, a loop of links, or an invalid path
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file, in hexadecimal. Raises `InputError`."""
    import hashlib  # these imports wait until they are needed: --help needs none

    digest = hashlib.sha256()
    with readable(path), path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_writable(path: Path) -> None:
    """Refuse an output that `atomic_output` cannot write, before the work and not after it.

    Raises `OutputError`.
    """
    if not is_stream(path):
        _new_in_target_folder(path).release()


def is_stdout(path: Path) -> bool:
    """Return whether a path is the file, pipe or device that standard output goes to."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except (OSError, ValueError):  # missing, standard output is closed, or an invalid path
        return False


def is_stream(path: Path) -> bool:
    """Return whether a path is a stream that another process reads: a pipe, a device, /dev/stdout.

    Raises:
        OutputError: it is a folder, a disk or a socket, or cannot be written to.
    """
    descriptor = _descriptor(path)
    try:
        if descriptor is not None:
            os.write(descriptor, b"")  # raises if it is closed or read-only
            return True
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error
    if stat.S_ISDIR(mode):
        raise OutputError(f"{path}: is a folder; name a file in it")
    if stat.S_ISREG(mode):
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        raise OutputError(f"{path}: is {_kind(mode)}; name a file")
    if not os.access(path, os.W_OK):
        raise OutputError(f"{path}: no permission to write to it")
    return True


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` and rename it on success.

    A failure or an interruption removes the temporary file and keeps the old file. For a
    pipe, a device or a descriptor (/dev/stdout) the temporary file is among those of the system,
    and its bytes are copied on success.

    Raises:
        OutputError: the folder does not exist, or the file cannot be written.
    """
    to_stream = is_stream(path)
    held = _new_in_system(path) if to_stream else _new_in_target_folder(path)
    try:
        yield held.path
        if to_stream:
            _copy(held.path, path)
        else:
            umask = os.umask(0)
            os.umask(umask)
            held.path.chmod(0o666 & ~umask)  # temporary files are private
            held.path.replace(_through_link(path))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        held.release()


def _new_in_target_folder(path: Path) -> Held:
    """Return a temporary file in the folder that an output goes to. Raises `OutputError`."""
    try:
        target = _through_link(path)
        with suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()  # raises for a name that is too long
        if not os.path.isdir(target.parent):
            raise OutputError(f"{path}: the folder {target.parent} does not exist; create it first")
        return temporary_file(target.parent, path.suffix)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


def _new_in_system(path: Path) -> Held:
    try:
        return temporary_file(Path(tempfile_folder()), path.suffix)
    except OSError as error:
        raise OutputError(
            f"{path}: no temporary file can be made ({error.strerror or error})\n"
            "  next: set TMPDIR to a folder with room"
        ) from error


def _cannot_write(path: Path, error: OSError | ValueError) -> OutputError:
    why = "is not a valid path (it has a NUL byte)"
    if isinstance(error, OSError):
        why = f"cannot write here: {error.strerror or error}"
    return OutputError(f"{path}: {why}")


def _through_link(path: Path) -> Path:
    """Return the target of an output, so that a link stays a link."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _kind(mode: int) -> str:
    return "a disk" if stat.S_ISBLK(mode) else "a socket" if stat.S_ISSOCK(mode) else "no file"


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of the open file that a path names: 1 for /dev/stdout.

    Also if it is a file on disk: a rename would detach it from the process that opened it.
    """
    try:
        for _ in range(MOST_LINKS):
            folder = os.path.realpath(path.parent)
            if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and path.name.isdecimal():
                return int(path.name)
            if not os.path.islink(path):
                return None
            path = Path(folder, os.readlink(path))
    except (OSError, ValueError):  # a part that is too long, a loop, or an invalid path
        pass
    return None


def _copy(temporary: Path, path: Path) -> None:
    """Write the bytes of a file to a pipe or device; a reader that stopped is not an error."""
    descriptor = _descriptor(path)
    with suppress(BrokenPipeError), temporary.open("rb") as source:
        where = path if descriptor is None else os.dup(descriptor)
        with open(where, "wb", buffering=0) as stream:
            while chunk := source.read(CHUNK_BYTES):
                rest = memoryview(chunk)
                while rest:
                    rest = rest[stream.write(rest) :]


def _nearest_name(path: Path) -> str | None:
    """Return the sibling with the name most similar to ``path``, if any is close."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    near = nearest(path.name, names, 0.75)
    return str(path.with_name(near)) if near else None
