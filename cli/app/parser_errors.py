"""What is wrong with a command line, in our words instead of those of its parser."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuplan.analysis.base.errors import shortened
from gpuplan.analysis.base.lookup import perhaps

PLAIN = (
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
    (
        "Input should be a valid integer, unable to parse string as an integer",
        "must be a whole number",
    ),
    ("Input should be greater than or equal to", "must be at least"),
    ("Input should be less than or equal to", "must be at most"),
    ("Input should be greater than", "must be above"),
    ("Input should be less than", "must be below"),
    ("Value error, ", ""),
)
"""Messages of the parser, and our words for them."""

CHOICE = re.compile(r"'[^']*' is not one of ((?:'[^']*'(?:, )?)+)")
TIME = re.compile(r"does not match the formats ('[^']*'(?:, '[^']*')*)")
EXAMPLES = (("%Y", "2026"), ("%m", "01"), ("%d", "31"), ("%H:%M:%S", "08:30:00"), ("%z", "+01:00"))
"""Parts of the format of a time, and what a time in it may have there."""
LARGE = re.compile(r"\b\d{5,}\b")


def usage_message(error: Exception, command: str = "gpuplan") -> str:
    """Return what is wrong, with the option, what it got and what was expected, and the next step.

    Args:
        error: an error of the command-line parser.
        command: the command, such as ``gpuplan bill``, for errors that do not tell it.
    """
    if option := getattr(error, "option_name", ""):
        from gpuplan.planner.requests.settings import removed_hint

        if hint := removed_hint(option):
            return f"No such option: {option}{hint}"
    context = getattr(error, "ctx", None)
    return f"{_problem(error)}\n  next: {context.command_path if context else command} --help"


def _problem(error: Exception) -> str:
    message: str = error.format_message()  # type: ignore[attr-defined]
    message = " ".join(message.split())  # choices are on separate lines
    if (option := getattr(error, "option_name", "")) and hasattr(error, "possibilities"):
        return f"No such option: {option}{_meant(option, error.possibilities or ())}"
    if option and message.endswith("requires an argument."):
        return f"{option} needs a value"
    if message.startswith("Got unexpected extra argument"):
        extra = message.partition("(s) (")[2].removesuffix(")")
        return f"unexpected argument: {extra}; values with spaces, < or > need quotes"
    return _about_value(error) or message


def _about_value(error: Exception) -> str:
    """Return what is wrong with the value of an option or argument; empty if there is none."""
    name: str = getattr(getattr(error, "param", None), "opts", [""])[0]
    name = name if name.startswith("-") else name.upper()
    try:
        value = str(error.__cause__.errors()[0]["input"])  # type: ignore[union-attr]
    except (AttributeError, LookupError):
        return ""
    reason: str = error.message  # type: ignore[attr-defined]
    reason = " ".join(reason.split()).removesuffix(".")
    got = repr(shortened(value))
    if (choice := CHOICE.fullmatch(reason.removeprefix("Value error, "))) is not None:
        names = choice[1].replace("'", "").split(", ")
        return f"{name} {got}: expected one of {', '.join(names)}{perhaps(value, names)}"
    if (time := TIME.search(reason)) is not None:
        return f"{name} {got}: not a valid time; expected {_times(time[1])}"
    for said, plain in PLAIN:
        reason = reason.replace(said, plain)
    reason = LARGE.sub(lambda number: f"{int(number[0]):,}", reason)
    return f"{name} {reason}, got {got}" if reason.startswith("must be") else ""


def _meant(option: str, names: Iterable[str]) -> str:
    """Return `` (did you mean --where?)`` for the nearest of some options, or nothing."""
    near = sorted(names, key=lambda name: not name.startswith(option))
    return f" (did you mean {near[0]}?)" if near else ""


def _times(formats: str) -> str:
    """Return times in the formats of the parser, such as ``'%Y-%m-%d', '%Y-%m'``."""
    for part, example in EXAMPLES:
        formats = formats.replace(part, example)
    examples = [example for example in formats.replace("'", "").split(", ") if " " not in example]
    return f"one such as {', '.join(examples)} (UTC unless it has an offset)"
