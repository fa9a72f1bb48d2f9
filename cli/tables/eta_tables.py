"""Tables of a forecast start: when, what would start sooner, how good such forecasts are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Shown, Table, cells_table, table
from gpuplan.cli.formats.units import show_between, show_duration

if TYPE_CHECKING:
    from gpuplan.planner.site.backtest import StartBacktest
    from gpuplan.planner.site.eta import EtaResults

LONGER = "over 28 d"
LIMIT = "limit of "


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
    name = f"{an(job.gpus)}-GPU job submitted {'' if results.at is None else 'at '}"
    name += f"{show_date(results.at)} in {results.place} {job.partition}"
    low, high = results.p10_s, results.p90_s
    if high == 0:
        said = f"{name} would start at once."
        return " ".join(filter(None, [said, results.doubt, _tested_at_once(results)]))
    if results.p50_s is None:
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
    texts = (said, results.doubt, _tested(results), _no_shorter_limit(results))
    return " ".join(filter(None, texts))


def an(number: int) -> str:
    """Return a number with its article: ``A 4``, ``An 8``, ``An 11``."""
    text = f"{number:,}"
    is_vowel = text.startswith("8") or text.partition(",")[0] in ("11", "18")
    return f"{'An' if is_vowel else 'A'} {text}"


def _tested(results: EtaResults) -> str:
    """Return how often such intervals held."""
    tested = results.backtest
    if tested is None:
        return "How often such an interval holds is unknown: there are no past jobs to test it on."
    return (
        f"In a test on {counted(tested.jobs, 'past job')} that waited, {tested.coverage_80:.0%} "
        "started within such an interval."
    )


def _tested_at_once(results: EtaResults) -> str:
    """Return how often jobs forecast to start at once did; of Slurm none is tested."""
    tested = results.backtest
    if tested is not None and isinstance(tested.at_once_share, float):
        return (
            f"Of {tested.at_once_jobs:,} past jobs forecast to start at once, "
            f"{tested.at_once_share:.0%} started within 5 min."
        )
    if results.job.limit_s is not None:
        return "How often that holds is unknown: only forecasts of a wait are tested."
    return "How often that holds is unknown: too few past jobs were forecast to start at once."


def _no_shorter_limit(results: EtaResults) -> str:
    """Return that no shorter limit helps; empty where one does, or none was tried."""
    limits = [text.removeprefix(LIMIT) for text in results.not_sooner if text.startswith(LIMIT)]
    if not limits or any(row.change.startswith(LIMIT) for row in results.sooner):
        return ""
    return f"A shorter limit ({' or '.join(limits)}) would not start it sooner."


def eta_tables(results: EtaResults) -> Iterator[Table]:
    """Yield the start, what would start sooner, and what it was computed from."""
    rows = [
        ("80% interval, from", results.p10_s, results.p10_at),
        ("median", results.p50_s, results.p50_at),
        ("80% interval, to", results.p90_s, results.p90_at),
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
            Column("p50_s", "wait (median)", show_wait),
            Column("p10_s", "80% from", show_wait),
            Column("p90_s", "to", show_wait, lambda row: _shown(row.p90_s)),
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
    replayed = results.replayed_p10_s, results.replayed_p90_s
    facts = [
        *_job_facts(results),
        ("running then", _jobs(results.running_jobs, "on", results.running_gpus)),
        ("waiting then", _jobs(results.waiting_jobs, "for", results.waiting_gpus)),
        *(
            [("if every job ran to its limit", show_wait(requested))]
            if job.limit_s is not None
            else []
        ),
        ("replays", f"{results.replays:,} under rules up to {results.level}"),
        ("P10 and P90 of the replays", " and ".join(map(show_wait, replayed))),
        ("replays beyond either end of the interval", f"{results.tail:.0%}, as tests require"),
    ]
    yield cells_table("What was replayed", "item value", facts)
    if results.backtest is not None:
        yield backtest_table(results.backtest)


def _job_facts(results: EtaResults) -> list[tuple[str, str]]:
    job = results.job
    gpus = counted(job.gpus, "GPU")
    if job.limit_s is None:
        return [
            ("job", f"{gpus} in {counted(job.nodes or 1, 'pod')}"),
            ("namespace", job.account),
            ("queue, priority", f"{job.partition}, {job.qos}"),
        ]
    nodes = counted(job.nodes or 1, "node")
    return [
        ("job", f"{gpus} on {nodes}, limit {show_duration(job.limit_s)}"),
        ("user, account", f"{job.user}, {job.account}"),
        ("partition, QOS", f"{job.partition}, {job.qos}"),
    ]


def _jobs(jobs: int, where: str, gpus: int) -> str:
    return f"{counted(jobs, 'job')} {where} {counted(gpus, 'GPU')}"


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
    if isinstance(tested.at_once_share, float):
        rows.append(
            (
                f"of {tested.at_once_jobs:,} forecast to start at once, within 5 min",
                f"{tested.at_once_share:.0%}",
            )
        )
    return cells_table(
        f"Backtest on {tested.jobs} jobs that waited, {tested.replays} replays each",
        "item value",
        rows,
    )
