"""A job to submit: what a user did not say is what such jobs of the log were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.site.log import SITE_COLUMNS
from gpuplan.planner.twin.workload import ONE_NAME, ONE_PARTITION
from gpuplan.simkit.twin.site import SiteCluster, SitePartition

NEW_USER = "(new user)"
FEWER_GPUS, SHORTER_LIMIT, PARTITION, QOS = "fewer GPUs", "shorter limit", "partition", "QOS"
PARTS = (2, 4)
"""A job may ask for a half and a quarter of its GPUs or of its limit."""
LEAST_LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit.

    Attributes:
        user, account, partition, qos: names.
        nodes: nodes that it takes; None for as few as can hold it.
        gpus: GPUs on all of them.
        limit_s: its time limit; seconds. None at a site of Kueue, where it changes no start.

    At a site of Kueue the account is a namespace, the partition a ClusterQueue, the QOS a class of
    priority, a node a pod, and there are no users.
    """

    user: str
    account: str
    partition: str
    qos: str
    nodes: int | None
    gpus: int
    limit_s: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> NewJob:
        """Return a job of the log as it was submitted."""
        return cls(
            row["user"] or ONE_NAME, row["account"] or ONE_NAME,
            row["partition"] or ONE_PARTITION, row["qos"] or "normal", row["nodes"], row["gpus"],
            row["limit_s"],
        )  # fmt: skip

    def row(self, at: int) -> dict[str, object]:
        """Return the job as a row of a log, submitted at an instant."""
        return dict.fromkeys(SITE_COLUMNS) | {
            "job_id": "0", "user": self.user, "account": self.account,
            "partition": self.partition, "qos": self.qos, "submit": at, "eligible": at,
            "limit_s": self.limit_s, "nodes": self.nodes, "gpus": self.gpus, "state": "waiting",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobWish:
    """What a user says of a job; None where nothing.

    Attributes:
        gpus: GPUs in all; ``nodes``: on how many nodes.
        limit_s: time limit; seconds.
        user, account, partition, qos: names.
    """

    gpus: int
    nodes: int | None
    limit_s: int
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None


def new_job(wish: JobWish, site: SiteCluster, past: pl.DataFrame) -> tuple[NewJob, list[str]]:
    """Return the job that a user means, and what was assumed, one sentence each.

    Args:
        past: the jobs that they and others submitted before.

    Raises:
        UsageError: a name is unknown, or no partition can hold the job.
    """
    _check_names(wish, site, past)
    assumed = []
    rows = past
    user, account = wish.user, wish.account
    if user is not None:
        rows = _of_names(rows, user=user)
        account = account or most_common(rows, "account") or ONE_NAME
    elif account is not None:
        rows = _of_names(rows, account=account)
    if account is None:
        account = most_common(rows, "account") or ONE_NAME
        assumed.append(f"account {account}: the one with the most jobs; --account names another")
    if user is None:
        user = NEW_USER
        assumed.append(
            f"a user of {account} who runs and waits for nothing and has used nothing yet: "
            "--user NAME counts your own jobs and fair share"
        )
    partition = wish.partition
    if partition is None:
        partition = _partition(wish, site, rows, past)
        assumed.append(f"partition {partition}: --partition names another")
    job = shaped(wish.gpus, wish.nodes, site.partition(partition), site)
    qos = wish.qos
    if qos is None:
        of_size = _of_names(rows, partition=partition).filter(pl.col("gpus") >= wish.gpus)
        likely = most_common(of_size, "qos") or most_common(
            _of_names(rows, partition=partition), "qos"
        )
        qos = likely or most_common(rows, "qos") or "normal"
        if len(site.qos) > 1:
            assumed.append(f"QOS {qos}: --qos names another")
    return NewJob(user, account, partition, qos, *job, wish.limit_s), assumed


def shaped(
    gpus: int, nodes: int | None, partition: SitePartition, site: SiteCluster
) -> tuple[int, int]:
    """Return the nodes and GPUs of a job in a partition: as few nodes as can hold it.

    Raises:
        UsageError: the partition has no such nodes, or the GPUs do not divide among them.
    """
    size_of = site.gpus_of_node
    sizes = sorted(size_of[name] for name in partition.nodes)
    name = partition.name
    if gpus > sum(sizes):
        raise UsageError(
            f"--gpus {gpus}: partition {name} has {counted(sum(sizes), 'GPU')}; {_largest(site)}"
        )
    least = nodes or next(
        (count for count in range(-(-gpus // sizes[-1]), len(sizes) + 1) if gpus % count == 0),
        -(-gpus // sizes[-1]),
    )
    if least > len(sizes) or gpus % least:
        raise UsageError(
            f"--gpus {gpus} on {counted(least, 'node')}: every node of a job holds as many GPUs, "
            f"and partition {name} has {counted(len(sizes), 'node')} of {sizes[-1]} GPUs"
        )
    if sum(size >= gpus // least for size in sizes) < least:
        raise UsageError(
            f"--gpus {gpus} on {counted(least, 'node')}: partition {name} has "
            f"{sum(size >= gpus // least for size in sizes)} nodes of {gpus // least} GPUs"
        )
    return least, gpus


def _largest(site: SiteCluster) -> str:
    size_of = site.gpus_of_node
    gpus = {p.name: sum(size_of[name] for name in p.nodes) for p in site.partitions}
    return "the partitions have " + ", ".join(f"{name} {count}" for name, count in gpus.items())


def _check_names(wish: JobWish, site: SiteCluster, past: pl.DataFrame) -> None:
    described = {
        "account": {row.account for row in site.assocs},
        "user": {row.user for row in site.assocs if row.user},
        "qos": {quality.name for quality in site.qos},
        "partition": {part.name for part in site.partitions},
    }
    for kind, names in described.items():
        word = getattr(wish, kind)
        if kind != "partition":
            names |= set(past[kind].drop_nulls().to_list())
        if word is not None and word not in names:
            raise UsageError(
                f"--{kind} {word}: no such {'QOS' if kind == 'qos' else kind} in the settings or "
                f"the log{perhaps(word, names)}; expected one of {', '.join(sorted(names))}"
            )


def _partition(wish: JobWish, site: SiteCluster, rows: pl.DataFrame, past: pl.DataFrame) -> str:
    """Return the partition that jobs of at least this size go to most, and that can hold it."""
    able = []
    for part in site.partitions:
        if part.max_time is not None and wish.limit_s > part.max_time:
            continue
        try:
            shaped(wish.gpus, wish.nodes, part, site)
        except UsageError:
            continue
        able.append(part.name)
    if not able:
        raise UsageError(
            f"no partition can hold {counted(wish.gpus, 'GPU')} for {wish.limit_s / 3600:g} h; "
            f"{_largest(site)}, with limits of "
            + ", ".join(
                f"{p.name} {'none' if p.max_time is None else f'{p.max_time / 3600:g} h'}"
                for p in site.partitions
            )
        )
    for sample in (rows, past):
        named = sample.with_columns(pl.col("partition").fill_null(ONE_PARTITION)).filter(
            pl.col("partition").is_in(able)
        )
        for least in (wish.gpus, 0):
            if likely := most_common(named.filter(pl.col("gpus") >= least), "partition"):
                return likely
    return able[0]


def _of_names(rows: pl.DataFrame, **names: str) -> pl.DataFrame:
    for column, name in names.items():
        rows = rows.filter(pl.col(column) == name)
    return rows


def most_common(rows: pl.DataFrame, column: str) -> str | None:
    """Return the most common name of a column; None where it has none."""
    counts = (
        rows[column]
        .drop_nulls()
        .value_counts(sort=True)
        .sort("count", column, descending=[True, False])
    )
    return None if counts.is_empty() else str(counts[column][0])


def reshaped(job: NewJob, site: SiteCluster, gpus: int, partition: str) -> NewJob | None:
    """Return the job with other GPUs or in another partition; None where that cannot hold it."""
    try:
        nodes, gpus = shaped(gpus, None, site.partition(partition), site)
    except UsageError:
        return None
    return replace(job, nodes=nodes, gpus=gpus, partition=partition)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to ask for a job.

    Attributes:
        kind: what is changed.
        change: the change, in words.
        job: the job then.
    """

    kind: str
    change: str
    job: NewJob


def alternatives(job: NewJob, site: SiteCluster, past: pl.DataFrame) -> list[Alternative]:
    """Return other ways to ask for a job, the mildest of each kind first.

    Args:
        past: jobs of the log; a QOS counts that its account has used.
    """
    return [each for each in _all(job, site, past) if each.job != job]


def _all(job: NewJob, site: SiteCluster, past: pl.DataFrame) -> Iterator[Alternative]:
    for part in PARTS:
        fewer = None if job.gpus % part else reshaped(job, site, job.gpus // part, job.partition)
        if fewer is not None:
            yield Alternative(FEWER_GPUS, counted(fewer.gpus, "GPU"), fewer)
    for part in PARTS:
        limit = (job.limit_s or 0) // part
        if limit >= LEAST_LIMIT_S:
            yield Alternative(
                SHORTER_LIMIT, f"limit of {_hours(limit)}", replace(job, limit_s=limit)
            )
    for partition in site.partitions:
        other = reshaped(job, site, job.gpus, partition.name)
        if other is None:
            continue
        said = f"partition {partition.name}"
        if partition.max_time is not None and partition.max_time < (job.limit_s or 0):
            other = replace(other, limit_s=partition.max_time)
            said += f" with a limit of {_hours(partition.max_time)}"
        yield Alternative(PARTITION, said, other)
    used = set(past.filter(pl.col("account") == job.account)["qos"].drop_nulls())
    for quality in site.qos:
        if quality.name in used:
            yield Alternative(QOS, f"QOS {quality.name}", replace(job, qos=quality.name))


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 7200 else f"{seconds / 60:.3g} min"
