"""What ``gpuplan size`` is asked: the jobs, the waits accepted, the sizes to show."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from msgspec import UNSET

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.deadlines import check_factor
from gpuplan.planner.runs.group_waits import check_by
from gpuplan.planner.sizing.targets import Target, whole_multiple
from gpuplan.planner.studies.size_results import SizeParameters
from gpuplan.simkit.cluster_shape import ClusterShape

MOST_GROWTH = 100.0


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes from ``low`` to ``high`` GPUs in ``count`` equal steps."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """Which jobs to find a size for, and what it must meet.

    Attributes:
        trace: a canonical trace.
        policy: the scheduler with its settings, but for its size.
        jobs: which jobs.
        targets: what the size must meet; may be empty where there are ``gpus``.
        gpus: sizes of the curve, or a range of them; None for sizes around the one found.
        shape: today's cluster, and the GPUs of a node; None where not given.
        step: candidates are its multiples; None for whole nodes, else every number.
        growth: of arrivals; 0.2 divides the times between submissions by 1.2.
        prices: what GPUs cost; the usual price of the policies where it is empty.
        commit, on_demand: prices to choose a commitment by; both or neither.
        level: confidence of the intervals, percent; None for none.
        resamples: behind them.
        deadline, deadline_factor, include_running: as every replay takes them.
        by: what waits are split by, one or two of `gpuplan.analysis.history.jobs.BY`.
        engine: where the replays run; the result does not depend on it.
    """

    trace: Path
    policy: PolicySpec
    jobs: Selection = field(default_factory=Selection)
    targets: tuple[Target, ...] = ()
    gpus: tuple[int, ...] | SizeRange | None = None
    shape: ClusterShape | None = None
    step: int | None = None
    growth: float = 0.0
    prices: PriceRequest = field(default_factory=PriceRequest)
    commit: PriceRequest = field(default_factory=PriceRequest)
    on_demand: PriceRequest = field(default_factory=PriceRequest)
    level: float | None = 90.0
    resamples: int = 200
    deadline: str | None = None
    deadline_factor: tuple[float, float] | None = None
    include_running: bool = False
    by: tuple[str, ...] = ()
    engine: Engine = field(default=THREADS, compare=False)

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads."""
        return (self.trace, self.prices.prices)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    @property
    def replays(self) -> bool:
        """Whether sizes are replayed; a commitment alone needs no replay."""
        return bool(self.targets) or self.gpus is not None

    def check(self) -> None:
        """Check everything but the trace. Raises `UsageError`."""
        check_by(self.by)
        check_factor(self.deadline, self.deadline_factor)
        if "cluster" not in find_policy(self.policy.policy).settings:
            raise UsageError(
                f"--policy {self.policy.policy}: it rents its GPUs and has no size\n"
                "  next: a policy of one cluster, such as first-fit (gpuplan list policies)"
            )
        if not self.replays and not self.commit.is_given:
            raise UsageError(
                "say what waits you accept, or which sizes to show\n"
                "  next: --target 'p95_wait <= 1h', or --gpus 64,128"
            )
        if self.commit.is_given != self.on_demand.is_given:
            raise UsageError("--commit and --on-demand: a commitment needs both prices")
        if not (isfinite(self.growth) and -1 < self.growth <= MOST_GROWTH):
            raise UsageError(
                f"--growth {100 * self.growth:g}%: expected more than -100% and at most "
                f"{MOST_GROWTH:.0%}"
            )
        if self.level is not None and not 50 <= self.level <= 99.9:
            raise UsageError(f"--ci must be between 50 and 99.9, got {self.level:g}")
        self._check_sizes()

    def _check_sizes(self) -> None:
        for pool in () if self.shape is None else self.shape.pools:
            each = pool.gpus_per_node
            if each is None:
                continue
            if self.step is not None and self.step % each:
                raise UsageError(
                    f"--cluster-step {self.step} is not a multiple of {each} (GPUs per node); use "
                    f"{whole_multiple(self.step, each)}"
                )
            for gpus in self.gpus if isinstance(self.gpus, tuple) else ():
                if gpus % each:
                    low = whole_multiple(gpus, each, up=False)
                    raise UsageError(
                        f"--gpus: {gpus:,} is not a multiple of {each} (GPUs per node); use "
                        f"{low:,} or {low + each:,}"
                    )

    def parameters(self) -> SizeParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        sizes = self.gpus
        if isinstance(sizes, SizeRange):
            sizes = (sizes.low, sizes.high, sizes.count)
        return SizeParameters(
            targets=[one.text for one in self.targets],
            policy=self.policy.policy,
            settings=dict(self.policy.settings),
            gpus=None if sizes is None else list(sizes),
            cluster=None if self.shape is None else str(self.shape),
            cluster_step=self.step,
            growth=self.growth,
            commit_usd_per_gpu_h=dict(self.commit.usd_per_gpu_h),
            on_demand_usd_per_gpu_h=dict(self.on_demand.usd_per_gpu_h),
            usd_per_gpu_h=dict(self.prices.usd_per_gpu_h),
            prices=self.prices.prices,
            provider=self.prices.provider,
            gpu=self.prices.gpu,
            ci=self.level,
            resamples=self.resamples,
            deadline=self.deadline,
            deadline_factor=self.deadline_factor and list(self.deadline_factor),
            include_running=self.include_running,
            **self.jobs.parameters(),
            by=",".join(self.by) if self.by else UNSET,
        )
