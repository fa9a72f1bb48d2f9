"""How well each set of rules explains the waits that a site recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog, left_out_notes
from gpuplan.planner.twin.advice import advice
from gpuplan.planner.twin.calibration_results import CalibrateResults, NoiseFloor
from gpuplan.planner.twin.infer import Inferred
from gpuplan.planner.twin.levels import LEVELS, level_config, shuffled
from gpuplan.planner.twin.replays import Progress, Replays, nothing
from gpuplan.planner.twin.score import LevelScore, score_run, score_waits, scored_mask
from gpuplan.planner.twin.settings import config_of, site_of
from gpuplan.planner.twin.workload import SiteWorkload, site_workload
from gpuplan.simkit.twin.simulator import SiteRun
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

SEEDS = (1, 2, 3)
MOST_EXCLUDED = 0.2
GIVEN_BY = {
    "bf": ("backfill.",),
    "multifactor": ("priority.PriorityWeight",),
    "limits": ("qos.", "account."),
    "events": ("event",),
}
"""Settings that a rule needs, as beginnings of their keys."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration found.

    Attributes:
        log, document: what went in.
        work: the jobs.
        levels: a score per level, in their order.
        skipped: level -> why it was not replayed.
        floor: the noise floor.
        chosen: the level to use.
        choice: why.
        inferred: settings that were inferred or assumed.
        advice: what the pattern of the errors suggests.
        warnings: what would change what the reader does.
        notes: what a reader should know.
        run: the replay of the chosen level.
        reasons: jobs that never start, by reason.
        earlier: jobs of the log that were submitted before those replayed.
    """

    log: SiteLog
    document: SiteDocument
    work: SiteWorkload
    levels: tuple[LevelScore, ...]
    skipped: dict[str, str]
    floor: NoiseFloor
    chosen: str
    choice: str
    inferred: tuple[Inferred, ...]
    advice: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    run: SiteRun
    reasons: dict[str, int] = field(default_factory=dict)
    earlier: int = 0

    @property
    def score(self) -> LevelScore:
        """The score of the chosen level."""
        return next(level for level in self.levels if level.name == self.chosen)

    def results(self) -> CalibrateResults:
        """Return the results as JSON has them."""
        work, score = self.work, self.score
        return CalibrateResults(
            within=score.within,
            mae_s=score.mae_s,
            levels=self.levels,
            skipped_levels=self.skipped,
            noise_floor=self.floor,
            excluded=work.excluded,
            scored_jobs=int(work.scored.sum()),
            replayed_jobs=int(work.jobs.id.size),
            earlier_jobs=self.earlier,
            left_out=self.log.left_out,
            rejected=self.reasons,
            chosen=self.chosen,
            choice=self.choice,
            inferred=self.inferred,
            rules_off=self.log.switched_off(),
            unknown_settings=self.document.unknown,
            advice=self.advice,
            notes=self.notes,
        )


def calibrate(
    log: SiteLog,
    document: SiteDocument,
    inferred: tuple[Inferred, ...] = (),
    *,
    warmup_s: int | None = None,
    limit_factor: float = 2.0,
    earlier: int = 0,
    progress: Progress = nothing,
) -> Calibration:
    """Replay a log under more and more of its site's rules and score each.

    Args:
        log: the log.
        document: the site's settings.
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
    skipped = _skipped(site, full, document)
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
    floor = _floor(replays, site, work, level_config(full, top), runs[top])
    chosen, choice = _choose(scores, floor, document)
    run = runs[chosen]
    return Calibration(
        log, document, work, tuple(scores), skipped, floor, chosen, choice, inferred,
        tuple(advice(work, run)), tuple(_warnings(log, work)),
        (*left_out_notes(log), *work.notes, *document.notes), run, never_started(run),
        earlier,
    )  # fmt: skip


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
    found: dict[str, int] = {}
    for i in np.flatnonzero(run.start < 0):
        why = run.reason(int(i))
        if why != "cancelled":
            found[why] = found.get(why, 0) + 1
    return found


def _skipped(site: SiteCluster, full: SchedulerConfig, document: SiteDocument) -> dict[str, str]:
    """Return the levels that would equal the one before, and why."""
    found = {}
    tiers = {p.tier for p in site.partitions}
    weights = (
        full.w_age, full.w_fairshare, full.w_size, full.w_partition, full.w_qos, full.w_tres_gpu
    )  # fmt: skip
    if (full.order == "fifo" or not any(weights)) and len(tiers) == 1:
        found["multifactor"] = "no priority weights and one tier"
    caps = any(
        getattr(q, name) is not None
        for q in site.qos
        for name in ("grp_gpus", "grp_jobs", "user_gpus", "user_jobs", "job_gpus", "max_wall")
    ) or any(a.grp_gpus is not None or a.max_jobs is not None for a in site.assocs)
    enforced = str(document.get("backfill", "AccountingStorageEnforce") or "limits").lower()
    if not caps:
        found["limits"] = "no limits are known"
    elif not any(word in enforced for word in ("limits", "safe", "all", "1")):
        found["limits"] = "AccountingStorageEnforce does not enforce limits"
    if not site.events:
        found["events"] = "no node events are known"
    return found


def _floor(
    replays: Replays, site: SiteCluster, work: SiteWorkload, config: SchedulerConfig, top: SiteRun
) -> NoiseFloor:
    runs = [replays.run("noise floor", site, work.jobs, shuffled(config, seed)) for seed in SEEDS]
    within, mae = [], []
    for one, other in combinations(runs, 2):
        both = scored_mask(work, one) & scored_mask(work, other)
        if both.any():
            found = score_waits("", one.wait[both], other.wait[both])
            within.append(found.within)
            mae.append(found.mae_s)
    errors = [
        score.mae_s
        for run in (top, *runs)
        if (score := score_run("", work, run, groups=False)) is not None
    ]
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


def _was_given(level: str, document: SiteDocument) -> bool:
    starts = GIVEN_BY.get(level, ())
    return any(
        source == "given" and key.startswith(starts) for key, source in document.sources.items()
    ) if starts else False  # fmt: skip


def _warnings(log: SiteLog, work: SiteWorkload) -> list[str]:
    found = []
    excluded, scored = sum(work.excluded.values()), int(work.scored.sum())
    if excluded > MOST_EXCLUDED * (excluded + scored):
        share = excluded / (excluded + scored)
        found.append(f"{share:.0%} of the jobs are not scored: the score may not hold for the rest")
    if "limit_s" in log.missing:
        found.append(
            "the log has no time limits: every job is planned with twice its run time, so the "
            "error of backfill is understated"
        )
    return found
