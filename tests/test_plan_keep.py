"""``plan.toml`` and ``gpuplan plan --keep``: what is written, what stays, what moves, mistakes."""

import re
import tomllib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support_plan import (
    BOTH,
    HOUR,
    document_of,
    jobs_from,
    market,
    program_of,
    refusal_of,
    results_of,
)
from support_traces import START, write_trace

from gpuplan.planner.plan.growth import plan_growths
from gpuplan.planner.plan.kept import OldPlan, keep_plan
from gpuplan.planner.plan.levers import rented_usd_per_h
from gpuplan.planner.plan.plan_file import parse_plan, plan_text, read_plan
from gpuplan.planner.plan.program import PlanLimits
from gpuplan.planner.plan.purchase import best, purchase
from gpuplan.planner.plan.uncertainty import plan_intervals

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
TERM = ("--commit", "0.9:1y", "--on-demand", "1.29")
LEVERS = (
    *("--spot", "job_class = 'b'", "--spot-price", "0.5", "--spot-max", "20%"),
    *("--serverless", "1.2", "--slower", "2x", "--speedup", "power:0.7"),
)


def write_steps(path, days, of_a=2.0, of_b=2.0, begin=0.0):
    """Write days of 4 hours: ``of_a`` GPUs all day, one more in hour 1, ``of_b`` more in hour 4."""
    submit = [begin + 4 * HOUR * day + s for day in range(days) for s in (0, 0, 3 * HOUR)]
    return write_trace(
        path,
        submit,
        [4 * HOUR, HOUR, HOUR] * days,
        [of_a, 1.0, of_b] * days,
        job_class=["a", "b", "b"] * days,
        gpu_type=["A100"] * 3 * days,
    )


@pytest.fixture
def steps(tmp_path):
    return write_steps(tmp_path / "steps.parquet", 6)


@pytest.fixture
def answer(gpuplan):
    return partial(document_of, gpuplan)


def items_of(results):
    """Return (what, class or type, bucket) -> whether it moved, old, new."""
    return {
        (row["item"], row["name"] or row["gpu_type"], row["width_bucket"]): (
            row["moved"], row["old"], row["new"],
        )
        for row in results["kept"]["items"]
    }  # fmt: skip


def test_a_plan_is_written_and_read_back(gpuplan, steps, tmp_path, answer):
    file = tmp_path / "plan.toml"
    document = answer(steps, *TERM, *LEVERS, "--target", "mean_jct <= 3h", "-o", file)
    results, plan = document["results"], read_plan(file)
    assert parse_plan(file, plan_text(plan).encode()) == plan
    assert plan.plan.sha256 == document["inputs"][0]["sha256"]
    assert (plan.plan.jobs, plan.plan.labelled_by) == (18, "job_class")
    assert plan.results.usd_per_month == results["usd_per_month"]
    assert plan.options.target == "mean_jct <= 10800s" and plan.options.slower == "2x"
    assert plan.types[0].commit_usd == {"1y": 0.9} and plan.types[0].spot_usd == 0.5
    (commitment,) = plan.commitment
    committed = next(row for row in results["markets"] if row["name"] == "committed")
    assert commitment.gpus == committed["gpus"]
    assert (commitment.until - commitment.begin).days == 365
    for row, written in zip(results["classes"], plan.classes, strict=True):
        assert {r["name"]: r["share"] for r in row["routes"]} == written.routes
    on_spot = [each for each in plan.classes if "spot" in each.routes]
    assert on_spot[0].checkpoint_every_s["1"] == pytest.approx(np.sqrt(2 * 30 * 43200))


def test_a_plan_is_written_whole_or_not_at_all(gpuplan, steps, tmp_path, monkeypatch):
    file = tmp_path / "plan.toml"
    file.write_text("old")

    def broken(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpuplan.planner.studies.plan_document.plan_text", broken)
    code, _, err = gpuplan("plan", steps, *BOTH, "-o", file, "-o", tmp_path / "plan.json")
    assert code != 0 and "No space left" in err
    assert file.read_text() == "old" and sorted(tmp_path.iterdir()) == [file, steps]


@pytest.mark.parametrize("words", [(*BOTH,), (*TERM, *LEVERS), (*BOTH, "--budget", "$2200/month")])
def test_the_same_log_keeps_everything(steps, tmp_path, answer, words):
    file, again = tmp_path / "plan.toml", tmp_path / "again.toml"
    first = answer(steps, *words, "-o", file)["results"]
    document = answer(steps, "--keep", file, "-o", again)
    kept = document["results"]
    assert kept["usd_per_month"] == pytest.approx(first["usd_per_month"])
    assert not any(moved for moved, _, _ in items_of(kept).values())
    assert all(old == new for _, old, new in items_of(kept).values())
    assert kept["kept"]["keeping_usd_per_month"] in (None, pytest.approx(0, abs=0.01))
    old, new = (tomllib.loads(path.read_text()) for path in (file, again))
    assert {**old, "results": 0, "market": 0, "class": 0} == {
        **new, "results": 0, "market": 0, "class": 0,
    }  # fmt: skip
    assert [each["routes"] for each in old["class"]] == [
        pytest.approx(each["routes"]) for each in new["class"]
    ]


def test_options_that_are_given_are_not_those_of_the_plan(steps, tmp_path, answer):
    file = tmp_path / "plan.toml"
    answer(steps, *BOTH, *LEVERS, "-o", file)
    document = answer(steps, "--keep", file, "--slower", "3x", "--on-demand", "1.2")
    asked = document["parameters"]
    assert (asked["slower"], asked["speedup"], asked["spot_max"]) == ("3x", "power:0.7", 0.2)
    assert asked["on_demand_usd_per_gpu_h"] == {"": 1.2} and not asked["commit_usd_per_gpu_h"]


def test_more_demand_moves_the_commitment_alone(steps, tmp_path, answer, gpuplan):
    # Class a holds 6 GPUs in place of 2 on the later days: commit to 6. Class b stays on spot.
    file, longer = tmp_path / "plan.toml", tmp_path / "longer.parquet"
    spot = ("--spot", "job_class = 'b'", "--spot-price", "0.5")
    answer(steps, *BOTH, *spot, "-o", file)
    write_steps(longer, 12, of_a=6.0)
    results = answer(longer, "--keep", file)["results"]
    assert items_of(results) == {
        ("committed", "A100", ""): (True, "2 GPUs", "6 GPUs"),
        ("routes", "b", "1"): (False, "spot", "spot"),
        ("routes", "b", "2-4"): (False, "spot", "spot"),
    }
    # With 2 committed, 4 GPUs are on demand in place of committed: 4 x (1.29 - 0.90) x 730.5.
    assert results["kept"]["items"][0]["worth_usd_per_month"] == pytest.approx(4 * 0.39 * 730.5)
    assert results["kept"]["new_classes"] == ["a, A100, 5-8 GPUs"]
    assert results["kept"]["old_classes"] == ["a, A100, 2-4 GPUs"]
    out = " ".join(gpuplan("plan", longer, "--keep", file)[1].split())
    assert "Of the older plan, change 1 item." in out and "2 GPUs 6 GPUs $1,140 moved" in out


def test_a_change_below_the_hysteresis_stays_and_says_what_it_costs(tmp_path, answer):
    # 40 GPUs all day, then 41: one more committed saves 0.39 of 36 dollars an hour.
    file = tmp_path / "plan.toml"
    answer(write_steps(tmp_path / "a.parquet", 6, of_a=40.0), *BOTH, "-o", file)
    later = write_steps(tmp_path / "b.parquet", 12, of_a=41.0)
    kept = answer(later, "--keep", file)["results"]["kept"]
    assert items_of({"kept": kept})["committed", "A100", ""] == (False, "40 GPUs", "41 GPUs")
    assert kept["keeping_usd_per_month"] == pytest.approx(0.39 * 730.5)
    moved = answer(later, "--keep", file, "--hysteresis", "1%")["results"]["kept"]
    assert items_of({"kept": moved})["committed", "A100", ""] == (True, "40 GPUs", "41 GPUs")
    assert moved["keeping_usd_per_month"] == pytest.approx(0, abs=1e-6)


def test_a_term_stays_until_it_ends(tmp_path, answer):
    file, later = tmp_path / "plan.toml", tmp_path / "later.toml"
    day_s = 86400.0
    answer(write_steps(tmp_path / "a.parquet", 6, of_a=6.0), *TERM, "-o", file)
    fewer = write_steps(tmp_path / "b.parquet", 12, of_a=2.0)
    held = answer(fewer, "--keep", file, "--hysteresis", "0")["results"]
    assert items_of(held)["committed", "A100", ""] == (False, "6 GPUs", "6 GPUs")
    committed = next(row for row in held["markets"] if row["name"] == "committed")
    assert committed["gpus"] == 6
    assert committed["usd_per_month"] == pytest.approx(6 * 0.9 * 730.5)
    # More than a year later the term is over; at another price the held ones keep theirs.
    ended = write_steps(tmp_path / "c.parquet", 12, of_a=2.0, begin=400 * day_s)
    assert items_of(answer(ended, "--keep", file)["results"])["committed", "A100", ""] == (
        True, "6 GPUs", "2 GPUs",
    )  # fmt: skip
    more = write_steps(tmp_path / "d.parquet", 12, of_a=8.0)
    cheaper = ("--commit", "0.7:1y", "--on-demand", "1.29")
    grown = answer(more, "--keep", file, *cheaper, "-o", later)["results"]
    assert items_of(grown)["committed", "A100", ""] == (True, "6 GPUs", "8 GPUs")
    committed = next(row for row in grown["markets"] if row["name"] == "committed")
    assert committed["usd_per_month"] == pytest.approx((6 * 0.9 + 2 * 0.7) * 730.5)
    assert [(c.gpus, c.usd_per_gpu_h) for c in read_plan(later).commitment] == [(6, 0.9), (2, 0.7)]


def test_a_lever_that_is_gone_moves_what_used_it(steps, tmp_path, gpuplan):
    file = tmp_path / "plan.toml"
    spot = ("--spot", "job_class = 'b'", "--spot-price", "0.5")
    assert gpuplan("plan", steps, *BOTH, *spot, "-o", file)[0] == 0
    file.write_text(file.read_text().replace("spot_usd = 0.5\n", "").replace('spot = "', 'by = "'))
    text = file.read_text()
    file.write_text("\n".join(row for row in text.splitlines() if not row.startswith("by =")))
    items = results_of(gpuplan, steps, "--keep", file)["kept"]["items"]
    rows = [row for row in items if row["name"] == "b"]
    assert {row["reason"] for row in rows} == {"spot is not offered any more"}
    assert all(row["moved"] and row["worth_usd_per_month"] is None for row in rows)


def test_a_condition_of_the_file_is_not_called_an_option_that_was_typed(steps, tmp_path, gpuplan):
    file = tmp_path / "plan.toml"
    spot = ("--spot", "num_gpus > 1", "--spot-price", "0.5")
    assert gpuplan("plan", steps, *BOTH, *spot, "-o", file)[0] == 0
    file.write_text(file.read_text().replace("num_gpus > 1", "no_such > 3"))
    code, _, err = gpuplan("plan", steps, "--keep", file)
    assert code == 3 and "plan.toml: options.spot" in err and "--spot" not in err
    assert "--spot" in refusal_of(gpuplan, 2, steps, "--keep", file, "--spot", "none_such > 3")


def test_worth_is_the_difference_of_two_programs():
    # The old plan committed to none and put b on demand; both changes are worth something.
    hours = [3600.0 * h for h in range(40)]
    jobs = jobs_from(
        [*hours, *hours], [HOUR] * 80, [4] * 40 + [1] * 40, job_class=["a"] * 40 + ["b"] * 40,
        spot="job_class = 'b'",
    )  # fmt: skip
    program = program_of(jobs, market(0.9, 1.3, spot_usd=0.3), limits=PlanLimits())
    old = OldPlan({"": 0.0}, {("a", "", "2-4"): {"base": 1.0}, ("b", "", "1"): {"base": 1.0}})
    anew = purchase(program)
    bought, kept = keep_plan(anew, replace(old, hysteresis=0.0))
    free = best(program).usd_per_h
    assert bought.whole_nodes.usd_per_h == pytest.approx(purchase(program).whole_nodes.usd_per_h)
    assert anew.exact.usd_per_h == pytest.approx(free)
    worth = {(item.item, item.name): item.worth_usd_per_month for item in kept.items}
    assert worth["committed", ""] == pytest.approx(4 * 0.4 * 730.5)
    # On base b would be a fifth committed GPU.
    on_spot = next(i for i, r in enumerate(program.columns.routes) if r.name == "spot")
    saved = 0.9 - 0.3 * program.columns.outside_gpus[on_spot].mean()
    assert worth["routes", "b"] == pytest.approx(saved * 730.5, rel=1e-6)
    _, stays = keep_plan(anew, replace(old, hysteresis=10.0))
    assert not any(item.moved for item in stays.items)
    assert stays.keeping_usd_per_month == pytest.approx((5 * 1.3 - free) * 730.5)


def test_changes_that_matter_only_together_are_not_lost():
    # Two classes with the same cheap way out: either alone saves 0.2, which is under 30% of 1.
    hours = [3600.0 * h for h in range(10)]
    jobs = jobs_from(
        [*hours, *hours],
        [HOUR] * 20,
        [1] * 20,
        job_class=["a"] * 10 + ["b"] * 10,
        spot="num_gpus = 1",
    )
    program = program_of(jobs, market(None, 1.0, spot_usd=0.5), limits=PlanLimits())
    old = OldPlan({}, {(name, "", "1"): {"base": 1.0} for name in "ab"}, hysteresis=0.6)
    _, kept = keep_plan(purchase(program), old)
    first, second = (item.worth_usd_per_month for item in kept.items)
    assert first == pytest.approx(second) and not any(item.moved for item in kept.items)
    assert kept.keeping_usd_per_month == pytest.approx(first + second)


def test_shares_that_break_a_limit_by_a_hair_shift():
    # Spot makes a job longer by o; half of the jobs there are 1 + o / 2 times as slow: the bound.
    hours = [3600.0 * h for h in range(40)]
    jobs = jobs_from(hours, [HOUR] * 40, [1] * 40, job_class=["a"] * 40, spot="num_gpus = 1")
    prices = market(None, 1.0, spot_usd=0.3)
    columns = program_of(jobs, prices).columns
    at = next(i for i, route in enumerate(columns.routes) if route.name == "spot")
    slower = (1 + columns.time_s[at] / HOUR) / 2
    anew = purchase(program_of(jobs, prices, limits=PlanLimits(slower=slower)))
    assert anew.whole_nodes.share[at] == pytest.approx(0.5)

    def kept_with(share):
        old = OldPlan({}, {("a", "", "1"): {"base": 1 - share, "spot": share}})
        bought, kept = keep_plan(anew, old)
        return bought.whole_nodes.share[at], kept.items[0]

    share, item = kept_with(0.51)
    assert not item.moved and not item.reason and share == pytest.approx(0.5)
    share, item = kept_with(0.49)  # within the bound: as it is
    assert not item.moved and share == pytest.approx(0.49)
    _, item = kept_with(0.55)
    assert item.moved and item.reason == "the old value breaks a limit"


def test_growth_intervals_and_cheaper_plans_of_what_stays():
    # 41 GPUs all the time, of which the older plan commits to 40: the other stays on demand.
    jobs = jobs_from([0], [40 * HOUR], [41], job_class=["a"])
    anew = purchase(program_of(jobs, market(0.9, 1.29), limits=PlanLimits(slower=1.1)))
    old = OldPlan({"": 40.0}, {("a", "", "over 32"): {"base": 1.0}})
    bought, kept = keep_plan(anew, old)
    assert not any(item.moved for item in kept.items)
    assert bought.all_committed.tolist() == [40.0]
    assert bought.whole_nodes.usd_per_h == pytest.approx(40 * 0.9 + 1.29)
    (same, grown) = plan_growths(bought, (0.0, 1.0))
    assert same.usd_per_month == pytest.approx((40 * 0.9 + 1.29) * 730.5)
    assert same.best_committed[0].gpus == 41 and grown.best_committed[0].gpus == 82
    assert same.regret_share == pytest.approx((40 * 0.9 + 1.29) / (41 * 0.9) - 1)
    intervals = plan_intervals(bought, seed=0, resamples=3)
    assert intervals.usd_per_month.low == pytest.approx((40 * 0.9 + 1.29) * 730.5)
    assert intervals.committed[0].low_gpus == pytest.approx(41)
    # A term that goes on counts among what is committed to, and is not a saving.
    held = market(0.9, 1.29, held=40.0, held_usd=0.8)
    term = purchase(program_of(jobs, held))
    assert term.all_committed.tolist() == [41.0]
    assert plan_growths(term, (1.0,))[0].best_committed[0].gpus == 82
    rented = rented_usd_per_h(term.program, term.program.weights)
    assert rented == pytest.approx(40 * 0.8 + 1.29)


def test_holdout_and_delays_stay(steps, tmp_path, answer):
    file = tmp_path / "plan.toml"
    words = ("--holdout", "40%", "--provision-delay", "5m", "--release-delay", "1m")
    first = answer(steps, *BOTH, *words, "--billing", "1h", "-o", file)["results"]
    plan = read_plan(file)
    assert (plan.options.holdout, plan.options.provision_s) == (0.4, 300)
    kept = answer(steps, "--keep", file)
    assert kept["results"]["replay"] == first["replay"]
    assert kept["parameters"]["holdout"] == 0.4
    other = answer(steps, "--keep", file, "--provision-delay", "10m", "--holdout", "0.2")
    assert other["parameters"]["holdout"] == 0.2


def test_mistakes_in_a_plan_are_told_by_line(gpuplan, steps, tmp_path):
    file = tmp_path / "plan.toml"
    assert gpuplan("plan", steps, *BOTH, "-o", file)[0] == 0
    good = file.read_text()

    def refused(old, new):
        assert old is None or old in good
        text = good.replace("A100", "B100") if old is None else good.replace(old, new, 1)
        file.write_text(text)
        return refusal_of(gpuplan, 3, steps, "--keep", file)

    assert "type.0.on_demand_usd: found 'x', expected a number" in refused("= 1.29", "= 'x'")
    line = good.splitlines().index("on_demand_usd = 1.29") + 1
    assert f"plan.toml:{line}:" in refused("= 1.29", "= -1.0")
    assert "expected some of base, width 0.25" in refused("{ base =", "{ bass =")
    assert "the shares add up to 0.7, expected 1" in refused("base = 1.0", "base = 0.7")
    assert "unknown key (did you mean class?)" in refused("[[class]]", "[[klass]]")
    assert "text of the form" in refused('sha256 = "', 'sha256 = "zz')
    assert "class.2: ('b', 'A100', '2-4') is given twice" in refused(
        'width_bucket = "1"', 'width_bucket = "2-4"'
    )
    assert "class.0.width_bucket: found '3'" in refused('bucket = "2-4"', 'bucket = "3"')
    assert "expected the name of a [[type]]" in refused('gpu_type = "A100"', 'gpu_type = "B"')
    term = "type.0.commit_usd: found 'banana': expected a term such as 1y"
    assert term in refused('commit_usd = { "" =', 'commit_usd = { "banana" =')
    assert "begin: found 'soon', expected a date and time such as 2026-01-31T00" in refused(
        re.search("begin = .*", good)[0], 'begin = "soon"'
    )
    assert "options.holdout: found 3, expected a number <= 1.0 next" in refused(
        "holdout = 0.3", "holdout = 3"
    )
    assert "commitment.0.until: found 2020-01-01 00:00:00, expected a time after begin" in refused(
        "usd_per_gpu_h = 0.9",
        "usd_per_gpu_h = 0.9\nbegin = 2021-01-01T00:00:00\nuntil = 2020-01-01T00:00:00",
    )
    assert "the plan is of B100, and this log names A100 next: a plan of this log" in refused(
        None, None
    )
    assert "not TOML" in refused("[plan]", "[plan")
    assert "has no sha256" in refused("sha256", "# sha256")
    file.write_text("")
    assert gpuplan("plan", steps, "--keep", file)[0] == 3
    assert gpuplan("plan", steps, "--keep", tmp_path / "none.toml")[0] == 3
    assert gpuplan("plan", steps, *BOTH, "--hysteresis", "often")[0] == 2
    file.write_text(good)
    code, _, err = gpuplan("plan", steps, "--keep", file, "-o", file)
    assert code == 3 and "input" in err and file.read_text() == good


def test_a_commitment_of_a_price_book_stays_until_it_ends(tmp_path, answer):
    book, file, later = (tmp_path / name for name in ("book.toml", "plan.toml", "later.toml"))
    book.write_text(
        '[[commitment]]\ngpu_type = "A100"\ngpus = 5\nusd_per_gpu_h = 0.8\n'
        f"from = 2020-01-01\nuntil = {START.year + 1}-06-01\n"
        '[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.29\n'
    )
    first = write_steps(tmp_path / "a.parquet", 6)
    results = answer(first, "--contracts", book, "-o", file)["results"]
    committed = next(row for row in results["markets"] if row["name"] == "committed")
    assert committed["gpus"] == 2  # planned as if the term had ended
    (written,) = read_plan(file).commitment
    assert (written.gpus, written.usd_per_gpu_h, written.term) == (5, 0.8, "")
    assert written.until is not None and written.until.year == START.year + 1
    longer = write_steps(tmp_path / "b.parquet", 12)
    held = answer(longer, "--keep", file, "--hysteresis", "0", "-o", later)["results"]
    committed = next(row for row in held["markets"] if row["name"] == "committed")
    assert committed["gpus"] == 5
    assert committed["usd_per_month"] == pytest.approx(5 * 0.8 * 730.5)
    assert read_plan(later).commitment == [written]
    again = answer(longer, "--keep", file, "--contracts", book, "-o", later)["results"]
    assert read_plan(later).commitment == [written]
    assert again["usd_per_month"] == pytest.approx(held["usd_per_month"])
    ended = write_steps(tmp_path / "c.parquet", 12, begin=600 * 86400.0)
    free = answer(ended, "--keep", file)["results"]
    committed = next(row for row in free["markets"] if row["name"] == "committed")
    assert committed["gpus"] == 2
