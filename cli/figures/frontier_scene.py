"""The contents of the picture of ``gpuplan pareto``, for one GPU type or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.frontier.model.format_gpus import round_up, show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.exact import Frontier
    from gpuplan.planner.frontier.study import FrontierStudy
    from gpuplan.planner.frontier.types.typed_study import TypedStudy

At = tuple[float, float]
"""Budget and mean completion time in seconds."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is drawn, in the unit of the budgets.

    Attributes:
        title: title of the picture.
        unit: what budgets count, for the axis.
        show: writes a budget with its unit.
        frontier: the optimum.
        ends: the name and frontier at each end of a range of speedups.
        name: of the speedup of the frontier.
        points: the plans to mark, at the GPUs they use.
        by_request: whether the user requested them.
        knee: where the frontier bends most.
        replayed: the point of a plan on the frontier, and its point in the replay.
        references: name and point of measured or published results of others.
        recorded: GPUs and mean completion time of the jobs as recorded.
        curves: name and points of each baseline.
        timeline: hour, mean and peak rented over time by the plan of ``timeline_of``.
        first_submit: time of the first submission; None without a calendar.
        timeline_unit: unit of the time line.
        timeline_of: name of that plan.
        usd_per_month: dollars a month for a unit of the budget; None without a price.
        ribbon: budget, and low and high end of the band of the mean completion time there; an end
            that is not known is infinite.
        ribbon_of: name of the band.
    """

    title: str
    unit: str
    show: Callable[[float], str]
    frontier: Frontier
    ends: Sequence[tuple[str, Frontier]]
    name: str
    points: Sequence[At]
    by_request: bool
    knee: At
    replayed: Sequence[tuple[At, At]] = ()
    references: Sequence[tuple[str, At]] = ()
    recorded: At | None = None
    curves: Sequence[tuple[str, Sequence[At]]] = ()
    timeline: Sequence[tuple[float, float, float]] = ()
    first_submit: datetime | None = None
    timeline_unit: str = "GPUs"
    timeline_of: str = ""
    usd_per_month: float | None = None
    ribbon: Sequence[tuple[float, float, float]] = ()
    ribbon_of: str = ""


def scene_of(study: FrontierStudy) -> Scene:
    """Return the scene of a study of one GPU type, in GPUs on average."""
    end = max(f.saturation_budget for f in (study.frontier, *study.ends))
    models = study.speedup.ends or ()
    low_high = " to ".join(model.name for model in models)
    points = [(min(p.plan.used_gpus, end), p.plan.mean_jct_s) for p in study.points]
    curves: dict[str, list[At]] = {}
    references: list[tuple[str, At]] = []
    for section in study.sections:
        if section.key == "baselines":
            for one in section.points:  # type: ignore[attr-defined]
                at = (one.replay.rented_gpus, one.replay.mean_jct_s)
                curves.setdefault(one.baseline, []).append(at)
        if section.key == "marks":
            known = [one.mark for one in section.points]  # type: ignore[attr-defined]
            references = [(mark.name, (mark.gpus, mark.jct_s)) for mark in known]
    confidence = next((one for one in study.sections if one.key == "bands"), None)
    record, shown = study.workload.record, study.shown
    which = "the best trade-off" if shown is study.knee else "the budget"
    return Scene(
        title="What each GPU budget buys "
        f"({f'{low_high}; line: ' if low_high else ''}{study.speedup.name})",
        unit="GPUs rented on average",
        show=lambda gpus: f"{show_gpus(gpus)} GPUs",
        frontier=study.frontier,
        ends=[(model.name, each) for model, each in zip(models, study.ends, strict=True)],
        name=study.speedup.name,
        points=points,
        by_request=study.by_request,
        knee=(study.knee.plan.budget_gpus, study.knee.plan.mean_jct_s),
        replayed=[
            (at, (point.replayed.replay.rented_gpus, point.replayed.replay.mean_jct_s))
            for at, point in zip(points, study.points, strict=True)
            if point.replayed is not None
        ],
        references=references,
        recorded=None if record is None else (record.gpus, record.mean_jct_s),
        curves=list(curves.items()),
        timeline=[
            (one.time_h, one.mean_gpus, one.peak_gpus)
            for one in (() if shown.replayed is None else shown.replayed.timeline())
        ],
        timeline_of=f"{which}, {show_gpus(shown.plan.budget_gpus)} GPUs on average",
        usd_per_month=None if study.price is None else study.usd_per_month(1.0),
        ribbon=[] if confidence is None else _ribbon(confidence),
        ribbon_of="" if confidence is None else f"{confidence.bands.level:g}% confidence",  # type: ignore[attr-defined]
    )


def _ribbon(confidence: Any) -> list[tuple[float, float, float]]:
    """Return the band over the frontier where it has a lower end."""
    bands = zip(confidence.grid_gpus.tolist(), confidence.grid, strict=True)
    return [
        (gpus, band.low, float("inf") if band.high is None else band.high)
        for gpus, band in bands
        if band.low is not None
    ]


def scene_of_types(study: TypedStudy) -> Scene:
    """Return the scene of a study of several GPU types, in dollars an hour."""
    end, shown = study.frontier.saturation_usd_per_h, study.shown
    plans = [point.plan.plan for point in study.points]
    points = [(min(plan.used_gpus, end), plan.mean_jct_s) for plan in plans]
    return Scene(
        title=f"What each budget buys on {', '.join(study.prices)} ({study.speedup.name})",
        unit="dollars an hour on average",
        show=lambda usd: f"${round_up(usd):,.2f}/h",
        frontier=study.frontier.frontier,
        ends=(),
        name=study.speedup.name,
        points=points,
        by_request=study.by_request,
        knee=(study.knee.plan.plan.budget_gpus, study.knee.plan.plan.mean_jct_s),
        replayed=[
            (at, (point.replayed.rented_usd_per_h, float(point.replayed.jct_s.mean())))
            for at, point in zip(points, study.points, strict=True)
            if point.replayed is not None
        ],
        timeline=[
            (one.time_h, one.mean_usd_per_h, one.peak_usd_per_h)
            for one in (() if shown.replayed is None else shown.replayed.timeline())
        ],
        timeline_unit="$/h",
        timeline_of=f"{'the best trade-off' if shown is study.knee else 'the budget'}, "
        f"${round_up(shown.plan.plan.budget_gpus):,.2f}/h on average",
        usd_per_month=MONTH_H,
    )


def texts_of(scene: Scene, labelled: int) -> list[tuple[At, str]]:
    """Return the labels of points, the knee's first; without those of plans in a full picture."""
    found = [
        (scene.knee, f"best trade-off: {scene.show(scene.knee[0])}, {show_duration(scene.knee[1])}")
    ]
    if scene.recorded is not None:
        found.append((scene.recorded, f"as recorded: {show_duration(scene.recorded[1])}"))
    found += [(at, f"{name}: {show_duration(at[1])}") for name, at in scene.references]
    if len(scene.points) == 1 and scene.by_request and scene.points[0] != scene.knee:
        (at,) = scene.points
        return [*found, (at, f"your budget: {scene.show(at[0])}, {show_duration(at[1])}")]
    if len(scene.points) <= labelled and not scene.curves:
        found += [(at, show_duration(at[1])) for at in sorted(set(scene.points))]
    return found
