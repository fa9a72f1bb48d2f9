"""How far a long replay is, and how long the rest may take."""

from __future__ import annotations

import logging
import time

LOG = logging.getLogger("gpuplan")
SAY_S = 20.0
"""Time between two lines on how far a replay is."""


class ReplayPace:
    """Says every `SAY_S` how far something is that began when this was made."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.said = 0.0

    def say(self, done: int, total: int, what: str) -> None:
        """Say on stderr that so many of all are done, unless something was said a moment ago."""
        spent = time.monotonic() - self.begun
        if spent - self.said < SAY_S or not done:
            return
        self.said = spent
        LOG.info(
            "%s of %s %s after %.0f s, about %.0f s left",
            *(f"{done:,}", f"{total:,}", what, spent, spent * (total / done - 1)),
        )
