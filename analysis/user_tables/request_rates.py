"""Read requests over time: one number per second, as in the Dilu artifact."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.reading.source import read_unpacked


def read_rates(path: Path) -> NDArray[np.float64]:
    """Return the requests of each second.

    Raises:
        InputError: no such file, no number, a negative one, or no row.
    """
    rates: list[float] = []
    lines = read_unpacked(path).decode("utf-8-sig", "replace").splitlines()
    for row, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < 1e9:
            found = f"found {shortened(text, 40)!r}"
            expected = "requests of that second, a number, at least 0"
            raise InputError(path, found, row=row, expected=expected)
        rates.append(value)
    if not rates:
        raise InputError(path, "has no rows", expected="requests per second, one number per line")
    return np.array(rates)
