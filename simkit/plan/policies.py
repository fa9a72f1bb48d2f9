"""Which job of the queue of the pool starts first."""

from __future__ import annotations

FIRST_FIT, FIFO, SHORTEST = "first-fit", "fifo", "sjf"
QUEUE_POLICIES = (FIRST_FIT, FIFO, SHORTEST)
"""By submission, passing what does not fit, or passing nothing; or the shortest run time on the
pool first, passing what does not fit. None stops a running job.
"""
