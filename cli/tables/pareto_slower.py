"""Who runs longer than recorded in a plan of ``gpuplan pareto``: a sentence and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_count, significant
from gpuplan.planner.frontier.slowdown import MUCH

if TYPE_CHECKING:
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.slowdown import LongerRuns
    from gpuplan.planner.frontier.study import FrontierStudy

SHOWN = 8
FEW = 0.005
"""Share of the GPU-hours below which longer runs are not told."""
MATTERS = 0.05
"""Share of the GPU-hours that run over 1.5 times as long, from which the table is in the answer."""


def slower_text(study: FrontierStudy, point: Point) -> str:
    """Return how many jobs and GPU-hours run longer than recorded; empty where few do."""
    slower, bound = point.slower, study.frontier.slower
    if slower is None:
        return ""
    any_longer, much_longer = slower.beyond(1.0), slower.beyond(MUCH)
    if bound is not None and not any_longer.jobs:
        return "No job runs longer than recorded."
    if any_longer.gpu_h_share < FEW and bound is None:
        return ""
    text = f"At these widths {_amount(any_longer)} would run longer than recorded"
    if bound is not None:
        return f"{text}, none over {bound:g} times."
    if not much_longer.jobs:
        return f"{text}, none over {MUCH:g} times."
    text += f", {_amount(much_longer, is_short=True)} over {MUCH:g} times"
    return f"{text} (--slower {MUCH:g}x bounds it)." if study.is_exact else f"{text}."


def _amount(runs: LongerRuns, *, is_short: bool = False) -> str:
    jobs, hours = (_share(share) for share in (runs.job_share, runs.gpu_h_share))
    return f"{jobs} ({hours})" if is_short else f"{jobs} of the jobs ({hours} of the GPU-hours)"


def _share(share: float) -> str:
    """Return a share with two digits, that below a thousandth as such."""
    if 0 < share < 0.001:
        return "under 0.1%"
    return f"{100 * significant(share, 2):.3g}%"


def matters(study: FrontierStudy) -> bool:
    """Return whether the table belongs into the answer."""
    slower = study.shown.slower
    return slower is not None and slower.beyond(MUCH).gpu_h_share >= MATTERS


def slower_tables(study: FrontierStudy, *, most: int | None = None) -> tuple[Table, ...]:
    """Return who runs longer than recorded, by class, or by GPUs held where there is one class.

    Args:
        study: its plan shown first.
        most: rows; None for all.
    """
    slower = study.shown.slower
    if slower is None or not slower.beyond(1.0).jobs:
        return ()
    is_by_class = len(slower.classes) > 1
    rows = [row for row in (slower.classes if is_by_class else slower.num_gpus) if row.slower_jobs]
    rows.sort(key=lambda row: (-row.much_slower_gpu_h, -row.slower_gpu_h))
    subject = Column("job_class", "job class")
    if not is_by_class:
        subject = Column("num_gpus", "recorded on", lambda n: f"{n:g} GPU{'' if n == 1 else 's'}")
    return (
        table(
            "Jobs that would run longer than recorded, starts and waits left out",
            rows,
            subject,
            Column("jobs", "jobs", show_count),
            Column("slower_jobs", "run longer", show_count),
            Column("slower_gpu_h", "GPU-hours", show_count),
            Column("much_slower_jobs", f"over {MUCH:g} times", show_count),
            Column("much_slower_gpu_h", "GPU-hours", show_count),
            {"most_times": "at most, times"},
            most=most,
        ),
    )
