"""The jobs behind the job classes: when each came, of which class, with how much work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ClassArrivals:
    """The jobs that count, by submission; arrays of shape (n,).

    Attributes:
        submit_s: seconds after the first submission of the trace; ascending, >= 0.
        job_class: index of the class in `Workload.classes`.
        work_h: the job's own work, hours on one GPU; >= 0.
        gpus: GPUs it held when it was recorded, > 0; may be fractional.
        run_h: hours that it ran as recorded, NaN where that is not known; None where the jobs are
            not those of a log.
    """

    submit_s: FloatArray
    job_class: IntArray
    work_h: FloatArray
    gpus: FloatArray
    run_h: FloatArray | None = None

    def __post_init__(self) -> None:
        shape = self.submit_s.shape
        if len(shape) != 1 or not shape[0]:
            raise ValueError(f"arrivals need at least one job, got the shape {shape}")
        for name in ("job_class", "work_h", "gpus"):
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have the shape {shape} of submit_s")
        if self.run_h is not None and self.run_h.shape != shape:
            raise ValueError(f"run_h must have the shape {shape} of submit_s")
        if not (self.submit_s[0] >= 0 and np.all(np.diff(self.submit_s) >= 0)):
            raise ValueError("submit_s must ascend from 0 or later")
        if not (np.all(self.work_h >= 0) and np.all(self.gpus > 0) and np.all(self.job_class >= 0)):
            raise ValueError("work_h and job_class must be at least 0, gpus above 0")

    @property
    def size(self) -> int:
        """Number of jobs."""
        return self.submit_s.size

    def where(self, chosen: NDArray[np.bool_]) -> ClassArrivals:
        """Return the chosen jobs; ``chosen`` has the shape (n,)."""
        return ClassArrivals(
            submit_s=self.submit_s[chosen],
            job_class=self.job_class[chosen],
            work_h=self.work_h[chosen],
            gpus=self.gpus[chosen],
            run_h=None if self.run_h is None else self.run_h[chosen],
        )
