"""Who wastes GPUs, in a few sentences: GPU-hours, dollars, and what waits would be without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import shortened
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.base.words import MOST_OF_A_NAME, counted, joined
from gpuplan.analysis.waste.kinds import FAILED, IDLE, IDLE_ENDS, LOW, PARTLY_IDLE, UNKNOWN
from gpuplan.cli.formats.units import show_duration, show_number, show_share, show_usd
from gpuplan.planner.money.bill import NO_LABEL
from gpuplan.planner.site.effects import LONGER, SHORTER
from gpuplan.planner.waste.remedies import ALL, END, LIMITS, MOST_TIMES, SHRINK

if TYPE_CHECKING:
    from gpuplan.planner.studies.waste_results import WasteResults
    from gpuplan.planner.waste.results import Counterfactual, FreedGpus, RemedyEffect

MOSTLY_KNOWN = 0.9
"""Share of the GPU-hours of which something must be known, else the headline says how much is."""
SHORT_H = MONTH_H / 4
"""A log of less is not scaled to a month."""
FEW_GPU_H = 0.5
LEAST_WAITED = 0.0005
"""Share of idle GPU-hours while others waited that is not 0.0%."""
MOST_NAMED = 3
LEAST_PART = 0.05
"""Of the effect of all remedies, from which one is named."""
KIND_WORDS = {
    IDLE: "no GPU of the job used",
    IDLE_ENDS: "idle for over 2 h at start or end",
    PARTLY_IDLE: "some GPUs of the job never used",
    LOW: "under 15% on average",
    FAILED: "failed or timed out",
    UNKNOWN: "unknown",
}
"""Kind -> what people read."""


def waste_text(results: WasteResults) -> str:
    """Return how much GPUs did nothing, what it costs, and what waits would be without it."""
    return " ".join(_sentences(results))


def _sentences(results: WasteResults) -> Iterator[str]:
    if not results.jobs:
        yield "No job of the log held GPUs."
        return
    if not results.known_share:
        yield (
            f"Nothing is known of what GPUs did: the log has no utilization of the "
            f"{show_number(results.gpu_h)} GPU-hours that jobs held in "
            f"{show_duration(results.window_s)}."
        )
        yield from _lost(results)
        return
    known_share = results.known_share
    shift_h = None if results.metrics is None else results.metrics.clock_later_h
    if shift_h is not None:
        yield (
            f"The clocks of the log and of the metrics seem {abs(shift_h):g} h apart, so idle "
            "hours may be put down to the wrong jobs."
        )
    held = show_number(results.gpu_h)
    if known_share < MOSTLY_KNOWN:
        yield f"Use is known for {show_share(known_share)} of {held} GPU-hours; of these"
    if results.idle_gpu_h < FEW_GPU_H:
        yield _begun("no GPU-hours do nothing.", known_share)
        return
    yield _begun(_idle_sentence(results), known_share)
    yield from _who(results)
    if results.clock is not None and results.clock.waited_share < LEAST_WAITED:
        yield "No job waited for such GPUs meanwhile."
    elif results.clock is not None:
        yield (
            f"{show_share(results.clock.waited_share)} of these hours passed while other jobs "
            "waited for such GPUs, for whatever reason."
        )
    if results.counterfactual is not None and shift_h is None:
        yield from _without(results.counterfactual, is_without_series=lacks_ends(results))


def _lost(results: WasteResults) -> Iterator[str]:
    """Yield what jobs held that failed or timed out: their state is known without use."""
    lost = next(kind for kind in results.kinds if kind.name == FAILED)
    if lost.jobs and lost.share is not None:
        usd, per = lost.usd, ""
        if results.window_s / HOUR_S >= SHORT_H:
            usd, per = lost.usd_per_month, " a month"
        cost = "" if usd is None else f": {show_usd(usd)}{per}"
        yield (
            f"{counted(lost.jobs, 'job')} that failed or timed out held {show_number(lost.gpu_h)} "
            f"of them ({show_share(lost.share)}){cost}."
        )


def _who(results: WasteResults) -> Iterator[str]:
    """Yield who has most of it, where there are more users than are named."""
    wasting = [row for row in results.users if row.idle_gpu_h > 0 and row.name != NO_LABEL]
    most = wasting[:MOST_NAMED]
    if len(wasting) <= MOST_NAMED:
        return
    share = sum(row.idle_gpu_h for row in most) / results.idle_gpu_h
    names = joined([shortened(row.name, MOST_OF_A_NAME) for row in most])
    yield f"{names} account for {share:.0%}."


def _begun(text: str, known_share: float) -> str:
    """Return a sentence, or the end of one that has begun with how much is known."""
    return text if known_share < MOSTLY_KNOWN else f"{text[:1].upper()}{text[1:]}"


def is_by_month(results: WasteResults) -> bool:
    """Return whether enough is known, for long enough, to say what a month wastes."""
    return results.known_share >= MOSTLY_KNOWN and results.window_s / HOUR_S >= SHORT_H


def lacks_ends(results: WasteResults) -> bool:
    """Return whether idling at the begin or the end of jobs cannot be seen: only series show it."""
    return results.metrics is None


def _idle_sentence(results: WasteResults) -> str:
    least = "at least " if lacks_ends(results) else ""
    share = "" if results.share is None else f" ({show_share(results.share)})"
    is_part = results.known_share < MOSTLY_KNOWN
    if not is_by_month(results):
        span = "" if is_part else f" in {show_duration(results.window_s)}"
        text = f"{least}{show_number(results.idle_gpu_h)} GPU-hours{share}{span} do nothing"
        return f"{text}." if results.usd is None else f"{text}: {show_usd(results.usd)}."
    text = f"{least}{show_number(results.idle_gpu_h_per_month)} GPU-hours{share} a month do nothing"
    if results.usd_per_month is None:
        return f"{text}."
    return f"{text}: {show_usd(results.usd_per_month)}."


def actions(waits: Counterfactual) -> str:
    """Return what is changed in the replay, as the subject of a sentence."""
    words = {
        END: f"ending idle jobs after {show_duration(waits.end_idle_after_s)}",
        SHRINK: "shrinking jobs to the GPUs they use",
    }
    chosen = [text for name, text in words.items() if _changes(waits, name)]
    text = joined(chosen)
    return f"{text[:1].upper()}{text[1:]}"


def _changes(waits: Counterfactual, name: str) -> bool:
    """Return whether a remedy alone makes much of the effect of all."""
    each = next((row for row in waits.remedies if row.name == name), None)
    if each is None:
        return False
    return abs(each.effect_s) >= LEAST_PART * abs(waits.effect_s) and each.effect_s != 0


def _without(waits: Counterfactual, *, is_without_series: bool = False) -> Iterator[str]:
    if not waits.fidelity.may_speak:
        yield (
            f"What waits would be without it is not known: a replay under {waits.rules} is not "
            "what the log recorded."
        )  # the warning says more
        return
    if not any(_changes(waits, name) for name in (END, SHRINK)):
        yield "Without this waste, waits would be the same."
        return
    is_many = all(_changes(waits, name) for name in (END, SHRINK))
    verbs = {SHORTER: "cut" if is_many else "cuts", LONGER: "lengthen" if is_many else "lengthens"}
    if waits.verdict in verbs:
        yield (
            f"{actions(waits)} {verbs[waits.verdict]} the P95 wait from "
            f"{show_duration(waits.today_p95_wait_s)} to {show_duration(waits.p95_wait_s)} "
            f"(error {show_duration(waits.error_s)})."
        )
    elif waits.mean_verdict in verbs:
        yield (
            f"{actions(waits)} {verbs[waits.mean_verdict]} the mean wait from "
            f"{show_duration(waits.today_mean_wait_s)} to {show_duration(waits.mean_wait_s)} "
            f"(error {show_duration(waits.mean_error_s)})."
        )
    else:
        most_s = abs(waits.p95_effect_s) + waits.error_s
        yield (
            f"What this does to waits is too small to tell (P95 by less than "
            f"{show_duration(most_s)})."
        )
    if waits.wait_h_saved_per_month:
        yield f"Jobs would wait {show_number(waits.wait_h_saved_per_month)} h less a month in all."
    yield from _ending_alone(waits, is_without_series=is_without_series)
    yield from _freed(waits)


def _ending_alone(waits: Counterfactual, *, is_without_series: bool) -> Iterator[str]:
    """Yield what ending idle jobs does by itself, where other remedies are in the effect."""
    end = next((row for row in waits.remedies if row.name == END and row.changed_jobs), None)
    if end is None or not _changes(waits, SHRINK):
        return
    which = " that never used a GPU" if is_without_series else ""
    text = (
        f"Ending idle jobs after {show_duration(waits.end_idle_after_s)} alone "
        f"({counted(end.changed_jobs, 'job')}{which})"
    )
    verbs = {SHORTER: "cuts", LONGER: "lengthens"}
    if end.verdict in verbs:
        verb = verbs[end.verdict]
        to, error = f"the P95 wait to {show_duration(end.p95_wait_s)}", end.error_s
    elif end.mean_verdict in verbs:
        verb = verbs[end.mean_verdict]
        to, error = f"the mean wait to {show_duration(end.mean_wait_s)}", end.mean_error_s
    else:
        of, most_s = "the P95 wait", abs(end.p95_effect_s) + end.error_s
        if waits.verdict not in verbs:  # as in what is said of all remedies
            of, most_s = "the mean wait", abs(end.effect_s) + end.mean_error_s
        yield f"{text} changes {of} too little to tell (by less than {show_duration(most_s)})."
        return
    yield f"{text} {verb} {to} (error {show_duration(error)})."


def _freed(waits: Counterfactual) -> Iterator[str]:
    rows = [row for row in waits.freed if row.freed_gpus]
    if not rows:
        return
    best = max(rows, key=lambda row: (row.usd_per_month or 0.0, row.freed_gpus))
    yield f"Or keep today's waits with {_fewer(best)}{_paid(best)}."


def _fewer(row: FreedGpus) -> str:
    kind = "GPUs" if row.gpu_type == "all" else f"{row.gpu_type} GPUs"
    return f"up to {row.freed_gpus:,} of {row.gpus:,} {kind} fewer"


def _paid(row: FreedGpus) -> str:
    return "" if row.usd_per_month is None else f" ({show_usd(row.usd_per_month)} a month)"


def remedy_words(row: RemedyEffect, waits: Counterfactual) -> str:
    """Return what a remedy is called in tables."""
    return {
        END: f"end idle jobs after {show_duration(waits.end_idle_after_s)}",
        SHRINK: "shrink jobs to the GPUs they use",
        LIMITS: f"limits at most {MOST_TIMES:g} times the run time",
        ALL: "all of the waste",
    }[row.name]


def limits_words(waits: Counterfactual) -> str:
    """Return what tighter limits could do, apart from waste; empty where that is not clear."""
    row = next((row for row in waits.remedies if row.name == LIMITS), None)
    if row is None or not waits.fidelity.may_speak:
        return ""
    text = f"with limits of {MOST_TIMES:g} times the run time, which is not known beforehand, the"
    if row.verdict == SHORTER:
        return f"{text} P95 wait could be {show_duration(row.p95_wait_s)} at best"
    if row.mean_verdict == SHORTER:
        return f"{text} mean wait could be {show_duration(row.mean_wait_s)} at best"
    return ""
