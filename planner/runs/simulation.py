"""The result of replaying a trace under one policy, whatever the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from gpuplan.planner.runs.panels import TimeLines
    from gpuplan.simkit.run import Run

SOON_S = 600.0
"""Every policy reports the share of jobs done within this time, as the Allpass paper does."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """One replay.

    Attributes:
        policy: name in `gpuplan.planner.registry.POLICIES`.
        settings: the effective value of every setting.
        results: headline numbers; keys are stable and carry their unit.
        rows: makes `frame`, so that rows are only made when requested.
        frame: one row per job: ``job_id``, ``submit_s``, ``start_s``, ``finish_s``, ``jct_s``,
            ``jqt_s``, ``gpu_s``, ``cost_usd`` and what the policy adds. Times are seconds after
            the first submission.
        warnings: what a reader of the results must know.
        timeline: makes a row per change over time: ``time_s`` after the first submission,
            ``queued`` jobs, and what the policy adds.
        run: what happened to jobs and GPUs.
        lines: makes what pictures and tables show over time.
    """

    policy: str
    settings: dict[str, Any]
    results: dict[str, Any]
    rows: Callable[[], pl.DataFrame]
    warnings: tuple[str, ...]
    timeline: Callable[[], pl.DataFrame]
    run: Run
    lines: Callable[[], TimeLines]

    @property
    def frame(self) -> pl.DataFrame:
        """One row per job, made anew each time."""
        return self.rows()

    def to_frame(self) -> pl.DataFrame:
        """Return one row per job."""
        return self.rows()
