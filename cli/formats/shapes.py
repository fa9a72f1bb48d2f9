"""How values change over time, as rows of bars in tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.planner.runs.panels import TimeLines

BARS = "▁▂▃▄▅▆▇█"
CHARS = 32  # of a time line
SHAPE = Column("shape", "shape")
"""The column of bars; left out where the encoding of a terminal lacks them."""

Row = tuple[str, str, str, str]
"""What it is, its bars, the least and the most."""


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
    """Return the row of a time line: values over equal stretches, the last one no longer."""
    each = -(-len(values) // CHARS)
    parts = [values[i : i + each] for i in range(0, len(values), each)]
    line = sparkline([sum(part) / len(part) for part in parts])
    return (what, line, show(min(values)), show(max(values)))


def replay_shapes(lines: TimeLines) -> Iterator[Table]:
    """Yield the table of a replay over time: GPUs and jobs waiting; none where no time passes."""
    import numpy as np

    time_us = lines.time_us
    if time_us.size < 2 or time_us[-1] <= time_us[0]:
        return
    edges = np.linspace(time_us[0], time_us[-1], CHARS + 1)
    rows = [
        timeline_row(
            name,
            _means(time_us, np.asarray(values, np.float64), edges),
            show_duration if unit == "s" else show_number,
        )
        for name, unit, values in lines.rows
        if np.any(values)
    ]
    each = show_duration((edges[1] - edges[0]) / 1e6)
    if rows:
        yield shapes_table(f"Over time, means of each {each}", rows)


def _means(time_us: Any, values: Any, edges: Any) -> list[float]:
    """Return the means of a step function between successive edges."""
    import numpy as np

    begin = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(time_us))))
    total = np.interp(edges, time_us, begin)
    means: list[float] = (np.diff(total) / np.diff(edges)).tolist()
    return means
