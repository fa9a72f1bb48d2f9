"""The answer of ``gpuplan compare``: today, and what another scheduler or size would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.words import joined, price_text
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_number,
)
from gpuplan.planner.runs.ties import WAIT_TIE, by_cost, fastest_of, same_times, spread
from gpuplan.planner.speedup.registry import LAWS

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.gpu_mix import GpuMix
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.planner.site.fidelity import Fidelity
    from gpuplan.planner.studies.replay_results import PaidCluster

Row = dict[str, Any]

MOST_NAMES = 3
LEAST_POOLED = 0.05
"""Share of the GPU-hours on other types from which the answer says that it pools them."""
AS_TODAY = "as_today_usd_per_month"
"""Of a row: the dollars a month of today's GPUs on the basis of today's bill, if they are these."""


def answer_text(
    today: str,
    rows: Sequence[Row],
    speedups: Mapping[str, str | None] | None = None,
    contradiction: str = "",
    outside: Sequence[str] = (),
    pooled: GpuMix | None = None,
    *,
    pays_alike: bool = True,
) -> str:
    """Return today, and which policy to choose; no winner is named among ties.

    Args:
        today: what the log shows, as a sentence.
        rows: the results of each policy.
        speedups: label -> the speedup of its jobs, where it changes their widths.
        contradiction: why the replays may not say which policy is best; empty where they may.
        outside: why some policies are not ranked, one sentence each.
        pooled: GPU-hours on other types than most, where all GPUs count as one type.
        pays_alike: whether costs compare; else only times are compared.
    """
    if contradiction:
        return " ".join(filter(None, (*outside, contradiction, today)))
    speedup_of = speedups or {}
    rows = [{**row, "assumed": _assumed(speedup_of.get(row["label"]))} for row in rows]
    ranked = [row for row in rows if row.get("is_ranked", True)]
    choice = (_answer if pays_alike else _fastest)(ranked) if ranked else ""
    answer = f"{choice}{_as_one_type(pooled)}." if ranked else ""
    parts = (today, answer, *outside)
    return " ".join(part for part in parts if part)


def today_sentence(
    today: Today | None, rows: Sequence[Row], cluster: PaidCluster | None, *, is_of_use: bool
) -> str:
    """Return today; its cost on the terms of the policies, or on which others it is.

    Args:
        today: what the log shows.
        rows: the results of each policy.
        cluster: today's GPUs, where a policy replays their site.
        is_of_use: whether today's cost is of the GPUs in use alone.
    """
    pays_idle = any("mean_usd_per_gpu_h" in row for row in rows)
    return today_text(today, cluster=cluster, is_of_use=is_of_use and pays_idle)


def replayed_waits(today: Today | None, rows: Sequence[Row], fidelity: Fidelity) -> str:
    """Return what the replays wait where none may be recommended; empty where none is ranked.

    Args:
        today: what the log shows.
        rows: the results of each policy.
        fidelity: what the answer begins with; nothing is said twice.
    """
    ranked = [row for row in rows if row.get("is_ranked", True)]
    is_said = not fidelity.gpu_type and fidelity.cluster_gpus in [row["gpus"] for row in ranked]
    if not ranked or (len(ranked) == 1 and is_said):
        return ""
    low, high = (pick(ranked, key=lambda row: row["p95_wait_s"]) for pick in (min, max))
    labels = not _is_one_size(rows)
    where = "" if labels else f" on {low['gpus']:,} GPU{'' if low['gpus'] == 1 else 's'}"
    waits = f"{show_duration(low['p95_wait_s'])} ({_names([low], labels=labels)})"
    if len(ranked) > 1:
        waits += f" to {show_duration(high['p95_wait_s'])} ({_names([high], labels=labels)})"
    recorded = None if today is None else today.p95_wait_s
    log = "" if recorded is None else f", vs. {show_duration(recorded)} in the log"
    none = "; none is recommended" if len(ranked) > 1 else ""
    return f"Replayed{where}, all jobs have a P95 wait of {waits}{log}{none}."


def _as_one_type(pooled: GpuMix | None) -> str:
    """Return the clause that GPUs of several types count as one; empty where few do."""
    if pooled is None or pooled.other_gpu_h_share < LEAST_POOLED:
        return ""
    share, most = f"{pooled.other_gpu_h_share:.0%}", pooled.planned_gpu_type
    return f", if all GPUs count as one type ({share} of the GPU-hours did not run on {most})"


def _assumed(speedup: str | None) -> str:
    """Return the clause on an assumed speedup; empty for a measured one or none."""
    if speedup is None or speedup.partition(":")[0] not in LAWS:
        return ""
    return f" if jobs scale as {speedup}"


def _fastest(rows: Sequence[Row]) -> str:
    """Return which policy is the fastest, whatever it costs."""
    verdict = _verdict(rows)
    return f"{verdict[:1].upper()}{verdict[1:]}"


def _answer(rows: Sequence[Row]) -> str:
    groups = [[rows[i] for i in group] for group in by_cost(rows)]
    cheapest = groups[0]
    if len(groups) == 1:
        return f"{_intro(cheapest)}{_verdict(cheapest)}"
    best = [rows[i] for i in fastest_of(rows)]
    quick = next(group for group in groups if any(row in best for row in group))
    if quick is cheapest:
        other_rows = [row for group in groups[1:] for row in group]
        is_one = len(other_rows) == 1
        more = "costs more and is no faster" if is_one else "cost more and are no faster"
        return f"{_intro(cheapest)}{_verdict(cheapest)}; {_names(other_rows, labels=True)} {more}"
    second = _intro(quick)
    return (
        f"{_intro(cheapest)}{_verdict(cheapest)}; {second[0].lower()}{second[1:]}{_verdict(quick)}"
    )


def _intro(group: Sequence[Row]) -> str:
    """Return what the rows of a group of equal cost share: their GPUs and their monthly bill."""
    first = group[0]
    month = first["usd_per_month"]
    if month is None:
        return ""
    cost = f"{show_about_usd(month)} a month"
    if not _is_one_size(group):
        return f"For {'about ' if len(group) > 1 else ''}{cost}, "
    usd = first.get("mean_usd_per_gpu_h")
    price = "" if usd is None else f" at ${price_text(usd, 3)} per GPU-hour"
    gpus = first["gpus"]
    if first.get(AS_TODAY) is not None:
        as_today = [row[AS_TODAY] for row in group]
        ends = dict.fromkeys(map(show_about_usd, (min(as_today), max(as_today))))
        usd = " to ".join(ends)
        return (
            f"On today's {gpus:,} GPU{'' if gpus == 1 else 's'} ({usd} a month, paid as today's "
            "bill is), "
        )
    return (
        f"On {gpus:,} GPU{'' if gpus == 1 else 's'} ({cost} busy or not{price and f',{price}'}), "
    )


def _is_one_size(group: Sequence[Row]) -> bool:
    return all("mean_usd_per_gpu_h" in row for row in group) and (
        len({row["gpus"] for row in group}) == 1
    )


def _verdict(group: Sequence[Row]) -> str:
    """Return which of some policies of equal cost is the fastest, if that can be said."""
    labels = not _is_one_size(group)
    if len(group) == 1:
        return f"{_names(group, labels=labels)} takes {_times(group[0])}"
    if same_times(group):
        return _tie(group)
    best = [group[i] for i in fastest_of(group)]
    other_rows = [row for row in group if row not in best]
    slower = (
        other_rows[0]
        if group[0] in other_rows
        else max(other_rows, key=lambda row: row["mean_jct_s"])
    )
    return (
        f"{_names(best, labels=labels)} {'is' if len(best) == 1 else 'are'} fastest with "
        f"{_times(best[0])}, vs. {_times(slower)} under {_names([slower], labels=labels)}"
    )


def _tie(group: Sequence[Row]) -> str:
    """Return how little the rows of a group differ."""
    differ = f"mean JCTs differ by {spread([row['mean_jct_s'] for row in group]):.1%}"
    if not _is_one_size(group):
        return f"{_names(group, labels=True)} are equally fast ({differ})"
    waits = [row["p95_wait_s"] for row in group]
    if spread(waits) <= WAIT_TIE:
        differ = f"P95 waits differ by {spread(waits):.1%}"
    return f"the scheduler hardly matters: {group[0]['utilization'] or 0:.0%} used, {differ}"


def _times(row: Row) -> str:
    return (
        f"{show_duration(row['mean_jct_s'])} per job{row['assumed']} "
        f"(P95 wait {show_duration(row['p95_wait_s'])})"
    )


def _names(rows: Sequence[Row], *, labels: bool) -> str:
    """Return the policies; by their labels where their sizes differ."""
    names = list(dict.fromkeys(row["label" if labels else "name"] for row in rows))
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
    return joined(names)


def _spaced(label: str) -> str:
    return label.replace(",", ", ")  # wraps there


POLICY = Column("label", "policy", _spaced)
MEASURES = {
    "gpus": "GPUs",
    "usd_per_month": "$/month",
    "mean_jct_s": "mean JCT",
    "p95_jct_s": "P95 JCT",
    "mean_wait_s": "mean wait",
    "p95_wait_s": "P95 wait",
    "utilization": "used",
}


def answer_table(
    today: Today | None,
    rows: Sequence[Row],
    cluster: PaidCluster | None = None,
    *,
    has_deadlines: bool,
) -> Table:
    """Return a row for today and one per policy; with a backlog and late jobs where there are."""
    window = show_duration(rows[0]["window_s"])
    same = len({row["window_s"] for row in rows}) == 1
    title = f"Charged for the same {window}" if same else "Charged until the last job ends"
    shown = [
        row if row.get(AS_TODAY) is None else {**row, "usd_per_month": row[AS_TODAY]}
        for row in rows
    ]
    backlog = {"backlog_gpu_h": "backlog (GPU-h)"}
    return table(
        f"{title}; JCT: submission to finish",
        shown if today is None else [_today_row(today, cluster), *shown],
        POLICY,
        MEASURES,
        backlog if any(row["backlog_gpu_h"] >= 0.5 for row in rows) else {},
        *(_evictions() if any(row.get("lost_gpu_h") for row in rows) else ()),
        {"deadline_miss_share": "late"} if has_deadlines else {},
    )


def _evictions() -> tuple[Column, ...]:
    """Return the columns of how often jobs were evicted, and the GPU-hours that they lost."""
    return (
        Column("preemptions", "evictions", read=lambda row: _of_evictions(row, "preemptions")),
        Column("lost_gpu_h", "GPU-h lost", read=lambda row: _of_evictions(row, "lost_gpu_h")),
    )


def _of_evictions(row: Row, key: str) -> Any:
    return row.get(key) if "lost_gpu_h" in row else None


def _today_row(today: Today, cluster: PaidCluster | None) -> Row:
    usage = today.usage
    mean, peak = show_number(usage.mean_gpus), show_count(usage.peak_gpus)
    gpus, usd = Shown(usage.mean_gpus, f"{mean} (peak {peak})"), usage.usd_per_month
    if cluster is not None:
        gpus, usd = Shown(cluster.gpus, f"{cluster.gpus:,} ({mean} held)"), cluster.usd_per_month
    return {
        "label": "today (as recorded)",
        "gpus": gpus,
        "usd_per_month": usd,
        "mean_jct_s": today.mean_jct_s,
        "p95_jct_s": today.p95_jct_s,
        "mean_wait_s": today.mean_wait_s,
        "p95_wait_s": today.p95_wait_s,
    }
