"""Groups of bins with one row each, split until the program over groups is exact.

Source: Song and Luedtke, "An adaptive partition-based approach for solving two-stage stochastic
programs with fixed recourse", SIAM Journal on Optimization 25(3), 2015. Bins matter only by the
side of the committed GPUs on which they are: where a group has none on both sides, the mean of the
GPUs above the commitment is that of its bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

FIRST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class BinGroups:
    """The groups of the bins of one GPU type.

    Attributes:
        group: of each bin, from 0; shape (bins,).
        count: how many there are.
    """

    group: IntArray
    count: int

    def means(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the weighted means per group; shape (rows, count) of values of (rows, bins).

        A group of no weight takes the plain mean of its bins.
        """
        total = self.weights(weights)
        each = np.where(total[self.group] > 0, weights, 1.0)
        total = np.where(total > 0, total, np.bincount(self.group, minlength=self.count))
        order = np.argsort(self.group, kind="stable")
        first = np.searchsorted(self.group[order], np.arange(self.count))
        sums = np.add.reduceat(values[:, order] * each[order], first, axis=1)
        result: FloatArray = sums / total
        return result

    def weights(self, weights: FloatArray) -> FloatArray:
        """Return the weight of each group."""
        total: FloatArray = np.bincount(self.group, weights, self.count).astype(np.float64)
        return total

    def split(self, above: BoolArray, below: BoolArray) -> BinGroups:
        """Return the groups, those with bins above and below something split in two.

        Returns the groups themselves where there is no such group.
        """
        has_above, has_below = (
            np.bincount(self.group, side, minlength=self.count) > 0 for side in (above, below)
        )
        both = has_above & has_below
        if not both.any():
            return self
        new = self.count - 1 + np.cumsum(both)
        moves = above & both[self.group]
        return BinGroups(np.where(moves, new[self.group], self.group), self.count + int(both.sum()))


def first_groups(load: FloatArray) -> BinGroups:
    """Return groups of equally many bins, by their load."""
    count = min(FIRST_GROUPS, load.size)
    group = np.empty(load.size, np.int64)
    group[np.argsort(load, kind="stable")] = np.arange(load.size) * count // load.size
    return BinGroups(group, count)


def single_bins(bins: int) -> BinGroups:
    """Return groups of one bin each."""
    return BinGroups(np.arange(bins), bins)
