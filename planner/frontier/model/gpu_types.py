"""Several GPU types: the classes of a trace with the candidates of all types, priced in dollars.

Source: BOA, Appendix E, with rescaling. A candidate is a type and a width; an hour of it costs
price x width, and a change of type is a rescale like any other. The solver is that of one type
(`gpuplan.planner.frontier.model.exact`); only its candidates are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.candidates import candidate_widths
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload, workload_of
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.speedup.model import SpeedupModel


def workloads_by_type(
    trace: Trace,
    speedup: SpeedupModel,
    choices: ClassOptions | None = None,
    *,
    recorded_on: str | None = None,
) -> dict[str, ClassWorkload]:
    """Return the workload of a trace as it would be on each GPU type alone.

    Args:
        trace: the jobs.
        speedup: a model that knows GPU types.
        choices: how the trace becomes a workload.
        recorded_on: the type the jobs were recorded on; None for the model's first.

    Returns:
        Workloads by type, that of ``recorded_on`` first. They differ in work, speedups and
        candidate widths; a class is missing where its speed on the type is not known.

    Raises:
        UsageError: the model knows no GPU types, or not that one.
        InputError: see `workload_of`.
    """
    if not speedup.types:
        raise UsageError(f"{speedup.name} has no GPU types: give each --gpu a speed")
    choices = choices or ClassOptions()
    first = recorded_on or next(iter(speedup.types))
    recorded = speedup.on(first)
    reference = workload_of(trace, recorded, choices)
    workloads = {first: reference}
    for gpu_type, model in speedup.types.items():
        if gpu_type == first:
            continue
        classes = []
        for job_class in reference.classes:
            name = job_class.log_class
            profile, recorded_profile = model.of(name), recorded.of(name)
            if profile is None or recorded_profile is None:
                continue
            # As wide as on the type before: a bound on run times may ask for more than usual.
            widest = float(job_class.widths.max())
            wide = choices if choices.slower is None else choices.up_to(name, widest)
            widths = candidate_widths(profile, wide, name)
            classes.append(
                replace(
                    job_class,
                    work_h=job_class.work_h / profile.speed_over(recorded_profile),
                    widths=widths,
                    speedup=np.stack([epoch.at(widths) for epoch in profile.epochs]),
                    other_widths=None,
                    other_speedup=None,
                )
            )
        workloads[gpu_type] = replace(
            reference, classes=tuple(classes), notes=model.notes, arrivals=None
        )  # the jobs belong to the type they were recorded on and refer to its classes
    return workloads


def classes_on_types(
    workloads: Mapping[str, ClassWorkload], prices: Mapping[str, float]
) -> tuple[JobClass, ...]:
    """Return the classes of the first workload with the candidates of all types.

    Speedups are over one GPU of the first type: work on it / time on the candidate.

    Args:
        workloads: by GPU type; classes of one name are the same jobs, with the work and speedups
            that they have on that type.
        prices: dollars per GPU-hour of each of these types; > 0.

    Raises:
        UsageError: a price is missing or not above 0.
        ValueError: a class has other epochs or another rescaling time on another type.
    """
    for gpu_type in workloads:
        price = prices.get(gpu_type)
        if price is None or not 0 < price < float("inf"):
            what = "has no price" if price is None else f"costs ${price:g}/h"
            raise UsageError(
                f"GPU type {gpu_type!r} {what}; each needs a price above 0 dollars per GPU-hour"
            )
    by_type = {
        gpu_type: {job_class.name: job_class for job_class in workload.classes}
        for gpu_type, workload in workloads.items()
    }
    return tuple(
        _joined({t: classes[c.name] for t, classes in by_type.items() if c.name in classes}, prices)
        for c in next(iter(workloads.values())).classes
    )


def solve_types(workloads: Mapping[str, ClassWorkload], prices: Mapping[str, float]) -> Frontier:
    """Solve the allocation over several GPU types at every budget in dollars an hour.

    Raises:
        UsageError, ValueError: see `classes_on_types`.
        InfeasibleError: a cap on the time of a class cannot be met on any type.
    """
    classes = classes_on_types(workloads, prices)
    return solve_frontier(classes, prices={name: prices[name] for name in workloads})


def _joined(by_type: Mapping[str, JobClass], prices: Mapping[str, float]) -> JobClass:
    """Return one class with the candidates it has on every type."""
    first = next(iter(by_type.values()))
    speedups = []
    for gpu_type, job_class in by_type.items():
        if (job_class.work_h.size, job_class.rescale_h) != (first.work_h.size, first.rescale_h):
            raise ValueError(f"{first.name}: other epochs or rescaling times on {gpu_type}")
        # An epoch without work takes no time anywhere, whatever its speed.
        faster = np.divide(
            first.work_h,
            job_class.work_h,
            out=np.ones_like(first.work_h),
            where=job_class.work_h > 0,
        )
        speedups.append(faster[:, None] * job_class.speedup)
    return replace(
        first,
        widths=np.concatenate([c.widths for c in by_type.values()]),
        speedup=np.concatenate(speedups, axis=1),
        cost_per_h=np.concatenate([prices[t] * c.widths for t, c in by_type.items()]),
        gpu_types=tuple(t for t, c in by_type.items() for _ in range(c.widths.size)),
        other_widths=first.other_widths if len(by_type) == 1 else None,
        other_speedup=first.other_speedup if len(by_type) == 1 else None,
    )
