"""All tables of ``gpuplan sweep``, which ``--full`` shows."""

from __future__ import annotations

from typing import Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import (
    show_between,
    show_count,
    show_duration,
    show_number,
    show_share,
    show_threshold,
    show_usd,
)
from gpuplan.planner.sweep.recommendation import Case
from gpuplan.planner.sweep.results import monthly, threshold_results
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.sweep import Sweep

ONLY_CSV = (
    "p90_jct_s",
    "p99_jct_s",
    "mean_demotion_s",
    "mean_threshold_s",
    "cost_serverless_usd",
    "cost_marketplace_usd",
    "cost_conventional_usd",
    "worker_busy_share",
    "workers_peak",
    "closed_form_cost_usd",
    "closed_form_delay_s",
    "own_price_ratio",
    "break_even_price_ratio",
)
TODAY = "today"
"""The name of the policy of ``--against`` next to the thresholds."""
NOTE = 16  # characters that fit in a note
NEVER = "never"
MARKED = "marked"
BEST_WORDS = {"recommended": "recommended", "knee": "best trade-off"}
"""Mark -> what people read."""
MARKS = ("recommended", "knee", "non_dominated")


def sweep_tables(found: Sweep, marked_s: float | None = None) -> tuple[Table, ...]:
    """Return the points, the choice in each case, where the money goes and the closed form.

    Among the points a fixed threshold may be marked, in seconds.
    """
    return (_points(found, marked_s), cases_table(found), _money(found), _closed_form(found))


def _points(found: Sweep, marked_s: float | None) -> Table:
    several = len(capacities_of(found)) > 1 or len(ratios_of(found)) > 1
    named = (
        *grid_columns(found),
        Column("", "threshold"),
        Column("policy", ""),
        Column("threshold_s", ""),
    )
    measured = (
        Column("cost_usd", "cost", show_usd),
        Column("usd_per_month", "$/month", show_usd),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("median_jct_s", "", show_duration),
        Column("p95_jct_s", "P95", show_duration),
        Column("mean_queue_s", "queue", show_duration),
        Column("finished_serverless_share", "serverless", show_share),
        Column(
            "deadline_miss_share",
            "late" if found.has_deadlines and not several else "",
            show_share,
        ),
        *(Column(key, "") for key in ONLY_CSV),
    )
    marked = (*(Column(mark, "") for mark in MARKS), Column("", "note"))
    rows: list[list[Any]] = []
    for index, point in enumerate(found.points):
        values, marks = fields_of(threshold_results(found, point)), found.marks(index)
        words = [BEST_WORDS[mark] for mark in BEST_WORDS if marks[mark]]
        words += [MARKED] if point.is_fixed_at(marked_s) else []
        words += [] if marks["non_dominated"] else ["dominated"]
        rows.append(
            [
                *(point.price_ratio, limit_of(point)),
                *(row_name(point), point.policy, point.threshold_s),
                *(values[column.key] for column in measured),
                *(marks[mark] for mark in MARKS),
                ", ".join(words),
            ]
        )
    if found.rented is not None:
        values = fields_of(threshold_results(found, found.rented))
        rows.append(
            [
                *(None, None, "all rented", "serverful_only", found.rented.threshold_s),
                *(values[column.key] for column in measured),
                *(
                    *(None for _ in MARKS),
                    "recommended" if found.cases[0].rented else "for comparison",
                ),
            ]
        )
    values = fields_of(threshold_results(found, found.reference))
    is_best = found.cases[0].best is None and found.cases[0].rented is None
    note = "recommended" if is_best else "for comparison"
    rows.append(
        [
            *(None, None, "all serverless", "serverless_only", found.reference.threshold_s),
            *(values[column.key] for column in measured),
            *(*(None for _ in MARKS), note),
        ]
    )
    if found.against is not None:
        reference_run = found.against
        measures = fields_of(monthly(found, reference_run))
        rows.append(
            [
                *(None, None, TODAY, reference_run.label, None),
                *(measures.get(column.key) for column in measured),
                *(
                    *(None for _ in MARKS),
                    reference_run.label
                    if len(reference_run.label) <= NOTE
                    else reference_run.policy,
                ),
            ]
        )
    title = "Cost and job completion time (JCT); queue: mean wait; serverless: jobs that end there"
    return Table(title, (*named, *measured, *marked), rows)


def grid_columns(found: Sweep) -> tuple[Column, Column]:
    """Return the columns of price ratio and capacity, shown where there are several."""
    return (
        Column("price_ratio", "price ratio" if len(ratios_of(found)) > 1 else "", show_number),
        Column("capacity", "capacity" if len(capacities_of(found)) > 1 else ""),
    )


def cases_table(found: Sweep) -> Table:
    """Return what to take at each price ratio and value of time."""
    valued = any(case.value_of_time is not None for case in found.cases)
    sampled = any(case.taken.confidence is not None for case in found.cases)
    columns = (
        *grid_columns(found),
        Column("value_of_time_usd_per_h", "job-hour" if valued else "", show_usd),
        Column("threshold", "take"),
        Column("cost_usd", "cost", show_usd),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("saving_share", "saving"),
        *([Column("best_share", "best in resamples", show_share)] if sampled else []),
        Column("break_even_price_ratio", "break-even", show_number),
    )
    rows: list[list[Any]] = []
    for case in found.cases:
        point, taken = found.taken(case), case.taken
        sure = taken.confidence
        share, between = taken.saving_share, None if sure is None else sure.saving_share
        if taken.against is not None:
            share, ends = taken.against.saving_share, taken.against.confidence
            between = None if ends is None else ends.saving_share
        saving: Shown | None = None
        if share is not None:
            text = show_share(share)
            if between is not None:
                text += f" ({show_between(*between, show_share)})"
            saving = Shown(share, text)
        rows.append(
            [
                *(case.price_ratio, limit_of(point), case.value_of_time),
                _taken(case, point),
                *(point.cost_usd, point.mean_jct_s, saving),
                *([sure and sure.best_share] if sampled else []),
                _break_even(point),
            ]
        )
    sure = found.cases[0].savings.confidence
    how = (
        ""
        if sure is None
        else f" ({sure.level_percent:g}% interval from {sure.resamples:,} resamples)"
    )
    title = f"Savings vs. everything serverless{how}; break-even: price ratio that saves nothing"
    if found.against is not None:
        title = f"Savings vs. {TODAY}{how}; break-even: where all serverless costs the same"
    return Table(title, columns, rows)


def _taken(case: Case, point: SweepPoint) -> str:
    if case.rented is not None:
        return "all rented"
    return "all serverless" if case.best is None else row_name(point)


def _money(found: Sweep) -> Table:
    columns = (
        *grid_columns(found),
        Column("", "threshold"),
        Column("mean_threshold_s", "mean", show_threshold),
        Column("cost_serverless_usd", "serverless", show_usd),
        Column("cost_marketplace_usd", "marketplace", show_usd),
        Column("cost_conventional_usd", "conventional", show_usd),
        Column("worker_busy_share", "busy", show_share),
        Column("workers_peak", "" if len(capacities_of(found)) > 1 else "peak", show_count),
        Column("closed_form_cost_usd", "closed form", show_usd),
        Column("break_even_price_ratio", "break-even", show_number),
    )
    keys = [column.key for column in columns[3:-2]]
    rows = [
        [
            *(point.price_ratio, limit_of(point), row_name(point)),
            *(getattr(point.results, key) for key in keys),
            point.closed_form_cost_usd,
            _break_even(point),
        ]
        for point in found.points
    ]
    return Table(
        "Where the money goes; busy: share of rented time; closed form: at the median price, "
        "without idle or starting workers; break-even: price ratio that saves nothing",
        columns,
        rows,
    )


def _closed_form(found: Sweep) -> Table:
    form = found.cases[0].closed_form
    columns = (
        Column("rule", "fixed threshold, without a replay"),
        Column("threshold_s", "threshold", show_threshold),
        Column("cost_usd", "cost", show_usd),
        Column("delay_s", "mean checkpoint and restore", show_duration),
    )
    rows: list[list[Any]] = []
    for name, at in (
        ("cheapest for these durations", form.best_s()),
        ("smallest that saves for these durations", form.break_even_s()),
        ("at most twice the cheapest for any durations", form.competitive_s),
    ):
        found_at = None if at is None else (float(form.cost_usd(at)), float(form.delay_s(at)))
        rows.append([name, at, *(found_at or (None, None))])
    title = (
        f"Closed form at {show_usd(form.serverless_usd)} serverless and "
        f"{show_usd(form.serverful_usd)} rented per GPU-hour"
    )
    return Table(title, columns, rows)


def show_capacity(most: int | None) -> str:
    """Return a limit on workers as people read it."""
    return "no limit" if most is None else f"{most:,}"


def _break_even(point: SweepPoint) -> float | Shown | None:
    return Shown(None, NEVER) if point.never_pays else point.break_even_price_ratio


def limit_of(point: SweepPoint) -> Shown:
    """Return the capacity of a point as a cell."""
    return Shown(point.capacity, show_capacity(point.capacity))


def capacities_of(found: Sweep) -> set[int | None]:
    """Return the capacities of a sweep."""
    return {point.capacity for point in found.points}


def ratios_of(found: Sweep) -> set[float]:
    """Return the price ratios of a sweep."""
    return {point.price_ratio for point in found.points}


def point_name(point: SweepPoint) -> str:
    """Return the threshold of a point in a sentence."""
    if point.policy == "fixed":
        if point.threshold_s == float("inf"):
            return "no threshold"
        return f"a threshold of {show_threshold(point.threshold_s)}"
    mean = show_threshold(point.results.mean_threshold_s)
    return f"an adaptive threshold (mean {mean})"


def row_name(point: SweepPoint) -> str:
    """Return the threshold of a point as a cell."""
    return show_threshold(point.threshold_s) if point.policy == "fixed" else "adaptive"
