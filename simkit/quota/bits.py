"""Sets of small numbers as the bits of a word, for kernels."""

from __future__ import annotations

from typing import Any

import numba
from numba.cpython.unsafe.numbers import trailing_zeros


def _trailing_zeros(bits: int) -> int:
    return int(bits & -bits).bit_length() - 1


lowest_bit: Any = _trailing_zeros if numba.config.DISABLE_JIT else trailing_zeros
"""Return the number of the lowest bit of a word that is set; one must be. Only for kernels."""
