"""What workers may do: as little as an unprivileged user, also where root starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
SETPRIV = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
READ_ALL = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
"""For an interpreter in root's folder: read root's files, but write none of them."""
TRY = """
import subprocess, sys
import gpuplan.cli.app.main
sys.exit(sys.base_prefix != sys.argv[1] or subprocess.call([sys.executable, "-c", ""]))
"""
"""Whether it is this interpreter, gpuplan is there, and it can start others."""


@dataclass(frozen=True, slots=True)
class Rights:
    """How workers are started.

    Attributes:
        prefix: the prefix of their command line.
        drops: whether they give up the rights of root.
        mounts: whether small disks can be mounted for them.
    """

    prefix: tuple[str, ...] = ()
    drops: bool = False
    mounts: bool = False

    def give(self, path: Path) -> None:
        """Let workers own a folder."""
        if self.drops:
            os.chown(path, NOBODY, NOBODY)

    def small_disk(self, path: Path, size: str) -> Path | None:
        """Mount a small file system; None if that is not possible."""
        if not self.mounts:
            return None
        path.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True, check=False)
        return path if done.returncode == 0 else None

    def no_disk(self, path: Path | None) -> None:
        """Unmount a small file system."""
        if path is not None:
            subprocess.run(["umount", str(path)], capture_output=True, check=False)


def found_rights(folder: Path) -> Rights:
    """Return the least rights with which the interpreter still runs here.

    Args:
        folder: where the program runs, with gpuplan on its path.
    """
    if os.geteuid() != 0:
        return Rights()
    mounts = shutil.which("mount") is not None and shutil.which("umount") is not None
    if shutil.which("setpriv") is not None:
        for prefix in (SETPRIV, (*SETPRIV, *READ_ALL)):
            line = [*prefix, sys.executable, "-c", TRY, sys.base_prefix]
            try:
                done = subprocess.run(line, cwd=folder, capture_output=True, check=False)
            except OSError:
                continue
            if done.returncode == 0:
                return Rights(prefix, drops=True, mounts=mounts)
    return Rights(mounts=mounts)
