"""The values behind a drawn figure, where the pointer finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.ticker import FixedFormatter

SPOTS = 40  # of one curve; a pointer cannot select more
COLUMNS = 200  # of one step function; of more, several are one with the largest value
POINTS_PER_IN = 72.0
AUTOMATIC = re.compile(r"_(child|container)\d+|_nolegend_|")
LABEL = re.compile(r" \([^)]*:[^)]*\)|, logarithmic|, log scale")
"""Remarks on a label: ``GPUs (grey: too few)``."""
UNIT = re.compile(r"(?P<what>.*) \((?P<unit>[^)]*)\)")


Place = tuple[float, float]


class Spot(NamedTuple):
    """A place in a figure, in points from its upper left corner, and its text.

    A bar has a size, and the place is that of its upper left corner.
    """

    x: float
    y: float
    text: str
    width: float = 0.0
    height: float = 0.0


def spots_of(figure: Figure) -> list[Spot]:
    """Return the values of every curve, point and bar of a figure that has been drawn."""
    kinds = (_columns, _bars, _points)  # each lies on those before it
    return [spot for axes in figure.axes for kind in kinds for spot in kind(figure, axes)]


def _points(figure: Figure, axes: Axes) -> Iterator[Spot]:
    texts: dict[Place, tuple[str, str]] = {}
    for name, x, y in _values(axes):
        place = _on_page(figure, axes, x, y)
        if not texts.get(place, ("", ""))[0]:  # a name is better than none
            texts[place] = (name, _text(axes, name, x, y))
    yield from (Spot(*place, text) for place, (_, text) in texts.items())


def _values(axes: Axes) -> Iterator[tuple[str, float, float]]:
    """Yield name and data of all curves and bars, the topmost first."""
    for line in sorted(axes.lines, key=lambda line: -line.get_zorder()):
        if line.get_transform() == axes.transData:
            yield from ((_name(line), x, y) for x, y in _seen(axes, *_data(line)))


def _bars(figure: Figure, axes: Axes) -> Iterator[Spot]:
    """Yield the bars, also the parts of stacked ones, each with its own length."""
    for bars in (group for group in axes.containers if isinstance(group, BarContainer)):
        for bar in (patch for patch in bars.patches if patch.get_fill()):
            box = bar.get_bbox()
            if bars.orientation == "horizontal":
                text = _text(axes, _name(bars), box.width, (box.y0 + box.y1) / 2)
            else:
                text = _text(axes, _name(bars), (box.x0 + box.x1) / 2, box.height)
            yield _area(figure, axes, (box.x0, box.y0), (box.x1, box.y1), text)


def _columns(figure: Figure, axes: Axes) -> Iterator[Spot]:
    """Yield the steps of a filled step function, each as high as the axes."""
    low, high = axes.get_ylim()
    for patch in axes.patches:
        if isinstance(patch, StepPatch) and patch.get_fill():
            values, edges, _ = patch.get_data()
            every = -(-len(values) // COLUMNS)
            for begin in range(0, len(values), every):
                step = slice(begin, begin + every)
                left, right = edges[begin], edges[min(begin + every, len(values))]
                text = _text(axes, "", (left + right) / 2, float(np.max(values[step])))
                yield _area(figure, axes, (left, low), (right, high), text)


def _area(figure: Figure, axes: Axes, corner: Place, opposite: Place, text: str) -> Spot:
    """Return the rectangle between two corners."""
    left, top = _on_page(figure, axes, *corner)
    right, bottom = _on_page(figure, axes, *opposite)
    return Spot(
        min(left, right),
        min(top, bottom),
        text,
        round(abs(right - left), 1),
        round(abs(bottom - top), 1),
    )


def _on_page(figure: Figure, axes: Axes, x: float, y: float) -> Place:
    """Return where data is, in points from the upper left corner of the figure."""
    across, up = (axes.transData + figure.transFigure.inverted()).transform((x, y))
    width, height = figure.get_size_inches() * POINTS_PER_IN
    return round(float(across * width), 1), round(float((1 - up) * height), 1)


def _data(line: Line2D) -> tuple[Any, Any]:
    x, y = line.get_data(orig=False)  # dates as numbers
    return np.asarray(x, float), np.asarray(y, float)


def _seen(axes: Axes, x: Any, y: Any) -> Iterator[Place]:
    """Yield the points within the axes, of many only some."""
    (low, high), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    within = np.flatnonzero((x >= low) & (x <= high) & (y >= bottom) & (y <= top))
    if within.size > SPOTS:
        within = within[np.linspace(0, within.size - 1, SPOTS).round().astype(int)]
    return zip(x[within].tolist(), y[within].tolist(), strict=True)


def _name(drawn: Line2D | BarContainer) -> str:
    """Return a label; one that begins with ``_`` is in no legend, but is shown here."""
    label = str(drawn.get_label())
    return "" if AUTOMATIC.fullmatch(label) else label.removeprefix("_")


def _text(axes: Axes, name: str, x: float, y: float) -> str:
    across = _shown(axes.xaxis, axes.fmt_xdata, x)
    up = _shown(axes.yaxis, axes.fmt_ydata, y)
    lines = [name, _labelled(axes.get_xlabel(), across), _labelled(axes.get_ylabel(), up)]
    return "\n".join(line for line in lines if line)


def _labelled(label: str, value: str) -> str:
    """Return the quantity of an axis label without remarks, and its unit."""
    label, unit = LABEL.sub("", label), ""
    match = UNIT.fullmatch(label)
    if match is not None:
        label = match["what"]
        unit = "" if value.startswith("$") else f" {match['unit']}"
    return f"{label}: {value}{unit}" if label and value else value


def _shown(axis: Axis, show: Any, value: float) -> str:
    """Return a value as formatted by the axes."""
    formatter = axis.get_major_formatter()
    if show is not None:
        text = show(value)
    elif isinstance(formatter, FixedFormatter):  # names instead of numbers
        names = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
        text = next((name.get_text() for at, name in names if abs(at - value) < 1e-9), "")
    else:
        text = formatter.format_data_short(value)
    return str(text).strip()
