"""The Gittins index of jobs of unknown size, from the sizes of a whole trace.

Source: Gittins, "Bandit processes and dynamic allocation indices", J. R. Stat. Soc. B, 1979; for
queues Aalto, Ayesta and Righter, "On the Gittins index in the M/G/1 queue", 2009; with GPU time as
size Gu et al., "Tiresias", NSDI 2019.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import IntArray


def gittins_levels(sizes: IntArray, levels: int) -> tuple[IntArray, IntArray]:
    """Return limits of attained service, and the rank of the index on each level between them.

    A job that has attained ``a`` has the index

        max over b > a of  P(size <= b | size > a) / E[min(size, b) - a | size > a],

    the best chance to end per service unit. Both ``a`` and ``b`` are 0 or a limit; the limits are
    sizes, about evenly spaced by their logarithms from the lower quartile to the greatest.

    Args:
        sizes: of all jobs; shape (n,), >= 0.
        levels: most limits.

    Returns:
        Limits, ascending from above 0, shape (m,), m <= levels, the last the greatest size; and
        ranks, shape (m + 1,), the highest index 0; nothing attains the last level.
    """
    ordered = np.sort(sizes)
    if ordered[-1] == 0:
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    spaced = np.geomspace(max(ordered[ordered.size // 4], 1), ordered[-1], levels)
    above = np.searchsorted(ordered, spaced * (1 - 1e-9))  # not above all sizes
    limits = np.unique(ordered[above])
    edges = np.concatenate(([0], limits))
    ended = np.searchsorted(ordered, edges, side="right")
    total = np.concatenate(([0.0], np.cumsum(ordered.astype(np.float64))))
    index = np.zeros(edges.size)
    for i in range(edges.size - 1):
        later = slice(i + 1, None)
        ends = ended[later] - ended[i]
        # The service of the jobs beyond a if each is served up to b.
        within = total[ended[later]] - total[ended[i]] - ends * float(edges[i])
        beyond = (ordered.size - ended[later]) * (edges[later] - edges[i]).astype(np.float64)
        index[i] = (ends / (within + beyond)).max()
    return limits, np.unique(-index, return_inverse=True)[1].astype(np.int64)
