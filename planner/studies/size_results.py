"""The results of ``gpuplan size``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import plain
from gpuplan.planner.money.commitment import CommitmentResult
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.runs.gpu_intervals import GpuInterval
from gpuplan.planner.runs.group_waits import GroupWaits
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.planner.sizing.sized_replay import UnclearSizes
from gpuplan.planner.studies.answer import Answer


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target, and what the size found does about it.

    Attributes:
        name: the target as given.
        limit: in seconds for a wait, a share for jobs over a wait, a ratio for a slowdown.
        value: at the size found; null without one, or with several GPU types.
    """

    name: str
    limit: float
    value: float | None


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One size of the curve: one replay, the same as that of ``gpuplan simulate``.

    Attributes:
        gpu_type: the pool; null where the log has one.
        gpus: of the cluster.
        nodes: null where nodes do not matter.
        mean_wait_s, median_wait_s, p90_wait_s, p95_wait_s, p99_wait_s: time without GPUs.
        mean_slowdown: JCT over run time, of jobs that run.
        utilization: share of the GPU time of the cluster that jobs use in the window of the log;
            under the site's rules of the nodes of this type.
        usd_per_month: of all GPUs, busy or not.
        meets: whether it meets all targets; null without a target.
        target_values: of each target, in its unit.
        target_errors: how far they may be off; empty where the model does not tell.
        usd_per_wait_h_saved: dollars of a month that save an hour of waiting against the next
            smaller size of the curve; null where it saves none, or under the site's rules no more
            than the chance of the replays.
        mean_wait_interval_s, p95_wait_interval_s: low and high end; null without intervals.
        groups: waits by group, user, class or GPU type, where requested (``--by``).
    """

    gpu_type: str | None
    gpus: int
    nodes: int | None
    mean_wait_s: float
    median_wait_s: float
    p90_wait_s: float
    p95_wait_s: float
    p99_wait_s: float
    mean_slowdown: float | None
    utilization: float | None
    usd_per_month: float
    meets: bool | None
    target_values: tuple[float, ...]
    target_errors: tuple[float, ...]
    usd_per_wait_h_saved: float | None
    mean_wait_interval_s: tuple[float, float] | None
    p95_wait_interval_s: tuple[float, float] | None
    groups: tuple[GroupWaits, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class SizeToday:
    """What the log shows today, or of one pool in it.

    Attributes:
        cluster_gpus: of the cluster, as ``--cluster`` names it; null where it does not.
        mean_gpus: GPU-hours over the window, first submission to last submission or end.
        peak_gpus: most GPUs held at once.
        mean_wait_s, p95_wait_s: as recorded; null where the log has no waits.
        usd_per_month: of the cluster; without one, or with GPUs owned and committed, today's bill
            under the price book; null where neither is given.
        price_is_assumed: whether no price was given, and dollars are at one assumed for all types.
    """

    cluster_gpus: int | None
    mean_gpus: float
    peak_gpus: float
    mean_wait_s: float | None
    p95_wait_s: float | None
    usd_per_month: float | None
    price_is_assumed: bool | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class SizePool:
    """GPUs of one type: their jobs run on no others; under the site's rules its nodes.

    Attributes:
        name: the GPU type; ``all`` where the log has one or names none.
        jobs: replayed.
        usd_per_gpu_h: the mean price of the size found, of a GPU above those owned and committed to
            without one; null where none is given, and only commitments on other types are looked
            for.
        gpus: the smallest size that meets the targets; null without a target.
        nodes: of that size; null where nodes do not matter.
        usd_per_month: of that size.
        utilization: at that size.
        over_today_usd_per_month: of that size more than of today's GPUs; null where these have no
            bill.
        interval: of that size.
        interval_is_open: whether its high end is the most that was tried, and not sure either.
        unclear: the sizes of which the smallest that meets the targets may be one, within the error
            of the site's model; null where that size is sure, and under a policy.
        widest_job_gpus: GPUs of the widest job.
        no_wait_gpus: the fewest GPUs at which no job waits for another; null under the site's
            rules, where limits make jobs wait too.
        today: what the log shows.
        commitment: null where no prices of commitments are given.
        fidelity: how a replay of today on these GPUs compares with the log.
    """

    name: str
    jobs: int
    usd_per_gpu_h: float | None
    gpus: int | None
    nodes: int | None
    usd_per_month: float | None
    utilization: float | None
    over_today_usd_per_month: float | None
    interval: GpuInterval | None
    interval_is_open: bool
    unclear: UnclearSizes | None
    widest_job_gpus: int
    no_wait_gpus: int | None
    today: SizeToday
    commitment: CommitmentResult | None
    fidelity: Fidelity


@dataclass(frozen=True, slots=True)
class SizeResults:
    """How many GPUs the jobs need.

    Attributes:
        gpus: the smallest cluster that meets the targets, all pools; null without a target, where
            a replay of today contradicts the log, and under the site's rules with several GPU
            types, whose pools are alternatives.
        nodes: of it; null where nodes do not matter.
        usd_per_month: of it.
        interval: of the size; null without one, or with several GPU types.
        policy: that schedules the jobs.
        growth: of arrivals; 0.2 is 20% more jobs an hour.
        jobs: replayed.
        targets: what was asked for.
        points: the curve, by pool and size.
        pools: one per GPU type.
        today: what the log shows.
        commitment: null where no prices of commitments are given, and where a replay of today
            contradicts the log.
        fidelity: how a replay of today compares with the log.
        today_meets: whether the recorded waits meet the targets, on each GPU type; null without a
            target, with growth, and where these waits do not tell.
        cheapest: the GPU type whose nodes meet the targets for the fewest dollars more than today,
            under the site's rules; null where the error of the model may make another one cheaper.
        today_groups: the recorded waits by group, where ``--by`` and the log have them.
    """

    gpus: int | None
    nodes: int | None
    usd_per_month: float | None
    interval: GpuInterval | None
    policy: str
    growth: float
    jobs: int
    targets: tuple[TargetResult, ...]
    points: tuple[SizePoint, ...]
    pools: tuple[SizePool, ...]
    today: SizeToday
    commitment: CommitmentResult | None
    fidelity: Fidelity
    today_meets: bool | None = None
    cheapest: str | None = None
    today_groups: tuple[GroupWaits, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CommitmentLine:
    """Dollars a month of committed GPUs of one type.

    Attributes:
        gpu_type: ``all`` where the log names none.
        points: committed GPUs and dollars a month.
    """

    gpu_type: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer(Answer[SizeRequest, SizeResults]):
    """How many GPUs the jobs need.

    Attributes:
        lines: dollars of many commitments on each GPU type, for a picture.
        source_format: of the log.
    """

    lines: tuple[CommitmentLine, ...] = ()
    source_format: str = ""

    def to_frame(self) -> pl.DataFrame:
        """Return one row per size of the curve; without sizes, one per count of a commitment."""
        if not self.results.points and self.results.commitment is not None:
            return pl.DataFrame([plain(point) for point in self.results.commitment.curve])
        rows = [plain(point) for point in self.results.points]
        ends = ("mean_wait_interval_s", "p95_wait_interval_s")
        lists = (*ends, "groups", "target_values", "target_errors")
        flat = [
            {key: value for key, value in row.items() if key not in lists}
            | {
                f"{key.removesuffix('_interval_s')}_{end}_s": value[place] if value else None
                for key in ends
                for place, end in enumerate(("low", "high"))
                for value in (row[key],)
            }
            for row in rows
        ]
        return pl.DataFrame(flat, infer_schema_length=None)
