"""docs/cli.md is what the commands say of themselves."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from gpuplan.cli.app.lazy import COMMANDS, command_named
from gpuplan.cli.app.manual import _plain, manual

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"


def test_the_page_is_up_to_date():
    made = subprocess.run(
        [sys.executable, "-m", "gpuplan.cli.app.manual"], capture_output=True, check=True
    ).stdout.decode()
    assert PAGE.read_text(encoding="utf-8") == made, "write it again: see its first lines"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_manual_has_every_option_of_every_command(name):
    section = manual().partition(f"\n## gpuplan {name}\n")[2].partition("\n## ")[0]
    flags = [flag for one in command_named(name).params for flag in getattr(one, "opts", ())]
    options = {flag for flag in flags if flag.startswith("--")} - {"--help"}
    assert options and all(f"`{flag}`" in section for flag in options)
    assert f"gpuplan {name}" in section.partition("**Example**")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_terminal_takes_nothing_of_a_help_for_markup_but_bold_and_colour(name):
    for one in command_named(name).params:
        text = getattr(one, "help", None) or ""
        shown = " ".join(Text.from_markup(text).plain.replace("`", "").split())
        message = " ".join(_plain(text).replace("`", "").replace("\\<", "<").split())
        assert shown == message


def test_the_extra_of_an_engine_can_be_read(gpuplan):
    assert "'gpuplan[dask]'" in "".join(gpuplan("sweep", "--help-all")[1].split())
