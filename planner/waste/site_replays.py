"""The waits without waste under a site's own rules, in pairs with today's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.planner.engine import THREADS
from gpuplan.planner.site.change_effects import ChangeEffect, months_of
from gpuplan.planner.site.fidelity import SITE_RULES, TodayReplay, fidelity_of
from gpuplan.planner.site.node_replays import SiteTerms, node_types, today_waits
from gpuplan.planner.site.options import OptionWaits
from gpuplan.planner.site.pairs import what_if
from gpuplan.planner.site.replicas import Chance, patience_of
from gpuplan.planner.site.site_sizes import SiteSizes, held_jobs
from gpuplan.planner.sizing.search import smallest_below
from gpuplan.planner.sizing.sized_replay import SizedReplay
from gpuplan.planner.sizing.targets import MEAN, PERCENTILE, WAIT, Target
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.settings import level_config
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.workload import SiteWorkload, recent
from gpuplan.planner.waste.remedies import ALL, JobWaste, site_change
from gpuplan.planner.waste.results import (
    Counterfactual,
    FreedGpus,
    RemedyEffect,
    counterfactual_of,
)
from gpuplan.simkit.arrays import IntArray


def site_counterfactual(
    log: SiteLog,
    document: SiteDocument,
    calibration: CalibrationTable,
    waste: JobWaste,
    job_ids: Sequence[str],
    end_idle_after_s: float,
) -> Counterfactual | None:
    """Replay a site's log with and without each kind of waste.

    None where nothing can be changed, or no scored job starts.

    Args:
        log: of the site.
        document: its settings.
        calibration: the rules and jobs to replay, and the jobs to score.
        waste: of the jobs.
        job_ids: of these jobs.
        end_idle_after_s: when idle jobs are ended.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: the site cannot be replayed.
    """
    names, all_remedies = waste.replayed()
    if not names:
        return None
    log = log if calibration.all_jobs else recent(log)
    site, full, work = prepared(log, document, calibration.warmup_s, calibration.limit_factor)
    rows = _rows(work, job_ids)
    changes = [site_change(waste, rows, name) for name in names]
    effects = what_if(log, document, changes, calibration)
    today = effects.today
    if not today.recorded_s.size or any(not change.groups for change in effects.changes):
        return None
    gpus = site.gpus
    remedies = [
        _remedy(change, waste.jobs_of(change.name), work) for change in effects.changes
    ]  # fmt: skip
    if all_remedies != ALL:
        remedies += [replace(row, name=ALL) for row in remedies if row.name == all_remedies]
    base = work.recorded_wait[work.scored].astype(np.float64)
    answer = counterfactual_of(
        remedies,
        rules=SITE_RULES,
        jobs=effects.changes[-1].groups[0].jobs,
        pairs=effects.changes[-1].replicas,
        end_idle_after_s=end_idle_after_s,
        months=months_of(work),
        today_s=(float(base.mean()), float(np.percentile(base, 95))),
        fidelity=fidelity_of(TodayReplay(SITE_RULES, gpus, today.summary())),
    )
    if not answer.is_shorter:
        return answer
    config = level_config(full, calibration.level)
    chance = Chance.of(work, patience_of(work))
    held = np.zeros_like(held_jobs(work))  # as the effects, of the scored jobs alone
    today_wait = today_waits(site, config, work, chance, THREADS)
    without = _without(work, changes[names.index(all_remedies)])
    cases = [
        SiteTerms(
            site, config, each, nodes, todays_targets(work, nodes.choice.partitions), None, "",
            held, chance, today_wait,
        )
        for nodes in node_types(site)
        for each in (work, without)
    ]  # fmt: skip
    pairs = zip(cases[::2], cases[1::2], strict=True)
    return replace(answer, freed=tuple(_freed(before, after) for before, after in pairs))


def _rows(work: SiteWorkload, job_ids: Sequence[str]) -> IntArray:
    """Return the place of each job of a site among some jobs; -1 for one that is not there."""
    place = {job_id: row for row, job_id in enumerate(job_ids)}
    return np.array([place.get(job_id, -1) for job_id in work.job_ids], np.int64)


def todays_targets(work: SiteWorkload, partitions: Sequence[str]) -> tuple[Target, ...]:
    """Return that waits are at most today's: of all jobs, and of those of each partition.

    Fewer nodes of a type lengthen the waits of the jobs that can run there; over all jobs that may
    not show.

    Args:
        work: the jobs.
        partitions: of the nodes; those without a scored job have no target.
    """
    names = work.names("partition")
    groups: list[tuple[str, str] | None] = [None]
    groups += [("partition", name) for name in partitions if np.any(work.scored & (names == name))]
    targets = []
    for group in groups:
        chosen = work.scored if group is None else work.scored & (names == group[1])
        wait_s = work.recorded_wait[chosen].astype(np.float64)
        p95_s = float(np.percentile(wait_s, 95))
        targets += [
            Target("mean_wait", WAIT, MEAN, 0.0, float(wait_s.mean()), group),
            Target("p95_wait", WAIT, PERCENTILE, 95.0, p95_s, group),
        ]
    return tuple(targets)


def _without(work: SiteWorkload, change: SiteChange) -> SiteWorkload:
    return work if change.jobs is None else replace(work, jobs=change.jobs(work.jobs))


def _remedy(change: ChangeEffect, changed_jobs: int, work: SiteWorkload) -> RemedyEffect:
    recorded = work.recorded_wait[work.scored].astype(np.float64)
    waits = OptionWaits.of(change.groups[0], change.replicas, recorded)
    return RemedyEffect(
        name=change.name,
        changed_jobs=changed_jobs,
        mean_wait_s=waits.mean_wait_s,
        p95_wait_s=waits.p95_wait_s,
        effect_s=waits.effect_s,
        p95_effect_s=waits.p95_effect_s,
        mean_error_s=waits.error_s,
        error_s=waits.p95_error_s,
        mean_verdict=waits.verdict,
        verdict=waits.p95_verdict,
    )


def _freed(before: SiteTerms, after: SiteTerms) -> FreedGpus:
    """Return the GPUs of one type that waits of today do not need without the waste."""
    sizes = (SiteSizes(before, THREADS), _SureSizes(after, THREADS))
    today = sizes[0].today
    enough, needed = (smallest_below(each, today) or today for each in sizes)
    return FreedGpus(before.nodes.name, today, enough, max(enough - needed, 0), None)


class _SureSizes(SiteSizes):
    """Numbers of nodes that meet targets only where no error of a replay can miss them."""

    def replayed(self, sizes: Sequence[int]) -> Iterable[SizedReplay]:
        """Return new replays, in the order of the sizes."""
        for replay in super().replayed(sizes):
            yield replace(replay, meets=not replay.could_miss)
