"""A replay that begins in the middle: jobs already run on their nodes, others wait.

It ends as soon as one job started. Times are whole seconds on one clock, so that a job that runs
has its real start, and one that waits its real age.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import insert
from gpuplan.simkit.jit import borrowing_kernel
from gpuplan.simkit.twin.kernel import COMING_NEXT, new_loop, run
from gpuplan.simkit.twin.refusals import REASONS
from gpuplan.simkit.twin.state import begin, new_state, set_events
from gpuplan.simkit.twin.tables import JobTable, KernelInput, SiteTable

INSTANTS = 32
"""Instants between two looks at the job; more waste time after its start."""
UNTIL_NEXT = 1 << 40


class RunningJobs(NamedTuple):
    """Jobs that run at the first instant; they come first in the table of jobs.

    Attributes:
        start: second at which each started; shape (n,), at most the first instant.
        node: their nodes, in the order of the jobs, each as many as `JobTable.nodes` says; as
            numbers of the tables.
    """

    start: IntArray
    node: IntArray


@dataclass(frozen=True, slots=True)
class NodesDown:
    """Nodes that take no job for a time; shape (n,) each, seconds.

    ``announced`` is the second from which the time is known in advance; `NO_LIMIT` for never.
    """

    node: IntArray
    start: IntArray
    end: IntArray
    announced: IntArray


def selected(jobs: JobTable, rows: IntArray, **values: Any) -> JobTable:
    """Return some rows of a table of jobs in a new order, with some columns exchanged."""
    columns = {name: column[rows] for name, column in jobs._asdict().items() if name not in values}
    return JobTable(**columns, **values)


def with_down(site: SiteTable, down: NodesDown, now: int) -> SiteTable:
    """Return the tables of a site with other node events, as they stand at an instant."""
    edges = np.concatenate([down.start, down.end, down.announced])
    return site._replace(
        event_node=down.node, event_start=down.start, event_end=down.end,
        event_announced=down.announced,
        edges=np.unique(edges[(edges > now) & (edges < UNTIL_NEXT)]),
    )  # fmt: skip


def first_start(
    tables: KernelInput, jobs: JobTable, site: SiteTable, running: RunningJobs, now: int,
    job: int,
) -> int:  # fmt: skip
    """Return the second at which a job starts; -1 where it never does.

    Args:
        tables: limits, associations with their usage at ``now``, and rules of the site.
        jobs: the jobs of this replay: those that run, then the others; ``runtime`` counts from
            the start of each. A job that was ready before ``now`` waits already.
        site: its nodes, with what is known of their events.
        now: the first instant.
        job: position of the job.

    Raises:
        ValueError: the job can never start; the message is Slurm's reason.
    """
    if jobs.refused[job]:
        raise ValueError(REASONS[int(jobs.refused[job])])
    count = running.start.size
    arrival = np.maximum(jobs.ready, now)
    arrival[:count] = now - 1  # they came before all others
    changing = ("usage", "factor", "level", "group", "stack", "child")
    tree = tables.tree._replace(**{name: getattr(tables.tree, name).copy() for name in changing})
    limits = tables.limits._replace(
        **{
            name: np.zeros_like(values)
            for name, values in tables.limits._asdict().items()
            if name.startswith(("used_", "least_", "over_"))
        }
    )
    state = new_state(jobs, site)
    buffers, clock = new_loop(jobs, site, tree, tables.rules, arrival, now)
    clock[COMING_NEXT] = count
    begin_running(state, jobs, site, limits, tree.parent, buffers.heap, running, now)
    while state.start[job] < 0 and state.reason[job] == 0:
        if not run(state, jobs, site, limits, tree, tables.rules, buffers, clock, INSTANTS):
            break
    return int(state.start[job])


@borrowing_kernel
def begin_running(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, heap: Any, running: Any, now: int
) -> None:
    """Put the jobs that run onto their nodes; their use until now is part of the usage."""
    at = 0
    for j in range(running.start.size):
        for i in range(jobs.nodes[j]):
            state.chosen[i] = running.node[at]
            at += 1
        begin(state, jobs, site, limits, parent, j, running.start[j])
        state.end[j] = max(state.end[j], now + 1)
        state.charged[j] = now
        insert(heap, state.end[j], j)
    set_events(state, site, now)
