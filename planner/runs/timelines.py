"""What happened over time in replays of any policy, as rows."""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuplan.planner.policies.allpass import timeline_frame as allpass_frame
from gpuplan.simkit.cluster.simulator import ClusterRun
from gpuplan.simkit.workload import MICROS


def timeline_frame(detail: Any) -> pl.DataFrame:
    """Return the time line of a run, of what `Simulation.detail` holds.

    A run of one cluster has a row per change: ``time_s`` after the first submission, ``queued``
    jobs and ``used_gpus`` from then on. Other runs are those of
    `gpuplan.planner.policies.allpass.timeline_frame`.
    """
    if not isinstance(detail, ClusterRun):
        return allpass_frame(detail)
    found = pl.DataFrame(
        {
            "time_s": (detail.time_us - detail.time_us[0]) / MICROS,
            "queued": detail.waiting,
            "used_gpus": detail.used,
        }
    )
    changed = pl.any_horizontal(pl.col("queued", "used_gpus").diff().fill_null(1) != 0)
    return found.filter(changed)


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
