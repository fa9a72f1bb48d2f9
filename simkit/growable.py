"""Tables of a kernel that grow as it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel


@kernel
def grown(table: Any) -> Any:
    """Return a table of twice as many rows that begins with ``table``."""
    rows, columns = table.shape
    more = np.zeros((2 * rows, columns), table.dtype)
    for row in range(rows):  # as in `push`: quicker to compile than a slice
        for column in range(columns):
            more[row, column] = table[row, column]
    return more
