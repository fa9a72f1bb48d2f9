"""Names of GPU types and classes that Slurm and Kubernetes take."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_CHARACTERS = 40
"""Of a name, so that words may be added: Kubernetes has at most 63."""


def plain_names(names: Iterable[str], empty: str) -> dict[str, str]:
    """Return each name with lower-case letters, digits and dashes alone; all differ.

    Args:
        names: each once.
        empty: for a name that has none of them.
    """
    taken: set[str] = set()
    plain: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MOST_CHARACTERS].strip("-")
        base = base or empty
        text, count = base, 2
        while text in taken:
            text, count = f"{base}-{count}", count + 1
        taken.add(text)
        plain[name] = text
    return plain
