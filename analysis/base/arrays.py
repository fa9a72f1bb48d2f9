"""Array types by the type of their elements, and what arrays of integers are asked."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
CountArray: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]


def distinct(values: IntArray) -> IntArray:
    """Return the values that occur, ascending: what `numpy.unique` hashes, 100 times as slowly."""
    ascending: IntArray = np.sort(values, axis=None)
    firsts = np.append(True, ascending[1:] != ascending[:-1])[: ascending.size]
    values = ascending[firsts]
    return values
