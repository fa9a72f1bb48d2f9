"""How long users let a job wait before they cancel it, from those of a log that were cancelled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray

LEAST_GIVEN_UP = 10
"""Jobs given up of which a band of waits has at least so many."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The rate at which waiting jobs are given up, constant within bands of the wait.

    Attributes:
        begin_s: where each band begins, ascending from 0; the last one has no end; shape (k,).
        rate: jobs given up per second of waiting in each band, above 0; shape (k,).
        given_up: jobs of the log that the rates come from.
    """

    begin_s: FloatArray
    rate: FloatArray
    given_up: int

    def waits_s(self, waited_s: FloatArray, draw: FloatArray) -> FloatArray:
        """Return the waits after which jobs are given up that have waited so long already.

        Args:
            waited_s: wait that each job is known to have had patience for; shape (n,).
            draw: from the exponential distribution of mean 1; shape (n,).
        """
        spent = np.concatenate([[0.0], np.cumsum(np.diff(self.begin_s) * self.rate[:-1])])
        band = np.searchsorted(self.begin_s, waited_s, side="right") - 1
        total = spent[band] + (waited_s - self.begin_s[band]) * self.rate[band] + draw
        band = np.searchsorted(spent, total, side="right") - 1
        waits: FloatArray = self.begin_s[band] + (total - spent[band]) / self.rate[band]
        return waits


def patience_of(work: SiteWorkload) -> Patience | None:
    """Return the patience of a log's users; None where too few jobs were given up to tell.

    A rate is the jobs given up over the time waited: by them, and by the jobs that started. Beyond
    the longest wait that ended so it is half a job over the time waited there, or less: a log whose
    longest waits nobody gave up has no such users.
    """
    counts = (work.recorded_start >= 0) | work.gave_up
    counts &= work.jobs.submit >= work.warmup_until
    gave_up = work.gave_up[counts]
    if gave_up.sum() < LEAST_GIVEN_UP:
        return None
    left = np.where(work.gave_up, work.jobs.cancel - work.jobs.ready, work.recorded_wait)[counts]
    waits = np.sort(left[gave_up]).astype(np.float64)
    inner = waits[LEAST_GIVEN_UP : waits.size - LEAST_GIVEN_UP + 1 : LEAST_GIVEN_UP]
    begin = np.unique(np.concatenate([[0.0], inner, [waits[-1] + 1.0]]))
    waited = np.clip(left[:, None], begin, np.append(begin[1:], np.inf)).sum(axis=0)
    waited = np.maximum(waited - begin * left.size, 1.0)
    rate = np.histogram(waits, np.append(begin, np.inf))[0] / waited
    rate[-1] = min(rate[-2], 0.5 / waited[-1])
    return Patience(begin, rate, int(gave_up.sum()))
