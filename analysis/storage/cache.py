"""Results kept by what they come from, so that a re-run does only what has changed.

An entry is one file, written whole, named by the hash of everything its content depends on, with
the hash of its content in it. So runs may share a folder, it may be deleted at any time, and an
entry that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.plugins import installed_packages
from gpuplan.analysis.storage.files import (
    atomic_output,
    files_named_in,
    sha256_of,
    without_missing_parents,
)
from gpuplan.analysis.storage.temporary import temporary_folder

LOG = logging.getLogger("gpuplan")


def usual_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/gpuplan``, or ``~/.cache/gpuplan``.

    Raises:
        OutputError: there is no home folder.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # others are to be ignored, says the XDG specification
        return Path(named) / "gpuplan"
    try:
        return Path.home() / ".cache" / "gpuplan"
    except RuntimeError as error:
        raise OutputError("no home folder for the cache; name one with --cache") from error


def chosen_folder(folder: Path | None, *, no_cache: bool) -> Path | None:
    """Return the folder that ``--cache`` or nothing names; None for ``--no-cache``.

    Raises:
        OutputError: there is no home folder.
        UsageError: both are given.
    """
    if folder is not None and no_cache:
        raise UsageError("--no-cache: not with --cache DIR")
    return None if no_cache else folder or usual_folder()


@contextmanager
def open_cache(folder: Path | None) -> Iterator[Cache]:
    """Yield the cache in a folder, or one that lasts no longer than the block for None."""
    if folder is not None:
        yield Cache(without_missing_parents(folder.absolute()))
        return
    try:
        temporary = temporary_folder()
    except OSError as error:
        raise OutputError(
            f"no temporary folder can be made ({error.strerror or error})\n"
            "  next: set TMPDIR to a folder with room, or name one with --cache"
        ) from error
    try:
        yield Cache(temporary.path)
    finally:
        temporary.release()


def key_of(kind: str, **parts: Any) -> str:
    """Return the name of what depends on these parts, and on the versions of all that runs."""
    versions = [gpuplan_version(), *installed_packages()]
    text = json.dumps([versions, kind, parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def hashes_of(*texts: str) -> dict[str, str]:
    """Return the hashes of the files and folders that are named in arguments.

    A name that is one by chance does no harm.
    """
    hashes: dict[str, str] = {}
    for path in files_named_in(*texts):
        try:
            inside = sorted(path.rglob("*")) if os.path.isdir(path) else [path]
            hashes |= {str(file): sha256_of(file) for file in inside if file.is_file()}
        except (OSError, ValueError, InputError):  # no name, or not ours to read
            continue
    return hashes


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries, made when the first is kept.

    Attributes:
        folder: where.
    """

    folder: Path

    def read(self, kind: str, key: str) -> str | None:
        """Return what was kept; None where nothing was, or where it is damaged."""
        try:
            digest, _, text = self.path(kind, f"{key}.json").read_bytes().decode().partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        return text if _digest(text) == digest else None

    def keep(self, kind: str, key: str, text: str) -> None:
        """Keep a text; where it cannot be, say so."""
        path = self.path(kind, f"{key}.json")
        try:
            self.make(kind)
            with atomic_output(path) as temporary:
                temporary.write_bytes(f"{_digest(text)}\n{text}".encode())
        except OutputError as error:
            LOG.warning("not cached: %s", error)

    def takes(self, kind: str) -> bool:
        """Return whether entries of a kind can be made here; where not, say so."""
        try:
            self.make(kind)
            with TemporaryFile(dir=self.path(kind, "")):
                return True
        except OutputError as error:
            LOG.warning("not cached: %s", error)
        except OSError as error:
            LOG.warning("not cached: %s: %s", self.folder, error.strerror or error)
        return False

    def make(self, kind: str) -> None:
        """Make the folder of a kind. Raises `OutputError`."""
        try:
            self.path(kind, "").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise OutputError(f"{self.folder}: no cache can be made here: {why}") from error

    def path(self, kind: str, name: str) -> Path:
        """Return the path of an entry."""
        return self.folder / kind / name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
