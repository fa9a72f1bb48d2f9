"""Replays of a site from an instant on, until a job started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.site.log import SITE_COLUMNS, SiteLog
from gpuplan.analysis.site.notation import expand_hosts
from gpuplan.planner.site.draws import Arrivals, RunTimes, run_times
from gpuplan.planner.site.instant import SiteInstant, array_of
from gpuplan.planner.twin.workload import HELD, ONE_NAME, ONE_PARTITION, site_workload
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.twin.jobs import NEVER
from gpuplan.simkit.twin.refusals import NO_LIMIT, REASONS
from gpuplan.simkit.twin.simulator import NOT_STARTED
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.twin.snapshot import (
    NodesDown,
    RunningJobs,
    first_start,
    selected,
    with_down,
)
from gpuplan.simkit.twin.tables import KernelInput, kernel_input

DAYS = 28
"""Days for which jobs arrive; a job that has not started by then is said to wait longer."""
FIRST_DAYS = 2
"""Days tried first: most jobs start within."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit.

    Attributes:
        user, account, partition, qos: names.
        nodes: nodes that it takes.
        gpus: GPUs on all of them.
        limit_s: its time limit; seconds.
        gpu_type: its type; empty for any.
    """

    user: str
    account: str
    partition: str
    qos: str
    nodes: int
    gpus: int
    limit_s: int
    gpu_type: str = ""

    def row(self, at: int) -> dict[str, object]:
        """Return the job as a row of a log."""
        return dict.fromkeys(SITE_COLUMNS) | {
            "job_id": "0", "user": self.user, "account": self.account,
            "partition": self.partition, "qos": self.qos, "submit": at, "eligible": at,
            "limit_s": self.limit_s, "nodes": self.nodes, "gpus": self.gpus,
            "gpu_type": self.gpu_type or None, "state": "waiting",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartReplays:
    """Everything that replays from one instant share; see `start_replays`.

    Attributes:
        at: the instant.
        tables: the tables of all jobs: those that run, that wait, the new ones, those of the past.
        running: how many run; ``waiting``: how many wait; ``new``: how many are new.
        started, node: of the jobs that run.
        ready: second from which each job may start, but for held ones and arrivals.
        held: positions of waiting jobs that something else holds, and seconds they may wait on.
        cancel: of each job of the past, its cancellation; `NEVER` for none.
        runtime: of each job, where it is known; -1 for those drawn from ``runs``.
        unfinished: positions of jobs whose run time is drawn.
        arrivals: jobs that may come, counted from the first of the past.
        down: nodes down at the instant or announced to be; ``down_s`` are lengths of unannounced
            times to draw from, by event.
        usage: of each association at the instant.
        unplaced: running jobs that fit on no node of the site, left out.
    """

    at: int
    tables: KernelInput
    running: int
    waiting: int
    new: int
    started: IntArray
    node: IntArray
    ready: IntArray
    held: Holds
    chains: Chains
    cancel: IntArray
    runtime: IntArray
    unfinished: IntArray
    runs: RunTimes
    arrivals: Arrivals
    down: NodesDown
    down_until: tuple[IntArray, ...]
    usage: FloatArray
    unplaced: int

    def refusal(self, new: int) -> str:
        """Return why a new job can never start, as Slurm's reason; empty where it can."""
        return REASONS[int(self.tables.jobs.refused[self.running + self.waiting + new])]

    def start(self, new: int, seed: int, draw: int) -> int:
        """Return when a new job starts in a draw; `NOT_STARTED` where it does not in 28 days.

        The draw depends on the seed and its number alone, and is the same for all new jobs.
        """
        chance = np.random.default_rng([seed, draw])
        runtime = self.runtime.copy()
        runtime[self.unfinished] = self.runs.draw(chance)
        rows, shifts = self.arrivals.draw(chance)
        ready = self.ready.copy()
        self.held.release(ready, chance)
        self.chains.release(ready, runtime)
        end = self.down.end.copy()
        for event, until in enumerate(self.down_until):
            if until.size:
                end[event] = until[int(chance.random() * until.size)]
        down = replace(self.down, end=end)
        for days in (FIRST_DAYS, DAYS):
            near = self.arrivals.submit[rows] + shifts <= self.at + days * 86400
            start = self._start(new, ready, runtime, rows[near], shifts[near], down)
            if 0 <= start <= self.at + days * 86400:
                return start
        return NOT_STARTED

    def _start(
        self, new: int, ready: IntArray, runtime: IntArray, rows: IntArray, shifts: IntArray,
        down: NodesDown,
    ) -> int:  # fmt: skip
        present = self.running + self.waiting
        past = present + self.new + rows
        chosen = np.concatenate([np.arange(present), [present + new], past])
        shift = np.concatenate([np.zeros(present + 1, np.int64), shifts])
        cancel = self.cancel[chosen]
        jobs = selected(
            self.tables.jobs, chosen,
            ready=ready[chosen] + shift,
            runtime=runtime[chosen],
            cancel=np.where(cancel >= 0, cancel + shift, NEVER),
            tie=np.arange(chosen.size),
        )  # fmt: skip
        return first_start(
            self.tables, jobs, with_down(self.tables.site, down, self.at), self.usage,
            RunningJobs(self.started, self.node), self.at, present,
        )  # fmt: skip

    def as_requested(self, new: int) -> int:
        """Return when a new job starts if every job runs to its limit and none comes later."""
        limit = self.tables.jobs.limit
        runtime = limit.copy()
        ready = self.ready.copy()
        self.held.latest(ready)
        self.chains.release(ready, runtime)
        none = np.empty(0, np.int64)
        return self._start(new, ready, runtime, none, none, self.down)


@dataclass(frozen=True, slots=True)
class Holds:
    """Waiting jobs that a dependency or a hold keeps from starting.

    Attributes:
        job: their positions.
        since: when each was submitted.
        length: lengths of holds that the log knows; seconds, ascending.
        at: the instant.
    """

    job: IntArray
    since: IntArray
    length: IntArray
    at: int

    def release(self, ready: IntArray, chance: np.random.Generator) -> None:
        """Set when each becomes eligible: after a hold of the past that lasted longer."""
        drawn = chance.random(self.job.size)
        for job, since, u in zip(self.job, self.since, drawn, strict=True):
            low = int(np.searchsorted(self.length, self.at - since, side="right"))
            count = self.length.size - low
            ready[job] = since + self.length[low + int(u * count)] if count else NO_LIMIT

    def latest(self, ready: IntArray) -> None:
        """Let all of them wait for good."""
        ready[self.job] = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Chains:
    """Tasks of arrays that may run only so many at a time.

    Attributes:
        arrays: per array: positions of its running tasks and of its waiting ones, in order, and
            how many may run at once.
        started: start of each running job.
        at: the instant.
    """

    arrays: tuple[tuple[IntArray, IntArray, int], ...]
    started: IntArray
    at: int

    def release(self, ready: IntArray, runtime: IntArray) -> None:
        """Set when each task may start: when one before it ended, had all started at once."""
        for running, waiting, at_once in self.arrays:
            ends = sorted((self.started[running] + runtime[running]).tolist())
            free = [self.at] * max(at_once - len(ends), 0) + [max(end, self.at) for end in ends]
            for job in waiting:
                begin = free.pop(0)
                ready[job] = max(int(ready[job]), begin) if begin > self.at else ready[job]
                free.append(begin + int(runtime[job]))
                free.sort()


def start_replays(
    instant: SiteInstant, site: SiteCluster, config: SchedulerConfig, new: Sequence[NewJob],
    *, limit_factor: float = 2.0, path_log: SiteLog,
) -> StartReplays:  # fmt: skip
    """Return what replays from an instant need.

    Args:
        instant: what is known.
        site: the site, with the usage of its associations at the first second of the log.
        config: its rules.
        new: jobs that may be submitted.
        limit_factor: limit of a job without one, over its run time.
        path_log: the log, for messages.

    Raises:
        InputError: the log names a partition that the site does not have.
    """
    at, past = instant.at, _arriving(instant.past)
    schema = {name: past.schema[name] for name in SITE_COLUMNS}
    added = pl.DataFrame([job.row(at) for job in new], schema=schema)
    running, node, unplaced, site_rows = _placed(instant.running, site)
    waiting = instant.waiting
    parts = [running, waiting, added, past]
    frame = pl.concat([part.select(*SITE_COLUMNS) for part in parts])
    work = site_workload(
        replace(path_log, jobs=frame), site, warmup_s=0, limit_factor=limit_factor
    )
    counts = [part.height for part in parts]
    begins = np.cumsum([0, *counts])
    jobs = work.jobs
    n = jobs.id.size
    limits = jobs.limit
    started = running["start"].to_numpy().astype(np.int64)
    is_past = np.arange(n) >= begins[3]
    ready = np.maximum(jobs.submit, frame["eligible"].fill_null(-1).to_numpy())
    # A task over its array's limit, or a hold, came when it started: nothing else holds it here.
    reason = past["reason"].fill_null("")
    was_held = np.zeros(past.height, bool)
    for begin, _ in HELD:
        was_held |= reason.str.starts_with(begin).to_numpy()
    past_start = past["start"].fill_null(-1).to_numpy()
    past_ready = np.where(was_held & (past_start >= 0), past_start, ready[is_past])
    ready[is_past] = past_ready
    gave_up = past["start"].is_null() & past["end"].is_not_null()
    cancel = np.full(n, NEVER, np.int64)
    cancel[is_past] = np.where(gave_up, np.maximum(past["end"].fill_null(0), past_ready + 1), NEVER)
    runtime = np.where(frame["end"].is_null(), NEVER, frame["run_s"].fill_null(-1)).astype(np.int64)
    runtime[is_past & (cancel >= 0)] = 0
    runtime[begins[2] : begins[3]] = 1  # the new job: its end does not count
    unfinished = np.flatnonzero(runtime < 0)
    columns = frame.select(
        pl.col("user").fill_null(ONE_NAME), pl.col("partition").fill_null(ONE_PARTITION), "gpus",
        limit=pl.Series(limits),
        elapsed=pl.when(pl.int_range(pl.len()) < begins[1]).then("run_s").otherwise(0)
        .fill_null(0),
        start="start", end="end", run_s="run_s",
    )  # fmt: skip
    finished = columns[begins[3]:].filter(
        pl.col("start").is_not_null() & pl.col("end").is_not_null()
    )
    runs = run_times(columns[unfinished], finished, at)
    usage_site = with_usage(site, instant, config)
    billing = _billing(frame, jobs.total_gpus)
    jobs = jobs.changed(
        cancel=np.full(n, NEVER), pinned=np.full(n, NEVER), billing=billing,
        ready=np.maximum(ready, 0), runtime=np.maximum(runtime, 0),
    )  # fmt: skip
    tables = kernel_input(usage_site, jobs, config)
    number = np.empty(len(site.nodes), np.int64)
    number[tables.node_order] = np.arange(len(site.nodes))
    names = {host.name: int(number[i]) for i, host in enumerate(site.nodes)}
    down, until = _down(site, names, at, instant.first)
    del site_rows
    return StartReplays(
        at=at, tables=tables, running=counts[0], waiting=counts[1], new=counts[2],
        started=started, node=np.array([names[host] for hosts in node for host in hosts], np.int64),
        ready=ready, held=_holds(instant, begins[1], past), chains=_chains(running, waiting, at),
        cancel=cancel, runtime=runtime, unfinished=unfinished, runs=runs,
        arrivals=Arrivals(jobs.submit[begins[3]:], instant.first, at, DAYS),
        down=down, down_until=until, usage=tables.tree.usage.copy(), unplaced=unplaced,
    )  # fmt: skip


def _arriving(past: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs of the past as they came: the first run of each."""
    return past.unique("job_id", keep="first", maintain_order=True).sort(
        "submit", maintain_order=True
    )


def _placed(
    running: pl.DataFrame, site: SiteCluster
) -> tuple[pl.DataFrame, list[list[str]], int, None]:
    """Return the running jobs that have room, their nodes, and how many have none.

    A job without a list of nodes takes those of its partition that it fills best.
    """
    idle = {node.name: node.gpus for node in site.nodes}
    members = {part.name: part.nodes for part in site.partitions}
    kept, nodes = [], []
    rows = running.with_row_index("row").sort(
        pl.col("node_list").is_null(), "gpus", descending=[False, True], maintain_order=True
    )
    chosen: dict[int, list[str]] = {}
    for row in rows.iter_rows(named=True):
        hosts = _hosts(row["node_list"])
        count = row["nodes"] or len(hosts) or 1
        each = -(-row["gpus"] // count)
        if len(hosts) != count or any(idle.get(host, -1) < each for host in hosts):
            fitting = [host for host in members.get(row["partition"], idle) if idle[host] >= each]
            hosts = sorted(fitting, key=lambda host: idle[host])[:count]
            if len(hosts) < count:
                continue
        for host in hosts:
            idle[host] -= each
        chosen[row["row"]] = hosts
    for at in sorted(chosen):
        kept.append(at)
        nodes.append(chosen[at])
    return running[kept], nodes, running.height - len(kept), None


def _hosts(text: str | None) -> list[str]:
    try:
        return expand_hosts(text) if text else []
    except ValueError:
        return []


def _billing(frame: pl.DataFrame, gpus: IntArray) -> FloatArray:
    """Return the billing of each job; where it is not known, what a GPU of its partition costs."""
    rate = (
        frame.group_by("partition", maintain_order=True)
        .agg(rate=pl.col("billing").sum() / pl.col("gpus").filter(pl.col("billing") > 0).sum())
    )  # fmt: skip
    rates = frame.select("partition", "billing").join(
        rate, on="partition", how="left", nulls_equal=True, maintain_order="left"
    )
    each = rates["rate"].fill_nan(None).fill_null(1.0).to_numpy()
    billing = rates["billing"].to_numpy().astype(np.float64)
    result: FloatArray = np.where(np.isnan(billing), gpus * each, billing)
    return result


def with_usage(site: SiteCluster, instant: SiteInstant, config: SchedulerConfig) -> SiteCluster:
    """Return the site with the usage of its users at the instant."""
    decay = np.log(2) / config.half_life if config.half_life > 0 else 0.0

    def kept(seconds: FloatArray) -> FloatArray:
        return np.exp(-decay * seconds)

    past = instant.past.filter(pl.col("start").is_not_null()).with_columns(
        pl.col("user").fill_null(ONE_NAME), pl.col("account").fill_null(ONE_NAME)
    )
    gpus = past["gpus"].to_numpy().astype(np.float64)
    start = np.maximum(past["start"].to_numpy(), instant.first).astype(np.float64)
    end = np.maximum(past["end"].fill_null(instant.at).to_numpy().astype(np.float64), start)
    if decay:
        held = (kept(instant.at - end) - kept(instant.at - start)) / decay
    else:
        held = end - start
    used = past.select("account", "user", usage=pl.Series(held * _billing(past, gpus)))
    sums = {
        (account, user): usage
        for account, user, usage in used.group_by("account", "user", maintain_order=True)
        .agg(pl.col("usage").sum()).iter_rows()
    }  # fmt: skip
    factor = float(kept(np.float64(instant.at - instant.first)))
    rows = [
        replace(row, usage=row.usage * factor + sums.pop((row.account, row.user), 0.0))
        if row.user else row
        for row in site.assocs
    ]  # fmt: skip
    from gpuplan.simkit.twin.site import SiteAssociation

    rows += [SiteAssociation(account, user, usage=usage) for (account, user), usage in sums.items()]
    return replace(site, assocs=tuple(rows))


def _holds(instant: SiteInstant, first: int, past: pl.DataFrame) -> Holds:
    waiting = instant.waiting
    at = np.flatnonzero(waiting["eligible"].is_null().to_numpy())
    if "eligible" in {text.split(":")[0] for text in instant.switched_off}:
        at = at[:0]
    known = past.filter(pl.col("eligible") > pl.col("submit"))
    length = np.sort((known["eligible"] - known["submit"]).to_numpy().astype(np.int64))
    since = waiting["submit"].to_numpy().astype(np.int64)[at]
    never = waiting["reason"].fill_null("").str.starts_with("DependencyNever").to_numpy()[at]
    return Holds(first + at, np.where(never, -NO_LIMIT, since), length, instant.at)


def _chains(running: pl.DataFrame, waiting: pl.DataFrame, at: int) -> Chains:
    started = running["start"].to_numpy().astype(np.int64)
    ran = running.with_row_index("row").select("row", array=array_of())
    rest = waiting.with_row_index("row").select("row", "at_once", array=array_of())
    arrays = []
    for (array, at_once), rows in rest.filter(
        pl.col("at_once").is_not_null() & pl.col("array").is_not_null()
    ).group_by("array", "at_once", maintain_order=True):
        tasks = ran.filter(pl.col("array") == array)["row"].to_numpy().astype(np.int64)
        waits = rows["row"].to_numpy().astype(np.int64) + running.height
        arrays.append((tasks, waits, max(int(at_once), 1)))
    return Chains(tuple(arrays), started, at)


def _down(
    site: SiteCluster, names: dict[str, int], at: int, first: int
) -> tuple[NodesDown, tuple[IntArray, ...]]:
    """Return the node events known at an instant, and ends to draw where they are not known."""
    over = [e for e in site.events if e.end <= at]
    lengths = np.array([e.end - e.start for e in over], np.int64)
    known = [
        e for e in site.events
        if e.end > at and (e.start <= at or (e.announced is not None and e.announced <= at))
    ]  # fmt: skip
    node, start, end, announced, until = [], [], [], [], []
    for event in known:
        is_announced = event.announced is not None and event.announced <= at
        lasted = at - event.start
        longer = event.start + lengths[lengths > lasted]
        node.append(names[event.node])
        start.append(event.start)
        end.append(event.end if is_announced else at + max(lasted, 3600))
        announced.append(event.announced if is_announced else NO_LIMIT)
        until.append(np.empty(0, np.int64) if is_announced else longer)
    down = NodesDown(*(np.array(values, np.int64) for values in (node, start, end, announced)))
    return down, tuple(until)
