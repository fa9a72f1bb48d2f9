"""Commitments: a slow twin that counts every hour, cases worked out by hand, and laws."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.money.commitment import (
    CommitmentPlan,
    combined,
)
from gpuplan.planner.money.commitment_texts import TermOffer, commit_prices, parse_commit
from gpuplan.planner.money.gpus_in_use import gpus_in_use
from gpuplan.planner.runs.gpu_intervals import Resampling

HOUR_US = 3_600_000_000
NO_RANGE = (Fraction(0), Fraction(0))
MONTH_H = Fraction(1461, 2)
RUNS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12), st.sampled_from([0.25, 0.5, 1, 2, 5])),
    min_size=1, max_size=12,
)  # fmt: skip
"""First hour, hours and GPUs of each run."""
USD = st.integers(1, 40).map(lambda dimes: Fraction(dimes, 10))


def in_use(runs, hours):
    start, lasting, gpus = (np.array(column) for column in zip(*runs, strict=True))
    start = start.astype(np.int64) * HOUR_US
    return gpus_in_use(start, start + lasting.astype(np.int64) * HOUR_US, gpus, hours * HOUR_US)


def hourly(runs, hours, owned=0):
    """Return the GPUs in use above the owned ones in every hour: the slow twin."""
    used = [Fraction(0)] * hours
    for first, lasting, gpus in runs:
        for hour in range(first, first + lasting):
            used[hour] += Fraction(gpus)
    return [max(gpus - owned, Fraction(0)) for gpus in used]


def plan_of(runs, hours, commit, beside, *, owned=0, today=None, months=(), terms=()):
    offers = (TermOffer(Fraction(commit)), *terms) if commit is not None else tuple(terms)
    use = in_use(runs, hours)
    return CommitmentPlan(use, "T4", offers, Fraction(beside), owned, today, months=months)


@given(RUNS, USD, USD, st.integers(0, 6), st.integers(0, 5), st.integers(0, 9))
def test_every_dollar_is_that_of_the_twin(runs, commit, beside, owned, more, today):
    hours = max(first + lasting for first, lasting, _ in runs) + more
    used = hourly(runs, hours, owned)
    edges = (0, hours // 3, 2 * hours // 3, hours)
    months = [
        (str(place), begin * HOUR_US, end * HOUR_US)
        for place, (begin, end) in enumerate(pairwise(edges))
    ]
    plan = plan_of(
        runs, hours, commit, beside, owned=owned, today=((today, commit),), months=months
    )
    result = plan.result(NO_RANGE, None)

    def dollars(gpus, part=slice(None)):
        over = sum(max(u - gpus, Fraction(0)) for u in used[part])
        return gpus * commit * len(used[part]) + over * beside

    peak = -(-max(used) // 1)
    costs = [dollars(gpus) for gpus in range(int(peak) + 1)]
    best = costs.index(min(costs))  # of equal ones the fewest GPUs
    assert result.committed_gpus == best
    assert result.usd_per_month == float(costs[best] / hours * MONTH_H)
    assert result.today_usd_per_month == float(dollars(today) / hours * MONTH_H)
    assert result.today_over_optimum_usd_per_month == float(
        (dollars(today) - costs[best]) / hours * MONTH_H
    )
    assert result.all_on_demand_usd_per_month == float(costs[0] / hours * MONTH_H)
    assert result.all_committed_usd_per_month == float(peak * commit * MONTH_H)
    assert result.on_demand_peak_gpus == peak - best
    for point in result.curve:
        covered = sum(min(u, Fraction(point.gpus)) for u in used)
        assert point.usd_per_month == float(costs[point.gpus] / hours * MONTH_H)
        assert point.coverage_share == (float(covered / sum(used)) if sum(used) else None)
        assert point.utilization == (float(covered / hours / point.gpus) if point.gpus else None)
        parts = [dollars(point.gpus, slice(*edge)) for edge in pairwise(edges)]
        assert point.worst_month_usd == float(max(parts))
        assert point.worst_month == str(parts.index(max(parts)))
    assert all(usd == float(costs[gpus] / hours * MONTH_H) for gpus, usd in plan.line())


@given(RUNS, USD, USD, st.integers(0, 6))
def test_the_curve_is_convex_and_owned_gpus_only_save(runs, commit, beside, owned):
    hours = max(first + lasting for first, lasting, _ in runs)
    plan = plan_of(runs, hours, commit, beside, owned=owned)
    offer = plan.offers[0]
    costs = [plan.usd_per_month(gpus, offer) for gpus in range(plan.most_gpus + 2)]
    steps = [after - before for before, after in pairwise(costs)]
    assert steps == sorted(steps)
    without = plan_of(runs, hours, commit, beside)
    best = without.usd_per_month(without.optimum(offer), offer)
    assert plan.usd_per_month(plan.optimum(offer), offer) <= best
    counts = plan.counts()
    assert counts == sorted(set(counts)) and plan.optimum(offer) in counts
    assert 0 in counts and counts[-1] <= plan.most_gpus


def test_the_counts_of_the_curve_by_hand():
    # 20 GPUs all the time, 40 for 1 hour of 100: the optimum is 20.
    plan = plan_of([(0, 100, 20), (0, 1, 20)], 100, 1, 2, today=((33, Fraction(1)),))
    # +-10% 18 and 22, +-25% 15 and 25, +-50% 10 and 30, +-1, today's
    assert plan.counts() == [0, 10, 15, 18, 19, 20, 21, 22, 25, 30, 33]
    above = plan_of([(0, 100, 20), (0, 1, 20)], 100, 1, 2, today=((50, Fraction(1)),))
    assert above.counts()[-1] == 30  # above the peak of 40; its dollars are given all the same
    assert above.result(NO_RANGE, None).today_usd_per_month == 50 * 730.5


def test_a_commitment_worked_out_by_hand():
    # One GPU for 10 h, a second for the first 4 h: at 40% of the on-demand price both break even.
    runs = [(0, 10, 1), (0, 4, 1)]
    at = {usd: plan_of(runs, 10, usd, 1).result(NO_RANGE, None) for usd in ("0.39", "0.4", "0.41")}
    assert [plan.committed_gpus for plan in at.values()] == [2, 1, 1]
    assert at["0.41"].coverage_share == pytest.approx(10 / 14) and at["0.41"].utilization == 1
    assert at["0.39"].utilization == pytest.approx(0.7) and at["0.39"].on_demand_peak_gpus == 0
    # Half a GPU all the time: a whole one for $0.40 is cheaper than half of one for $1.
    half = [plan_of([(0, 10, 0.5)], 10, usd, 1).result(NO_RANGE, None) for usd in ("0.4", "0.5")]
    assert [plan.committed_gpus for plan in half] == [1, 0]
    assert half[0].utilization == 0.5 and half[0].on_demand_peak_gpus == 0


def test_the_break_even_month_by_hand():
    # One GPU half of the time: $1 an hour on demand. A year at $0.50 is paid for after 6 months.
    terms = [TermOffer(Fraction(1, 2), 12), TermOffer(Fraction(2, 5), 36)]
    plan = plan_of([(0, 50, 1)], 100, None, 2, terms=terms)
    year, three = plan.result((Fraction(-1, 2), Fraction(1, 2)), None).terms
    assert (year.name, year.committed_gpus, year.break_even_month) == ("1y", 1, 6.0)
    assert (three.name, three.break_even_month) == ("3y", pytest.approx(36 * 0.4))
    assert year.term_usd == pytest.approx(0.5 * 12 * 730.5)
    # Half of the use: half as fast, the whole year. More use above one GPU saves no more.
    assert year.low_growth_break_even_month == 12.0
    assert year.high_growth_break_even_month == 6.0
    (less,) = (
        plan_of([(0, 50, 1)], 100, None, 2, terms=terms[:1])
        .result((Fraction(-3, 5), Fraction(0)), None)
        .terms
    )
    assert less.low_growth_break_even_month is None  # not within the term
    dear = plan_of([(0, 50, 1)], 100, None, 2, terms=[TermOffer(Fraction(3), 12)])
    assert dear.result(NO_RANGE, None).terms[0].break_even_month is None  # nothing to commit to


@given(RUNS, USD, USD, st.integers(1, 60))
def test_at_the_optimum_a_term_pays_within_itself(runs, commit, beside, months):
    hours = max(first + lasting for first, lasting, _ in runs)
    plan = plan_of(runs, hours, None, beside, terms=[TermOffer(commit, months)])
    result = plan.result((Fraction(-1, 5), Fraction(1, 2)), None)
    (term,) = result.terms
    if not term.committed_gpus:
        assert term.break_even_month is result.break_even_share is None
        return
    assert 0 < term.break_even_month <= months
    assert term.break_even_month == pytest.approx(result.break_even_share * months)
    assert term.high_growth_break_even_month <= term.break_even_month
    if term.low_growth_break_even_month is not None:
        assert term.break_even_month <= term.low_growth_break_even_month <= months


def test_several_types_add_up():
    first = plan_of([(0, 100, 4)], 100, 1, 2, today=((6, Fraction(1)),)).result(NO_RANGE, None)
    second = plan_of([(0, 50, 2)], 100, 1, 3, today=((0, Fraction(1)),)).result(NO_RANGE, None)
    both = combined([first, None, second])
    assert both.committed_gpus == 6 and both.today_gpus == 6
    assert both.usd_per_month == first.usd_per_month + second.usd_per_month
    assert both.today_over_optimum_usd_per_month == pytest.approx(
        first.today_over_optimum_usd_per_month + second.today_over_optimum_usd_per_month
    )
    assert both.curve == (*first.curve, *second.curve)
    assert combined([None, first]) is first and combined([None]) is None


def test_the_interval_of_a_commitment_holds_the_quantile_of_the_source():
    # M/G/infinity: GPUs in use are Poisson.
    rng = np.random.default_rng(1)
    n, load, mean_s = 20_000, 30.0, 100.0
    start = np.round(np.cumsum(rng.exponential(mean_s / load, n)) * 1e6).astype(np.int64)
    run = np.round(rng.exponential(mean_s, n) * 1e6).astype(np.int64)
    use = gpus_in_use(start, start + run, np.ones(n), int(start[-1]))
    plan = CommitmentPlan(use, "T4", (TermOffer(Fraction(1, 2)),), Fraction(1))
    result = plan.result(NO_RANGE, Resampling(90.0, 200, 0))
    ends = result.interval
    assert ends.low_gpus <= 30 <= ends.high_gpus
    assert ends.low_gpus <= result.committed_gpus <= ends.high_gpus
    assert ends.high_gpus - ends.low_gpus <= 5
    # Owned GPUs take the same off the ends as off the optimum.
    beside = replace(plan, owned_gpus=10).result(NO_RANGE, Resampling(90.0, 200, 0))
    assert beside.committed_gpus == result.committed_gpus - 10
    assert beside.interval.low_gpus == ends.low_gpus - 10
    assert beside.interval.high_gpus == ends.high_gpus - 10


def test_prices_as_they_are_written():
    prices = parse_commit(["A100=24@1.05,0.90:1y,0.75:3y", "T4=0.2", "0.5"], "--commit")
    assert commit_prices(prices) == {
        "A100=24": 1.05, "A100:1y": 0.9, "A100:3y": 0.75, "T4": 0.2, "": 0.5,
    }  # fmt: skip
    assert [price.offer.months for price in prices] == [None, 12, 36, None, None]
    assert prices[0].gpus == 24 and prices[0].offer.usd_per_gpu_h == Fraction(105, 100)
    assert [p.gpu_type for p in parse_commit(["A100=2,0.5"], "--commit")] == ["A100", ""]
    assert parse_commit(["$0.9:18mo"], "--commit")[0].offer == TermOffer(Fraction(9, 10), 18)
    assert TermOffer(Fraction(1), 18).name == "18mo" and TermOffer(Fraction(1), 36).name == "3y"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x"], "expected dollars per GPU-hour above 0"),
        (["0"], "expected dollars per GPU-hour above 0"),
        (["=0.9"], "expected dollars per GPU-hour above 0"),
        (["A100="], "expected dollars per GPU-hour above 0"),
        (["A100=0.9:2w"], "expected a term such as 1y, 3y or 6mo"),
        (["A100=0.9:0y"], "expected a term"),
        (["24@1.05"], "expected TYPE=GPUS@USD"),
        (["A100=0.9", "A100=0.8"], "'A100' is given twice"),
        (["0.9,0.8"], "given twice"),
        (["1e999"], "finite"),
    ],
)
def test_what_is_no_price_of_a_commitment_is_refused(texts, message):
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        parse_commit(texts, "--commit")
