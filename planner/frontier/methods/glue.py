"""Glue configurations: how the epochs of a class are joined into stretches of one width.

Source: BOA, section 4.3, "Epoch Gluing". A configuration lists the first epoch of each stretch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from gpuplan.simkit.arrays import FloatArray

Glue = tuple[int, ...]


def all_glues(epochs: int) -> Iterator[Glue]:
    """Yield every configuration of some epochs, 2 ** (epochs - 1) of them, the coarsest first."""
    for cuts in range(epochs):
        for inner in combinations(range(1, epochs), cuts):
            yield (0, *inner)


def glue_chain(work_h: FloatArray, speedup: FloatArray) -> list[Glue]:
    """Return one configuration of each number of stretches, the coarsest first.

    Neighbors are joined one pair at a time, the most similar first: the pair whose joining adds
    least to the variance of log-speedup within stretches, weighted by work (Ward, 1963).

    Args:
        work_h: work of each epoch; shape (J,).
        speedup: s of each epoch at each width; shape (J, V).
    """
    first = list(range(work_h.size))
    weight = work_h.copy()
    mean = np.log(speedup)
    chain = [tuple(first)]
    while len(first) > 1:
        both = weight[:-1] + weight[1:]
        safe = np.where(both > 0, both, 1.0)
        loss = weight[:-1] * weight[1:] / safe * ((mean[1:] - mean[:-1]) ** 2).sum(axis=1)
        at = int(np.argmin(loss))
        if weight[at + 1] > 0:
            mean[at] = (weight[at] * mean[at] + weight[at + 1] * mean[at + 1]) / both[at]
        weight[at] = both[at]
        weight, mean = np.delete(weight, at + 1), np.delete(mean, at + 1, axis=0)
        del first[at + 1]
        chain.append(tuple(first))
    return chain[::-1]
