"""``gpuplan init``: a scenario file to begin with."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from gpuplan.analysis.base.errors import OutputError, UsageError
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.shared_options import command


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "init", example="gpuplan init scenario.toml")(init)


def init(
    path: Annotated[
        Path, typer.Argument(help="The file to write (.toml).", metavar="[FILE]")
    ] = Path("scenario.toml"),
    force: Annotated[
        bool, COMMON, typer.Option("--force", help="Overwrite an existing file.")
    ] = False,
) -> None:
    """Write a commented scenario for gpuplan run.

    It runs unchanged.
    """
    if path.suffix.lower() != ".toml":
        raise UsageError(f"{path}: expected a name that ends in .toml")
    if os.path.exists(path) and not force:
        raise OutputError(f"{path}: already exists\n  next: another name, or --force")
    with atomic_output(path) as temporary:
        temporary.write_bytes((files("gpuplan.cli.scenario") / "example.toml").read_bytes())
    messages.note(f"wrote {path}\n  next: gpuplan run {path}")
