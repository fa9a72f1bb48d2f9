"""A picture of a study, in the forms that documents show."""

from __future__ import annotations

from dataclasses import dataclass


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
