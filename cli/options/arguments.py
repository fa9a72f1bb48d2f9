"""What every word of a command line must be, before its own meaning is read.

Paths are not empty, and no word has a NUL byte or bytes that are not UTF-8, which no file, message
or library downstream could take. Only the logs of ``ingest`` and ``prices`` may be named anyhow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from typer.core import TyperCommand

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.app.help_pages import show_command_help

OF_ANY_BYTES = ("sources",)


def command_of(parameters: list[inspect.Parameter]) -> type[TyperCommand]:
    """Return the class of a command whose words are checked, with its help."""
    declared = {one.name: one.annotation for one in parameters}
    paths = {one.name for one in parameters if _is_path(one.annotation)}

    class Checked(TyperCommand):
        annotations = declared

        def __init__(self, *arguments: Any, **attributes: Any) -> None:
            super().__init__(*arguments, **attributes)
            for param in self.params:
                process = _checking(param, param.process_value, is_path=param.name in paths)
                setattr(param, "process_value", process)  # noqa: B010

        def format_help(self, ctx: Any, formatter: Any) -> None:
            show_command_help(self, ctx.command_path)

    return Checked


def _checking(
    param: Any, process: Callable[[Any, Any], Any], *, is_path: bool
) -> Callable[[Any, Any], Any]:
    def checked(ctx: Any, value: Any) -> Any:
        if not ctx.resilient_parsing:  # as for completion, where a word is not yet whole
            for word in _words(value):
                _check(param, word, is_path=is_path)
        return process(ctx, value)

    return checked


def _check(param: Any, word: str, *, is_path: bool) -> None:
    if is_path and not word:
        raise UsageError(f"{_name(param)}: must be a path, got an empty one")
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
        for one in value:
            yield from _words(one)


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
