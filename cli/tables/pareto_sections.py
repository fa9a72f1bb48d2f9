"""The tables of the further sections of a study, by the key of the section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_ends, show_number, show_share
from gpuplan.cli.tables.pareto_widths import BUDGETS_SHOWN
from gpuplan.planner.frontier.model.format_gpus import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.baselines import BaselineComparison, BaselinePoint
    from gpuplan.planner.frontier.reference_points import ReferencePoints
    from gpuplan.planner.frontier.study import FrontierStudy
    from gpuplan.planner.frontier.uncertainty.bootstrap_bands import FrontierBand
    from gpuplan.planner.frontier.uncertainty.confidence import FrontierConfidence, Sensitivity
    from gpuplan.planner.frontier.uncertainty.laws import Laws


def laws_tables(laws: Laws) -> Iterator[Table]:
    """Yield one row per law: its least budget, and the mean JCT at the budgets of the study."""
    budgets = [point.budget_gpus for point in laws.laws[0].at[:BUDGETS_SHOWN]]
    columns = (
        Column("law", "speedup"),
        Column("min_budget_gpus", "least budget (GPUs)", show_gpus),
        *(
            Column(f"mean_jct_s_{i}", f"JCT at {show_gpus(budget)}", show_duration)
            for i, budget in enumerate(budgets)
        ),
    )
    rows = []
    for law in laws.laws:
        times = [point.mean_jct_s for point in law.at[:BUDGETS_SHOWN]]
        cells = [Shown(None, "too few") if jct_s is None else jct_s for jct_s in times]
        rows.append([law.name, law.min_budget_gpus, *cells])
    title = "If jobs scale by another law: planned JCT at the same GPUs on average"
    yield Table(title, columns, rows)


BASELINE_COLUMNS = (
    Column("baseline", "baseline"),
    Column("knob", "setting"),
    Column("rented_gpus", "rented GPUs", show_gpus),
    Column("mean_jct_s", "mean JCT", show_duration),
    Column("p95_jct_s", "P95 JCT", show_duration),
    Column("peak_gpus", "peak GPUs", show_count),
    Column("planned_mean_jct_s", "plan's mean JCT", show_duration),
    Column("planned_p95_jct_s", "plan's P95 JCT", show_duration),
    Column("jct_saving", "plan saves", show_share),
)
WEIGHTED_COLUMNS = (
    *BASELINE_COLUMNS[:4],
    Column("weighted_mean_jct_s", "weighted", show_duration),
    Column("peak_gpus", "peak GPUs", show_count),
    Column("planned_mean_jct_s", "plan's mean JCT", show_duration),
    Column("planned_weighted_mean_jct_s", "plan's weighted", show_duration),
    Column("jct_saving", "plan saves", show_share),
)
"""Columns if classes have weights; P95 is then in JSON only."""
KNOBS = {"GPUs per job": "{:g} a job", "GPUs of the cluster": "{:,.0f} GPUs"}


def section_tables(study: FrontierStudy, *, requested_only: bool = False) -> Iterator[Table]:
    """Yield the tables of every section that has some, or only of those that options ask for."""
    for section in study.sections:
        if requested_only and section.key == "laws":  # unasked, where the law is assumed
            continue
        make = TABLES.get(section.key)
        if make is not None:
            yield from make(section)


def _baselines(comparison: BaselineComparison) -> Iterator[Table]:
    """Yield one row per baseline and value of its knob."""
    columns = WEIGHTED_COLUMNS if comparison.weighted else BASELINE_COLUMNS
    rows = [[_cell(point, column.key) for column in columns] for point in comparison.points]
    title = (
        "Baselines on the same jobs, vs. the replayed plan that rents no more GPUs; setting: GPUs "
        "per job, GPUs of a cluster or target efficiency"
    )
    yield Table(title, columns, rows)


def _cell(point: BaselinePoint, key: str) -> Any:
    if key == "knob":
        return Shown(point.knob, _knob(point))
    if key == "jct_saving":
        return point.jct_saving
    if key.startswith("planned_") and key != "planned_weighted_mean_jct_s":
        planned = point.planned
        return None if planned is None else getattr(planned, key.removeprefix("planned_"))
    return fields_of(point)[key]


def _knob(point: BaselinePoint) -> str:
    if point.knob is None:
        return ""
    unit = point.knob_is
    return KNOBS[unit].format(point.knob) if unit in KNOBS else f"target {point.knob:.0%}"


MARK_COLUMNS = (
    Column("name", "known point"),
    Column("gpus", "GPUs", show_gpus),
    Column("mean_jct_s", "mean JCT", show_duration),
    Column("optimal_mean_jct_s", "optimum at the same GPUs", show_duration),
    Column("optimal_gpus", "GPUs for the same JCT", show_gpus),
)


def _marks(references: ReferencePoints) -> Iterator[Table]:
    """Yield one row per known point."""
    rows = [[getattr(row, column.key) for column in MARK_COLUMNS] for row in references.points]
    yield Table("Known points (--mark) vs. the planned optimum", MARK_COLUMNS, rows)


def _bands(bands: FrontierConfidence) -> Iterator[Table]:
    """Yield one row per figure."""
    columns = (
        Column("figure", "figure"),
        Column("value", "estimate"),
        Column("band", f"{bands.level_pct:g}% band"),
        Column("missed_share", "not reached in", show_share),
    )
    figures: list[tuple[str, FrontierBand, Callable[[float], str]]] = [
        ("load (GPUs)", bands.load_gpus, show_gpus),
        ("least budget (GPUs)", bands.min_budget_gpus, show_gpus),
        *(
            (f"mean JCT at {show_gpus(row.budget_gpus)} GPUs", row.band, show_duration)
            for row in bands.mean_jct_s
        ),
        *(
            (f"GPUs for a JCT of {show_duration(row.target_jct_s)}", row.band, show_gpus)
            for row in bands.budget_gpus
        ),
    ]
    rows = [
        (
            name,
            Shown(band.value, "-" if band.value is None else show(band.value)),
            show_ends(band.low, band.high, show) or "none",
            band.missed_share,
        )
        for name, band, show in figures
    ]
    yield Table("Confidence, over resamples of the jobs", columns, rows)


def _sensitivity(sensitivity: Sensitivity) -> Iterator[Table]:
    """Yield what errors of the speedups do, and what bursts do."""
    speedup, plan = sensitivity.speedup, sensitivity.speedup.plan
    less, more = speedup.all_less, speedup.all_more
    worst, share = speedup.worst_class, show_share(speedup.error)
    sign = "less" if worst.error < 0 else "more"
    yield Table(
        f"If each added GPU speeds jobs up {share} less or more: the plan at "
        f"{show_gpus(plan.budget)} GPUs",
        (
            Column("case", "speedups"),
            Column("mean_jct_s", "mean JCT", show_duration),
            Column("used_gpus", "used GPUs", show_gpus),
        ),
        [
            ("as planned", plan.mean_jct_s, plan.used),
            ("all less", less.mean_jct_s, less.used_gpus),
            ("all more", more.mean_jct_s, more.used_gpus),
            (f"{worst.job_class} {sign}", worst.mean_jct_s, worst.used_gpus),
            ("worst mix of both", speedup.worst_mean_jct_s, speedup.worst_used_gpus),
        ],
    )
    bursts = sensitivity.bursts
    columns = (
        Column("scv", "burstiness (squared CV of inter-arrival times)", show_number),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("p95_jct_s", "P95 JCT", show_duration),
        Column("rented_gpus", "rented GPUs", show_gpus),
        Column("peak_gpus", "peak GPUs", show_count),
        Column("above_cap_share", f"time above {bursts.cap_gpus:,.0f} GPUs", show_share),
    )
    rows = [[getattr(point, column.key).value for column in columns] for point in bursts.points]
    title = f"If arrivals are burstier at the same rate (mean of {bursts.replicas} replays)"
    yield Table(title, columns, rows)


TABLES: dict[str, Callable[[Any], Iterator[Table]]] = {
    "baselines": _baselines,
    "marks": _marks,
    "laws": laws_tables,
    "bands": _bands,
    "sensitivity": _sensitivity,
}
"""Key of a section -> what makes its tables."""
