"""Why jobs wait, and whether the cluster is too small, in three sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.analysis.history.pools import PEAK
from gpuplan.analysis.history.reasons import LIMITS, QUEUE, limit_name, reason_groups
from gpuplan.cli.formats.units import show_count, show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.waits import SlurmReasonWait, TypeUse, WaitSummary

LEAST_SHARE = 0.01
MOST_REASONS = 4
MOSTLY, PARTLY = 0.5, 0.1
"""Share of the wait hours with too few free GPUs from which the cluster is mostly, or partly, too
small."""
SHORT_S = 300.0
"""Waits of less are no reason for a change."""


def waits_text(waits: WaitSummary) -> str:
    """Return how long jobs wait, why, and whether the cluster is too small."""
    if not waits.wait_h:
        return "No job with GPUs waits."
    if waits.p95_wait_s < SHORT_S and waits.mean_wait_s < SHORT_S:
        mean, p95 = show_duration(waits.mean_wait_s), show_duration(waits.p95_wait_s)
        return f"Jobs hardly wait: {mean} on average from submission to start (P95 {p95})."
    mean, p95 = show_duration(waits.mean_wait_s), show_duration(waits.p95_wait_s)
    eligible = waits.mean_eligible_wait_s
    from_eligible = (
        f"; {show_duration(eligible)} from when it is eligible"
        if eligible is not None and show_duration(eligible) != mean
        else ""
    )
    return (
        f"A job waits {mean} on average from submission to start (P95 {p95}{from_eligible}). "
        f"{_why(waits)} {_size(waits)}"
    )


def _why(waits: WaitSummary) -> str:
    reasons = [text for share, text in sorted(_reasons(waits), reverse=True)[:MOST_REASONS]]
    if not reasons:
        return ""
    text = ", ".join([f"{reasons[0].replace(' is ', ' of the wait is ', 1)}", *(
        part.replace(" is ", " ", 1) for part in reasons[1:]
    )])  # fmt: skip
    return f"{text}."


def _reasons(waits: WaitSummary) -> Iterator[tuple[float, str]]:
    """Yield a phrase per reason, limits one by one, with its share."""
    titles = {group.title: group.key for group in reason_groups().values()}
    for reason in waits.reasons:
        key = titles.get(reason.name)
        parts = reason.slurm_reasons if key == LIMITS else ()
        for part in parts:
            if (part.share or 0.0) >= LEAST_SHARE:
                yield part.share or 0.0, f"{part.share:.0%} is {_limit(part)}"
        if not parts and (reason.share or 0.0) >= LEAST_SHARE:
            yield reason.share or 0.0, f"{reason.share:.0%} is {_phrase(reason.name, key)}"


def _phrase(name: str, key: str | None) -> str:
    words = {
        QUEUE: "the queue (priority or resources)",
        "array": "limits of job arrays",
        "dependency": "dependencies",
        "for free GPUs": "for free GPUs (too few of them free)",
        "for another reason": "for another reason (enough GPUs free; the log records no reasons)",
    }
    return words.get(key or name, name)


def _limit(part: SlurmReasonWait) -> str:
    name = limit_name(part.name)
    gpus = [limit for limit in part.limits if limit.gpus is not None]
    detail = part.name
    if gpus and gpus[0].wait_h >= MOSTLY * part.wait_h:
        detail += f", {gpus[0].gpus:,} GPUs"
        detail += f" in {gpus[0].of}" if len(part.limits) > 1 else ""
    elif gpus:
        detail += ", " + ", ".join(f"{limit.of} {limit.gpus:,} GPUs" for limit in gpus[:3])
    return f"your {name} ({detail})" if name else f"a limit of yours ({detail})"


def _size(waits: WaitSummary) -> str:
    """Return whether the cluster is too small."""
    full = waits.full_cluster_share or 0.0
    often = max(waits.gpu_types, key=lambda row: row.full_share or 0.0, default=None)
    held = "" if often is None or (often.full_share or 0.0) < LEAST_SHARE else (
        f" ({_type(often)} over 95% held for {often.full_share:.0%} of the time)"
    )  # fmt: skip
    said = f"in {full:.0%} of the wait hours fewer GPUs were free than the job requested{held}"
    assumed = _assumed(waits)
    if full >= MOSTLY:
        return f"Is the cluster too small? For these waits, mostly yes: {said}.{assumed}"
    start = "In part" if full >= PARTLY else "That is not why jobs wait"
    other = _other(waits)
    return f"Is the cluster too small? {start}: {said}{'; ' if other else ''}{other}.{assumed}"


def _assumed(waits: WaitSummary) -> str:
    """Return that the most GPUs held are taken for the cluster, where nothing tells its size."""
    if all(use.source != PEAK for use in waits.gpu_types):
        return ""
    gpus = sum(use.gpus for use in waits.gpu_types)
    return f" The cluster is assumed to be the {show_count(gpus)} GPUs held at the peak."


def _other(waits: WaitSummary) -> str:
    """Return what holds jobs while GPUs are free."""
    titles = {group.title: group.key for group in reason_groups().values()}
    total = waits.wait_h
    queue = sum(hours for name, hours in waits.while_free.items() if titles.get(name) == QUEUE)
    rest = sum(waits.while_free.values()) - queue
    parts = []
    if queue >= LEAST_SHARE * total:
        parts.append(
            f"{queue / total:.0%} was the queue with enough GPUs free, but scattered over nodes or "
            "kept for jobs ahead"
        )
    if rest >= LEAST_SHARE * total and not waits.basis.startswith("free"):
        parts.append(f"{rest / total:.0%} was limits, arrays or dependencies with GPUs free")
    return ", ".join(parts)


def _type(use: TypeUse) -> str:
    return f"{show_number(use.gpus)} {'GPUs' if use.gpu_type == 'all' else use.gpu_type}"

