"""The contents of the picture of ``gpuplan pareto``, for one GPU type or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.frontier.model.format_gpus import show_gpus, usd_per_h
from gpuplan.planner.money.todays_basis import NO_BASIS

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.exact import Frontier
    from gpuplan.planner.frontier.replay.plan_replay import ReplayedPlan
    from gpuplan.planner.frontier.study import FrontierStudy

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
        knee: where the frontier bends most; ``knee_called`` is what it is called.
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
    knee_called: str = "best trade-off"


def scene_of(study: FrontierStudy) -> Scene:
    """Return the scene of a study, in GPUs on average, or in dollars an hour on several types."""
    frontier, shown, month = study.frontier, study.shown, study.unit_usd
    end = max(f.saturation_budget for f in (frontier, *study.ends))
    models = study.speedup.ends or ()
    points = [(min(p.plan.used, end), p.plan.mean_jct_s) for p in study.points]
    sections = {section.key: section for section in study.sections}
    curves: dict[str, list[At]] = {}
    for run in _points_of(sections.get("baselines")):
        at = (run.replay.rented_gpus, run.replay.mean_jct_s)
        curves.setdefault(run.baseline, []).append(at)
    confidence: Any = sections.get("bands")
    record = None if study.is_mixed else study.workload.record
    best = "best trade-off" if study.recommends else "bend of the line"
    which = f"the {best}" if shown is study.knee else "the budget"
    show: Callable[[float], str] = usd_per_h if study.is_mixed else _with_unit
    if study.is_mixed:
        title = f"What each budget buys on {', '.join(frontier.prices)} ({study.speedup.name})"
    else:
        low_high = " to ".join(model.name for model in models)
        line = f"{low_high}; line: " if low_high else ""
        title = f"What each GPU budget buys ({line}{study.speedup.name})"
    return Scene(
        title=title,
        unit=f"{'dollars an hour' if study.is_mixed else 'GPUs rented'} on average",
        show=show,
        frontier=frontier,
        ends=[(model.name, each) for model, each in zip(models, study.ends, strict=False)],
        name=study.speedup.name,
        points=points,
        by_request=study.by_request,
        knee=(study.knee.plan.budget, study.knee.plan.mean_jct_s),
        knee_called=best,
        replayed=[
            (at, (_rented(study, point.replayed), point.replayed.mean_jct_s))
            for at, point in zip(points, study.points, strict=True)
            if point.replayed is not None
        ],
        references=[(m.name, (m.gpus, m.mean_jct_s)) for m in _points_of(sections.get("marks"))],
        recorded=None if record is None else (record.gpus, record.mean_jct_s),
        curves=list(curves.items()),
        timeline=[
            (period.time_h, period.mean, period.peak)
            for period in (() if shown.replayed is None else shown.replayed.timeline())
        ],
        timeline_unit="$/h" if study.is_mixed else "GPUs",
        timeline_of=f"{which}, {show(shown.plan.budget)} on average",
        usd_per_month=None if month is None or study.basis != NO_BASIS else month * MONTH_H,
        ribbon=[] if confidence is None else _ribbon(confidence),
        ribbon_of="" if confidence is None else f"{confidence.level_pct:g}% confidence",
    )


def _with_unit(gpus: float) -> str:
    """Return average GPUs with their unit."""
    return f"{show_gpus(gpus)} GPUs"


def _points_of(section: Any) -> Sequence[Any]:
    return () if section is None else section.points


def _rented(study: FrontierStudy, replayed: ReplayedPlan) -> float:
    """Return what a replay rents on average, in the unit of the budget."""
    return study.frontier.spent({t: jobs.rented_gpus for t, jobs in replayed.by_type.items()})


def _ribbon(confidence: Any) -> list[tuple[float, float, float]]:
    """Return the band over the frontier where it has a lower end."""
    bands = zip(confidence.grid_gpus.tolist(), confidence.grid, strict=True)
    return [
        (gpus, band.low, float("inf") if band.high is None else band.high)
        for gpus, band in bands
        if band.low is not None
    ]


def texts_of(scene: Scene, labelled: int) -> list[tuple[At, str]]:
    """Return the labels of points, the knee's first; without those of plans in a full picture."""
    texts = [
        (
            scene.knee,
            f"{scene.knee_called}: {scene.show(scene.knee[0])}, {show_duration(scene.knee[1])}",
        )
    ]
    if scene.recorded is not None:
        texts.append((scene.recorded, f"as recorded: {show_duration(scene.recorded[1])}"))
    texts += [(at, f"{name}: {show_duration(at[1])}") for name, at in scene.references]
    if len(scene.points) == 1 and scene.by_request and scene.points[0] != scene.knee:
        (at,) = scene.points
        return [*texts, (at, f"your budget: {scene.show(at[0])}, {show_duration(at[1])}")]
    if len(scene.points) <= labelled and not scene.curves:
        texts += [(at, show_duration(at[1])) for at in sorted(set(scene.points))]
    return texts
