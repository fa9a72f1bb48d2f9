"""What ``gpuplan plan`` answers: what to buy, where jobs run, and what came of it in a replay."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.planner.plan.caps import PlanCap
from gpuplan.planner.plan.confirmation import ReplayedPurchase, SpotReplay
from gpuplan.planner.plan.holdout import PlanHoldout
from gpuplan.planner.plan.kept import KeptPlan
from gpuplan.planner.plan.lending import PlanLending
from gpuplan.planner.plan.levers import LeverWorth
from gpuplan.planner.plan.market_use import CostStep, MarketUse
from gpuplan.planner.plan.outlook import PlanOutlook
from gpuplan.planner.plan.today import CommittedToday
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.planner.studies.plan_services import PlannedServices


@dataclass(frozen=True, slots=True)
class PlanToday:
    """The jobs as they were recorded.

    Attributes:
        mean_gpus, peak_gpus: that they held when they ran, exact in time.
        mean_time_s: from submission to end; a wait that is not recorded counts as none.
        jobs_without_wait: jobs whose wait is not recorded.
        mean_wait_s: of the others; null where there are none.
        committed: GPUs under commitments of today.
        usd_per_month: of these commitments and the rest on demand, at the prices of the plan;
            owned GPUs cost nothing here. Null where GPUs above them have no price on demand.
        bill_usd_per_month: the bill of the log under the price book, as `gpuplan bill` has it:
            with owned GPUs, at the prices of its time. ``usd_per_month`` where prices are typed
            for the plan; null with owned GPUs beside typed prices or without any price.
        price_is_assumed: whether no price of committed or on-demand GPUs is given.
        going_on_gpus: that an older plan committed to, and whose term goes on.
    """

    mean_gpus: float
    peak_gpus: float
    mean_time_s: float
    jobs_without_wait: int
    mean_wait_s: float | None
    committed: tuple[CommittedToday, ...]
    usd_per_month: float | None
    bill_usd_per_month: float | None
    price_is_assumed: bool
    going_on_gpus: Hidden[float] = 0.0

    @property
    def has_waits(self) -> bool:
        """Whether jobs waited, so that to start them all at once is another bill."""
        return bool(self.mean_wait_s)


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """A bound on times.

    Attributes:
        text: as given.
        limit_s: the bound.
        value_s: what the replay measured; null where the plan could not be replayed.
    """

    text: str
    limit_s: float
    value_s: float | None


@dataclass(frozen=True, slots=True)
class PlanRoute:
    """Where a share of a class runs.

    Attributes:
        name: ``base``, ``width 2``, ``spot``, ``serverless 300``.
        share: of the jobs of the class.
        mean_time_s: of all jobs of the class, if they took it.
    """

    name: str
    share: float
    mean_time_s: float


@dataclass(frozen=True, slots=True)
class PlanClass:
    """How the jobs of a class run.

    Attributes:
        name: the label.
        gpu_type: empty where the log names none.
        width_bucket: of the GPUs that a job holds.
        jobs: how many.
        recorded_time_s: mean time from submission to end, as recorded.
        mean_time_s: as planned, without waits.
        routes: that take any of them.
    """

    name: str
    gpu_type: str
    width_bucket: str
    jobs: int
    recorded_time_s: float
    mean_time_s: float
    routes: tuple[PlanRoute, ...]


@dataclass(frozen=True, slots=True)
class PlanResults:
    """What to buy and where jobs run.

    Attributes:
        usd_per_month: of the jobs as assigned to routes, exact in time; of the replay under a cap.
        program_usd_per_month: the program's value, with fractions of nodes and of classes.
        mean_time_s: of the jobs of classes as assigned, without waits.
        is_capped: whether jobs wait under a cap; dollars and markets are then those of the replay.
        saving_share: over the best commitment with every job as recorded; null where that has no
            price or does not meet the limits.
        saving_over_today_share: over ``today.usd_per_month``, the bill of the jobs as recorded with
            their waits; below 0 where the plan costs more; null where that is nothing or unknown.
        recorded_usd_per_month: of this commitment.
        recorded_committed_gpus: that it commits to.
        confirmed: whether a plan made so for the first part of the log held on the rest, and a
            replay of today does not contradict the log.
        unconfirmed: why it is not confirmed; empty where it is.
        fidelity: how a replay of today compares with the log.
        targets: bounds on times.
        today: the jobs as recorded.
        markets: what is bought and used, by GPU type.
        classes: how their jobs run.
        levers: what each is worth.
        losses_are_assumed: whether jobs are on spot GPUs whose rate of losses is assumed.
        jobs, deferred_jobs, left_out_jobs: planned for, that may wait, and that did not run.
        bins: of time, over which the program is solved.
        replay: the plan on all jobs; null where it cannot be replayed.
        cost_steps: from the program's value to the dollars of the replay.
        caps: the plan under caps on its GPUs; empty without ``--cluster`` or a target of waits.
        spot_replays: the plan with other losses of spot GPUs.
        holdout: a plan of the first part of the log, tried on the rest; null where there is none.
        kept: what stays of an older plan; null without one.
        services: beside the jobs; null without any.
        lending: revenue of idle GPUs, no part of the bill; null where none are lent.
        outlook: what decides the plan, how sure it is, and what would be cheaper.
    """

    usd_per_month: float
    program_usd_per_month: float
    mean_time_s: float
    is_capped: bool
    saving_share: float | None
    saving_over_today_share: float | None
    recorded_usd_per_month: float | None
    recorded_committed_gpus: float | None
    confirmed: bool
    unconfirmed: tuple[str, ...]
    fidelity: Fidelity
    targets: tuple[PlanTarget, ...]
    today: PlanToday
    markets: tuple[MarketUse, ...]
    classes: tuple[PlanClass, ...]
    levers: tuple[LeverWorth, ...]
    losses_are_assumed: bool
    jobs: int
    deferred_jobs: int
    left_out_jobs: int
    bins: int
    replay: ReplayedPurchase | None
    cost_steps: tuple[CostStep, ...]
    caps: tuple[PlanCap, ...]
    spot_replays: tuple[SpotReplay, ...]
    holdout: PlanHoldout | None
    kept: KeptPlan | None
    services: PlannedServices | None
    lending: PlanLending | None
    outlook: Inlined[PlanOutlook]
