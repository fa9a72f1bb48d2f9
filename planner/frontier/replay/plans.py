"""Run the jobs of a workload at the widths of a plan, on rented GPUs of one type or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import WidthPath
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay, jobs_of, replay_paths
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.simkit.arrays import IntArray, distinct


def replay_plan(
    workload: ClassWorkload,
    plan: Plan,
    cluster: RentedCluster | None = None,
    *,
    rounded: bool = False,
) -> PlanReplay:
    """Run the jobs of a workload at the widths of a plan.

    Job m = 0, 1, ... of a class of which a share p takes another path does so where
    floor((m + 1) p) > floor(m p): shares stay within one job of p at all times.

    Args:
        workload: the jobs, as the plan was made for.
        plan: the widths, by `Frontier.at_budget` or another method.
        cluster: how GPUs are rented.
        rounded: whether to follow the plan without a split.

    Raises:
        InfeasibleError: a width above ``cluster.max_gpus``.
        UsageError: the plan uses several GPU types; `replay_types` takes a cluster for each.
    """
    paths, path_of = assign_paths(workload, plan, rounded=rounded)
    types = sorted({str(path.gpu_type) for path in paths})
    if len(types) > 1:
        raise UsageError(
            f"the plan rents {', '.join(types)}, and one cluster has GPUs of one type\n"
            "  next: replay it on a cluster for each"
        )
    return replay_paths(workload, paths, path_of, cluster)


def replay_types(
    workload: ClassWorkload,
    plan: Plan,
    clusters: Mapping[str, RentedCluster],
    *,
    rounded: bool = False,
) -> dict[str, PlanReplay]:
    """Run a plan over several GPU types, each on a cluster of its own, as `replay_plan` does.

    Args:
        workload: the jobs; its classes have the candidates of all types, as those of
            `classes_on_types`.
        plan: the widths.
        clusters: how the GPUs of each type are rented; a type that is missing, by default. The
            type has no name where the classes have candidates of one only.
        rounded: whether to follow the plan without a split.

    Returns:
        The replay of the jobs on each type that has any, by type.

    Raises:
        InfeasibleError: a width above ``max_gpus`` of its cluster.
        UsageError: a job changes its GPU type on the way.
    """
    arrivals = jobs_of(workload)
    paths, path_of = assign_paths(workload, plan, rounded=rounded)
    type_of_path = [path.gpu_type or "" for path in paths]
    if len(set(type_of_path)) == 1:
        (gpu_type,) = set(type_of_path)
        return {gpu_type: replay_paths(workload, paths, path_of, clusters.get(gpu_type))}
    type_of = np.array(type_of_path)[path_of]
    return {
        gpu_type: replay_paths(
            replace(workload, arrivals=arrivals.where(type_of == gpu_type)),
            paths,
            path_of[type_of == gpu_type],
            clusters.get(gpu_type),
        )
        for gpu_type in distinct(type_of).tolist()
    }


def assign_paths(
    workload: ClassWorkload, plan: Plan, *, rounded: bool = False
) -> tuple[list[WidthPath], IntArray]:
    """Return the paths of a plan and the index of the path of each job; see `replay_plan`."""
    arrivals = jobs_of(workload)
    paths = plan_paths(workload.classes, plan, rounded=rounded)
    path_of = np.zeros(arrivals.size, np.int64)
    by_class = np.argsort(arrivals.job_class, kind="stable")
    counts = np.bincount(arrivals.job_class, minlength=len(workload.classes))
    first = np.append(0, np.cumsum(counts)).tolist()
    for index, (path, share) in enumerate(paths):
        jobs = by_class[first[path.job_class] : first[path.job_class + 1]]
        if index and paths[index - 1][0].job_class == path.job_class:
            jobs = jobs[np.diff(np.floor(np.arange(jobs.size + 1) * share)) > 0]
        path_of[jobs] = index
    return [path for path, _ in paths], path_of


def plan_paths(
    classes: Sequence[JobClass], plan: Plan, *, rounded: bool = False
) -> list[tuple[WidthPath, float]]:
    """Return the paths of a plan, each with the share of its class' jobs, class by class.

    Args:
        classes: those that the plan was made for.
        plan: the widths.
        rounded: whether to follow the plan without a split.

    Raises:
        UsageError: a job changes its GPU type on the way.
    """
    number = {c.name: index for index, c in enumerate(classes)}
    paths = []
    for part in sorted(plan.classes, key=lambda c: number[c.job_class]):
        for share, rows in part.paths:
            if rounded and not all(row.rounded for row in rows):
                continue
            types = {row.gpu_type for row in rows}
            if len(types) > 1:
                raise UsageError(
                    f"jobs of class {part.job_class!r} change from one GPU type to another on "
                    "their way, which a replay does not do\n"
                    "  next: replay a plan in which every job keeps to one type"
                )
            widths = tuple(row.width for row in rows)
            path = WidthPath(number[part.job_class], widths, types.pop())
            paths.append((path, 1.0 if rounded else share))
    return paths
