"""Baselines on the jobs of a study, each compared with the plan that rents the same GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.planner.elastic.replay import PlanReplay, ReplayResults
from gpuplan.planner.frontier.replay.search import BudgetSearch, objective_s
from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.registry import BASELINES, find_baseline

ALL = "all"
STANDING_NOTE = (
    "a baseline on a fixed cluster (equal, pollux) has its GPUs ready from the first job on, and "
    "may do slightly better where GPUs are plentiful: each job of a plan waits up to"
)
WEIGHTED_NOTE = (
    "the plans minimize the mean weighted by --weight, and baselines ignore it; savings are of "
    "the weighted mean"
)


@dataclass(frozen=True, slots=True)
class BaselinePoint:
    """A baseline at one value of its parameter, and the plan to compare it with.

    Attributes:
        baseline: its name.
        knob: the value of its parameter; null where it has none.
        knob_is: what this parameter is.
        weighted_mean_jct_s: mean completion time, each job counted by the weight of its class.
        planned: replay of the evaluated plan with the least mean completion time that rents no
            more GPUs; null where all rent more.
        planned_weighted_mean_jct_s: its weighted mean.
        planned_over_mean_jct: the plan's weighted mean completion time over the baseline's.
        replay: what became of the jobs.
    """

    baseline: str
    knob: float | None
    knob_is: str | None
    run: Inlined[ReplayResults]
    weighted_mean_jct_s: float
    planned: ReplayResults | None
    planned_weighted_mean_jct_s: float | None
    planned_over_mean_jct: float | None
    replay: Hidden[PlanReplay]

    @property
    def jct_saving(self) -> float | None:
        """Share of the (weighted) mean JCT that the plan saves, negative if it is slower."""
        return None if self.planned_over_mean_jct is None else 1 - self.planned_over_mean_jct


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Some baselines, a section of a study.

    Attributes:
        points: by baseline, in the requested order, and parameter.
        notes: what was left out, and caveats.
        weighted: whether plans minimize a weighted mean.
    """

    points: tuple[BaselinePoint, ...]
    notes: tuple[str, ...] = ()
    weighted: bool = False

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "baselines"

    def results(self) -> tuple[BaselinePoint, ...]:
        """Return one entry per baseline and value of its knob."""
        return self.points


def names_of(requested: Sequence[str]) -> tuple[str, ...]:
    """Return the requested baselines, each once. Raises `UsageError` on an unknown one."""
    names: list[str] = []
    for name in requested:
        names += BASELINES if name == ALL else [find_baseline(name).name]
    return tuple(dict.fromkeys(names))


def compare_baselines(
    study: FrontierStudy, names: Sequence[str], progress: Callable[[float], None] | None = None
) -> BaselineComparison:
    """Run baselines on the jobs of a study.

    Args:
        study: the jobs, the plans to compare with, and how GPUs are rented if that is not
            up to the baseline.
        names: of `gpuplan.planner.registry.BASELINES`.
        progress: called with the share done.

    Raises:
        ValueError: the study has no replays.
        UsageError: a baseline cannot run these classes.
    """
    cluster = study.cluster
    if cluster is None:
        raise ValueError("baselines are replayed, and this study has no replays")
    runs = [(name, knob) for name in names for knob in BASELINES[name].knobs(study.workload)]
    frontier = study.frontier
    low, high = frontier.min_budget, frontier.saturation_budget
    budget_search = BudgetSearch(study.workload, frontier.at_budget, low, high, cluster)
    points, left_out = [], []
    for position, (name, knob) in enumerate(runs):
        baseline = BASELINES[name]
        try:
            replay = baseline.run(study.workload, cluster, knob)
        except InfeasibleError as error:
            at = f" at {knob:g} {baseline.knob}" if baseline.knob else ""
            why = str(error).partition("\n")[0]
            left_out.append(f"baseline {name}{at} left out: {why}")
            continue
        best = budget_search.best_within(replay.rented_gpus)
        planned_s = None if best is None else best.weighted_mean_jct_s
        mean_s = objective_s(study.workload, replay)
        point = BaselinePoint(
            baseline=name,
            knob=knob if baseline.knob else None,
            knob_is=baseline.knob or None,
            run=replay.results(),
            weighted_mean_jct_s=mean_s,
            planned=None if best is None else budget_search.replay(best).results(),
            planned_weighted_mean_jct_s=planned_s,
            planned_over_mean_jct=None if planned_s is None else planned_s / mean_s,
            replay=replay,
        )
        points.append(point)
        if progress is not None:
            progress((position + 1) / len(runs))
    notes = left_out
    if frontier.is_weighted:
        notes = [*notes, WEIGHTED_NOTE]
    if any(BASELINES[name].is_standing for name in names) and cluster.provision_s > 0:
        notes = [*notes, f"{STANDING_NOTE} {cluster.provision_s:g} s for its nodes"]
    return BaselineComparison(tuple(points), tuple(notes), frontier.is_weighted)
