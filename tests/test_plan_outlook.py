"""What decides a plan, cheaper plans, prices over time, and how ``gpuplan plan`` shows them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from support_plan import (
    BOTH,
    DAY,
    HOUR,
    MONTH_H,
    jobs_from,
    market,
    plan_of,
    refusal_of,
    results_of,
    share_of,
)
from support_traces import write_trace

from gpuplan.cli.figures.plan import MOST_TYPES, draw_plan
from gpuplan.cli.tables.plan_outlook_tables import show_growth
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.cheaper import MOST_CHEAPER, cheaper_plans, looser_limits
from gpuplan.planner.plan.decisions import plan_decisions
from gpuplan.planner.plan.market_use import market_uses, usd_of
from gpuplan.planner.plan.prices_over_time import prices_over_time, typical_week
from gpuplan.planner.plan.program import PlanLimits
from gpuplan.planner.plan.routes import RouteSettings
from gpuplan.planner.speedup.registry import load_speedup

WEEK = 7 * DAY
PRICES = market(0.9, 1.29)


def mixed(count=300, days=20, seed=7, **options):
    """Return jobs of all widths at random times."""
    rng = np.random.default_rng(seed)
    submit_s, run_s = np.sort(rng.uniform(0, days * DAY, count)), rng.exponential(4 * HOUR, count)
    return jobs_from(submit_s, run_s, rng.choice([1, 2, 8, 16], count), **options)


def decisions_of(plan):
    """Return name -> decision of a plan on one GPU type."""
    assigned = assigned_jobs(plan.program.columns, plan.whole_nodes.share)
    uses = market_uses(plan, assigned)
    return {row.name: row for row in plan_decisions(plan, assigned, uses)}


def test_the_share_of_the_time_with_rented_gpus_is_exact():
    # Of 200 days in bins of 72 min each, GPUs are rented for 6 min a day.
    jobs = jobs_from(np.arange(200) * DAY, [360.0] * 199 + [DAY], [1] * 200)
    rented = decisions_of(plan_of(jobs, market(None, 1.0)))["on_demand"]
    assert rented.time_share == pytest.approx((199 * 360.0 + DAY) / (200 * DAY))


def test_what_decides_a_commitment_by_hand():
    # 3, 2, 2, 4 GPUs by hour: 2 are committed, and others rented in two of the four hours.
    jobs = jobs_from([0, 0, 3 * HOUR], [4 * HOUR, HOUR, HOUR], [2, 1, 2])
    rows = decisions_of(plan_of(jobs, PRICES))
    assert list(rows) == ["committed", "on_demand"]
    assert rows["committed"].pays_above_share == pytest.approx(0.9 / 1.29)
    assert rows["committed"].is_capped is False
    assert rows["on_demand"].time_share == pytest.approx(0.5)
    capped = decisions_of(plan_of(jobs, replace(PRICES, cap=1)))
    assert capped["committed"].is_capped is True
    assert decisions_of(plan_of(jobs, replace(PRICES, cap=3)))["committed"].is_capped is False
    assert decisions_of(plan_of(jobs, market(0.9)))["committed"].pays_above_share is None
    owned = decisions_of(plan_of(jobs, replace(PRICES, owned=1)))
    assert list(owned) == ["owned", "committed", "on_demand"]


@pytest.mark.parametrize("market_name", ["spot", "serverless"])
def test_below_its_price_a_market_is_used_and_above_it_is_not(market_name):
    options = {"spot": "num_gpus <= 2"} if market_name == "spot" else {}
    jobs = mixed(**options)
    settings = RouteSettings(hazard_per_s=1 / HOUR)
    kind = f"{market_name}_usd"

    def planned(usd):
        limits = PlanLimits(slower=1.5)
        return plan_of(jobs, replace(PRICES, **{kind: usd}), settings=settings, limits=limits)

    unused = decisions_of(planned(3.0))[market_name]
    below = unused.pays_below_usd_per_gpu_h
    assert unused.jobs == 0 and 0 < below < 3
    used = planned(below)
    gpus = used.exact.share @ used.program.columns.outside_gpus.mean(axis=1)
    assert gpus > 0
    above = planned(below * 1.03)
    assert above.exact.share @ above.program.columns.outside_gpus.mean(axis=1) == 0


def test_decisions_count_jobs_and_name_classes():
    jobs = mixed(spot="num_gpus = 1", by="group", group=["a", "b", "b"] * 100)
    markets = replace(PRICES, spot_usd=0.3, serverless_usd=0.9)
    plan = plan_of(jobs, markets, speedup=load_speedup("power:0.5"), limits=PlanLimits(slower=2.0))
    assigned = assigned_jobs(plan.program.columns, plan.whole_nodes.share)
    rows = decisions_of(plan)
    kinds = [plan.program.columns.routes[at].kind for at in assigned.column]
    for name in ("spot", "width"):
        count = sum(kind == name and fits for kind, fits in zip(kinds, assigned.fits, strict=True))
        assert rows[name].jobs == count > 0
    assert rows["spot"].classes == ("b, 1 GPU", "a, 1 GPU")  # most GPU-hours first
    assert rows["spot"].least_checkpoint_s == pytest.approx(np.sqrt(2 * 30 * 12 * HOUR))
    assert rows["spot"].most_checkpoint_s == rows["spot"].least_checkpoint_s
    assert rows["width"].wider_jobs == int((assigned.pool_gpus > jobs.gpus).sum())


def test_deferred_jobs_are_a_decision():
    jobs = mixed(defer="num_gpus = 2")
    row = decisions_of(plan_of(jobs, PRICES, within_s=6 * HOUR))["deferred"]
    assert row.jobs == int(jobs.is_deferred.sum()) > 0


def test_cheaper_plans_cost_less_and_take_longer():
    jobs = mixed(600, spot="num_gpus <= 8")
    markets = replace(PRICES, spot_usd=0.4)
    settings = RouteSettings(hazard_per_s=1 / (2 * HOUR))
    speedup = load_speedup("power:0.6")
    limits = PlanLimits(slower=1.1)
    plan = plan_of(jobs, markets, settings=settings, speedup=speedup, limits=limits)
    plans = cheaper_plans(plan)
    assert 1 <= len(plans) <= MOST_CHEAPER
    usd = [plan.whole_nodes.usd_per_h * MONTH_H, *(row.usd_per_month for row in plans)]
    times = [plan.whole_nodes.mean_time_s, *(row.mean_time_s for row in plans)]
    assert usd == sorted(usd, reverse=True) and times == sorted(times)
    for row in plans:  # each is the plan under its own bound, with jobs as assigned
        loose = PlanLimits(slower=row.slower)
        alone = plan_of(jobs, markets, settings=settings, speedup=speedup, limits=loose)
        assigned = assigned_jobs(alone.program.columns, alone.whole_nodes.share)
        assert usd_of(alone, assigned) == pytest.approx(row.usd_per_month, rel=2e-3)
        assert row.slowest.times <= row.slower * 1.1


def test_no_plan_is_cheaper_where_no_bound_binds():
    assert cheaper_plans(plan_of(mixed(), PRICES, limits=PlanLimits(slower=1.1))) == ()
    assert cheaper_plans(plan_of(mixed(), PRICES)) == ()


def test_smaller_budgets_take_longer():
    options = {"speedup": load_speedup("power:0.8")}
    plan = plan_of(mixed(), PRICES, limits=PlanLimits(usd_per_h=40.0), **options)
    plans = cheaper_plans(plan)
    assert plans
    for row in plans:
        assert row.budget_usd_per_month < 40 * MONTH_H
        assert row.mean_time_s > plan.whole_nodes.mean_time_s
    target = PlanLimits(mean_time_s=plan.whole_nodes.mean_time_s)
    binding = plan_of(mixed(), PRICES, limits=target, **options)
    assert {limits.mean_time_s > target.mean_time_s for limits in looser_limits(binding)} == {True}


def test_the_price_of_a_gpu_is_on_demand_or_nothing_and_a_commitment_on_average():
    plan = plan_of(mixed(), PRICES)
    (series,) = prices_over_time(plan)
    assert series.price_usd.mean() == pytest.approx(0.9)
    idle = series.pool_gpus < plan.exact.committed[0] - 1e-6
    assert series.price_usd[idle] == pytest.approx(0.0, abs=1e-9)
    rented = series.pool_gpus > plan.exact.committed[0] + 1e-6
    assert series.price_usd[rented] == pytest.approx(1.29)
    above = np.maximum(series.pool_gpus - series.committed_gpus, 0)
    assert series.on_demand_gpus == pytest.approx(above)


def test_a_typical_week_is_neither_the_quiet_nor_the_busy_one():
    weeks = [4, 10, 40, 4, 11, 40]  # in the second half of each, as many again
    begin = [WEEK * week + at for week in range(6) for at in (0, WEEK / 2)]
    run = [WEEK, WEEK / 2] * 6
    plan = plan_of(jobs_from(begin, run, np.repeat(weeks, 2)), market(0.5, 1.29))
    first, last = typical_week(prices_over_time(plan))
    assert first * plan.program.columns.bins.bin_s // WEEK in (1, 4)
    assert (last - first) * plan.program.columns.bins.bin_s == pytest.approx(WEEK, rel=1e-3)
    short = plan_of(jobs_from([0, HOUR], [HOUR, HOUR], [1, 2]), PRICES)
    assert typical_week(prices_over_time(short)) == (0, 120)


def test_the_picture_has_two_panels_per_gpu_type():
    names = ["A", "B", "C", "D"]
    jobs = mixed(gpu_type=names * 75, spot="num_gpus = 1")
    limits = PlanLimits(spot_max=0.1)
    plan = plan_of(jobs, market(0.1, 1.29, spot_usd=0.05), limits=limits)
    figure = draw_plan(prices_over_time(plan))
    assert len(figure.axes) == 2 * MOST_TYPES
    assert figure.get_suptitle() == "1 more GPU types are in the table"
    gpus, price = draw_plan(prices_over_time(plan)[:1]).axes
    labels = [text.get_text() for text in gpus.get_legend().get_texts()]
    assert "spot" in labels and any(label.startswith("committed: ") for label in labels)
    assert gpus.get_ylabel() == "GPUs" and price.get_ylabel() == "$ per GPU-hour"
    assert "days after the first submission" in price.get_xlabel()


@pytest.fixture
def month(tmp_path):
    """Nine weeks of jobs and a few hours, busier by day, in two classes."""
    rng = np.random.default_rng(0)
    day = rng.integers(0, 63, 1500) * DAY
    submit = np.sort(day + rng.normal(14, 3, 1500).clip(0, 23) * HOUR)
    run = rng.exponential(3 * HOUR, 1500).round() + 1
    gpus = rng.choice([1.0, 2.0, 8.0], 1500)
    return write_trace(
        tmp_path / "month.parquet", submit, run, gpus.tolist(), job_class=["a", "b", "b"] * 500
    )


LEVERS = (
    *("--spot", "num_gpus <= 2", "--spot-price", "0.55", "--serverless", "2.1"),
    *("--speedup", "power:0.6..0.8", "--slower", "1.25x"),
)


def test_json_has_intervals_growth_and_what_decides(gpuplan, month):
    words = (month, *BOTH, *LEVERS)
    results = results_of(gpuplan, *words, "--growth", "-20%:20%")
    intervals = results["intervals"]
    assert (intervals["resamples"], intervals["blocks"], intervals["is_weeks"]) == (20, 10, True)
    for name in ("usd_per_month", "mean_time_s", "saving_share", "saving_over_on_demand_share"):
        assert intervals[name]["low"] <= intervals[name]["high"]
    assert [row["growth_share"] for row in results["growth"]] == [-0.2, -0.1, 0, 0.1, 0.2]
    names = [row["name"] for row in results["decisions"]]
    assert names == ["committed", "on_demand", "spot", "serverless", "width"]
    assert [row["value"] for row in results["assumptions"]][:2] == ["power:0.6", "power:0.8"]
    assert results["assumed_speedup"] == "power:0.7"
    assert "prices" not in results
    without = results_of(gpuplan, *words)
    assert {**results, "growth": []} == {**without, "growth": []}
    assert results_of(gpuplan, *words, "--seed", "5")["intervals"] != intervals


def test_the_answer_fits_a_screen_and_says_what_it_rests_on(gpuplan, month):
    code, out, err = gpuplan("plan", month, "--commit", "0.4", "--on-demand", "1.29", *LEVERS)
    assert code == 0, err
    words = " ".join(out.split())
    assert len(out.splitlines()) <= 45
    assert "resamples of its weeks)" in words
    assert "rests on an assumed speedup, power:0.7" in words
    assert "pays above 31% use" in words and "a checkpoint every 27 min" in words
    assert re.search(r"would pay below about \$\d\.\d+ an hour", words)
    assert "Cheaper plans, and their price in time" in words
    assert "If an assumption is wrong" not in words
    assert "If an assumption is wrong" in gpuplan("plan", month, *BOTH, *LEVERS, "--full")[1]


def test_what_cannot_be_planned_is_said(gpuplan, month):
    code, out, err = gpuplan("plan", month)
    assert code == 0 and "at an assumed price" in " ".join(out.split())
    assert "nothing to decide" in err and "less than" not in out
    code, out, err = gpuplan("plan", month, *BOTH, "--budget", "$20000/month")
    assert code == 0 and "without --speedup no budget makes a job faster" in err
    assert " less than" not in out and " more than" not in out
    code, out, err = gpuplan("plan", month, *BOTH, "--budget", "$20000/month", *LEVERS)
    words = " ".join(out.split())
    assert code == 0 and "without --speedup" not in err
    assert re.search(r"per job \(.* in 20 resamples of its weeks\)", words)
    assert "spend $" in words


@pytest.mark.usefixtures("few_resamples")
def test_a_plan_has_a_picture_a_report_gates_and_a_diff(gpuplan, month, tmp_path):
    folder = tmp_path / "out"
    words = ("--study", "plan", "--set", "plan.commit=0.9", "--set", "plan.on-demand=1.29")
    gate = ("--fail-if", "plan.usd_per_month > $1", "--fail-if", "plan.saving_share < -1%")
    code, _, err = gpuplan("report", month, "-o", folder, *words, *gate)
    assert code == 1 and "gate tripped" in err and "saving_share" not in err.split("tripped")[1]
    assert "prefers-color-scheme" in (folder / "figures" / "plan.svg").read_text()
    assert "What to buy" in (folder / "report.html").read_text()
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path, commit in ((first, "0.9"), (second, "0.8")):
        prices = ("--commit", commit, "--on-demand", "1.29")
        assert gpuplan("plan", month, *prices, "-o", path)[0] == 0
    code, out, _ = gpuplan("diff", first, second)
    assert code == 0 and "monthly cost" in out
    held = results_of(gpuplan, month, *BOTH)["confirmed"]
    for value in (True, False):
        gate = ("--fail-if", f"confirmed == {str(value).lower()}")
        assert gpuplan("plan", month, *BOTH, *gate)[0] == (value is held)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "none"), (0.2, "+20%"), (-0.125, "-12.5%"), (10.0, "+1,000%"), (1.0, "+100%")],
)
def test_growth_is_written_in_percent(share, text):
    assert show_growth(share) == text


@pytest.mark.usefixtures("few_resamples")
def test_mistakes_about_growth_and_owned_gpus(gpuplan, month):
    def refused(code, *words):
        return refusal_of(gpuplan, code, month, *BOTH, *words)

    assert "less than 100%" in refused(2, "--growth=-100%:0%")
    assert "expected LOW:HIGH" in refused(2, "--growth", "20%:10%")
    owned = ("--owned", "A100=128@0.35", "--gpu", "A100")
    too_little = refused(4, *owned, "--budget", "$10000/month")
    assert "the 128 GPUs owned cost $32,726 a month already" in too_little
    target = refused(4, "--target", "mean_jct <= 1h")
    assert "the jobs of" in target and "next: --target 'mean_jct <= " in target
    _, _, err = gpuplan("plan", month, *BOTH, *owned)
    assert "its dollars leave that out" in " ".join(err.split())


def test_shares_of_a_plan_with_a_bound_keep_it():
    jobs = mixed(600, spot="num_gpus <= 8")
    settings = RouteSettings(hazard_per_s=1 / (2 * HOUR))
    plan = plan_of(
        jobs, replace(PRICES, spot_usd=0.4), settings=settings, limits=PlanLimits(slower=1.1)
    )
    columns = plan.program.columns
    for number, planned in enumerate(columns.classes):
        shares = share_of(columns, plan.whole_nodes.share, number)
        assert sum(shares.values()) == pytest.approx(1.0)
        rows = columns.class_of == number
        mean_s = plan.whole_nodes.share[rows] @ columns.time_s[rows]
        assert mean_s <= 1.1 * planned.recorded_s * (1 + 1e-9)
