"""The tables of ``gpuplan pareto`` for one GPU type: planned and replayed results of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.shapes import shapes_table, timeline_row
from gpuplan.cli.formats.units import show_count, show_duration, show_share, show_usd
from gpuplan.cli.pareto.widths import shown_widths, widths_table
from gpuplan.planner.frontier.model.format_gpus import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.plan import Plan
    from gpuplan.planner.frontier.replay.plan_replay import ReplayedPlan
    from gpuplan.planner.frontier.replay.renting import RentedCluster
    from gpuplan.planner.frontier.study import FrontierStudy, Point

BEST = "the best trade-off"
"""What people call the knee of the frontier."""
STEPS = {"gpu": "next GPU", "1pct": "+1% of GPUs", "100_usd_month": "next $100 a month"}


def study_tables(study: FrontierStudy) -> Iterator[Table]:
    """Yield the tables, the main one first."""
    yield points_table(study)
    if study.cluster is not None:
        yield replay_table(study)
    if study.shown.replayed is not None:
        mean = [period.mean_gpus for period in study.shown.replayed.timeline()]
        of = f"{which(study)}, {show_gpus(study.shown.plan.budget_gpus)} GPUs on average"
        yield shapes_table(f"Over time ({of})", [timeline_row("GPUs rented, mean", mean)])
    points = shown_widths(study.by_request, study.points, study.shown)
    at = "GPUs on average"
    if len(points) == 1:
        name = which(study, points[0])
        at = f"{name}, {show_gpus(points[0].plan.budget_gpus)} {at}"
    yield widths_table(study.frontier.classes, [p.plan for p in points], at, show_gpus)


def which(study: FrontierStudy, point: Point | None = None) -> str:
    """Return what a point is called, by default the one shown first."""
    return BEST if (point or study.shown) is study.knee else "the budget"


def points_table(study: FrontierStudy) -> Table:
    """Return one row per budget; its CSV also has the replay."""
    from gpuplan.planner.studies.frontier_results import point_results

    rows = []
    columns = tuple(_columns(study))
    for point in study.points:
        found = point_results(study, point)
        row = fields_of(found)
        for end, jct_s in zip(("low", "high"), point.ends_jct_s, strict=False):
            row[f"mean_jct_s_at_{end}_end"] = Shown(None, "too few") if jct_s is None else jct_s
        target = point.target_jct_s
        requested = "budget" if target is None else f"JCT {show_duration(target)}"
        row["target_jct_s"] = Shown(target, requested)
        if found.replay is not UNSET:
            row |= {f"replayed_{key}": value for key, value in fields_of(found.replay).items()}
        rows.append([row[column.key] for column in columns])
    title = "What each budget buys"
    if not study.is_exact:
        title += f" by --method {study.method}, vs. the optimum"
    if study.price is not None:
        title += f", at {study.price.text}"
    if study.ends:
        title += f"; the columns after the JCTs are at {study.speedup.name}"
    return Table(title, columns, rows)


def _columns(study: FrontierStudy) -> Iterator[Column]:
    weighted = study.frontier.is_weighted
    yield Column("budget_gpus", "budget (GPUs)", show_gpus)
    yield Column("budget_x_load", "times the load", lambda x: f"{x:.2f}")
    if study.price is not None:
        yield Column("usd_per_month", "$/month", show_usd)
    if any(point.target_jct_s is not None for point in study.points):
        yield Column("target_jct_s", "requested")
    if study.ends:  # space for the range of speedups
        low, high = (model.name for model in study.speedup.ends or ())
        yield Column("mean_jct_s_at_low_end", f"JCT at {low}", show_duration)
        yield Column("mean_jct_s", f"JCT at {study.speedup.name}", show_duration)
        yield Column("mean_jct_s_at_high_end", f"JCT at {high}", show_duration)
    else:
        yield Column("mean_jct_s", "mean JCT", show_duration)
    if weighted:
        yield Column("weighted_mean_jct_s", "weighted", show_duration)
    if not study.is_exact:
        yield Column("optimal_mean_jct_s", "optimum", show_duration)
    if not study.ends:
        yield Column("mean_jct_over_one_gpu", "% of 1-GPU JCT", show_share)
        yield Column("used_gpus", "used (GPUs)", show_gpus)
    # With both a weighted mean and a range of speedups it is in CSV only.
    yield Column("utilization", "" if weighted and study.ends else "efficiency", show_share)
    if study.is_exact:
        yield Column(f"next_{study.step()}_saves_s", f"{STEPS[study.step()]} saves", show_duration)
    yield Column("rounded_mean_jct_s", "JCT without splits", show_duration)
    if study.cluster is not None:
        for key in ("mean_jct_s", "p95_jct_s", "rented_gpu_h", "rented_gpus", "peak_gpus"):
            yield Column(f"replayed_{key}", "")


def replay_table(study: FrontierStudy) -> Table:
    """Return one row per budget: planned next to replayed results."""
    cluster = study.cluster
    assert cluster is not None
    columns = [
        Column("budget_gpus", "budget (GPUs)", show_gpus),
        Column("planned_mean_jct_s", "mean JCT planned", show_duration),
        Column("mean_jct_s", "mean JCT replayed", show_duration),
        Column("planned_p95_jct_s", "P95 JCT planned", show_duration),
        Column("p95_jct_s", "P95 JCT replayed", show_duration),
        Column("planned_gpu_h", "GPU-h planned", show_count),
        Column("rented_gpu_h", "GPU-h rented", show_count),
        Column("peak_gpus", "peak GPUs (times mean)"),
    ]
    if cluster.node_gpus > 1:
        columns.append(Column("node_rounding_gpus", "whole nodes (GPUs)"))
    if cluster.max_gpus is not None:
        columns.append(
            Column("above_max_gpus", f"time above {cluster.max_gpus:,} GPUs: planned, replayed")
        )
    if study.price is not None:
        columns.append(Column("billed_usd_per_month", "$/month billed", show_usd))
    rows = [
        [row[column.key] for column in columns]
        for row in (_row(study, p.plan, p.replayed) for p in study.points if p.replayed is not None)
    ]
    return Table(f"Replayed at recorded arrivals; {rented(cluster)}", tuple(columns), rows)


def rented(cluster: RentedCluster) -> str:
    """Return how a replay rents GPUs, for a title."""
    ready, idle, billed = map(
        show_duration, (cluster.provision_s, cluster.release_s, cluster.billing_s)
    )
    nodes = f"nodes of {cluster.node_gpus} GPUs" if cluster.node_gpus > 1 else "GPUs"
    by = f", billed by {billed}" if cluster.billing_s > 1 else ""
    return f"{nodes} are ready after {ready}, returned after {idle} idle{by}"


def _row(study: FrontierStudy, plan: Plan, replayed: ReplayedPlan) -> dict[str, Any]:
    """Return the cells of one budget by column."""
    replay, row = replayed.replay, fields_of(replayed.results())
    row["budget_gpus"] = plan.budget_gpus
    ratio = replay.peak_over_rented
    times = "" if ratio is None else f" ({ratio:.1f}x)"
    row["peak_gpus"] = Shown(replay.peak_gpus, f"{replay.peak_gpus:,}{times}")
    more = replayed.jobs.node_rounding_gpus
    share = more / replayed.jobs.single_rented_gpus
    row["node_rounding_gpus"] = Shown(more, f"{more:+,.1f} ({100 * share:+.1f}%)")
    law, seen = row["above_max_gpus_share_law"], row["above_max_gpus_share_replayed"]
    if law is not None:
        text = f"{show_share(law)}, {'-' if seen is None else show_share(seen)}"
        row["above_max_gpus"] = Shown(law, text)
    if study.price is not None:
        row["billed_usd_per_month"] = study.usd_per_month(replay.billed_gpus)
    return row
