"""The parameters of a command: groups spread out as options, every word checked.

No word is empty, or has a NUL byte or bytes that are not UTF-8, which no file, message or library
downstream could take; only the logs of ``ingest`` and ``prices`` may have any name. Numbers are
finite. An option that takes one value is given once.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from gpuplan.analysis.base.amounts import check_finite
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import declared_options
from gpuplan.cli.app.help_pages import show_command_help
from gpuplan.cli.options.declared import GIVEN, parameters_of, read_request

OF_ANY_BYTES = ("sources",)


def command_of(parameters: list[inspect.Parameter]) -> type[TyperCommand]:
    """Return the class of a command whose words are checked, with its help."""
    declared = {parameter.name: parameter.annotation for parameter in parameters}

    class Checked(TyperCommand):
        annotations = declared

        def __init__(self, *arguments: Any, **attributes: Any) -> None:
            super().__init__(*arguments, **attributes)
            for param in self.params:
                process = _checking(param, param.process_value, declared.get(param.name))
                setattr(param, "process_value", process)  # noqa: B010

        def make_parser(self, ctx: Any) -> Any:
            parser = super().make_parser(ctx)
            if not ctx.resilient_parsing:
                setattr(parser, "parse_args", _giving_once(parser.parse_args))  # noqa: B010
            return parser

        def format_help(self, ctx: Any, formatter: Any) -> None:
            show_command_help(self, ctx.command_path)

    return Checked


def option_reader(name: str, function: Callable[..., Any]) -> Any:
    """Return a click command whose callback returns what a function makes of its options.

    It has the options of the function alone, its groups spread out, and is never shown.
    """
    call, parameters = spread(function)
    declare(call, function, parameters)
    app = typer.Typer()
    app.callback()(_empty_callback)  # so that one command stays a command of a group
    app.command(name, cls=command_of(parameters))(call)
    return typer.main.get_group(app).commands[name]


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters, its groups not spread."""
    annotations = {
        name: kind for name, kind in function.__annotations__.items() if name != "return"
    }
    # The result of a command may have a type that is imported only where it runs.
    return get_type_hints(
        SimpleNamespace(__annotations__=annotations),
        globalns=getattr(function, "__globals__", {}),
        include_extras=True,
    )


def spread(
    function: Callable[..., Any], *more: type
) -> tuple[Callable[..., Any], list[inspect.Parameter]]:
    """Return a function of single options that calls one with groups, and its parameters.

    The parameters of ``more`` come last; they are left to the caller.
    """
    single: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    hints = types_of(function)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(_class_of(hint)):
            groups[parameter.name] = hint
        else:
            single.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    def call(**values: Any) -> Any:
        filled = {group: take(kind, values) for group, kind in groups.items()}
        return function(**values, **filled)

    return call, [*single, *(p for kind in (*groups.values(), *more) for p in _parameters(kind))]


def declare(
    call: Callable[..., Any], function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> None:
    """Give a function these parameters and the help of another, for typer to read."""
    call.__doc__, call.__name__ = function.__doc__, function.__name__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}


def take(group: Any, values: dict[str, Any]) -> Any:
    """Remove the values of a group from ``values`` and return the group."""
    if _is_declared(group):
        names = parameters_of(group)
        return read_request(group, {name: values.pop(name) for name in names})
    return group(**{field.name: values.pop(field.name) for field in fields(group)})


def _empty_callback() -> None:
    """Do nothing: the callback of an application that has one command."""


def _class_of(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_declared(group: Any) -> bool:
    """Return whether the fields of a group carry their options (`gpuplan.analysis.base.option`)."""
    return bool(declared_options(group))


def _parameters(group: Any) -> list[inspect.Parameter]:
    if _is_declared(group):
        return [parameter for parameter, _ in parameters_of(group).values()]
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _giving_once(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Return a parser of words that refuses an option of one value which is given again.

    It keeps in `GIVEN` the order of the options.
    """

    def parsed(args: list[str]) -> Any:
        values, rest, order = parse(args=args)
        for param, times in Counter(order).items():
            takes_one = param.param_type_name == "option" and not (param.is_flag or param.multiple)
            if takes_one and times > 1:
                raise UsageError(f"{_name(param)} is given {times} times; give it once")
        GIVEN.set(tuple(param.name for param in order))
        return values, rest, order

    return parsed


def _checking(
    param: Any, process: Callable[[Any, Any], Any], annotation: Any
) -> Callable[[Any, Any], Any]:
    is_path, is_number = _is_path(annotation), _is_number(annotation)

    def checked(ctx: Any, value: Any) -> Any:
        if not ctx.resilient_parsing:  # as for completion, where a word is not yet whole
            for word in _words(value):
                _check(param, word, is_path=is_path)
                if is_number:
                    check_finite(word, _name(param))
        return process(ctx, value)

    return checked


def _check(param: Any, word: str, *, is_path: bool) -> None:
    if is_path and not word:
        raise UsageError(f"{_name(param)}: must be a path, got an empty one")
    if not word.strip() and not is_path:
        raise UsageError(f"{_name(param)} must not be empty, got {word!r}")
    if "\0" in word:
        raise UsageError(f"{_name(param)}: must not have a NUL byte, got {word!r}")
    if param.name not in OF_ANY_BYTES and not _is_utf8(word):
        shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise UsageError(f"{_name(param)}: must be UTF-8, got '{shown}'")


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _words(part)


def _name(param: Any) -> str:
    """Return what a message calls an option or argument."""
    if param.param_type_name == "option":
        return max(param.opts, key=len)  # type: ignore[no-any-return]
    return str(param.metavar or param.name.upper()).strip("[].")


def _is_path(annotation: Any) -> bool:
    """Return whether a parameter takes a path, also where it may be a word instead of one."""
    if annotation is Path or getattr(annotation, "metavar", None) == "FILE|builtin":
        return True
    return any(_is_path(part) for part in get_args(annotation))


def _is_number(annotation: Any) -> bool:
    """Return whether a parameter takes a number that may have decimals."""
    return annotation is float or any(_is_number(part) for part in get_args(annotation))
