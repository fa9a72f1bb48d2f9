"""The size and the commitment of one pool of GPUs: search, curve, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from msgspec import UNSET

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS, MONTH_H
from gpuplan.analysis.characterize.today import GpuUsage, Today
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.contracts import PaidPool
from gpuplan.planner.money.commitment import CommitmentPlan, CommitmentResult, combined
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.requests.size_texts import SizeRange
from gpuplan.planner.runs.gpu_intervals import GpuInterval, Resampling
from gpuplan.planner.site.effects import chance_of
from gpuplan.planner.site.fidelity import NOT_REPLAYED, SITE_RULES, Fidelity, unknown
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.sizing.search import Candidates, Sizes, interval_of, smallest
from gpuplan.planner.sizing.sized_replay import ReplayTerms, SizedReplay, UnclearSizes
from gpuplan.planner.sizing.targets import SLOWDOWN, whole_multiple
from gpuplan.planner.studies.size_results import (
    SizePoint,
    SizePool,
    SizeResults,
    SizeToday,
    TargetResult,
)
from gpuplan.simkit.limits import MOST_GPUS

ALL = "all"
CURVE = (0.7, 0.8, 0.9, 1.1, 1.25, 1.5)
"""Sizes of the curve where none are asked for, times the size found."""
SHORT_CURVE = (0.8, 0.9, 1.1, 1.25)
"""The same for a long log."""


class TypeAnswer:
    """The answer for the GPUs of one type; `run` fills it in.

    Attributes:
        request: what was asked for.
        sizes: the candidates.
        price: of a GPU-hour; None where nothing gives one and no size is replayed.
        paid: GPUs owned and committed to, at their own prices; the price is of those above them.
        other_usd_per_h: of GPUs owned and committed to of types that no job has.
        name: the GPU type, ``all`` where the log has one.
        seen: what the log shows.
        usage: what it shows of these GPUs.
        is_one: whether there is no other type.
        each: GPUs of a node; None where nodes do not matter.
        today_gpus: of today's cluster; None where unknown.
        widest: GPUs of the widest job.
        jobs: whose waits count.
        window_s: length of the window of the log.
        fidelity: how a replay of today compares with the log.
        may_speak: whether a size may be named.
        gpus, interval, unclear, points: the answer.
    """

    def __init__(
        self,
        request: SizeRequest,
        sizes: Candidates,
        price: Price | None,
        name: str,
        seen: Today,
        *,
        is_one: bool,
        paid: Sequence[PaidPool] = (),
    ) -> None:
        self.request, self.sizes, self.price, self.is_one = request, sizes, price, is_one
        self.name, self.seen, self.paid = name, seen, paid
        self.other_usd_per_h = 0.0
        self.usage: GpuUsage = seen.usage
        self.each: int | None = None
        self.today_gpus: int | None = None
        self.widest = 0
        self.jobs, self.window_s = 0, 0.0
        self.fidelity: Fidelity = unknown(NOT_REPLAYED)
        self.may_speak = True
        self.gpus: int | None = None
        self.interval: GpuInterval | None = None
        self.unclear: UnclearSizes | None = None
        self.points: tuple[SizePoint, ...] = ()

    def nodes(self, gpus: int) -> int | None:
        """Return the nodes of so many GPUs."""
        return None if self.each is None else gpus // self.each

    def month_usd(self, gpus: float) -> float:
        """Return what GPUs cost a month, busy or not; those paid for anyway cost it in any case."""
        assert self.price is not None  # sizes have a price
        above = max(gpus - sum(pool.gpus for pool in self.paid), 0)
        anyway = float(sum(pool.gpus * pool.usd_per_gpu_h for pool in self.paid))
        usd_per_h = anyway + above * self.price.usd_per_gpu_h + self.other_usd_per_h
        return usd_per_h * MONTH_H

    def over_today_usd(self, gpus: int) -> float | None:
        """Return what GPUs cost a month more than today's; None where these have no cost."""
        usd = self.today().usd_per_month
        return None if usd is None else self.month_usd(gpus) - usd

    def run(self, *, may_speak: bool = True) -> None:
        """Search, and replay the sizes to show; only the latter where no size may be named."""
        request, self.may_speak = self.request, may_speak
        requested = wanted = self._requested()
        if request.target and not may_speak:
            around = self.fidelity.cluster_gpus or self.today_gpus or self.sizes.least
            wanted = requested or self._curve(whole_multiple(around, self.sizes.step))
        answer = smallest(self.sizes) if request.target and may_speak else 0
        while True:
            if answer:
                self.gpus = answer
                wanted = self._curve(answer) if request.gpus is None else {*requested, answer}
            replays = self.sizes.at(sorted(wanted))
            if answer and request.level is not None:
                self.interval = interval_of(self.sizes, answer)
            better = [
                replay.gpus
                for replay in self.sizes.replays.values()
                if replay.meets and self._is_less(replay, answer)
            ]
            if not better:
                break
            answer = min(better)  # another schedule is better with far fewer GPUs
        self.points = tuple(self._points(replays))

    def _is_less(self, replay: SizedReplay, answer: int) -> bool:
        return replay.gpus < answer and replay.gpus % self.sizes.step == 0

    def _requested(self) -> set[int]:
        """Return the sizes of ``--gpus``. Raises `InfeasibleError` where one cannot hold a job."""
        sizes, step = self.request.gpus, self.sizes.step
        if sizes is None:
            return set()
        if isinstance(sizes, SizeRange):
            even = np.linspace(sizes.low, sizes.high, sizes.count).tolist()
            sizes = tuple(whole_multiple(gpus, step) for gpus in even)
        self.check_sizes(sizes)
        return set(sizes)

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Refuse requested sizes that cannot be replayed. Raises `GpuplanError`."""

    def _curve(self, answer: int) -> set[int]:
        """Return sizes around the one found, the next smaller one, and today's."""
        step, least = self.sizes.step, self.sizes.least
        top = min(max(self.sizes.enough(), answer), MOST_GPUS)
        factors = SHORT_CURVE if self.sizes.is_long else CURVE
        around = {whole_multiple(answer * factor, step) for factor in factors}
        here = {answer, answer - step, top, *around}
        if self.today_gpus is not None and self.today_gpus % step == 0:
            here.add(self.today_gpus)
            top = max(top, self.today_gpus)
        return {gpus for gpus in here if least <= gpus <= top} | {answer}

    def _points(self, replays: Sequence[SizedReplay]) -> list[SizePoint]:
        window_h = self.window_s / HOUR_S
        jobs_a_month = self.jobs / window_h * MONTH_H if window_h else 0.0
        points: list[SizePoint] = []
        before: SizedReplay | None = None
        for replay in replays:
            usd = self.month_usd(replay.gpus)
            saved = None
            if before is not None:
                less_s = before.waits["mean_wait_s"] - replay.waits["mean_wait_s"]
                hours = less_s / HOUR_S * jobs_a_month
                if less_s > _chance_s(before, replay) and hours > 0:
                    saved = (usd - points[-1].usd_per_month) / hours
            before = replay
            points.append(
                SizePoint(
                    gpu_type=None if self.is_one else self.name,
                    gpus=replay.gpus,
                    nodes=self.nodes(replay.gpus),
                    **replay.waits,
                    mean_slowdown=replay.mean_slowdown,
                    utilization=replay.utilization,
                    usd_per_month=usd,
                    meets=replay.meets if self.request.target and self.may_speak else None,
                    target_values=replay.target_values,
                    target_errors=replay.target_errors,
                    usd_per_wait_h_saved=saved,
                    mean_wait_interval_s=replay.mean_wait_interval,
                    p95_wait_interval_s=replay.p95_wait_interval,
                    groups=replay.groups or UNSET,
                )
            )
        return points

    def today(self) -> SizeToday:
        """Return what the log shows of these GPUs."""
        seen, usage, gpus = self.seen, self.usage, self.today_gpus
        window_h = seen.window_s / HOUR_S
        return SizeToday(
            cluster_gpus=gpus,
            mean_gpus=usage.gpu_h / window_h if window_h else usage.mean_gpus,
            peak_gpus=usage.peak_gpus,
            mean_wait_s=seen.mean_wait_s,
            p95_wait_s=seen.p95_wait_s,
            usd_per_month=None if None in (gpus, self.price) else self.month_usd(gpus or 0),
        )

    @property
    def no_wait_gpus(self) -> int | None:
        """The fewest GPUs at which no job waits for another."""
        return self.sizes.enough()

    @property
    def commitment(self) -> CommitmentResult | None:
        """GPUs to commit to; None where no prices of commitments are given."""
        return None

    def _usd_per_gpu_h(self) -> float | None:
        if self.price is None or not self.gpus or not self.paid:
            return None if self.price is None else self.price.usd_per_gpu_h
        return self.month_usd(self.gpus) / self.gpus / MONTH_H

    def result(self) -> SizePool:
        """Return the pool as JSON has it."""
        gpus, interval = self.gpus, self.interval
        top = None if interval is None else self.sizes.replays.get(interval.high_gpus)
        return SizePool(
            name=self.name,
            jobs=self.jobs,
            usd_per_gpu_h=self._usd_per_gpu_h(),
            gpus=gpus,
            nodes=None if gpus is None else self.nodes(gpus),
            usd_per_month=None if gpus is None else self.month_usd(gpus),
            utilization=None if gpus is None else self.sizes.at_size(gpus).utilization,
            over_today_usd_per_month=None if gpus is None else self.over_today_usd(gpus),
            interval=interval,
            interval_is_open=top is not None and not top.surely_meets,
            unclear=self.unclear,
            widest_job_gpus=self.widest,
            no_wait_gpus=self.no_wait_gpus,
            today=self.today(),
            commitment=self.commitment,
            fidelity=self.fidelity,
        )


def _chance_s(smaller: SizedReplay, larger: SizedReplay) -> float:
    """Return the seconds by which mean waits of two sizes may differ by chance of the replays."""
    differences = np.subtract(smaller.mean_waits_s, larger.mean_waits_s)
    if differences.size < 2:
        return 0.0
    return chance_of(float(differences.std(ddof=1)), differences.size)


def results_of(
    request: SizeRequest,
    answers: Sequence[TypeAnswer],
    pools: tuple[SizePool, ...],
    today: SizeToday,
    fidelity: Fidelity,
) -> SizeResults:
    """Return the results of pools that are alternatives, under a site's rules; only one has a size.

    Args:
        request: what was asked for.
        answers: of the pools.
        pools: their results.
        today: of several pools.
        fidelity: of all of them.
    """
    first, is_one = pools[0], len(pools) == 1
    values: tuple[float | None, ...] = (None,) * len(request.target)
    if is_one and first.gpus is not None:
        values = answers[0].sizes.at_size(first.gpus).target_values
    return SizeResults(
        gpus=first.gpus if is_one else None,
        nodes=first.nodes if is_one else None,
        usd_per_month=first.usd_per_month if is_one else None,
        interval=first.interval if is_one else None,
        policy=SITE_RULES,
        growth=request.grown,
        jobs=first.jobs,
        targets=tuple(
            TargetResult(target.text, target.limit, value)
            for target, value in zip(request.targets(), values, strict=True)
        ),
        points=tuple(point for answer in answers for point in answer.points),
        pools=pools,
        today=first.today if is_one else today,
        commitment=combined(pool.commitment for pool in pools),
        fidelity=fidelity,
    )


class PoolAnswer(TypeAnswer):
    """The answer for the GPUs of one type, whose jobs run on no other."""

    def __init__(
        self,
        request: SizeRequest,
        pool: JobPool,
        price: Price | None,
        plan: CommitmentPlan | None,
        *,
        is_one: bool,
        paid: Sequence[PaidPool] = (),
    ) -> None:
        each = pool.gpus_per_node
        level, seed, step = request.level, request.replay.jobs.seed, request.cluster_step
        resampling = None if level is None else Resampling(level, request.resamples, seed)
        _, draws = np.random.default_rng(seed).spawn(2)  # as every replay draws
        option = "--gpus" if step is None else "--cluster-step"
        terms = ReplayTerms(request.spec(), draws, each, request.targets(), resampling, option)
        sizes = Sizes(pool.jobs, terms, step or each or 1, request.engine)
        name = ALL if is_one else pool.gpu_type or UNNAMED
        super().__init__(request, sizes, price, name, pool.seen, is_one=is_one, paid=paid)
        self.pool, self.plan, self.resampling, self.each = pool, plan, resampling, each
        self.today_gpus = None if pool.shape is None else pool.shape.gpus
        self.jobs, self.window_s = pool.jobs.workload.size, pool.window_us / MICROS
        self.widest = int(pool.jobs.workload.gpus.max())

    @property
    def meets_today(self) -> bool | None:
        """Whether the recorded waits meet all targets; None where none is recorded."""
        jobs = self.pool.jobs
        waits = jobs.recorded_wait_s
        if waits is None or np.isnan(waits).all():
            return None
        run_s = jobs.workload.service_us / MICROS
        recorded = ~np.isnan(waits)
        runs = recorded & (run_s > 0)
        slowdown, waits = (waits[runs] + run_s[runs]) / run_s[runs], waits[recorded]
        return all(
            target.is_met(target.value(slowdown if target.quantity == SLOWDOWN else waits))
            for target in self.request.targets()
        )

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Raise `InfeasibleError` where a requested size cannot hold a job."""
        small = [gpus for gpus in sizes if gpus < self.widest]
        if small:
            raise InfeasibleError(
                f"--gpus {small[0]:,}: a job needs {self.widest:,} GPUs at once"
                f"{'' if self.is_one else f' on {self.name}'} and would never start\n"
                f"  next: sizes of {self.sizes.least:,} or more, or leave wide jobs out with "
                "--where"
            )

    @cached_property
    def commitment(self) -> CommitmentResult | None:
        """GPUs to commit to; None where no prices of commitments are given, or none is named."""
        if self.plan is None or not self.may_speak:
            return None
        low, high = (Fraction(str(growth)) for growth in self.request.growths)
        return self.plan.result((low, high), self.resampling)
