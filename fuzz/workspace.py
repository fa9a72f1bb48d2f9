"""The folder that a case runs in: laid out before it, compared after it."""

from __future__ import annotations

import os
import select
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from fuzz.cases import Case

CASE = "case"
BALLAST = ".ballast"
READ_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """The contents of a folder: name -> properties that change when a file is written.

    Attributes:
        entries: of every file, link and folder.
    """

    entries: dict[str, tuple[object, ...]]

    def new(self, later: Seen) -> list[str]:
        """Return the new and the changed files."""
        return sorted(
            name for name, entry in later.entries.items() if self.entries.get(name) != entry
        )

    def gone(self, later: Seen) -> list[str]:
        """Return the removed files."""
        return sorted(self.entries.keys() - later.entries.keys())


class Place:
    """A folder of one worker, with the case in a folder below it.

    Attributes:
        root: holds the case and nothing else; names of files are relative to ``case`` in it.
        disk: a small file system of its own; None where there is none.
        now: a file that names the case that runs, in case the worker dies.
    """

    def __init__(self, base: Path, disk: Path | None) -> None:
        """Take a folder that may be written."""
        self.root = base / "run"
        self.now = base / "now.json"
        self.disk = disk
        self.folder = self.root / CASE

    def lay_out(self, case: Case) -> None:
        """Write the files of a case to the empty folder."""
        self.clear()
        self.folder.mkdir(parents=True)
        for name in case.folders:
            if name == "disk" and case.disk_kib is not None and self.disk is not None:
                (self.folder / "disk").symlink_to(self.disk)
            else:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, data in {**case.files, **case.old}.items():
            path = self.folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            except OSError:  # a name that no file can have, or a folder
                continue
        for name in case.fifos:
            if not os.path.lexists(self.folder / name):
                os.mkfifo(self.folder / name)
        for name, where in case.links.items():
            if not os.path.lexists(self.folder / name):
                with suppress(OSError):  # a path longer than any can be
                    (self.folder / name).symlink_to(where)
        if case.disk_kib is not None and self.disk is not None:
            self._fill(case.disk_kib)
        for name, mode in case.modes.items():
            os.chmod(self.folder / name, mode)

    @contextmanager
    def readers(self, case: Case) -> Iterator[None]:
        """Read from the named pipes of a case meanwhile, since a writer waits for a reader."""
        ends = [
            os.open(self.folder / name, os.O_RDWR | os.O_NONBLOCK)
            for name in case.fifos
            if stat.S_ISFIFO(os.lstat(self.folder / name).st_mode)
        ]
        done = Event()

        def read() -> None:
            while not done.is_set():
                for end in select.select(ends, [], [], READ_EVERY_S)[0]:
                    os.read(end, 1 << 16)

        reader = Thread(target=read, daemon=True)
        if ends:
            reader.start()
        try:
            yield
        finally:
            done.set()
            if ends:
                reader.join()
            for end in ends:
                os.close(end)

    def clear(self) -> None:
        """Remove the files of the last case."""
        if self.disk is not None:
            for entry in self.disk.iterdir():
                shutil.rmtree(
                    entry
                ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        if self.root.exists():
            for folder, _, _ in os.walk(self.root):
                os.chmod(folder, 0o700)
            shutil.rmtree(self.root)

    def seen(self) -> Seen:
        """Return the current contents."""
        entries: dict[str, tuple[object, ...]] = {}
        roots = [(str(self.folder), ""), *([(str(self.disk), "disk")] if self.disk else [])]
        beside = [entry.name for entry in self.root.iterdir() if entry.name != CASE]
        entries |= {f"../{name}": ("beside",) for name in beside}
        for root, prefix in roots:
            for folder, folders, files in os.walk(root):
                inside = os.path.relpath(folder, root)
                for name in (*folders, *files):
                    if name == BALLAST:
                        continue
                    path = os.path.join(folder, name)
                    found = os.lstat(path)
                    shown = os.path.normpath(os.path.join(prefix, inside, name))
                    if stat.S_ISREG(found.st_mode):
                        entry: tuple[object, ...] = (found.st_ino, found.st_size, found.st_mtime_ns)
                    elif stat.S_ISLNK(found.st_mode):
                        entry = ("link", os.readlink(path))
                    else:
                        entry = (stat.S_IFMT(found.st_mode),)
                    entries[shown] = entry
        return Seen(entries)

    def _fill(self, kib: int) -> None:
        """Leave this many KiB free on the disk."""
        assert self.disk is not None
        free = os.statvfs(self.disk)
        left = free.f_bavail * free.f_frsize - kib * 1024
        (self.disk / BALLAST).write_bytes(b"\0" * max(left, 0))
