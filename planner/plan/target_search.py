"""More commitments than the cheapest plan has, where a target of times needs fewer waits.

A job waits while GPUs on demand are started. With more GPUs committed to fewer jobs wait, and
with all of them none does. The least part of the way from the cheapest plan to the peak that meets
the target is looked for by halving, each time with a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.purchase import SLACK_OF_TIME, Purchase
from gpuplan.planner.plan.refusals import fastest_s
from gpuplan.planner.plan.replay import PlanRun
from gpuplan.planner.plan.targets import MEAN_WAIT_TARGET, TimeTarget, time_above, time_text
from gpuplan.simkit.arrays import FloatArray

HALVINGS = 5
MOST_PEAKS = 4
"""Times that commitments are raised by what is still rented, for a plan that rents nothing."""

Replayed = Callable[[PlanProgram], tuple[Purchase, PlanRun]]
"""Solves a program and replays its plan. Raises `InfeasibleError`."""


@dataclass(frozen=True, slots=True)
class TargetSearch:
    """A search for commitments that meet a target.

    Attributes:
        program: its limit on the mean time counts no waits.
        target: of times.
        limit_s: its bound.
        replayed: solves a program and replays its plan.
    """

    program: PlanProgram
    target: TimeTarget
    limit_s: float
    replayed: Replayed

    def found(self, cheapest: tuple[Purchase, PlanRun]) -> Purchase:
        """Return the plan with the fewest commitments that meets the target in its replay.

        Args:
            cheapest: a plan that does not meet it, with its replay.

        Raises:
            InfeasibleError: none was found; the message has a bound that a replay met.
        """
        least = cheapest[0].whole.committed
        most, fastest = self._fastest(*cheapest)
        met = self._met_with(most)
        if met is None and self._meets(fastest[1]):
            met = fastest[0]
        if met is None:
            raise self._refused(fastest)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS if (most > least).any() else 0):
            middle = (low + high) / 2
            plan = self._met_with(self._between(least, most, middle))
            low, high = (middle, high) if plan is None else (low, middle)
            met = plan or met
        return met

    def _meets(self, run: PlanRun) -> bool:
        return run.measured_s(self.target) <= self.limit_s

    def _between(self, least: FloatArray, most: FloatArray, part: float) -> FloatArray:
        """Return commitments in whole nodes, part of the way from some to others."""
        markets = self.program.columns.markets
        return np.array(
            [
                min(high, low + ceil(part * max(0.0, high - low) / market.step) * market.step)
                for market, low, high in zip(markets, least, most, strict=True)
            ]
        )

    def _fastest(
        self, bought: Purchase, run: PlanRun
    ) -> tuple[FloatArray, tuple[Purchase, PlanRun]]:
        """Return commitments that cover the peak, as far as may be, and the fastest plan there.

        It does not depend on the bound of the target: every class is on its fastest routes.
        """
        rate = self.program.columns.rate_per_s
        limits = self.program.limits
        if rate.size:
            mean_s = float(rate @ fastest_s(self.program) / rate.sum()) * (1 + SLACK_OF_TIME)
            limits = replace(limits, mean_time_s=mean_s, wait_s=0.0)
        program = replace(self.program, limits=limits)
        floor = np.zeros(len(run.types))
        result = self.replayed(program)
        for _ in range(MOST_PEAKS):
            peak = self._covering(*result)
            if (peak <= floor).all():
                break
            floor = np.maximum(floor, peak)
            try:
                result = self.replayed(replace(program, least_committed=floor))
            except InfeasibleError:  # over a budget
                break
        return np.maximum(floor, bought.whole.committed), result

    def _covering(self, bought: Purchase, run: PlanRun) -> FloatArray:
        """Return commitments with what a replay rents at most, as far as a cap lets them."""
        covering = bought.whole.committed.copy()
        for number, (market, of) in enumerate(
            zip(self.program.columns.markets, run.types, strict=True)
        ):
            if market.committed_usd is None:
                continue
            most = market.most_committed
            all_of_it = covering[number] + of.run.peak_leased
            all_of_it = ceil(all_of_it / market.step) * market.step
            if most is not None:
                all_of_it = min(all_of_it, most // market.step * market.step)
            covering[number] = max(covering[number], all_of_it)
        return covering

    def _met_with(self, committed: FloatArray) -> Purchase | None:
        """Return the plan with so many GPUs committed to or more; None where it misses."""
        limits = self.program.limits
        program = replace(self.program, least_committed=committed)
        try:
            bought, run = self.replayed(program)
            if self._meets(run):
                return bought
            wait_s = run.measured_s(MEAN_WAIT_TARGET)
            if self.target.is_of_waits or limits.mean_time_s is None or not wait_s:
                return None
            tighter = replace(limits, mean_time_s=limits.mean_time_s - wait_s, wait_s=wait_s)
            bought, run = self.replayed(replace(program, limits=tighter))
        except InfeasibleError:
            return None
        return bought if self._meets(run) else None

    def _refused(self, fastest: tuple[Purchase, PlanRun]) -> InfeasibleError:
        """Return the refusal, with what the fastest plan came to in its replay."""
        bought, run = fastest
        columns = self.program.columns
        least_s = run.measured_s(self.target)
        excess = [
            float((run.wait_s if self.target.is_of_waits else run.time_s)[each.jobs].sum())
            - (0.0 if self.target.is_of_waits else each.recorded_s * each.jobs.size)
            for each in columns.classes
        ]
        longest = columns.classes[int(np.argmax(excess))]
        rented = sum(of.run.peak_leased for of in run.types)
        why = (
            f"up to {rented:,} GPUs are still rented on demand and start late"
            if rented
            else "no GPUs are rented"
        )
        committed = f"{bought.all_committed.sum():,.10g} GPUs committed"
        return InfeasibleError(
            f"--target: no plan was found with {self.target.measure} <= {time_text(self.limit_s)}: "
            f"the fastest, with {committed}, has {time_text(least_s)} in its replay; {why}, "
            f"and the jobs of {longest.name} weigh most\n"
            f"  next: --target '{self.target.measure} <= {time_above(least_s)}', a larger "
            "--cluster, or a shorter --provision-delay"
        )
