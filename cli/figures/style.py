"""One look for every picture: quiet axes, direct labels, colours safe for colour-blind readers.

Colours are those of Okabe and Ito (2008) and, for policies of one cluster, some of Tol (2021).
Pictures have a paper and an ink colour of their own, so
that an SVG can swap both where the reader prefers a dark page, and brightens its colours there; PNG
keeps the paper white for print. Colored text has a darker shade of the color, see `on_paper`.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from bisect import bisect
from collections.abc import Iterator
from colorsys import hls_to_rgb, rgb_to_hls
from contextlib import contextmanager
from html import escape, unescape
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal
from unicodedata import east_asian_width

os.environ["MPLBACKEND"] = "agg"  # a notebook's own would be loaded, and may not be there

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FuncFormatter, MaxNLocator

from gpuplan.cli.formats.escape import picture
from gpuplan.cli.formats.units import show_usd, tick_usd

matplotlib.rcParams["text.parse_math"] = False  # a name may hold $, which begins no formula

WIDEST_WORD = 40
"""Cells of a terminal that a word of a picture may have: names come from logs."""
TEXT_NODE = re.compile(r">([^<]+)<(?=/text)")
LONG_WORD = re.compile(rf"\S{{{WIDEST_WORD // 2},}}")

DPI = 150
"""Dots per inch of a PNG."""
INK = "#24292f"
SOFT = "#8c959f"
PAPER = "#fefefe"
COLOURS = {
    "blue": "#0072b2",
    "orange": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "yellow": "#e69f00",
    "sky": "#56b4e9",
    "wine": "#882255",
    "indigo": "#332288",
    "olive": "#999933",
    "brown": "#8c564b",
    "crimson": "#dd0044",
    "violet": "#9900e6",
    "forest": "#006400",
}
CYCLE = tuple(COLOURS.values())
READABLE = 4.6
"""Contrast of text, and of everything on a dark page; WCAG 2 asks for 4.5."""
DARK_PAPER, DARK_PANEL = "#0d1117", "#161b22"


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours by WCAG 2: 1 to 21."""
    low, high = sorted(map(_luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _shade(colour: str, page: str, step: float) -> str:
    """Return the colour, made lighter or darker in steps until it can be read on a page."""
    hue, lightness, saturation = rgb_to_hls(*to_rgb(colour))
    while contrast(colour, page) < READABLE:
        lightness += step
        colour = to_hex(hls_to_rgb(hue, lightness, saturation))
    return colour


TEXT = {colour: _shade(colour, PAPER, -0.01) for colour in (SOFT, *CYCLE)}
"""Colour of a line or an area -> that of text about it."""
DARK = {
    PAPER: DARK_PAPER,
    "#ffffff": DARK_PAPER,
    INK: "#e6edf3",
    **{colour: _shade(colour, DARK_PAPER, 0.01) for colour in (SOFT, *CYCLE)},
}
"""Colour -> that on a dark page."""
TEXT_ON_DARK = {colour: _shade(DARK[colour], DARK_PANEL, 0.01) for colour in TEXT}
"""Colour -> that of text about it on a panel of a dark page, which is lighter than the page."""
DARK |= {text: DARK[colour] for colour, text in TEXT.items()}
DARK_CSS = (
    "<style>@media (prefers-color-scheme: dark) {"
    + "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    + "}</style>"
)


def on_paper(colour: str) -> str:
    """Return the colour for text about something drawn in ``colour``."""
    return TEXT.get(colour, colour)


SETTINGS: dict[Any, Any] = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "font.family": "sans-serif",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text: searchable, and read aloud
    "svg.hashsalt": "gpuplan",  # the same picture gives the same bytes
    "figure.autolayout": False,  # no layout but that of new_figure, whatever matplotlibrc says
    "figure.constrained_layout.use": False,
}

styled = matplotlib.rc_context(SETTINGS)
"""Decorates a function that draws: in it matplotlib has `SETTINGS`."""


def new_figure(
    panels: int = 1,
    *,
    width_in: float = 8.0,
    height_in: float = 4.5,
    rows: tuple[float, ...] = (1.0,),
    share_x: bool = False,
) -> Figure:
    """Return an empty figure of ``panels`` axes side by side, readable at 800 pixels.

    With several ``rows`` there are so many below each other, of these relative heights, with one
    x axis where they ``share_x``.

    The figure is not registered with pyplot, so it is not shown and not kept in memory.
    """
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasAgg(figure)  # keeps a renderer; without it each measurement makes a new one
        figure.subplots(len(rows), panels, height_ratios=rows, sharex=share_x)
    return figure


def light_grid(axes: Axes) -> None:
    """Draw quiet horizontal lines."""
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)


def dollar_axis(axes: Axes, name: Literal["x", "y"], ticks: int) -> None:
    """Mark an axis with about this many round amounts of dollars."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(tick_usd))
    setattr(axes, f"fmt_{name}data", show_usd)


def lay_out(figure: Figure) -> None:
    """Compute where everything is, so that it can be measured; that takes as long as drawing."""
    engine = figure.get_layout_engine()
    if engine is not None:
        _show_texts(figure)
        with matplotlib.rc_context(SETTINGS), _any_script():
            engine.execute(figure)


def _settle(figure: Figure) -> None:
    """Lay a figure out for good: matplotlib would do it anew, and draw twice, for each file."""
    lay_out(figure)
    with matplotlib.rc_context(SETTINGS):
        figure.set_layout_engine(None)


def save(figure: Figure, path: Path) -> None:
    """Write a figure to an ``.svg`` or ``.png`` file, byte for byte the same each time."""
    if path.suffix.lower() == ".svg":
        path.write_text(svg_of(figure), encoding="utf-8", newline="\n")
    else:
        path.write_bytes(png_of(figure))


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG that follows the reader's preference for dark pages."""
    buffer = io.BytesIO()
    _settle(figure)
    with matplotlib.rc_context(SETTINGS), _any_script():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "gpuplan"})
    text = "\n".join(map(picture, buffer.getvalue().decode().split("\n")))
    text = TEXT_NODE.sub(lambda node: f">{escape(_shown(unescape(node[1])), quote=False)}<", text)
    head, style, tail = text.partition(" <defs>")
    return f"{head}{DARK_CSS}\n{style}{tail}" if style else text


def png_of(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    _settle(figure)
    with matplotlib.rc_context(SETTINGS), _any_script():
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": "gpuplan"})
    return buffer.getvalue()


@contextmanager
def _any_script() -> Iterator[None]:
    """Silence the warnings of matplotlib about characters that its font lacks, as CJK and emoji.

    An SVG keeps them as text, which the reader's fonts show; a PNG has a box for each.
    """
    with warnings.catch_warnings():
        for message in (
            r"Glyph \d+",
            "Matplotlib currently does not support",
            "constrained_layout not applied",  # names leave no room: the figure is as it was
        ):
            warnings.filterwarnings("ignore", message, UserWarning)
        yield


def _show_texts(figure: Figure) -> None:
    """Take what cannot be shown out of every text of a figure: names come from logs."""
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text() != (shown := _shown(text.get_text())):
            text.set_text(shown)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_shown(str(name)) for name in formatter.seq]


def _shown(text: str) -> str:
    """Return a text for a picture, with its own line breaks; a long word is cut short."""
    return "\n".join(LONG_WORD.sub(_cut, picture(line)) for line in text.split("\n"))


def _cut(word: re.Match[str]) -> str:
    """Return as much of a word as fits; the letters of some scripts are twice as wide."""
    widths = [1 + (east_asian_width(letter) in "WF") for letter in word[0]]
    fit = bisect(list(accumulate(widths)), WIDEST_WORD)
    return word[0] if fit == len(widths) else f"{word[0][: fit - 1]}\u2026"
