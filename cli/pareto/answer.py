"""The tables that ``gpuplan pareto`` shows without ``--full``: today, budgets in replay, widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.cli.formats.precision import Precision
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number, significant
from gpuplan.cli.pareto.widths import shown_widths, widths_table
from gpuplan.simkit.metrics import percentile

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.planner.frontier.study import FrontierStudy, Point

BUDGETS_SHOWN = 12
CLASSES_SHOWN = 8
FREE = "restarts are free"


def answer_tables(study: FrontierStudy) -> tuple[Table, ...]:
    """Return what each budget gives beside today, and the GPUs per job of each class."""
    precision = Precision(study.workload.jobs)
    points = shown_widths(study.by_request, study.points, study.shown)
    if any(c.work_h.size > 1 for c in study.frontier.classes):
        points = [study.shown]  # widths that change on the way take a column each
    at = "GPUs on average"
    if len(points) == 1:
        at = f"{precision.gpus_text(points[0].plan.budget_gpus)} on average"
    widths = widths_table(
        study.frontier.classes,
        [point.plan for point in points],
        at,
        precision.gpus,
        most=CLASSES_SHOWN,
    )
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
    columns = tuple(_columns(study, precision))
    rows = [[row.get(column.key) for column in columns] for row in _rows(study, precision)]
    how = "planned, not replayed" if study.cluster is None else f"in replay; {restarts_of(study)}"
    title = f"What each budget buys, {how}"
    if study.price is not None:
        title += f"; {study.price.text}"
    if not study.is_exact:
        title += f"; by --method {study.method}"
    return Table(title, columns, rows, most=BUDGETS_SHOWN)


def today_jct(today: Today, precision: Precision) -> Shown:
    """Return the mean completion time of a log, or its run time where it has no waits."""
    if today.mean_run_s is None:
        return Shown(None, "still running")
    if today.mean_jct_s is None:
        return Shown(None, f"{precision.duration(today.mean_run_s)} running")
    return Shown(today.mean_jct_s, precision.duration(today.mean_jct_s))


def _columns(study: FrontierStudy, precision: Precision) -> Iterator[Column]:
    yield Column("budget", "budget")
    yield Column("gpus", "GPUs on average", precision.gpus)
    if study.price is not None:
        yield Column("usd_per_month", "$/month", precision.usd)
    yield Column("mean_jct_s", "mean JCT", precision.duration)
    if study.cluster is None:
        return
    yield Column("p95_jct_s", "P95 JCT", precision.duration)
    yield Column("peak_gpus", "peak GPUs", show_count)
    if study.today is not None:
        peak = f"{study.today.usage.peak_gpus:,.0f}"
        yield Column("within_mean_jct_s", f"mean JCT within {peak} GPUs", precision.duration)
        yield Column("within_p95_jct_s", "P95 within", precision.duration)


def _rows(study: FrontierStudy, precision: Precision) -> Iterator[dict[str, Any]]:
    """Yield today, then the points; of a sweep of the frontier the knee is one of them."""
    if (today := study.today) is not None:
        yield {
            "budget": "today",
            "gpus": Shown(
                today.usage.mean_gpus,
                show_number(significant(today.usage.mean_gpus, precision.digits)),
            ),
            "usd_per_month": today.usage.usd_per_month,
            "mean_jct_s": today_jct(today, precision),
            "p95_jct_s": today.p95_jct_s,
            "peak_gpus": today.usage.peak_gpus,
        }
    points = list(study.points)
    if not study.by_request:
        points = [p for p in points if p.plan.budget_gpus != study.knee.plan.budget_gpus]
        points = sorted([*points, study.knee], key=lambda point: point.plan.budget_gpus)
    for point in points:
        yield _row(study, point)


def _row(study: FrontierStudy, point: Point) -> dict[str, Any]:
    """Return the cells of one budget."""
    row: dict[str, Any] = {
        "budget": _name(study, point),
        "gpus": point.plan.budget_gpus,
        "mean_jct_s": point.plan.mean_jct_s,
    }
    if study.price is not None:
        row["usd_per_month"] = study.usd_per_month(point.plan.budget_gpus)
    if point.replayed is None:
        return row
    replay, within = point.replayed.replay, point.within_peak
    row |= {
        "mean_jct_s": replay.mean_jct_s,
        "p95_jct_s": point.replayed.p95_jct_s,
        "peak_gpus": replay.peak_gpus,
        "within_mean_jct_s": Shown(None, "no plan fits"),
    }
    if within is not None:
        row["within_mean_jct_s"] = within.mean_jct_s
        row["within_p95_jct_s"] = percentile(within.jct_s, 95)
    return row


def _name(study: FrontierStudy, point: Point) -> str:
    """Return what a point was requested as, or its place on the frontier."""
    if point.target_jct_s is not None:
        return f"JCT {show_duration(point.target_jct_s)}"
    if point.requested is not None:
        return point.requested
    frontier, gpus = study.frontier, point.plan.budget_gpus
    if point is study.knee:
        return "best trade-off"
    ends = ((frontier.min_budget, "minimum"), (frontier.saturation_budget, "most useful"))
    return next((name for end, name in ends if abs(gpus / end - 1) < 1e-9), "")
