"""The commands by name; the module of one is imported when it runs, and not for ``--help``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "ingest": "Bring a job log into the canonical schema, and account for every row of it.",
    "prices": "Bring GPU price lists and histories into one table, and say what GPUs cost.",
    "characterize": (
        "Say what a workload is: durations, GPU time, arrivals, load, groups, and its cost."
    ),
    "pareto": "Show what mean job completion time each GPU budget buys, and with which widths.",
    "sweep": "Replay a trace under many serverless thresholds: cost against completion time.",
    "simulate": "Replay a trace under one policy: what each job waits and costs.",
    "compare": "Compare policies on one trace: what each costs and how soon jobs are done.",
    "report": (
        "Run several studies of a trace and write them as a page, a comment, JSON and test cases."
    ),
    "diff": (
        "Say what changed between two results: workload, cost, completion time, every number."
    ),
    "synth": ("Draw a synthetic trace with the statistics of a real one, and say how near it is."),
    "init": "Write a commented scenario that runs as it is, for gpuplan run.",
    "run": "Run the studies of a scenario file, write its documents, check its gates.",
    "list": (
        "List what is built in: log formats, policies, speedups, methods, baselines, providers."
    ),
    "demo": ("Run the main job on a small synthetic trace: ingest, characterize, pareto, sweep."),
}
"""Name -> the first sentence of its help; the order is that of ``gpuplan --help``."""

MODULES = {"list": "listing"}
"""The module of a command in `gpuplan.cli.commands`, if its name differs from the command."""


SHORT_HELP = """\
gpuplan turns the job log of a GPU cluster into budget, scheduling and cloud decisions.

  gpuplan demo                    see it on a small sample
  gpuplan characterize sacct.txt  what your log says about the workload
  gpuplan pareto sacct.txt        what completion time each GPU budget buys
  gpuplan report sacct.txt -o r   all studies on one page
  gpuplan --help                  every command
"""
"""What the program says where it is given nothing to do."""


class LazyGroup(TyperGroup):
    """A group with the commands of `COMMANDS`, each imported when it is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._brief = False
        self.commands = {
            name: TyperCommand(name, help=about, rich_markup_mode="rich")
            for name, about in COMMANDS.items()
        }

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments; without any, show what to begin with."""
        if not args and not ctx.resilient_parsing:
            typer.echo(SHORT_HELP, nl=False)
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; only its name and first sentence where commands are listed."""
        if self._brief or cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        return command_named(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, which lists every command without importing any."""
        self._brief = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._brief = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the possible completions, also without importing a command."""
        self._brief = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._brief = False


@cache
def command_named(name: str) -> Any:
    """Return a command of `COMMANDS` with its options; its module is imported now."""
    module = module_of(name)
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(_nothing)  # so that one command stays a command of a group
    module.register(app)
    return typer.main.get_group(app).commands[name]


def module_of(name: str) -> Any:
    """Return the module of a command of `COMMANDS`, imported now."""
    return import_module(f"gpuplan.cli.commands.{MODULES.get(name, name)}")


def _nothing() -> None:
    """Provide the options of the group for a single command."""
