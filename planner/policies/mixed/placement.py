"""Hosts of gangs of one GPU type: gangs stay where they are, and come together when GPUs are freed.

Gangs that paused get their old hosts where these are free, then the rest is placed. In both steps
data and tensor parallel gangs come before pipelines, wide ones first, then by id.

Source: FFT (Fast and Fair Training), placement.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray


def place(
    width: IntArray,
    before: IntArray,
    stays: BoolArray,
    was_here: BoolArray,
    *,
    each: int,
    is_pipeline: BoolArray,
    state_gb: FloatArray,
    consolidates: bool,
) -> IntArray:
    """Return GPUs on each host of the jobs that run on one type, in the order of their ids.

    Args:
        width: GPUs of each job; shape (m,).
        before: GPUs on each host of the type when it last ran; shape (m, H).
        stays: whether it ran on this type in the last round.
        was_here: whether it last ran on this type.
        each: GPUs of a host.
        is_pipeline, state_gb: of `RatedJobs`.
        consolidates: whether spread gangs move to fewer hosts where they can.
    """
    m, hosts = before.shape
    free = np.full(hosts, each, np.int64)
    found = np.zeros((m, hosts), np.int64)
    found[stays] = before[stays]
    free -= found.sum(axis=0)
    rank = np.lexsort((-width, is_pipeline))  # data and tensor first, then wide, then id
    new = []
    for j in rank[~stays[rank]].tolist():
        if was_here[j] and (before[j] <= free).all():
            found[j] = before[j]
            free -= before[j]
        else:
            new.append(j)
    for j in new:
        found[j] = _spread(int(width[j]), free)
        free -= found[j]
    if consolidates:
        needed = -(-width // each)
        loose = np.flatnonzero(((found > 0).sum(axis=1) > needed) & ~is_pipeline)
        for j in loose[np.argsort(state_gb[loose], kind="stable")].tolist():
            better = _spread(int(width[j]), free + found[j])
            if (better > 0).sum() < (found[j] > 0).sum():
                free += found[j] - better
                found[j] = better
    return found


def _spread(width: int, free: IntArray) -> IntArray:
    """Return a gang on the host that it fits best, else on the emptiest hosts first."""
    found = np.zeros(free.size, np.int64)
    fits = np.flatnonzero(free >= width)
    if fits.size:
        found[fits[np.argmin(free[fits])]] = width
        return found
    for host in np.argsort(-free, kind="stable").tolist():
        found[host] = min(width, int(free[host]))
        width -= int(found[host])
        if not width:
            break
    return found
