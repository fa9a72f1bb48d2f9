"""Groups of bins with one row each, split until the program over groups is exact.

Source: Song and Luedtke, "An adaptive partition-based approach for solving two-stage stochastic
programs with fixed recourse", SIAM Journal on Optimization 25(3), 2015. Bins matter only by the
side of the committed GPUs on which they are: where a group has none on both sides, the mean of the
GPUs above the commitment is that of its bins. Deferred work couples bins in time, so there groups
are of bins that follow each other, and the work of a group may run anywhere in it: the value is a
lower bound until no group has bins on both sides once its work runs when it can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

FIRST_GROUPS = 8
FIRST_IN_A_ROW = 64


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
        if self.is_in_a_row:
            sums = np.add.reduceat(values * each, self.firsts, axis=1)
        else:
            order = np.argsort(self.group, kind="stable")
            first = np.searchsorted(self.group[order], np.arange(self.count))
            sums = np.add.reduceat(values[:, order] * each[order], first, axis=1)
        result: FloatArray = sums / total
        return result

    def weights(self, weights: FloatArray) -> FloatArray:
        """Return the weight of each group."""
        total: FloatArray = np.bincount(self.group, weights, self.count).astype(np.float64)
        return total

    @property
    def sizes(self) -> IntArray:
        """Return how many bins each group has."""
        return np.bincount(self.group, minlength=self.count)

    @property
    def firsts(self) -> IntArray:
        """Return the first bin of each group."""
        first = np.zeros(self.count, np.int64)
        first[self.group[::-1]] = np.arange(self.group.size)[::-1]
        return first

    @property
    def is_in_a_row(self) -> bool:
        """Whether groups are of bins that follow each other, in the order of time."""
        return bool((np.diff(self.group) >= 0).all())

    @property
    def last(self) -> IntArray:
        """Return the last bin of each group, of groups in a row."""
        return np.cumsum(self.sizes) - 1

    def cut(self, begins: BoolArray) -> BinGroups:
        """Return groups in a row, cut where one more begins too; the groups themselves if none."""
        cut = begins | (np.diff(self.group, prepend=-1) > 0)
        count = int(cut.sum())
        return self if count == self.count else BinGroups(np.cumsum(cut) - 1, count)

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


def groups_in_a_row(bins: int, count: int) -> BinGroups:
    """Return groups of equally many bins that follow each other."""
    count = min(count, bins)
    return BinGroups(np.arange(bins) * count // bins, count)


def turns(above: BoolArray, below: BoolArray, groups: BinGroups) -> BoolArray:
    """Return where bins change sides within groups in a row; a bin on neither side makes none."""
    bins = np.arange(groups.group.size)
    side = above.astype(np.int64) - below
    latest = np.maximum.accumulate(np.where(side != 0, bins, 0))
    side = side[latest]
    changes = np.diff(side, prepend=side[:1]) != 0
    before = np.append(0, latest[:-1])
    inside: BoolArray = changes & (groups.group[before] == groups.group) & (side != 0)
    return inside


def around(begins: BoolArray, reach: int) -> BoolArray:
    """Return the bins that are at most so many bins away from one that begins a group."""
    near: BoolArray = np.convolve(begins, np.ones(2 * reach + 1)) > 0
    return near[reach : reach + begins.size]


def single_bins(bins: int) -> BinGroups:
    """Return groups of one bin each."""
    return BinGroups(np.arange(bins), bins)
