"""The manual ``docs/cli.md``, generated from the help texts of the commands.

``python -m gpuplan.cli.app.manual > docs/cli.md`` writes it; a test checks that it is up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from gpuplan.cli.app.lazy import COMMANDS, command_named
from gpuplan.cli.app.option_text import OptionText, arguments_of, by_panel, options_of, usage_of

HEAD = """\
# The command line

This page is made of the commands' own help: `python -m gpuplan.cli.app.manual > docs/cli.md`.
What all commands share (output forms, exit codes, gates) is in [output.md](output.md).

```
gpuplan COMMAND [OPTIONS] ...
gpuplan --help | --version | --install-completion | --show-completion
```

`gpuplan COMMAND --help` shows the options that most runs need, and an example.
`--help-all` shows every option, as this page does.

## Completion

`gpuplan --install-completion` sets up completion in bash, zsh or fish, whichever it is run in;
`gpuplan --show-completion` prints the script instead, and `_GPUPLAN_COMPLETE=source_zsh gpuplan`
that of the shell named (`source_bash`, `source_fish`) wherever it is run. After that the Tab key
completes commands, options, what `gpuplan list` lists, and the values of options with a fixed set
of them, among these `--policy`, `--speedup`, `--baseline`, `--method`, `--preset`, `--study`,
`--formats` and `--source-format`.

## Signals and pipes

Ctrl-C ends a command with exit code 130 and leaves no partial file; a second one ends it at once.
After `kill -9` a partial file (`.gpuplan.*`) stays; the next command that writes there removes it.
Outputs may be pipes and devices, as in `-o /dev/stdout`. Where the reader of a pipe has
seen enough, as in `gpuplan list formats | head -3`, the command ends quietly.

## Commands
"""
MARKUP = re.compile(r"\[/?(?:bold|cyan)\]")


def manual() -> str:
    """Return the manual in Markdown."""
    commands = [command_named(name) for name in COMMANDS]
    listed = [f"- [`{name}`](#gpuplan-{name}): {about}" for name, about in COMMANDS.items()]
    parts = [HEAD, *listed, ""]
    for command in commands:
        parts += _command(command)
    return "\n".join(parts).rstrip() + "\n"


def _command(command: Any) -> Iterator[str]:
    yield from (f"## gpuplan {command.name}", "", "```")
    yield usage_of(command, f"gpuplan {command.name}")
    yield from ("```", "", _plain(inspect.cleandoc(command.help)), "")
    if arguments := arguments_of(command):
        yield from ("**Arguments**", "")
        yield from (f"- `{argument.value}`: {_plain(argument.help)}" for argument in arguments)
        yield ""
    for panel, members in by_panel(options_of(command)).items():
        yield from (f"**{panel}**", "")
        yield from (_option(option) for option in members)
        yield ""
    example = _plain(command.epilog).removeprefix("Example: ").strip("`")
    yield from ("**Example**", "", "```", example, "```", "")


def _option(option: OptionText) -> str:
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    value = f" `{option.value}`" if option.value else ""
    return f"- {flags}{value}: {' '.join([_plain(option.help), *option.remarks])}"


def _plain(text: str) -> str:
    """Return a help text without the markup of the terminal and without its line breaks."""
    plain = MARKUP.sub("`", text).replace("\\[", "[").replace("<", "\\<")
    paragraphs = plain.split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    sys.stdout.write(manual())
