"""Run a command as one study of a larger document: its report is kept, and nothing is printed.

Studies are given as commands are: by the names of their options. So a scenario file knows every
option of every command, its type, its limits and its default, without a second list of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.lookup import did_you_mean
from gpuplan.cli.app import messages
from gpuplan.cli.app.removed_options import removed_hint
from gpuplan.cli.documents.emit import collecting
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.shared_options import Output, OutputWithoutRows, Talk

NOT_HERE = frozenset(
    name for group in (Output, OutputWithoutRows, Talk) for name in group.__dataclass_fields__
) | {"help", "output", "save_model", "timeline"}
"""Where a result goes is for the document to say, not for a study in it."""


@dataclass(frozen=True, slots=True)
class StudyOption:
    """One option of a command, as a study may set it.

    Attributes:
        key: its name with underscores, as in a scenario file.
        flag: its name on the command line.
        off: the flag that switches it off; empty where there is none.
        is_flag: whether it takes no value.
        multiple: whether it may be repeated.
        help: what it is, one text.
    """

    key: str
    flag: str
    off: str
    is_flag: bool
    multiple: bool
    help: str


def study_options(command: str) -> dict[str, StudyOption]:
    """Return the options a study may set, by key.

    Raises:
        UsageError: there is no such command; the message names the nearest.
    """
    from gpuplan.cli.app.lazy import COMMANDS, command_named

    if command not in COMMANDS:
        raise UsageError(f"no command {command!r}{did_you_mean(command, COMMANDS)}")
    found = {}
    for parameter in command_named(command).params:
        if parameter.param_type_name != "option":
            continue
        long = max(parameter.opts, key=len)
        key = long.removeprefix("--").replace("-", "_")
        if key in NOT_HERE or parameter.name in NOT_HERE:
            continue
        found[key] = StudyOption(
            key=key,
            flag=long,
            off=next(iter(parameter.secondary_opts), ""),
            is_flag=bool(getattr(parameter, "is_flag", False)),
            multiple=bool(parameter.multiple),
            help=getattr(parameter, "help", None) or "",
        )
    return found


def arguments_of(command: str, options: Mapping[str, Any]) -> list[str]:
    """Return a study's options as arguments of its command.

    A list repeats an option that may be repeated and is joined by commas elsewhere; true and false
    set a flag.

    Raises:
        UsageError: no such option, or a value that is no text, number, flag or list of them.
    """
    known = study_options(command)
    arguments: list[str] = []
    for key, value in options.items():
        option = known.get(key)
        if option is None:
            hint = removed_hint(key, str(value)) or did_you_mean(key, known)
            raise UsageError(f"gpuplan {command} has no option {key!r}{hint}")
        if option.is_flag:
            if not isinstance(value, bool):
                raise UsageError(f"{key}: expected true or false, found {value!r}")
            arguments += [option.flag] if value else [option.off] if option.off else []
        elif option.multiple:
            each = value if isinstance(value, list) else [value]
            arguments += [f"{option.flag}={_text(key, one)}" for one in each]
        elif isinstance(value, list):
            arguments.append(f"{option.flag}={','.join(_text(key, one) for one in value)}")
        else:
            arguments.append(f"{option.flag}={_text(key, value)}")
    return arguments


def run_study(command: str, arguments: Sequence[str]) -> Report:
    """Run a command and return its report; what goes wrong is raised as from `main.execute`."""
    from gpuplan.cli.app.main import execute

    with _same_manners() as asked, collecting() as reports:
        execute([command, *arguments, *asked])
    if len(reports) != 1:
        raise UsageError(f"gpuplan {command} is no study: it makes no report")
    return reports[0]


def check_study(command: str, arguments: Sequence[str]) -> None:
    """Check the options of a command without its trace; raises what the command would."""
    from gpuplan.cli.app.main import execute
    from gpuplan.cli.options.inputs import checking

    with _same_manners() as asked, checking():
        execute([command, *arguments, *asked])


@contextmanager
def _same_manners() -> Iterator[list[str]]:
    """Yield what makes a command as quiet as this program, and undo what it sets for itself."""
    manners = replace(messages.manners)
    try:
        yield ["--quiet"] if manners.quiet else []
    finally:
        messages.manners.quiet, messages.manners.verbose = manners.quiet, manners.verbose
        messages.manners.debug = manners.debug


def _text(key: str, value: Any) -> str:
    """Return one value as text; what TOML has and the command line has not is refused."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if hasattr(value, "isoformat"):  # a date or time of TOML
        return str(value.isoformat())
    raise UsageError(f"{key}: expected a text or a number, found {value!r}")
