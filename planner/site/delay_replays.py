"""Replays of the jobs of some teams alone: under a policy on pools of GPUs, or the site's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.site.delays import DelayGame
from gpuplan.planner.site.node_replays import site_run
from gpuplan.planner.site.pool_replays import pool_gpus, pool_waits_s
from gpuplan.planner.site.replicas import Chance
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.twin.settings import shuffled
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import HOUR_S
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

MOST_TEAMS = 30
"""Teams with a row of their own; the rest are one."""


@dataclass(frozen=True, slots=True)
class Teams:
    """Whose jobs they are.

    Attributes:
        names: of the teams, most GPU-hours first.
        of_label: team of each label.
    """

    names: tuple[str, ...]
    of_label: dict[str, int]

    @classmethod
    def of(cls, labels: NDArray[np.object_], gpu_s: FloatArray) -> Teams:
        """Return the teams of jobs with these labels; those with little GPU time are one.

        Args:
            labels: of the jobs; shape (n,).
            gpu_s: GPU time of each.
        """
        names, code = np.unique(labels.astype(str), return_inverse=True)
        held = np.bincount(code.reshape(-1), weights=gpu_s, minlength=names.size)
        order = sorted(range(names.size), key=lambda at: (-held[at], names[at]))
        shown = [str(names[at]) for at in order[:MOST_TEAMS]]
        of_label = {name: place for place, name in enumerate(shown)}
        rest = [str(names[at]) for at in order[MOST_TEAMS:]]
        if rest:
            shown.append(f"{len(rest):,} more")
            of_label |= dict.fromkeys(rest, len(shown) - 1)
        return cls(tuple(shown), of_label)

    def codes(self, labels: NDArray[np.object_]) -> IntArray:
        """Return the team of each label; shape (n,)."""
        return np.array([self.of_label[str(label)] for label in labels], np.int64)


def pool_game(
    pools: Sequence[JobPool], team_of: Sequence[IntArray], teams: Teams, policy: PolicySpec
) -> DelayGame:
    """Return the teams of jobs on pools of GPUs, which do not wait for each other.

    Args:
        pools: the jobs by GPU type.
        team_of: team of each job of each pool.
        teams: their names.
        policy: with its settings, but for its size.
    """
    count = len(teams.names)

    def waits_h(item: tuple[int, int]) -> FloatArray:
        mask, chance = item
        waited = np.zeros(count)
        within = np.array([bool(mask >> team & 1) for team in range(count)])
        for pool, team in zip(pools, team_of, strict=True):
            chosen = np.flatnonzero(within[team])
            if not chosen.size:
                continue
            waits_s = pool_waits_s(
                pool.jobs, chosen, policy, pool_gpus(pool), pool.gpus_per_node, chance
            )
            wait_h = np.nan_to_num(waits_s) / HOUR_S
            waited += np.bincount(team, weights=wait_h, minlength=count)
        return waited

    jobs = sum((np.bincount(team, minlength=count) for team in team_of), np.zeros(count, np.int64))
    return DelayGame(teams.names, jobs, sum(team.size for team in team_of), waits_h)


def site_game(
    site: SiteCluster,
    config: SchedulerConfig,
    work: SiteWorkload,
    team: IntArray,
    teams: Teams,
) -> DelayGame:
    """Return the teams of jobs under a site's rules; users do not give up.

    Args:
        site, config, work: what is replayed.
        team: of each job.
        teams: their names.
    """
    count = len(teams.names)
    chance = Chance.of(work, None)

    def waits_h(item: tuple[int, int]) -> FloatArray:
        mask, number = item
        within = np.array([bool(mask >> code & 1) for code in range(count)])
        jobs = chance.applied(work.jobs.kept(within[team]), number)
        run = site_run(site, jobs, shuffled(config, number + 1))
        counts = work.scored[jobs.id] & (run.wait >= 0)
        wait_h: FloatArray = run.wait[counts] / HOUR_S
        waited: FloatArray = np.zeros(count)
        np.add.at(waited, team[jobs.id[counts]], wait_h)
        return waited

    jobs = np.bincount(team[work.scored], minlength=count)
    return DelayGame(teams.names, jobs, work.jobs.id.size, waits_h)
