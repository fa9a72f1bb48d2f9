"""From a log to jobs that a site replays: shapes, limits, pinned starts, and what is not scored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import WEEK_S
from gpuplan.analysis.log_formats.sacct_command import SACCT_COMMAND
from gpuplan.analysis.log_formats.slurm_cells import FOREVER_S
from gpuplan.analysis.site.log import SiteLog
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun, replay_site
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

GROUPINGS = ("account", "user", "partition", "qos", "size")
ALL_JOBS = "all jobs"
ONE_PARTITION = "all"
ONE_NAME = "none"
LIMIT_FACTOR = 2.0
LEAST_LIMIT_S = 60
MOST_JOBS = 200_000
"""Jobs of a log above which only its last weeks are replayed by default."""
JITTER_S = 60
"""Of submissions: what no record of a site tells better, and what moves every schedule."""
NAMED_NODES = re.compile(r"(?:^|\s)(?:-w|--nodelist)[ =]?\S")
HELD = (
    ("JobArrayTaskLimit", "JobArrayTaskLimit"), ("BeginTime", "BeginTime"),
    ("JobHeld", "JobHeldUser or JobHeldAdmin"), ("ReqNodeNotAvail", "ReqNodeNotAvail"),
    ("Licenses", "Licenses"),
)  # fmt: skip
NOT_WAITING = re.compile("^(?:Dependency|BeginTime|JobHeld)")
MINUTES = re.compile(r"^Assoc(?:Grp|Max).*Minutes")


@dataclass(frozen=True, slots=True)
class SiteWorkload:
    """Jobs ready for a replay; arrays of shape (n,) in the order of the jobs.

    Attributes:
        jobs: what is replayed.
        job_ids: the log's ids.
        recorded_start: second of the recorded start; -1 for a job that never started.
        scored: whether the wait of the job counts.
        gave_up: whether the job was eligible and cancelled in the queue, not held.
        excluded: jobs that are replayed and not scored, by reason.
        account, user, partition, qos: names, for groups.
        warmup_until: second at which scoring begins; times are seconds after 1970.
        notes: what the user should know, one sentence each.
    """

    GROUPS: ClassVar[tuple[str, ...]] = ("partition", "qos", "size", "account")
    """What a score is split by."""

    jobs: SiteJobs
    job_ids: tuple[str, ...]
    recorded_start: IntArray
    scored: BoolArray
    gave_up: BoolArray
    excluded: dict[str, int]
    warmup_until: int
    notes: tuple[str, ...]

    @property
    def recorded_wait(self) -> IntArray:
        """Seconds from eligible to the recorded start; meaningless where it never started."""
        waited: IntArray = self.recorded_start - self.jobs.ready
        return waited

    @property
    def held(self) -> IntArray:
        """Seconds from submission to eligible: dependencies, begin times, holds."""
        before: IntArray = self.jobs.ready - self.jobs.submit
        return before

    def names(self, by: str) -> NDArray[np.object_]:
        """Return the group of every job: by account, user, partition, qos or size."""
        jobs = self.jobs
        if by == "size":
            gpus = jobs.total_gpus
            return np.array(["1 GPU", "2-8 GPUs", "over 8 GPUs"], object)[np.digitize(gpus, [2, 9])]
        codes = getattr(jobs, by)
        kinds = {"account": jobs.accounts, "user": jobs.users, "partition": jobs.partitions,
                 "qos": jobs.qoses}[by]  # fmt: skip
        groups: NDArray[np.object_] = np.array(kinds, object)[codes]
        return groups


def node_sizes(site: SiteCluster) -> dict[str, int]:
    """Return the GPUs of the largest node of each partition."""
    gpus = site.gpus_of_node
    return {p.name: max(gpus[name] for name in p.nodes) for p in site.partitions if p.nodes}


def recent(log: SiteLog, most: int = MOST_JOBS) -> SiteLog:
    """Return the last weeks of a log that has more jobs than ``most``, and a note on it.

    Whole weeks are kept, as many as have no more jobs; less than a week where one has more.
    """
    submit = log.jobs["submit"].to_numpy()  # ascending
    if submit.size <= most:
        return log
    last = int(submit[-1])
    span = last - int(submit[submit.size - most])
    begin = last - (span // WEEK_S * WEEK_S or span)
    jobs = log.jobs.filter(pl.col("submit") > begin)
    if not jobs.height:  # all at one time
        jobs = log.jobs.tail(most)
    note = (
        f"only the jobs of the last {(last - begin) / 86400:.3g} days are replayed: "
        f"{jobs.height:,} of {submit.size:,}; calibrate --all-jobs takes all, which takes long"
    )
    return replace(log, jobs=jobs, notes=(*log.notes, note))


def site_workload(
    log: SiteLog,
    site: SiteCluster,
    *,
    warmup_s: int | None = None,
    limit_factor: float = LIMIT_FACTOR,
) -> SiteWorkload:
    """Return the jobs of a log for a site.

    Args:
        site: the site; the sizes of its nodes shape jobs that tell no nodes.
        warmup_s: seconds after the first submission in which jobs are pinned; None: a tenth.
        limit_factor: limit of a job without one, over its run time.

    Raises:
        InputError: the log names a partition that the site does not have.
    """
    table = log.jobs.with_columns(
        pl.col("partition").fill_null(ONE_PARTITION), pl.col("qos").fill_null("normal"),
        pl.col("user").fill_null(ONE_NAME), pl.col("account").fill_null(ONE_NAME),
    )  # fmt: skip
    sizes = node_sizes(site)
    _check_partitions(log, table, sizes)
    notes = list(log.notes)
    submit = table["submit"].to_numpy().astype(np.int64)
    first, last = int(submit.min()), int(submit.max())
    until = first + ((last - first) // 10 if warmup_s is None else warmup_s)
    start = table["start"].fill_null(-1).to_numpy().astype(np.int64)
    ran = start >= 0
    in_warmup = submit < until
    keep = ran | ~in_warmup
    if not keep.all():
        table, submit, start = table.filter(keep), submit[keep], start[keep]
        ran, in_warmup = ran[keep], in_warmup[keep]
    n = table.height
    eligible = table["eligible"].fill_null(-1).to_numpy().astype(np.int64)
    ready = np.maximum(np.where(eligible >= 0, eligible, submit), submit)
    ready = np.where(ran, np.minimum(ready, start), ready)
    run = np.where(ran, table["run_s"].fill_null(0).to_numpy(), 0).astype(np.int64)
    end = table["end"].fill_null(-1).to_numpy().astype(np.int64)
    cancel = np.where(ran, NEVER, np.maximum(end, ready + 1))
    size = np.array([sizes[name] for name in table["partition"]], np.int64)
    gpus = table["gpus"].to_numpy().astype(np.int64)
    recorded = table["nodes"].fill_null(-1).to_numpy().astype(np.int64)
    nodes = np.where(recorded > 0, recorded, -(-gpus // size))
    each = -(-gpus // nodes)
    if padded := int(((nodes * each != gpus) & (recorded <= 0)).sum()):
        notes.append(f"{padded} jobs hold whole shares of their nodes: their GPUs are rounded up")
    limit, is_assumed = _limits(table, site, run, limit_factor, "limit_s" in log.missing)
    if is_assumed.any():
        notes.append(
            f"{int(is_assumed.sum()):,} of {n:,} jobs have no time limit in the log: the limit is "
            f"assumed to be {limit_factor:g} times the run time, at most the partition's MaxTime"
        )
    pinned = in_warmup | _names_nodes(table)
    billing = table["billing"].to_numpy().astype(np.float64)
    codes, names = {}, {}
    for column in ("user", "account", "partition", "qos"):
        values, code = np.unique(table[column].to_numpy().astype(str), return_inverse=True)
        codes[column], names[column] = code.reshape(-1).astype(np.int64), tuple(map(str, values))
    kinds = {node.gpu_type for node in site.nodes}
    wanted = [k if k in kinds else "" for k in table["gpu_type"].fill_null("").to_list()]
    types = {kind: i for i, kind in enumerate(dict.fromkeys(wanted))}
    jobs = SiteJobs(
        np.arange(n), submit, ready, nodes, each, np.maximum(limit, 1), run, cancel,
        np.where(pinned & ran, start, NEVER), np.zeros(n, np.int64),
        np.where(np.isnan(billing), gpus.astype(np.float64), billing),
        codes["user"], codes["account"], codes["partition"], codes["qos"],
        np.array([types[kind] for kind in wanted], np.int64),
        names["user"], names["account"], names["partition"], names["qos"], tuple(types),
    )  # fmt: skip
    excluded = _excluded(table, log)
    scored = ran & ~pinned
    could_start = (eligible >= 0) | ("eligible" in log.missing)
    held = table["reason"].fill_null("").str.contains(NOT_WAITING.pattern).to_numpy()
    gave_up = ~ran & (end >= 0) & could_start & ~held
    counts: dict[str, int] = {}
    for why, which in excluded.items():
        if hit := int((scored & which).sum()):
            counts[why] = hit
        scored &= ~which
    if unpinned := int((pinned & ran & ~in_warmup).sum()):
        counts["in a reservation or on named nodes (pinned)"] = unpinned
    return SiteWorkload(
        jobs, tuple(table["job_id"].to_list()), start, scored, gave_up, counts, until, tuple(notes)
    )


def site_run(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig,
    progress: Callable[[float], None] = lambda share: None,
) -> SiteRun:  # fmt: skip
    """Return a replay; ``progress`` is called with the share done.

    Raises:
        UsageError: the site or a job is too large for a replay.
    """
    try:
        return replay_site(site, jobs, config, progress)
    except ValueError as error:
        raise UsageError(f"the site cannot be replayed: {error}") from error


def jittered(jobs: SiteJobs, number: int) -> SiteJobs:
    """Return the jobs submitted up to a minute later, at random; pinned ones start as recorded.

    ``number`` is of the draw. A job moves alike wherever it has the same id.
    """
    draws = np.random.default_rng([number, 0]).integers(
        0, JITTER_S + 1, int(jobs.id.max(initial=-1)) + 1
    )
    later = np.where(jobs.pinned == NEVER, draws[jobs.id], 0)
    return jobs.changed(
        submit=jobs.submit + later,
        ready=jobs.ready + later,
        cancel=np.where(jobs.cancel >= 0, jobs.cancel + later, jobs.cancel),
    )


def _limits(
    table: pl.DataFrame, site: SiteCluster, run: IntArray, factor: float, is_missing: bool
) -> tuple[IntArray, BoolArray]:
    """Return the time limit of each job in seconds, and which of them are assumed.

    A job that asked for no limit (``UNLIMITED``, ``Partition_Limit``) has that of its partition. A
    job whose limit the log does not tell gets ``factor`` times its run time. Neither is above what
    partition and QOS allow, since the job was accepted.
    """
    most = _longest(table, site)
    limit = table["limit_s"].fill_null(-1).to_numpy().astype(np.int64)
    is_open = limit >= FOREVER_S
    if not is_missing:
        is_open |= limit < 1
    limit = np.where(is_open & (most > 0), most, limit)
    is_assumed: BoolArray = limit < 1
    assumed = np.maximum((run * factor).astype(np.int64), LEAST_LIMIT_S)
    assumed = np.where(most > 0, np.minimum(assumed, most), assumed)
    return np.where(is_assumed, assumed, limit), is_assumed


def _longest(table: pl.DataFrame, site: SiteCluster) -> IntArray:
    """Return the longest limit that partition and QOS allow a job, in seconds; -1 for none.

    Of the MaxWall of two QOS that of the partition's counts.
    """
    walls = {qos.name: qos.max_wall for qos in site.qos}
    partitions = {partition.name: partition for partition in site.partitions}
    kinds = table.select("partition", "qos").rows()
    longest: dict[tuple[str, str], int] = {}
    for name, qos in set(kinds):
        partition = partitions[name]
        wall = walls.get(partition.qos)
        limits = (partition.max_time, walls.get(qos) if wall is None else wall)
        longest[name, qos] = min((limit for limit in limits if limit is not None), default=-1)
    return np.array([longest[kind] for kind in kinds], np.int64)


def _check_partitions(log: SiteLog, table: pl.DataFrame, sizes: dict[str, int]) -> None:
    strange = sorted(set(table["partition"].unique()) - sizes.keys())
    if strange:
        rows = table.filter(pl.col("partition") == strange[0])
        if "partition" in log.missing:
            raise InputError(
                log.path, "no column Partition, and the settings have the partitions "
                f"{', '.join(sorted(sizes))}", expected="sacct output with it", hint=SACCT_COMMAND,
            )  # fmt: skip
        raise unknown_partition(log.path, strange[0], list(sizes), str(rows["job_id"][0]))


def unknown_partition(path: Path, partition: str, names: Sequence[str], job_id: str) -> InputError:
    """Return the error for a file with a job of a partition that the settings lack."""
    return InputError(
        path,
        f"has jobs of the partition {partition!r} (job {job_id}), which the settings do not "
        "describe",
        expected=f"one of {', '.join(sorted(names))}",
        hint="add it to the settings: gpuplan calibrate with the slurm.conf that has it, or "
        "--infer to take it from the log",
    )


def has_reason(beginnings: Iterable[str]) -> pl.Expr:
    """Return whether the last reason of a job to wait begins with one of some texts."""
    reason = pl.col("reason").fill_null("")
    return pl.any_horizontal(reason.str.starts_with(beginning) for beginning in beginnings)


def _names_nodes(table: pl.DataFrame) -> BoolArray:
    reserved = table["reservation"].fill_null("").str.len_chars() > 0
    named = table["submit_line"].fill_null("").str.contains(NAMED_NODES.pattern)
    pinned: BoolArray = (reserved | named).to_numpy()
    return pinned


def _excluded(table: pl.DataFrame, log: SiteLog) -> dict[str, BoolArray]:
    """Return which jobs are not scored, by reason."""
    reason = table["reason"].fill_null("")
    excluded: dict[str, BoolArray] = {}
    if "eligible" in log.missing:
        excluded["Dependency, without Eligible"] = reason.str.starts_with("Dependency").to_numpy()
    for start, name in HELD:
        excluded[name] = reason.str.starts_with(start).to_numpy()
    excluded["AssocMaxMinutes"] = reason.str.contains(MINUTES.pattern).to_numpy()
    excluded["requeued (all runs but the first)"] = (
        ~table["job_id"].is_first_distinct()
    ).to_numpy()
    excluded["preempted"] = (table["state"] == "preempted").to_numpy()
    return excluded
