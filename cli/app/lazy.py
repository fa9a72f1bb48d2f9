"""The commands by name; the module of each is imported when it runs, and not for ``--help``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from gpuplan.cli.app.help_pages import show_program_help

GROUPS = {
    "Get data in": {
        "ingest": "Read a job log into a trace, and account for every row.",
        "prices": "Read GPU price lists and histories into one price table.",
        "synth": "Make a synthetic trace that is like a real one.",
    },
    "Understand a workload": {
        "characterize": "Describe a workload: waits, durations, load, and cost.",
        "waits": "Show why jobs wait, and if the cluster is too small.",
        "waste": "Show who wastes GPUs, and the waits without it.",
        "bill": "Show what a log costs, who pays, and what changed.",
        "forecast": "Forecast the GPUs of each group, and how many to lend.",
    },
    "Plan: how many GPUs, and which": {
        "size": "Find how many GPUs the jobs need at waits you accept, and how many to commit to.",
        "plan": "Plan what to commit to, rent, or run elsewhere.",
        "pareto": (
            "Show how fast jobs finish at each GPU budget, and how many GPUs each class needs."
        ),
        "sweep": (
            "Find when jobs should leave serverless GPUs: cost and completion time by threshold."
        ),
        "profile": "Choose batch size and GPU share of a measured service.",
        "share": "Show how many GPUs you need if jobs share cards.",
    },
    "Replay: what another scheduler would do": {
        "simulate": "Replay a trace under one policy: waiting, completion times, and cost.",
        "compare": "Replay a trace under several policies, and compare cost and completion times.",
        "calibrate": "Show how well the rules of a site explain its waits.",
        "whatif": "Show what a change of a site does to waits.",
        "options": "Compare changes of a Slurm site: dollars and waits.",
        "eta": "Show when a job of Slurm or Kueue starts.",
    },
    "Report, automate, track changes": {
        "report": (
            "Run several studies of a trace, and write a page, a comment, JSON, and test cases."
        ),
        "init": "Write a commented scenario for gpuplan run.",
        "run": "Run the studies of a scenario file, write its documents, and check its gates.",
        "diff": "Show what changed between two results: workload, cost, and completion times.",
    },
    "Find out more": {
        "demo": "Try gpuplan on a small synthetic trace.",
        "list": "List formats, policies, speedups, methods and more.",
    },
}
"""Question -> the commands that answer it with the first sentence of their help, in its order."""

COMMANDS = {name: about for commands in GROUPS.values() for name, about in commands.items()}

MODULES = {"list": "listing"}
"""The module of a command in `gpuplan.cli.commands`, if its name differs from the command."""


class LazyGroup(TyperGroup):
    """A group with the commands of `COMMANDS`, each imported when it is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._brief = False
        self.commands = {
            name: TyperCommand(name, help=about, rich_markup_mode="rich")
            for name, about in COMMANDS.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; only its name and first sentence where commands are listed."""
        if self._brief or cmd_name not in COMMANDS:
            return self.commands.get(cmd_name)
        return command_named(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, which lists every command without importing any."""
        show_program_help(self, GROUPS, COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the possible completions, also without importing a command."""
        self._brief = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._brief = False


@cache
def command_named(name: str) -> Any:
    """Return a command of `COMMANDS` with its options.

    Its module is imported now where it is not a study, whose request says all options.
    """
    studies = import_module("gpuplan.cli.documents.study_command")  # which knows this file
    shows = studies.study_command(name) or module_of(name)
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(_empty_callback)  # so that one command stays a command of a group
    shows.register(app)
    return typer.main.get_group(app).commands[name]


def module_of(name: str) -> Any:
    """Return the module of a command of `COMMANDS`, imported now."""
    return import_module(f"gpuplan.cli.commands.{MODULES.get(name, name)}")


def _empty_callback() -> None:
    """Provide the options of the group for a single command."""
