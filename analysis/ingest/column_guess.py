"""Which columns of an unknown table are likely to be the times and the GPUs of its jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

WORDS: dict[str, frozenset[str]] = {
    "submit_time": frozenset({"submit", "submitted", "submission", "created", "queued", "arrival"}),
    "start_time": frozenset({"start", "started", "begin", "began"}),
    "end_time": frozenset({"end", "ended", "finish", "finished", "stop", "stopped", "completed"}),
    "duration_s": frozenset({"duration", "runtime", "elapsed"}),
    "num_gpus": frozenset({"gpu", "gpus", "ngpus", "numgpus"}),
    "user": frozenset({"user", "username", "owner"}),
}
"""Canonical column -> words of a name that mean it."""
OF_COUNTS = frozenset(
    {"num", "n", "nr", "count", "number", "of", "total", "requested", "alloc", "s"}
)
"""Words beside ``gpu`` in the name of a count (``s`` of ``GPUs``); others name its type or use."""
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def guessed_map(columns: Sequence[str]) -> str:
    """Return the ``--map`` options for a table; empty where the names do not say enough.

    A log without submissions takes the starts for them, and has no waits.
    """
    found: dict[str, str] = {}
    for target, wanted in WORDS.items():
        for column in columns:
            words = {word.lower() for word in PARTS.findall(column)}
            is_other = target == "num_gpus" and not words <= wanted | OF_COUNTS
            if words & wanted and not is_other and column not in found.values():
                found[target] = column
                break
    if "submit_time" not in found and "start_time" in found:
        found = {"submit_time": found["start_time"], **found}
    has_times = "duration_s" in found or {"start_time", "end_time"} <= found.keys()
    if not (has_times and {"submit_time", "num_gpus"} <= found.keys()):
        return ""
    return " ".join(f"--map {name}={shlex.quote(column)}" for name, column in found.items())
