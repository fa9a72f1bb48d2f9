"""What a method cannot do, told before it is tried."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.analysis.errors import UsageError
from gpuplan.planner.frontier.model.exact import JobClass


def refuse_caps(classes: Sequence[JobClass], method: str) -> None:
    """Raise `UsageError` where a class has a cap on its mean time, which only ``exact`` keeps."""
    capped = [c.name for c in classes if c.cap_h < float("inf")]
    if capped:
        raise UsageError(
            f"--method {method} keeps no cap on mean times, and {capped[0]} has one\n"
            "  next: --method exact, or leave out --require"
        )


def refuse_types(classes: Sequence[JobClass], method: str) -> None:
    """Raise `UsageError` where a class may choose among several GPU types."""
    if any(len(set(c.gpu_types)) > 1 for c in classes):
        raise UsageError(
            f"--method {method} plans one GPU type, and here are several\n  next: --method exact"
        )
