"""What happened over time in replays of any policy, as rows."""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS


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


def usage_frame(run: Run) -> pl.DataFrame:
    """Return a row per change of a run.

    Columns: ``time_s`` after the first submission, ``queued`` jobs and ``used_gpus`` from then on.
    """
    usage = run.usage
    found = pl.DataFrame(
        {
            "time_s": (usage.time_us - usage.time_us[0]) / MICROS,
            "queued": usage.waiting,
            "used_gpus": usage.used,
        }
    )
    changed = pl.any_horizontal(pl.col("queued", "used_gpus").diff().fill_null(1) != 0)
    return found.filter(changed)
