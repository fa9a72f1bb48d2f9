"""The widths that jobs follow, epoch by epoch, and their run times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.elastic.kernel import Paths
from gpuplan.simkit.time import HOUR_S, to_micros


@dataclass(frozen=True, slots=True)
class WidthPath:
    """The widths that some jobs of a class follow.

    Attributes:
        job_class: index of the class in `Workload.classes`.
        widths: GPUs in each epoch, > 0; a fraction of a GPU holds, and runs on, a whole one.
        gpu_type: type of the GPUs; None where the class has candidates of one type only.
    """

    job_class: int
    widths: tuple[float, ...]
    gpu_type: str | None = None

    @property
    def gpus(self) -> IntArray:
        """Whole GPUs held in each epoch; shape (J,)."""
        return np.array([ceil(width) for width in self.widths], np.int64)


def time_per_work(job_class: JobClass, gpus: IntArray, gpu_type: str | None = None) -> FloatArray:
    """Return the time in each epoch at each width per time of the whole job on one GPU.

    Speedups between two widths at which they are known (the candidates and those that jobs were
    recorded on) are interpolated; beyond the widest they are those of the widest, and below the
    narrowest they are in proportion.

    Args:
        job_class: the class.
        gpus: widths; shape (V,).
        gpu_type: type of the GPUs, where the class has candidates of several.

    Returns:
        An array of shape (J, V).
    """
    widths, speedup = _all_widths(job_class, gpu_type)
    total, epochs = job_class.work_h.sum(), job_class.work_h.size
    shares = job_class.work_h / total if total else np.full(epochs, 1 / epochs)
    at = np.stack([np.interp(gpus, widths, row) for row in speedup])
    result: FloatArray = shares[:, None] / (at * np.minimum(1.0, gpus / widths[0]))
    return result


def _all_widths(job_class: JobClass, gpu_type: str | None) -> tuple[FloatArray, FloatArray]:
    """Return all widths at which the speedup is known, ascending, (V,), and it there, (J, V)."""
    widths, speedup = _candidates(job_class, gpu_type)
    if job_class.other_widths is None or job_class.other_speedup is None:
        return widths, speedup
    widths = np.append(widths, job_class.other_widths)
    order = np.argsort(widths)
    return widths[order], np.append(speedup, job_class.other_speedup, axis=1)[:, order]


def _candidates(job_class: JobClass, gpu_type: str | None) -> tuple[FloatArray, FloatArray]:
    """Return the candidate widths of one GPU type, (V,), and the speedups there, (J, V)."""
    if gpu_type is None and len(set(job_class.gpu_types)) < 2:
        return job_class.widths, job_class.speedup
    of_type = np.array([candidate == gpu_type for candidate in job_class.gpu_types], np.bool_)
    if not of_type.any():
        raise ValueError(f"{job_class.name}: no candidate is of the GPU type {gpu_type}")
    return job_class.widths[of_type], job_class.speedup[:, of_type]


def epoch_hours(job_class: JobClass, path: WidthPath) -> FloatArray:
    """Return the hours of a job of mean size in each epoch, starts and changes included; (J,)."""
    gpus = path.gpus
    times = time_per_work(job_class, gpus, path.gpu_type)
    changes = np.append(True, gpus[1:] != gpus[:-1])
    hours: FloatArray = times.diagonal() * job_class.work_h.sum() + job_class.rescale_h * changes
    return hours


def path_tables(classes: Sequence[JobClass], paths: Sequence[WidthPath], *, narrow: bool) -> Paths:
    """Return paths as the kernel takes them: padded tables of widths and times.

    Args:
        classes: the job classes.
        paths: their paths.
        narrow: whether jobs may start on any candidate width narrower than the widest of
            their path.

    Raises:
        ValueError: a path does not have one width for each epoch of its class.
    """
    menus = []
    for path in paths:
        job_class, gpus = classes[path.job_class], path.gpus
        if gpus.size != job_class.work_h.size:
            raise ValueError(f"{job_class.name}: a path needs a width for each epoch, got {path}")
        narrower = np.ceil(_candidates(job_class, path.gpu_type)[0]) if narrow else np.zeros(0)
        menus.append(np.union1d(gpus, narrower[narrower <= gpus.max()].astype(np.int64)))
    most, size = max(len(p.widths) for p in paths), max(menu.size for menu in menus)
    width = np.ones((len(paths), size), np.int64)
    target = np.zeros((len(paths), most), np.int64)
    times = np.zeros((len(paths), most, size))
    for row, (path, menu) in enumerate(zip(paths, menus, strict=True)):
        epochs = len(path.widths)
        width[row, : menu.size] = menu
        target[row, :epochs] = np.searchsorted(menu, path.gpus)
        times[row, :epochs, : menu.size] = time_per_work(
            classes[path.job_class], menu, path.gpu_type
        )
    of_path = [classes[path.job_class] for path in paths]
    return Paths(
        width=width,
        target=target,
        time_per_work=times,
        epochs=np.array([c.work_h.size for c in of_path], np.int64),
        rescale_us=to_micros([c.rescale_h * HOUR_S for c in of_path]),
    )
