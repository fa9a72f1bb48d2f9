"""Former options and settings, and what is given in their place."""

from __future__ import annotations

from collections.abc import Mapping

REMOVED: Mapping[str, str] = {
    "node_gpus": "--cluster x{0} (as many nodes of {0} GPUs as needed)",
    "include_running": "leave it out: jobs still running count in GPU-hours, not in durations",
    "gpus_per_node": "--cluster 4x{0} (4 nodes of {0} GPUs), or x{0} for as many as needed",
}
"""Former options and settings, with underscores -> what is given today."""


def removed_hint(name: str, value: str = "") -> str:
    """Return the next step where a former option or setting is given, or nothing.

    Args:
        name: as typed.
        value: what it was given.
    """
    replacement = REMOVED.get(name.strip().removeprefix("--").replace("-", "_"))
    each = value if value.isdecimal() and len(value) < 9 and int(value) else "8"
    return f"\n  next: {replacement.format(each)}" if replacement else ""
