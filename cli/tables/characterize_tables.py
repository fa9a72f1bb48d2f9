"""What people read of a workload: headline, statistics, groups, and usage by GPU type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from gpuplan.analysis.base.plain import fields_of, plain
from gpuplan.analysis.characterize.clock import in_zone, shown_zone
from gpuplan.cli.formats.report import (
    Column,
    Shown,
    Table,
    shapes_table,
    sparkline,
    table,
    timeline_row,
)
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import (
    show_count,
    show_duration,
    show_ends,
    show_jobs,
    show_number,
    show_share,
)

if TYPE_CHECKING:
    from gpuplan.analysis.characterize import Characterization
    from gpuplan.analysis.characterize.shares import Groups, StateShare
    from gpuplan.analysis.characterize.today import GpuUsage, Today

MIX_ROWS = 12
MOST_TYPES = 10
NAME_CHARS = 24
WAIT_CHARS = 8
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
GROUP_TITLES = {
    "job_class": ("Job classes", "class"),
    "user": ("Users", "user"),
    "group": ("Groups", "group"),
}
UNIT_SHOW: dict[str, Callable[[Any], str]] = {
    "s": show_duration,
    "share": show_share,
    "jobs": show_count,
    "users": show_count,
    "hours": show_count,
    "gpus": show_number,
    "gpu_h": show_number,
    "1": show_number,
}

Row = tuple[str, str, str, str]
"""Path in the JSON results, label, unit, meaning."""

STATISTICS: tuple[Row, ...] = (
    ("jobs", "jobs", "jobs", ""),
    ("cpu_only_jobs", "CPU-only jobs", "jobs", "hold no GPU; not in GPU statistics"),
    ("censored_jobs", "still running", "jobs", "duration is only a lower bound"),
    ("users", "users", "users", ""),
    ("span_s", "span", "s", "first to last submission"),
    ("duration_s.mean", "mean duration", "s", "run time, without the wait"),
    ("duration_s.p50", "P50 duration", "s", "half of the jobs finish within"),
    ("duration_s.p90", "P90 duration", "s", "9 in 10 jobs finish within"),
    ("duration_s.p95", "P95 duration", "s", "19 in 20 jobs finish within"),
    ("duration_s.p99", "P99 duration", "s", "99 in 100 jobs finish within"),
    ("duration_s.max", "longest", "s", ""),
    ("short_jobs.under_60s", "up to 1 min", "share", "of jobs"),
    ("short_jobs.under_600s", "up to 10 min", "share", "of jobs"),
    ("gpu_time.gpu_hours", "GPU-hours", "gpu_h", "duration x GPUs"),
    ("gpu_time.top10pct_longest_share", "longest 10%", "share", "of GPU time"),
    ("gpu_time.top1pct_longest_share", "longest 1%", "share", "of GPU time"),
    ("gpu_time.gini", "Gini of GPU time", "1", "0 all jobs equal, 1 one job has all"),
    ("interarrival.mean_s", "mean gap", "s", "between submissions"),
    ("interarrival.scv", "burstiness", "1", "squared CV of inter-arrival times; 1 is Poisson"),
    ("interarrival.zero_share", "zero gaps", "share", "submitted at the same time as another"),
    (
        "arrivals.seasonality.daily_strength",
        "daily rhythm",
        "share",
        "of the variation in arrivals repeats daily",
    ),
    (
        "arrivals.seasonality.weekly_strength",
        "weekly rhythm",
        "share",
        "of the variation repeats weekly",
    ),
    ("arrivals.seasonality.peak_period_s", "main period", "s", "strongest cycle in the arrivals"),
    ("arrivals.bursts.hours", "burst hours", "hours", ""),
    ("arrivals.bursts.share_jobs", "in burst hours", "share", "of jobs"),
    ("load.mean_gpus", "offered load", "gpus", "GPU-hours over the time in which jobs arrive"),
    ("load.p95_gpus", "P95 GPUs held", "gpus", "enough 95% of the time"),
    ("load.peak_gpus", "peak GPUs held", "gpus", "most at once"),
    ("queue_s.mean", "mean wait", "s", "recorded, submission to start"),
    ("queue_s.p50", "P50 wait", "s", ""),
    ("queue_s.p90", "P90 wait", "s", ""),
    ("queue_s.p99", "P99 wait", "s", ""),
)
HIDDEN_WHEN_ZERO = ("cpu_only_jobs", "censored_jobs")

UNENDED = ("running", "not_started", "unknown")
"""States of jobs of which no end is known."""
BEYOND_TIMES = 1.05
"""The GPUs held while jobs arrive are others than those of the whole log from here on."""

SHARES = {
    "jobs": "jobs",
    "share_jobs": "of jobs",
    "gpu_hours": "GPU-hours",
    "share_gpu_hours": "of time",
}


def headline(result: Characterization, *, with_load: bool = True) -> str:
    """Return a sentence that summarizes the workload."""
    start = show_jobs(result.jobs, result.span_s)
    facts = []
    none_completed = _none_completed(result)
    if none_completed:
        facts.append(none_completed)
    if result.duration_s.p50 is not None:
        end = "end" if none_completed else "finish"
        facts.append(f"half {end} within {show_duration(result.duration_s.p50)}")
    share = result.gpu_time.top10pct_longest_share
    if share is not None:
        facts.append(f"the longest 10% take {share:.0%} of the GPU time")
    if with_load and result.load.mean_gpus is not None:
        facts.append(
            f"at most {show_number(result.load.peak_gpus or 0)} GPUs busy at once"
            if _outlasts(result)
            else f"{show_number(result.load.mean_gpus)} GPUs busy on average"
        )
    return f"{start}: {', '.join(facts)}" if facts else start


def _none_completed(result: Characterization) -> str:
    """Return how the jobs ended where none completed; empty where one did, or nothing tells."""
    ended = [part for part in result.states if part.state not in UNENDED and part.share.jobs]
    if not ended or any(part.state == "completed" for part in ended):
        return ""
    return f"none completed ({', '.join(_of_state(part) for part in ended)})"


def _of_state(part: StateShare) -> str:
    """Return the jobs of one state: ``400 failed``."""
    return f"{part.share.jobs:,} {part.state.replace('_', ' ')}"


def _outlasts(result: Characterization) -> bool:
    """Return whether jobs run too long past the last submission for an average to be the load."""
    mean, peak = result.load.mean_gpus, result.load.peak_gpus
    return mean is not None and peak is not None and mean > peak


def workload_tables(result: Characterization) -> list[Table]:
    """Return what people read of one trace, the headline statistics first."""
    return [
        _statistics(result),
        *_shapes(result),
        *([_gpu_mix(result)] if result.gpu_counts else []),
        *([_states(result)] if _has_states(result) else []),
        *(_group(column, table) for column, table in result.groups.items()),
    ]


def _statistics(result: Characterization) -> Table:
    intervals = None if isinstance(result.ci, UnsetType) else result.ci
    summary = plain(result)
    rows = []
    for path, label, unit, meaning in STATISTICS:
        value = value_at(summary, path)
        if value is None or (path in HIDDEN_WHEN_ZERO and not value):
            continue
        show = UNIT_SHOW[unit]
        between: tuple[Any, ...] = ()
        if intervals is not None:
            low, high = intervals.statistics.get(path) or (None, None)
            between = (low, high, show_ends(low, high, show))
        meant = _meaning(path, meaning, result)
        rows.append((path, label, Shown(value, show(value)), *between, unit, meant))
    interval: tuple[Column, ...] = ()
    if intervals is not None:
        interval = (
            Column("low", ""),
            Column("high", ""),
            Column("", f"{intervals.level:g}% interval"),
        )
    columns = (
        Column("statistic", ""),
        Column("", "statistic"),
        Column("value", "value"),
        *interval,
        Column("unit", ""),
        Column("", "meaning"),
    )
    return Table("What the workload is", columns, rows)


MAIN = (
    *("jobs", "users", "span_s", "duration_s.p50", "duration_s.p95", "duration_s.max"),
    *("gpu_time.gpu_hours", "gpu_time.top10pct_longest_share", "interarrival.scv"),
    *("arrivals.seasonality.daily_strength", "arrivals.bursts.share_jobs"),
    *("load.mean_gpus", "load.p95_gpus", "load.peak_gpus"),
    *("queue_s.mean", "queue_s.p50", "queue_s.p90"),
)
"""Statistics that are shown without ``--full``, by their path."""


def main_statistics(statistics: Table) -> Table:
    """Return the rows of the table of statistics that most readers came for."""
    return replace(statistics, rows=[row for row in statistics.rows if row[0] in MAIN])


def value_at(summary: dict[str, Any], path: str) -> Any:
    """Return the value at a dotted path of the results; None where a part is missing."""
    value: Any = summary
    for key in path.split("."):
        value = None if value is None else value[key]
    return value


def _meaning(path: str, meaning: str, result: Characterization) -> str:
    """Return the explanation of a statistic, with details of this trace."""
    if path == "span_s" and result.first_submit and result.last_submit:
        zone = shown_zone(result.arrivals.time_zone)
        first, last = (
            in_zone(datetime.fromisoformat(time), zone).isoformat(" ", "minutes")
            for time in (result.first_submit, result.last_submit)
        )
        return f"{first} to {last} {zone}"
    if path == "jobs" and 0 < result.duration_s.jobs < result.jobs - result.censored_jobs:
        return f"{result.duration_s.jobs:,} of them have a duration"
    if path == "arrivals.bursts.hours":
        bound = result.arrivals.bursts.bound_jobs_per_hour
        return f"more than {bound:,} jobs each, too many to be chance"
    if path in ("duration_s.mean", "queue_s.mean") and result.cpu_only_jobs:
        return f"{meaning}; CPU-only jobs included"
    if path == "load.mean_gpus" and _outlasts(result):
        return "GPU-hours / arrival time; above the peak, as jobs run on"
    if path == "load.p95_gpus" and (result.load.window_s or 0.0) > BEYOND_TIMES * result.span_s > 0:
        return f"{meaning} while jobs arrive"
    if path == "load.peak_gpus" and result.load.unknown_waits:
        if not result.queue_s.jobs:
            return "most at once, if jobs start at submission"
        return f"most at once ({result.load.unknown_waits:,} waits unknown, taken as 0)"
    return meaning


def _shapes(result: Characterization) -> list[Table]:
    """Return the table of patterns over time; empty where there is none."""
    rows: list[tuple[str, str, str, str]] = []
    hours, days = result.arrivals.by_hour, result.arrivals.by_weekday
    if hours is not None:
        names = tuple(f"{hour:02}:00" for hour in range(24))
        rows.append(("arrivals, 0 to 23 h", sparkline(hours), *_extremes(hours, names)))
    if days is not None:
        rows.append(("arrivals, Mon to Sun", sparkline(days), *_extremes(days, DAYS)))
    bins = result.load.timeline
    if bins:
        held = [entry.mean_gpus for entry in bins]
        each = show_duration(result.load.bin_s or 0)
        rows.append(timeline_row(f"GPUs held, mean per {each}", held))
    if not rows:
        return []
    zone = f" ({result.arrivals.time_zone})" if hours is not None else ""
    return [shapes_table(f"Over time{zone}", rows)]


def _extremes(counts: tuple[int, ...], names: tuple[str, ...]) -> tuple[str, str]:
    total = sum(counts)
    ends = (min(counts), max(counts))
    return tuple(f"{names[counts.index(n)]} ({n / total:.0%})" for n in ends)  # type: ignore[return-value]


def _gpu_mix(result: Characterization) -> Table:
    """Return the GPU counts; of very many, those with the most jobs, and the rest together."""
    counts = result.gpu_counts
    kept = list(range(len(counts)))
    if len(counts) > MIX_ROWS:
        by_jobs = sorted(kept, key=lambda i: (-counts[i].share.jobs, i))
        kept = sorted(by_jobs[: MIX_ROWS - 1])
    rows = [{**fields_of(counts[i]), "num_gpus": show_number(counts[i].num_gpus)} for i in kept]
    rest = [part.share for i, part in enumerate(counts) if i not in kept]
    if rest:
        totals = {key: _total([getattr(share, key) for share in rest]) for key in SHARES}
        rows.append({"num_gpus": f"{len(rest)} other counts", **totals})
    return table("GPUs per job", rows, {"num_gpus": "GPUs", **SHARES})


def _total(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def _has_states(result: Characterization) -> bool:
    return [part.state for part in result.states] != ["unknown"]


def _states(result: Characterization) -> Table:
    rows = [fields_of(part) | {"state": part.state.replace("_", " ")} for part in result.states]
    return table("States", rows, {"state": "state", **SHARES})


WAITS = {"mean_wait_s": "", "p50_wait_s": "", "p95_wait_s": "P95 wait"}
"""Recorded waits -> their titles; without one they are in the other forms alone."""


def _group(column: str, groups: Groups) -> Table:
    title, name = GROUP_TITLES[column]
    has_waits = any(row.mean_wait_s is not None for row in groups.rows)
    longest = NAME_CHARS - (WAIT_CHARS if has_waits else 0)
    rows = [{**fields_of(row), name: _short(row.name, longest)} for row in groups.rows]
    if (rest := groups.others) is not None:
        rest_name = "1 other" if rest.names == 1 else f"{rest.names:,} others"
        rows.append({**fields_of(rest), name: rest_name})
    is_priced = any(row.usd_per_month is not None for row in groups.rows)
    ranked = "GPU time" if any(row.share.gpu_hours for row in groups.rows) else "jobs"
    return table(
        f"{title}: {groups.distinct:,}, by {ranked}",
        rows,
        {
            name: name,
            **SHARES,
            "usd_per_month": "$/month" if is_priced else "",
            "median_duration_s": "median",
            "p90_duration_s": "P90",
            "mean_num_gpus": "GPUs/job",
            **{key: header if has_waits else "" for key, header in WAITS.items()},
        },
    )


def _short(name: str | None, most: int) -> str:
    if name is None:
        return "(none)"
    return name if len(name) <= most else f"{name[: most - 1]}…"


def workload_headline(
    result: Characterization, today: Today | None, period: Mapping[str, str | None] | None = None
) -> str:
    """Return today, what the workload is, and which GPU types it runs on if several."""
    now = today_text(today, period=period)
    parts = (now, f"{headline(result, with_load=today is None)}.", _mixed(today))
    return " ".join(part for part in parts if part)


def _mixed(today: Today | None) -> str:
    types = () if today is None else today.gpu_types
    if len(types) < 2:
        return ""
    total = sum(usage.gpu_h for usage in types)
    if not total:
        return ""
    first = f"{types[0].gpu_h / total:.0%} of the GPU-hours are on {types[0].gpu_type}"
    return f"{first}, {types[1].gpu_h / total:.0%} on {types[1].gpu_type}."


def gpu_type_table(today: Today) -> Table:
    """Return a row per GPU type, most GPU-hours first, and one for all if there are several."""
    total = today.usage.gpu_h
    usages: list[tuple[str, GpuUsage]] = [(usage.gpu_type, usage) for usage in today.gpu_types]
    if len(usages) > 1:
        usages.insert(0, ("all", today.usage))  # so that a long list cannot hide it
    is_priced = any(usage.usd_per_gpu_h is not None for _, usage in usages)
    return table(
        "GPUs held today, by type",
        [{**fields_of(usage), "gpu_type": name} for name, usage in usages],
        {"gpu_type": "GPU type", "jobs": "jobs"},
        Column("gpu_h", "GPU-hours", show_count),
        Column("gpu_h_share", "of all", read=lambda row: row["gpu_h"] / total if total else None),
        {"mean_gpus": "mean GPUs", "p95_gpus": "P95", "peak_gpus": "peak"},
        Column("usd_per_gpu_h", "$/GPU-h" if is_priced else "", lambda usd: f"{usd:,.3g}"),
        {"usd_per_month": "$/month" if is_priced else ""},
        most=MOST_TYPES,
    )
