"""Which columns of an unknown table are likely to be the times and the GPUs of its jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

WORDS: dict[str, tuple[str, ...]] = {
    "submit_time": ("submit", "submitted", "submission", "queued", "arrival", "created"),
    "start_time": ("start", "started", "begin", "began"),
    "end_time": ("end", "ended", "finish", "finished", "stop", "stopped", "completed"),
    "duration_s": ("duration", "runtime", "elapsed"),
    "num_gpus": ("gpus", "ngpus", "numgpus", "gpu"),
    "user": ("user", "username", "owner"),
}
"""Canonical column -> words of a name that mean it, the most specific first."""
OF_OTHERS = frozenset(
    {"by", "host", "hostname", "node", "nodes", "limit", "id", "state", "reason", "code", "line"}
)
"""Words in the names of columns that hold something else, such as ``submit_host``."""
OF_PEOPLE = frozenset({"user", "username", "owner"})
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
    for target in WORDS:
        free = [column for column in columns if column not in found.values()]
        ranked = [(rank, column) for column in free if (rank := _rank(target, column)) is not None]
        if ranked:
            found[target] = min(ranked, key=lambda one: one[0])[1]
    if "submit_time" not in found and "start_time" in found:
        found = {"submit_time": found["start_time"], **found}
    has_times = "duration_s" in found or {"start_time", "end_time"} <= found.keys()
    if not (has_times and {"submit_time", "num_gpus"} <= found.keys()):
        return ""
    return " ".join(f"--map {name}={shlex.quote(column)}" for name, column in found.items())


def _rank(target: str, column: str) -> int | None:
    """Return how well a column fits, 0 for best; None where it cannot be the target."""
    words = {word.lower() for word in PARTS.findall(column)}
    ranks = [rank for rank, word in enumerate(WORDS[target]) if word in words]
    if target == "num_gpus":
        is_other = not words <= {*WORDS[target]} | OF_COUNTS
    else:
        others = OF_OTHERS - {"id"} if target == "user" else OF_OTHERS | OF_PEOPLE
        is_other = bool(words & others)
    return None if is_other or not ranks else ranks[0]
