"""Jobs in an order, each on a type with enough free GPUs."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray


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
    kind, free = np.full(width.size, -1, np.int64), gpus.tolist()
    least, left = int(width.min(initial=1)), int(gpus.sum())
    ranked = np.argsort(-rate, axis=1, kind="stable")
    for job in order.tolist():
        if left < least:
            break
        wide = int(width[job])
        kept = -1 if keeps is None else int(keeps[job])
        for i in ranked[job].tolist() if kept < 0 else (kept,):
            if rate[job, i] > 0 and free[i] >= wide:
                kind[job] = i
                free[i] -= wide
                left -= wide
                break
        else:
            if not skipping:
                break
    return kind
