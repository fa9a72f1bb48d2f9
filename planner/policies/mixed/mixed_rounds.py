"""Rounds on a cluster of several GPU types: a policy chooses types, and gangs are put on hosts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
from gpuplan.planner.policies.mixed.round_state import Choose, Lasts, RoundState, never
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.decisions import Allocation, RoundsCluster, RoundView, run_decisions
from gpuplan.simkit.rounds.hosts import put_on_hosts
from gpuplan.simkit.rounds.simulator import RoundsRun
from gpuplan.simkit.time import MICROS, to_micros
from gpuplan.simkit.watch import ReplayPace

SAY_FIRST_S = 5.0
"""Time until the first line on how far a replay is."""
MOST_IDLE_ROUNDS = 1000
"""Rounds in a row, besides those of the longest pause, in which jobs hold GPUs and none gets on."""
MOST_ROUNDS = 5_000_000
"""Rounds of a replay; a year has 87,600 of 6 minutes."""
LEAST_LEFT = 1e-3
"""Share of its estimated work that a job has left at least, however long it ran."""


@dataclass(frozen=True, slots=True)
class MixedRun:
    """What happened on a cluster of several types; n jobs, T types, R rounds.

    Attributes:
        run: jobs and GPUs.
        jobs, cluster: what ran where.
        switches: starts after the first, of each job; shape (n,).
        type_changes, upward: those onto another type, and onto a faster one; shape (n,).
        lost_s: time of each job with GPUs and without progress; shape (n,).
        first_round: first round that each job could run in; shape (n,).
        number: of each round; shape (R,).
        active: unfinished jobs in each round; shape (R,).
        busy: GPUs in use of each type; shape (R, T).
        stretches: job, type, first round and the round after the last of each stretch; shape
            (k, 4).
    """

    run: RoundsRun
    jobs: RatedJobs
    cluster: MixedCluster
    switches: IntArray
    type_changes: IntArray
    upward: IntArray
    lost_s: FloatArray
    first_round: IntArray
    number: IntArray
    active: IntArray
    busy: IntArray
    stretches: IntArray


def play(jobs: RatedJobs, cluster: MixedCluster, choose: Choose, lasts: Lasts = never) -> MixedRun:
    """Run all jobs to their end; ``choose`` is called once a round, while there are jobs.

    While a choice ``lasts``, it is not called again unless a job comes or ends.

    Raises:
        ValueError: a choice that cannot be.
        RuntimeError: the policy leaves all jobs waiting.
        UsageError: the policy moves all jobs on before their state is copied, again and again, or
            there are more than `MOST_ROUNDS`.
    """
    hosts = cluster.gpus_per_host or (0,) * len(cluster.gpus)
    driver = _MixedDriver(jobs, cluster, choose, lasts, np.array(hosts, np.int64))
    shape = RoundsCluster(cluster.gpus, hosts, cluster.round_s)
    run = run_decisions(jobs.rounds_jobs(cluster.round_s), shape, driver.decide, driver.repeat)
    driver.close()
    rounds = _with_repeats(driver.rounds, driver.repeats, 2 + len(cluster.gpus))
    return MixedRun(
        run=run,
        jobs=jobs,
        cluster=cluster,
        switches=driver.switches,
        type_changes=driver.type_changes,
        upward=driver.upward,
        lost_s=driver.lost_us / MICROS,
        first_round=driver.first_round,
        number=rounds[:, 0],
        active=rounds[:, 1],
        busy=rounds[:, 2:],
        stretches=np.array(driver.stretches, np.int64).reshape(-1, 4),
    )


def _with_repeats(rounds: list[list[int]], repeats: list[int], columns: int) -> IntArray:
    """Return the rows of rounds, each followed by those that repeat it under the next numbers."""
    decided = np.array(rounds, np.int64).reshape(-1, columns)
    copies = np.array(repeats, np.int64) + 1
    rows: IntArray = np.repeat(decided, copies, axis=0)
    rows[:, 0] += np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    return rows


@dataclass(slots=True)
class _MixedDriver:
    jobs: RatedJobs
    cluster: MixedCluster
    choose: Choose
    lasts: Lasts
    hosts: IntArray
    switches: IntArray = field(init=False)
    type_changes: IntArray = field(init=False)
    upward: IntArray = field(init=False)
    lost_us: IntArray = field(init=False)
    first_round: IntArray = field(init=False)
    pause_us: IntArray = field(init=False)
    fetch_us: IntArray = field(init=False)
    since: IntArray = field(init=False)
    on: IntArray = field(init=False)
    spread: BoolArray = field(init=False)
    ran: IntArray = field(init=False)
    finished: int = 0
    pace: ReplayPace = field(default_factory=lambda: ReplayPace(SAY_FIRST_S))
    rounds: list[list[int]] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    repeated: int = 0
    stretches: list[tuple[int, int, int, int]] = field(default_factory=list)
    before: int = 0
    end: int = 0
    now_running: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    left_us: int = 0
    idle_rounds: int = 0

    def __post_init__(self) -> None:
        n = self.jobs.gpus.size
        self.switches, self.type_changes, self.upward = np.zeros((3, n), np.int64)
        self.lost_us, self.pause_us, self.fetch_us = np.zeros((3, n), np.int64)
        self.spread, self.ran = np.zeros(n, bool), np.zeros(n, np.int64)
        self.since, self.on = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        # In microseconds, as the simulator admits jobs.
        self.first_round = -(-to_micros(self.jobs.submit_s) // int(to_micros(self.cluster.round_s)))

    def decide(self, view: RoundView) -> Allocation:
        jobs, running, round_us = self.jobs, view.running, self.cluster.round_s * MICROS
        last = np.where(view.starts > 0, view.gpu_type, -1)
        now_on = np.where(view.width > 0, last, -1)
        done = jobs.work[running] - view.left_us / round_us
        seen = jobs.seen_work[running]
        arrived = self.before != running.size or view.ended.size > 0
        state = RoundState(
            number=view.number,
            jobs=jobs,
            cluster=self.cluster,
            running=running,
            age=view.number - self.first_round[running],
            left=np.maximum(seen - done, seen * LEAST_LEFT),
            last=last,
            now_on=now_on,
            starts=view.starts,
            ran=self.ran[running],
            has_changed=arrived,
        )
        self._check_progress(int(view.left_us.sum()))
        kind = self.choose(state)
        self.finished += view.ended.size
        self._say(view.number)
        self.before = running.size
        runs = kind >= 0
        width = np.where(runs, jobs.gpus[running], 0)
        hosts, spread = self._place(view, kind, width, last, now_on, state.has_changed)
        moved = np.zeros(running.size, bool)
        if hosts is not None:
            moved = runs & (hosts != view.hosts).any(axis=1)
        changes = runs & (last >= 0) & (kind != last)
        again = runs & (last >= 0) & (changes | moved | (now_on < 0))
        copied = (changes | moved) * jobs.state_gb[running] * 8 / self.cluster.gbps
        wait_s = np.where(again, copied + self.cluster.restart_s, 0.0)
        if jobs.dataset_gb is not None:
            first = runs & (last < 0)
            wait_s[first] = jobs.dataset_gb[running[first]] * 8 / self.cluster.gbps
            self.fetch_us[running[first]] = np.rint(wait_s[first] * MICROS)
        pause = np.rint(wait_s * MICROS).astype(np.int64)
        # On the same hosts, what the last pause left unpaid is due. A move copies anew; only what
        # is left of the first fetch of data is due besides.
        rest = np.where(changes | moved, self.fetch_us[running], self.pause_us[running])
        pause += np.where(again, rest, 0)
        self._note(view, kind, again, changes, pause)
        factor = np.where(jobs.is_pipeline[running], *self.cluster.cross_host[::-1])
        if jobs.cross_host is not None:
            measured = jobs.cross_host[running, np.maximum(kind, 0)]
            factor = np.where(np.isnan(measured), factor, measured)
        stays = not arrived and bool((kind == now_on).all())
        return Allocation(
            width=width,
            gpu_type=np.where(runs, kind, 0),
            hosts=hosts,
            pause_us=pause,
            factor=np.where(spread, factor, 1.0),
            more_rounds=min(self.lasts(state, kind), MOST_ROUNDS) if stays else 0,
        )

    def repeat(self, rounds: int) -> None:
        """Note that the rounds after the last decision repeat it."""
        self._run(self.now_running, rounds)
        self.repeats[-1] += rounds
        self.end += rounds
        self.repeated += rounds
        if len(self.rounds) + self.repeated > MOST_ROUNDS:
            raise UsageError(
                f"the jobs take more than {MOST_ROUNDS:,} rounds of {self.cluster.round_s:,.4g} s\n"
                "  next: longer rounds (--round)"
            )

    def _check_progress(self, left_us: int) -> None:
        """Raise `UsageError` where jobs would be moved forever; ``left_us`` is all their work."""
        self.idle_rounds = self.idle_rounds + 1 if left_us == self.left_us else 0
        self.left_us = left_us
        if self.idle_rounds < MOST_IDLE_ROUNDS:
            return
        cluster, gb = self.cluster, float(self.jobs.state_gb.max())
        if self.jobs.dataset_gb is not None:
            gb += float(self.jobs.dataset_gb.max())
        longest_s = cluster.restart_s + gb * 8 / cluster.gbps
        if self.idle_rounds > MOST_IDLE_ROUNDS + 2 * longest_s / cluster.round_s:
            raise UsageError(
                "no job gets on any more: each is moved again before its state is copied, which "
                f"takes up to {longest_s:,.0f} s, and a round {cluster.round_s:,.0f} s\n"
                "  next: longer rounds (--round), or less state to copy (--set state_gb=)"
            )

    def _say(self, number: int) -> None:
        """Say how far the replay is.

        What is left is estimated from the jobs that are done, and from the rounds until the last
        job comes: jobs that wait at the end, and busy rounds to come, are in neither.
        """
        first = self.rounds[0][0] if self.rounds else number
        ahead = max(int(self.first_round[-1]) - number, 0) / max(number - first, 1)
        self.pace.say(self.finished, self.switches.size, "jobs replayed in rounds", ahead)

    def _place(
        self,
        view: RoundView,
        kind: IntArray,
        width: IntArray,
        last: IntArray,
        now_on: IntArray,
        changed: bool,
    ) -> tuple[IntArray | None, BoolArray]:
        """Return the hosts of each job, and which are on more than they need."""
        spread = np.zeros(kind.size, bool)
        if not self.hosts.any():
            return None, spread
        if not changed and (kind == now_on).all():  # everyone stays
            stay = view.hosts * (kind >= 0)[:, None]
            return stay, self.spread[view.running] & (kind >= 0)
        hosts = np.zeros(view.hosts.shape, np.int64)
        host_type = view.cluster.host_type
        for i, each in enumerate(self.hosts.tolist()):
            on = np.flatnonzero(kind == i)
            here = np.flatnonzero(host_type == i)
            if not on.size:
                continue
            ids = view.running[on]
            placed = place(
                width[on],
                view.hosts[np.ix_(on, here)],
                now_on[on] == i,
                last[on] == i,
                each=each,
                is_pipeline=self.jobs.is_pipeline[ids],
                state_gb=self.jobs.state_gb[ids],
                consolidates=changed,
            )
            hosts[np.ix_(on, here)] = placed
            spread[on] = (placed > 0).sum(axis=1) > -(-width[on] // each)
        self.spread[view.running] = spread
        return hosts, spread

    def _note(
        self, view: RoundView, kind: IntArray, again: BoolArray, changes: BoolArray, pause: IntArray
    ) -> None:
        jobs, running, number = self.jobs, view.running, view.number
        runs = kind >= 0
        self.switches[running[again]] += 1
        self.type_changes[running[changes]] += 1
        rate, last = jobs.rate[running], view.gpu_type
        rows = np.arange(running.size)
        up = changes & (rate[rows, np.maximum(kind, 0)] > rate[rows, last])
        self.upward[running[up]] += 1
        starts = again | (runs & (view.starts == 0))
        self.pause_us[running[starts]] = pause[starts]
        self.now_running = running[runs]
        self._run(self.now_running, 1)
        for job in view.ended.tolist():
            self._stretch(job, -1, self.end)
        old = self.on[running]
        for at in np.flatnonzero(old != kind).tolist():
            self._stretch(int(running[at]), int(kind[at]), number)
        busy = np.bincount(
            kind[runs], weights=jobs.gpus[running[runs]], minlength=len(self.cluster.gpus)
        )
        self.rounds.append([number, running.size, *busy.astype(int).tolist()])
        self.repeats.append(0)
        self.end = number + 1

    def _run(self, running: IntArray, rounds: int) -> None:
        """Count rounds for the jobs that have GPUs, and what of their pauses is over after them."""
        self.ran[running] += rounds
        time_us = rounds * int(to_micros(self.cluster.round_s))
        spent = np.minimum(self.pause_us[running], time_us)
        self.pause_us[running] -= spent
        self.fetch_us[running] = np.maximum(self.fetch_us[running] - spent, 0)
        self.lost_us[running] += spent

    def _stretch(self, job: int, kind: int, number: int) -> None:
        if self.on[job] >= 0:
            self.stretches.append((job, int(self.on[job]), int(self.since[job]), number))
        self.on[job], self.since[job] = kind, number

    def close(self) -> None:
        for job in np.flatnonzero(self.on >= 0).tolist():
            self._stretch(job, -1, self.end)


def place(
    width: IntArray,
    before: IntArray,
    stays: BoolArray,
    was_here: BoolArray,
    *,
    each: int,
    is_pipeline: BoolArray,
    state_gb: FloatArray,
    consolidates: bool,
) -> IntArray:
    """Return GPUs on each host of the jobs that run on one type, in the order of their ids.

    Gangs stay where they are, and come together when GPUs are freed. Those that paused get their
    old hosts where these are free, then the rest is placed. In both steps data and tensor parallel
    gangs come before pipelines, wide ones first, then by id. Source: FFT (Fast and Fair Training),
    placement.

    Args:
        width: GPUs of each job; shape (m,).
        before: GPUs on each host of the type when it last ran; shape (m, H).
        stays: whether it ran on this type in the last round.
        was_here: whether it last ran on this type.
        each: GPUs of a host.
        is_pipeline, state_gb: of `RatedJobs`.
        consolidates: whether spread gangs move to fewer hosts where they can.
    """
    widest = np.lexsort((np.arange(width.size), -width, is_pipeline))
    lightest = np.argsort(state_gb, kind="stable")
    hosts: IntArray = put_on_hosts(
        width, before, stays, was_here, widest, lightest, ~is_pipeline & consolidates, each
    )
    return hosts
