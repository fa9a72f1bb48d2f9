"""The results of ``gpuplan whatif``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.planner.twin.validate import ChangeValidation
from gpuplan.planner.twin.whatif import ChangeEffect


@dataclass(frozen=True, slots=True)
class WaitGrowth:
    """Growth of the waits of a group, the greatest over the changes; for gates.

    Attributes:
        name: the group; ``any team`` is the greatest of all groups but all jobs.
        mean_wait_growth: effect on the mean wait over the wait of today, at least 60 s; 0 within
            the error.
        p95_wait_growth: the same of the P95 wait.
    """

    name: str
    mean_wait_growth: float
    p95_wait_growth: float


@dataclass(frozen=True, slots=True)
class CalibratedError:
    """How well the rules explain the waits of the log that they were calibrated on.

    Attributes:
        within: jobs replayed within 5 minutes or 20% of their recorded wait, of 1.
        mae_s: mean absolute error of the waits.
    """

    within: float | None
    mae_s: float | None


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """What changes do to waits.

    Attributes:
        level: the rules that are replayed.
        by: what groups are.
        base_rejected: jobs that never start under the rules of today either, by reason.
        changes: one entry per change, in their order.
        growth: growth of waits by group.
        calibration: the error of the calibration.
    """

    level: str
    by: str
    base_rejected: dict[str, int]
    changes: tuple[ChangeEffect, ...]
    growth: tuple[WaitGrowth, ...]
    calibration: CalibratedError


@dataclass(frozen=True, slots=True)
class ValidationResults:
    """What a change that happened did to waits.

    Attributes:
        validation: predicted and recorded effects.
    """

    validation: ChangeValidation
