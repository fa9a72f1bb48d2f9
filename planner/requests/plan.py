"""What ``gpuplan plan`` is asked: the jobs, the prices of every market, and what must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.amounts import parse_share, parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.elastic.class_options import write_slower
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.plan.targets import MEAN_TIME, TimeTarget, parse_target, write_target
from gpuplan.planner.requests.commitments import CommitmentRequest
from gpuplan.planner.requests.declaration import COST, JCT, WORKLOAD, StudyRequest, study
from gpuplan.planner.requests.plan_texts import (
    COMMITMENT,
    LEVERS,
    parse_bound,
    parse_deferral,
    parse_hazard,
    parse_levers,
    parse_policy,
    write_deferral,
    write_levers,
)
from gpuplan.planner.requests.plan_upkeep import FILES_OF, PlanServices, PlanUpkeep
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.size_texts import Growth, parse_growths, written_growth
from gpuplan.planner.requests.trace import TRACE
from gpuplan.simkit.plan.policies import FIRST_FIT, QUEUE_POLICIES, SHORTEST

if TYPE_CHECKING:
    from gpuplan.simkit.cluster_shape import ClusterShape

MOST_HELD_OUT = 0.8
USUAL_SPOT_HAZARD = 1 / (12 * 3600)
LEVERS_PANEL = "Spot, containers, widths, deferral"
PERIOD = (
    ("period_from", "Use only jobs submitted at this time (UTC) or later, with all of their run."),
    ("period_to", "Use only jobs submitted before this time (UTC), with all of their run."),
)
"""Help of ``--from`` and ``--to``: a plan takes whole jobs and cuts no run."""


@study(
    "plan",
    title="What to commit to, rent and run elsewhere",
    picture="GPUs in use over a week, and the price of one more",
    example="gpuplan plan trace.parquet --commit 0.90 --on-demand 1.29 --speedup power:0.8",
    doing="planning",
    more_forms={".toml": "the plan for --keep"},
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "usd_per_month": (COST, "monthly cost"),
        "markets.gpus": (COST, "GPUs"),
        "mean_time_s": (JCT, "mean time of a job"),
    },
)
@dataclass(frozen=True, slots=True)
class PurchaseRequest(StudyRequest):
    """Plan what to commit to, rent, or run elsewhere.

    The plan is of the least dollars, or with --budget of the least mean time.

    Attributes:
        jobs: which of its jobs.
        commitment: prices of commitments and on demand.
        prices: all other prices, and GPUs owned.
        renting: how GPUs on demand are had in the replay.
        upkeep: an older plan to stay with, and files to make.
        services: services beside the jobs, and the price of lending.
    """

    PANEL: ClassVar[str] = "Plan"

    trace: Annotated[Path, TRACE]
    jobs: Annotated[
        Selection,
        Group(without=("spot", "log.keep"), rare=("where", "period_from"), helps=PERIOD),
    ] = field(default_factory=Selection)
    target: Annotated[
        TimeTarget | None,
        Opt(
            "Most mean time of a job from submission to end, 'mean_jct <= now' or "
            "'mean_jct <= 3h', or most wait, 'p95_wait <= 1h'. Default: no bound.",
            parse=parse_target,
            write=write_target,
            metavar="TARGET",
            common=True,
        ),
    ] = None
    budget: Annotated[
        str | None,
        Opt(
            "Dollars to spend, such as $120000/month: the plan is then the fastest for them.",
            metavar="USD/PERIOD",
            common=True,
        ),
    ] = None
    slower: Annotated[
        float | None,
        Opt(
            "Most mean time of each class over its recorded one, such as 1.25x, or none.",
            parse=parse_bound,
            write=write_slower,
            default="1.1x",
            metavar="TIMES",
        ),
    ] = 1.1
    levers: Annotated[
        tuple[str, ...] | None,
        Opt(
            "Use only some of the levers that are given: commitment, widths, spot, serverless, "
            "deferral; commas between them; or none.",
            parse=parse_levers,
            write=write_levers,
            metavar="LIST",
            complete=(*LEVERS, "none"),
        ),
    ] = None
    by: Annotated[
        str | None,
        Opt(
            "What tells classes apart: class, group, user, a column, or all. Default: class, else "
            "group.",
            metavar="WHAT",
            complete=("class", "group", "user", "all"),
        ),
    ] = None
    commitment: Annotated[CommitmentRequest, Group(common=("on_demand",))] = field(
        default_factory=CommitmentRequest
    )
    prices: Annotated[
        PriceRequest,
        Group(without=("commit", "on_demand"), rare=("usd_per_gpu_h",), common=("owned",)),
    ] = field(default_factory=PriceRequest)
    spot: Annotated[
        str | None,
        Opt(
            "Which jobs may run on spot GPUs: an SQL condition, such as 'num_gpus <= 2'. Needs "
            "--spot-price.",
            metavar="CONDITION",
            panel=LEVERS_PANEL,
            common=True,
        ),
    ] = None
    spot_price: Annotated[
        Mapping[str, float],
        Opt(
            "Price of a spot GPU-hour. TYPE=USD for one type; may be repeated.",
            key="spot_usd_per_gpu_h",
            parse=parse_usd,
            metavar="[TYPE=]USD",
            panel=LEVERS_PANEL,
            common=True,
            many=True,
        ),
    ] = field(default_factory=dict)
    spot_hazard: Annotated[
        float,
        Opt(
            "How often a spot node is lost, such as 1/12h.",
            key="spot_losses_per_s",
            parse=parse_hazard,
            default="1/12h",
            metavar="LOSSES/TIME",
            panel=LEVERS_PANEL,
        ),
    ] = USUAL_SPOT_HAZARD
    spot_availability: Annotated[
        Path | None,
        Opt(
            "When spot GPUs were there: a table of gpuplan prices (.parquet). Jobs are replayed "
            "against it, and it says how often they are lost. Default: by --spot-hazard.",
            metavar="FILE",
            panel=LEVERS_PANEL,
        ),
    ] = None
    spot_max: Annotated[
        float | None,
        Opt(
            "Most share of the GPU time on spot GPUs, such as 30%. Default: no bound.",
            parse=parse_share,
            metavar="SHARE",
            panel=LEVERS_PANEL,
        ),
    ] = None
    serverless: Annotated[
        Mapping[str, float],
        Opt(
            "Price of a GPU-hour in containers. TYPE=USD for one type; may be repeated.",
            key="serverless_usd_per_gpu_h",
            parse=parse_usd,
            metavar="[TYPE=]USD",
            panel=LEVERS_PANEL,
            many=True,
        ),
    ] = field(default_factory=dict)
    speedup: Annotated[
        str | None,
        Opt(
            "How jobs gain from more GPUs, measured or assumed: table:FILE.csv or power:0.8; see "
            "gpuplan list speedups. Default: every job keeps its GPUs.",
            metavar="SPEEDUP",
            panel=LEVERS_PANEL,
            complete="speedups",
            reads=True,
            common=True,
        ),
    ] = None
    defer: Annotated[
        tuple[str, float] | None,
        Opt(
            "Which jobs may wait for idle GPUs that are paid for, and how long: "
            "\"priority = 'spot':6h\".",
            parse=parse_deferral,
            write=write_deferral,
            metavar="CONDITION:WITHIN",
            panel=LEVERS_PANEL,
        ),
    ] = None
    growth: Annotated[
        Growth | None,
        Opt(
            "Growth of demand to try the commitment on, such as 20%, or a range, -20%:50%.",
            parse=parse_growths,
            write=written_growth,
            metavar="PERCENT",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "Most GPUs, owned, committed and on demand, in whole nodes: 16x8, A100=16x8, or x8 for "
            "nodes of 8 without a bound.",
            metavar="SHAPE",
        ),
    ] = None
    policy: Annotated[
        str,
        Opt(
            "Which waiting job starts first under --cluster or a target of waits: first-fit and "
            "fifo by submission (fifo lets none pass), sjf by run time.",
            parse=parse_policy,
            metavar="NAME",
            complete=QUEUE_POLICIES,
        ),
    ] = FIRST_FIT
    renting: Annotated[RentedCluster, Group(without=("max_gpus", "overflow"))] = field(
        default_factory=RentedCluster
    )
    holdout: Annotated[
        float,
        Opt(
            "Share of the log's time, at its end, that the plan does not see and is then tried on; "
            "0% for none.",
            parse=parse_share,
            default="30%",
            metavar="SHARE",
            panel=RentedCluster.PANEL,
        ),
    ] = 0.3

    upkeep: Annotated[PlanUpkeep, Group()] = field(default_factory=PlanUpkeep)
    services: Annotated[PlanServices, Group()] = field(default_factory=PlanServices)

    @property
    def folder_files(self) -> tuple[str, ...]:
        """Files that it makes in the folder of ``--output``."""
        return FILES_OF[self.upkeep.export]

    @property
    def assumes_losses(self) -> bool:
        """Whether spot nodes are lost as often as by default, and no record tells how often."""
        return self.spot_availability is None and self.spot_hazard == USUAL_SPOT_HAZARD

    @property
    def has_price(self) -> bool:
        """Whether any price of committed or on-demand GPUs is given; else one is assumed."""
        commitment, prices = self.commitment, replace(self.prices, owned=())
        return bool(prices.is_given or commitment.commit or commitment.on_demand)

    @property
    def with_levers(self) -> PurchaseRequest:
        """The request without the inputs of the levers that it does not use.

        A commitment may have its price from a book: see `commits`.
        """
        if self.levers is None:
            return self
        changes: dict[str, Any] = {}
        if "spot" not in self.levers:
            changes |= {"spot": None, "spot_price": {}, "spot_max": None}
            changes["spot_availability"] = None
        if "serverless" not in self.levers:
            changes["serverless"] = {}
        if "widths" not in self.levers:
            changes["speedup"] = None
        if "deferral" not in self.levers:
            changes["defer"] = None
        return replace(self, **changes)

    @property
    def commits(self) -> bool:
        """Whether the plan may commit to GPUs."""
        return self.levers is None or COMMITMENT in self.levers

    def shape(self) -> ClusterShape | None:
        """Return the cluster; None where not given. Raises `UsageError`."""
        return None if self.cluster is None else read_shape(self.cluster, "--cluster")

    def check(self) -> None:
        """Check options that go together, and the cluster. Raises `UsageError`."""
        self.shape()
        self.services.check()
        if (self.spot is None) == bool(self.spot_price):
            raise UsageError(
                "--spot and --spot-price: spot GPUs need both\n"
                "  next: for example --spot 'num_gpus <= 2' --spot-price 0.55"
            )
        of_spot = {"--spot-max": self.spot_max, "--spot-availability": self.spot_availability}
        for option, value in of_spot.items():
            if value is not None and self.spot is None:
                raise UsageError(f"{option}: needs --spot CONDITION and --spot-price USD")
        inputs = {
            "widths": self.speedup,
            "spot": self.spot,
            "serverless": self.serverless,
            "deferral": self.defer,
        }
        for name in self.levers or ():
            if not inputs.get(name, True):
                raise UsageError(
                    f"--levers {name}: needs {LEVERS[name]}\n"
                    f"  next: {LEVERS[name]} as well, or --levers without {name}"
                )
        growths = self.growth if isinstance(self.growth, tuple) else (self.growth or 0.0,)
        if min(growths) <= -1:
            raise UsageError("--growth: demand must shrink by less than 100%")
        is_of_time = self.target is not None and self.target.measure == MEAN_TIME
        if is_of_time and self.budget is not None:
            raise UsageError(
                "--target and --budget: a budget buys the least mean time, so give one of them"
            )
        self._check_policy()
        self.upkeep.check()
        if not 0 <= self.holdout <= MOST_HELD_OUT:
            raise UsageError(
                f"--holdout {self.holdout:.0%}: expected 0% to {MOST_HELD_OUT:.0%} of the time\n"
                "  next: --holdout 30%"
            )

    def _check_policy(self) -> None:
        """Refuse a policy where no job waits for another, or cannot be ranked."""
        if self.policy == FIRST_FIT:
            return
        shape = self.shape()
        has_cap = shape is not None and any(pool.gpus is not None for pool in shape.pools)
        if not has_cap and (self.target is None or not self.target.is_of_waits):
            raise UsageError(
                f"--policy {self.policy}: without a cap no job waits for another\n"
                "  next: --cluster SHAPE, such as 16x8, or a target of waits"
            )
        if self.policy == SHORTEST and self.services.services is not None:
            raise UsageError(
                f"--policy {self.policy}: services (--services) have no run time to rank them by\n"
                "  next: --policy first-fit or fifo"
            )
