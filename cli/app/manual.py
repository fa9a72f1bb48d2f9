"""The manual ``docs/cli.md``, generated from the help texts of the commands.

``python -m gpuplan.cli.app.manual > docs/cli.md`` writes it; a test checks that it is up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from gpuplan.cli.app.lazy import COMMANDS, command_named

HEAD = """\
# The command line

This page is made of the commands' own help: `python -m gpuplan.cli.app.manual > docs/cli.md`.
What all commands share (output forms, exit codes, gates) is in [output.md](output.md).

```
gpuplan COMMAND [OPTIONS] ...
gpuplan --help | --version | --install-completion | --show-completion
```

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
FALLBACK = "Options"
VALUES = {int: "N", float: "NUMBER", Path: "FILE", datetime: "TIME"}


def manual() -> str:
    """Return the manual in Markdown."""
    commands = [command_named(name) for name in COMMANDS]
    listed = [f"- [`{name}`](#gpuplan-{name}): {about}" for name, about in COMMANDS.items()]
    parts = [HEAD, *listed, ""]
    for command in commands:
        parts += _command(command)
    return "\n".join(parts).rstrip() + "\n"


def _command(command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = " ".join(_argument(one) for one in arguments)
    yield from (f"## gpuplan {command.name}", "", "```")
    yield f"gpuplan {command.name} {words + ' ' if words else ''}[OPTIONS]"
    yield from ("```", "", _plain(inspect.cleandoc(command.help)), "")
    if arguments:
        yield from ("**Arguments**", "")
        yield from (f"- `{_name(one)}`: {_plain(one.help)}" for one in arguments)
        yield ""
    panels: dict[str, list[Any]] = {}
    for one in options:
        if one.name != "help" and not getattr(one, "hidden", False):
            panels.setdefault(getattr(one, "rich_help_panel", None) or FALLBACK, []).append(one)
    for panel, members in panels.items():
        yield from (f"**{panel}**", "")
        yield from (_option(one) for one in members)
        yield ""
    example = _plain(command.epilog).removeprefix("Example: ").strip("`")
    yield from ("**Example**", "", "```", example, "```", "")


def _argument(parameter: Any) -> str:
    name = _name(parameter) + (
        "..." if parameter.nargs == -1 and not _name(parameter).endswith("...") else ""
    )
    return name if parameter.required else f"[{name}]"


def _name(parameter: Any) -> str:
    return str(parameter.metavar or "|".join(_choices(parameter)) or parameter.name.upper())


def _kind(parameter: Any) -> Any:
    """Return the Python type of one value of a parameter."""
    annotation = parameter.type_descriptor.annotation
    return (get_args(annotation) or (annotation,))[0]


def _choices(parameter: Any) -> list[str]:
    """Return the values of a parameter that has a fixed set of them."""
    kind = _kind(parameter)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return []
    return [str(one.value) for one in kind]


def _option(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{_value(option)}`"
    return f"- {flags}{value}: {' '.join([_plain(option.help), *_remarks(option)])}"


def _value(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    if choices := _choices(option):
        return "|".join(choices)
    return VALUES.get(_kind(option), "TEXT")


def _remarks(option: Any) -> Iterator[str]:
    if option.required:
        yield "Required."
    low, high = (option.min, option.max)
    if low is not None:
        yield f"At least {low:,.10g}." if high is None else f"From {low:,.10g} to {high:,.10g}."
    default = getattr(option.default, "value", option.default)
    if option.show_default and not option.is_flag and default not in (None, [], (), ""):
        yield f"Default: {default}."


def _plain(text: str) -> str:
    """Return a help text without the markup of the terminal and without its line breaks."""
    plain = MARKUP.sub("`", text).replace("\\[", "[").replace("<", "\\<")
    paragraphs = plain.split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    sys.stdout.write(manual())
