"""Replay jobs on a site: what goes in, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.kernel import replay
from gpuplan.simkit.twin.refusals import ELSEWHERE, REASONS
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.twin.state import NODE_BITS
from gpuplan.simkit.twin.tables import kernel_input

NOT_STARTED = -1
LARGEST = 1 << 56
"""Number that no time and no limit exceeds; a unit of time may be a microsecond."""
MOST_NODES = 1 << NODE_BITS
MOST_WEIGHTS = 1 << 17
MOST_GPUS = 1 << 24
"""GPUs of a site, and of a job: the tables of running jobs then take 400 MB."""


@dataclass(frozen=True, slots=True)
class SiteRun:
    """What happened; arrays of shape (n,) in the order of the jobs, times in seconds.

    Attributes:
        jobs: what was run.
        start, end: start and end of each job; `NOT_STARTED` where it never started.
        reason_code: why a job never started, as a position in ``REASONS``; 0 where it did.
        node_first, node: ``node[node_first[i]:node_first[i + 1]]`` are the nodes of job ``i`` in
            the order in which they were chosen, as positions in the site's list; -1 where it
            never started.
        usage: usage by (account, user) at the last tick, in billing-seconds; an account's own key
            has an empty user, the whole site's is ("", "").
        elsewhere_gpu_s: GPU-seconds that each job, having waited too long, ran on GPUs elsewhere.
        later_wait: seconds that the jobs waited together which went on with each; 0 without any,
            `NOT_STARTED` where one of them never started.

    Jobs that go on with the rest of another are left out. One that moved elsewhere has its start
    and end there, and no nodes.
    """

    jobs: SiteJobs
    start: IntArray
    end: IntArray
    reason_code: IntArray
    node_first: IntArray
    node: IntArray
    usage: dict[tuple[str, str], float] = field(default_factory=dict)
    elsewhere_gpu_s: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    later_wait: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def reason(self, i: int) -> str:
        """Return why a job never started; empty where it did."""
        return REASONS[int(self.reason_code[i])]

    def nodes(self, i: int) -> list[int]:
        """Return the nodes of a job."""
        chosen = self.node[self.node_first[i] : self.node_first[i + 1]]
        return [int(node) for node in chosen if node >= 0]

    @property
    def wait(self) -> IntArray:
        """Seconds from eligible to start; `NOT_STARTED` where it never started."""
        waited: IntArray = np.where(self.start >= 0, self.start - self.jobs.ready, NOT_STARTED)
        return waited


def replay_site(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig,
    progress: Callable[[float], None] = lambda share: None,
) -> SiteRun:  # fmt: skip
    """Replay jobs on a site under the settings of its scheduler.

    ``progress`` is called with the share of the jobs that have come.

    Raises:
        ValueError: a job names a partition that the site does not have, a time is negative or
            too large, a site is too large, or a setting is not a number of that size.
    """
    _check(site, jobs, config)
    tables = kernel_input(site, jobs, config)
    state = replay(tables.jobs, tables.site, tables.limits, tables.tree, tables.rules, progress)
    usage = {("", ""): float(tables.tree.usage[0])}
    for key, node in tables.associations.node.items():
        usage[key] = float(tables.tree.usage[node])
    n = jobs.id.size
    later = _later_waits(jobs, state.start, tables.jobs.ready)
    start, end, reason = state.start[:n], state.end[:n], state.reason[:n]
    moved = reason == ELSEWHERE
    runtime = jobs.runtime if jobs.rest is None else jobs.runtime + jobs.rest
    start[moved] = tables.jobs.cancel[:n][moved]
    end[moved] = start[moved] + runtime[moved]
    reason[moved] = 0
    first = state.place_first[: n + 1]
    return SiteRun(
        jobs, start, end, reason, first, state.place[: first[-1]], usage,
        np.where(moved, runtime * jobs.total_gpus, 0), np.where(moved, 0, later),
    )  # fmt: skip


def refusals_of(site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> IntArray:
    """Return why the site refuses each job at once, as a position in ``REASONS``; 0 where not.

    Raises as `replay_site`.
    """
    _check(site, jobs, config)
    refused: IntArray = kernel_input(site, jobs, config).jobs.refused[: jobs.id.size]
    return refused


def _later_waits(jobs: SiteJobs, start: IntArray, ready: IntArray) -> IntArray:
    """Return the seconds that the later parts of each job waited; see `SiteRun`.

    Args:
        jobs: without their parts; shape (n,).
        start, ready: of the jobs, then of the parts, in their order.
    """
    n, of = jobs.id.size, np.repeat(np.arange(jobs.id.size), jobs.later_parts)
    is_started = start[n:] >= 0
    waited = np.where(is_started, start[n:] - ready[n:], 0)
    later = np.zeros(n, np.int64)
    np.add.at(later, of, waited)
    missing = np.zeros(n, np.bool_)
    missing[of[~is_started]] = True
    return np.where(missing & (start[:n] >= 0), NOT_STARTED, later)


def _check(site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> None:
    if not site.nodes or not site.partitions:
        raise ValueError("a site needs at least one node and one partition")
    sizes = [node.gpus for node in site.nodes]
    if min(sizes) < 1:
        raise ValueError("every node needs at least one GPU")
    if len(sizes) >= MOST_NODES or len(sizes) * max(sizes) > MOST_GPUS:
        raise ValueError(
            f"a site may have at most {MOST_NODES - 1:,} nodes, and {MOST_GPUS:,} GPUs if all "
            f"were as large as the largest; got {len(sizes):,} nodes of up to {max(sizes):,} GPUs"
        )
    if len({node.weight for node in site.nodes}) > MOST_WEIGHTS:
        raise ValueError(f"the nodes of a site may have {MOST_WEIGHTS:,} different weights at most")
    rows: tuple[Any, ...] = (*site.nodes, *site.partitions, *site.qos, *site.assocs, *site.events)
    for row in (config, *rows):
        for name in row.__slots__:
            value = getattr(row, name)
            if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
                what = getattr(row, "name", None) or type(row).__name__
                raise ValueError(f"{name} of {what} must be within {LARGEST} of 0, got {value}")
    for name in ("submit", "ready", "limit", "runtime", "cancel", "pinned", "nodes", "gpus"):
        values = getattr(jobs, name)
        largest = MOST_GPUS if name in ("nodes", "gpus") else LARGEST
        if values.size and (values.min() < -1 or values.max() > largest):
            worst = values.max() if values.max() > largest else values.min()
            raise ValueError(f"{name} of a job must be within 0 and {largest}, got {worst}")
    if jobs.nice.size and max(-int(jobs.nice.min()), int(jobs.nice.max())) > LARGEST:
        raise ValueError(f"nice of a job must be within {LARGEST} of 0")
