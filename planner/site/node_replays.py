"""A site with other numbers of nodes of one GPU type, replayed in pairs with today's.

Each number of nodes is replayed several times, as a what-if is: submissions move by up to a minute,
users give up who wait too long, and ties, node order and the phases of the scheduler are shuffled,
in the same way for every number. What a number of nodes gives is what the log has plus the effect
of these nodes, the mean over pairs of replays with them and with today's; its error is that of a
what-if. A target is met where this is within the limit, and unclear where the error spans it.
Intervals count resampled blocks of jobs besides, so they hold the chance of other weeks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.planner.engine import Engine
from gpuplan.planner.parallel import run_all
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.runs.group_waits import GroupWaits
from gpuplan.planner.site.effects import SMALL_SHARE, blocks_of, error_of
from gpuplan.planner.site.replicas import Chance
from gpuplan.planner.sizing.sized_replay import (
    FEWEST_JOBS,
    PERCENTILES,
    Judgment,
    SizedReplay,
    judgment_of,
)
from gpuplan.planner.sizing.targets import OVER, SLOWDOWN, Target
from gpuplan.planner.twin.node_changes import NodeChoice, add_nodes, chosen_nodes, remove_nodes
from gpuplan.planner.twin.score import scored_mask
from gpuplan.planner.twin.settings import shuffled
from gpuplan.planner.twin.workload import SiteWorkload, site_run
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

MOST_REPLICAS, LEAST_REPLICAS = 8, 4
MANY_JOBS = 20_000
"""More jobs have the fewer replicas."""
BYTES_PER_JOB = 2_000
GROUP_OF = {"group": "account", "user": "user"}
"""What waits are split by -> what the site calls it."""


@dataclass(frozen=True, slots=True)
class NodesOfType:
    """The nodes of a GPU type.

    Attributes:
        name: the GPU type, or the partition that was named.
        choice: the nodes, and the partitions that new ones join.
        text: how changes name them.
    """

    name: str
    choice: NodeChoice
    text: str

    @property
    def count(self) -> int:
        """How many there are today."""
        return len(self.choice.nodes)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each."""
        return self.choice.node_kind.gpus

    def on(self, site: SiteCluster, count: int) -> SiteCluster:
        """Return the site with so many of these nodes. Raises `UsageError`."""
        if count == self.count:
            return site
        change = add_nodes if count > self.count else remove_nodes
        changed = change(f"{self.text}={abs(count - self.count)}").site
        assert changed is not None  # a change of nodes
        return changed(site)

    def least(self, site: SiteCluster, jobs: SiteJobs) -> int:
        """Return the fewest of these nodes with which every job has room in its partitions."""
        needed, gone = 1, set(self.choice.nodes)
        for part in site.partitions:
            if part.name not in self.choice.partitions or part.name not in jobs.partitions:
                continue
            of_part = jobs.partition == jobs.partitions.index(part.name)
            widest = int(jobs.nodes[of_part].max(initial=0))
            needed = max(needed, widest - len(set(part.nodes) - gone))
        return min(needed, self.count)


def node_types(site: SiteCluster, chosen: str | None = None) -> tuple[NodesOfType, ...]:
    """Return the GPU types of a site with their nodes, most GPUs first.

    Args:
        chosen: a GPU type, a partition or a node; None for every type with nodes of one size.

    Raises:
        UsageError: nothing has that name, or it stands for nodes of several sizes or types.
    """
    types = tuple(dict.fromkeys(node.gpu_type for node in site.nodes))
    if chosen is not None:
        kind = next((kind for kind in types if kind.lower() == chosen.lower()), None)
        text = chosen if kind is None else _named(kind, site)
        return (NodesOfType(kind or chosen, chosen_nodes(site, text, "--gpu-type"), text),)
    counted = []
    for kind in types:
        if len({node.gpus for node in site.nodes if node.gpu_type == kind}) == 1:
            text = _named(kind, site)
            counted.append(NodesOfType(kind, chosen_nodes(site, text, "--gpu-type"), text))
    if not counted:
        raise UsageError(
            f"--gpu-type: the nodes of {listed(types)} have several sizes\n"
            "  next: --gpu-type NODE for nodes like one"
        )
    return tuple(sorted(counted, key=lambda each: -each.count * each.gpus_per_node))


def _named(kind: str, site: SiteCluster) -> str:
    """Return how changes name the nodes of a type: by the partition that they are, if any."""
    nodes = {node.name for node in site.nodes if node.gpu_type == kind}
    partition = next((part.name for part in site.partitions if set(part.nodes) == nodes), None)
    return f"type:{kind}" if partition is None else f"partition:{partition}"


@dataclass(frozen=True, slots=True)
class SiteTerms:
    """What the replays of all numbers of nodes share.

    Attributes:
        site: today.
        config: the rules.
        work: the jobs.
        nodes: which ones are counted.
        targets: to judge.
        confidence: of the intervals; None for none.
        by: what waits are split by, of `GROUP_OF`; empty for nothing.
        held: jobs that wait as recorded; shape (n,).
        chance: what differs between the replicas.
        today_wait: waits with today's nodes by replica, in seconds, -1 where a job did not start;
            shape (replicas, n).
    """

    site: SiteCluster
    config: SchedulerConfig
    work: SiteWorkload
    nodes: NodesOfType
    targets: tuple[Target, ...]
    confidence: Resampling | None
    by: str
    held: BoolArray
    chance: Chance
    today_wait: IntArray


def replica_count(work: SiteWorkload) -> int:
    """Return how often each number of nodes is replayed."""
    return LEAST_REPLICAS if work.jobs.id.size > MANY_JOBS else MOST_REPLICAS


def today_waits(
    site: SiteCluster, config: SchedulerConfig, work: SiteWorkload, chance: Chance, engine: Engine
) -> IntArray:
    """Return the waits of the replicas with today's nodes; see `SiteTerms`."""
    numbers = range(replica_count(work))
    shared = (site, config, work, chance)
    size = BYTES_PER_JOB * work.jobs.id.size
    return np.array(run_all(_today_wait, numbers, shared=shared, engine=engine, bytes_each=size))


def _today_wait(
    number: int, site: SiteCluster, config: SchedulerConfig, work: SiteWorkload, chance: Chance
) -> IntArray:
    return site_run(site, chance.applied(work.jobs, number), shuffled(config, number + 1)).wait


def group_mask(work: SiteWorkload, group: tuple[str, str]) -> BoolArray:
    """Return the jobs of a group of a target, such as ``("account", "vision")``."""
    by, name = group
    mask: BoolArray = work.names(GROUP_OF.get(by, by)) == name
    return mask


def replay_nodes(gpus: int, terms: SiteTerms) -> SizedReplay:
    """Replay a site with so many GPUs of a type, each replica of the jobs, beside today's.

    Raises:
        UsageError: the site cannot be replayed.
    """
    site = terms.nodes.on(terms.site, gpus // terms.nodes.gpus_per_node)
    work = terms.work
    masks = [
        None if target.group is None else group_mask(work, target.group) for target in terms.targets
    ]
    by_replica = []
    for number, today_wait in enumerate(terms.today_wait):
        config = shuffled(terms.config, number + 1)
        run = site_run(site, terms.chance.applied(work.jobs, number), config)
        by_replica.append(_NodesReplica(run, today_wait, site, terms, masks))
    figures = [
        _target_figure(target, [replica.figures[at] for replica in by_replica])
        for at, target in enumerate(terms.targets)
    ]
    offsets = [offset for _, offset, _ in figures]
    waits, wait_offsets = _joined_waits([replica.waits for replica in by_replica])
    judged = [replica.judged(offsets) for replica in by_replica]
    limits = [
        (target, value, error)
        for target, (value, _, error) in zip(terms.targets, figures, strict=True)
    ]
    return SizedReplay(
        gpus=gpus,
        waits=waits,
        mean_slowdown=float(np.mean([replica.mean_slowdown for replica in by_replica])),
        utilization=float(np.mean([replica.utilization for replica in by_replica])),
        target_values=tuple(value for value, _, _ in figures),
        meets=all(target.is_met(value) for target, value, _ in limits),
        target_errors=tuple(error for _, _, error in figures),
        could_meet=all(target.is_met(value - error) for target, value, error in limits),
        could_miss=any(not target.is_met(value + error) for target, value, error in limits),
        groups=by_replica[0].groups(),
        mean_waits_s=tuple(float(replica.wait_s.mean()) for replica in by_replica),
        **_joined([each for each in judged if each is not None], wait_offsets),
    )


def _target_figure(
    target: Target, pairs: Sequence[tuple[tuple[float, float, float], FloatArray]]
) -> tuple[float, float, float]:
    """Return the log's statistic plus the effect of the nodes, its offset, and its error.

    The offset is the log's statistic less that of a replay of today; the error is that of
    `gpuplan.planner.site.effects.error_of`.

    Args:
        target: what the statistic is of.
        pairs: of each pair of replays the statistic in the log, with today's nodes and with others;
            and how far the effect moves without each block of days, shape (blocks,).
    """
    recorded, before, after = np.array([figures for figures, _ in pairs]).T
    offset = float(recorded.mean() - before.mean())
    without = float(np.abs(np.mean([moved for _, moved in pairs], axis=0)).max(initial=0.0))
    differs = bool((after != before).any())
    model = SMALL_SHARE * float(max(before.mean(), after.mean())) if differs else 0.0
    error = error_of(float((after - before).std(ddof=1)), len(pairs), without, model=model)
    least = 0.0 if target.statistic == OVER else target.least
    return max(float(after.mean()) + offset, least), offset, error


def _joined_waits(
    replicas: Sequence[tuple[dict[str, float], ...]],
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the log's waits plus the effect by name, and how far a replay of today is off.

    Args:
        replicas: waits by name of each pair: recorded, with today's nodes, with others.
    """
    recorded, before, after = (
        {
            name: float(np.mean([replica[at][name] for replica in replicas]))
            for name in replicas[0][at]
        }
        for at in range(3)
    )
    offsets = {name: recorded[name] - before[name] for name in recorded}
    return {name: max(after[name] + offsets[name], 0.0) for name in after}, offsets


class _NodesReplica:
    """What one pair of replays shows of the jobs that count."""

    def __init__(
        self,
        run: SiteRun,
        today_wait: IntArray,
        site: SiteCluster,
        terms: SiteTerms,
        masks: Sequence[BoolArray | None],
    ) -> None:
        self.run, self.site, self.terms = run, site, terms
        work, held = terms.work, terms.held
        self.mask = mask = (scored_mask(work, run) & (today_wait >= 0)) | held
        recorded = work.recorded_wait[mask].astype(np.float64)
        self.wait_s, before = (
            np.where(held, work.recorded_wait, waits)[mask].astype(np.float64)
            for waits in (run.wait, today_wait)
        )
        self.run_s = np.maximum(run.jobs.runtime[mask], 1)
        self.slowdown = self._slowdown(self.wait_s)
        self.chosen = [None if group is None else group[mask] for group in masks]
        blocks = blocks_of(work.jobs.submit[mask])
        self.figures = [
            self._pair(target, group, (recorded, before, self.wait_s), blocks)
            for target, group in zip(terms.targets, self.chosen, strict=True)
        ]
        self.waits = tuple(
            distribution(waits, "wait", "s", PERCENTILES)
            for waits in (recorded, before, self.wait_s)
        )
        self.mean_slowdown = float(self.slowdown.mean())

    def _slowdown(self, wait_s: FloatArray) -> FloatArray:
        slowdown: FloatArray = (wait_s + self.run_s) / self.run_s
        return slowdown

    def _pair(
        self, target: Target, group: BoolArray | None, waits: Sequence[FloatArray], blocks: IntArray
    ) -> tuple[tuple[float, float, float], FloatArray]:
        """Return the statistic of a target, and how its effect moves without each block of days."""
        if target.quantity == SLOWDOWN:
            waits = [self._slowdown(each) for each in waits]
        if group is not None:
            waits, blocks = [each[group] for each in waits], blocks[group]
        recorded, before, after = (target.value(each) for each in waits)
        count = int(blocks.max(initial=0)) + 1
        moved = np.zeros(count)
        for block in range(count if count > 1 else 0):
            rest = blocks != block
            effect = target.value(waits[2][rest]) - target.value(waits[1][rest])
            moved[block] = effect - (after - before)
        return (recorded, before, after), moved

    @property
    def utilization(self) -> float:
        """GPU time that jobs hold on the counted nodes over theirs, first to last submission."""
        run, jobs, terms = self.run, self.run.jobs, self.terms
        others = {node.name for node in terms.site.nodes} - set(terms.nodes.choice.nodes)
        here = np.array([node.name not in others for node in self.site.nodes])
        gpus = sum(node.gpus for node in self.site.nodes if node.name not in others)
        begin, end = int(jobs.submit.min()), int(jobs.submit.max())
        held_s = np.clip(np.minimum(run.end, end) - np.maximum(run.start, begin), 0, None)
        of_job = np.repeat(np.arange(jobs.id.size), np.diff(run.node_first))
        counts = (run.node >= 0) & here[run.node]  # once for each node of a job
        used = float((held_s * jobs.gpus)[of_job[counts]].sum())
        return used / max(1.0, (end - begin) * gpus)

    def judged(self, offsets: Sequence[float]) -> Judgment | None:
        """Return what resamples of the jobs give; None without confidence.

        Args:
            offsets: of each target, the log's value less that of a replay of today.
        """
        if self.terms.confidence is None or self.wait_s.size < FEWEST_JOBS:
            return None
        excess = []
        for target, group, offset in zip(self.terms.targets, self.chosen, offsets, strict=True):
            shifted = replace(target, limit=target.limit - offset)
            each = shifted.excess(self.slowdown if target.quantity == SLOWDOWN else self.wait_s)
            excess.append(each if group is None else np.where(group, each, 0.0))
        return judgment_of(self.wait_s, excess, self.terms.confidence)

    def groups(self) -> tuple[GroupWaits, ...]:
        """Return the waits by group, most GPU-hours first."""
        by, jobs = self.terms.by, self.run.jobs
        if not by:
            return ()
        names = self.terms.work.names(GROUP_OF.get(by, by))[self.mask]
        gpu_h = (jobs.total_gpus * jobs.runtime)[self.mask] / 3600
        rows = []
        for name in np.unique(names.astype(str)):
            of_group = names == name
            waits = self.wait_s[of_group]
            p50, p95 = np.percentile(waits, [50, 95]).tolist()
            hours = float(gpu_h[of_group].sum())
            rows.append(
                GroupWaits(str(name), int(waits.size), hours, float(waits.mean()), p50, p95)
            )
        return tuple(sorted(rows, key=lambda row: (-round(row.gpu_h, 9), row.name)))


def _joined(judged: Sequence[Judgment], offsets: Mapping[str, float]) -> dict[str, Any]:
    """Return what the resamples of all replicas give together, moved by the offsets of waits."""
    if not judged:
        return {}

    def ends(pairs: Sequence[tuple[float, float] | None], name: str) -> tuple[float, float] | None:
        intervals = [pair for pair in pairs if pair is not None]
        if not intervals:
            return None
        low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
        return max(low + offsets[name], 0.0), max(high + offsets[name], 0.0)

    return {
        "met_share": float(np.mean([each.met_share for each in judged])),
        "tail": judged[0].tail,
        "mean_wait_interval": ends([each.mean_wait_interval for each in judged], "mean_wait_s"),
        "p95_wait_interval": ends([each.p95_wait_interval for each in judged], "p95_wait_s"),
    }
