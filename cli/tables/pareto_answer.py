"""The tables that ``gpuplan pareto`` shows without ``--full``: today, budgets in replay, widths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import Precision, show_duration, show_number, significant
from gpuplan.cli.tables.pareto_widths import shown_widths, widths_table
from gpuplan.planner.frontier.model.format_gpus import usd_per_h
from gpuplan.simkit.metrics import percentile

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.study import FrontierStudy

BUDGETS_SHOWN = 12
CLASSES_SHOWN = 8
FREE = "restarts are free"


def answer_tables(study: FrontierStudy) -> tuple[Table, ...]:
    """Return what each budget gives beside today, and the GPUs per job of each class."""
    precision, classes = Precision(study.workload.jobs), study.frontier.classes
    points = shown_widths(study)
    if study.is_mixed or any(c.work_h.size > 1 for c in classes):
        points = [study.shown]  # types, or widths that change on the way, take a column each
    show: Callable[[float], str] = usd_per_h if study.is_mixed else precision.gpus
    at = "GPUs on average"
    if study.is_mixed:
        at = usd_per_h(points[0].plan.budget)
    elif len(points) == 1:
        at = f"{precision.gpus_text(points[0].plan.budget)} on average"
    plans = [point.plan for point in points]
    widths = widths_table(classes, plans, at, show, most=CLASSES_SHOWN)
    return _budgets(study, precision), widths


def restarts_of(study: FrontierStudy) -> str:
    """Return what a start or a change of width costs, for a title."""
    mean_s, origin = study.mean_rescale_s, study.workload.rescale_origin
    if not mean_s:
        return FREE
    measured = ", as measured" if origin == "profile" else ""
    return f"a start or resize takes {show_duration(mean_s)}{measured}"


def _budgets(study: FrontierStudy, precision: Precision) -> Table:
    """Return a row for today and one per budget."""
    budgets = list(_rows(study, precision))
    how = "in replay" if study.cluster is not None else "planned, not replayed"
    if study.cluster is not None and not study.is_mixed:
        how += f"; {restarts_of(study)}"
    title = f"What each budget buys, {how}"
    if study.prices:
        title += f"{', at' if study.is_mixed else ';'} {study.priced}"
    if not study.is_exact:
        title += f"; by --method {study.method}"
    if not study.is_mixed and any(str(row.get("budget")).endswith("x") for row in budgets):
        load = show_number(study.frontier.load_gpus)
        title += f"; 1x: {load} GPUs, every job on one"
    return table(title, budgets, *_columns(study, precision), most=BUDGETS_SHOWN)


def today_jct(today: Today, precision: Precision) -> Shown:
    """Return the mean completion time of a log, or its run time where it has no waits."""
    if today.mean_run_s is None:
        return Shown(None, "still running")
    if today.mean_jct_s is None:
        return Shown(None, f"{precision.duration(today.mean_run_s)} running")
    return Shown(today.mean_jct_s, precision.duration(today.mean_jct_s))


def _columns(study: FrontierStudy, precision: Precision) -> Iterator[Column | dict[str, str]]:
    is_replayed = study.cluster is not None
    yield {"budget": "budget"}
    if not study.is_mixed:
        yield Column("gpus", "GPUs on average", precision.gpus)
    if study.prices:
        yield Column("usd_per_month", "$/month", precision.usd)
    yield Column("mean_jct_s", "mean JCT", precision.duration)
    if is_replayed:
        yield Column("p95_jct_s", "P95 JCT", precision.duration)
    for name in study.frontier.prices:
        yield Column(f"gpus_{name}", f"{name} on average", precision.gpus)
        if is_replayed:
            yield {f"peak_{name}": f"{name} at the peak"}
    if is_replayed and not study.is_mixed:
        yield {"peak_gpus": "peak GPUs"}
        if study.today is not None:
            peak = f"{study.today.usage.peak_gpus:,.0f}"
            yield Column("within_mean_jct_s", f"mean JCT within {peak} GPUs", precision.duration)
            yield Column("within_p95_jct_s", "P95 within", precision.duration)


def _rows(study: FrontierStudy, precision: Precision) -> Iterator[dict[str, Any]]:
    """Yield today, then the points; of a sweep on one GPU type the knee is one of them."""
    if study.today is not None:
        yield _today(study, study.today, precision)
    points = list(study.points)
    if study.recommends and not (study.by_request or study.is_mixed):
        points = [p for p in points if p.plan.budget != study.knee.plan.budget]
        points = sorted([*points, study.knee], key=lambda point: point.plan.budget)
    for point in points:
        yield _row(study, point)


def _today(study: FrontierStudy, today: Today, precision: Precision) -> dict[str, Any]:
    """Return the cells of what the log shows."""
    mean_gpus = today.usage.mean_gpus
    row = {
        "budget": "today",
        "gpus": Shown(mean_gpus, show_number(significant(mean_gpus, precision.digits))),
        "usd_per_month": today.usage.usd_per_month,
        "mean_jct_s": today_jct(today, precision),
        "p95_jct_s": today.p95_jct_s,
        "peak_gpus": today.usage.peak_gpus,
    }
    for usage in today.gpu_types:
        name = study.recorded_on if usage.gpu_type in (None, UNNAMED) else usage.gpu_type
        row |= {f"gpus_{name}": usage.mean_gpus, f"peak_{name}": usage.peak_gpus}
    return row


def _row(study: FrontierStudy, point: Point) -> dict[str, Any]:
    """Return the cells of one budget."""
    replayed, within = point.replayed, point.within_peak
    row: dict[str, Any] = {
        "budget": _name(study, point),
        "gpus": point.plan.budget,
        "mean_jct_s": point.mean_jct_s,
        **{f"gpus_{name}": gpus for name, gpus in point.gpus.items()},
    }
    if study.prices:
        row["usd_per_month"] = study.usd_per_month(point.plan.budget)
    if replayed is not None:
        row |= {"mean_jct_s": replayed.mean_jct_s, "p95_jct_s": replayed.p95_jct_s}
        row |= {f"peak_{name}": jobs.peak_gpus for name, jobs in replayed.by_type.items()}
        row |= {"peak_gpus": replayed.peak_gpus, "within_mean_jct_s": Shown(None, "no plan fits")}
    elif study.cluster is not None:
        row["mean_jct_s"] = Shown(None, "not replayed")
    if within is not None:
        row["within_mean_jct_s"] = within.mean_jct_s
        row["within_p95_jct_s"] = percentile(within.jct_s, 95)
    return row


def _name(study: FrontierStudy, point: Point) -> str:
    """Return what a point was requested as, or its place on the frontier."""
    if point.target_jct_s is not None:
        return f"JCT {show_duration(point.target_jct_s)}"
    frontier, budget = study.frontier, point.plan.budget
    if point.requested is not None or study.is_mixed:
        return point.requested or usd_per_h(budget)
    if study.recommends and point is study.knee:
        return "best trade-off"
    ends = ((frontier.min_budget, "minimum"), (frontier.saturation_budget, "most useful"))
    return next((name for end, name in ends if abs(budget / end - 1) < 1e-9), "")
