"""Place labels next to points so that none covers a point or another label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from gpuplan.cli.figures.style import INK, SOFT, lay_out

PLACES = tuple(
    (x, y, align)
    for reach in (12, 18, 25, 34, 46, 60, 80, 110)
    for x, y, align in (
        (reach, 0, "left"),
        (-reach, 0, "right"),
        (0, reach + 4, "center"),
        (0, -reach - 4, "center"),
        (reach, reach, "left"),
        (reach, -reach, "left"),
        (-reach, reach, "right"),
        (-reach, -reach, "right"),
        (2 * reach, reach + 4, "center"),
        (-2 * reach, -reach - 4, "center"),
    )
)
"""Offsets in points to try, nearest first, with the alignment that keeps text off the point."""
POINT_RADIUS = 7.0
NEAR = 15.0  # points; a label farther off gets a line to its point
LEFT_OF = {"left": 0.0, "center": 0.5, "right": 1.0}
BETWEEN = (3.0, 0.0)  # points between two labels, across and up
STEP = 2.0  # points between two dots that keep a line clear of labels
ON_LINE = 10.0  # a label on a line or a label is as bad as this many times its area on a point
THROUGH = 100.0  # and a line through a label
FAR = 1.0  # weight of a pixel of such a line, in pixels of area

Array = NDArray[np.float64]
"""Points in pixels, shape (n, 2), or boxes, shape (n, 4): left, bottom, right, top."""


def place_labels(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    colours: Sequence[str],
    line: Sequence[tuple[float, float]] = (),
    *,
    needed: int | None = None,
    near: float = NEAR,
    is_laid_out: bool = False,
) -> None:
    """Label points in order, each at the first place that is free.

    A place is free if the label covers nothing, and the line from it to its point, if it needs one,
    crosses no other point and no label. Without a free place, a needed label is at the least
    crowded place, and another is left out.

    Args:
        axes: with its final limits; an empty text keeps its point clear but writes nothing.
        points: data coordinates, one per text.
        texts: the labels.
        colours: of the labels.
        line: vertices of a line that labels should not cross; one that is NaN breaks it.
        needed: how many of the first labels are written in any case; None for all. The others
            have no lines to their points, so they are written beside them only.
        near: points up to which a label needs no line to its point.
        is_laid_out: nothing but labels has changed since labels of another panel were placed.
    """
    figure = axes.figure
    assert isinstance(figure, Figure)
    if not is_laid_out:
        lay_out(figure)  # so that pixels are final
    scale = figure.dpi / 72
    vertices = axes.transData.transform(line) if len(line) > 1 else np.empty((0, 2))
    centres, inside = axes.transData.transform(points), axes.get_window_extent()
    occupied = _OccupiedPixels(centres, vertices, inside, scale, near)
    for place, (at, text, colour) in enumerate(zip(points, texts, colours, strict=True)):
        if not text:
            continue
        label = axes.annotate(
            text,
            at,
            xytext=(0, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
            zorder=7,
            in_layout=False,  # a label must not change the limits
            parse_math=False,  # dollars are dollars
        )
        size = label.get_window_extent().size + scale * np.array(BETWEEN)
        choice = occupied.find(place, size, is_adjacent=needed is not None and place >= needed)
        if choice is None:
            label.remove()
            continue
        x, y, align = PLACES[choice]
        label.set(ha=align)
        label.set_position((x, y))
        leader = occupied.take(place, size, choice)
        if leader is not None:
            thin = {
                "arrowstyle": "-",
                "color": SOFT if colour == INK else colour,
                "linewidth": 0.8,
                "shrinkA": 2,
                "shrinkB": 5,
            }
            axes.annotate(
                "",
                at,
                xytext=tuple(leader),
                textcoords="offset points",
                arrowprops=thin,
                in_layout=False,
            )


class _OccupiedPixels:
    """The pixels taken by points, lines and the labels placed so far."""

    def __init__(self, points: Array, line: Array, inside: Bbox, scale: float, near: float) -> None:
        self.points, self.scale, self.near = points, scale, near * scale
        self.marks = _around(points, POINT_RADIUS * scale)
        segments = [ends for ends in pairwise(line) if not np.isnan(ends).any()]
        self.lines = np.concatenate([np.empty((0, 4)), *(self._along(*ends) for ends in segments)])
        self.inside = np.array([inside.extents])
        self.written = np.empty((0, 4))

    def find(self, place: int, size: Array, *, is_adjacent: bool) -> int | None:
        """Return which of `PLACES` is free for a text, or else the least crowded.

        With ``is_adjacent`` a place must be free and next to the point, without a line.
        """
        best: tuple[float, int] | None = None
        for order in range(len(PLACES)):
            box = self._box(place, size, order)
            leader = self._leader(place, box)
            if is_adjacent and leader is not None:
                continue
            crowd = self._crowd(place, box, leader)
            if best is None or (crowd, order) < best:
                best = (crowd, order)
            if not crowd:
                break
        return None if best is None or (is_adjacent and best[0]) else best[1]

    def take(self, place: int, size: Array, order: int) -> Array | None:
        """Write a text; return where the line from its point ends, in points from it, or None."""
        box = self._box(place, size, order)
        leader = self._leader(place, box)
        self.written = np.concatenate([self.written, [box]])
        if leader is None:
            return None
        self.written = np.concatenate([self.written, self._along(self.points[place], leader)])
        return np.asarray((leader - self.points[place]) / self.scale)

    def _box(self, place: int, size: Array, order: int) -> Array:
        x, y, align = PLACES[order]
        anchor = self.points[place] + self.scale * np.array([x, y])
        low = anchor - size * np.array([LEFT_OF[align], 0.5])
        return np.concatenate([low, low + size])

    def _leader(self, place: int, box: Array) -> Array | None:
        """Return where a line from the point meets its label; None for a label next to its point.

        Such a label is near its point, and no other point is as near.
        """
        edges = np.clip(self.points, box[:2], box[2:])
        gaps = np.hypot(*(edges - self.points).T)
        is_adjacent = gaps[place] <= self.near and gaps[place] < gaps[
            self._other_places(place)
        ].min(initial=np.inf)
        return None if is_adjacent else np.asarray(edges[place])

    def _crowd(self, place: int, box: Array, leader: Array | None) -> float:
        """Return the area that a label and its line would cover or have outside, weighted."""
        area = float(np.prod(box[2:] - box[:2]))
        crowd = _overlap(box, self.marks) + area - _overlap(box, self.inside)
        crowd += ON_LINE * (_overlap(box, self.lines) + _overlap(box, self.written))
        if leader is not None:
            crowd += FAR * float(np.hypot(*(leader - self.points[place])))
            off = self._gaps(place, self.lines) > POINT_RADIUS * self.scale  # not its own line
            crossed = np.concatenate([self.marks[self._other_places(place)], self.lines[off]])
            dots = self._along(self.points[place], leader)
            crowd += _overlap(dots, crossed) + THROUGH * _overlap(dots, self.written)
        return crowd

    def _gaps(self, place: int, boxes: Array) -> Array:
        """Return the distances of a point from boxes."""
        at = self.points[place]
        gaps = np.maximum(np.maximum(boxes[:, :2] - at, at - boxes[:, 2:]), 0)
        return np.asarray(np.hypot(*gaps.T))

    def _other_places(self, place: int) -> NDArray[np.bool_]:
        """Return which points are not where this one is."""
        distance = np.abs(self.points - self.points[place]).max(axis=1)
        return np.asarray(distance > self.scale)

    def _along(self, start: Array, end: Array) -> Array:
        """Return small boxes along a line."""
        dots = max(2, int(np.hypot(*(end - start)) / (STEP * self.scale)))
        return _around(np.linspace(start, end, dots), self.scale)


def _around(centres: Array, reach: float) -> Array:
    return np.concatenate([centres - reach, centres + reach], axis=1)


def _overlap(boxes: Array, other_boxes: Array) -> float:
    """Return the area that a box, or each of several, shares with others, added up."""
    left, low, right, top = other_boxes.T
    boxes = boxes.reshape(-1, 4, 1)
    across = np.minimum(boxes[:, 2], right) - np.maximum(boxes[:, 0], left)
    up = np.minimum(boxes[:, 3], top) - np.maximum(boxes[:, 1], low)
    return float((np.maximum(across, 0) * np.maximum(up, 0)).sum())
