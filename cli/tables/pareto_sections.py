"""The tables of the further sections of a study, by the key of the section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of, plain
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import show_count, show_duration, show_ends, show_share
from gpuplan.cli.tables.pareto_widths import BUDGETS_SHOWN
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.uncertainty.bursts import FIGURES

if TYPE_CHECKING:
    from gpuplan.planner.baselines import BaselineComparison, BaselinePoint
    from gpuplan.planner.frontier.reference_points import ReferencePoints
    from gpuplan.planner.frontier.study import FrontierStudy
    from gpuplan.planner.frontier.uncertainty.bootstrap_bands import FrontierBand
    from gpuplan.planner.frontier.uncertainty.confidence import FrontierConfidence, Sensitivity
    from gpuplan.planner.frontier.uncertainty.laws import LawResults, Laws


def laws_tables(laws: Laws) -> Iterator[Table]:
    """Yield one row per law: its least budget, and the mean JCT at the budgets of the study."""
    budgets = [point.budget_gpus for point in laws.laws[0].at[:BUDGETS_SHOWN]]

    def jct(place: int, law: LawResults) -> float | Shown:
        jct_s = law.at[place].mean_jct_s
        return Shown(None, "too few") if jct_s is None else jct_s

    yield table(
        "If jobs scale by another law: planned JCT at the same GPUs on average",
        laws.laws,
        Column("law", "speedup", read=attrgetter("name")),
        Column("min_budget_gpus", "least budget (GPUs)", show_gpus),
        *(
            Column(f"mean_jct_s_{i}", f"JCT at {show_gpus(gpus)}", show_duration, partial(jct, i))
            for i, gpus in enumerate(budgets)
        ),
    )


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
    # With weights P95 is in JSON only.
    name, header = ("weighted_mean", "weighted") if comparison.weighted else ("p95", "P95 JCT")
    yield table(
        "Baselines on the same jobs, vs. the replayed plan that rents no more GPUs; setting: GPUs "
        "per job, GPUs of a cluster or target efficiency",
        [
            {f"planned_{key}": value for key, value in plain(point.planned or {}).items()}
            | fields_of(point)
            | {"knob": _knob(point), "jct_saving": point.jct_saving}
            for point in comparison.points
        ],
        {"baseline": "baseline", "knob": "setting"},
        Column("rented_gpus", "rented GPUs", show_gpus),
        {"mean_jct_s": "mean JCT", f"{name}_jct_s": header},
        Column("peak_gpus", "peak GPUs", show_count),
        {
            "planned_mean_jct_s": "plan's mean JCT",
            f"planned_{name}_jct_s": f"plan's {header}",
        },
        Column("jct_saving", "plan saves", show_share),
    )


def _knob(point: BaselinePoint) -> Shown:
    unit, text = point.knob_is, ""
    if point.knob is not None:
        text = KNOBS[unit].format(point.knob) if unit in KNOBS else f"target {point.knob:.0%}"
    return Shown(point.knob, text)


def _marks(references: ReferencePoints) -> Iterator[Table]:
    """Yield one row per known point."""
    yield table(
        "Known points (--mark) vs. the planned optimum",
        references.points,
        {"name": "known point"},
        Column("gpus", "GPUs", show_gpus),
        {"mean_jct_s": "mean JCT", "optimal_mean_jct_s": "optimum at the same GPUs"},
        Column("optimal_gpus", "GPUs for the same JCT", show_gpus),
    )


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
    cases = (
        ("as planned", plan.mean_jct_s, plan.used),
        ("all less", less.mean_jct_s, less.used_gpus),
        ("all more", more.mean_jct_s, more.used_gpus),
        (f"{worst.job_class} {sign}", worst.mean_jct_s, worst.used_gpus),
        ("worst mix of both", speedup.worst_mean_jct_s, speedup.worst_used_gpus),
    )
    yield table(
        f"If each added GPU speeds jobs up {share} less or more: the plan at "
        f"{show_gpus(plan.budget)} GPUs",
        [{"case": case, "mean_jct_s": jct, "used_gpus": gpus} for case, jct, gpus in cases],
        {"case": "speedups", "mean_jct_s": "mean JCT"},
        Column("used_gpus", "used GPUs", show_gpus),
    )
    bursts = sensitivity.bursts
    yield table(
        f"If arrivals are burstier at the same rate (mean of {bursts.replicas} replays)",
        [{name: getattr(point, name).value for name in FIGURES} for point in bursts.points],
        {
            "scv": "burstiness (squared CV of inter-arrival times)",
            "mean_jct_s": "mean JCT",
            "p95_jct_s": "P95 JCT",
        },
        Column("rented_gpus", "rented GPUs", show_gpus),
        Column("peak_gpus", "peak GPUs", show_count),
        {"above_cap_share": f"time above {bursts.cap_gpus:,.0f} GPUs"},
    )


TABLES: dict[str, Callable[[Any], Iterator[Table]]] = {
    "baselines": _baselines,
    "marks": _marks,
    "laws": laws_tables,
    "bands": _bands,
    "sensitivity": _sensitivity,
}
"""Key of a section -> what makes its tables."""
