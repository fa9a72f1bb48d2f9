"""What people read of ``gpuplan pareto`` over several GPU types, in dollars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.cli.pareto.headline import on_speedup, on_workload
from gpuplan.cli.pareto.tables import rented
from gpuplan.cli.pareto.widths import shown_widths, widths_table
from gpuplan.cli.report import Column, Shown, Table
from gpuplan.cli.units import show_duration, show_usd
from gpuplan.planner.boa.show import round_up, show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.boa.typed_study import TypedStudy


def usd_per_h(value: float) -> str:
    """Return dollars an hour, rounded up, so that a least budget keeps up when asked for."""
    return f"${round_up(value):,.2f}/h"


def typed_headline(study: TypedStudy) -> str:
    """Return the answer in a few sentences: the ends, the knee and its replay."""
    frontier, knee = study.frontier, study.knee
    mix = ", ".join(
        f"{show_gpus(gpus)} {name}" for name, gpus in knee.plan.gpus.items() if gpus > 0
    )
    said = (
        f"{study.workload.jobs:,} jobs keep {show_gpus(frontier.frontier.load_gpus)} GPUs busy at "
        f"one {study.recorded_on} each. No budget under {usd_per_h(frontier.min_usd_per_h)} keeps "
        f"up on any mix of {', '.join(study.prices)}, none over "
        f"{usd_per_h(frontier.saturation_usd_per_h)} gains; the knee is "
        f"{usd_per_h(knee.plan.plan.budget_gpus)} with a mean JCT of "
        f"{show_duration(knee.plan.plan.mean_jct_s)}, on {mix} on average."
    )
    if knee.trial is None:
        return said
    found = knee.trial.summary()
    peak = ", ".join(f"{gpus:,} {name}" for name, gpus in knee.trial.peak_gpus.items())
    return (
        f"{said} Replayed on the trace's own arrivals it gives "
        f"{show_duration(found['mean_jct_s'])} (95% of the jobs within "
        f"{show_duration(found['p95_jct_s'])}), and rents for "
        f"{usd_per_h(found['rented_usd_per_h'])} on average, at the peak {peak}."
    )


def typed_warnings(study: TypedStudy, *, assumed: bool) -> list[str]:
    """Return what a reader must know; ``assumed`` where no speedup was given."""
    found = [*on_speedup(study.speedup, assumed=assumed), *on_workload(study.workload)]
    if study.speedup.law is not None:
        found.append(
            f"jobs were taken as recorded on {study.recorded_on}, and every job as faster on the "
            "other types by the same factor"
        )
    return [*found, *study.notes, *study.workload.notes]


def typed_tables(study: TypedStudy) -> Iterator[Table]:
    """Yield the tables, the main one first."""
    yield _points(study)
    if any(point.trial is not None for point in study.points):
        yield _replays(study)
    points = shown_widths(study.by_request, study.points, study.shown)
    at = "dollars"
    if len(points) == 1:
        which = "the knee" if points[0] is study.knee else "the budget"
        at = f"{which}, {usd_per_h(points[0].plan.plan.budget_gpus)}"
    plans = [point.plan.plan for point in points]
    yield widths_table(study.frontier.frontier.classes, plans, at, usd_per_h)


def _points(study: TypedStudy) -> Table:
    """Return one row per budget."""
    columns = [
        Column("budget_usd_per_h", "budget ($/h)", show_usd),
        Column("budget_usd_per_month", "$/month", show_usd),
    ]
    if any(point.target_jct_s is not None for point in study.points):
        columns.append(Column("target_jct_s", "asked for"))
    columns.append(Column("mean_jct_s", "mean JCT", show_duration))
    if study.frontier.frontier.is_weighted:
        columns.append(Column("weighted_mean_jct_s", "weighted", show_duration))
    columns += [Column(f"used_gpus_{name}", f"{name} (GPUs)", show_gpus) for name in study.prices]
    columns += [
        Column("next_100_usd_month_saves_s", "next $100 a month saves", show_duration),
        Column("rounded_mean_jct_s", "JCT, no split", show_duration),
    ]
    rows = []
    for point in study.points:
        row = study.row(point)
        row |= {f"used_gpus_{name}": gpus for name, gpus in row["used_gpus"].items()}
        target = point.target_jct_s
        row["target_jct_s"] = Shown(
            target, "budget" if target is None else f"JCT {show_duration(target)}"
        )
        rows.append([row[column.key] for column in columns])
    priced = "; ".join(price.text for price in study.prices.values())
    return Table(f"What each budget buys, at {priced}", tuple(columns), rows)


def _replays(study: TypedStudy) -> Table:
    """Return one row per budget: what the plan promises beside what its replay gave."""
    assert study.cluster is not None
    columns = (
        Column("budget_usd_per_h", "budget ($/h)", show_usd),
        Column("planned_mean_jct_s", "mean JCT planned", show_duration),
        Column("mean_jct_s", "mean JCT replayed", show_duration),
        Column("planned_p95_jct_s", "P95 JCT planned", show_duration),
        Column("p95_jct_s", "P95 JCT replayed", show_duration),
        Column("rented_usd_per_h", "rented ($/h)", show_usd),
        Column("billed_usd_per_h", "billed ($/h)", show_usd),
        *(Column(f"peak_gpus_{name}", f"peak {name} (GPUs)") for name in study.prices),
    )
    rows: list[list[Any]] = []
    for point in study.points:
        if point.trial is None:
            continue
        row = {"budget_usd_per_h": point.plan.plan.budget_gpus, **point.trial.summary()}
        for name in study.prices:
            peak = point.trial.peak_gpus.get(name, 0)
            text = "-"
            if peak:
                text = f"{peak:,} ({peak / point.trial.replays[name].rented_gpus:.1f}x)"
            row[f"peak_gpus_{name}"] = Shown(peak, text)
        rows.append([row[column.key] for column in columns])
    title = f"Replayed on the trace's own arrivals; {rented(study.cluster)}; peak (x mean)"
    return Table(title, columns, rows)
