"""All tables of ``gpuplan sweep``, which ``--full`` shows."""

from __future__ import annotations

from operator import itemgetter

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Shown, Table, table, value_of
from gpuplan.cli.formats.units import (
    show_between,
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
AGAINST = "against"
"""The name of the policy of ``--against`` next to the thresholds."""
NOTE = 16  # characters that fit in a note
NEVER = "never"
MARKED = "marked"
BEST_WORDS = {"recommended": "recommended", "knee": "best trade-off"}
"""Mark -> what people read."""
MARKS = ("recommended", "knee", "non_dominated")


def sweep_tables(sweep: Sweep, marked_s: float | None = None) -> tuple[Table, ...]:
    """Return the points, the choice in each case, where the money goes and the closed form.

    Among the points a fixed threshold may be marked, in seconds.
    """
    return (_points(sweep, marked_s), cases_table(sweep), _money(sweep), _closed_form(sweep))


def _points(sweep: Sweep, marked_s: float | None) -> Table:
    several = len(capacities_of(sweep)) > 1 or len(ratios_of(sweep)) > 1
    case, rows = sweep.cases[0], []
    for index, point in enumerate(sweep.points):
        marks = sweep.marks(index)
        words = [BEST_WORDS[mark] for mark in BEST_WORDS if marks[mark]]
        words += [MARKED] if point.is_fixed_at(marked_s) else []
        words += [] if marks["non_dominated"] else ["dominated"]
        rows.append(
            {
                **fields_of(threshold_results(sweep, point)),
                **marks,
                "price_ratio": point.price_ratio,
                "capacity": limit_of(point),
                "threshold": row_name(point),
                "policy": point.policy,
                "note": ", ".join(words),
            }
        )
    is_all_serverless = case.best is None and case.rented is None
    for run, threshold, policy, is_best in (
        (sweep.rented, "all rented", "serverful_only", bool(case.rented)),
        (sweep.reference, "all serverless", "serverless_only", is_all_serverless),
    ):
        if run is not None:
            rows.append(
                {
                    **fields_of(threshold_results(sweep, run)),
                    **dict.fromkeys(("price_ratio", "capacity", *MARKS)),
                    "threshold": threshold,
                    "policy": policy,
                    "note": "recommended" if is_best else "for comparison",
                }
            )
    if (against := sweep.against) is not None:
        note = against.label if len(against.label) <= NOTE else against.policy
        named = {"threshold": AGAINST, "policy": against.label, "threshold_s": None, "note": note}
        rows.append(fields_of(monthly(sweep, against)) | named)
    return table(
        "Cost and job completion time (JCT); queue: mean wait; serverless: jobs that end there",
        rows,
        *grid_columns(sweep),
        Column("", "threshold", read=itemgetter("threshold")),
        {"policy": "", "threshold_s": "", "cost_usd": "cost"},
        Column("usd_per_month", "$/month", show_usd),
        {
            "mean_jct_s": "mean JCT",
            "median_jct_s": "",
            "p95_jct_s": "P95",
            "mean_queue_s": "queue",
            "finished_serverless_share": "serverless",
            "deadline_miss_share": "late" if sweep.has_deadlines and not several else "",
            **dict.fromkeys((*ONLY_CSV, *MARKS), ""),
        },
        Column("", "note", read=itemgetter("note")),
    )


def grid_columns(sweep: Sweep) -> tuple[Column, Column]:
    """Return the columns of price ratio and capacity, shown where there are several."""
    return (
        Column("price_ratio", "price ratio" if len(ratios_of(sweep)) > 1 else ""),
        Column("capacity", "capacity" if len(capacities_of(sweep)) > 1 else ""),
    )


def cases_table(sweep: Sweep) -> Table:
    """Return what to take at each price ratio and value of time."""
    valued = any(case.value_of_time is not None for case in sweep.cases)
    confidence = sweep.cases[0].savings.confidence
    how = (
        f" ({confidence.level_percent:g}% interval from {confidence.resamples:,} resamples)"
        if confidence is not None
        else ""
    )
    title = f"Savings vs. everything serverless{how}; break-even: price ratio that saves nothing"
    if sweep.against is not None:
        label = sweep.against.label if len(sweep.against.label) <= NOTE else sweep.against.policy
        title = f"Savings vs. {label}{how}; break-even: where all serverless costs the same"
    sampled = any(case.chosen_savings.confidence is not None for case in sweep.cases)
    rows = []
    for case in sweep.cases:
        point = sweep.recommended_in(case)
        rows.append(
            {
                "price_ratio": case.price_ratio,
                "capacity": limit_of(point),
                "value_of_time_usd_per_h": case.value_of_time,
                "threshold": _recommended_name(case, point),
                "cost_usd": point.cost_usd,
                "mean_jct_s": point.mean_jct_s,
                "saving": _saving(case),
                "best_share": value_of(case.chosen_savings, "confidence.best_share"),
                "break_even_price_ratio": _break_even(point),
            }
        )
    return table(
        title,
        rows,
        *grid_columns(sweep),
        {
            "value_of_time_usd_per_h": "job-hour" if valued else "",
            "threshold": "take",
            "cost_usd": "cost",
            "mean_jct_s": "mean JCT",
            "saving": "saving",
            **({"best_share": "best in resamples"} if sampled else {}),
            "break_even_price_ratio": "break-even",
        },
    )


def _saving(case: Case) -> Shown | None:
    """Return the share saved, with its interval where there is one."""
    savings = case.chosen_savings
    share = savings.saving_share
    ends: tuple[float, float] | None = value_of(savings, "confidence.saving_share")
    if savings.against is not None:
        share = savings.against.saving_share
        ends = value_of(savings.against, "confidence.saving_share")
    if share is None:
        return None
    interval = "" if ends is None else f" ({show_between(*ends, show_share)})"
    return Shown(share, f"{show_share(share)}{interval}")


def _recommended_name(case: Case, point: SweepPoint) -> str:
    if case.rented is not None:
        return "all rented"
    return "all serverless" if case.best is None else row_name(point)


def _money(sweep: Sweep) -> Table:
    return table(
        "Where the money goes; busy: share of rented time; closed form: at the median price, "
        "without idle or starting workers; break-even: price ratio that saves nothing",
        [
            {
                **fields_of(point.results),
                "price_ratio": point.price_ratio,
                "capacity": limit_of(point),
                "threshold": row_name(point),
                "closed_form_cost_usd": point.closed_form_cost_usd,
                "break_even_price_ratio": _break_even(point),
            }
            for point in sweep.points
        ],
        *grid_columns(sweep),
        Column("", "threshold", read=itemgetter("threshold")),
        Column("mean_threshold_s", "mean", show_threshold),
        {
            "cost_serverless_usd": "serverless",
            "cost_marketplace_usd": "marketplace",
            "cost_conventional_usd": "conventional",
            "worker_busy_share": "busy",
            "workers_peak": "" if len(capacities_of(sweep)) > 1 else "peak",
            "closed_form_cost_usd": "closed form",
            "break_even_price_ratio": "break-even",
        },
    )


def _closed_form(sweep: Sweep) -> Table:
    form = sweep.cases[0].closed_form
    rows = [
        {
            "rule": rule,
            "threshold_s": threshold_s,
            "cost_usd": None if threshold_s is None else float(form.cost_usd(threshold_s)),
            "delay_s": None if threshold_s is None else float(form.delay_s(threshold_s)),
        }
        for rule, threshold_s in (
            ("cheapest for these durations", form.best_s()),
            ("smallest that saves for these durations", form.break_even_s()),
            ("at most twice the cheapest for any durations", form.competitive_s),
        )
    ]
    return table(
        f"Closed form at {show_usd(form.serverless_usd)} serverless and "
        f"{show_usd(form.serverful_usd)} rented per GPU-hour",
        rows,
        {"rule": "fixed threshold, without a replay"},
        Column("threshold_s", "threshold", show_threshold),
        {"cost_usd": "cost", "delay_s": "mean checkpoint and restore"},
    )


def show_capacity(most: int | None) -> str:
    """Return a limit on workers as people read it."""
    return "no limit" if most is None else f"{most:,}"


def _break_even(point: SweepPoint) -> float | Shown | None:
    return Shown(None, NEVER) if point.never_pays else point.break_even_price_ratio


def limit_of(point: SweepPoint) -> Shown:
    """Return the capacity of a point as a cell."""
    return Shown(point.capacity, show_capacity(point.capacity))


def capacities_of(sweep: Sweep) -> set[int | None]:
    """Return the capacities of a sweep."""
    return {point.capacity for point in sweep.points}


def ratios_of(sweep: Sweep) -> set[float]:
    """Return the price ratios of a sweep."""
    return {point.price_ratio for point in sweep.points}


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
