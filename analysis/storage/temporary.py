"""Temporary files and folders, which a later run removes where a run was killed.

A process holds a lock (``flock``) on each of its own for as long as it lives, so one without a lock
belongs to a process that is dead. The name carries the machine and its boot: on a file system
that several machines share, locks may not be seen by the others, so each removes only its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system: no file is locked, and none removed
    fcntl = None  # type: ignore[assignment]

PREFIX = ".gpuplan"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LONGEST_SUFFIX = 16
_held: set[Held] = set()
_tidied: set[Path] = set()


@dataclass(eq=False, slots=True)
class Held:
    """A temporary file or folder of this process.

    Attributes:
        path: where it is, relative to the folder of the process where it was asked for so.
        absolute: the same, whatever folder the process is in.
        handle: the descriptor that holds its lock; None until it is open.
    """

    path: Path
    absolute: Path
    handle: int | None = None

    def release(self) -> None:
        """Remove it, unless it has been renamed. A second call has no effect."""
        if self in _held:
            _remove(self.absolute)
            self.forget()

    def forget(self) -> None:
        """Hold it no longer, and leave what is at its path."""
        _held.discard(self)
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def temporary_file(folder: Path, suffix: str = "") -> Held:
    """Return a new empty file in a folder, private to the user; `Held.release` removes it.

    Raises `OSError`.
    """
    return _new(folder, f".partial{suffix if len(suffix) <= LONGEST_SUFFIX else ''}", _make_file)


def temporary_folder() -> Held:
    """Return a new folder among the system's temporary files. Raises `OSError`."""
    return _new(Path(tempfile_folder()), ".folder", _make_folder)


def folder_next_to(path: Path) -> Held:
    """Return a new folder in the folder of a path, to be renamed to it. Raises `OSError`."""
    return _new(path.parent, ".folder", _make_folder)


def is_temporary(path: Path) -> bool:
    """Return whether a path is in a temporary folder of this process."""
    return any(held.absolute in Path(os.path.abspath(path)).parents for held in _held)


def tempfile_folder() -> str:
    """Return the system's folder for temporary files. Raises `OSError` if none is writable."""
    import tempfile  # takes a while to import

    return tempfile.gettempdir()


def release_all() -> None:
    """Remove all that this process still holds, before it ends at once."""
    for held in tuple(_held):
        with contextlib.suppress(OSError):
            held.release()


def remove_stale(folder: Path) -> None:
    """Remove what dead processes of this user on this machine have left in a folder."""
    prefix = f"{PREFIX}.{_machine()}."
    try:
        with os.scandir(folder) as entries:
            stale = [Path(folder, entry.name) for entry in entries if entry.name.startswith(prefix)]
    except OSError:
        return
    for path in stale:
        with contextlib.suppress(OSError):
            _remove_if_stale(path)


def _new(folder: Path, suffix: str, make: Callable[[Path], int | None]) -> Held:
    absolute = Path(os.path.abspath(folder))
    if absolute not in _tidied:
        _tidied.add(absolute)
        remove_stale(absolute)
    while True:
        path = folder / f"{PREFIX}.{_machine()}.{os.urandom(6).hex()}{suffix}"
        held = Held(path, absolute / path.name)
        _held.add(held)  # before it is made: an interrupt may come right after
        try:
            handle = held.handle = make(path)
        except FileExistsError:
            held.forget()
            continue
        except OSError:
            held.release()
            raise
        # Another run may take it for stale before it is locked: it then holds the lock, or is done.
        if handle is not None and _lock(handle) is not False and _is_still(path, handle):
            return held
        held.forget()


def _make_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _make_folder(path: Path) -> int | None:
    """Make and open a folder; return None if another run has removed it before it was open."""
    path.mkdir(mode=0o700)
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # taken for stale, as it was not locked yet
        return None


def _lock(handle: int) -> bool | None:
    """Lock an open file; return False if another process has it, None if locks do not work."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _is_still(path: Path, handle: int) -> bool:
    """Return whether a path leads to the open file."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def _remove_if_stale(path: Path) -> None:
    seen = path.lstat()
    is_folder = stat.S_ISDIR(seen.st_mode)
    if seen.st_uid != os.geteuid() or not (is_folder or stat.S_ISREG(seen.st_mode)):
        return
    how = os.O_RDONLY if is_folder else os.O_RDWR
    handle = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _lock(handle) and _is_still(path, handle):
            _remove(path)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _machine() -> str:
    """Return a short name of this machine since it was started."""
    import hashlib
    import platform

    try:
        boot = BOOT_ID.read_text()
    except OSError:
        boot = ""
    return hashlib.sha256(f"{platform.node()}\n{boot}".encode()).hexdigest()[:12]
