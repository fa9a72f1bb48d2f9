"""What ``gpuplan bill`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.trace import TRACE

PEAK = "peak"
Pools = tuple[tuple[str | None, int], ...]
"""GPU type and GPUs of each pool of a cluster; None for GPUs of any type."""


@study(
    "bill",
    title="What it costs a month, and who pays",
    example="gpuplan bill trace.parquet --price 1.29 --by user --cluster peak",
    doing="billing",
)
@dataclass(frozen=True, slots=True)
class BillRequest(StudyRequest):
    """Show what a log costs a month, and who pays.

    Attributes:
        trace: a canonical trace, or a log.
        jobs: which of its jobs.
        prices: what GPUs cost.
        by: what the bill is split by, one of `BY` or another column of the trace.
        cluster: its shape, ``peak`` for the most GPUs held at once; None bills what jobs hold.
        idle: whether idle GPUs are a row apart, or paid for by all jobs.
    """

    trace: Annotated[Path, TRACE]
    jobs: Annotated[Selection, Group(without=("spot",), common=("period_to",))] = field(
        default_factory=Selection
    )
    prices: PriceRequest = field(default_factory=PriceRequest)
    by: Annotated[
        str,
        Opt(
            "What to split the bill by: group, user, type, class, or a column kept by --keep.",
            metavar="WHAT",
            common=True,
            complete=("group", "user", "type", "class"),
        ),
    ] = "group"
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs that you pay for, busy or not: 64, 8x4, A100=8x4,T4=16, or peak for the most "
            "that jobs held at once. Default: only GPUs that jobs hold.",
            metavar="SHAPE|peak",
            common=True,
        ),
    ] = None
    idle: Annotated[
        Literal["apart", "spread"],
        Opt(
            "Who pays for idle GPUs: a row apart, or all jobs by their GPU-hours (spread).",
            metavar="WHO",
            common=True,
        ),
    ] = "apart"

    @property
    def is_peak(self) -> bool:
        """Whether the cluster is the most GPUs that jobs held at once."""
        return self.cluster is not None and self.cluster.strip().lower() == PEAK

    def pools(self) -> Pools | None:
        """Return the pools of the cluster; None without one. Raises `UsageError`."""
        if self.cluster is None or self.is_peak:
            return None
        pools: list[tuple[str | None, int]] = []
        for pool in read_shape(self.cluster, "--cluster").pools:
            if pool.gpus is None:
                raise UsageError(
                    f"--cluster {self.cluster}: a bill needs a number of GPUs, or peak"
                )
            pools.append((pool.gpu_type, pool.gpus))
        return tuple(pools)

    def check(self) -> None:
        """Check what can be checked before the trace is read. Raises `UsageError`."""
        self.pools()
        self.prices.check_given()
        if self.idle == "spread" and self.cluster is None:
            raise UsageError("--idle spread: needs --cluster, to know what is idle")
