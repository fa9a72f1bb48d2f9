"""What the entry point and the application know of signals; it imports nothing."""

from __future__ import annotations

INTERRUPTED = 130
stopped: list[int] = []
"""The signals that have come so far."""


class State:
    """Whether a command runs, which can be left in order."""

    running = False
