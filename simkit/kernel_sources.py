"""Which source files the machine code of a kernel comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of ``simkit``, ``planner`` and the other packages."""
IMPORT = re.compile(r"^[ ]*from gpuplan\.([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
HAS_KERNELS = "from gpuplan.simkit.jit import"


@cache
def stamp_of(path: str) -> dict[str, str]:
    """Return a digest of each file that kernels in ``path`` may come from, by its name.

    These are the file and what it imports of the project, directly or through files with kernels
    and files of simkit, whose constants a kernel holds as numbers. A path that is no file, such as
    that of a notebook's cell, has none.
    """
    if not os.path.isfile(path):
        return {}
    files = {path}
    new = [path]
    while new:
        imported = {each for file in new for each in imports_of(file)} - files
        files |= imported
        new = [file for file in imported if is_expanded(file)]
    return {
        file.removeprefix(f"{ROOT}{os.sep}"): sha256(_text(file).encode()).hexdigest()
        for file in sorted(files)
    }


@cache
def imports_of(path: str) -> tuple[str, ...]:
    """Return the files of the project that a file imports."""
    return tuple(
        file
        for module, names in IMPORT.findall(_text(path))
        for file in _files_of(module, re.findall(r"\w+", names))
    )


def is_expanded(path: str) -> bool:
    """Return whether what a file imports may be in the code of kernels, too."""
    return path.startswith(f"{ROOT / 'simkit'}{os.sep}") or HAS_KERNELS in _text(path)


def _files_of(module: str, names: list[str]) -> Iterator[str]:
    place = ROOT.joinpath(*module.split("."))
    if (file := place.with_suffix(".py")).is_file():
        yield str(file)
        return
    for name in ("__init__", *names):  # a package: a name is a file of it, or stands in its own
        if (file := place / f"{name}.py").is_file():
            yield str(file)


@cache
def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
