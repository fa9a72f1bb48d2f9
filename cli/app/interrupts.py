"""State of signals shared by the entry point and the application; it imports nothing."""

from __future__ import annotations

INTERRUPTED = 130
stopped: list[int] = []
"""The signals that have come so far."""


class State:
    """Whether a command is running, which can be stopped in an orderly way."""

    running = False
