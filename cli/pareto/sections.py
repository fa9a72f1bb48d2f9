"""The tables of the further sections of a study, by the key of the section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.cli.report import Column, Shown, Table
from gpuplan.cli.units import show_count, show_duration, show_share
from gpuplan.planner.boa.show import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.boa.comparison import Compared, Comparison
    from gpuplan.planner.boa.study import Study

BASELINE_COLUMNS = (
    Column("baseline", "baseline"),
    Column("knob", "at"),
    Column("rented_gpus", "rents (GPUs)", show_gpus),
    Column("mean_jct_s", "mean JCT", show_duration),
    Column("p95_jct_s", "P95 JCT", show_duration),
    Column("peak_gpus", "peak (GPUs)", show_count),
    Column("planned_mean_jct_s", "plan's mean JCT", show_duration),
    Column("planned_p95_jct_s", "plan's P95 JCT", show_duration),
    Column("jct_saving_share", "plan saves", show_share),
)
KNOBS = {"GPUs per job": "{:g} a job", "GPUs of the cluster": "{:,.0f} GPUs"}


def section_tables(study: Study) -> Iterator[Table]:
    """Yield the table of every section that has one."""
    for section in study.sections:
        make = TABLES.get(section.key)
        if make is not None:
            yield make(section)


def baselines_table(comparison: Comparison) -> Table:
    """Return one row per baseline and value of its knob."""
    rows = [
        [_cell(point, column.key) for column in BASELINE_COLUMNS] for point in comparison.points
    ]
    title = (
        "Baselines on the same jobs, each beside the replay of the optimal plan that rents as many "
        "GPUs or fewer; at: GPUs of a job or a cluster, or the efficiency aimed at"
    )
    return Table(title, BASELINE_COLUMNS, rows)


def _cell(point: Compared, key: str) -> Any:
    if key == "knob":
        return Shown(point.knob, _knob(point))
    if key.startswith("planned_"):
        planned = point.planned
        return None if planned is None else planned.summary()[key.removeprefix("planned_")]
    return point.summary()[key]


def _knob(point: Compared) -> str:
    if point.knob is None:
        return ""
    known = point.summary()["knob_is"]
    return KNOBS[known].format(point.knob) if known in KNOBS else f"aims at {point.knob:.0%}"


TABLES: dict[str, Callable[[Any], Table]] = {"baselines": baselines_table}
"""Key of a section -> what makes its table."""
