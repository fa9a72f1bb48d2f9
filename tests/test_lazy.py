"""Commands are imported when they run; what --help says of them is what they say themselves."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.cli import commands
from gpuplan.cli.app.lazy import COMMANDS, MODULES, command_named


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_first(name: str) -> None:
    command = command_named(name)
    assert command.name == name
    assert inspect.cleandoc(command.help).split("\n\n")[0].replace("\n", " ") == COMMANDS[name]


def test_every_module_of_commands_is_listed() -> None:
    here = {file.stem for file in Path(commands.__file__).parent.glob("*.py")} - {"__init__"}
    assert {MODULES.get(name, name) for name in COMMANDS} == here


def test_help_imports_no_command() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from gpuplan.cli.app.main import main; code = main(['--help']); "
            "print(sorted(m for m in sys.modules if m.startswith('gpuplan.cli.commands.')), code)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "[] 0"
    assert all(name in said.stdout for name in COMMANDS)
