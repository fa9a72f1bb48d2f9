"""Figures for documents: as files, and as parts of a page with values under the pointer.

In a page all pictures share one name space of ids and one style sheet. So ids get a prefix, and
colours become variables of the page, which it sets for light and dark; text has variables of its
own, since it needs more contrast than a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.cli.formats.escape import html
from gpuplan.planner.requests.declaration import declaration_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.cli.figures.hover import Spot
    from gpuplan.cli.formats.report import Report


HOVER_RADIUS = 7  # points; as large as a pointer finds without aiming
LEAST_SCALE = 10 / 9
"""Pixels to a point on a narrow page: a picture is scrolled where it had smaller text than 9 px."""
ROOT = re.compile(r'<svg .*?viewBox="([^"]*)".*?>', re.DOTALL)
LEFT_OUT = re.compile(r" *<(metadata|style)\b.*?</\1>\n?", re.DOTALL)
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
COLOUR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")
TEXT = re.compile(r"<text .*?>", re.DOTALL)


def pictures_of(study: str, report: Report) -> Iterator[Picture]:
    """Draw the picture of a report, where it has one; it is called as the study."""
    if report.figure is None:
        return
    from gpuplan.cli.figures.hover import spots_of
    from gpuplan.cli.figures.style import png_of, svg_of

    figure = report.figure()
    svg = svg_of(figure)
    spots = spots_of(figure)  # where the drawing of the SVG has put everything
    study_of = declaration_of(report.command)
    title = report.title or (study_of.picture if study_of else "") or report.command
    description = " ".join(part for part in (*_panels(figure), report.headline) if part)
    yield Picture(
        name=study,
        title=title,
        description=description,
        svg=svg,
        inline=inline_svg(svg, study, title, description, spots),
        png=png_of(figure),
    )


def _panels(figure: Figure) -> Iterator[str]:
    """Say what each panel shows."""
    for axes in figure.axes:
        title = " ".join((axes.get_title(loc="left") or axes.get_title()).split())
        across, up = axes.get_xlabel(), axes.get_ylabel()
        if across and up:
            yield f"{title}: {up}, by {across}." if title else f"{up}, by {across}."


def inline_svg(svg: str, name: str, title: str, description: str, spots: list[Spot]) -> str:
    """Return a drawn SVG as an element of a page, with values under the pointer.

    Args:
        name: prefix of ids, different for each picture of the page.
        title: read aloud, with the description.
    """
    head = ROOT.search(svg)
    if head is None:
        raise ValueError(f"no SVG with a viewBox: {svg[:60]!r}")
    body = LEFT_OUT.sub("", svg[head.end() : svg.rindex("</svg>")]).replace("xlink:href", "href")
    body = _prefixed(body, f"{name}-")
    body = LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), body)
    body = TEXT.sub(lambda match: _themed(match[0], "text-"), body)
    body = _themed(body, "")
    body = re.sub(r"\n\s*", "\n", body).strip()
    values = "\n".join(map(_value, spots))
    least_px = LEAST_SCALE * float(head[1].split()[2])
    return (
        f'<svg role="img" viewBox="{head[1]}" style="--least-width: {least_px:.0f}px" '
        f'aria-labelledby="{name}-title {name}-desc">\n'
        f'<title id="{name}-title">{html(title)}</title>\n'
        f'<desc id="{name}-desc">{html(description)}</desc>\n'
        f'{body}\n<g class="values">\n{values}\n</g>\n</svg>'
    )


def _value(spot: Spot) -> str:
    """Return an element that nobody sees, and that has the value where the pointer is."""
    lines = "\n".join(map(html, spot.text.split("\n")))
    title = f"<title>{lines}</title>"
    if spot.width and spot.height:
        size = f'width="{spot.width:g}" height="{spot.height:g}"'
        return f'<rect x="{spot.x:g}" y="{spot.y:g}" {size}>{title}</rect>'
    return f'<circle cx="{spot.x:g}" cy="{spot.y:g}" r="{HOVER_RADIUS}">{title}</circle>'


def _prefixed(body: str, prefix: str) -> str:
    """Return the body with a prefix to every id that is referred to, and without the others."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{prefix}{match[1]}"' if match[1] in used else ""

    body = re.sub(r'\s+id="([^"]*)"', renamed, body)
    return re.sub(r'(href="#|url\(#)', lambda match: match[1] + prefix, body)


def _themed(text: str, kind: str) -> str:
    """Return text with the colours of our figures as variables of the page."""
    from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, TEXT

    names = {INK: "ink", SOFT: "soft", PAPER: "paper", "#ffffff": "paper"}
    names |= {colour: name for name, colour in COLOURS.items()}
    names |= {shade: names[colour] for colour, shade in TEXT.items()}

    def named(match: re.Match[str]) -> str:
        name = names.get(match[2])
        return match[0] if name is None else f"{match[1]}: var(--{kind}{name})"

    return COLOUR.sub(named, text)


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure.

    Attributes:
        name: of its files, without a suffix.
        title: a few words.
        description: what it shows, for who cannot see it.
        svg: a file of its own.
        inline: the same for a page: with hover values, and colours by names of the page's style.
        png: a file of its own.
    """

    name: str
    title: str
    description: str
    svg: str
    inline: str
    png: bytes
