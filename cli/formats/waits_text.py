"""Why jobs wait, and whether the cluster is too small, in three sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.history.reasons import (
    ADMISSION,
    LIMITS,
    QUEUE,
    QUEUED,
    group_of,
    limit_name,
    reason_groups,
)
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.waits.results import NO_REASON
from gpuplan.cli.formats.units import show_count, show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.analysis.waits.results import QuotaFit, SlurmReasonWait, WaitingNow, WaitSummary

LEAST_SHARE = 0.01
MOST_REASONS = 4
MOSTLY, PARTLY = 0.5, 0.1
"""Share of the wait hours with too few free GPUs from which the cluster is mostly, or partly, too
small."""
KEYS = {group.title: group.key for group in reason_groups().values()}
WORDS = {
    QUEUE: "the queue (priority or resources)",
    "array": "limits of job arrays",
    "dependency": "dependencies",
}
FREE_GPUS, PEAK, RECORDED = "free GPUs", "peak held", "recorded reasons"
SHORT_S = 300.0
"""Waits of less are no reason for a change."""


def waits_text(
    waits: WaitSummary,
    *,
    is_short: bool = False,
    waiting: Sequence[WaitingNow] = (),
    waits_as: str = "workload",
    quotas: QuotaFit | None = None,
) -> str:
    """Return how long jobs wait, why, and whether the cluster is too small.

    Args:
        waits: of a log.
        is_short: whether to leave out what the rest of the wait was.
        waiting: what waits at the end of the log, by reason.
        waits_as: what that is called.
        quotas: how well those of the site explain the waits, where known.
    """
    now = _waiting_now(waiting, waits_as)
    left = now or _never_started(waits)
    if not waits.wait_h:
        return f"No job that started had to wait. {left}" if left else "No job with GPUs waits."
    mean, p95 = show_duration(waits.mean_wait_s), show_duration(waits.p95_wait_s)
    if hardly_wait(waits):
        who = "Jobs that started hardly waited" if left else "Jobs hardly wait"
        text = f"{who}: {mean} on average from submission to start (P95 {p95})."
        return f"{text} {left}".strip()
    eligible = waits.mean_eligible_wait_s
    from_eligible = (
        f"; {show_duration(eligible)} from when it is eligible"
        if eligible is not None and show_duration(eligible) != mean and not is_short
        else ""
    )
    start = (
        f"{'A job that started waited' if now else 'A job waits'} {mean} on average from "
        f"submission to start (P95 {p95}{from_eligible}{_until_reserved(waits)})."
    )
    if now:
        start = f"{start} {now}"
    tail = f"{_why(waits)} {_size(waits, is_short=is_short)}"
    if waits.basis == FREE_GPUS:
        tail = _by_free_gpus(waits, waiting, quotas)
    return f"{start} {tail}{_assumed(waits)}"


def _until_reserved(waits: WaitSummary) -> str:
    """Return how the wait divides at the reservation of quota, where a log tells and it does."""
    reserved = waits.mean_reservation_wait_s
    if reserved is None or not _admission(waits):
        return ""
    after = show_duration(waits.mean_wait_s - reserved)
    return f"; {show_duration(reserved)} until quota is reserved, {after} from then to admission"


def _admission(waits: WaitSummary) -> float:
    """Return the share of the wait after the reservation of quota."""
    title = group_of(ADMISSION).title
    return sum(reason.share or 0.0 for reason in waits.reasons if reason.name == title)


def hardly_wait(waits: WaitSummary) -> bool:
    """Return whether waits are too short to explain."""
    return max(waits.p95_wait_s, waits.mean_wait_s) < SHORT_S


def _why(waits: WaitSummary) -> str:
    """Return the reasons with most hours, limits one by one."""
    phrases = sorted(_reasons(waits), key=lambda phrase: -phrase[0])[:MOST_REASONS]
    if not phrases:
        return ""
    (share, what), *other_phrases = phrases
    more = "".join(f", {each:.0%} {text}" for each, text in other_phrases)
    by = ""
    if waits.basis == RECORDED:
        scheduler = "Slurm" if waits.mean_reservation_wait_s is None else "Kueue"
        by = f"By the last reason that {scheduler} kept of each job, "
    return f"{by}{share:.0%} of the wait is {what}{more}."


def _reasons(waits: WaitSummary) -> Iterator[tuple[float, str]]:
    """Yield the share of each reason and what it is called."""
    for reason in waits.reasons:
        key = KEYS.get(reason.name)
        if key != LIMITS:
            if (reason.share or 0.0) >= LEAST_SHARE:
                yield reason.share or 0.0, WORDS.get(key or "", reason.name)
            continue
        for part in reason.slurm_reasons:
            if (part.share or 0.0) >= LEAST_SHARE:
                yield part.share or 0.0, _limit(part, waits.wait_h)


def _limit(part: SlurmReasonWait, wait_h: float) -> str:
    """Return what a limit is called, with its GPUs where they are told.

    Args:
        part: the waits for it; of several accounts or QOS they are a sum.
        wait_h: hours of all waits.
    """
    name = limit_name(part.name)
    detail = part.name
    if part.limits:
        most = part.limits[0]
        gpus = "" if most.gpus is None else f"{most.gpus:,} GPUs"
        if len(part.limits) > 1:
            largest = f"{gpus} in {most.of}".strip()
            detail += f", sum of {len(part.limits)} limits; the largest, {largest}: "
            detail += f"{most.wait_h / wait_h:.0%}"
        elif gpus:
            detail += f", {gpus}"
    return f"your {name} ({detail})" if name else f"a limit of yours ({detail})"


def _size(waits: WaitSummary, *, is_short: bool) -> str:
    """Return whether the cluster is too small, by the hours in which nothing else held jobs."""
    small = waits.too_small_share or 0.0
    queue = sum(reason.share or 0.0 for reason in waits.reasons if KEYS.get(reason.name) in QUEUED)
    held, free = 1 - queue, queue - small
    answer = "Mostly yes" if small >= MOSTLY else "In part" if small >= PARTLY else "Hardly"
    parts = [f"{small:.0%} of the wait had too few free GPUs and no other hold{_full(waits)}"]
    if held >= LEAST_SHARE and not is_short:
        what = "limits, arrays or dependencies"
        if waits.mean_reservation_wait_s is not None:
            what = "admission checks and other reasons of Kueue"
        parts.append(f"{what} held {held:.0%}")
    if free >= LEAST_SHARE and not is_short:
        parts.append(
            f"{free:.0%} had enough GPUs free, but scattered over nodes or kept for jobs ahead"
        )
    return f"Is the cluster too small? {answer}: {'; '.join(parts)}."


def _never_started(waits: WaitSummary) -> str:
    """Return how many jobs never started, whose waits no mean has; empty for few."""
    never = waits.never_started
    if never < LEAST_SHARE * (waits.jobs + never) or not never:
        return ""
    return f"{counted(never, 'more job')} never started: {never / (waits.jobs + never):.0%} of all."


def _waiting_now(waiting: Sequence[WaitingNow], waits_as: str) -> str:
    """Return what waits at the end of a log, whose waits no mean has; empty for nothing."""
    jobs = sum(row.jobs for row in waiting)
    if not jobs:
        return ""
    gpus = sum(row.gpus for row in waiting)
    longest = show_duration(max(row.longest_wait_s for row in waiting))
    wait, so_far = ("waits", "for") if jobs == 1 else ("wait", "the longest for")
    reason = max(waiting, key=lambda row: row.jobs)
    return (
        f"{counted(jobs, waits_as)} ({show_count(gpus)} {'GPU' if gpus == 1 else 'GPUs'}) still "
        f"{wait} at the end of the log, {so_far} {longest} so far"
        f"{'' if reason.name == NO_REASON else f', mostly: {reason.meaning}'}."
    )


def _by_free_gpus(
    waits: WaitSummary, waiting: Sequence[WaitingNow], quotas: QuotaFit | None
) -> str:
    """Return what the free GPUs tell where the log records no reasons."""
    full = waits.full_cluster_share or 0.0
    answer = "It may be" if full >= MOSTLY else "Not by these numbers alone"
    if full < PARTLY:
        answer = "Hardly"
    unfinished_h = sum(row.jobs * row.mean_wait_s for row in waiting) / HOUR_S
    if full < MOSTLY and unfinished_h > PARTLY * waits.wait_h:
        answer = "The waits that are over cannot tell"
    admission = _admission(waits)
    free = max(1 - full - admission, 0.0)
    checks = "" if not admission else f", in {admission:.0%} quota was reserved already"
    limits, reasons = "limits", "reasons"
    if waits.mean_reservation_wait_s is not None:
        limits, reasons = "quotas", "reasons of past waits"
    return (
        f"Is the cluster too small? {answer}: in {full:.0%} of the wait hours fewer GPUs were free "
        f"than the job requested{_full(waits)}, in {free:.0%} enough were free{checks}. The log "
        f"records no {reasons}{_held_by(limits, quotas)}."
    )


def _held_by(limits: str, quotas: QuotaFit | None) -> str:
    """Return what else may have held jobs, and how well a replay of the site tells it."""
    if quotas is None:
        return f", so {limits} may have held jobs as well"
    start = f"{quotas.within:.0%} of jobs start within 5 min or 20% of their recorded wait"
    if quotas.explains_waits:
        return f", but the quotas of --twin explain them: replayed under these, {start}"
    return f", and the quotas of --twin do not explain them: replayed under these, {start}"


def _full(waits: WaitSummary) -> str:
    """Return how full the GPUs were that most of the wait was for."""
    most = max(waits.gpu_types, key=lambda use: use.wait_h, default=None)
    if most is None or (most.full_share or 0.0) < LEAST_SHARE:
        return ""
    share = most.wait_h / waits.wait_h
    several = len(waits.gpu_types) > 1
    who = f"{share:.0%} of the wait is for the {{}}, which were" if several else "{}"
    kind = "GPUs" if most.gpu_type in ("all", UNNAMED) else most.gpu_type
    gpus = show_number(most.gpus)
    held = who.format(f"{gpus} {kind}")
    return f" ({held} over 95% held for {most.full_share:.0%} of the time)"


def _assumed(waits: WaitSummary) -> str:
    """Return that the most GPUs held are taken for the cluster, where nothing tells its size."""
    if not waits.gpu_types or any(use.source != PEAK for use in waits.gpu_types):
        return ""
    gpus = sum(use.gpus for use in waits.gpu_types)
    if len(waits.gpu_types) > 1:
        return (
            " The cluster is assumed to be the most GPUs of each type that were held at once, "
            f"{show_count(gpus)} together; they were not all held at the same time."
        )
    held = "GPU" if gpus == 1 else f"{show_count(gpus)} GPUs"
    return f" The cluster is assumed to be the {held} held at the peak."
