"""The application, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from gpuplan.analysis.errors import GpuplanError
from gpuplan.analysis.version import gpuplan_version
from gpuplan.cli import talk
from gpuplan.cli.commands import (
    characterize,
    ingest,
    listing,
    pareto,
    prices,
    simulate,
    sweep,
    synth,
)
from gpuplan.cli.commands import demo as demo_command

INTERRUPTED = 130
USAGE = 2
BUG = 70  # EX_SOFTWARE of sysexits.h
CLICK_ERROR: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

app = typer.Typer(
    name="gpuplan",
    help="Turn the job log of a GPU cluster into budget, scheduling and cloud decisions.",
    epilog="Start with [cyan]gpuplan demo[/cyan], or [cyan]gpuplan ingest LOG -o t.parquet[/cyan]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(ingest, prices, characterize, pareto, sweep, simulate, synth),
    *(listing, demo_command),
):
    module.register(app)


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"gpuplan {gpuplan_version()}\n")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Turn the job log of a GPU cluster into budget, scheduling and cloud decisions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done; 1 a gate tripped; 2 usage; 3 the input is unusable; 4 infeasible; 130 interrupted;
    70 a bug of ours.
    """
    try:
        code = app(args=arguments, prog_name="gpuplan", standalone_mode=False)
    except GpuplanError as error:
        return _told(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _told("interrupted", INTERRUPTED)
    except typer.Abort:
        return _told("interrupted", INTERRUPTED)
    except CLICK_ERROR as error:
        return _told(_usage_message(error), USAGE)
    except SystemExit:
        raise
    except BaseException as error:  # a panic of polars is no Exception
        problem = f"internal error ({type(error).__name__}: {error})"
        return _told(f"{problem}\n  next: run again with --debug and report what it shows", BUG)
    if code == INTERRUPTED:  # newer versions of typer turn the interrupt into this code
        return _told("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The entry point ``gpuplan``."""
    sys.exit(main())


def _told(message: str, code: int) -> int:
    if talk.manners.debug:
        traceback.print_exc()
    sys.stderr.write(f"error: {message}\n")
    return code


def _usage_message(error: Exception) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "gpuplan"
    return f"{message}\n  next: {command} --help"
