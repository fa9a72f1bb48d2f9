"""The widths that jobs follow, epoch by epoch, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuplan.analysis.errors import UsageError
from gpuplan.planner.boa.arrivals import FloatArray, IntArray
from gpuplan.planner.boa.frontier import JobClass
from gpuplan.planner.boa.plan import ClassPlan, Plan
from gpuplan.simkit.boa.kernel import Paths
from gpuplan.simkit.workload import to_micros

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class WidthPath:
    """The widths that some jobs of a class follow.

    Attributes:
        job_class: index of the class in `Workload.classes`.
        widths: GPUs in each epoch, > 0; a fraction of a GPU holds, and runs on, a whole one.
    """

    job_class: int
    widths: tuple[float, ...]

    @property
    def gpus(self) -> IntArray:
        """Whole GPUs held in each epoch; shape (J,)."""
        return np.array([ceil(width) for width in self.widths], np.int64)


def plan_paths(
    classes: Sequence[JobClass], plan: Plan, *, rounded: bool = False
) -> list[tuple[WidthPath, float]]:
    """Return the paths of a plan, each with the share of its class' jobs, class by class.

    Args:
        classes: those that the plan was made for.
        plan: the widths.
        rounded: whether to follow the plan without a split.
    """
    plans = {c.job_class: c for c in plan.classes}
    paths: list[tuple[WidthPath, float]] = []
    for number, job_class in enumerate(classes):
        widths, others, share = _split(plans[job_class.name])
        share = 0.0 if rounded else share
        paths.append((WidthPath(number, widths), 1.0 - share))
        if share:
            paths.append((WidthPath(number, others), share))
    return paths


def _split(plan: ClassPlan) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return the widths of the plan without a split, the others, and the share of those."""
    widths = {a.epoch: a.width for a in plan.widths if a.rounded}
    others, share = dict(widths), 0.0
    for a in plan.widths:
        if not a.rounded:
            others[a.epoch], share = a.width, a.share
    epochs = range(len(widths))
    return tuple(widths[j] for j in epochs), tuple(others[j] for j in epochs), share


def time_per_work(job_class: JobClass, gpus: IntArray) -> FloatArray:
    """Return the time in each epoch at each width per time of the whole job on one GPU.

    Speedups between two candidate widths are interpolated; beyond the widest they are those of the
    widest, and below the narrowest they are in proportion.

    Args:
        job_class: the class, with candidates of one GPU type.
        gpus: widths; shape (V,).

    Returns:
        An array of shape (J, V).

    Raises:
        UsageError: the class has candidates of several GPU types.
    """
    if len(set(job_class.gpu_types)) > 1:
        raise UsageError(
            f"class {job_class.name!r} has widths of several GPU types, and a replay has one "
            "cluster of one type\n  next: plan for one GPU type to see its replay"
        )
    total, epochs = job_class.work_h.sum(), job_class.work_h.size
    shares = job_class.work_h / total if total else np.full(epochs, 1 / epochs)
    narrow = np.minimum(1.0, gpus / job_class.widths[0])
    speedup = np.stack([np.interp(gpus, job_class.widths, row) for row in job_class.speedup])
    result: FloatArray = shares[:, None] / (speedup * narrow)
    return result


def epoch_hours(job_class: JobClass, path: WidthPath) -> FloatArray:
    """Return the hours of a job of mean size in each epoch, starts and changes included; (J,)."""
    gpus = path.gpus
    run = time_per_work(job_class, gpus).diagonal() * job_class.work_h.sum()
    changes = np.append(True, gpus[1:] != gpus[:-1])
    hours: FloatArray = run + job_class.rescale_h * changes
    return hours


def path_tables(classes: Sequence[JobClass], paths: Sequence[WidthPath], *, squeeze: bool) -> Paths:
    """Return paths as the kernel takes them: padded tables of widths and times.

    Args:
        classes: the job classes.
        paths: their paths.
        squeeze: whether jobs may start on any candidate width that is narrower than the widest of
            their path.

    Raises:
        UsageError: a class has candidates of several GPU types.
        ValueError: a path does not have one width for each epoch of its class.
    """
    menus = []
    for path in paths:
        job_class, gpus = classes[path.job_class], path.gpus
        if gpus.size != job_class.work_h.size:
            raise ValueError(f"{job_class.name}: a path needs a width for each epoch, got {path}")
        also = np.ceil(job_class.widths[job_class.widths <= gpus.max()]) if squeeze else ()
        menus.append(np.union1d(gpus, np.array(also, np.int64)))
    most, size = max(len(p.widths) for p in paths), max(menu.size for menu in menus)
    width = np.ones((len(paths), size), np.int64)
    target = np.zeros((len(paths), most), np.int64)
    times = np.zeros((len(paths), most, size))
    for row, (path, menu) in enumerate(zip(paths, menus, strict=True)):
        epochs = len(path.widths)
        width[row, : menu.size] = menu
        target[row, :epochs] = np.searchsorted(menu, path.gpus)
        times[row, :epochs, : menu.size] = time_per_work(classes[path.job_class], menu)
    of_path = [classes[path.job_class] for path in paths]
    return Paths(
        width=width,
        target=target,
        time_per_work=times,
        epochs=np.array([c.work_h.size for c in of_path], np.int64),
        rescale_us=to_micros([c.rescale_h * HOUR_S for c in of_path]),
    )
