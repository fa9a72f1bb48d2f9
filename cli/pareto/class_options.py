"""Read options about one class or GPU type: ``--limit``, ``--require``, prices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.formats.units import parse_duration

CAP = re.compile(r"^(?P<name>.*\S)\s*<=\s*(?P<time>\S+)$")


def parse_caps(texts: Sequence[str]) -> dict[str, float]:
    """Return seconds by class from ``bert <= 2h``.

    Raises:
        UsageError: a text is not such a requirement, or repeats a class.
    """
    caps: dict[str, float] = {}
    for text in texts:
        match = CAP.match(text.strip())
        if match is None:
            raise UsageError(f"--require {text!r}: expected 'CLASS <= TIME' such as 'bert <= 2h'")
        _once(caps, match["name"], "--require")
        caps[match["name"]] = parse_duration(match["time"], f"--require {text!r}: time")
    return caps


def parse_limits(texts: Sequence[str]) -> dict[str, int]:
    """Return GPUs by class from ``bert=16``. Raises `UsageError` as `parse_caps` does."""
    limits: dict[str, int] = {}
    for text in texts:
        name, _, gpus = (part.strip() for part in text.rpartition("="))
        if not name or not re.fullmatch("[0-9]{1,7}", gpus):
            raise UsageError(f"--limit {text!r}: expected CLASS=GPUS such as bert=16")
        _once(limits, name, "--limit")
        limits[name] = int(gpus)
    return limits


def parse_by_type(
    texts: Sequence[str], option: str, default: float | None = None
) -> dict[str, float]:
    """Return a number above 0 by GPU type from ``A100=2.5``.

    Args:
        texts: the values of the option.
        option: its name, for the messages.
        default: the number of a type without one; None where each needs one.

    Raises:
        UsageError: a text is not such a pair, a number is not above 0, or a type is repeated.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number) if equals else default
        except ValueError:
            value = None
        if not name or value is None or not 0 < value < float("inf"):
            raise UsageError(f"{option} {text!r}: expected TYPE=NUMBER above 0, such as A100=2.5")
        _once(found, name, option)
        found[name] = value
    return found


def _once(found: dict[str, float] | dict[str, int], name: str, option: str) -> None:
    if name in found:
        raise UsageError(f"{option}: {name!r} is given twice")
