"""Tables of a forecast start: when, what would start sooner, how good such forecasts are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Shown, Table, cells_table, table
from gpuplan.cli.formats.units import show_between, show_duration

if TYPE_CHECKING:
    from gpuplan.planner.site.backtest import StartBacktest
    from gpuplan.planner.site.eta import EtaResults

LONGER = "over 28 d"


def show_wait(seconds: float | None) -> str:
    """Return a wait with the digits that a forecast carries."""
    if seconds is None:
        return LONGER
    return "now" if seconds == 0 else show_duration(seconds, 2)


def show_date(time: str | None) -> str:
    """Return a local time as people write it: ``Mon 2025-10-20 19:04``."""
    return "-" if time is None else datetime.fromisoformat(time).strftime("%a %Y-%m-%d %H:%M")


def eta_headline(results: EtaResults) -> str:
    """Return when the job would start, and how far that can be relied on."""
    job = results.job
    name = f"A {job.gpus}-GPU job submitted {'' if results.at is None else 'at '}"
    name += f"{show_date(results.at)} in partition {job.partition}"
    low, high = results.p10_s, results.p90_s
    if high == 0:
        said = f"{name} would start at once."
    elif results.p50_s is None:
        said = f"{name} would wait over 28 days."
    else:
        ends = (
            f"{show_wait(low)} to {show_wait(high)}"
            if high is None or not low
            else show_between(low, high, lambda wait: show_duration(wait, 2))
        )
        middle = "at once" if results.p50_s == 0 else f"in {show_wait(results.p50_s)}"
        date = "" if results.p50_s == 0 else f", {show_date(results.p50_at)}"
        said = f"{name} would start {middle}{date} (80%: {ends})."
    tested = results.backtest
    if tested is None:
        return f"{said} How often such intervals hold is unknown: the log is too short to test."
    return (
        f"{said} For {tested.jobs} jobs of the log that waited, such intervals held "
        f"{tested.coverage_80:.0%} of the starts."
    )


def eta_tables(results: EtaResults) -> Iterator[Table]:
    """Yield the start, what would start sooner, and what it was computed from."""
    rows = [
        ("earliest (P10)", results.p10_s, results.p10_at),
        ("median", results.p50_s, results.p50_at),
        ("latest (P90)", results.p90_s, results.p90_at),
    ]
    columns = (
        Column("start", "start"), Column("wait_s", "wait"), Column("date", "date"),
    )  # fmt: skip
    yield Table(
        f"Start, {results.zone} time", columns,
        [(name, Shown(wait, show_wait(wait)), show_date(at)) for name, wait, at in rows],
    )  # fmt: skip
    if results.sooner:
        yield table(
            "What would start sooner",
            results.sooner,
            {"change": "change"},
            Column("p50_s", "wait (P50)", show_wait),
            Column("p10_s", "P10", show_wait),
            Column("p90_s", "P90", show_wait, lambda row: _shown(row.p90_s)),
            Column("earlier_s", "earlier by", lambda wait: show_duration(wait, 2)),
        )
    yield cells_table(
        "Probability to start", "within share",
        [
            (f"{hours} h", Shown(share, f"{share:.0%}"))
            for hours, share in (
                (1, results.within_1h), (8, results.within_8h), (24, results.within_24h)
            )
        ],
    )  # fmt: skip
    job, requested = results.job, results.as_requested_s
    facts = [
        ("job", f"{job.gpus} GPUs on {job.nodes} nodes, limit {show_duration(job.limit_s)}"),
        ("user, account", f"{job.user}, {job.account}"),
        ("partition, QOS", f"{job.partition}, {job.qos}"),
        ("running then", f"{results.running_jobs:,} jobs on {results.running_gpus:,} GPUs"),
        ("waiting then", f"{results.waiting_jobs:,} jobs for {results.waiting_gpus:,} GPUs"),
        ("if every job ran to its limit", show_wait(requested)),
        ("replays", f"{results.replays:,} under rules up to {results.level}"),
    ]
    yield cells_table("What was replayed", "item value", facts)
    if results.backtest is not None:
        yield backtest_table(results.backtest)


def _shown(wait: int | None) -> Shown:
    return Shown(wait, show_wait(wait))


def backtest_table(tested: StartBacktest) -> Table:
    """Return how well starts of jobs of the log were forecast."""
    rows = [
        ("starts within the 80% interval", f"{tested.coverage_80:.0%}"),
        ("before the interval was widened", f"{tested.raw_coverage_80:.0%}"),
        ("error of the median, on average", show_duration(2 * tested.pinball_s, 2)),
        ("error of the mean wait so far", show_duration(2 * tested.mean_pinball_s, 2)),
    ]
    if tested.easy_pinball_s is not None:
        rows.append(
            ("error of EASY with requested limits", show_duration(2 * tested.easy_pinball_s, 2))
        )
    return cells_table(
        f"Backtest on {tested.jobs} jobs that waited, {tested.replays} replays each",
        "item value",
        rows,
    )
