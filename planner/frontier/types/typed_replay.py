"""A plan over several GPU types and its replay on its own jobs, type by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.replay.plan_replay import (
    BINS,
    ReplayedJobs,
    measure_replays,
    planned_jct_s,
)
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import replay_types
from gpuplan.planner.frontier.replay.results import MixPeriod, MixReplayResults
from gpuplan.planner.frontier.types.heterogeneous import TypedPlan
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import distribution, percentile
from gpuplan.simkit.steps import mean_and_peak, value_at
from gpuplan.simkit.time import HOUR_S


@dataclass(frozen=True, slots=True)
class ReplayedTypedPlan:
    """A plan over several GPU types, replayed on a cluster of each.

    Attributes:
        plan: the plan.
        types: by type that some job runs on.
        price_usd_per_gpu_h: by type.
        planned_p95_jct_s: P95 of the completion times if GPUs are available immediately.
    """

    plan: TypedPlan
    types: Mapping[str, ReplayedJobs]
    price_usd_per_gpu_h: Mapping[str, float]
    planned_p95_jct_s: float

    @property
    def jct_s(self) -> FloatArray:
        """Completion times of all jobs, type by type."""
        return np.concatenate([one.replay.jct_s for one in self.types.values()])

    @property
    def rented_usd_per_h(self) -> float:
        """Dollars for the GPUs rented, per hour of the horizon."""
        return self._usd({t: one.replay.rented_gpus for t, one in self.types.items()})

    @property
    def billed_usd_per_h(self) -> float:
        """Dollars billed, per hour of the horizon."""
        return self._usd({t: one.replay.billed_gpus for t, one in self.types.items()})

    @property
    def node_rounding_usd_per_h(self) -> float:
        """Dollars an hour for GPUs rented only because nodes are rented as a whole."""
        return self._usd({t: one.node_rounding_gpus for t, one in self.types.items()})

    @property
    def spent_over_budget(self) -> float:
        """The bill of the replay over its budget."""
        return self.billed_usd_per_h / float(self.plan.plan.budget_gpus)

    @property
    def peak_gpus(self) -> dict[str, int]:
        """Peak of the GPUs rented of each type."""
        return {t: one.replay.peak_gpus for t, one in self.types.items()}

    @property
    def peak_usd_per_h(self) -> float:
        """Peak of the dollars an hour for the GPUs of all types."""
        return float(self._usd_over_time()[1].max())

    @property
    def lasts_h(self) -> float:
        """Hours from the first request for a GPU to the last return."""
        time_s, _ = self._usd_over_time()
        return float(time_s[-1] - time_s[0]) / HOUR_S

    def results(self) -> MixReplayResults:
        """Return the numbers as JSON has them."""
        return MixReplayResults(
            planned_mean_jct_s=float(self.plan.plan.mean_jct_s),
            planned_p95_jct_s=self.planned_p95_jct_s,
            **distribution(self.jct_s, "jct", "s", (50, 95, 99)),
            rented_usd_per_h=self.rented_usd_per_h,
            billed_usd_per_h=self.billed_usd_per_h,
            peak_usd_per_h=self.peak_usd_per_h,
            node_rounding_usd_per_h=self.node_rounding_usd_per_h,
            spent_over_budget=self.spent_over_budget,
            types={t: one.results() for t, one in self.types.items()},
        )

    def timeline(self) -> tuple[MixPeriod, ...]:
        """Return dollars and GPUs over time: mean and peak in each of `BINS` equal parts."""
        time_s, usd = self._usd_over_time()
        edges = np.linspace(time_s[0], time_s[-1], BINS + 1)
        mean_usd, peak_usd = mean_and_peak(time_s, usd, edges)
        gpus = {
            t: mean_and_peak(one.replay.time_s, one.replay.gpus.astype(np.float64), edges)
            for t, one in self.types.items()
        }
        return tuple(
            MixPeriod(
                time_h=float(edges[i] / HOUR_S),
                mean_usd_per_h=float(mean_usd[i]),
                peak_usd_per_h=float(peak_usd[i]),
                mean_gpus={t: float(mean[i]) for t, (mean, _) in gpus.items()},
                peak_gpus={t: float(peak[i]) for t, (_, peak) in gpus.items()},
            )
            for i in range(BINS)
        )

    def _usd(self, gpus: Mapping[str, float]) -> float:
        return sum(self.price_usd_per_gpu_h[t] * count for t, count in gpus.items())

    def _usd_over_time(self) -> tuple[FloatArray, FloatArray]:
        """Return the times at which the rented GPUs change, and dollars an hour from then on."""
        time_s = np.unique(np.concatenate([one.replay.time_s for one in self.types.values()]))
        usd = np.zeros(time_s.size)
        for gpu_type, one in self.types.items():
            rented = value_at(one.replay.time_s, one.replay.gpus, time_s)
            usd += self.price_usd_per_gpu_h[gpu_type] * rented
        return time_s, usd


def replay_and_measure_types(
    workload: ClassWorkload, plan: TypedPlan, usd: Mapping[str, float], cluster: RentedCluster
) -> ReplayedTypedPlan:
    """Replay a plan on its own arrivals, each type on a cluster of its own.

    Raises:
        InfeasibleError, UsageError: see `replay_types`.
    """
    types = measure_replays(
        workload,
        plan.plan,
        cluster,
        lambda cluster: replay_types(workload, plan.plan, dict.fromkeys(usd, cluster)),
    )
    return ReplayedTypedPlan(
        plan=plan,
        types=types,
        price_usd_per_gpu_h=usd,
        planned_p95_jct_s=percentile(planned_jct_s(workload, plan.plan), 95),
    )
