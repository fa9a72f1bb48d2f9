"""How well each set of Kueue's rules explains the waits that a dump of workloads recorded."""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.planner.quota.model import QuotaModel, quota_model
from gpuplan.planner.quota.use import loop_notes
from gpuplan.planner.quota_twin.cases import QuotaReplay, replay_level
from gpuplan.planner.quota_twin.levels import (
    ADD_CONFIGURATION,
    ADDED,
    FAIR,
    LEVELS,
    NOT_CONFIGURED,
    skipped_levels,
)
from gpuplan.planner.quota_twin.log_workload import QuotaWorkload, at_submits, quota_workload
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.twin.calibrate import (
    MOST_EXCLUDED,
    SEEDS,
    CalibrateResults,
    NoiseFloor,
    Progress,
    Replays,
    no_progress,
    noise_floor,
)
from gpuplan.planner.twin.score import LevelScore, score_run
from gpuplan.planner.twin.workload import jittered

MOST_LEFT_OUT = 0.05
"""Share of workloads that a site does not explain, above which that is said first."""
NOT_MODELED = (
    "topology, image pulls, admission checks and the latency of the controller are not modeled"
)

LEAST_EXPLAINED = 0.1
"""Share of the recorded waits that rules which explain something account for."""
LEAST_WAIT_S = 60.0
"""Shorter mean waits need no rule: the controller takes as long."""
HELD_BY_OTHERS = "Something other than these quotas holds the jobs."
NO_RULE = f"The rules explain none of the recorded waits. {HELD_BY_OTHERS}"


def calibrate_quotas(
    log: KueueLog,
    document: QuotaDocument,
    *,
    warmup_s: int | None = None,
    progress: Progress = no_progress,
) -> CalibrateResults:
    """Replay a dump under more and more of its site's rules and score each.

    Waits count from the creation of a workload to the reservation of its quota.

    Args:
        log: the workloads.
        document: the site.
        warmup_s: seconds after the first submission whose jobs are not scored; None: a tenth.
        progress: called with the share done.

    Raises:
        InputError: no workload is of the site, or none can be scored.
        UsageError: the site cannot be replayed.
    """
    model = quota_model(document)
    work = quota_workload(log, document, model, warmup_s)
    skipped = skipped_levels(model.site, is_configured="controller" in document.tables)
    levels = [level for level in LEVELS if level not in skipped]
    steps = Replays(len(levels) + len(SEEDS), progress)
    scores: list[LevelScore] = []
    runs: dict[str, QuotaReplay] = {}
    for level in levels:
        runs[level] = _replay(steps, model, work, level)
        score = score_run(level, work, runs[level].at_least(log.end))
        if score is None:
            raise InputError(
                log.path,
                "has no workload to score: all came in the warm-up, or were evicted before the "
                "start that the dump knows",
                hint="give a longer dump, one of kubectl get --watch, or a shorter --warmup",
            )
        scores.append(score)
    top = levels[-1]
    shaken = [_replay(steps, model, work, top, seed).at_least(log.end) for seed in SEEDS]
    floor = noise_floor(work, runs[top].at_least(log.end), shaken)
    chosen, choice = choose(scores, floor)
    run = runs[chosen]
    score = next(score for score in scores if score.name == chosen)
    never = int(run.never.sum())
    return CalibrateResults(
        within=score.within,
        mae_s=score.mae_s,
        levels=tuple(scores),
        skipped_levels=skipped,
        noise_floor=floor,
        excluded=work.excluded,
        scored_jobs=int(work.scored.sum()),
        replayed_jobs=int(work.jobs.id.size),
        earlier_jobs=0,
        left_out=dict(work.left_out),
        rejected={"never": never} if never else {},
        lacks=(),
        chosen=chosen,
        choice=choice,
        inferred=(),
        rules_off=[],
        unknown_settings=document.unknown,
        advice=(),
        notes=(
            *work.notes,
            *document.notes,
            *((ADD_CONFIGURATION,) if skipped.get(FAIR) == NOT_CONFIGURED else ()),
            *(
                f"{counted(count, 'workload')} left out: {why}"
                for why, count in work.left_out.items()
            ),
            *loop_notes(run.run, list(work.job_ids), list(work.queues)),
            NOT_MODELED,
        ),
        log=log,
        document=document,
        work=work,
        run=run.at_least(log.end),
        warnings=(*log.warnings, *work_warnings(work)),
        added=ADDED,
        doubt=NO_RULE if _is_in_doubt(score) else "",
    )


def _is_in_doubt(score: LevelScore) -> bool:
    return explains_nothing(score.mae_s, score.replayed_mean_s, score.recorded_mean_s)


def _replay(
    steps: Replays, model: QuotaModel, work: QuotaWorkload, level: str, seed: int | None = None
) -> QuotaReplay:
    """Return a replay, with the chance of a seed where one is given. Raises `UsageError`."""
    jobs = work.jobs if seed is None else jittered(work.jobs, seed)
    seen = steps.next(f"workloads replayed (level {level})", int(work.jobs.id.size))
    return replay_level(model.site, at_submits(work.quota, jobs, seed), level, seen)


def choose(scores: list[LevelScore], floor: NoiseFloor) -> tuple[str, str]:
    """Return the highest level whose error is that of the best one but for noise, and why.

    The site's configuration states every rule, so that a rule which changes nothing stays.
    """
    least = min(score.mae_s for score in scores)
    best = next(score for score in scores if score.mae_s == least)
    chosen = next(score for score in reversed(scores) if score.mae_s <= least + floor.spread_s)
    if chosen.name == scores[-1].name:
        if chosen.mae_s == least and chosen.name == best.name:
            return chosen.name, f"{chosen.name} has the lowest mean error"
        return chosen.name, (
            f"{chosen.name} is as good as {best.name} but for noise, and the site states its rules"
        )
    return chosen.name, (
        f"{chosen.name} has the lowest mean error, though the site states more rules: the log does "
        "not follow them, or followed others at the time"
    )


def work_warnings(work: QuotaWorkload) -> list[str]:
    """Return what makes the replay doubtful, one sentence each."""
    warnings = []
    named = ("of a queue that the site does not have", "too large for the quotas of today")
    total = sum(work.left_out.values()) + work.jobs.id.size
    for why in named:
        count = work.left_out.get(why, 0)
        if count > MOST_LEFT_OUT * total:
            warnings.append(
                f"{counted(count, 'workload')} of {total:,} left out: {why}; the site is not that "
                "of then"
            )
    excluded, scored = sum(work.excluded.values()), int(work.scored.sum())
    if excluded > MOST_EXCLUDED * (excluded + scored):
        warnings.append(
            f"{excluded / (excluded + scored):.0%} of the workloads are not scored: the dump "
            "keeps only the last start of those that were evicted; kubectl get --watch keeps all"
        )
    return warnings


def explains_nothing(mae_s: float, replayed_s: float, recorded_s: float) -> bool:
    """Return whether a replay is hardly better than one in which no job waits.

    One in which jobs wait longer than recorded has rules that are too strict, which is another
    matter.

    Args:
        mae_s: mean absolute error of the replayed waits.
        replayed_s: mean replayed wait.
        recorded_s: mean recorded wait of the same jobs: the error where no job waits.
    """
    if recorded_s < LEAST_WAIT_S or replayed_s >= recorded_s:
        return False
    return mae_s >= (1 - LEAST_EXPLAINED) * recorded_s


def nothing_explained(waits: WaitPairs) -> bool:
    """Return whether a replay of today explains nothing of the waits of its jobs."""
    if not waits.recorded_s.size:
        return False
    error = float(np.abs(waits.replayed_s - waits.recorded_s).mean())
    return explains_nothing(error, float(waits.replayed_s.mean()), float(waits.recorded_s.mean()))
