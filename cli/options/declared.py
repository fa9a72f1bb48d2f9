"""The options of the command line that a request declares, and the request of their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import MISSING
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from gpuplan.analysis.base.option import (
    DATE_FORMATS,
    Declared,
    declared_options,
    read_value,
    request_of,
)
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options import completion

GIVEN: ContextVar[tuple[str, ...]] = ContextVar("GIVEN", default=())
"""Names of the options of the command that runs, in the order in which they are given."""


def parameters_of(kind: Any) -> Mapping[str, tuple[inspect.Parameter, Declared]]:
    """Return the parameters of a command by name, with the options of a request behind them."""
    return _parameters_of(kind)


@cache
def _parameters_of(kind: Any) -> Mapping[str, tuple[inspect.Parameter, Declared]]:
    parameters: dict[str, tuple[inspect.Parameter, Declared]] = {}
    for option in declared_options(kind):
        name = option.name if option.name not in parameters else "__".join(option.path)
        parameters[name] = (_parameter(name, option), option)
    return parameters


def read_request(kind: Any, values: Mapping[str, Any]) -> Any:
    """Return the request that the values of a command's parameters make.

    Raises `UsageError` where a text cannot be read.
    """
    read = {
        option.path: read_value(option, _day(option, values[name]))
        for name, (_, option) in parameters_of(kind).items()
        if name in values
    }
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    fields = {path: value for path, value in read.items() if value is not MISSING}
    if "option_order" in getattr(kind, "__dataclass_fields__", {}):
        fields["option_order",] = GIVEN.get()
    return request_of(kind, fields)


def _day(option: Declared, value: Any) -> Any:
    """Return the day of a time where an option is a day."""
    return value.date() if isinstance(value, datetime) and _is(date, option.kind) else value


def _parameter(name: str, option: Declared) -> inspect.Parameter:
    opt = option.opt
    kind = _kind(option)
    default = option.default
    if opt.parse is not None:
        default = opt.default or None
    if opt.many:
        default = None
    if option.default is MISSING:
        default = inspect.Parameter.empty
    declared: dict[str, Any] = {
        "help": opt.help,
        "metavar": opt.metavar or None,
        "show_default": opt.shows_default and default not in (None, inspect.Parameter.empty),
    }
    if isinstance(opt.complete, tuple):
        declared["autocompletion"] = completion.one_of(lambda: opt.complete)
    elif opt.complete:
        declared["autocompletion"] = _completion(opt.complete)
    if opt.argument:
        mark = typer.Argument(**declared)
    else:
        mark = typer.Option(
            *(opt.flag.split(" ") if opt.flag else ()),
            **declared,
            rich_help_panel=option.panel or None,
            min=opt.low,
            max=opt.high,
            formats=DATE_FORMATS[: 1 if _is(date, option.kind) else None]
            if _is(datetime, kind)
            else None,
        )
    marks = (COMMON, mark) if opt.common else (mark,)
    annotation: Any = Annotated[(kind, *marks)]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _kind(option: Declared) -> Any:
    """Return the type that the command line reads an option as."""
    opt = option.opt
    if opt.parse is not None:
        single: Any = Path if _is(Path, option.kind) else str
        optional = option.default is not MISSING and not opt.default
    else:
        single = get_args(option.kind)[0] if opt.many else option.kind
        if _is(date, single):  # the command line knows times alone
            single = datetime | None
        if opt.many and get_origin(single) is Literal:  # which typer does not take in lists
            single = _words(get_args(single))
        optional = opt.many and option.default is not MISSING
    kind = list[single] if opt.many else single
    return kind | None if optional and not _is(type(None), kind) else kind


def _words(words: tuple[str, ...]) -> Any:
    """Return an enumeration of words."""
    names = {word: word for word in words}
    return StrEnum("Word", names)


def _is(kind: type, declared: Any) -> bool:
    return declared is kind or kind in get_args(declared)


def _completion(name: str) -> Callable[[str], list[str]]:
    """Return the completion of this name; of a list with commas where a comma ends it."""
    names = getattr(completion, name.removesuffix(","))
    return completion.some_of(names) if name.endswith(",") else completion.one_of(names)
