"""What can be set about Allpass, and the random start-up times a run is given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.renting.billing import RentalTerms
from gpuplan.simkit.renting.market import MOST_USD, Market, price_ladder
from gpuplan.simkit.time import MICROS, to_micros
from gpuplan.simkit.workload import Workload

CONTROLLERS = ("adaptive", "fixed")
THRESHOLD_RULES = ("live", "admission")
SCALE_OUT_RULES = ("queue", "window")
SCALING_RULES = ("literal", "bounded", "utilization")
QUEUE_ORDERS = ("deadline", "submission")
RENTAL_DRAWS = 1 << 14
"""Start-up times drawn per kind of provider; a run that rents more often takes them again."""
LONGEST_S = 100 * 86_400.0
"""Longest time that the scalers look ahead, or back."""
MOST_KEPT = 1_000_000
"""Workers that may always be kept: they are rented one by one, whether jobs come or not."""
WINDOW_STEP_S = 60.0
"""The windows T of equation 2 are 1, 2, ... of these."""


@dataclass(frozen=True, slots=True)
class StartUp:
    """A start-up time: normal, drawn again while negative.

    Attributes:
        mean_s: mean before negative draws are replaced, seconds.
        sd_s: standard deviation before that, seconds.
    """

    mean_s: float
    sd_s: float

    def draw_us(self, size: int, rng: np.random.Generator) -> IntArray:
        """Return ``size`` independent draws in microseconds."""
        drawn = rng.normal(self.mean_s, self.sd_s, size)
        while (negative := np.flatnonzero(drawn < 0)).size:
            drawn[negative] = rng.normal(self.mean_s, self.sd_s, negative.size)
        return to_micros(drawn)


@dataclass(frozen=True, slots=True)
class Allpass:
    """Parameters of one run.

    The defaults are the paper's, for A100 GPUs (its Tables 2 and 3), but for ``scale_out``,
    ``scaling`` and ``min_threshold_s``: docs/allpass.md says what they change of its algorithms,
    and why.

    Attributes:
        controller: ``adaptive`` moves the threshold by Algorithm 1, ``fixed`` leaves it.
        threshold_s: run time after which a job leaves its container (at first, when adaptive);
            ``inf`` keeps every job there.
        threshold_rule: ``live`` judges a running job by the present threshold, ``admission`` by the
            one at the time its container was requested.
        scale_out: ``queue`` rents workers for every job that waits, ``window``, the printed
            Algorithm 2, for jobs due within the window alone.
        scaling: ``literal`` follows Algorithm 2 as it is meant, ``bounded`` keeps no more workers
            than the jobs at hand can use; ``utilization`` has Kubernetes' horizontal pod
            autoscaler in its place.
        capacity: most workers held at once; None for no limit.
        serverless_limit: most GPUs in containers at once, the rest waits; None for no limit.
        serverless_price: US dollars per GPU-hour.
        serverless_startup: start-up time of a container.
        serverless_minimum_billing_s: least time a container is billed for.
        serverless_billing_step_s: time a container is billed in, rounded up; 0 bills the time held:
            from when it is ready until it is given up, the checkpoint included.
        marketplace_prices: US dollars per GPU-hour of each offer of one GPU; ascending.
        market: offers over time in the place of ``marketplace_prices``.
        pricing: whether a rental costs what its offer asked at its ``request`` to the end, or at
            each time what the offer then asks (``in-force``; one that is gone, what it asked last).
        reclaim: whether an offer that is gone ends its rental; else only new ones cannot have it.
        save_every_s: work on workers after which a job is saved, at no cost: what was done since is
            lost when its workers are reclaimed; 0 saves at the last moment, ``inf`` never.
        grace_s: notice before that: a job that can be saved within it keeps all it has done, and
            spends ``checkpoint_s`` on its workers for it; 0 for none.
        lease_s: longest that a marketplace worker is held, from its request; jobs know its end and
            are saved before it, as with a notice; ``inf`` for no end.
        marketplace_startup: start-up time of a marketplace worker.
        conventional_price: US dollars per GPU-hour of the conventional cloud, which has no end.
        conventional_startup: start-up time of its workers.
        minimum_billing_s: least time a rental is billed for.
        billing_step_s: time a rental is billed in, rounded up; 0 bills the time held.
        checkpoint_s: time to save a job that has none of its own (`Workload.checkpoint_us`), spent
            and billed in its container.
        restore_s: time to load it, alike, spent on its workers.
        tick_s: time between two decisions of the scalers.
        window_s: longest window T, a multiple of 60 s.
        min_threshold_s, max_threshold_s: limits of the adaptive threshold; None for the lower one
            is `least_threshold_s`, and what the jobs make of it (`on`) in a run.
        gain_up_s, limit_up_s, gain_down_s, limit_down_s: G and R of Algorithm 1, seconds per tick.
        max_pressure: pressure where there is work and no worker, and the cap elsewhere.
        queue_order: which job is first in the serverful queue: of the earliest ``deadline`` or
            ``submission``.
        target_utilization, utilization_tolerance, stabilization_s, min_workers: of
            ``scaling="utilization"``: the busy share of workers aimed at; how far the share may be
            off, relative to it; for how long the most workers desired are kept; the fewest kept.
    """

    controller: str = "adaptive"
    threshold_s: float = 300.0
    threshold_rule: str = "live"
    scale_out: str = "queue"
    scaling: str = "bounded"
    capacity: int | None = None
    serverless_limit: int | None = None
    serverless_price: float = 2.10
    serverless_startup: StartUp = StartUp(3.88, 1.84)
    serverless_minimum_billing_s: float = 0.0
    serverless_billing_step_s: float = 0.0
    marketplace_prices: tuple[float, ...] = field(
        default_factory=lambda: price_ladder(50, 0.38, 1.08, 1.66)
    )
    market: Market | None = None
    pricing: str = "request"
    reclaim: bool = False
    save_every_s: float = 600.0
    grace_s: float = 0.0
    lease_s: float = np.inf
    marketplace_startup: StartUp = StartUp(36.04, 7.35)
    conventional_price: float = 1.29
    conventional_startup: StartUp = StartUp(255.59, 26.26)
    minimum_billing_s: float = 0.0
    billing_step_s: float = 0.0
    checkpoint_s: float = 42.0
    restore_s: float = 42.0
    tick_s: float = 60.0
    window_s: float = 1800.0
    min_threshold_s: float | None = None
    max_threshold_s: float = 3600.0
    gain_up_s: float = 10.0
    limit_up_s: float = 100.0
    gain_down_s: float = 2.0
    limit_down_s: float = 30.0
    max_pressure: float = 100.0
    queue_order: str = "deadline"
    target_utilization: float = 0.70
    utilization_tolerance: float = 0.10
    stabilization_s: float = 300.0
    min_workers: int = 1

    def __post_init__(self) -> None:
        prices = self.marketplace_prices
        if any(a > b for a, b in pairwise(prices)) or any(not 0 <= p <= MOST_USD for p in prices):
            raise ValueError(f"marketplace_prices must ascend and be 0 to {MOST_USD:g}")
        lowest = self.least_threshold_s
        if lowest > self.max_threshold_s:
            raise ValueError(
                f"min_threshold_s must be at most max_threshold_s, got {lowest:g} "
                f"and {self.max_threshold_s:g}"
            )
        if self.controller == "adaptive" and not (
            lowest <= self.threshold_s <= self.max_threshold_s
        ):
            raise ValueError(
                f"threshold_s must lie between min_threshold_s and max_threshold_s "
                f"({lowest:g} to {self.max_threshold_s:g}) when the controller is "
                f"adaptive, got {self.threshold_s:g}"
            )

    @property
    def least_threshold_s(self) -> float:
        """How far the adaptive threshold may fall: where that is not set, to what a move takes.

        Below that a job is moved for longer than it has run. Where the threshold begins lower, it
        stays as low.
        """
        if self.min_threshold_s is not None:
            return self.min_threshold_s
        return min(self.checkpoint_s + self.restore_s, self.threshold_s, self.max_threshold_s)

    def move_s(self, workload: Workload) -> float:
        """Return what a move takes, seconds: the mean over the jobs where these have own times."""
        if workload.checkpoint_us is None and workload.restore_us is None:
            return self.checkpoint_s + self.restore_s
        save_us, load_us = workload.overheads_us(self.checkpoint_s, self.restore_s)
        return float(save_us.mean() + load_us.mean()) / MICROS

    def on(self, workload: Workload) -> Allpass:
        """Return the parameters of a run of these jobs: `least_threshold_s` with their `move_s`."""
        if self.min_threshold_s is not None:
            return self
        lowest = min(self.move_s(workload), self.threshold_s, self.max_threshold_s)
        return replace(self, min_threshold_s=lowest)

    @property
    def offers(self) -> Market:
        """The marketplace, whether it changes or not."""
        return self.market or Market.constant(self.marketplace_prices)

    @property
    def rental_terms(self) -> RentalTerms:
        """What rented workers are billed by."""
        return RentalTerms(
            offers=self.offers,
            conventional_price=self.conventional_price,
            pricing=self.pricing,
            billing_step_s=self.billing_step_s,
            minimum_billing_s=self.minimum_billing_s,
        )


@dataclass(frozen=True, slots=True)
class Draws:
    """The random part of a run, drawn before it starts.

    Attributes:
        container_us: start-up of each job's container; shape (n,).
        marketplace_us: start-up of the 1st, 2nd, ... marketplace rental, counted round.
        conventional_us: the same for the conventional cloud.
    """

    container_us: IntArray
    marketplace_us: IntArray
    conventional_us: IntArray

    @classmethod
    def sample(cls, parameters: Allpass, jobs: int, rng: np.random.Generator) -> Draws:
        """Draw for ``jobs`` jobs; what one provider's times are does not change another's."""
        container, marketplace, conventional = rng.spawn(3)
        return cls(
            container_us=parameters.serverless_startup.draw_us(jobs, container),
            marketplace_us=parameters.marketplace_startup.draw_us(RENTAL_DRAWS, marketplace),
            conventional_us=parameters.conventional_startup.draw_us(RENTAL_DRAWS, conventional),
        )
