"""Files at the edge of the library: hashes of inputs, outputs written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuplan.analysis.errors import InputError, OutputError
from gpuplan.analysis.words import shortened

CHUNK_BYTES = 1 << 20
MOST_SMALL_BYTES = 1 << 26
"""Size of a file that is read as a whole: scenarios, results, models and tables written by hand."""


def existing_file(path: Path) -> Path:
    """Return ``path`` if it is a readable file. Raises `InputError` otherwise."""
    check_name(path)
    if path.is_dir():
        raise InputError(path, "is a folder", expected="a file")
    if path.is_symlink() and not path.exists():
        raise InputError(
            path,
            f"no such file (it is a link to {path.readlink()})",
            hint="link it to a file, or name the file itself",
        )
    if not path.exists():
        near = _nearest_name(path)
        hint = f"did you mean {near}?" if near else "check the path"
        raise InputError(path, "no such file", hint=hint)
    if not os.access(path, os.R_OK):
        raise InputError(path, "no permission to read it", hint="check its mode and owner")
    return path


def check_name(path: Path) -> None:
    """Refuse what the system cannot look up, such as a name too long. Raises `InputError`."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # told better by who opens it
    except (OSError, ValueError) as error:
        problem = f"cannot be opened: {getattr(error, 'strerror', None) or error}"
        raise InputError(shortened(str(path), 200), problem, hint="check the path") from error


def regular_file(path: Path) -> Path:
    """Return ``path`` if it is a readable file in which a reader can move about.

    Raises:
        InputError: it is none, for example a pipe.
    """
    if not existing_file(path).is_file():
        raise InputError(path, "is a pipe or a device", expected="a file", hint="write it to one")
    return path


def not_a_device(path: Path) -> Path:
    """Return ``path`` if it is no device, which may have no end. Raises `InputError`."""
    if existing_file(path).is_char_device() or path.is_block_device() or path.is_socket():
        raise InputError(path, "is a device", expected="a file, or a pipe", hint="name a file")
    return path


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what the system may raise while a file is read into an `InputError` that names it."""
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
    """Return what may be files named in arguments, relative to a folder.

    A file may stand in any part of an argument (``--speedup=table:FILE``); none of them need exist.
    """
    names = {
        text[start:]
        for text in texts
        for start in (0, *(i + 1 for i, sign in enumerate(text) if sign in "=:,"))
    }
    return [folder / name for name in sorted(names - {""})]


def spare(written: Iterable[Path], read: Iterable[Path]) -> None:
    """Refuse outputs that would harm an input or each other, through links too.

    Args:
        written: files to be written.
        read: what the result is computed from; what is no file is passed over.

    Raises:
        OutputError: an output is one of the inputs, or stands there twice.
    """
    outputs, inputs = list(written), list(read)
    for position, path in enumerate(outputs):
        for source in inputs:
            if same_file(path, source):
                name = "" if path == source else f" {source}"
                raise OutputError(f"{path}: is the input{name}; write to another file")
        if any(same_file(path, other) for other in outputs[:position]):
            raise OutputError(f"{path}: two outputs go to this file; name another for one of them")


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths are one file, also through links; neither need exist."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, RuntimeError, ValueError):  # none there, a loop of links, or no path at all
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file, in hexadecimal. Raises `InputError`."""
    import hashlib  # these imports wait until they are needed: --help needs none

    digest = hashlib.sha256()
    with readable(path), path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it on success.

    A failure or an interruption removes the temporary file and leaves what was there before.

    Raises:
        OutputError: the folder does not exist, or the file cannot be written.
    """
    import tempfile

    try:
        target = path.resolve()  # a link stays a link
        if target.is_dir():
            raise OutputError(f"{path}: is a folder; name a file in it")
        if not target.parent.is_dir():
            raise OutputError(f"{path}: the folder {path.parent} does not exist; create it first")
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=".gpuplan.", suffix=f".partial{path.suffix}"
        )
    except OSError as error:
        raise OutputError(f"{path}: cannot write here: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files
        temporary.replace(target)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _nearest_name(path: Path) -> str | None:
    """Return the sibling whose name is most like that of ``path``, if any is close."""
    from gpuplan.analysis.named import nearest

    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    near = nearest(path.name, names, 0.75)
    return str(path.with_name(near)) if near else None
