"""Write labels beside points so that none covers a point or another label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from gpuplan.cli.figures.style import INK, SOFT

PLACES = tuple(
    (x, y, align)
    for reach in (10, 16, 24, 34)
    for x, y, align in (
        (reach, 0, "left"),
        (-reach, 0, "right"),
        (0, reach + 2, "center"),
        (0, -reach - 2, "center"),
        (reach, reach, "left"),
        (reach, -reach, "left"),
        (-reach, reach, "right"),
        (-reach, -reach, "right"),
        (2 * reach, reach + 2, "center"),
        (-2 * reach, -reach - 2, "center"),
    )
)
"""Offsets in points to try, nearest first, with the alignment that keeps text off the point."""
POINT_RADIUS = 7.0
NEAR = 11  # points; a label farther off gets a line to its point


def place_labels(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    colours: Sequence[str],
    line: Sequence[tuple[float, float]] = (),
) -> None:
    """Label points in order, each at the first place that is free, or the least crowded one.

    Args:
        axes: with its final limits; an empty text keeps its point clear but writes nothing.
        points: data coordinates, one per text.
        texts: the labels.
        colours: of the labels.
        line: vertices of a line that labels should not cross; one that is NaN breaks it.
    """
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()  # settles the layout, so that pixels are what they will be
    scale = figure.dpi / 72
    inside = axes.get_window_extent()
    taken = [_around(at, POINT_RADIUS * scale) for at in axes.transData.transform(points)]
    if len(line) > 1:
        for start, end in pairwise(axes.transData.transform(line)):
            if np.isnan([*start, *end]).any():
                continue
            dots = max(2, int(np.hypot(*(end - start)) / (2 * scale)))
            taken += [_around(at, scale) for at in np.linspace(start, end, dots)]
    points_at = axes.transData.transform(points)
    for place, (at, text, colour) in enumerate(zip(points, texts, colours, strict=True)):
        if not text:
            continue
        label = axes.annotate(
            text,
            at,
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=9,
            color=colour,
            zorder=7,
            in_layout=False,  # a label must not move what it labels
            parse_math=False,  # dollars are dollars
        )
        best: tuple[float, int, Bbox] | None = None
        for order, (x, y, align) in enumerate(PLACES):
            label.set(ha=align, va="center")
            label.set_position((x, y))
            box = label.get_window_extent()
            crowd = sum(_overlap(box, other) for other in taken)
            outside = box.width * box.height - _overlap(box, inside)
            if best is None or (crowd + outside, order) < best[:2]:
                best = (crowd + outside, order, box)
            if crowd + outside == 0:
                break
        assert best is not None
        x, y, align = PLACES[best[1]]
        label.set(ha=align, va="center")
        label.set_position((x, y))
        taken.append(best[2])
        if _distance(best[2], points_at[place]) > NEAR * scale:
            thin = {
                "arrowstyle": "-",
                "color": SOFT if colour == INK else colour,
                "linewidth": 0.8,
                "shrinkA": 2,
                "shrinkB": 5,
            }
            edge = (x, y - 6 * np.sign(y))  # of the text, on the side of the point
            axes.annotate(
                "", at, xytext=edge, textcoords="offset points", arrowprops=thin, in_layout=False
            )


def _distance(box: Bbox, at: NDArray[np.float64]) -> float:
    """Return how far a box is from a point; 0 within."""
    gap = np.maximum(np.maximum(box.min - at, at - box.max), 0.0)
    return float(np.hypot(*gap))


def _around(centre: NDArray[np.float64], reach: float) -> Bbox:
    return Bbox(np.array([centre - reach, centre + reach]))


def _overlap(one: Bbox, other: Bbox) -> float:
    shared = Bbox.intersection(one, other)
    return 0.0 if shared is None else float(shared.width * shared.height)
