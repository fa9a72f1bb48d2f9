"""Sweeps over capacities, prices and values of time: what is chosen, and how sure that is."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.statistics.bootstrap import Blocks, draw_blocks
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.policies.allpass import replay
from gpuplan.planner.policies.allpass_results import measure
from gpuplan.planner.runs.ties import non_dominated
from gpuplan.planner.runs.trace_jobs import COLUMNS, TraceJobs, jobs_of
from gpuplan.planner.sweep.recommendation import Confidence, best_of, knee_of, objective
from gpuplan.planner.sweep.results import marked_thresholds, sweep_results
from gpuplan.planner.sweep.scenario import replay_scenario
from gpuplan.planner.sweep.ski_rental import serverful_price, ski_rental
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.workload import Workload

AT_ONCE = StartUp(0, 0)
HEADER = "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available"
SAME_OFFERS = Allpass().marketplace_prices
SIMPLE = Allpass(
    controller="fixed",
    serverless_price=2.0,
    serverless_startup=AT_ONCE,
    marketplace_prices=(1.0,) * 50,
    marketplace_startup=AT_ONCE,
    conventional_price=1.0,
    conventional_startup=AT_ONCE,
    checkpoint_s=0.0,
    restore_s=0.0,
)


@pytest.fixture(scope="module")
def jobs(lab):
    return jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))


def apart(durations_s):
    """Jobs of one GPU that never meet, each with its run time."""
    submit_s = np.arange(len(durations_s)) * 1e6
    work = Workload.from_seconds(
        submit_s, durations_s, np.ones(len(durations_s)), submit_s + np.asarray(durations_s)
    )
    return TraceJobs(work, pl.Series("job_id", [str(i) for i in range(work.size)]), ())


def test_a_grid_is_every_combination_in_order(jobs):
    grid = SweepGrid([300.0, 60.0], capacities=[None, 4], price_ratios=[1.0, 0.5])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1))
    assert [(p.price_ratio, p.capacity, p.policy, p.threshold_s) for p in found.points] == [
        (ratio, capacity, policy, threshold_s)
        for ratio in (1.0, 0.5)
        for capacity in (4, None)
        for policy, threshold_s in (("fixed", 60.0), ("fixed", 300.0), ("adaptive", 300.0))
    ]
    assert [case.price_ratio for case in found.cases] == [1.0, 0.5]
    for case in found.cases:  # indices of a case lie among the points at its prices
        ours = {i for i, p in enumerate(found.points) if p.price_ratio == case.price_ratio}
        assert {case.best, *case.non_dominated} <= ours


def test_a_price_ratio_is_a_replay_at_those_prices(jobs):
    base = Allpass(capacity=6, minimum_billing_s=600)
    grid = SweepGrid([60.0], price_ratios=[0.3, 1.4])
    found = sweep(jobs, base, grid, np.random.default_rng(1))
    draws = Draws.sample(base, jobs.workload.size, np.random.default_rng(1))
    for point in found.points:
        factor = point.price_ratio * base.serverless_price / serverful_price(base)
        dear = replace(
            base,
            controller=point.policy,
            threshold_s=point.threshold_s,
            marketplace_prices=tuple(factor * price for price in base.marketplace_prices),
            conventional_price=factor * base.conventional_price,
        )
        # Prices are whole billionths of a dollar in the kernel, hence no closer.
        assert vars(point.results) == pytest.approx(measure(replay(jobs, dear, draws)), rel=1e-8)
        if point.policy == "fixed":
            form = ski_rental(jobs.workload, dear)
            assert point.closed_form_cost_usd == pytest.approx(form.cost_usd(60.0), rel=1e-12)


def test_at_the_break_even_ratio_nothing_is_saved(jobs):
    first = sweep(jobs, Allpass(), SweepGrid([60.0], adaptive=False), np.random.default_rng(1))
    ratio = first.points[0].break_even_price_ratio
    grid = SweepGrid([60.0], adaptive=False, price_ratios=[ratio])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1))
    assert found.points[0].cost_usd == pytest.approx(found.reference.cost_usd)
    assert found.cases[0].savings.saving_usd == pytest.approx(0, abs=1e-6)
    assert found.points[0].break_even_price_ratio == pytest.approx(ratio)
    assert found.reference.break_even_price_ratio is None


def test_where_containers_and_checkpoints_cost_more_moving_pays_at_no_price(gpuplan, tmp_path):
    # A job of 30 s left at 20 s pays for 20 + 42 s of its container, at whatever price it goes on.
    short = apart([30.0] * 3)
    base = replace(SIMPLE, checkpoint_s=42.0)
    grid = SweepGrid([0.0, 20.0, 60.0], adaptive=False, price_ratios=[0.1, 0.5])
    found = sweep(short, base, grid, np.random.default_rng(1))
    assert [point.never_pays for point in found.points] == 2 * [True, True, False]
    assert not any(point.break_even_price_ratio is not None for point in found.points)
    assert not found.reference.never_pays
    # One of 100 s saves 100 - 62 s of its container: it pays below a ratio, and not above.
    (point,) = sweep(
        apart([100.0] * 3), base, SweepGrid([20.0], adaptive=False), np.random.default_rng(1)
    ).points
    assert point.break_even_price_ratio > 0 and not point.never_pays
    free = replace(base, marketplace_prices=(0.0,), conventional_price=0.0)
    (point,) = sweep(
        apart([100.0] * 3), free, SweepGrid([20.0], adaptive=False), np.random.default_rng(1)
    ).points
    assert point.break_even_price_ratio is None and not point.never_pays
    path = write_trace(tmp_path / "short.parquet", [0, 1e5, 2e5], [30.0] * 3)
    asked = ("sweep", path, "--threshold", "0,1h", "--policy", "fixed")
    table = gpuplan(*asked, "--quiet", "--full")[1].partition("Where the money goes")[2]
    table = table.partition("Closed form")[0]
    rows = [line.split() for line in table.splitlines() if line.strip()[:1] in "06"]
    assert [row[-1] for row in rows if row] == ["never", "-"]
    points = json.loads(gpuplan(*asked, "--output-format", "json")[1])["results"]["points"]
    assert [point["break_even_price_ratio"] for point in points] == [None, None]


@pytest.mark.parametrize("count", [1, 9, 10])
def test_few_jobs_have_no_interval(gpuplan, tmp_path, count):
    path = write_trace(tmp_path / "few.parquet", np.arange(count) * 1e5, [3600.0] * count)
    asked = ("sweep", path, "--threshold", "60", "--against", "fifo:gpus=4")
    code, out, err = gpuplan(*asked, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    results, told = document["results"], count == 10
    for one in (results["recommended"], *results["cases"]):
        assert (one["confidence"] is not None) == told
        assert (one["against"]["confidence"] is not None) == told
    said = [text for text in document["warnings"] if "too few for an interval" in text]
    assert len(said) == (not told)
    text = gpuplan(*asked, "--quiet", "--full")[1]
    assert ("interval" in text, "resamples" in text) == (told, told)
    nothing_asked = gpuplan(*asked, "--resamples", 0)
    assert "too few" not in nothing_asked[2]


def test_the_objective_by_hand():
    cost, jct = np.array([10.0, 5.0, 1.0]), np.array([100.0, 109.0, 111.0])
    assert objective(cost, jct, 1, None).tolist() == [10.0, 5.0, np.inf]  # 111 is not within 10%
    # 36 jobs at $2 an hour: each second of the mean is worth 36 x 2 / 3600 = 2 cents.
    assert objective(cost, jct, 36, 2.0) == pytest.approx([12.0, 7.18, 3.22])
    assert best_of(objective(cost, jct, 36, 2.0), jct) == 2
    columns = np.array([[1.0, 2.0], [1.0, 1.0]])
    assert best_of(columns, np.array([[9.0, 1.0], [8.0, 9.0]])).tolist() == [1, 1]  # ties: fastest


def test_the_worth_of_time_decides(jobs):
    grid = SweepGrid([0.0, 60.0, 3600.0], values_of_time=[0.0, 1000.0])
    cheap, fast = (found := sweep(jobs, Allpass(), grid, np.random.default_rng(1))).cases
    costs = [point.cost_usd for point in found.points]
    jcts = [point.mean_jct_s for point in found.points]
    assert costs[cheap.best] == min(costs)
    assert cheap.savings.net_saving_usd == cheap.savings.saving_usd
    later_h = (min(jcts) - found.reference.mean_jct_s) * jobs.workload.size / 3600
    assert later_h > 0 and fast.best is None  # nothing is as fast as serverless
    assert found.chosen(fast) is found.reference
    assert fast.savings.saving_usd == fast.savings.net_saving_usd == 0
    assert fast.closed_form.value_of_time == 1000.0
    assert cheap.knee == fast.knee


def test_no_knee_costs_more_and_takes_longer_than_all_on_one_side(jobs):
    grid = SweepGrid([0.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0], price_ratios=[0.2, 0.9])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1))
    moved, knees = 0, 0
    for case, rented in zip(found.cases, found.all_rented, strict=True):
        at = [i for i, point in enumerate(found.points) if point.price_ratio == case.price_ratio]
        cost, jct = (
            np.array([getattr(found.points[i], name) for i in at])
            for name in ("cost_usd", "mean_jct_s")
        )
        alone = knee_of(cost, jct, non_dominated(cost, jct))
        moved += alone is not None and at[alone] != case.knee
        if case.knee is None:
            continue
        knees += 1
        knee = found.points[case.knee]
        for other in (found.reference, rented):
            assert knee.cost_usd <= other.cost_usd or knee.mean_jct_s <= other.mean_jct_s
    assert moved and knees


def test_everything_serverless_is_a_choice(jobs):
    # Without workers every replay is everything serverless under another name.
    grid = SweepGrid([60.0, 600.0], capacities=[0], values_of_time=[None, 0.0, 5.0])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1), level=90)
    assert {point.cost_usd for point in found.points} == {found.reference.cost_usd}
    for case in found.cases:
        assert case.best is None and case.savings.confidence.best_share == 1
    assert found.recommended is found.reference
    named = sweep_results(found).recommended
    assert (named.chosen.policy, named.savings.saving_usd) == ("serverless_only", 0)
    # Two workers make jobs wait for longer than a tenth of the least: serverless is better.
    few = sweep(jobs, Allpass(), SweepGrid([60.0], capacities=[8]), np.random.default_rng(1))
    assert few.points[0].mean_jct_s > 1.1 * few.reference.mean_jct_s
    assert few.points[0].cost_usd < few.reference.cost_usd
    assert few.recommended is few.reference
    for kept in marked_thresholds(found):
        assert not kept.recommended


def test_a_summary_has_lists_or_none_for_intervals():
    sure = Confidence(90.0, 100, 5, 0.75, (-1.0, 2.0), None)
    assert plain(sure) == {
        "level_percent": 90.0,
        "resamples": 100,
        "block_jobs": 5,
        "best_share": 0.75,
        "saving_usd": [-1.0, 2.0],
        "saving_share": None,
    }
    other = replace(sure, saving_usd=None, saving_share=(0.1, 0.2))
    assert (other.saving_usd, other.saving_share) == (None, (0.1, 0.2))


def test_saving_and_confidence_by_hand():
    # Ten jobs of 1 h that never meet. Left at 30 min each costs 0.5 x $2 + 0.5 x $1 and nothing
    # waits, so every resample saves a quarter; staying (2 h) saves nothing and is as fast.
    grid = SweepGrid([1800.0, 7200.0], adaptive=False)
    jobs = apart([3600.0] * 10)
    found = sweep(jobs, SIMPLE, grid, np.random.default_rng(0), level=90)
    case = found.cases[0]
    assert found.chosen(found.cases[0]).threshold_s == 1800
    sure = case.savings.confidence
    assert sure.best_share == 1
    # A worker is requested at the next tick at the latest and billed from then on.
    low, high = sure.saving_share
    assert low == pytest.approx(high)
    assert case.savings.saving_share == pytest.approx(low)
    assert case.savings.saving_usd == pytest.approx(20 * case.savings.saving_share)
    assert 0.2 < case.savings.saving_share <= 0.25
    assert (sure.resamples, sure.block_jobs) == (200, 1)


def test_confidence_is_low_where_the_choice_hangs_on_one_job():
    # 59 short jobs make 40 min and 5 min alike; one of two days makes 5 min the cheaper. With
    # blocks of 6 the long job is in about 1 - (1 - 6/60)^10 = 65% of resamples.
    jobs = apart([60.0] * 59 + [172_800.0])
    grid = SweepGrid([300.0, 2400.0], adaptive=False, values_of_time=[0.0])
    found = sweep(jobs, SIMPLE, grid, np.random.default_rng(0), level=90, resamples=400)
    sure = found.cases[0].savings.confidence
    assert found.chosen(found.cases[0]).threshold_s == 300
    assert sure.best_share == 1  # where the long job is missing the two tie
    assert sure.saving_share[0] == 0
    assert 0.3 < sure.saving_share[1] < 0.5


def test_a_resample_adds_up_the_jobs_in_it(jobs):
    size = jobs.workload.size
    draws = Draws.sample(Allpass(), size, np.random.default_rng(2))
    rules = Allpass(controller="fixed", threshold_s=60.0)
    whole = Blocks(size, np.array([[0]]), np.array([[size]]))
    found = replay_scenario(rules, jobs, draws, whole)
    assert found.resampled.cost_usd == pytest.approx(found.results.cost_usd)
    assert found.resampled.mean_jct_s == pytest.approx(found.results.mean_jct_s)
    blocks = draw_blocks(size, 7, 3, np.random.default_rng(3))
    some = replay_scenario(rules, jobs, draws, blocks).resampled
    run = replay(jobs, rules, draws)
    for resample in range(3):
        drawn = blocks.positions(resample)
        assert some.cost_usd[resample] == pytest.approx(run.job_usd[drawn].sum())
        assert some.mean_jct_s[resample] == pytest.approx(run.jct_us[drawn].mean() / 1e6)


def test_the_json_of_a_grid(gpuplan, lab):
    code, out, err = gpuplan(
        *("sweep", lab, "--threshold", "60,600", "--capacity", "none,8", "--price-ratio", "1,0.5"),
        *("--value-of-time", "0,3", "--ci", "80", "--output-format", "json"),
    )
    assert code == 0, err
    document = json.loads(out)
    parameters, results = document["parameters"], document["results"]
    assert parameters["capacity"] == [None, 8]
    assert parameters["price_ratio"] == [1, 0.5]
    assert parameters["value_of_time_usd_per_h"] == [0, 3]
    assert "capacity" not in parameters["settings"]
    assert len(results["points"]) == 2 * 2 * 3
    rents = {
        c["price_ratio"] for c in results["cases"][::2] if "only" in c["recommended"]["policy"]
    }
    marked = [point["price_ratio"] for point in results["points"] if point["recommended"]]
    assert sorted([*marked, *rents]) == [0.5, 1]  # one per price ratio
    assert [(c["price_ratio"], c["value_of_time_usd_per_h"]) for c in results["cases"]] == [
        (1, 0),
        (1, 3),
        (0.5, 0),
        (0.5, 3),
    ]
    first = results["cases"][0]
    for key, value in first["recommended"].items():
        assert results["recommended"][key] == value
    assert first["confidence"]["level_percent"] == 80
    assert first["closed_form"] == results["closed_form"]
    # At equal prices leaving can only cost: no threshold saves, and none is safe.
    assert first["closed_form"]["break_even_threshold_s"] is None
    assert first["closed_form"]["competitive_threshold_s"] is None


def test_the_text_of_a_grid(gpuplan, lab, tmp_path):
    code, out, _ = gpuplan(
        *("sweep", lab, "--threshold", "60,600", "--capacity", "8,none", "--price-ratio", "0.5,1"),
        *("--value-of-time", "1", "--plot", tmp_path / "s.svg", "--quiet"),
    )
    assert code == 0
    assert "for these 400 jobs: " in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    for words in ("90% interval", "no limit", "break-even"):
        assert words in " ".join(out.split())
    svg = (tmp_path / "s.svg").read_text()
    for words in ("price ratio 0.5", "price ratio 1", "8 workers", "best threshold"):
        assert words in svg


def test_without_resamples_there_is_no_confidence(gpuplan, lab):
    asked = ("sweep", lab, "--threshold", "60", "--resamples", 0, "--output-format")
    results = json.loads(gpuplan(*asked, "json")[1])["results"]
    assert results["recommended"]["confidence"] is None
    assert results["recommended"]["saving_usd"] > 0
    out = gpuplan(*asked, "table")[1]
    assert "resamples" not in out


@pytest.mark.parametrize(
    ("capacity", "usd"),
    [("6", 0.464), ("2,6", 0.464), ("6,none", 1.0788), ("0", 1.29)],
    ids=lambda value: str(value),
)
def test_every_source_of_offers_prices_workers_by_those_within_the_capacity(
    gpuplan, lab, tmp_path, capacity, usd
):
    # A table of the same 50 offers as the defaults: one row per offer.
    rows = [f"2024-01-01T00:00:00Z,vast,A100,,marketplace,{usd},1" for usd in SAME_OFFERS]
    rows += ["2024-01-01T00:00:00Z,lambda,A100,,on_demand,1.29,"]
    rows += ["2024-01-01T00:00:00Z,modal,A100,,serverless,2.10,"]
    (tmp_path / "p.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    prices = tmp_path / "p.parquet"
    assert gpuplan("prices", tmp_path / "p.csv", "-o", prices)[0] == 0
    asked = ("sweep", lab, "--threshold", "2m", "--capacity", capacity, "--policy", "fixed")
    found = []
    for source in ((), ("--prices", "builtin"), ("--prices", prices)):
        code, out, err = gpuplan(*asked, "--resamples", 0, *source, "--output-format", "json")
        assert code == 0, err
        found.append(json.loads(out)["results"])
    for results in found:
        assert results["closed_form"]["serverful_usd_per_gpu_h"] == pytest.approx(usd, rel=1e-3)
        for one, other in zip(results["points"], found[0]["points"], strict=True):
            for key in ("cost_usd", "price_ratio", "break_even_price_ratio"):
                assert (one[key] or 0.0) == pytest.approx(other[key] or 0.0, rel=1e-3)


def test_the_break_even_of_a_few_cheap_workers_is_below_one(jobs):
    # What workers may cost is told for the offers that a capacity of 6 takes, $0.464 on average.
    found = sweep(
        jobs,
        Allpass(),
        SweepGrid([120.0], adaptive=False, capacities=[6]),
        np.random.default_rng(1),
    )
    (point,) = found.points
    spent = point.results.cost_marketplace_usd + point.results.cost_conventional_usd
    left = found.reference.cost_usd - point.results.cost_serverless_usd
    assert point.price_ratio == pytest.approx(0.464 / 2.10)
    assert point.break_even_price_ratio == pytest.approx(left / spent * 0.464 / 2.10)


@pytest.mark.parametrize("source", [(), ("--prices", "builtin")], ids=["defaults", "builtin"])
def test_a_row_in_a_list_of_capacities_is_the_row_alone(gpuplan, lab, source):
    asked = ("sweep", lab, "--threshold", "2m,10m", "--resamples", 0, "--value-of-time", 0, *source)

    def results(capacities):
        code, out, err = gpuplan(
            *asked, "--capacity", capacities, "--output-format", "json", "--quiet"
        )
        assert code == 0, err
        return json.loads(out)["results"]

    def rows(found):
        # The ratio of the case and the marks depend on what else is in the list.
        shared = ("price_ratio", "non_dominated", "knee", "recommended")
        return [{key: row[key] for key in row if key not in shared} for row in found["points"]]

    each = {capacity: results(capacity) for capacity in ("6", "20", "none")}
    both = results("6,20,none")
    assert rows(both) == [row for alone in each.values() for row in rows(alone)]
    own = {row["capacity"]: row["own_price_ratio"] for row in both["points"]}
    assert own[6] < own[20] < own[None] == both["points"][0]["price_ratio"]
    most = str(both["recommended"]["capacity"]).lower()
    assert both["closed_form"] == each[most]["closed_form"]


def test_break_even_does_not_depend_on_the_factor_of_a_price_ratio(jobs):
    grid = SweepGrid([60.0], adaptive=False, capacities=[6, None], price_ratios=[0.3, 1.0])
    low_6, low, high_6, high = sweep(jobs, Allpass(), grid, np.random.default_rng(1)).points
    assert (low.own_price_ratio, high.own_price_ratio) == (0.3, 1.0)
    for point, other in ((low_6, high_6), (low, high)):
        assert point.break_even_price_ratio == pytest.approx(other.break_even_price_ratio)
    for few, most in ((low_6, low), (high_6, high)):
        expected = serverful_price(Allpass(capacity=6)) / serverful_price(Allpass())
        assert few.own_price_ratio / most.own_price_ratio == pytest.approx(expected)
