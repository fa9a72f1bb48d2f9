"""Read what ``profile`` and ``share`` take: durations in ms, values of gamma, settings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.reading.times import is_number
from gpuplan.cli.options.settings import check_once

MILLISECONDS = re.compile(r"^\s*((?:\d+(?:\.\d*)?|\.\d+))\s*ms\s*$")
PLAIN = re.compile(r"^\s*(\d+(\.\d*)?|\.\d+)\s*$")
SYNTHETIC_S = 600  # length of a sampled load where nothing else gives one
MOST_GAMMAS = 50
FLAGS = {"true": True, "yes": True, "false": False, "no": False}
SETTINGS = ("gamma", "omega", "alpha", "beta", "memory_gb", "tie_break", "split", "affinity")


def parse_latency(text: str, option: str) -> float:
    """Return seconds for ``80ms``, ``0.08s`` or any other time with a unit.

    Raises `UsageError`, also for a bare number, which could be seconds or milliseconds.
    """
    expected = f"{option} {text.strip()}: expected a number above 0 with a unit, such as 80ms"
    if is_number(text):
        if not 0 < float(text) < math.inf or PLAIN.match(text) is None:
            raise UsageError(expected)
        raise UsageError(
            f"{option} {text}: needs a unit\n  next: {option} {text.strip()}ms, or "
            f"{option} {text.strip()}s for seconds"
        )
    found = MILLISECONDS.match(text.lower())
    seconds = float(found[1]) / 1000 if found else parse_duration(text, option)
    if not seconds > 0:
        raise UsageError(expected)
    return seconds


def parse_gammas(text: str | None) -> tuple[float, ...]:
    """Return the values of ``1.5``, ``1,1.5,2`` or ``1:2.5:0.1``. Raises `UsageError`."""
    if text is None:
        return ()
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            if not (0 < step and first <= last and math.isfinite(last)):
                raise ValueError
            count = int((last - first) / step + 1e-9) + 1
            if count > MOST_GAMMAS:
                raise UsageError(f"--gamma {text}: {count} values; expected at most {MOST_GAMMAS}")
            values = [round(first + at * step, 12) for at in range(count)]
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(0 < value < 1e6 for value in values):
        raise UsageError(f"--gamma {shortened(text)!r}: expected 1.5, 1,1.5,2 or 1:2.5:0.1")
    return tuple(dict.fromkeys(values))


def parse_sharing_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--set key=value``. Raises `UsageError`."""
    check_once(texts)
    values: dict[str, Any] = {}
    for text in texts:
        key, found, value = (part.strip() for part in text.partition("="))
        if not found or key not in SETTINGS:
            raise UsageError(
                f"--set {text!r}: expected one of {', '.join(SETTINGS)}, as in gamma=2"
            )
        if key == "tie_break":
            if value not in ("id", "reference"):
                raise UsageError(f"--set {text!r}: expected id or reference")
            values["reference"] = value == "reference"
        elif key in ("split", "affinity"):
            if value.lower() not in FLAGS:
                raise UsageError(f"--set {text!r}: expected yes or no")
            values[key] = FLAGS[value.lower()]
        else:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            least = 0.0 if key in ("alpha", "beta") else 1e-6
            if not least <= number < 1e6:
                raise UsageError(f"--set {text!r}: expected a number of at least {least:g}")
            values[key] = number
    return values
