"""Numbers of nodes of one GPU type under a site's own rules, all other nodes as they are.

Jobs whose wait the rules do not explain (a hold, a begin time, an array's own limit) keep their
recorded wait at every number of nodes: they belong to "all jobs", and nodes do not help them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpuplan.analysis.base.words import counted
from gpuplan.planner.engine import Engine
from gpuplan.planner.parallel import run_all
from gpuplan.planner.runs.recorded_waits import FEWEST_JOBS, WaitPairs
from gpuplan.planner.site.fidelity import (
    SITE_RULES,
    TOO_FEW,
    Fidelity,
    TodayReplay,
    fidelity_of,
    unknown,
)
from gpuplan.planner.site.node_replays import BYTES_PER_JOB, SiteTerms, replay_nodes
from gpuplan.planner.sizing.search import Candidates
from gpuplan.planner.sizing.sized_replay import SizedReplay
from gpuplan.planner.twin.score import first_started, scored_mask
from gpuplan.planner.twin.workload import SiteWorkload, site_run
from gpuplan.simkit.arrays import BoolArray
from gpuplan.simkit.twin.jobs import NEVER
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

MOST_TIMES_TODAY = 4
"""Times today's nodes, the most that are tried."""


def held_jobs(work: SiteWorkload) -> BoolArray:
    """Return the jobs that came after the warm-up and are not scored, but for later runs."""
    held: BoolArray = first_started(work) & (work.jobs.pinned == NEVER) & ~work.scored
    return held


def held_note(held: BoolArray, where: str) -> tuple[str, ...]:
    """Return that held jobs wait as recorded, such as "at every size"; nothing without any."""
    if not held.any():
        return ()
    jobs = counted(int(held.sum()), "job")
    return (f"{jobs} that a hold or an array limit kept waiting wait as recorded {where}",)


class SiteSizes(Candidates):
    """The numbers of nodes of one type, in GPUs."""

    rules, doublings = SITE_RULES, 1

    def __init__(self, terms: SiteTerms, engine: Engine) -> None:
        super().__init__(terms.nodes.gpus_per_node, engine)
        self.terms = terms
        self.targets, self.confidence = terms.targets, terms.confidence
        self.least = terms.nodes.least(terms.site, terms.work.jobs) * self.step
        self.where_enough = (
            f"{terms.nodes.name} GPUs, {MOST_TIMES_TODAY} times today's: limits or other "
            "nodes make jobs wait\n  next: a higher limit, or gpuplan whatif with other rules"
        )

    @property
    def today(self) -> int:
        """GPUs of these nodes today."""
        return self.terms.nodes.count * self.step

    def enough(self) -> int:
        """Return a candidate above which the search need not look at first."""
        return max(MOST_TIMES_TODAY // 2 * self.today, self.least)

    def replayed(self, sizes: Sequence[int]) -> Iterable[SizedReplay]:
        """Return new replays, in the order of the sizes."""
        size = self.terms.work.jobs.id.size
        bytes_each = BYTES_PER_JOB * size
        return run_all(
            replay_nodes, sizes, shared=(self.terms,), engine=self.engine, bytes_each=bytes_each
        )


def fidelity_of_site(site: SiteCluster, config: SchedulerConfig, work: SiteWorkload) -> Fidelity:
    """Return how a replay of today under the site's rules compares with the log.

    Waits are from submission, of all jobs that started. Those that a calibration does not score,
    and the time before a job is eligible, are as recorded: see `gpuplan.planner.twin.score`.
    """
    run = site_run(site, work.jobs, config)
    mask = first_started(work) & (~work.scored | (run.start >= 0))
    replayed = np.where(work.scored, run.wait, work.recorded_wait) + work.held
    recorded = work.recorded_wait + work.held
    waits = WaitPairs(
        replayed[mask].astype(float), recorded[mask].astype(float), is_settled=work.scored[mask]
    )
    if np.count_nonzero(work.scored & mask) < FEWEST_JOBS:
        return unknown(TOO_FEW)
    match = waits.summary()
    if match is not None and match.settled is not None and not match.settled.agrees:
        match = match.settled  # jobs that are as recorded say nothing for the rules
    return fidelity_of(TodayReplay(SITE_RULES, site.gpus, match))


def site_waits(
    site: SiteCluster, config: SchedulerConfig, work: SiteWorkload, held: BoolArray | None = None
) -> WaitPairs:
    """Return the waits of the scored jobs in a replay of today, beside the recorded ones.

    Jobs of ``held`` count too, and wait as recorded in both.
    """
    run = site_run(site, work.jobs, config)
    mask, replayed = scored_mask(work, run), run.wait
    if held is not None:
        mask, replayed = mask | held, np.where(held, work.recorded_wait, replayed)
    return WaitPairs(replayed[mask].astype(float), work.recorded_wait[mask].astype(float))
