"""The jobs of a trace as arrays, the input of every simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import FOREVER, to_micros


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs sorted by submission; every array has shape (n,).

    Attributes:
        submit_us: microseconds after the first submission; ascending, the first is 0 or more.
        service_us: run time without any overhead, microseconds; >= 0.
        gpus: workers the job holds together (a gang); >= 1.
        deadline_us: soft deadline, microseconds after the first submission.
        billed_gpus: GPUs that a provider of fractions bills, 0 < ``billed_gpus`` <= ``gpus``.
        checkpoint_us, restore_us: time to save and to load the job, microseconds, >= 0; None leaves
            both to the policy.
    """

    submit_us: IntArray
    service_us: IntArray
    gpus: IntArray
    deadline_us: IntArray
    billed_gpus: FloatArray
    checkpoint_us: IntArray | None = None
    restore_us: IntArray | None = None

    def __post_init__(self) -> None:
        shape = self.submit_us.shape
        overheads = [
            name for name in ("checkpoint_us", "restore_us") if getattr(self, name) is not None
        ]
        for name in ("submit_us", "service_us", "gpus", "deadline_us", "billed_gpus", *overheads):
            array = getattr(self, name)
            kind = np.float64 if name == "billed_gpus" else np.int64
            if array.shape != shape or array.ndim != 1 or array.dtype != kind:
                actual = f"{array.dtype} {array.shape}"
                raise ValueError(f"{name} must be {kind.__name__} of shape {shape}, got {actual}")
        if self.submit_us.size == 0:
            raise ValueError("a workload needs at least one job")
        if self.submit_us[0] < 0 or (np.diff(self.submit_us) < 0).any():
            raise ValueError("submit_us must ascend from 0 or later")
        for name in ("service_us", *overheads):
            if (getattr(self, name) < 0).any():
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name).min()}")
        if (self.gpus < 1).any():
            raise ValueError(f"gpus must be >= 1, got {self.gpus.min()}")
        if not ((self.billed_gpus > 0) & (self.billed_gpus <= self.gpus)).all():
            raise ValueError("billed_gpus must be above 0 and at most gpus")
        times = [self.submit_us, self.service_us, abs(self.deadline_us)]
        if (
            max(array.max() for array in (*times, *(getattr(self, name) for name in overheads)))
            > FOREVER
        ):
            raise ValueError(f"times must stay within {FOREVER} microseconds")

    @property
    def size(self) -> int:
        """Number of jobs."""
        return self.submit_us.size

    def overheads_us(self, checkpoint_s: float, restore_s: float) -> tuple[IntArray, IntArray]:
        """Return the time to save and to load each job: its own, or the default."""
        return (
            np.full(self.size, to_micros(checkpoint_s))
            if self.checkpoint_us is None
            else self.checkpoint_us,
            np.full(self.size, to_micros(restore_s))
            if self.restore_us is None
            else self.restore_us,
        )

    @classmethod
    def from_seconds(
        cls, submit_s: Any, service_s: Any, gpus: Any, deadline_s: Any, billed_gpus: Any = None
    ) -> Workload:
        """Return the workload of times in seconds, rounded to the microsecond.

        ``deadline_s`` is seconds after the first submission, like ``submit_s``; ``billed_gpus`` is
        ``gpus`` unless given.
        """
        return cls(
            submit_us=to_micros(submit_s),
            service_us=to_micros(service_s),
            gpus=np.asarray(gpus, np.int64),
            deadline_us=to_micros(deadline_s),
            billed_gpus=np.asarray(gpus if billed_gpus is None else billed_gpus, np.float64),
        )
