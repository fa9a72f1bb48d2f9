"""The tables of ``gpuplan sweep`` and its one answer."""

from __future__ import annotations

from typing import Any

from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import (
    show_between,
    show_count,
    show_duration,
    show_jobs,
    show_number,
    show_share,
    show_threshold,
    show_usd,
)
from gpuplan.planner.sweep.pareto_front import NEARLY
from gpuplan.planner.sweep.recommendation import Case
from gpuplan.planner.sweep.reference_policy import ReferenceRun
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
LEAST_LESS = 0.01
"""A bill that is smaller by less is not worth a sentence."""
MARKED = "marked"
MARKS = ("recommended", "knee", "non_dominated")


def headline(found: Sweep) -> str:
    """Return the recommendation, its reason, its savings and their confidence."""
    case, chosen = found.cases[0], found.recommended
    rivals = sum(point.price_ratio == case.price_ratio for point in found.points)
    tried = f"{rivals} replay{'s' * (rivals > 1)} and everything serverless"
    why = (
        f"the cheapest of {tried} whose mean JCT is within {100 * NEARLY:g}% of the least"
        if case.value_of_time is None
        else f"the least of {tried} with an hour of a job worth {show_usd(case.value_of_time)}"
    )
    at = f" at a price ratio of {case.price_ratio:g}" if len(_ratios(found)) > 1 else ""
    jobs = show_jobs(case.closed_form.jobs, found.span_s)
    first = (
        f"Recommended{at} for {jobs}: {_called(found, case.recommended)}, "
        f"{show_usd(chosen.cost_usd)} for a mean JCT of {show_duration(chosen.mean_jct_s)}; {why}."
    )
    return " ".join(filter(None, (first, _saving(case, found), _cheaper(case, found))))


def _called(found: Sweep, index: int | None) -> str:
    """Return the name of a point of a case in a sentence."""
    if index is None:
        return "everything serverless"
    point = found.points[index]
    if _capacities(found) == 1:
        return _name(point)
    most = point.capacity
    return f"{_name(point)} with" + (
        "out a limit on workers" if most is None else f" at most {most:,} workers"
    )


def _cheaper(case: Case, found: Sweep) -> str:
    """Return savings and mean JCT of the least bill of all, if the rule of `NEARLY` hides it."""
    cheapest, chosen = found.point(case.cheapest), found.chosen(case)
    less = chosen.cost_usd - cheapest.cost_usd
    if case.value_of_time is not None or less < LEAST_LESS * chosen.cost_usd or not less:
        return ""
    return (
        f"The cheapest, {_called(found, case.cheapest)}, costs {show_usd(less)} "
        f"({show_share(less / chosen.cost_usd)}) less for "
        f"{show_duration(cheapest.mean_jct_s - chosen.mean_jct_s)} more a job; --value-of-time "
        "weighs the two."
    )


def _saving(case: Case, found: Sweep) -> str:
    sure, reference_run, other = case.confidence, found.against, case.against
    best = "" if sure is None else f"is best in {show_share(sure.best_share)} of resamples"
    if reference_run is not None and other is not None:
        says = _less(other.saving_usd, other.saving_share, other.level, other.usd)
        instead = f"{reference_run.label} ({_bill(reference_run)}), whose mean JCT is "
        change_s = other.mean_jct_change_s
        if round(change_s, 6):
            instead += f"{show_duration(abs(change_s))} {'longer' if change_s < 0 else 'shorter'}"
        else:
            instead += "the same"
        return f"{says} {instead}" + (f"; it {best}." if best else ".")
    if case.recommended is None:
        return f"It {best}." if best else ""
    level, between = (sure.level, sure.saving_usd) if sure else (None, None)
    says = _less(case.saving_usd, case.saving_share, level, between)
    return f"{says} everything serverless ({_bill(found.reference)})" + (
        f" and {best}." if best else "."
    )


def _less(
    saving_usd: float,
    saving_share: float | None,
    level: float | None,
    between_usd: tuple[float, float] | None,
) -> str:
    details = [] if saving_share is None else [show_share(abs(saving_share))]
    if saving_usd >= 0 and between_usd is not None:
        details.append(f"{level:g}% interval {show_between(*between_usd, show_usd)}")
    much = show_usd(abs(saving_usd)) + (f" ({'; '.join(details)})" if details else "")
    return f"It saves {much} against" if saving_usd >= 0 else f"It costs {much} more than"


def _bill(point: SweepPoint | ReferenceRun) -> str:
    return f"{show_usd(point.cost_usd)} for {show_duration(point.mean_jct_s)}"


def sweep_tables(found: Sweep, marked_s: float | None = None) -> tuple[Table, ...]:
    """Return the points, the choice in each case, where the money goes and the closed form.

    Among the points a fixed threshold may be marked, in seconds.
    """
    return (_points(found, marked_s), _cases(found), _money(found), _closed_form(found))


def _points(found: Sweep, marked_s: float | None) -> Table:
    several = _capacities(found) > 1 or len(_ratios(found)) > 1
    named = (
        *_grid_columns(found),
        Column("", "threshold"),
        Column("policy", ""),
        Column("threshold_s", ""),
    )
    measured = (
        Column("cost_usd", "cost", show_usd),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("median_jct_s", "" if several else "median", show_duration),
        Column("p95_jct_s", "P95", show_duration),
        Column("mean_queue_s", "queue", show_duration),
        Column("finished_serverless_share", "serverless", show_share),
        Column("deadline_miss_share", "" if several else "late", show_share),
        *(Column(key, "") for key in ONLY_CSV),
    )
    marked = (*(Column(mark, "") for mark in MARKS), Column("", "note"))
    rows: list[list[Any]] = []
    for index, point in enumerate(found.points):
        values, marks = point.summary(), found.marks(index)
        words = [mark for mark in ("recommended", "knee") if marks[mark]]
        words += [MARKED] if point.is_fixed_at(marked_s) else []
        words += [] if marks["non_dominated"] else ["dominated"]
        rows.append(
            [
                *(point.price_ratio, _limit(point)),
                *(_row_name(point), point.policy, point.threshold_s),
                *(values[column.key] for column in measured),
                *(marks[mark] for mark in MARKS),
                ", ".join(words),
            ]
        )
    values = found.reference.summary()
    note = "recommended" if found.cases[0].recommended is None else "for comparison"
    rows.append(
        [
            *(None, None, "all serverless", "serverless_only", found.reference.threshold_s),
            *(values[column.key] for column in measured),
            *(*(None for _ in MARKS), note),
        ]
    )
    if found.against is not None:
        reference_run, values = found.against, found.against.summary()
        rows.append(
            [
                *(None, None, TODAY, reference_run.label, None),
                *(values.get(column.key) for column in measured),
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


def _grid_columns(found: Sweep) -> tuple[Column, Column]:
    return (
        Column("price_ratio", "price ratio" if len(_ratios(found)) > 1 else "", show_number),
        Column("capacity", "capacity" if _capacities(found) > 1 else ""),
    )


def _cases(found: Sweep) -> Table:
    valued = any(case.value_of_time is not None for case in found.cases)
    columns = (
        *_grid_columns(found),
        Column("value_of_time_usd_per_h", "job-hour" if valued else "", show_usd),
        Column("threshold", "take"),
        Column("cost_usd", "cost", show_usd),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("saving_share", "saving"),
        Column("best_share", "best in", show_share),
        Column("break_even_price_ratio", "break-even", show_number),
    )
    rows: list[list[Any]] = []
    for case in found.cases:
        point, sure = found.chosen(case), case.confidence
        share, between = case.saving_share, None if sure is None else sure.saving_share
        if case.against is not None:
            share, between = case.against.saving_share, case.against.share
        saving: Shown | None = None
        if share is not None:
            text = show_share(share)
            if between is not None:
                text += f" ({show_between(*between, show_share)})"
            saving = Shown(share, text)
        rows.append(
            [
                *(case.price_ratio, _limit(point), case.value_of_time),
                "all serverless" if case.recommended is None else _row_name(point),
                *(point.cost_usd, point.mean_jct_s, saving),
                sure and sure.best_share,
                _break_even(point),
            ]
        )
    sure = found.cases[0].confidence
    how = (
        ""
        if sure is None
        else f" ({sure.level:g}% interval; best in: of {sure.resamples:,} resamples)"
    )
    title = f"Against everything serverless{how}; break-even: price ratio at which it saves nothing"
    if found.against is not None:
        title = (
            f"Against {TODAY}{how}; break-even: price ratio at which all serverless costs the same"
        )
    return Table(title, columns, rows)


def _money(found: Sweep) -> Table:
    columns = (
        *_grid_columns(found),
        Column("", "threshold"),
        Column("mean_threshold_s", "mean", show_threshold),
        Column("cost_serverless_usd", "serverless", show_usd),
        Column("cost_marketplace_usd", "marketplace", show_usd),
        Column("cost_conventional_usd", "conventional", show_usd),
        Column("worker_busy_share", "busy", show_share),
        Column("workers_peak", "" if _capacities(found) > 1 else "peak", show_count),
        Column("closed_form_cost_usd", "closed form", show_usd),
        Column("break_even_price_ratio", "break even", show_number),
    )
    keys = [column.key for column in columns[3:-2]]
    rows = [
        [
            *(point.price_ratio, _limit(point), _row_name(point)),
            *(point.results[key] for key in keys),
            point.closed_form_cost_usd,
            _break_even(point),
        ]
        for point in found.points
    ]
    return Table(
        "Where the money goes; busy: workers; closed form: median price, none idle or starting; "
        "break even: as above, never where moving jobs pays at no price",
        columns,
        rows,
    )


def _closed_form(found: Sweep) -> Table:
    form = found.cases[0].closed_form
    columns = (
        Column("rule", "fixed threshold without a simulation"),
        Column("threshold_s", "threshold", show_threshold),
        Column("cost_usd", "cost", show_usd),
        Column("delay_s", "mean checkpoint and restore", show_duration),
    )
    rows: list[list[Any]] = []
    for name, at in (
        ("best for these durations", form.best_s()),
        ("least that saves on these durations", form.break_even_s()),
        ("at most twice the best for any durations", form.competitive_s),
    ):
        found_at = None if at is None else (float(form.cost_usd(at)), float(form.delay_s(at)))
        rows.append([name, at, *(found_at or (None, None))])
    title = (
        f"Closed form at {show_usd(form.serverless_usd)} serverless and "
        f"{show_usd(form.serverful_usd)} serverful per GPU-hour"
    )
    return Table(title, columns, rows)


def show_capacity(most: int | None) -> str:
    """Return a limit on workers as people read it."""
    return "no limit" if most is None else f"{most:,}"


def _break_even(point: SweepPoint) -> float | Shown | None:
    return Shown(None, NEVER) if point.never_pays else point.break_even_ratio


def _limit(point: SweepPoint) -> Shown:
    return Shown(point.capacity, show_capacity(point.capacity))


def _capacities(found: Sweep) -> int:
    return len({point.capacity for point in found.points})


def _ratios(found: Sweep) -> set[float]:
    return {point.price_ratio for point in found.points}


def _name(point: SweepPoint) -> str:
    if point.policy == "fixed":
        return f"threshold {show_threshold(point.threshold_s)}"
    mean = show_threshold(point.results["mean_threshold_s"])
    return f"adaptive threshold (mean {mean})"


def _row_name(point: SweepPoint) -> str:
    return show_threshold(point.threshold_s) if point.policy == "fixed" else "adaptive"
