"""What happened over time in replays of any policy, as rows."""

from __future__ import annotations

from typing import Any

import polars as pl


def together(named: list[tuple[dict[str, Any], pl.DataFrame | None]]) -> pl.DataFrame:
    """Return time lines below each other, each with the columns that say whose it is.

    What a run does not have is null.
    """
    frames = [
        frame.select(*(pl.lit(value).alias(name) for name, value in names.items()), pl.all())
        for names, frame in named
        if frame is not None
    ]
    return pl.concat(frames, how="diagonal_relaxed")
