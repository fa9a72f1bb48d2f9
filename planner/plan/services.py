"""GPUs that services hold beside the jobs of a plan: a load that repeats until the log ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.plan.jobs import TimeBins
from gpuplan.simkit.arrays import FloatArray, IntArray

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """A step function that repeats.

    Attributes:
        time_s: when it changes, ascending from 0; shape (k,).
        gpus: held from then on; shape (k,).
        horizon_s: length of a period.
    """

    time_s: FloatArray
    gpus: FloatArray
    horizon_s: float

    def means(self, bins: TimeBins) -> FloatArray:
        """Return the exact mean per bin; the first bin begins with a period."""
        step_s = np.concatenate((self.time_s, [self.horizon_s]))
        area = np.concatenate(([0.0], np.cumsum(np.diff(step_s) * self.gpus)))
        periods, rest_s = np.divmod(bins.edges_s, self.horizon_s)
        before = np.interp(rest_s, step_s, area, left=0.0)
        result: FloatArray = np.diff(periods * area[-1] + before) / bins.bin_s
        return result

    def intervals(self, bins: TimeBins) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return begins, ends and GPUs whose sum in each bin is its mean, up to whole GPUs."""
        held = np.ceil(self.means(bins) - ROUNDING).astype(np.int64)
        begins, ends, gpus = [], [], []
        open_: list[tuple[int, int]] = []  # (first bin, GPUs), the latest last
        for at, (before, now) in enumerate(zip([0, *held], [*held, 0], strict=True)):
            if now > before:
                open_.append((at, int(now - before)))
            drop = int(before - now)
            while drop > 0:
                first, count = open_.pop()
                ended = min(count, drop)
                begins.append(first)
                ends.append(at)
                gpus.append(ended)
                drop -= ended
                if count > ended:
                    open_.append((first, count - ended))
        order = np.argsort(begins, kind="stable")
        begin, end = (np.array(bin_, np.float64)[order] * bins.bin_s for bin_ in (begins, ends))
        return begin, end, np.array(gpus, np.int64)[order]
