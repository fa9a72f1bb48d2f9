"""Replays of plans with no more GPUs at once than the log ever held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.candidates import within_cluster
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import ClassWorkload, workload_of
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.metrics import percentile


@dataclass(frozen=True, slots=True)
class PeakReplay:
    """The replay of a budget with no more GPUs at once than the log ever held.

    Attributes:
        today_peak_gpus: most GPUs held at once in the log.
        mean_jct_s: mean completion time.
        p95_jct_s: completion time that 95% of the jobs keep.
        rented_gpus: rented on average.
        peak_gpus: most GPUs rented at once.
    """

    today_peak_gpus: float
    mean_jct_s: float
    p95_jct_s: float
    rented_gpus: float
    peak_gpus: int


@dataclass(slots=True)
class TodaysPeak:
    """Replays with no more GPUs at once than the log ever held.

    Attributes:
        trace, speedup, choices: as the study has them, to plan again without wider jobs.
        workload: the jobs as planned.
        cluster: how GPUs are rented.
        today: what the log shows.
    """

    trace: Trace
    speedup: SpeedupModel
    choices: ClassOptions
    workload: ClassWorkload
    cluster: RentedCluster
    today: Today
    _narrow: tuple[ClassWorkload, Frontier] | None = None
    _is_narrowed: bool = False

    @property
    def gpus(self) -> int:
        """Most GPUs at once, whole nodes."""
        each = self.cluster.node_gpus
        peak = each * ceil(self.today.usage.peak_gpus / each)
        return peak if self.cluster.max_gpus is None else min(peak, self.cluster.max_gpus)

    def replay(self, plan: Plan, unlimited: PlanReplay) -> PlanReplay | None:
        """Return a replay at the budget of a plan; None if no plan fits within the peak.

        A plan with a job wider than the peak is made again without such widths.
        """
        if unlimited.peak_gpus <= self.gpus:
            return unlimited
        limited = replace(self.cluster, max_gpus=self.gpus)
        try:
            return replay_plan(self.workload, plan, limited)
        except InfeasibleError:
            pass
        narrow = self._narrowed(limited)
        if narrow is None:
            return None
        workload, frontier = narrow
        try:
            return replay_plan(workload, frontier.at_budget(plan.budget), limited)
        except InfeasibleError:
            return None

    def shown(self, replay: PlanReplay | None) -> PeakReplay | None:
        """Return the measures of a replay within the peak."""
        if replay is None:
            return None
        return PeakReplay(
            today_peak_gpus=self.today.usage.peak_gpus,
            mean_jct_s=replay.mean_jct_s,
            p95_jct_s=percentile(replay.jct_s, 95),
            rented_gpus=replay.rented_gpus,
            peak_gpus=replay.peak_gpus,
        )

    def _narrowed(self, limited: RentedCluster) -> tuple[ClassWorkload, Frontier] | None:
        """Return the frontier without wider jobs, solved once; None if there is none."""
        if not self._is_narrowed:
            self._is_narrowed = True
            choices = within_cluster(self.choices, self.speedup, limited)
            try:
                workload = workload_of(self.trace, self.speedup, choices)
                self._narrow = workload, solve_frontier(workload.classes)
            except (InfeasibleError, UsageError):  # a cap on time, or no width that narrow
                self._narrow = None
        return self._narrow
