"""When to leave serverless: the ski-rental problem behind a fixed threshold, solved exactly.

Staying costs the serverless price c1 per GPU-hour for as long as the job runs; leaving costs once,
m for checkpoint and restore, and then the lower serverful price c2. With every job's duration d
known, the money spent under the threshold F is, per GPU,

    c1 E[min(d, F)] + c2 E[(d - F)+] + m P(d > F),     m = c1 x checkpoint + c2 x restore,

a sum over jobs weighted by their GPUs. Queues, start-ups, idle workers, billing steps and least
times billed are not included: it is what the simulation bills to jobs for the time they held GPUs,
and all it bills where workers never idle and both tiers are billed as held.

Without knowing d, F = m / (c1 - c2) spends at most twice the optimum (Karlin, Manasse, Rudolph and
Sleator, "Competitive snoopy caching", Algorithmica 1988): at F the extra cost of serverless equals
the cost of leaving.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.simkit.allpass.allpass_run import overheads_us
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S, MICROS, to_micros
from gpuplan.simkit.workload import Workload

ROUNDING = 1e-10
"""A smaller saving, as a share of the cost, counts as none."""


@dataclass(frozen=True, slots=True)
class ClosedFormResults:
    """The ski-rental view: bills for GPU time used, without queues and idle workers.

    Attributes:
        best_threshold_s: fixed threshold of the least objective.
        best_cost_usd, best_delay_s: its bill, and the mean delay of a job.
        break_even_threshold_s: least fixed threshold that is better than never leaving; null if
            none is.
        competitive_threshold_s: threshold of at most twice the optimal cost for any run times; null
            where serverless GPUs cost no more.
        competitive_cost_usd: its bill.
        serverless_usd_per_gpu_h, serverful_usd_per_gpu_h: the prices.
        migration_usd_per_gpu: of a checkpoint and a restore.
        value_of_time_usd_per_h: of one job.
    """

    best_threshold_s: float
    best_cost_usd: float
    best_delay_s: float
    break_even_threshold_s: float | None
    competitive_threshold_s: float
    competitive_cost_usd: float
    serverless_usd_per_gpu_h: float
    serverful_usd_per_gpu_h: float
    migration_usd_per_gpu: float
    value_of_time_usd_per_h: float


@dataclass(frozen=True, slots=True)
class SkiRental:
    """The closed form of a workload, ready to be evaluated at any threshold.

    Attributes:
        duration_s: distinct durations, ascending; shape (k,).
        stay_usd: cost of finished jobs by duration: c1 x d summed over jobs up to it; shape (k+1,).
        left_gpus, left_gpu_s: serverless GPUs, and GPUs x duration on workers, of the jobs longer
            than the i-th duration; shape (k+1,), the first entry for all jobs.
        left_workers: workers of those jobs; shape (k+1,).
        left_saving_gpu_s, left_loading_gpu_s: their GPUs x time to save, and workers x time to
            load; shape (k+1,).
        left_delay_s: their times to save and load; shape (k+1,).
        jobs: number of all jobs.
        serverless_usd, serverful_usd: c1 and c2, US dollars per GPU-hour.
        checkpoint_s, restore_s: time to leave; means over GPUs if jobs differ.
        value_of_time: US dollars per hour of one job's delay.
    """

    duration_s: FloatArray
    stay_usd: FloatArray
    left_gpus: FloatArray
    left_gpu_s: FloatArray
    left_workers: FloatArray
    left_saving_gpu_s: FloatArray
    left_loading_gpu_s: FloatArray
    left_delay_s: FloatArray
    jobs: int
    serverless_usd: float
    serverful_usd: float
    checkpoint_s: float
    restore_s: float
    value_of_time: float

    @property
    def migration_usd(self) -> float:
        """The cost m of leaving, US dollars per GPU."""
        saved, loaded = self.checkpoint_s / HOUR_S, self.restore_s / HOUR_S
        return self.serverless_usd * saved + self.serverful_usd * loaded

    @property
    def competitive_s(self) -> float:
        """The distribution-free threshold m / (c1 - c2), seconds; infinite if c1 <= c2."""
        gain = self.serverless_usd - self.serverful_usd
        return self.migration_usd / gain * HOUR_S if gain > 0 else np.inf

    @property
    def price_ratio(self) -> float:
        """Serverful over serverless price; infinite if the latter is 0."""
        return self.serverful_usd / self.serverless_usd if self.serverless_usd else np.inf

    def at(self, price_ratio: float, value_of_time: float) -> SkiRental:
        """Return the closed form at another price of workers and another value of time."""
        usd = self.serverful_usd
        if price_ratio != self.price_ratio:
            usd = price_ratio * self.serverless_usd
        return replace(self, serverful_usd=usd, value_of_time=value_of_time)

    def cost_usd(self, threshold_s: FloatArray | float) -> FloatArray:
        """Return the money spent under each threshold, without the value of time."""
        at = np.searchsorted(self.duration_s, threshold_s, side="right")
        leaving = self.left_gpus[at] > 0
        until_s = np.where(leaving, threshold_s, 0.0)
        in_container = self.serverless_usd * (
            self.left_gpus[at] * until_s + self.left_saving_gpu_s[at]
        )
        on_workers = (
            self.left_gpu_s[at] - self.left_workers[at] * until_s + self.left_loading_gpu_s[at]
        )
        total: FloatArray = (
            self.stay_usd[at] + (in_container + self.serverful_usd * on_workers) / HOUR_S
        )
        return total

    def delay_s(self, threshold_s: FloatArray | float) -> FloatArray:
        """Return the expected delay of a job: checkpoint and restore of those that leave."""
        at = np.searchsorted(self.duration_s, threshold_s, side="right")
        delay: FloatArray = self.left_delay_s[at] / self.jobs
        return delay

    def objective_usd(self, threshold_s: FloatArray | float) -> FloatArray:
        """Return cost plus the value of all jobs' delay."""
        late_h = self.delay_s(threshold_s) * self.jobs / HOUR_S
        total: FloatArray = self.cost_usd(threshold_s) + self.value_of_time * late_h
        return total

    def best_s(self) -> float:
        """Return the fixed threshold of least objective, the smallest of ties.

        Between two durations the objective is linear in F and jumps down at the upper one (those
        jobs then finish), so 0 and the durations are the only candidates.
        """
        return float(self._candidates[np.argmin(self.objective_usd(self._candidates))])

    def break_even_s(self) -> float | None:
        """Return the least fixed threshold with an objective below that of never leaving.

        None if leaving never pays. Between two durations the objective is linear in F. It falls
        there where shares of a GPU leave for whole workers, and may then cross that of never
        leaving.
        """
        enough = float(self.objective_usd(np.inf)) * (1 - ROUNDING)
        at_s, usd = self._candidates, self.objective_usd(self._candidates)
        slope = self.serverless_usd * self.left_gpus - self.serverful_usd * self.left_workers
        slope /= HOUR_S
        longer_s = np.diff(at_s, append=at_s[-1])
        pays = np.minimum(usd, usd + slope * longer_s) < enough
        if not pays.any():
            return None
        first = int(np.argmax(pays))
        over = max(float(usd[first]) - enough, 0.0)
        return float(at_s[first] - over / slope[first]) if over else float(at_s[first])

    @property
    def _candidates(self) -> FloatArray:
        return np.concatenate(([0.0], self.duration_s))

    def results(self) -> ClosedFormResults:
        """Return the thresholds it finds, their cost and the prices, as JSON has them."""
        best_s, competitive_s = self.best_s(), self.competitive_s
        return ClosedFormResults(
            best_threshold_s=best_s,
            best_cost_usd=float(self.cost_usd(best_s)),
            best_delay_s=float(self.delay_s(best_s)),
            break_even_threshold_s=self.break_even_s(),
            competitive_threshold_s=competitive_s,
            competitive_cost_usd=float(self.cost_usd(competitive_s)),
            serverless_usd_per_gpu_h=self.serverless_usd,
            serverful_usd_per_gpu_h=self.serverful_usd,
            migration_usd_per_gpu=self.migration_usd,
            value_of_time_usd_per_h=self.value_of_time,
        )


def serverful_price(parameters: Allpass) -> float:
    """Return one price for the serverful tier, US dollars per GPU-hour.

    It is the median of the cheapest offers within the capacity, each weighted by its time; without
    such offers it is the price of the conventional cloud.
    """
    median_usd = parameters.offers.cheapest(parameters.capacity).median_usd
    return parameters.conventional_price if median_usd is None else median_usd


def ski_rental(
    workload: Workload,
    parameters: Allpass,
    value_of_time: float = 0.0,
    *,
    serverful_usd: float | None = None,
) -> SkiRental:
    """Prepare the closed form: one sort, then sums from the shortest and the longest job.

    Jobs wider than the capacity never leave, at any threshold.

    Args:
        workload: the jobs.
        parameters: prices, capacity, and the time to leave.
        value_of_time: US dollars per hour of one job's delay.
        serverful_usd: price of workers, US dollars per GPU-hour; None for `serverful_price`.
    """
    stuck = np.zeros(workload.size, bool)
    if parameters.capacity is not None:
        stuck = workload.gpus > parameters.capacity
    duration_s, at = np.unique(workload.service_us[~stuck] / MICROS, return_inverse=True)

    def by_duration(values: FloatArray) -> FloatArray:
        return np.bincount(at, values, minlength=duration_s.size).astype(np.float64)

    def left(values: FloatArray) -> FloatArray:
        """Sum over jobs longer than each duration, all jobs first."""
        return np.append(np.cumsum(by_duration(values)[::-1])[::-1], 0.0)

    rate = parameters.serverless_price / HOUR_S / MICROS
    bill = workload.service_us * workload.billed_gpus * rate
    gpus = workload.gpus[~stuck].astype(np.float64)
    billed = workload.billed_gpus[~stuck]
    saving_s, loading_s = (us[~stuck] / MICROS for us in overheads_us(workload, parameters))
    return SkiRental(
        duration_s=duration_s,
        stay_usd=bill[stuck].sum() + np.concatenate(([0.0], np.cumsum(by_duration(bill[~stuck])))),
        left_gpus=left(billed),
        left_gpu_s=left(gpus * (workload.service_us[~stuck] / MICROS)),
        left_workers=left(gpus),
        left_saving_gpu_s=left(billed * saving_s),
        left_loading_gpu_s=left(gpus * loading_s),
        left_delay_s=left(saving_s + loading_s),
        jobs=workload.size,
        serverless_usd=parameters.serverless_price,
        serverful_usd=serverful_price(parameters) if serverful_usd is None else serverful_usd,
        checkpoint_s=_mean(saving_s, billed, parameters.checkpoint_s),
        restore_s=_mean(loading_s, gpus, parameters.restore_s),
        value_of_time=value_of_time,
    )


def _mean(values: FloatArray, weights: FloatArray, usual: float) -> float:
    """Return the weighted mean, or exactly the usual value if all are equal to it or none exist."""
    is_constant = not values.size or (values == to_micros(usual) / MICROS).all()
    return usual if is_constant else float(np.average(values, weights=weights))
