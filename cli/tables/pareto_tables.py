"""The tables of ``gpuplan pareto --full``: planned and replayed results of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Shown, Table, shapes_table, table, timeline_row
from gpuplan.cli.formats.units import show_count, show_duration, show_share, show_usd
from gpuplan.cli.tables.pareto_widths import shown_widths, widths_table
from gpuplan.planner.frontier.model.format_gpus import show_gpus, usd_per_h

if TYPE_CHECKING:
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.replay.plan_replay import ReplayedJobs, ReplayedPlan
    from gpuplan.planner.frontier.study import FrontierStudy

BEST = "the best trade-off"
"""What people call the knee of the frontier."""
STEPS = {"gpu": "next GPU", "1pct": "+1% of GPUs", "100_usd_month": "next $100 a month"}
REPLAYED = ("mean_jct_s", "p95_jct_s", "rented_gpu_h", "rented_gpus", "peak_gpus")
"""Figures of a replay that CSV has of each budget."""
IN_GPUS = Column("budget_gpus", "budget (GPUs)", show_gpus)
IN_DOLLARS = Column("budget_usd_per_h", "budget ($/h)", show_usd)


def study_tables(study: FrontierStudy) -> Iterator[Table]:
    """Yield the tables, the main one first."""
    yield points_table(study)
    if study.cluster is not None and any(point.replayed is not None for point in study.points):
        yield _replays(study, study.cluster)
        if study.is_mixed and (study.cluster.node_gpus > 1 or study.cluster.max_gpus is not None):
            yield _replays_by_type(study, study.cluster)
    points = shown_widths(study)
    for point in points if study.is_mixed else [study.shown]:
        if point.replayed is not None:
            yield _over_time(study, point, point.replayed)
    at = "dollars" if study.is_mixed else "GPUs on average"
    if len(points) == 1:
        at = _called(study, points[0])
    show = usd_per_h if study.is_mixed else show_gpus
    yield widths_table(study.frontier.classes, [point.plan for point in points], at, show)


def _called(study: FrontierStudy, point: Point) -> str:
    """Return what a point is called, with its budget."""
    budget = point.plan.budget
    text = usd_per_h(budget) if study.is_mixed else f"{show_gpus(budget)} GPUs on average"
    return f"{BEST if study.recommends and point is study.knee else 'the budget'}, {text}"


def points_table(study: FrontierStudy) -> Table:
    """Return one row per budget; on one GPU type its CSV also has the replay."""
    rows = []
    for point in study.points:
        row = fields_of(point)
        row |= {f"used_gpus_{name}": gpus for name, gpus in point.gpus.items()}
        for end, jct_s in zip(("low", "high"), point.ends_jct_s, strict=False):
            row[f"mean_jct_s_at_{end}_end"] = Shown(None, "too few") if jct_s is None else jct_s
        target = point.target_jct_s
        requested = "budget" if target is None else f"JCT {show_duration(target)}"
        row["target_jct_s"] = Shown(target, requested)
        if point.replayed is not None:
            replayed = fields_of(point.replayed)
            row |= {f"replayed_{key}": value for key, value in replayed.items()}
        rows.append(row)
    title = "What each budget buys"
    if not study.is_exact:
        title += f" by --method {study.method}, vs. the optimum"
    if study.prices:
        title += f", at {study.priced}"
    if study.ends:
        title += f"; the columns after the JCTs are at {study.speedup.name}"
    return table(title, rows, *_columns(study))


def _columns(study: FrontierStudy) -> Iterator[Column | dict[str, str]]:
    is_mixed, weighted = study.is_mixed, study.frontier.is_weighted
    if is_mixed:
        yield IN_DOLLARS
        yield Column("budget_usd_per_month", "$/month", show_usd)
    else:
        yield IN_GPUS
        yield Column("budget_x_load", "times the load", lambda x: f"{x:.2f}")
        if study.price is not None:
            yield Column("usd_per_month", "$/month", show_usd)
    if any(point.target_jct_s is not None for point in study.points):
        yield {"target_jct_s": "requested"}
    if study.ends:  # space for the range of speedups
        low, high = (model.name for model in study.speedup.ends or ())
        yield Column("mean_jct_s_at_low_end", f"JCT at {low}", show_duration)
        yield {"mean_jct_s": f"JCT at {study.speedup.name}"}
        yield Column("mean_jct_s_at_high_end", f"JCT at {high}", show_duration)
    else:
        yield {"mean_jct_s": "mean JCT"}
    if weighted:
        yield {"weighted_mean_jct_s": "weighted"}
    if not study.is_exact:
        yield {"optimal_mean_jct_s": "optimum"}
    for name in study.frontier.prices:
        yield Column(f"used_gpus_{name}", f"{name} (GPUs)", show_gpus)
    if not (study.ends or is_mixed):
        yield {"mean_jct_over_one_gpu": "% of 1-GPU JCT"}
        yield Column("used_gpus", "used (GPUs)", show_gpus)
    if not is_mixed:  # with both a weighted mean and a range of speedups it is in CSV only
        yield {"utilization": "" if weighted and study.ends else "efficiency"}
    if study.is_exact:
        step = study.step()
        yield {f"next_{step}_saves_s": f"{STEPS[step]} saves"}
    yield {"rounded_mean_jct_s": "JCT without splits"}
    if study.cluster is not None and not is_mixed:
        yield {f"replayed_{key}": "" for key in REPLAYED}


def _replays(study: FrontierStudy, cluster: RentedCluster) -> Table:
    """Return one row per budget: planned next to replayed results."""
    peak = "; peak (times mean)" if study.is_mixed else ""
    return table(
        f"Replayed at recorded arrivals; {rented(cluster)}{peak}",
        [_row(study, p, p.replayed) for p in study.points if p.replayed is not None],
        *_replay_columns(study, cluster),
    )


def _replay_columns(
    study: FrontierStudy, cluster: RentedCluster
) -> Iterator[Column | dict[str, str]]:
    yield IN_DOLLARS if study.is_mixed else IN_GPUS
    yield {
        "planned_mean_jct_s": "mean JCT planned",
        "mean_jct_s": "mean JCT replayed",
        "planned_p95_jct_s": "P95 JCT planned",
        "p95_jct_s": "P95 JCT replayed",
    }
    if study.is_mixed:
        yield {"rented_usd_per_h": "rented ($/h)", "billed_usd_per_h": "billed ($/h)"}
        yield {"node_rounding_usd_per_h": ""}
        yield {f"peak_gpus_{name}": f"peak {name} (GPUs)" for name in study.frontier.prices}
        return
    yield Column("planned_gpu_h", "GPU-h planned", show_count)
    yield Column("rented_gpu_h", "GPU-h rented", show_count)
    yield {"peak_gpus": "peak GPUs (times mean)"}
    if cluster.node_gpus > 1:
        yield {"node_rounding_gpus": "whole nodes (GPUs)"}
    yield _above(cluster)
    if study.price is not None:
        yield Column("billed_usd_per_month", "$/month billed", show_usd)


def _above(cluster: RentedCluster) -> dict[str, str]:
    """Return the column of how often a limit binds; none without a limit."""
    if cluster.max_gpus is None:
        return {}
    return {"above_max_gpus": f"time above {cluster.max_gpus:,} GPUs: planned, replayed"}


def _row(study: FrontierStudy, point: Point, replayed: ReplayedPlan) -> dict[str, Any]:
    """Return the cells of the replay of one budget."""
    row = {**fields_of(point), **fields_of(replayed)}
    for name in study.frontier.prices:
        row[f"peak_gpus_{name}"] = Shown(0, "-")
    for name, jobs in replayed.by_type.items():
        ratio = jobs.peak_over_rented
        times = "" if ratio is None else f" ({ratio:.1f}x)"
        peak = Shown(jobs.peak_gpus, f"{jobs.peak_gpus:,}{times}")
        row |= {"peak_gpus": peak, f"peak_gpus_{name}": peak, **_limits(jobs)}
    return row


def _limits(jobs: ReplayedJobs) -> dict[str, Shown]:
    """Return the cells of what whole nodes take, and how often a limit binds."""
    more, law = jobs.node_rounding_gpus, jobs.above_max_gpus_share_law
    share = 100 * more / jobs.single_rented_gpus
    shares = (law, jobs.above_max_gpus_share_replayed)
    above = ", ".join("-" if part is None else show_share(part) for part in shares)
    return {
        "node_rounding_gpus": Shown(more, f"{more:+,.1f} ({share:+.1f}%)"),
        "above_max_gpus": Shown(law, above),
    }


def rented(cluster: RentedCluster) -> str:
    """Return how a replay rents GPUs, for a title."""
    ready, idle, billed = map(
        show_duration, (cluster.provision_s, cluster.release_s, cluster.billing_s)
    )
    nodes = f"nodes of {cluster.node_gpus} GPUs" if cluster.node_gpus > 1 else "GPUs"
    by = f", billed by {billed}" if cluster.billing_s > 1 else ""
    return f"{nodes} are ready after {ready}, returned after {idle} idle{by}"


def _replays_by_type(study: FrontierStudy, cluster: RentedCluster) -> Table:
    """Return one row per budget and type: what whole nodes cost, and how often a limit binds."""
    whole_nodes = {
        "node_rounding_gpus": "whole nodes (GPUs)",
        "node_rounding_usd_per_h": "whole nodes ($/h)",
    }
    rows = [
        {
            "budget_usd_per_h": point.budget_usd_per_h,
            "gpu_type": name,
            "rented_gpus": jobs.rented_gpus,
            "node_rounding_usd_per_h": study.frontier.prices[name] * jobs.node_rounding_gpus,
            **_limits(jobs),
        }
        for point in study.points
        if point.replayed is not None
        for name, jobs in point.replayed.by_type.items()
    ]
    return table(
        "The replays by GPU type",
        rows,
        IN_DOLLARS,
        {"gpu_type": "type"},
        Column("rented_gpus", "rented GPUs", show_gpus),
        whole_nodes if cluster.node_gpus > 1 else {},
        _above(cluster),
    )


def _over_time(study: FrontierStudy, point: Point, replayed: ReplayedPlan) -> Table:
    """Return what is rented over time for a budget."""
    periods = replayed.timeline()
    mean = [period.mean for period in periods]
    rows = [timeline_row("dollars an hour, mean" if study.is_mixed else "GPUs rented, mean", mean)]
    for name in replayed.by_type if study.is_mixed else ():
        gpus = [p.mean_gpus[name] for p in periods if isinstance(p.mean_gpus, dict)]
        rows.append(timeline_row(f"{name} rented, mean", gpus))
    return shapes_table(f"Over time ({_called(study, point)})", rows)
