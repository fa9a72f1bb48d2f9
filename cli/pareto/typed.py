"""What people read of ``gpuplan pareto`` over several GPU types, in dollars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.precision import Precision
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.shapes import shapes_table, timeline_row
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import show_duration, show_share, show_usd
from gpuplan.cli.pareto.headline import (
    AVERAGE_NOTE,
    UNUSED,
    averaged,
    on_speedup,
    on_workload,
)
from gpuplan.cli.pareto.tables import BEST, rented
from gpuplan.cli.pareto.widths import shown_widths, widths_table
from gpuplan.planner.frontier.model.format_gpus import round_up, show_gpus
from gpuplan.planner.frontier.replay.search import OVER

if TYPE_CHECKING:
    from gpuplan.planner.frontier.types.typed_study import TypedPoint, TypedStudy

SLOW = 1.5  # a replay above this multiple of the planned mean completion time gets a warning


def usd_per_h(value: float) -> str:
    """Return dollars an hour, rounded up, so that the least budget as shown is feasible."""
    return f"${round_up(value):,.2f}/h"


def typed_headline(study: TypedStudy) -> str:
    """Return the answer: today, the replay of the plan shown first, and the useful budgets."""
    precision, frontier, point = Precision(study.workload.jobs), study.frontier, study.shown
    rough = f" ({precision.caution}, so these figures are rough)" if precision.is_rough else ""
    usd, most = point.plan.plan.budget_gpus, frontier.saturation_usd_per_h
    budget = usd_per_h(usd)
    if usd > (1 + UNUSED) * most:
        budget += f" (of which at most {usd_per_h(most)} is of use)"
    mix = " and ".join(
        f"{precision.gpus(gpus)} {name}" for name, gpus in point.plan.gpus.items() if gpus > 0
    )
    useful = (
        f"You need at least {usd_per_h(frontier.min_usd_per_h)}; beyond "
        f"{usd_per_h(frontier.saturation_usd_per_h)}, more money buys nothing."
    )
    if point.replayed is None:
        planned = precision.duration(point.plan.plan.mean_jct_s)
        said = f"Planned{rough}, {budget} could give {planned} per job on {mix}."
    else:
        replayed = point.replayed
        over = averaged(replayed.lasts_h, study.workload.horizon_h)
        peak = " and ".join(f"{gpus:,} {name}" for name, gpus in replayed.peak_gpus.items())
        said = (
            f"In replay{rough}, {budget} {over} gives "
            f"{precision.duration(float(replayed.jct_s.mean()))} per job{_scaling(study)} on "
            f"{mix} on average, {peak} at the peak."
        )
    return " ".join(part for part in (_today(study, precision), said, useful) if part)


def _today(study: TypedStudy, precision: Precision) -> str:
    base = None if study.today is None else study.today.at_arrival_rate().usage.mean_gpus
    return today_text(study.today, precision, base)


def _scaling(study: TypedStudy) -> str:
    """Return the assumed law, if the speedups are one."""
    return "" if study.speedup.law is None else f" if jobs scale as {study.speedup.name}"


def typed_warnings(study: TypedStudy) -> list[str]:
    """Return what may change the decision, the most important first."""
    return [*_on_limit(study), *_on_budgets(study), *_on_replays(study)]


def typed_caveats(study: TypedStudy, *, assumed: bool) -> list[str]:
    """Return what else limits the result; ``assumed`` if no speedup was given."""
    found = [*_on_speeds(study), *on_speedup(study.speedup, assumed=assumed)]
    found += on_workload(study.workload)
    if study.speedup.law is not None:
        found.append(f"jobs are assumed to be recorded on {study.recorded_on}")
    return [*found, _on_average(study), *study.notes, *study.workload.notes]


def _on_speeds(study: TypedStudy) -> Iterator[str]:
    """Yield the assumptions about types without measurements."""
    speeds = study.speedup.assumed_speeds
    if not speeds:
        return
    first, *others = speeds
    faster = " and ".join(f"{speeds[name]:g} times as fast on {name}" for name in others)
    yield (
        f"every job is assumed to be {faster} as on {first}, with the same speedup curve "
        f"({study.speedup.name}): jobs differ in what they gain from a type, so give "
        "measurements of it if you can (a CSV with a gpu_type column)"
    )


def _on_limit(study: TypedStudy) -> Iterator[str]:
    """Yield a warning where more GPUs of a type are needed on average than can be rented."""
    most = None if study.cluster is None else study.cluster.max_gpus
    if most is None:
        return
    for name in study.prices:
        short = [point for point in study.points if point.plan.gpus[name] > most]
        if short:
            yield (
                f"at most {most:,} {name} can be rented, but {len(short)} of {len(study.points)} "
                "plans use more on average: there the queue grows until the arrivals end, and "
                "the replayed times say little"
            )


def _on_budgets(study: TypedStudy) -> Iterator[str]:
    """Yield a warning where bills exceed their budgets, with a budget that keeps within."""
    over = [
        (point, point.replayed)
        for point in study.points
        if point.target_jct_s is None
        and point.replayed
        and point.replayed.spent_over_budget > 1 + OVER
    ]
    if not over:
        return
    if not study.by_request:  # of a sweep the worst is enough
        over = [max(over, key=lambda pair: pair[1].spent_over_budget)]
    said = []
    for point, replayed in over:
        budget = replayed.plan.plan.budget_gpus
        text = f"billed {usd_per_h(replayed.billed_usd_per_h)} for {usd_per_h(budget)}"
        text += f" ({replayed.spent_over_budget - 1:+.0%}"
        if point.inside is not None:
            text += f"; --budget '${point.inside.plan.plan.budget_gpus:.2f}/h' keeps to it"
        elif study.by_request:
            text += "; no smaller budget keeps to it"
        said.append(f"{text})")
    yield (f"in replay, whole nodes, delays and the last jobs exceed the budget: {'; '.join(said)}")


def _on_replays(study: TypedStudy) -> Iterator[str]:
    """Yield a warning where a replay takes much longer than its plan."""
    trials = [point.replayed for point in study.points if point.replayed is not None]
    slow = [t for t in trials if t.jct_s.mean() > SLOW * t.plan.plan.mean_jct_s]
    if slow and study.by_request:
        best = min(trials, key=lambda replayed: float(replayed.jct_s.mean()))
        yield (
            f"{len(slow)} of {len(trials)} plans take more than {SLOW:g} times as long in the "
            f"replay as planned: of the requested budgets, "
            f"{usd_per_h(best.plan.plan.budget_gpus)} replays best, at "
            f"{show_duration(float(best.jct_s.mean()))}"
        )


def _on_average(study: TypedStudy) -> str:
    """Return a note on the meaning of a budget and the excess of the replays."""
    trials = [point.replayed for point in study.points if point.replayed is not None]
    ratios = [replayed.peak_usd_per_h / replayed.plan.plan.used_gpus for replayed in trials]
    if not ratios or min(ratios) < 1 or not trials:
        return AVERAGE_NOTE
    low, high = (f"{ratio:.1f}" for ratio in (min(ratios), max(ratios)))
    between = high if low == high else f"{low} to {high}"
    return (
        f"a budget is an average over time: what is rented at once peaks at {between} times it in "
        "the replay, so the clouds must be able to give that many GPUs"
    )


def typed_tables(study: TypedStudy) -> Iterator[Table]:
    """Yield the tables, the main one first."""
    yield _points(study)
    if any(point.replayed is not None for point in study.points):
        yield _replays(study)
        if _is_limited(study):
            yield _by_type(study)
    points = shown_widths(study.by_request, study.points, study.shown)
    yield from _over_time(study, points)
    at = "dollars"
    if len(points) == 1:
        which = BEST if points[0] is study.knee else "the budget"
        at = f"{which}, {usd_per_h(points[0].plan.plan.budget_gpus)}"
    plans = [point.plan.plan for point in points]
    yield widths_table(study.frontier.frontier.classes, plans, at, usd_per_h)


def _points(study: TypedStudy) -> Table:
    """Return one row per budget."""
    from gpuplan.planner.studies.frontier_results import mix_point_results

    columns = [
        Column("budget_usd_per_h", "budget ($/h)", show_usd),
        Column("budget_usd_per_month", "$/month", show_usd),
    ]
    if any(point.target_jct_s is not None for point in study.points):
        columns.append(Column("target_jct_s", "requested"))
    columns.append(Column("mean_jct_s", "mean JCT", show_duration))
    if study.frontier.frontier.is_weighted:
        columns.append(Column("weighted_mean_jct_s", "weighted", show_duration))
    columns += [Column(f"used_gpus_{name}", f"{name} (GPUs)", show_gpus) for name in study.prices]
    columns += [
        Column("next_100_usd_month_saves_s", "next $100 a month saves", show_duration),
        Column("rounded_mean_jct_s", "JCT without splits", show_duration),
    ]
    rows = []
    for point in study.points:
        row = fields_of(mix_point_results(study, point))
        row |= {f"used_gpus_{name}": gpus for name, gpus in row["used_gpus"].items()}
        target = point.target_jct_s
        row["target_jct_s"] = Shown(
            target, "budget" if target is None else f"JCT {show_duration(target)}"
        )
        rows.append([row[column.key] for column in columns])
    priced = "; ".join(price.text for price in study.prices.values())
    return Table(f"What each budget buys, at {priced}", tuple(columns), rows)


def _replays(study: TypedStudy) -> Table:
    """Return one row per budget: planned next to replayed results."""
    assert study.cluster is not None
    columns = (
        Column("budget_usd_per_h", "budget ($/h)", show_usd),
        Column("planned_mean_jct_s", "mean JCT planned", show_duration),
        Column("mean_jct_s", "mean JCT replayed", show_duration),
        Column("planned_p95_jct_s", "P95 JCT planned", show_duration),
        Column("p95_jct_s", "P95 JCT replayed", show_duration),
        Column("rented_usd_per_h", "rented ($/h)", show_usd),
        Column("billed_usd_per_h", "billed ($/h)", show_usd),
        Column("node_rounding_usd_per_h", "", show_usd),
        *(Column(f"peak_gpus_{name}", f"peak {name} (GPUs)") for name in study.prices),
    )
    rows: list[list[Any]] = []
    for point in study.points:
        if point.replayed is None:
            continue
        row = {
            "budget_usd_per_h": point.plan.plan.budget_gpus,
            **fields_of(point.replayed.results()),
        }
        for name in study.prices:
            peak = point.replayed.peak_gpus.get(name, 0)
            text = "-"
            if peak:
                ratio = point.replayed.types[name].replay.peak_over_rented
                text = f"{peak:,}" if ratio is None else f"{peak:,} ({ratio:.1f}x)"
            row[f"peak_gpus_{name}"] = Shown(peak, text)
        rows.append([row[column.key] for column in columns])
    title = f"Replayed at recorded arrivals; {rented(study.cluster)}; peak (times mean)"
    return Table(title, columns, rows)


def _is_limited(study: TypedStudy) -> bool:
    cluster = study.cluster
    return cluster is not None and (cluster.node_gpus > 1 or cluster.max_gpus is not None)


def _by_type(study: TypedStudy) -> Table:
    """Return one row per budget and type: what whole nodes cost, and how often a limit binds."""
    cluster = study.cluster
    assert cluster is not None
    columns = [
        Column("budget_usd_per_h", "budget ($/h)", show_usd),
        Column("gpu_type", "type"),
        Column("rented_gpus", "rented GPUs", show_gpus),
    ]
    if cluster.node_gpus > 1:
        columns += [
            Column("node_rounding_gpus", "whole nodes (GPUs)"),
            Column("node_rounding_usd_per_h", "whole nodes ($/h)", show_usd),
        ]
    if cluster.max_gpus is not None:
        columns.append(
            Column("above_max_gpus", f"time above {cluster.max_gpus:,} GPUs: planned, replayed")
        )
    rows = []
    for point in study.points:
        if point.replayed is None:
            continue
        for name, one in point.replayed.types.items():
            law, seen = one.above_max_gpus_share_law, one.above_max_gpus_share
            shares = ", ".join("-" if at is None else show_share(at) for at in (law, seen))
            more = one.node_rounding_gpus
            row = {
                "budget_usd_per_h": point.plan.plan.budget_gpus,
                "gpu_type": name,
                "rented_gpus": one.replay.rented_gpus,
                "node_rounding_gpus": Shown(
                    more, f"{more:+,.1f} ({100 * more / one.single_rented_gpus:+.1f}%)"
                ),
                "node_rounding_usd_per_h": study.prices[name].usd_per_gpu_h * more,
                "above_max_gpus": Shown(law, shares),
            }
            rows.append([row[column.key] for column in columns])
    return Table("The replays by GPU type", tuple(columns), rows)


def _over_time(study: TypedStudy, points: list[TypedPoint]) -> Iterator[Table]:
    """Yield the dollars and GPUs rented over time for the budgets with widths shown."""
    for point in points:
        if point.replayed is None:
            continue
        line = point.replayed.timeline()
        rows = [timeline_row("dollars an hour, mean", [one.mean_usd_per_h for one in line])]
        rows += [
            timeline_row(f"{name} rented, mean", [one.mean_gpus[name] for one in line])
            for name in point.replayed.types
        ]
        yield shapes_table(f"Over time ({timeline_of(study, point)})", rows)


def timeline_of(study: TypedStudy, point: TypedPoint) -> str:
    """Return the title of a time line."""
    which = BEST if point is study.knee else "the budget"
    return f"{which}, {usd_per_h(point.plan.plan.budget_gpus)}"
