"""Read options about one class: ``--limit``, ``--require``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.formats.units import parse_duration
from gpuplan.cli.options.by_type import once

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
        once(caps, match["name"], "--require")
        caps[match["name"]] = parse_duration(match["time"], f"--require {text!r}: time")
    return caps


def parse_limits(texts: Sequence[str]) -> dict[str, int]:
    """Return GPUs by class from ``bert=16``. Raises `UsageError` as `parse_caps` does."""
    limits: dict[str, int] = {}
    for text in texts:
        name, _, gpus = (part.strip() for part in text.rpartition("="))
        if not name or not re.fullmatch("[0-9]{1,7}", gpus):
            raise UsageError(f"--limit {text!r}: expected CLASS=GPUS such as bert=16")
        once(limits, name, "--limit")
        limits[name] = int(gpus)
    return limits
