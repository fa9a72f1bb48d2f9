"""How well each set of rules explains the waits that a site recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog, left_out_notes
from gpuplan.planner.twin.infer import Inferred
from gpuplan.planner.twin.lacks import Lack, lacks_of, lacks_text
from gpuplan.planner.twin.score import (
    LevelScore,
    StartedRun,
    advice,
    score_run,
    score_waits,
    scored_mask,
    wait_note,
)
from gpuplan.planner.twin.settings import ADDED, LEVELS, config_of, level_config, shuffled, site_of
from gpuplan.planner.twin.workload import SiteWorkload, jittered, site_run, site_workload
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.watch import ReplayPace

SEEDS = (1, 2, 3)
MOST_EXCLUDED = 0.2
MOST_REJECTED = 0.01
GIVEN_BY = {
    "bf": ("backfill.",),
    "multifactor": ("priority.PriorityWeight",),
    "limits": ("qos.", "account."),
    "events": ("event",),
}
"""Settings that a rule needs, as beginnings of their keys."""
Progress = Callable[[float], None]
"""Called with the share of the work done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far replays differ that differ in ties and in submissions by up to a minute.

    Attributes:
        within: share of jobs close to each other, on average over the pairs.
        mae_s: mean absolute difference of their waits.
        spread_s: greatest difference of their mean absolute errors.
    """

    within: float
    mae_s: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class CalibrateResults:
    """How well each set of rules explains the waits of a log.

    Attributes:
        within: share of jobs that the chosen rules replay within 5 minutes or 20% of their
            recorded wait.
        mae_s: mean absolute error of their waits.
        levels: a score per set of rules, each with more rules than the one before.
        skipped_levels: set of rules -> why it was not replayed.
        noise_floor: how far replays differ that differ in ties and submissions by up to a minute.
        excluded: jobs that are replayed and not scored, by reason.
        scored_jobs: jobs scored.
        replayed_jobs: jobs replayed.
        earlier_jobs: jobs of a long log that are not replayed, since they came before its last
            weeks.
        left_out: rows of the log that are not usable GPU jobs, by reason.
        rejected: jobs that never start under the chosen rules, by reason.
        lacks: what the site has and the model lacks, where it touches over 1% of jobs or waits.
        chosen: the rules to use.
        choice: why.
        inferred: settings that were inferred or assumed.
        rules_off: what the log cannot tell, one sentence each.
        unknown_settings: settings of the files that the model does not use.
        advice: what the pattern of the errors suggests.
        notes: what a reader should know.
        log, document: what went in.
        work: the jobs.
        run: the replay of the chosen rules.
        warnings: what would change what the reader does.
        added: the rules that each level adds, in words.
        doubt: why the rules say nothing of waits, as one sentence; empty where they do.
    """

    within: float
    mae_s: float
    levels: tuple[LevelScore, ...]
    skipped_levels: dict[str, str]
    noise_floor: NoiseFloor
    excluded: dict[str, int]
    scored_jobs: int
    replayed_jobs: int
    earlier_jobs: int
    left_out: dict[str, int]
    rejected: dict[str, int]
    lacks: tuple[Lack, ...]
    chosen: str
    choice: str
    inferred: tuple[Inferred, ...]
    rules_off: list[str]
    unknown_settings: list[str]
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    log: Hidden[SiteLog | KueueLog]
    document: Hidden[SiteDocument | QuotaDocument]
    work: Hidden[SiteWorkload]
    run: Hidden[StartedRun]
    warnings: Hidden[tuple[str, ...]]
    added: Hidden[Mapping[str, str]] = field(default_factory=lambda: ADDED)
    doubt: Hidden[str] = ""

    @property
    def score(self) -> LevelScore:
        """The score of the chosen rules."""
        return next(level for level in self.levels if level.name == self.chosen)


def no_progress(share: float) -> None:
    """Show no progress."""


class Replays:
    """Shows how far replays are; ``total`` replays are all the work."""

    def __init__(self, total: int, progress: Progress = no_progress) -> None:
        self.total = total
        self.progress = progress
        self.done = 0

    def next(self, text: str, jobs: int) -> Progress:
        """Return what the next replay calls with its share done; ``text`` says what it counts."""
        pace, before = ReplayPace(), self.done
        self.done += 1

        def seen(share: float) -> None:
            pace.say(round(share * jobs), jobs, text)
            self.progress((before + share) / self.total)

        return seen

    def run(self, name: str, site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> SiteRun:
        """Replay jobs on a site; ``name`` says what is replayed.

        Raises:
            UsageError: the site or a job is too large for a replay.
        """
        return site_run(site, jobs, config, self.next(f"jobs replayed ({name})", jobs.id.size))


def calibrate(
    log: SiteLog,
    document: SiteDocument,
    inferred: tuple[Inferred, ...] = (),
    *,
    warmup_s: int | None = None,
    limit_factor: float = 2.0,
    earlier: int = 0,
    progress: Progress = no_progress,
) -> CalibrateResults:
    """Replay a log under more and more of its site's rules and score each.

    Args:
        inferred: which of them were inferred or assumed.
        warmup_s: see `site_workload`.
        limit_factor: see `site_workload`.
        earlier: jobs submitted before those of the log, which are not replayed.
        progress: called with the share done.

    Raises:
        InputError: the log has no job to score.
        UsageError: a setting cannot be used.
    """
    site, full, work = prepared(log, document, warmup_s, limit_factor)
    scores: list[LevelScore] = []
    runs: dict[str, SiteRun] = {}
    skipped = _skipped(site, full)
    levels = [level for level in LEVELS if level not in skipped]
    replays = Replays(len(levels) + len(SEEDS), progress)
    for level in levels:
        run = replays.run(f"level {level}", site, work.jobs, level_config(full, level))
        score = score_run(level, work, run)
        if score is None:
            raise InputError(
                log.path,
                "has no job to score: all were submitted in the warm-up, never started, or are "
                "excluded",
                hint="give a longer log, or a shorter --warmup",
            )
        scores.append(score)
        runs[level] = run
    top = scores[-1].name
    config = level_config(full, top)
    shaken = [
        replays.run("noise floor", site, jittered(work.jobs, seed), shuffled(config, seed))
        for seed in SEEDS
    ]
    floor = noise_floor(work, runs[top], shaken)
    chosen, choice = _choose(scores, floor, document)
    rejected, lacks = never_started(runs[chosen]), lacks_of(log, document, site)
    note = () if (text := wait_note(work)) is None else (text,)
    run, score = runs[chosen], next(score for score in scores if score.name == chosen)
    return CalibrateResults(
        within=score.within,
        mae_s=score.mae_s,
        levels=tuple(scores),
        skipped_levels=skipped,
        noise_floor=floor,
        excluded=work.excluded,
        scored_jobs=int(work.scored.sum()),
        replayed_jobs=int(work.jobs.id.size),
        earlier_jobs=earlier,
        left_out=log.left_out,
        rejected=rejected,
        lacks=lacks,
        chosen=chosen,
        choice=choice,
        inferred=inferred,
        rules_off=log.switched_off(),
        unknown_settings=document.unknown,
        advice=tuple(advice(work, run, _given_keys(document), floor.mae_s)),
        notes=(*left_out_notes(log), *work.notes, *document.notes, *note),
        log=log,
        document=document,
        work=work,
        run=run,
        warnings=tuple(_warnings(log, work, rejected, lacks)),
    )


def prepared(
    log: SiteLog, document: SiteDocument, warmup_s: int | None = None, limit_factor: float = 2.0
) -> tuple[SiteCluster, SchedulerConfig, SiteWorkload]:
    """Return the cluster, the settings of the full model and the jobs."""
    named = log.jobs.select("account", "user").drop_nulls().unique().sort("account", "user")
    site = site_of(document, named.rows())
    work = site_workload(log, site, warmup_s=warmup_s, limit_factor=limit_factor)
    return site, config_of(document), work


def never_started(run: SiteRun) -> dict[str, int]:
    """Return how many jobs the replay did not start, by reason; cancelled ones are left out."""
    counts: dict[str, int] = {}
    for i in np.flatnonzero(run.start < 0):
        why = run.reason(int(i))
        if why != "cancelled":
            counts[why] = counts.get(why, 0) + 1
    return counts


def _skipped(site: SiteCluster, full: SchedulerConfig) -> dict[str, str]:
    """Return the levels that would equal the one before, and why."""
    reasons = {}
    tiers = {p.tier for p in site.partitions}
    weights = (
        full.w_age, full.w_fairshare, full.w_size, full.w_partition, full.w_qos, full.w_tres_gpu
    )  # fmt: skip
    if (full.order == "fifo" or not any(weights)) and len(tiers) == 1:
        reasons["multifactor"] = "no priority weights and one tier"
    caps = any(
        getattr(q, name) is not None
        for q in site.qos
        for name in ("grp_gpus", "grp_jobs", "user_gpus", "user_jobs", "job_gpus", "max_wall")
    ) or any(a.grp_gpus is not None or a.max_jobs is not None for a in site.assocs)
    if not caps:
        reasons["limits"] = "no limits are known"
    elif not full.limits:
        reasons["limits"] = "AccountingStorageEnforce does not enforce limits"
    if not site.events:
        reasons["events"] = "no node events are known"
    return reasons


def noise_floor(work: SiteWorkload, top: StartedRun, runs: Sequence[StartedRun]) -> NoiseFloor:
    """Return how far replays differ in ties and in submissions by up to a minute.

    Args:
        runs: the same with chance.
    """
    within, mae = [], []
    for first, second in combinations(runs, 2):
        both = scored_mask(work, first) & scored_mask(work, second)
        if both.any():
            score = score_waits("", first.wait[both], second.wait[both])
            within.append(score.within)
            mae.append(score.mae_s)
    scores = (score_run("", work, run, groups=False) for run in (top, *runs))
    errors = [level.mae_s for level in scores if level is not None]
    return NoiseFloor(
        float(np.mean(within)) if within else 1.0,
        float(np.mean(mae)) if mae else 0.0,
        max(errors) - min(errors),
    )


def _choose(scores: list[LevelScore], floor: NoiseFloor, document: SiteDocument) -> tuple[str, str]:
    """Return the level of the lowest error, without rules that neither help nor were given."""
    at = min(range(len(scores)), key=lambda i: (scores[i].mae_s, i))
    said = [f"{scores[at].name} has the lowest mean error"]
    while at:
        gain = scores[at - 1].mae_s - scores[at].mae_s
        if gain > floor.spread_s:
            break
        name = scores[at].name
        if _was_given(name, document):
            said.append(f"{name} gains no more than noise and is kept because it was given")
            break
        said.append(f"{name} was not given and gains no more than noise, so it is left out")
        at -= 1
    return scores[at].name, "; ".join(said)


def _given_keys(document: SiteDocument) -> list[str]:
    return [key for key, source in document.sources.items() if source == "given"]


def _was_given(level: str, document: SiteDocument) -> bool:
    starts = GIVEN_BY.get(level, ())
    return any(key.startswith(starts) for key in _given_keys(document)) if starts else False


def _warnings(
    log: SiteLog, work: SiteWorkload, rejected: dict[str, int], lacks: tuple[Lack, ...]
) -> list[str]:
    warnings = list(log.warnings)
    if (text := lacks_text(lacks)) is not None:
        warnings.append(text)
    if sum(rejected.values()) > MOST_REJECTED * work.jobs.id.size:
        reasons = ", ".join(f"{count:,} {why}" for why, count in rejected.items())
        warnings.append(
            f"{sum(rejected.values()):,} of {work.jobs.id.size:,} jobs ran and never start under "
            f"these settings ({reasons}): the settings are not those of then"
        )
    excluded, scored = sum(work.excluded.values()), int(work.scored.sum())
    if excluded > MOST_EXCLUDED * (excluded + scored):
        share = excluded / (excluded + scored)
        warnings.append(
            f"{share:.0%} of the jobs are not scored: the score may not hold for the rest"
        )
    if "limit_s" in log.missing:
        warnings.append(
            "the log has no time limits: every job is planned with twice its run time, so the "
            "error of backfill is understated"
        )
    return warnings
