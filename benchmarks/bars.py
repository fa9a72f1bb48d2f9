"""Which bars a row of the benchmarks misses."""

from __future__ import annotations

import operator
import re
from typing import Any

Row = dict[str, Any]
"""What a row of a table says: its work, its bar, and what was measured."""
BAR = re.compile(r"(<=|>=|<) ([\d.e+-]+) ?(x|s|ms|MB)?")
HOLDS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}
MEASURED = {"x": "ratio", "s": "ours_s", "ms": "ours_s", "MB": "peak_mb", "": "difference"}


def missed(row: Row) -> list[str]:
    """Return the bars that the measurements of a row miss.

    A bar counts in its unit: x is of the ratio, s and ms of our time, MB of the peak, and none of
    the difference. Missing measurements miss no bar.
    """
    found = []
    for sign, number, unit in BAR.findall(row["bar"]):
        value = row.get(MEASURED[unit])
        if value is None:
            continue
        if not HOLDS[sign](1000 * value if unit == "ms" else value, float(number)):
            found.append(f"{sign} {number} {unit}".strip())
    return found
