"""Sets of small numbers as the bits of a word, for kernels."""

from __future__ import annotations

from gpuplan.simkit.jit import borrowing_helper

HALVES = (32, 16, 8, 4, 2, 1)


@borrowing_helper
def lowest_bit(bits: int) -> int:
    """Return the number of the lowest bit that is set, below 63; one must be."""
    number = 0
    for half in HALVES:
        if bits & ((1 << half) - 1) == 0:
            bits >>= half
            number += half
    return number
