"""Services that share GPUs: 3,200 placements, and the co-scaling of a scenario of 858 s.

The scenario needs the profiles of ../shared/data, and is left out without them.
"""

from __future__ import annotations

from benchmarks.bars import Row
from benchmarks.reproduce_dilu import (
    COSCALING_BAR_S,
    HORIZON_S,
    PLACEMENT_BAR_S,
    coscaling_s,
    end_to_end,
    placement_s,
)


def run() -> list[Row]:
    """Measure CPU time after a first run."""
    rows = [("placing 3,200 instances", placement_s(), PLACEMENT_BAR_S)]
    if (request := end_to_end()) is not None:
        rows.append((f"co-scaling of {HORIZON_S} s", coscaling_s(request), COSCALING_BAR_S))
    return [
        {"work": f"{work}, CPU", "ours_s": ours_s, "bar": f"<= {bar_s:g} s"}
        for work, ours_s, bar_s in rows
    ]
