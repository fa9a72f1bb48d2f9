"""Jobs in an order, each on a type with enough free GPUs."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.rounds.hosts import take_fastest


def fastest_free(
    order: IntArray,
    rate: FloatArray,
    width: IntArray,
    gpus: IntArray,
    *,
    keeps: IntArray | None = None,
    skipping: bool = True,
) -> IntArray:
    """Return the type of each job, -1 to wait: the fastest that has enough free GPUs.

    Args:
        order: the jobs, best first.
        rate: work per round of each job on each type; shape (m, T).
        width: GPUs of each job.
        gpus: of each type.
        keeps: types that jobs stay on if they run, -1 for any.
        skipping: whether jobs may pass one that does not fit.
    """
    none = np.full(width.size, -1, np.int64)
    found: IntArray = take_fastest(
        order, rate, width, gpus, none if keeps is None else keeps, skipping
    )
    return found
