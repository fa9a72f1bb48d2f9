"""Choose batch size and share of the GPU for a model from its measured profile.

Source: Lv et al., "Dilu", ASPLOS 2025, section 3.2. A service is searched by the hybrid growth
search: the batch doubles, the share grows by one step. Training is searched by bisection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable

TE_DROP = 0.2  # items per second and percent of the SMs that a step may lose
LEAST_REACTION = 1.3  # best rate over worst; less says that the share was not applied
REQUEST_SHARE, LIMIT_SHARE = 0.8, 1.0  # of the speed of training on a whole GPU
TOLERANCE = 0.02
STEP = 5  # percent, of the bisection


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation of a search.

    Attributes:
        batch: batch size.
        sm_percent: share of the SMs in percent.
        feasible: whether the batch takes no longer than half of the SLO.
        te: throughput efficacy: items per second and percent of the SMs.
    """

    batch: int
    sm_percent: float
    feasible: bool
    te: float


@dataclass(frozen=True, slots=True)
class ServiceChoice:
    """What the search chose for a service.

    Attributes:
        path: the evaluations in their order.
        batch, sm_percent, te: the choice and its throughput efficacy.
        best: the optimum over the whole table.
        latency_s: time of the chosen batch.
        throughput: items per second of it.
        stopped: why the search ended.
    """

    path: tuple[Trial, ...]
    batch: int
    sm_percent: float
    te: float
    best: Trial
    latency_s: float
    throughput: float
    stopped: str

    @property
    def request(self) -> float:
        """The share it needs, of 1."""
        return self.sm_percent / 100

    @property
    def limit(self) -> float:
        """The share it may get, of 1: twice the request."""
        return min(1.0, 2 * self.sm_percent / 100)

    @property
    def moves(self) -> int:
        """Evaluations after the first."""
        return len(self.path) - 1


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """The least of GPUs that serves a load.

    Attributes:
        load_rps: requests per second to serve.
        instances: instances that serve it together.
        batch: batch size.
        request: share of a GPU that each instance needs, of 1.
        latency_s: time of such a batch.
        throughput: requests per second that an instance serves.
    """

    load_rps: float
    instances: int
    batch: int
    request: float
    latency_s: float
    throughput: float

    @property
    def gpus(self) -> float:
        """GPUs that all instances need."""
        return self.instances * self.request

    @property
    def limit(self) -> float:
        """The share that an instance may get, of 1: twice the request."""
        return min(1.0, 2 * self.request)


@dataclass(frozen=True, slots=True)
class TrainingChoice:
    """The share of a training job found by bisection.

    Attributes:
        sm_percent: the share in percent.
        path: evaluations, (percent, throughput).
    """

    sm_percent: float
    path: tuple[tuple[float, float], ...]


def search_service(table: ProfileTable, slo_s: float, *, te_drop: float = TE_DROP) -> ServiceChoice:
    """Choose batch and share so that a batch takes at most half of the SLO.

    Raises:
        InfeasibleError: no share meets the SLO at the smallest batch.
    """
    bound_s = slo_s / 2
    trials: list[Trial] = []

    def evaluate(row: int, column: int) -> Trial:
        feasible = bool(table.latency_s[row, column] <= bound_s)
        te = float(table.throughput[row, column] / table.sm_percent[column])
        trial = Trial(int(table.batch[row]), float(table.sm_percent[column]), feasible, te)
        trials.append(trial)
        return trial

    row = column = 0
    while not evaluate(row, column).feasible:
        column += 1
        if column == table.sm_percent.size:
            raise _no_share(table, slo_s)
    chosen = (row, column)
    stopped = "the largest batch was reached"
    while True:
        following = np.flatnonzero(table.batch == 2 * table.batch[row])
        if not following.size:
            break
        row = int(following[0])
        trial = evaluate(row, column)
        if not trial.feasible:
            column += 1
            if column == table.sm_percent.size:
                stopped = "the largest share was reached"
                break
            trial = evaluate(row, column)
            if not trial.feasible:
                stopped = "one more step of share missed the SLO"
                break
        before = float(table.throughput[chosen] / table.sm_percent[chosen[1]])
        if trial.te < before - te_drop:
            stopped = "the throughput per share fell"
            break
        chosen = (row, column)
    te = float(table.throughput[chosen] / table.sm_percent[chosen[1]])
    return ServiceChoice(
        path=tuple(trials),
        batch=int(table.batch[chosen[0]]),
        sm_percent=float(table.sm_percent[chosen[1]]),
        te=te,
        best=traverse(table, bound_s),
        latency_s=float(table.latency_s[chosen]),
        throughput=float(table.throughput[chosen]),
        stopped=stopped,
    )


def traverse(table: ProfileTable, bound_s: float) -> Trial:
    """Return the point with the most throughput per share within a bound; ties: less share, batch.

    Raises `ValueError` where no point is within it.
    """
    te = np.where(table.latency_s <= bound_s, table.throughput / table.sm_percent, -np.inf)
    best = te.max()
    if best == -np.inf:
        raise ValueError(f"no point takes at most {bound_s:g} s")
    column = int(np.flatnonzero((te == best).any(axis=0))[0])
    row = int(np.flatnonzero(te[:, column] == best)[0])
    return Trial(int(table.batch[row]), float(table.sm_percent[column]), True, float(best))


def cheapest(table: ProfileTable, slo_s: float, load_rps: float) -> LoadChoice:
    """Return the batch and share that serve a load on the least of GPUs; ties: fewer instances.

    A batch takes at most half of the SLO, and all instances together serve the load; after the
    instances, ties go to the smaller batch. Raises `InfeasibleError` where no share meets the SLO.
    """
    points = [
        LoadChoice(
            load_rps=load_rps,
            instances=math.ceil(load_rps / table.throughput[row, column]),
            batch=int(table.batch[row]),
            request=float(table.sm_percent[column]) / 100,
            latency_s=float(table.latency_s[row, column]),
            throughput=float(table.throughput[row, column]),
        )
        for row, column in np.argwhere(table.latency_s <= slo_s / 2)
    ]
    if not points:
        raise _no_share(table, slo_s)
    return min(points, key=lambda choice: (round(choice.gpus, 9), choice.instances, choice.batch))


def rate_at(table: ProfileTable, percent: float, row: int = -1) -> float:
    """Return items per second on a share in percent, linear from 0 between the measured shares.

    A rate that falls where the share rises is raised to the rate before it.
    """
    rates = np.maximum.accumulate(table.throughput[row])
    points = np.concatenate([[0.0], table.sm_percent])
    return float(np.interp(percent, points, np.concatenate([[0.0], rates])))


def row_of_batch(table: ProfileTable, batch: int) -> int:
    """Return the row of the largest measured batch size that is not over ``batch``."""
    return max(int(np.searchsorted(table.batch, batch, side="right")) - 1, 0)


def search_training(table: ProfileTable, share: float) -> TrainingChoice:
    """Return the least share, to 5%, at which training keeps ``share`` of its full speed."""
    full = rate_at(table, 100)
    path = [(100.0, full)]
    low, high = 0.0, 100.0
    while True:
        middle = float(math.floor((low + high) / 2 / STEP) * STEP)
        if middle <= low:
            return TrainingChoice(high, tuple(path))
        speed = rate_at(table, middle)
        path.append((middle, speed))
        off = speed - share * full
        if abs(off) <= TOLERANCE * full or (share == 1 and off >= -TOLERANCE * full):
            return TrainingChoice(middle, tuple(path))
        if off < 0:
            low = middle
        else:
            high = middle


def reaction(table: ProfileTable) -> float:
    """Return the best rate over the worst across shares, at the largest batch."""
    rate = 1 / table.latency_s[-1]
    return float(rate.max() / rate.min())


def _no_share(table: ProfileTable, slo_s: float) -> InfeasibleError:
    best_ms = 1000 * float(table.latency_s[0].min())
    return InfeasibleError(
        f"{table.name}: no share meets an SLO of {1000 * slo_s:g} ms, which leaves "
        f"{500 * slo_s:g} ms for a batch; the best latency of batch {int(table.batch[0])} is "
        f"{best_ms:.1f} ms\n  next: --slo {math.ceil(2 * best_ms)}ms or more"
    )
