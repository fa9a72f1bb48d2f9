"""How many GPUs to commit to, where others can be rented on demand.

The GPUs in use over time are those of the bill's history, each run as recorded. GPUs that are owned
take work first. A committed GPU is paid all the time, one on demand only while it is in use. The
cost is convex in the commitment, and least at the (1 - committed / on-demand price) quantile over
time of the GPUs in use above the owned ones (the newsvendor's critical fractile).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor

from gpuplan.analysis.base.time_units import HOUR_US, MONTH_H
from gpuplan.planner.money.commitment_interval import commitment_interval
from gpuplan.planner.money.commitment_texts import TermOffer
from gpuplan.planner.money.gpus_in_use import GpusInUse, LevelTimes
from gpuplan.planner.runs.gpu_intervals import GpuInterval, Resampling

MONTH = Fraction(str(MONTH_H))
CURVE_SHARES = tuple(Fraction(share, 100) for share in (50, 75, 90, 110, 125, 150))
"""Counts of the curve, times the optimum, besides 0, today's, the optimum and its neighbors."""
LINE_POINTS = 200


@dataclass(frozen=True, slots=True)
class CommitmentPoint:
    """What one number of committed GPUs costs.

    Attributes:
        gpu_type: ``all`` where the log names none.
        gpus: committed.
        usd_per_month: of them and of what is on demand.
        coverage_share: share of the GPU time in use that they cover, owned GPUs left out; null
            where nothing is in use.
        utilization: share of their time in use; null for none.
        worst_month: the whole month with most dollars; null where the log has none.
        worst_month_usd: its dollars.
    """

    gpu_type: str
    gpus: int
    usd_per_month: float
    coverage_share: float | None
    utilization: float | None
    worst_month: str | None
    worst_month_usd: float | None


@dataclass(frozen=True, slots=True)
class TermResult:
    """The cheapest commitment for one term, and when it has paid for itself.

    Attributes:
        gpu_type: ``all`` where the log names none.
        name: the term, such as ``3y``.
        months: its length.
        usd_per_gpu_h: its price.
        committed_gpus: the cheapest number.
        usd_per_month: of them and of what is on demand.
        term_usd: what they cost in the whole term, used or not.
        break_even_month: months after which they have cost no more than the same use on demand,
            even if they then idle to the end; null where that is not within the term.
        growth: the range of use, 0.2 for 20% more than recorded, of the two that follow.
        low_growth_break_even_month, high_growth_break_even_month: the same at the ends of it.
    """

    gpu_type: str
    name: str
    months: int
    usd_per_gpu_h: float
    committed_gpus: int
    usd_per_month: float
    term_usd: float
    break_even_month: float | None
    growth: tuple[float, float]
    low_growth_break_even_month: float | None
    high_growth_break_even_month: float | None


@dataclass(frozen=True, slots=True)
class CommitmentResult:
    """GPUs to commit to where on-demand GPUs fill in and no job waits.

    Attributes:
        committed_gpus: paid all the time.
        on_demand_mean_gpus, on_demand_peak_gpus: rented beside them.
        usd_per_month: of both.
        all_committed_usd_per_month: of as many committed GPUs as are in use at once.
        all_on_demand_usd_per_month: of the same jobs without a commitment.
        coverage_share: share of the GPU time in use that runs on committed GPUs.
        utilization: share of the committed GPU time that is in use; null without a commitment.
        interval: of the commitment; null without one, or with several GPU types.
        commit_usd_per_gpu_h, on_demand_usd_per_gpu_h: the prices; null with several GPU types.
        owned_gpus: that take work first. Their use and dollars are in none of these numbers.
        today_gpus: committed to today; null where not known.
        today_until: the day on which the last commitment of today ends, from which fewer can
            apply; null where the price book names none, or with several GPU types.
        today_usd_per_month: of these, at their own prices, and of what is on demand beside them.
        today_over_optimum_usd_per_month: what they cost more than the optimum.
        break_even_share: share of its term after which the commitment has cost no more than the
            same use on demand; null for none.
        curve: dollars by number of committed GPUs, by GPU type.
        terms: the cheapest commitment for each term, by GPU type.
    """

    committed_gpus: int
    on_demand_mean_gpus: float
    on_demand_peak_gpus: int
    usd_per_month: float
    all_committed_usd_per_month: float
    all_on_demand_usd_per_month: float
    coverage_share: float | None
    utilization: float | None
    interval: GpuInterval | None
    commit_usd_per_gpu_h: float | None = None
    on_demand_usd_per_gpu_h: float | None = None
    owned_gpus: int = 0
    today_gpus: int | None = None
    today_until: str | None = None
    today_usd_per_month: float | None = None
    today_over_optimum_usd_per_month: float | None = None
    break_even_share: float | None = None
    curve: tuple[CommitmentPoint, ...] = ()
    terms: tuple[TermResult, ...] = ()


@dataclass(frozen=True)
class CommitmentPlan:
    """The dollars of every commitment on one GPU type.

    Attributes:
        use: GPUs in use over time; some time passes.
        gpu_type: for people.
        offers: prices of committed GPU-hours; the first one is that of the curve.
        on_demand_usd: dollars of a GPU-hour on demand.
        owned_gpus: that take work first; their own dollars are left out.
        in_force: GPUs and dollars per GPU-hour of each commitment of today; None where not known.
        in_force_until: the day on which the last of these ends; empty where none is known.
        months: name of each whole month of the window, and its begin and end after that of the
            window, microseconds.
    """

    use: GpusInUse
    gpu_type: str
    offers: tuple[TermOffer, ...]
    on_demand_usd: Fraction
    owned_gpus: int = 0
    in_force: tuple[tuple[int, Fraction], ...] | None = None
    in_force_until: str = ""
    months: Sequence[tuple[str, int, int]] = ()

    @property
    def most_gpus(self) -> int:
        """The most GPUs in use at once above the owned ones."""
        return max(0, self.use.peak - self.owned_gpus)

    @cached_property
    def _used(self) -> Fraction:
        """GPUs in use above the owned ones, mean."""
        return self._mean(self.use.levels.gpu_us() - self.use.levels.gpu_us(self.owned_gpus))

    def _mean(self, gpu_us: Fraction) -> Fraction:
        return gpu_us / self.use.window_us

    def covered_gpus(self, gpus: int, growth: Fraction = Fraction(0)) -> Fraction:
        """Return how many of so many committed GPUs are in use, mean.

        Args:
            gpus: committed.
            growth: of the use at every time; above -1.
        """
        times = 1 + growth
        bounds = (self.owned_gpus, self.owned_gpus + gpus)
        low, high = (self.use.levels.gpu_us(bound / times) for bound in bounds)
        return self._mean((high - low) * times)

    def optimum(self, offer: TermOffer) -> int:
        """Return the GPUs of least dollars at a price; the fewest of equal ones."""
        low, high = 0, self.most_gpus
        while low < high:
            middle = (low + high) // 2
            replaced = self.covered_gpus(middle + 1) - self.covered_gpus(middle)
            if offer.usd_per_gpu_h >= self.on_demand_usd * replaced:
                high = middle
            else:
                low = middle + 1
        return low

    def usd_per_month(self, gpus: int, offer: TermOffer) -> Fraction:
        """Return the dollars of so many committed GPUs and of what is on demand beside them."""
        return self._month_usd(gpus, gpus * offer.usd_per_gpu_h)

    def _month_usd(self, gpus: int, usd_per_h: Fraction) -> Fraction:
        on_demand = (self._used - self.covered_gpus(gpus)) * self.on_demand_usd
        return (usd_per_h + on_demand) * MONTH

    @cached_property
    def today(self) -> tuple[int, Fraction] | None:
        """The GPUs committed to today and their dollars a month; None where not known."""
        if self.in_force is None:
            return None
        gpus = sum(count for count, _ in self.in_force)
        paid = sum((count * usd for count, usd in self.in_force), Fraction(0))
        return gpus, self._month_usd(gpus, paid)

    def counts(self) -> list[int]:
        """Return the numbers of GPUs of the curve, ascending; none above the peak."""
        best = self.optimum(self.offers[0])
        near = [floor(best * share + Fraction(1, 2)) for share in CURVE_SHARES]
        today = [] if self.today is None else [self.today[0]]
        every = {0, best - 1, best, best + 1, *near, *today}
        return sorted(gpus for gpus in every if 0 <= gpus <= self.most_gpus)

    def line(self) -> tuple[tuple[int, float], ...]:
        """Return GPUs and dollars a month of many commitments, for a picture."""
        first, counts = self.offers[0], self.counts()
        last = min(self.most_gpus, max(2 * self.optimum(first), counts[-1] + 1, 4))
        step = max(1, -(-last // LINE_POINTS))
        places = sorted({*range(0, last + 1, step), last, *counts})
        return tuple((gpus, float(self.usd_per_month(gpus, first))) for gpus in places)

    def point(self, gpus: int) -> CommitmentPoint:
        """Return what a number of committed GPUs costs."""
        first, covered = self.offers[0], self.covered_gpus(gpus)
        name, usd = self._worst_month(gpus)
        return CommitmentPoint(
            gpu_type=self.gpu_type,
            gpus=gpus,
            usd_per_month=float(self.usd_per_month(gpus, first)),
            coverage_share=float(covered / self._used) if self._used else None,
            utilization=float(covered / gpus) if gpus else None,
            worst_month=name,
            worst_month_usd=usd,
        )

    @cached_property
    def _months(self) -> list[tuple[str, LevelTimes]]:
        return [(name, self.use.between(begin, end)) for name, begin, end in self.months]

    def _worst_month(self, gpus: int) -> tuple[str | None, float | None]:
        """Return the month with most dollars, the first of equal ones, and its dollars."""
        rate, most = self.offers[0].usd_per_gpu_h, self.owned_gpus + gpus
        names, dollars = [], []
        for name, levels in self._months:
            above_us = levels.gpu_us() - levels.gpu_us(most)
            gpu_us_usd = gpus * levels.window_us * rate + above_us * self.on_demand_usd
            names.append(name)
            dollars.append(gpu_us_usd / HOUR_US)
        if not names:
            return None, None
        worst = max(dollars)
        return names[dollars.index(worst)], float(worst)

    def break_even_share(
        self, gpus: int, offer: TermOffer, growth: Fraction = Fraction(0)
    ) -> Fraction | None:
        """Return the share of its term after which a commitment has cost as much as on demand.

        It is paid to the end of the term, whatever is used. Above 1 it never pays; None where
        nothing of it is in use.
        """
        replaced = self.covered_gpus(gpus, growth) * self.on_demand_usd
        return gpus * offer.usd_per_gpu_h / replaced if replaced else None

    def term(self, offer: TermOffer, growth: tuple[Fraction, Fraction]) -> TermResult:
        """Return the cheapest commitment for a term, and when it has paid for itself."""
        assert offer.months is not None  # terms alone have a break-even month
        months, gpus = offer.months, self.optimum(offer)

        def month(grown: Fraction) -> float | None:
            share = self.break_even_share(gpus, offer, grown)
            return None if share is None or share > 1 else float(share * months)

        return TermResult(
            gpu_type=self.gpu_type,
            name=offer.name,
            months=months,
            usd_per_gpu_h=float(offer.usd_per_gpu_h),
            committed_gpus=gpus,
            usd_per_month=float(self.usd_per_month(gpus, offer)),
            term_usd=float(gpus * offer.usd_per_gpu_h * months * MONTH),
            break_even_month=month(Fraction(0)),
            growth=(float(growth[0]), float(growth[1])),
            low_growth_break_even_month=month(growth[0]),
            high_growth_break_even_month=month(growth[1]),
        )

    def result(
        self, growth: tuple[Fraction, Fraction], confidence: Resampling | None
    ) -> CommitmentResult:
        """Return the cheapest commitment, exact for the use given, and the curve around it.

        Args:
            growth: the range of use at which terms break even.
            confidence: of the interval; None for none.
        """
        first, beside_usd = self.offers[0], self.on_demand_usd
        best = self.optimum(first)
        covered, usd = self.covered_gpus(best), self.usd_per_month(best, first)
        share = 1 - first.usd_per_gpu_h / beside_usd if beside_usd else Fraction(0)
        interval = None
        if confidence is not None:
            interval = commitment_interval(self.use, self.owned_gpus, float(share), confidence)
        even = self.break_even_share(best, first)
        today = self.today
        return CommitmentResult(
            committed_gpus=best,
            on_demand_mean_gpus=float(self._used - covered),
            on_demand_peak_gpus=self.most_gpus - best,
            usd_per_month=float(usd),
            all_committed_usd_per_month=float(self.most_gpus * first.usd_per_gpu_h * MONTH),
            all_on_demand_usd_per_month=float(self.usd_per_month(0, first)),
            coverage_share=float(covered / self._used) if self._used else None,
            utilization=float(covered / best) if best else None,
            interval=interval,
            commit_usd_per_gpu_h=float(first.usd_per_gpu_h),
            on_demand_usd_per_gpu_h=float(beside_usd),
            owned_gpus=self.owned_gpus,
            today_gpus=None if today is None else today[0],
            today_until=self.in_force_until or None,
            today_usd_per_month=None if today is None else float(today[1]),
            today_over_optimum_usd_per_month=None if today is None else float(today[1] - usd),
            break_even_share=None if even is None else float(even),
            curve=tuple(self.point(gpus) for gpus in self.counts()),
            terms=tuple(
                self.term(offer, growth) for offer in self.offers if offer.months is not None
            ),
        )


def combined(plans: Iterable[CommitmentResult | None]) -> CommitmentResult | None:
    """Return the commitments on several GPU types in one; its interval is by type."""
    each = [plan for plan in plans if plan is not None]
    if len(each) < 2:
        return each[0] if each else None
    committed = sum(plan.committed_gpus for plan in each)
    busy = sum(plan.committed_gpus * (plan.utilization or 0.0) for plan in each)
    used = busy + sum(plan.on_demand_mean_gpus for plan in each)
    usd = sum(plan.usd_per_month for plan in each)
    todays = [(p.today_gpus, p.today_usd_per_month) for p in each]
    gpus = [count for count, _ in todays if count is not None]
    dollars = [month_usd for _, month_usd in todays if month_usd is not None]
    has_today = len(gpus) == len(each)
    return CommitmentResult(
        committed_gpus=committed,
        on_demand_mean_gpus=sum(plan.on_demand_mean_gpus for plan in each),
        on_demand_peak_gpus=sum(plan.on_demand_peak_gpus for plan in each),
        usd_per_month=usd,
        all_committed_usd_per_month=sum(plan.all_committed_usd_per_month for plan in each),
        all_on_demand_usd_per_month=sum(plan.all_on_demand_usd_per_month for plan in each),
        coverage_share=busy / used if used else None,
        utilization=busy / committed if committed else None,
        interval=None,
        owned_gpus=sum(plan.owned_gpus for plan in each),
        today_gpus=sum(gpus) if has_today else None,
        today_usd_per_month=sum(dollars) if has_today else None,
        today_over_optimum_usd_per_month=sum(dollars) - usd if has_today else None,
        curve=tuple(point for plan in each for point in plan.curve),
        terms=tuple(term for plan in each for term in plan.terms),
    )
