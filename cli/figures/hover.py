"""The values behind a drawn figure, where the pointer finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.ticker import FixedFormatter

SPOTS = 40  # of one curve; a pointer cannot tell more apart
POINTS_PER_IN = 72.0


class Spot(NamedTuple):
    """A place in a figure, in points from its upper left corner, and what is there."""

    x: float
    y: float
    text: str


def spots_of(figure: Figure) -> list[Spot]:
    """Return the values of every curve, point and bar of a figure that has been drawn."""
    return [spot for axes in figure.axes for spot in _spots(figure, axes)]


def _spots(figure: Figure, axes: Axes) -> Iterator[Spot]:
    to_page = axes.transData + figure.transFigure.inverted()
    width, height = figure.get_size_inches() * POINTS_PER_IN
    seen = set()
    for name, x, y in _values(axes):
        across, up = to_page.transform((x, y))
        place = (round(float(across * width), 1), round(float((1 - up) * height), 1))
        if place not in seen:
            seen.add(place)
            yield Spot(*place, _text(axes, name, x, y))


def _values(axes: Axes) -> Iterator[tuple[str, float, float]]:
    """Yield name and data of what is drawn, the last drawn first: it lies on top."""
    for line in sorted(axes.lines, key=lambda line: -line.get_zorder()):
        if line.get_transform() == axes.transData:
            yield from ((_name(line), x, y) for x, y in _seen(axes, *_data(line)))
    for patch in axes.patches:
        if isinstance(patch, StepPatch) and patch.get_fill():
            values, edges, _ = patch.get_data()
            middles = (edges[:-1] + edges[1:]) / 2
            yield from (("", x, y) for x, y in _seen(axes, middles, values))
        elif isinstance(patch, Rectangle):
            box = patch.get_bbox()
            if box.width > box.height or not _is_upright(axes):
                yield "", box.x1, (box.y0 + box.y1) / 2
            else:
                yield "", (box.x0 + box.x1) / 2, box.y1


def _is_upright(axes: Axes) -> bool:
    """Return whether bars stand, and so are named along the x axis."""
    return not isinstance(axes.yaxis.get_major_formatter(), FixedFormatter)


def _data(line: Line2D) -> tuple[Any, Any]:
    return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)


def _seen(axes: Axes, x: Any, y: Any) -> Iterator[tuple[float, float]]:
    """Yield the points within the axes, of many only some."""
    (low, high), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    within = np.flatnonzero((x >= low) & (x <= high) & (y >= bottom) & (y <= top))
    if within.size > SPOTS:
        within = within[np.linspace(0, within.size - 1, SPOTS).round().astype(int)]
    return zip(x[within].tolist(), y[within].tolist(), strict=True)


def _name(line: Line2D) -> str:
    label = str(line.get_label())
    return "" if label.startswith("_") else label


def _text(axes: Axes, name: str, x: float, y: float) -> str:
    across = _shown(axes.xaxis, axes.fmt_xdata, x)
    up = _shown(axes.yaxis, axes.fmt_ydata, y)
    lines = [name, _said(axes.get_xlabel(), across), _said(axes.get_ylabel(), up)]
    return "\n".join(line for line in lines if line)


def _said(label: str, value: str) -> str:
    return f"{label}: {value}" if label and value else value


def _shown(axis: Axis, show: Any, value: float) -> str:
    """Return a value as the axes would say it."""
    formatter = axis.get_major_formatter()
    if show is not None:
        text = show(value)
    elif isinstance(formatter, FixedFormatter):  # names instead of numbers
        names = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
        text = next((name.get_text() for at, name in names if abs(at - value) < 1e-9), "")
    else:
        text = formatter.format_data_short(value)
    return str(text).strip()
