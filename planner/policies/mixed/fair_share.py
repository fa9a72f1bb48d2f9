"""What a job would get from a dedicated share of a mixed cluster, and how fair its end is to that.

Source: FFT (Fast and Fair Training): finish-time fairness against a 1/N share.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray, for_kernels
from gpuplan.simkit.rounds.hosts import rounds_on_shares


def share_rates(rate: FloatArray, width: IntArray, gpus: IntArray, many: int) -> FloatArray:
    """Return the rate of each job on 1/``many`` of every GPU type.

    It spends a fraction of its time on each type, the fastest first: as much as the share has.

    Args:
        rate: work per round on each type; shape (m, T).
        width: GPUs of each job; shape (m,).
        gpus: of each type; shape (T,).
        many: jobs that share, >= 1.
    """
    order = np.argsort(-rate, axis=1, kind="stable")
    fast = np.take_along_axis(rate, order, axis=1)
    most = gpus[order] / (many * width[:, None])
    before = np.cumsum(np.where(fast > 0, most, 0.0), axis=1) - most
    part = np.clip(np.minimum(most, 1 - before), 0.0, None)
    found: FloatArray = (part * fast).sum(axis=1)
    return found


def ideal_rounds(
    work: FloatArray,
    rate: FloatArray,
    width: IntArray,
    gpus: IntArray,
    first: IntArray,
    rounds: tuple[IntArray, IntArray],
    last: IntArray,
) -> FloatArray:
    """Return the rounds that each job takes on a 1/N share of the cluster, N changing.

    Args:
        work, rate, width: of each job; shapes (n,), (n, T), (n,).
        gpus: of each type.
        first, last: the round that each could first run in, and the one in which it ended.
        rounds: the numbers of the rounds, and how many jobs were unfinished in each; shape (R,).
    """
    number, active = rounds[0], for_kernels(rounds[1])
    order = np.argsort(-rate, axis=1, kind="stable")
    fast = np.take_along_axis(rate, order, axis=1)
    begin = np.searchsorted(number, first)
    end = np.searchsorted(number, last, side="right")
    found: FloatArray = rounds_on_shares(work, fast, gpus[order], width, active, begin, end)
    return found
