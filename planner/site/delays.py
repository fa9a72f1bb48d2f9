"""What the jobs of each team cost others in waiting hours, from replays without them.

Two figures of each team, both in job-hours of waiting. *Caused*: the hours that all others wait
less where this team alone is left out. *Share*: its part of all waiting, the Shapley value of the
game in which the cost of a set of teams is what their jobs wait with nobody else there (Shapley, "A
value for n-person games", 1953). Shares add up to all waiting; what teams cause does not, since two
teams may both be needed for a wait.

With few teams every set is replayed. With more the mean is over orders in which the teams come, in
pairs of an order and its reverse, which cancels much of the error (Mitchell et al., "Sampling
permutations for Shapley value estimation", JMLR 23, 2022, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.parallel import run_all
from gpuplan.planner.site.effects import SMALL_SHARE, error_of
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.planner.site.pool_replays import pool_gpus, pool_waits_s
from gpuplan.planner.site.replicas import Chance
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.twin.settings import shuffled
from gpuplan.planner.twin.workload import SiteWorkload, site_run
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import HOUR_S
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

MOST_SHARED = 12
"""Teams among which waiting is shared; more have no shares."""
MOST_EXACT = 5
"""Teams of which every set is replayed."""
MOST_REPLAYED = 30_000_000
"""Jobs in all replays, at about which no more chances or orders are added."""
CHANCES = 4
"""Replays of one set of teams, each with other submissions by up to a minute."""
MOST_PAIRS = 32
"""Pairs of orders of the teams."""
MOST_TEAMS = 30
"""Teams with a row of their own; the rest are one."""


@dataclass(frozen=True, slots=True)
class TeamDelay:
    """The waiting of one team's jobs, and what they cost others; hours of jobs in the replay.

    Attributes:
        name: of the team.
        jobs: whose waits count.
        waited_h: what they wait with everybody there.
        caused_h: what all others wait less without this team; below 0 where they wait more.
        caused_error_h: of it, as that of a what-if: from the replays, and 5% of the waits for what
            a model of a scheduler resolves; null with one replay.
        share_h: its part of all waiting, which adds up; null with over 12 teams.
        share_error_h: of it, likewise; null with one replay of every set of teams.
    """

    name: str
    jobs: int
    waited_h: float
    caused_h: float
    caused_error_h: float | None
    share_h: float | None
    share_error_h: float | None


@dataclass(frozen=True, slots=True)
class DelayResults:
    """Who makes whom wait, in a replay of the log. No dollars: nobody is billed for it.

    Attributes:
        rules: the policy that is replayed, or the rules of the site.
        cluster_gpus: of the cluster.
        jobs: whose waits count.
        wait_h: hours that all of them wait.
        is_exact: whether every set of teams is replayed; null without shares.
        replays: that were made.
        teams: those that cost others most first.
        fidelity: how the replay of today compares with the log; what it says of teams holds only
            where it agrees.
    """

    rules: str
    cluster_gpus: int
    jobs: int
    wait_h: float
    is_exact: bool | None
    replays: int
    teams: tuple[TeamDelay, ...]
    fidelity: Fidelity


@dataclass(frozen=True, slots=True)
class DelayGame:
    """Teams whose jobs are replayed in all sets of them.

    Attributes:
        teams: their names.
        jobs: of each that count; shape (teams,).
        size: jobs in a replay of all.
        waits_h: returns what the jobs of each team wait together, in hours, shape (teams,): of a
            set of teams as a bit mask and the number of a chance. Chance 0 is the log's own.
    """

    teams: tuple[str, ...]
    jobs: IntArray
    size: int
    waits_h: Callable[[tuple[int, int]], FloatArray]

    @property
    def everybody(self) -> int:
        """The set of all teams."""
        return (1 << len(self.teams)) - 1

    @property
    def chances(self) -> int:
        """How often each set is replayed."""
        sets = len(self.teams) + 1
        return CHANCES if CHANCES * sets * self.size <= MOST_REPLAYED else 1

    def orders(self, seed: int) -> list[IntArray]:
        """Return orders of the teams, each before its reverse; none where all sets are replayed."""
        count = len(self.teams)
        if not MOST_EXACT < count <= MOST_SHARED:
            return []
        each = max(self.size * count / 2, 1)  # half of the jobs in the mean
        pairs = int(MOST_REPLAYED / each / 2) // CHANCES * CHANCES
        rng = np.random.default_rng([seed, count])
        drawn = [rng.permutation(count) for _ in range(min(max(pairs, CHANCES), MOST_PAIRS))]
        return [order for forward in drawn for order in (forward, forward[::-1])]


def delays_of(game: DelayGame, seed: int) -> tuple[tuple[TeamDelay, ...], bool | None, int]:
    """Return the delays by team, whether shares are exact, and how many replays were made.

    Args:
        seed: of the orders in which they come.
    """
    count, everybody, chances = len(game.teams), game.everybody, game.chances
    is_exact = None if count > MOST_SHARED else count <= MOST_EXACT
    orders = game.orders(seed)
    wanted = {(everybody & ~(1 << team), c) for team in range(count) for c in range(chances)}
    wanted |= {(everybody, c) for c in range(chances)}
    if is_exact:
        wanted |= {(mask, c) for mask in range(everybody + 1) for c in range(chances)}
    for place, order in enumerate(orders):
        wanted |= {(mask, place // 2 % chances) for mask in _prefixes(order)}
    items = sorted(item for item in wanted if item[0])
    waits = dict(zip(items, run_all(game.waits_h, items, bytes_each=400 * game.size), strict=True))
    waits |= {(0, chance): np.zeros(count) for chance in range(chances)}
    with_all = np.array([waits[everybody, chance] for chance in range(chances)])
    without_team, alone = (
        np.array([
            [_without_own(replays(team, c), team) for c in range(chances)] for team in range(count)
        ])
        for replays in (
            lambda team, c: with_all[c],
            lambda team, c: waits[everybody & ~(1 << team), c],
        )
    )  # fmt: skip
    caused = without_team - alone
    shares = _shares(count, chances, waits, orders)
    teams = [
        TeamDelay(
            name=name,
            jobs=int(game.jobs[team]),
            waited_h=float(with_all[:, team].mean()),
            caused_h=float(caused[team].mean()),
            caused_error_h=_error(caused[team], max(without_team[team].mean(), alone[team].mean())),
            share_h=None if shares is None else float(shares[team].mean()),
            share_error_h=(
                None if shares is None else _error(shares[team], abs(shares[team].mean()))
            ),
        )
        for team, name in enumerate(game.teams)
    ]
    return tuple(sorted(teams, key=lambda row: (-row.caused_h, row.name))), is_exact, len(items)


def _without_own(waits_h: FloatArray, team: int) -> float:
    return float(np.delete(waits_h, team).sum())


def _prefixes(order: IntArray) -> list[int]:
    """Return the sets of the first 0, 1, ... teams of an order."""
    return [0, *np.cumsum(1 << order.astype(np.int64)).tolist()]


def _shares(
    count: int, chances: int, waits: Mapping[tuple[int, int], FloatArray], orders: list[IntArray]
) -> FloatArray | None:
    """Return independent estimates of each team's share; shape (teams, estimates)."""
    cost = {key: float(value.sum()) for key, value in waits.items()}
    if count <= MOST_EXACT:
        return np.array([
            [_exact_share(count, team, chance, cost) for chance in range(chances)]
            for team in range(count)
        ])  # fmt: skip
    if not orders:
        return None
    estimates = np.zeros((count, len(orders) // 2))
    for place, order in enumerate(orders):
        prefixes, pair = _prefixes(order), place // 2
        steps = np.diff([cost[mask, pair % chances] for mask in prefixes])
        estimates[order, pair] += steps / 2
    return estimates


def _exact_share(
    count: int, team: int, chance: int, cost: Mapping[tuple[int, int], float]
) -> float:
    bit, share = 1 << team, 0.0
    for mask in range(1 << count):
        if mask & bit:
            continue
        size = mask.bit_count()
        weight = factorial(size) * factorial(count - size - 1) / factorial(count)
        share += weight * (cost[mask | bit, chance] - cost[mask, chance])
    return share


def _error(estimates: FloatArray, waited_h: float) -> float | None:
    """Return how far the mean of independent estimates may be off; None for one of them.

    Args:
        estimates: in hours.
        waited_h: hours of which the model may be wrong by `SMALL_SHARE`; not where nothing changes.
    """
    count = len(estimates)
    if count < 2:
        return None
    model = SMALL_SHARE * waited_h if np.any(estimates) else 0.0
    return error_of(float(np.std(estimates, ddof=1)), count, 0.0, model=model)


def teams_of(labels: NDArray[np.object_], gpu_s: FloatArray) -> tuple[tuple[str, ...], IntArray]:
    """Return the teams, most GPU time first, and the team of each job; those with little are one.

    Args:
        labels: of the jobs; shape (n,).
        gpu_s: GPU time of each.
    """
    names, code = np.unique(labels.astype(str), return_inverse=True)
    held = np.bincount(code.reshape(-1), weights=gpu_s, minlength=names.size)
    order = sorted(range(names.size), key=lambda at: (-held[at], names[at]))
    teams = [str(names[at]) for at in order[:MOST_TEAMS]]
    if len(order) > MOST_TEAMS:
        teams.append(f"{len(order) - MOST_TEAMS:,} more")
    place = np.empty(names.size, np.int64)
    place[order] = np.minimum(np.arange(names.size), MOST_TEAMS)
    return tuple(teams), place[code.reshape(-1)]


def pool_game(
    pools: Sequence[JobPool],
    team_of: Sequence[IntArray],
    teams: tuple[str, ...],
    policy: PolicySpec,
) -> DelayGame:
    """Return the teams of jobs on pools of GPUs, which do not wait for each other.

    Args:
        pools: the jobs by GPU type.
        team_of: team of each job of each pool.
        teams: their names.
        policy: with its settings, but for its size.
    """
    count = len(teams)

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
    return DelayGame(teams, jobs, sum(team.size for team in team_of), waits_h)


def site_game(
    site: SiteCluster,
    config: SchedulerConfig,
    work: SiteWorkload,
    team: IntArray,
    teams: tuple[str, ...],
) -> DelayGame:
    """Return the teams of jobs under a site's rules; users do not give up.

    Args:
        team: of each job.
        teams: their names.
    """
    count = len(teams)
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
    return DelayGame(teams, jobs, work.jobs.id.size, waits_h)
