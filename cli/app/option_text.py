"""What the help and the manual say about an option or argument, and about former options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

COMMON: Final = "common"
"""Marks an option that ``--help`` shows: ``Annotated[str, COMMON, typer.Option(...)]``.

``--help-all`` and the manual show every option.
"""
FALLBACK = "Options"
LONGEST_CHOICES = 20
"""Longest list of choices that stands as the placeholder of a value, in characters."""
PRACTICALLY_UNLIMITED = 1 << 24
VALUES = {int: "N", float: "NUMBER", Path: "FILE", datetime: "TIME"}


@dataclass(frozen=True, slots=True)
class OptionText:
    """An option or argument in words.

    Attributes:
        name: its name in Python.
        flags: as typed; none for an argument.
        value: placeholder of its value; empty for a flag.
        help: one or more sentences, with the markup of the terminal.
        remarks: sentences about its choices, range and default.
        panel: title of the group it is shown in.
        is_common: whether ``--help`` shows it.
        is_required: whether it must be given.
    """

    name: str
    flags: tuple[str, ...]
    value: str
    help: str
    remarks: tuple[str, ...]
    panel: str
    is_common: bool
    is_required: bool

    @property
    def text(self) -> str:
        """The help and its remarks."""
        return " ".join([self.help, *self.remarks])


def options_of(command: Any) -> list[OptionText]:
    """Return the options of a command in their order, without ``--help``."""
    options = (option for option in command.params if option.param_type_name == "option")
    shown = (
        option
        for option in options
        if option.name != "help" and not getattr(option, "hidden", False)
    )
    return [_described(option, _declared(command, option)) for option in shown]


def arguments_of(command: Any) -> list[OptionText]:
    """Return the arguments of a command in their order."""
    arguments = (argument for argument in command.params if argument.param_type_name == "argument")
    return [_described(argument, _declared(command, argument)) for argument in arguments]


def usage_of(command: Any, path: str) -> str:
    """Return a command as it is typed, with placeholders for its arguments and options."""
    arguments = [argument for argument in command.params if argument.param_type_name == "argument"]
    words = (_argument(argument, _declared(command, argument)) for argument in arguments)
    return " ".join([path, *words, "[OPTIONS]"])


def by_panel(options: list[OptionText]) -> dict[str, list[OptionText]]:
    """Return options by the title of their group; those without a group come first."""
    panels: dict[str, list[OptionText]] = {FALLBACK: []}
    for option in options:
        panels.setdefault(option.panel, []).append(option)
    return {panel: members for panel, members in panels.items() if members}


def _declared(command: Any, parameter: Any) -> Any:
    """Return the annotation that a parameter was declared with."""
    return getattr(command, "annotations", {}).get(parameter.name)


def _described(parameter: Any, annotation: Any) -> OptionText:
    is_option = parameter.param_type_name == "option"
    is_flag = is_option and bool(parameter.is_flag)
    return OptionText(
        name=parameter.name,
        flags=(*parameter.opts, *parameter.secondary_opts) if is_option else (),
        value="" if is_flag else _value(parameter, annotation),
        help=parameter.help or "",
        remarks=tuple(_remarks(parameter, annotation)) if is_option else (),
        panel=getattr(parameter, "rich_help_panel", None) or FALLBACK,
        is_common=COMMON in getattr(annotation, "__metadata__", ()),
        is_required=bool(parameter.required),
    )


def _argument(parameter: Any, annotation: Any) -> str:
    name = _value(parameter, annotation)
    if parameter.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _value(parameter: Any, annotation: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    choices = "|".join(_choices(annotation))
    if 0 < len(choices) <= LONGEST_CHOICES:
        return choices
    if choices or parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    return VALUES.get(_kind(annotation), "TEXT")


def _kind(annotation: Any) -> Any:
    """Return the type of one value of a parameter: a class or a `Literal`."""
    if isinstance(annotation, type) or get_origin(annotation) is Literal:
        return annotation
    inner = [part for part in get_args(annotation) if part is not type(None)]
    return _kind(inner[0]) if inner else None


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the values of a parameter that has a fixed set of them."""
    kind = _kind(annotation)
    if get_origin(kind) is Literal:
        return get_args(kind)
    is_choice = isinstance(kind, type) and issubclass(kind, Enum)
    return tuple(str(choice.value) for choice in kind) if is_choice else ()


def _remarks(option: Any, annotation: Any) -> Iterator[str]:
    if option.required:
        yield "Required."
    named = f"{option.help} {_value(option, annotation)}"
    choices = _choices(annotation)
    if not all(choice in named for choice in choices):
        yield f"One of {', '.join(choices)}."
    declared = next((x for x in getattr(annotation, "__metadata__", ()) if hasattr(x, "min")), None)
    low, high = (None, None) if declared is None else (declared.min, declared.max)
    if low is not None:
        unlimited = high is None or high >= PRACTICALLY_UNLIMITED
        yield f"At least {low:,.10g}." if unlimited else f"From {low:,.10g} to {high:,.10g}."
    default = getattr(option.default, "value", option.default)
    if option.show_default and not option.is_flag and default not in (None, [], (), ""):
        yield f"Default: {default}."
