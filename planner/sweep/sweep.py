"""Many thresholds on one trace, at several capacities, prices and values of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.statistics.block_length import LEAST_BLOCKS, block_length
from gpuplan.analysis.statistics.bootstrap import draw_blocks
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.parallel import run_all
from gpuplan.planner.policies.allpass import check_fits, warnings_of
from gpuplan.planner.runs.panels import stacked
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.alternatives import TodaysCluster, rented_only, without_moves
from gpuplan.planner.sweep.recommendation import Case, Criteria, RentedChoice, choose, savings_of
from gpuplan.planner.sweep.reference_policy import ReferenceRun, replay_reference
from gpuplan.planner.sweep.scenario import SweepPoint, point_of, replay_scenario
from gpuplan.planner.sweep.ski_rental import SkiRental, serverful_price, ski_rental
from gpuplan.planner.sweep.verdict import ServerlessVerdict, judge
from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class SweepGrid:
    """The grid of a sweep; all combinations are replayed.

    Attributes:
        thresholds_s: fixed thresholds, seconds, to the microsecond; empty for the adaptive rule
            alone.
        adaptive: whether to include the adaptive rule.
        capacities: most workers rented at once, None for no limit; empty for the parameters' own.
        price_ratios: serverful over serverless price: all serverful prices are scaled until the
            median of the offers that the greatest capacity can take has that ratio; empty for the
            parameters' own. The closed form and the break-even of a smaller capacity are at the
            median of the offers that it can take itself.
        values_of_time: US dollars per hour of one job, for the choice; None for the rule of
            `gpuplan.planner.sweep.recommendation.NEARLY`.
    """

    thresholds_s: Sequence[float]
    adaptive: bool = True
    capacities: Sequence[int | None] = ()
    price_ratios: Sequence[float] = ()
    values_of_time: Sequence[float | None] = (None,)

    def scenarios(self, base: Allpass) -> list[Allpass]:
        """Return the replays it takes: per capacity the thresholds, then the adaptive rule.

        Raises:
            ValueError: the grid is empty.
        """
        fixed = sorted({round(threshold_s, 6) for threshold_s in self.thresholds_s})
        rules = [replace(base, controller="fixed", threshold_s=each) for each in fixed]
        if self.adaptive:
            rules.append(replace(base, controller="adaptive"))
        if not rules or not self.values_of_time:
            raise ValueError("nothing to sweep: no threshold and no adaptive rule, or no case")
        capacities = list(dict.fromkeys(self.capacities)) or [base.capacity]
        capacities.sort(key=lambda most: np.inf if most is None else most)
        return [replace(rule, capacity=most) for most in capacities for rule in rules]


@dataclass(frozen=True, slots=True)
class Sweep:
    """All replays of a sweep, and their recommendations.

    Attributes:
        points: for each price ratio and capacity the fixed thresholds, ascending, then the adaptive
            one.
        reference: everything serverless, which competes too.
        span_s: time from the first submission to the last, seconds.
        cases: the choice at each price ratio and value of time; the first is the headline.
        warnings: caveats for the reader.
        against: the reference of the choices, such as today's scheduler; None for none.
        all_rented: everything on rented workers at each price ratio, with the greatest capacity;
            empty where a job needs more workers than that.
        verdict: whether serverless pays in the first case; None without ``all_rented``.
        window_s: first submission to last submission or end, which bills are scaled by to a month.
        today: what the log shows; None where it was not given.
        cluster: today's cluster; None where its size is not known.
        mix: GPU-hours on other GPU types than the one priced; None if there are none.
        mean_usd: the price of every GPU on demand, where GPUs of several types cost their mean.
        has_deadlines: whether the deadlines are the log's own or were requested.
    """

    points: tuple[SweepPoint, ...]
    reference: SweepPoint
    span_s: float
    cases: tuple[Case, ...]
    warnings: tuple[str, ...]
    against: ReferenceRun | None = None
    all_rented: tuple[SweepPoint, ...] = ()
    verdict: ServerlessVerdict | None = None
    window_s: float | None = None
    today: Today | None = None
    cluster: TodaysCluster | None = None
    mix: GpuMix | None = None
    mean_usd: float | None = None
    has_deadlines: bool = True

    def usd_per_month(self, usd: float) -> float | None:
        """Return the bill of the window scaled to a month of 730.5 hours; None without a window."""
        window_h = (self.window_s or 0.0) / HOUR_S
        return usd / window_h * MONTH_H if window_h else None

    @property
    def rented(self) -> SweepPoint | None:
        """Everything on rented workers at the prices of the first case, if it can be."""
        return self.all_rented[0] if self.all_rented else None

    @property
    def recommended(self) -> SweepPoint:
        """What to take in the first case: a point, everything rented or everything serverless."""
        return self.recommended_in(self.cases[0])

    def chosen(self, case: Case) -> SweepPoint:
        """Return the best threshold of a case, or everything serverless."""
        return self.point(case.best)

    def recommended_in(self, case: Case) -> SweepPoint:
        """Return what to take in a case: `chosen`, or everything on rented workers."""
        return self.chosen(case) if case.rented is None else case.rented.point

    def point(self, index: int | None) -> SweepPoint:
        """Return a point of a case; None is the reference."""
        return self.reference if index is None else self.points[index]

    def case_of(self, point: SweepPoint) -> Case:
        """Return the first case at the prices of a point, the one that marks it."""
        return next(case for case in self.cases if case.price_ratio == point.price_ratio)

    def marks(self, index: int) -> dict[str, bool]:
        """Return the labels of a point in the first case at its prices."""
        case = self.case_of(self.points[index])
        return {
            "non_dominated": index in case.non_dominated,
            "knee": index == case.knee,
            "recommended": index == case.best and case.rented is None,
        }

    def timeline(self) -> pl.DataFrame:
        """Return the time lines of all points, everything serverless and the reference, if kept.

        ``point`` is the row of `sweep_frame`; null for the last two, named by ``policy``: for the
        reference this is its label.
        """
        rows = [(index, point.policy, point) for index, point in enumerate(self.points)]
        reference_run = self.against
        last = {"point": None, "capacity": None, "price_ratio": None}
        lines = stacked(
            [
                (
                    {
                        "point": index,
                        "policy": policy,
                        "capacity": point.capacity,
                        "price_ratio": point.price_ratio,
                    },
                    point.timeline,
                )
                for index, policy, point in [*rows, (None, "serverless_only", self.reference)]
            ]
            + (
                []
                if reference_run is None
                else [(last | {"policy": reference_run.label}, reference_run.timeline)]
            )
        )
        return lines.cast({"point": pl.Int64, "capacity": pl.Int64})  # also where all are null


def sweep(
    jobs: TraceJobs,
    base: Allpass,
    grid: SweepGrid,
    rng: np.random.Generator,
    *,
    against: PolicySpec | None = None,
    level: float | None = None,
    resamples: int = RESAMPLES,
    timelines: bool = False,
    engine: Engine = THREADS,
    progress: Callable[[float], None] | None = None,
) -> Sweep:
    """Replay jobs under each threshold and capacity, and choose at each price and value of time.

    All replays have the same start-up times and resamples, so that they differ by what the grid
    changes alone. Prices and values of time take no replays.

    Args:
        jobs: the jobs.
        base: all other parameters; its threshold is the adaptive rule's first.
        grid: thresholds, capacities, prices and values of time.
        rng: draws the start-up times and the resamples.
        against: a policy to compare the choices with, replayed once at its own prices.
        level: percent of the confidence intervals of the choice; None for none. Fewer jobs than
            `LEAST_BLOCKS` have none, and a warning says so.
        resamples: how many for that.
        timelines: whether to keep the time line of each replay.
        engine: where the replays run; the result does not depend on it.
        progress: called with the share done.

    Raises:
        ValueError: the grid is empty.
        UsageError: a job is wider than the serverless limit; a price ratio without prices; the
            engine is not there; ``against`` cannot run these jobs.
    """
    scenarios = grid.scenarios(base)
    check_fits(jobs, base)
    greatest = _greatest(scenarios)
    _check_ratios(grid.price_ratios, base, serverful_price(replace(base, capacity=greatest)))
    as_it_was = deepcopy(rng)
    draws = Draws.sample(base, jobs.workload.size, rng)
    block_jobs = _block_jobs(jobs.workload)
    blocks, few = None, level is not None and jobs.workload.size < LEAST_BLOCKS
    if few:
        level = None
    if level is not None:
        blocks = draw_blocks(jobs.workload.size, block_jobs, resamples, rng.spawn(1)[0])
    reference_run = None
    if against is not None:
        reference_run = replay_reference(against, jobs, as_it_was, blocks, timelines)
    everything = replace(base, controller="fixed", threshold_s=np.inf)
    bare = replace(jobs, job_id=jobs.job_id.clear())
    *replayed, alone = run_all(
        replay_scenario,
        [*scenarios, everything],
        shared=(bare, draws, blocks, timelines),
        engine=engine,
        progress=progress,
    )
    forms = {rules.capacity: ski_rental(jobs.workload, rules) for rules in _one_each(scenarios)}
    set_ratio = forms[greatest].price_ratio
    alone_usd = alone.results.cost_usd
    reference = point_of(alone, forms[greatest], set_ratio, 1.0, alone_usd)
    on_workers = None
    if greatest is None or int(jobs.workload.gpus.max()) <= greatest:
        rules, own_draws = (
            rented_only(replace(base, capacity=greatest)),
            replace(draws, container_us=np.zeros_like(draws.container_us)),
        )
        on_workers = replay_scenario(rules, without_moves(bare), own_draws, blocks, timelines)
    points: list[SweepPoint] = []
    cases: list[Case] = []
    all_rented: dict[float, SweepPoint] = {}
    for ratio in dict.fromkeys(grid.price_ratios or (set_ratio,)):
        begin, factor = len(points), 1.0 if ratio == set_ratio else ratio / set_ratio
        at_ratio = {most: _scaled(form, factor, ratio, set_ratio) for most, form in forms.items()}
        points += [
            point_of(each, at_ratio[each.parameters.capacity], ratio, factor, alone_usd)
            for each in replayed
        ]
        if on_workers is not None:
            form = at_ratio[greatest]
            all_rented[ratio] = point_of(on_workers, form, ratio, factor, alone_usd)
        cases += [
            choose(
                points,
                range(begin, len(points)),
                reference,
                at_ratio,
                greatest,
                Criteria(value_of_time, level, block_jobs, reference_run),
                all_rented.get(ratio),
            )
            for value_of_time in dict.fromkeys(grid.values_of_time)
        ]
    verdict = None
    if on_workers is not None:
        for place, case in enumerate(cases):
            ratio = case.price_ratio
            factor = 1.0 if ratio == set_ratio else ratio / set_ratio
            form = _scaled(forms[greatest], factor, ratio, set_ratio)
            workers = all_rented[ratio]
            at_prices = [point for point in points if point.price_ratio == ratio]
            best = reference if case.best is None else points[case.best]
            blocks_of = -(-jobs.workload.size // block_jobs)
            judged = judge(case, at_prices, best, reference, workers, level, blocks_of)
            if judged.takes_rented:
                choices = [reference, workers, *at_prices]
                criteria = Criteria(case.value_of_time, level, block_jobs, reference_run)
                savings = savings_of(choices, 1, case.closed_form.jobs, criteria)
                form = form.at(form.price_ratio, case.value_of_time or 0.0)
                cases[place] = replace(
                    case, rented=RentedChoice(workers, savings), closed_form=form
                )
            verdict = verdict or judged
    first = cases[0].best
    recommended, its_rules = (
        (reference, everything) if first is None else (points[first], replayed[first].parameters)
    )
    if cases[0].rented is not None and on_workers is not None:
        recommended, its_rules = cases[0].rented.point, on_workers.parameters
    measured = fields_of(recommended.results)
    return Sweep(
        points=tuple(points),
        reference=reference,
        span_s=jobs.span_s,
        cases=tuple(cases),
        warnings=(
            *warnings_of(its_rules, measured, its_rules.move_s(jobs.workload)),
            *(reference_run.warnings if reference_run else ()),
            *([_too_few(jobs.workload.size)] if few else []),
        ),
        against=reference_run,
        all_rented=tuple(all_rented.values()),
        verdict=verdict,
    )


def _block_jobs(workload: Workload) -> int:
    """Return the jobs in a block, from their run times, GPU time and gaps."""
    service_s = workload.service_us / MICROS
    return block_length(
        service_s, service_s * workload.gpus, np.diff(workload.submit_us, prepend=0) / MICROS
    )


def _too_few(jobs: int) -> str:
    """Return why the choice has no confidence intervals."""
    many = "1 job is" if jobs == 1 else f"{jobs} jobs are"
    return f"{many} too few for an interval or a 'best in'; expected {LEAST_BLOCKS} or more"


def _greatest(scenarios: Sequence[Allpass]) -> int | None:
    """Return the greatest capacity of all replays; None if one has no limit."""
    capacities = [rules.capacity for rules in scenarios]
    return None if None in capacities else max(most for most in capacities if most is not None)


def _one_each(scenarios: Sequence[Allpass]) -> list[Allpass]:
    """Return one of the replays of each capacity."""
    return list({rules.capacity: rules for rules in scenarios}.values())


def _scaled(form: SkiRental, factor: float, ratio: float, set_ratio: float) -> SkiRental:
    """Return the closed form of a capacity with all serverful prices multiplied by a factor.

    If its own ratio is that of the greatest capacity, it has exactly the wanted ratio.
    """
    wanted = ratio if form.price_ratio == set_ratio else form.price_ratio * factor
    return form.at(wanted, form.value_of_time)


def _check_ratios(ratios: Sequence[float], base: Allpass, serverful_usd: float) -> None:
    if any(not 0 < ratio < np.inf for ratio in ratios):
        raise UsageError("--price-ratio: expected numbers above 0")
    if ratios and not (base.serverless_price > 0 and serverful_usd > 0):
        raise UsageError("--price-ratio: needs a serverless and a serverful price above 0")
