"""Numbers of nodes of one GPU type under a site's own rules, all other nodes as they are.

Each number of nodes is replayed several times, as a what-if is: submissions move by up to a minute,
users give up who wait too long, and ties, node order and the phases of the scheduler are shuffled,
in the same way for every number. A target is
met where its mean over the replicas is within the limit. Intervals count replicas and resampled
blocks of jobs together, so they hold the chance of ties as well as that of other weeks.

Jobs whose wait the rules do not explain (a hold, a begin time, an array's own limit) keep their
recorded wait at every number of nodes: they belong to "all jobs", and nodes do not help them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.planner.engine import Engine
from gpuplan.planner.parallel import run_all
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.runs.group_waits import GroupWaits
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.fidelity import SITE_RULES, Fidelity, TodayReplay, fidelity_of
from gpuplan.planner.site.replicas import Chance
from gpuplan.planner.sizing.search import Candidates
from gpuplan.planner.sizing.sized_replay import (
    FEWEST_JOBS,
    PERCENTILES,
    Judgment,
    SizedReplay,
    judgment_of,
)
from gpuplan.planner.sizing.targets import SLOWDOWN, Target
from gpuplan.planner.twin.node_changes import (
    NodeChoice,
    add_nodes,
    chosen_nodes,
    remove_nodes,
)
from gpuplan.planner.twin.score import scored_mask
from gpuplan.planner.twin.settings import shuffled
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import BoolArray, FloatArray
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun, replay_site
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

MOST_REPLICAS, LEAST_REPLICAS = 8, 4
MANY_JOBS = 20_000
"""More jobs have the fewer replicas."""
MOST_TIMES_TODAY = 4
"""Times today's nodes, the most that are tried."""
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
        return self.choice.like.gpus

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
        site: the site.
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
    own = next((part.name for part in site.partitions if set(part.nodes) == nodes), None)
    return f"type:{kind}" if own is None else f"partition:{own}"


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

    @property
    def replicas(self) -> int:
        """How often each number of nodes is replayed."""
        return LEAST_REPLICAS if self.work.jobs.id.size > MANY_JOBS else MOST_REPLICAS


def held_jobs(work: SiteWorkload) -> BoolArray:
    """Return the jobs that came after the warm-up and are not scored, but for later runs."""
    first = np.zeros(work.recorded_start.size, np.bool_)
    first[np.unique(np.array(work.job_ids, object).astype(str), return_index=True)[1]] = True
    held: BoolArray = (
        first & (work.recorded_start >= 0) & (work.jobs.pinned == NEVER) & ~work.scored
    )
    return held


class SiteSizes(Candidates):
    """The numbers of nodes of one type, in GPUs."""

    def __init__(self, terms: SiteTerms, engine: Engine) -> None:
        super().__init__(terms.nodes.gpus_per_node, engine)
        self.terms = terms
        self._least = terms.nodes.least(terms.site, terms.work.jobs) * self.step

    @property
    def targets(self) -> tuple[Target, ...]:
        """What a number of nodes must meet."""
        return self.terms.targets

    @property
    def confidence(self) -> Resampling | None:
        """How intervals are made; None for none."""
        return self.terms.confidence

    @property
    def rules(self) -> str:
        """The rules that are replayed."""
        return SITE_RULES

    @property
    def today(self) -> int:
        """GPUs of these nodes today."""
        return self.terms.nodes.count * self.step

    @property
    def least(self) -> int:
        """The smallest candidate that can hold the widest job."""
        return self._least

    @property
    def doublings(self) -> int:
        """How often `enough` is doubled before the search gives up."""
        return 1

    @property
    def where_enough(self) -> str:
        """What to say of the largest size tried where none meets a target."""
        return (
            f"{self.terms.nodes.name} GPUs, {MOST_TIMES_TODAY} times today's: limits or other "
            "nodes make jobs wait\n  next: a higher limit, or gpuplan whatif with other rules"
        )

    def enough(self) -> int:
        """Return a candidate above which the search need not look at first."""
        return max(MOST_TIMES_TODAY // 2 * self.today, self.least)

    def replayed(self, sizes: Sequence[int]) -> Iterable[SizedReplay]:
        """Return new replays, in the order of the sizes."""
        size = self.terms.work.jobs.id.size
        bytes_each = BYTES_PER_JOB * size
        return run_all(
            replay_nodes, sizes, shared=(self.terms,), engine=self.engine, bytes_each=bytes_each
        )


def fidelity_of_site(site: SiteCluster, config: SchedulerConfig, work: SiteWorkload) -> Fidelity:
    """Return how a replay of today under the site's rules compares with the log.

    The jobs that count, and their waits from eligible to the first start, are a calibration's.
    """
    run = _run(site, work.jobs, config)
    mask = scored_mask(work, run)
    waits = WaitPairs(run.wait[mask].astype(float), work.recorded_wait[mask].astype(float))
    gpus = sum(node.gpus for node in site.nodes)
    return fidelity_of(TodayReplay(SITE_RULES, gpus, waits.summary()))


def group_mask(work: SiteWorkload, group: tuple[str, str]) -> BoolArray:
    """Return the jobs of a group of a target, such as ``("account", "vision")``."""
    by, name = group
    mask: BoolArray = work.names(GROUP_OF.get(by, by)) == name
    return mask


def replay_nodes(gpus: int, terms: SiteTerms) -> SizedReplay:
    """Replay a site with so many GPUs of a type, each replica of the jobs.

    Raises:
        UsageError: the site cannot be replayed.
    """
    site = terms.nodes.on(terms.site, gpus // terms.nodes.gpus_per_node)
    work, by_replica = terms.work, []
    masks = [
        None if target.group is None else group_mask(work, target.group) for target in terms.targets
    ]
    for number in range(terms.replicas):
        config = shuffled(terms.config, number + 1)
        run = _run(site, terms.chance.applied(work.jobs, number), config)
        by_replica.append(_NodesReplica(run, site, terms, masks))
    values = tuple(
        float(np.mean([replica.values[at] for replica in by_replica]))
        for at in range(len(terms.targets))
    )
    waits = [replica.waits for replica in by_replica]
    judged = [replica.judged() for replica in by_replica]
    return SizedReplay(
        gpus=gpus,
        waits={name: float(np.mean([each[name] for each in waits])) for name in waits[0]},
        mean_slowdown=float(np.mean([replica.mean_slowdown for replica in by_replica])),
        utilization=float(np.mean([replica.utilization for replica in by_replica])),
        target_values=values,
        meets=all(t.is_met(value) for t, value in zip(terms.targets, values, strict=True)),
        groups=by_replica[0].groups(),
        **_joined([each for each in judged if each is not None]),
    )


class _NodesReplica:
    """What one replay shows of the jobs that count."""

    def __init__(
        self,
        run: SiteRun,
        site: SiteCluster,
        terms: SiteTerms,
        masks: Sequence[BoolArray | None],
    ) -> None:
        self.run, self.site, self.terms = run, site, terms
        self.mask = mask = scored_mask(terms.work, run) | terms.held
        waits = np.where(terms.held, terms.work.recorded_wait, run.wait)
        self.wait_s: FloatArray = waits[mask].astype(np.float64)
        run_s = np.maximum(run.jobs.runtime[mask], 1)
        self.slowdown: FloatArray = (self.wait_s + run_s) / run_s
        self.chosen = [None if group is None else group[mask] for group in masks]
        self.values = [
            target.value(self._values(target) if group is None else self._values(target)[group])
            for target, group in zip(terms.targets, self.chosen, strict=True)
        ]
        self.waits = distribution(self.wait_s, "wait", "s", PERCENTILES)
        self.mean_slowdown = float(self.slowdown.mean())

    def _values(self, target: Target) -> FloatArray:
        return self.slowdown if target.quantity == SLOWDOWN else self.wait_s

    @property
    def utilization(self) -> float:
        """GPU time of jobs over that of the nodes, first to last submission."""
        jobs, started = self.run.jobs, self.run.start >= 0
        begin, end = int(jobs.submit.min()), int(jobs.submit.max())
        ran = np.minimum(self.run.end, end) - np.maximum(self.run.start, begin)
        used = float((np.clip(ran, 0, None) * jobs.total_gpus)[started].sum())
        return used / max(1.0, (end - begin) * sum(node.gpus for node in self.site.nodes))

    def judged(self) -> Judgment | None:
        """Return what resamples of the jobs give; None without confidence."""
        if self.terms.confidence is None or self.wait_s.size < FEWEST_JOBS:
            return None
        excess = []
        for target, group in zip(self.terms.targets, self.chosen, strict=True):
            each = target.excess(self._values(target))
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


def _joined(judged: Sequence[Judgment]) -> dict[str, Any]:
    """Return what the resamples of all replicas give together."""
    if not judged:
        return {}

    def ends(pairs: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
        known = [pair for pair in pairs if pair is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    return {
        "met_share": float(np.mean([each.met_share for each in judged])),
        "tail": judged[0].tail,
        "mean_wait_interval": ends([each.mean_wait_interval for each in judged]),
        "p95_wait_interval": ends([each.p95_wait_interval for each in judged]),
    }


def _run(site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> SiteRun:
    try:
        return replay_site(site, jobs, config)
    except ValueError as error:
        raise UsageError(f"the site cannot be replayed: {error}") from error
