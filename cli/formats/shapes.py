"""How values change over time, as rows of bars in tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.planner.runs.panels import TimeLines

BARS = "▁▂▃▄▅▆▇█"
CHARS = 32  # of a time line
SHAPE = Column("shape", "shape")
"""The column of bars; left out where the encoding of a terminal lacks them."""

Row = tuple[str, str, str, str]
"""Name, bars, minimum and maximum."""


def sparkline(values: Sequence[float]) -> str:
    """Return a row of bars, one per value >= 0, the tallest for the largest."""
    most = max(values)
    return "".join(BARS[round(value / most * (len(BARS) - 1)) if most else 0] for value in values)


def shapes_table(title: str, rows: Sequence[Row]) -> Table:
    """Return a table of rows of bars."""
    named = [Column(name, name) for name in ("what", "least", "most")]
    return Table(title, (named[0], SHAPE, *named[1:]), rows)


def timeline_row(
    what: str, values: Sequence[float], show: Callable[[float], str] = show_number
) -> Row:
    """Return the row of a time line: values over equal periods; the last may be shorter."""
    each = -(-len(values) // CHARS)
    parts = [values[i : i + each] for i in range(0, len(values), each)]
    line = sparkline([sum(part) / len(part) for part in parts])
    return (what, line, show(min(values)), show(max(values)))


def replay_shapes(lines: TimeLines) -> Iterator[Table]:
    """Yield the table of a replay over time: GPUs and jobs waiting; none where no time passes."""
    import numpy as np

    from gpuplan.simkit.steps import mean_and_peak

    time_us = lines.time_us
    if time_us.size < 2 or time_us[-1] <= time_us[0]:
        return
    edges = np.linspace(time_us[0], time_us[-1], CHARS + 1)
    rows = [
        timeline_row(
            name,
            mean_and_peak(time_us, np.asarray(values, np.float64), edges)[0].tolist(),
            show_duration if unit == "s" else show_number,
        )
        for name, unit, values in lines.rows
        if np.any(values)
    ]
    each = show_duration((edges[1] - edges[0]) / 1e6)
    if rows:
        yield shapes_table(f"Over time, means of each {each}", rows)
