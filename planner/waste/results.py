"""What is said of the waits without waste: by remedy, with errors, and the GPUs it frees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.planner.runs.recorded_waits import LEAST_GAP_S
from gpuplan.planner.site.effects import SHORTER
from gpuplan.planner.site.fidelity import CONTRADICTS, Fidelity
from gpuplan.planner.waste.remedies import ALL

UNKNOWN = "unknown"
"""Verdict where the replay of today is not the log's."""


@dataclass(frozen=True, slots=True)
class RemedyEffect:
    """What one remedy does to the waits of all jobs, in seconds.

    Attributes:
        name: the remedy, or ``all`` of them.
        changed_jobs: jobs that it changes.
        mean_wait_s, p95_wait_s: the log's plus the effect; replayed where it records none.
        effect_s, p95_effect_s: without the waste less with it.
        mean_error_s, error_s: of the effects on the mean and on the P95, and of these waits.
        mean_verdict, verdict: of the effects: ``shorter``, ``longer``, ``too small to tell`` or
            ``no change``; ``unknown`` where the replay of today is not the log's.
    """

    name: str
    changed_jobs: int
    mean_wait_s: float
    p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    mean_error_s: float
    error_s: float
    mean_verdict: str
    verdict: str


@dataclass(frozen=True, slots=True)
class FreedGpus:
    """GPUs of one type that could go: without waste, waits would be those of today.

    Attributes:
        gpu_type: the type; ``all`` where the log names none.
        gpus: today.
        enough_gpus: with the waste, that give the waits of today.
        freed_gpus: how many fewer do without the waste.
        usd_per_month: what these cost, as far as they are neither owned nor committed to; null
            without a price.
    """

    gpu_type: str
    gpus: int
    enough_gpus: int
    freed_gpus: int
    usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The waits without the waste: idle jobs ended, partly idle ones shrunk, limits tightened.

    Attributes:
        rules: the policy that is replayed, or the rules of the site.
        jobs: whose waits count.
        pairs: of replays, with and without the waste.
        end_idle_after_s: when idle jobs are ended.
        today_mean_wait_s, today_p95_wait_s: of these jobs as recorded, or replayed where the log
            records no waits.
        mean_wait_s, p95_wait_s, effect_s, p95_effect_s, mean_error_s, error_s, mean_verdict,
            verdict: of all remedies together, as in `RemedyEffect`; ``error_s`` is of the P95.
        wait_h_saved_per_month: hours that jobs wait less; null unless the mean is clearly shorter.
        remedies: each alone, then all of them.
        freed: GPUs that could go at today's waits, by type; empty unless waits are clearly shorter.
            Under a site's rules each is with all other types as they are.
        fidelity: how the replay of today compares with the log.
    """

    rules: str
    jobs: int
    pairs: int
    end_idle_after_s: float
    today_mean_wait_s: float
    today_p95_wait_s: float
    mean_wait_s: float
    p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    mean_error_s: float
    error_s: float
    mean_verdict: str
    verdict: str
    wait_h_saved_per_month: float | None
    remedies: tuple[RemedyEffect, ...]
    freed: tuple[FreedGpus, ...]
    fidelity: Fidelity

    @property
    def is_shorter(self) -> bool:
        """Whether waits are clearly shorter without the waste."""
        return SHORTER in (self.mean_verdict, self.verdict)


def counterfactual_of(
    effects: Sequence[RemedyEffect],
    *,
    rules: str,
    jobs: int,
    pairs: int,
    end_idle_after_s: float,
    months: float,
    today_s: tuple[float, float],
    fidelity: Fidelity,
) -> Counterfactual:
    """Return what replays say, without any GPUs freed.

    Args:
        effects: of the remedies; that of `ALL` is the last one.
        rules, jobs, pairs, end_idle_after_s, fidelity: as in `Counterfactual`.
        months: in which these jobs were submitted.
        today_s: mean and P95 wait of today.
    """
    fidelity = _plausible(effects, today_s, fidelity)
    if not fidelity.may_speak:
        effects = [replace(each, mean_verdict=UNKNOWN, verdict=UNKNOWN) for each in effects]
    all_remedies = effects[-1]
    if all_remedies.name != ALL:
        raise ValueError(f"the last effect must be that of all remedies, got {all_remedies.name}")
    is_shorter = all_remedies.mean_verdict == SHORTER and months > 0
    saved_h = -all_remedies.effect_s * jobs / HOUR_S / months if is_shorter else None
    return Counterfactual(
        rules=rules,
        jobs=jobs,
        pairs=pairs,
        end_idle_after_s=end_idle_after_s,
        today_mean_wait_s=today_s[0],
        today_p95_wait_s=today_s[1],
        mean_wait_s=all_remedies.mean_wait_s,
        p95_wait_s=all_remedies.p95_wait_s,
        effect_s=all_remedies.effect_s,
        p95_effect_s=all_remedies.p95_effect_s,
        mean_error_s=all_remedies.mean_error_s,
        error_s=all_remedies.error_s,
        mean_verdict=all_remedies.mean_verdict,
        verdict=all_remedies.verdict,
        wait_h_saved_per_month=saved_h,
        remedies=tuple(effects),
        freed=(),
        fidelity=fidelity,
    )


def _plausible(
    effects: Sequence[RemedyEffect], today_s: tuple[float, float], fidelity: Fidelity
) -> Fidelity:
    """Return the fidelity, which is none where waits would fall by more than there is of them."""
    mean_s, p95_s = (wait_s + LEAST_GAP_S for wait_s in today_s)
    is_more = any(-row.effect_s > mean_s or -row.p95_effect_s > p95_s for row in effects)
    if not is_more or not fidelity.may_speak:
        return fidelity
    why = "in the replay jobs would wait less by more than they wait in the log"
    return replace(fidelity, verdict=CONTRADICTS, why=why)
