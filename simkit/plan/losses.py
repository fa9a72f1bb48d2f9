"""When gangs on spot GPUs are lost: a seeded list for each, the same whatever the others do."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel

MASK = (1 << 32) - 1
STRIDE = 0x9E3779B9
MIX = 0x45D9F3B


def draw_losses(
    gang: IntArray, begin_us: IntArray, until_us: IntArray, mean_us: FloatArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the losses of gangs, a Poisson process for each.

    A gang has the same draws whichever others there are; twice the hazard brings each loss to half
    its distance.

    Args:
        gang: its number, which with the seed says what is drawn; shape (n,).
        begin_us, until_us: from when to when losses are drawn.
        mean_us: mean time between two; infinite for none.
        seed: of the draws.

    Returns:
        Instants, ascending for each gang, one gang after another, and where those of each begin;
        shape (n + 1,).
    """
    seed &= MASK  # all that a draw mixes of it
    first = np.zeros(gang.size + 1, np.int64)
    nothing = np.zeros(0, np.int64)
    _losses(gang, begin_us, until_us, mean_us, seed, first, nothing)
    np.cumsum(first, out=first)
    loss_us = np.zeros(int(first[-1]), np.int64)
    _losses(gang, begin_us, until_us, mean_us, seed, first, loss_us)
    return loss_us, first


@borrowing_helper
def _mixed(number: int) -> int:
    """Return 32 bits that look random; each bit of the number changes about half of them."""
    number = number & MASK
    number = ((number ^ (number >> 16)) * MIX) & MASK
    number = ((number ^ (number >> 16)) * MIX) & MASK
    return number ^ (number >> 16)


@borrowing_kernel
def _losses(gang: Any, begin: Any, until: Any, mean: Any, seed: int, first: Any, loss: Any) -> None:
    """Write the losses, or without a place for them only how many each gang has."""
    counting = loss.size == 0
    key = _mixed(seed + STRIDE)
    for row in range(gang.size):
        if mean[row] == np.inf:
            continue
        stream = _mixed(key ^ _mixed(gang[row] + 1))
        lasting = float(until[row] - begin[row])
        after = 0.0
        count = 0
        while True:
            uniform = (_mixed(stream + (count + 1) * STRIDE) + 0.5) / (MASK + 1)
            after -= np.log(uniform) * mean[row]
            if after >= lasting:
                break
            if not counting:
                loss[first[row] + count] = begin[row] + int(after)
            count += 1
        if counting:
            first[row + 1] = count
