"""Who wastes GPUs, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.waste.series import MetricCoverage
from gpuplan.planner.waste.clock import WasteClock
from gpuplan.planner.waste.energy import Energy
from gpuplan.planner.waste.results import Counterfactual
from gpuplan.planner.waste.right_size import RightSize, RightSizeCoverage
from gpuplan.planner.waste.tally import WasteKind, WasteRow


@dataclass(frozen=True, slots=True)
class LongLimits:
    """Time limits over 3 times the run time: they cost waits, not GPU-hours.

    Attributes:
        jobs: with such a limit.
        share: of the jobs that have a limit and ran; null without any.
        gpu_h: GPU-hours that these limits ask for beyond the run times.
    """

    jobs: int
    share: float | None
    gpu_h: float


@dataclass(frozen=True, slots=True)
class WasteSource:
    """Where what is known comes from.

    Attributes:
        name: of the source, such as ``jobstats``.
        jobs: of which it tells.
    """

    name: str
    jobs: int


@dataclass(frozen=True, slots=True)
class WasteResults:
    """Who wastes GPUs.

    Attributes:
        idle_gpu_h: GPU-hours in which GPUs did nothing: the kinds ``idle``, ``idle_ends`` and
            ``partly_idle`` together.
        share: of the GPU-hours whose use is known; null where none is.
        idle_gpu_h_share: the same, for gates.
        idle_gpu_h_per_month: in a month of 730.5 hours.
        usd: what they cost in the log; null without a price, or where no use is known.
        usd_per_month: the same in a month.
        gpu_h: GPU-hours that jobs held.
        unknown_gpu_h: of them, those without figures of use, failed ones too.
        unknown_jobs: jobs with any of these.
        known_share: share of the GPU-hours of which something is known.
        jobs: that held GPUs.
        window_s: first submission to last submission or end.
        kinds: of waste, each GPU-hour in one, then the unknown.
        users, groups, classes, partitions: rows by each of these; empty where the log names none.
        long_limits: limits over 3 times the run time.
        sources: of what is known.
        metrics: what ``--metrics`` cover; null without them.
        right_size: what less would do for jobs; empty where no memory is known.
        right_size_coverage: of how many jobs it can be told; null where no memory is known.
        energy: of jobs; null where no power was measured.
        clock: when GPUs did nothing; null where the log records no waits, or none did.
        counterfactual: the waits without the waste; null where there is nothing to change, or it
            is not replayed.
        zone: of local times.
    """

    idle_gpu_h: float
    share: float | None
    idle_gpu_h_share: float | None
    idle_gpu_h_per_month: float
    usd: float | None
    usd_per_month: float | None
    gpu_h: float
    unknown_gpu_h: float
    unknown_jobs: int
    known_share: float
    jobs: int
    window_s: float
    kinds: tuple[WasteKind, ...]
    users: tuple[WasteRow, ...]
    groups: tuple[WasteRow, ...]
    classes: tuple[WasteRow, ...]
    partitions: tuple[WasteRow, ...]
    long_limits: LongLimits
    sources: tuple[WasteSource, ...]
    metrics: MetricCoverage | None
    right_size: tuple[RightSize, ...]
    right_size_coverage: RightSizeCoverage | None
    energy: Energy | None
    clock: WasteClock | None
    counterfactual: Counterfactual | None
    zone: Hidden[str] = "UTC"
