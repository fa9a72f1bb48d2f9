"""How far a long replay is, and how long the rest may take."""

from __future__ import annotations

import logging
import time

LOG = logging.getLogger("gpuplan")
SAY_S = 20.0
"""Time between two lines on how far a replay is."""


class ReplayPace:
    """Says every `SAY_S` how far a replay is, from its first call on: kernels are compiled then."""

    def __init__(self) -> None:
        self.begun = self.said = -1.0
        self.before = 0

    def say(self, done: int, total: int, what: str) -> None:
        """Say on stderr that so many of all are done, unless something was said a moment ago."""
        now = time.monotonic()
        if self.begun < 0:
            self.begun, self.said, self.before = now, now, done
        if now - self.said < SAY_S or done <= self.before:
            return
        self.said, spent = now, now - self.begun
        LOG.info(
            "%s of %s %s after %.0f s, about %.0f s left",
            *(f"{done:,}", f"{total:,}", what, spent),
            spent * (total - done) / (done - self.before),
        )
