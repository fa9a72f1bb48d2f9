"""From an instant of a site to what its replays share: tables of all jobs, draws, and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.job_table.notation import hosts_of
from gpuplan.analysis.site.log import SITE_COLUMNS, SiteLog
from gpuplan.planner.site.draws import Arrivals, run_times
from gpuplan.planner.site.instant import SiteInstant, array_of
from gpuplan.planner.site.new_job import NewJob
from gpuplan.planner.site.start_replays import DAYS, Chains, Holds, StartReplays
from gpuplan.planner.twin.workload import HELD, ONE_NAME, ONE_PARTITION, has_reason, site_workload
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.twin.jobs import NEVER
from gpuplan.simkit.twin.site import SchedulerConfig, SiteAssociation, SiteCluster
from gpuplan.simkit.twin.snapshot import NodesDown
from gpuplan.simkit.twin.state import NO_LIMIT
from gpuplan.simkit.twin.tables import kernel_input

HOLDS = ("Dependency", *(beginning for beginning, _ in HELD if beginning != "JobArrayTaskLimit"))
"""Reasons of jobs that no free GPU starts, as beginnings."""
RAN = pl.col("start").is_not_null()
UNKNOWN = -1


def start_replays(
    log: SiteLog, instant: SiteInstant, site: SiteCluster, config: SchedulerConfig,
    new: Sequence[NewJob],
) -> StartReplays:  # fmt: skip
    """Return what replays from an instant share.

    Args:
        site: the site, with the usage of its associations at the first second of the log.
        new: jobs that may be submitted.

    Raises:
        InputError: the log names a partition that the site does not have.
    """
    at = instant.at
    past = _arriving(instant.past)
    running, node = _placed(instant.running, site)
    added = pl.DataFrame([job.row(at) for job in new], schema=SITE_COLUMNS)
    parts = [running, instant.waiting, added, past]
    begins = np.cumsum([0, *(part.height for part in parts)])
    frame = _with_limits(pl.concat([part.select(*SITE_COLUMNS) for part in parts]), site)
    jobs = site_workload(replace(log, jobs=frame, missing=()), site, warmup_s=0).jobs
    is_past = np.arange(frame.height) >= begins[3]
    ready = np.maximum(jobs.submit, frame["eligible"].fill_null(0).to_numpy())
    ready[is_past] = _came(past, ready[is_past])
    cancel = np.full(frame.height, NEVER, np.int64)
    cancel[is_past] = _given_up(past, ready[is_past])
    is_over = frame.select(RAN & pl.col("end").is_not_null()).to_series().to_numpy()
    runtime = np.where(is_over, frame["run_s"].fill_null(0).to_numpy(), UNKNOWN).astype(np.int64)
    runtime[cancel >= 0] = 0
    runtime[begins[2] : begins[3]] = 1  # what a new job does after its start does not matter
    unfinished = np.flatnonzero(runtime == UNKNOWN)
    traits = _traits(frame, jobs.limit)
    elapsed = pl.when(pl.int_range(pl.len()) < begins[1]).then("run_s").otherwise(0)
    runs = run_times(
        traits.with_columns(elapsed=elapsed.fill_null(0))[unfinished],
        traits.filter(pl.Series(is_over & is_past)),
        at,
    )
    jobs = jobs.changed(
        ready=np.maximum(ready, 0), cancel=np.full(frame.height, NEVER), runtime=runtime.clip(0),
        pinned=np.full(frame.height, NEVER), billing=_billing(frame),
    )  # fmt: skip
    tables = kernel_input(with_usage(site, instant, config), jobs, config)
    number_of = {host.name: number for number, host in enumerate(site.nodes)}
    down, down_until = _down(site, number_of, at)
    return StartReplays(
        at=at,
        tables=tables,
        running=running.height,
        waiting=instant.waiting.height,
        new=len(new),
        started=running["start"].to_numpy().astype(np.int64),
        node=np.array([number_of[host] for hosts in node for host in hosts], np.int64),
        ready=ready,
        held=_holds(instant, running.height, past),
        chains=_chains(running, instant.waiting, at),
        cancel=cancel,
        runtime=runtime,
        unfinished=unfinished,
        runs=runs,
        arrivals=Arrivals(jobs.submit[begins[3] :], instant.first, at, DAYS),
        down=down,
        down_until=down_until,
        unplaced=instant.running.height - running.height,
    )


def _arriving(past: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs of the past as they came: the first run of each."""
    first = past.unique("job_id", keep="first", maintain_order=True)
    return first.sort("submit", maintain_order=True)


def _with_limits(frame: pl.DataFrame, site: SiteCluster) -> pl.DataFrame:
    """Return jobs with limits: the partition's where they have none, or the longest run."""
    longest = int(frame["run_s"].max() or 0)  # type: ignore[arg-type]
    bounded = [part.name for part in site.partitions if part.max_time]
    is_bounded = pl.col("partition").fill_null(ONE_PARTITION).is_in(bounded)
    limit = (
        pl.when(is_bounded)
        .then("limit_s")
        .otherwise(pl.col("limit_s").fill_null(max(longest, HOUR_S)))
    )
    return frame.with_columns(limit_s=limit)


def _came(past: pl.DataFrame, ready: IntArray) -> IntArray:
    """Return when each job of the past could start; one that something held, when it did."""
    was_held = past.select(has_reason(beginning for beginning, _ in HELD)).to_series().to_numpy()
    start = past["start"].fill_null(-1).to_numpy()
    came: IntArray = np.where(was_held & (start >= 0), start, ready)
    return came


def _given_up(past: pl.DataFrame, ready: IntArray) -> IntArray:
    """Return when each job of the past was cancelled while it waited; `NEVER` for no time."""
    gave_up = past.select(~RAN & pl.col("end").is_not_null()).to_series().to_numpy()
    end = past["end"].fill_null(0).to_numpy()
    cancel: IntArray = np.where(gave_up, np.maximum(end, ready + 1), NEVER)
    return cancel


def _traits(frame: pl.DataFrame, limit: IntArray) -> pl.DataFrame:
    """Return what classes of jobs are made of."""
    return frame.select(
        pl.col("user").fill_null(ONE_NAME), pl.col("partition").fill_null(ONE_PARTITION), "gpus",
        "start", "run_s", limit=pl.Series(limit),
    )  # fmt: skip


def _placed(running: pl.DataFrame, site: SiteCluster) -> tuple[pl.DataFrame, list[list[str]]]:
    """Return the running jobs that have room on the site, and their nodes.

    A job without a list of nodes takes those of its partition that it fills best, large ones first.
    """
    idle = site.gpus_of_node
    members: Mapping[str | None, Sequence[str]] = {p.name: p.nodes for p in site.partitions}
    chosen: dict[int, list[str]] = {}
    rows = running.with_row_index("row").sort(
        pl.col("node_list").is_null(), "gpus", descending=[False, True], maintain_order=True
    )
    for row in rows.iter_rows(named=True):
        hosts = hosts_of(row["node_list"])
        count = row["nodes"] or len(hosts) or 1
        each = -(-row["gpus"] // count)
        if len(hosts) != count or any(idle.get(host, -1) < each for host in hosts):
            nodes = members.get(row["partition"], tuple(idle))
            fitting = [host for host in nodes if idle[host] >= each]
            hosts = sorted(fitting, key=lambda host: idle[host])[:count]
        if len(hosts) == count:
            chosen[row["row"]] = hosts
            for host in hosts:
                idle[host] -= each
    kept = sorted(chosen)
    return running[kept], [chosen[row] for row in kept]


def _billing(frame: pl.DataFrame) -> FloatArray:
    """Return the billing of each job; where it is not known, what a GPU of its partition costs."""
    is_billed = pl.col("billing") > 0
    rate = frame.group_by("partition").agg(
        rate=pl.col("billing").filter(is_billed).sum() / pl.col("gpus").filter(is_billed).sum()
    )
    billed = frame.select("partition", "gpus", "billing").join(
        rate, on="partition", how="left", nulls_equal=True, maintain_order="left"
    )
    each = pl.col("rate").fill_nan(None).fill_null(1.0)
    billing = billed.select(pl.coalesce("billing", pl.col("gpus") * each)).to_series()
    values: FloatArray = billing.to_numpy().astype(np.float64)
    return values


def with_usage(site: SiteCluster, instant: SiteInstant, config: SchedulerConfig) -> SiteCluster:
    """Return the site with the usage of its users at the instant: what they ran, decayed."""
    past = instant.past.filter(RAN).with_columns(
        pl.col("user").fill_null(ONE_NAME), pl.col("account").fill_null(ONE_NAME)
    )
    start = np.maximum(past["start"].to_numpy(), instant.first)
    end = np.maximum(past["end"].fill_null(instant.at).to_numpy(), start)
    decay = np.log(2) / config.half_life if config.half_life > 0 else 0.0
    if decay:
        ran = (np.exp(decay * (end - instant.at)) - np.exp(decay * (start - instant.at))) / decay
    else:
        ran = (end - start).astype(np.float64)
    usage = past.select("account", "user", usage=pl.Series(ran * _billing(past)))
    of_user = {
        (account, user): used
        for account, user, used in usage.group_by("account", "user", maintain_order=True)
        .agg(pl.col("usage").sum())
        .iter_rows()
    }
    left = float(np.exp(-decay * (instant.at - instant.first)))
    rows = [
        replace(row, usage=row.usage * left + of_user.pop((row.account, row.user), 0.0))
        if row.user
        else row
        for row in site.assocs
    ]
    rows += [SiteAssociation(*key, usage=used) for key, used in of_user.items()]
    return replace(site, assocs=tuple(rows))


def _holds(instant: SiteInstant, first: int, past: pl.DataFrame) -> Holds:
    """Return the waiting jobs that something holds; ``first`` is the position of the first one."""
    waiting = instant.waiting
    reason = waiting["reason"].fill_null("")
    held = has_reason(HOLDS)
    if not instant.all_eligible:
        held |= pl.col("eligible").is_null()
    is_held = waiting.select(held).to_series().to_numpy()
    never = reason.str.starts_with("DependencyNever").to_numpy()[is_held]
    since = waiting["submit"].to_numpy().astype(np.int64)[is_held]
    lengths = past.filter(pl.col("eligible") > pl.col("submit")).select(
        (pl.col("eligible") - pl.col("submit")).sort()
    )
    return Holds(
        first + np.flatnonzero(is_held),
        np.where(never, -NO_LIMIT, since),
        lengths.to_series().to_numpy().astype(np.int64),
        instant.at,
    )


def _chains(running: pl.DataFrame, waiting: pl.DataFrame, at: int) -> Chains:
    started = running["start"].to_numpy().astype(np.int64)
    ran = running.with_row_index("row").select("row", array=array_of())
    tasks = waiting.with_row_index("row").select("row", "at_once", array=array_of())
    limited = (
        tasks.drop_nulls()
        .group_by("array", maintain_order=True)
        .agg(pl.col("row"), pl.col("at_once").min())
    )
    arrays = []
    for array, rows, at_once in limited.iter_rows():
        of_array = ran.filter(pl.col("array") == array)["row"].to_numpy().astype(np.int64)
        arrays.append((of_array, np.array(rows, np.int64) + running.height, max(at_once, 1)))
    return Chains(tuple(arrays), started, at)


def _down(
    site: SiteCluster, number_of: dict[str, int], at: int
) -> tuple[NodesDown, tuple[IntArray, ...]]:
    """Return the node events known at an instant, and for each the ends to draw from.

    The end of one that was not announced is not known: it lasts as long as one of the past that
    lasted longer so far, or as long again.
    """
    lengths = np.array([e.end - e.start for e in site.events if e.end <= at], np.int64)
    node, start, end, announced, until = [], [], [], [], []
    for event in site.events:
        is_announced = event.announced is not None and event.announced <= at
        if event.end <= at or not (event.start <= at or is_announced):
            continue
        lasted = at - event.start
        longer = event.start + lengths[lengths > lasted]
        node.append(number_of[event.node])
        start.append(event.start)
        end.append(event.end if is_announced else at + max(lasted, HOUR_S))
        announced.append(event.announced if is_announced else NO_LIMIT)
        until.append(np.empty(0, np.int64) if is_announced else longer)
    columns = (np.array(values, np.int64) for values in (node, start, end, announced))
    return NodesDown(*columns), tuple(until)
