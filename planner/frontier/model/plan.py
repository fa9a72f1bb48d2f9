"""One point of the frontier: the widths of every class, their cost and completion times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from gpuplan.simkit.time import HOUR_S


@dataclass(frozen=True, slots=True)
class Assignment:
    """A width for a share of the jobs of one class in one epoch.

    Attributes:
        job_class: the class.
        epoch: the epoch, from 0.
        width: GPUs.
        share: share of the class' jobs; the shares of an epoch add up to 1.
        rounded: whether the plan without a split gives this width to all jobs of the class.
        gpu_type: type of the GPUs; None where there is one type only.
    """

    job_class: str
    epoch: int
    width: float
    share: float
    rounded: bool = True
    gpu_type: str | None = None


ASSIGNMENT = tuple(field.name for field in fields(Assignment))


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """The part of a plan for one class.

    Attributes:
        job_class: the class.
        rate_per_h: arrivals per hour.
        weight: weight of an hour of its jobs in the objective.
        cost: of a job, in GPU-hours or dollars, averaged over its paths.
        time_h: hours of a job, averaged likewise.
        rounded_cost: on the path that the plan without a split takes: the cheaper one, or the
            quicker one where a cap on the class' time splits it.
        rounded_time_h: hours on that path.
        widths: the widths of each epoch.
    """

    job_class: str
    rate_per_h: float
    weight: float
    cost: float
    time_h: float
    rounded_cost: float
    rounded_time_h: float
    widths: tuple[Assignment, ...]

    @property
    def used(self) -> float:
        """What the class takes of the budget, on average."""
        return self.rate_per_h * self.cost

    @property
    def paths(self) -> tuple[tuple[float, tuple[Assignment, ...]], ...]:
        """(share of the jobs, width of each epoch) of each path, the cheaper one first."""
        epochs: dict[int, list[Assignment]] = {}
        for row in self.widths:
            epochs.setdefault(row.epoch, []).append(row)
        first, last = (tuple(rows[end] for rows in epochs.values()) for end in (0, -1))
        quicker = next((row.share for row in last if row.share < 1), 0.0)
        return ((1 - quicker, first), (quicker, last)) if quicker else ((1.0, first),)


@dataclass(frozen=True, slots=True)
class Plan:
    """An optimal allocation within a budget.

    It minimizes `objective_s`, which is `mean_jct_s` if all weights are equal. At most one class
    is split over two width paths, besides those whose cap on time binds. The deterministic plan
    sends all its jobs down the cheaper one; since no plan within the budget has a lower objective,
    the gap between the two bounds the loss by rounding. A class whose cap binds goes down
    the quicker one, so that the cap holds; `rounded_used` may then exceed the budget.

    Attributes:
        budget: allowed on average: GPUs, or dollars an hour as `Frontier` says.
        load_gpus: GPUs in use if every job runs on one.
        multiplier: weighted hours of completion time saved per unit of cost, at the margin.
        classes: one `ClassPlan` per class.
    """

    budget: float
    load_gpus: float
    multiplier: float
    classes: Sequence[ClassPlan]

    @property
    def objective_s(self) -> float:
        """Mean completion time of the optimum, weighted by class, in seconds."""
        return self._mean_s([c.time_h for c in self.classes], weighted=True)

    @property
    def mean_jct_s(self) -> float:
        """Plain mean completion time of the optimum, in seconds."""
        return self._mean_s([c.time_h for c in self.classes])

    @property
    def used(self) -> float:
        """What it takes on average, at most the budget."""
        return sum(c.used for c in self.classes)

    @property
    def rounded_mean_jct_s(self) -> float:
        """Mean completion time of the deterministic plan, in seconds."""
        return self._mean_s([c.rounded_time_h for c in self.classes])

    @property
    def rounded_used(self) -> float:
        """What the deterministic plan takes on average."""
        return sum(c.rate_per_h * c.rounded_cost for c in self.classes)

    @property
    def rounding_gap_s(self) -> float:
        """Certificate: the deterministic plan is at most this far from any plan in the budget."""
        rounded_s = self._mean_s([c.rounded_time_h for c in self.classes], weighted=True)
        return max(0.0, rounded_s - self.objective_s)

    @property
    def rounded_over_optimal(self) -> float:
        """Weighted mean of the deterministic plan over that of the optimum."""
        return 1 + self.rounding_gap_s / self.objective_s if self.objective_s else 1.0

    @property
    def utilization(self) -> float:
        """Cluster efficiency: the sum of speedups of running jobs over the GPUs they hold.

        On average jobs work at the rate of the load, so it is load / used; above 1 where jobs on
        several GPUs are more than so many times as fast. Of plans on one GPU type.
        """
        return self.load_gpus / self.used if self.used else 1.0

    @property
    def marginal_jct_s(self) -> float:
        """Seconds of (weighted) mean completion time saved by a unit more of budget."""
        return HOUR_S * self.multiplier / sum(c.rate_per_h * c.weight for c in self.classes)

    def _mean_s(self, hours: list[float], *, weighted: bool = False) -> float:
        counts = [c.rate_per_h * (c.weight if weighted else 1.0) for c in self.classes]
        return HOUR_S * sum(n * h for n, h in zip(counts, hours, strict=True)) / sum(counts)

    def to_frame(self, budget: str = "budget_gpus") -> pl.DataFrame:
        """Return one row per class, epoch and width; ``budget`` names the column of the budget."""
        rows = [(self.budget, *(getattr(a, name) for name in ASSIGNMENT)) for a in self.widths]
        names = [budget, *ASSIGNMENT]
        return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None).cast(
            {"gpu_type": pl.String}
        )

    @property
    def widths(self) -> tuple[Assignment, ...]:
        """The widths of every class and epoch."""
        return tuple(a for c in self.classes for a in c.widths)
