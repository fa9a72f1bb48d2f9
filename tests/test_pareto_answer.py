"""What gpuplan pareto answers without --full: the replay beside today, in few lines and digits."""

from types import SimpleNamespace

import numpy as np
import pytest
from support_pareto import results
from support_traces import write_trace

from gpuplan.analysis.characterize.today import COLUMNS as TODAY_COLUMNS
from gpuplan.analysis.characterize.today import today
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.formats.units import Precision
from gpuplan.cli.tables.pareto_peak import within_peak
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS, workload_of
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay import todays_peak
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.speedup.registry import load_speedup

LAW = ("--speedup", "power:0.5")


def hourly(path, jobs, **more):
    """Write jobs of an hour on one GPU, one each half hour."""
    return write_trace(path, [1800.0 * i for i in range(jobs)], [3600.0] * jobs, **more)


def test_a_start_takes_a_minute_unless_measured_or_set(gpuplan, hours, newtrace):
    # On one GPU each job takes 61 min: 2.03 GPUs instead of 2.
    found = results(gpuplan, hours, *LAW)
    assert found["rescale"] == {"origin": "default", "mean_s": pytest.approx(60)}
    assert found["max_mean_jct_s"] == pytest.approx(3660)
    assert found["min_budget_gpus"] == pytest.approx(2 * 61 / 60)
    replay = found["points"][0]["replay"]
    assert replay["held_gpu_h"] == pytest.approx(100 * 61 / 60)  # the replay pays it too
    assert results(gpuplan, hours, *LAW, "--rescale", "0")["max_mean_jct_s"] == pytest.approx(3600)
    measured = results(gpuplan, newtrace, "--speedup", "profile:t4")["rescale"]
    assert measured["origin"] == "profile" and measured["mean_s"] != 60


def test_the_answer_is_today_and_the_replays_in_a_few_lines(gpuplan, hours):
    code, out, err = gpuplan(
        "pareto", hours, *LAW, "--budget", "now+5%,now+50%,4gpu", "--price", "2"
    )
    assert code == 0 and err.count("warning:") <= 3
    assert len(out.splitlines()) <= 45 and max(map(len, out.splitlines())) <= 100
    points = results(gpuplan, hours, *LAW, "--budget", "now+5%,now+50%,4gpu")["points"]
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith(" ")}
    assert "60 min running" in rows["today"]
    show = Precision(100)
    for point in points:
        replay, within = point["replay"], point["replay_within_today_peak"]
        row = rows[point["requested"]]
        assert show.duration(replay["mean_jct_s"]) in row
        assert show.duration(within["p95_jct_s"]) in row
    assert "In replay with 60 s per start or resize, " in " ".join(out.split())
    full = gpuplan("pareto", hours, *LAW, "--budget", "now+5%,now+50%,4gpu", "--full")[1]
    assert "Over time" in full and "Over time" not in out


def test_a_sweep_shows_its_ends_and_the_knee(gpuplan, hours):
    _, out, _ = gpuplan("pareto", hours, *LAW)
    first = [line.split("  ")[0].strip() for line in out.splitlines() if line.startswith(" ")]
    assert {"today", "minimum", "best trade-off", "most useful"} <= set(first)
    assert len(out.splitlines()) <= 45


def test_a_budget_beyond_what_is_of_use_is_told_by_the_gpus_used(gpuplan, hours):
    asked = ("pareto", hours, *LAW, "--widths", "1,2", "--budget", "200gpu")
    text = " ".join(gpuplan(*asked)[1].split())
    (point,) = results(gpuplan, *asked[1:])["points"]
    used = Precision(100).gpus(point["used_gpus"])
    assert point["used_gpus"] < 5
    assert f"{used} GPUs on average (at most {used} of 200 are of use) give" in text
    assert "200 GPUs on average give" not in text


def test_the_range_over_laws_is_replayed_in_the_same_sentence(gpuplan, hours):
    found = results(gpuplan, hours, "--budget", "3gpu")
    laws = {law["name"]: law["replayed"]["mean_jct_s"] for law in found["laws"]}
    assert laws["power:0.8"] == found["points"][0]["replay"]["mean_jct_s"]
    path_of = read_trace(hours, columns=COLUMNS)
    other = workload_of(path_of, load_speedup("power:0.6"))
    plan = solve_frontier(other.classes).at_budget(3.0)
    assert laws["power:0.6"] == replay_plan(other, plan, RentedCluster()).mean_jct_s
    text = " ".join(gpuplan("pareto", hours, "--budget", "3gpu")[1].split())
    show = Precision(100)
    low, high = (show.duration(f(laws.values())) for f in (min, max))
    assert f"if jobs scale as power:0.8 ({low.split()[0]} to {high} under other laws)" in text


def test_a_law_under_which_the_budget_is_too_small_is_named(gpuplan, tmp_path):
    # On 16 GPUs each: the work of a job grows with the exponent.
    path = hourly(tmp_path / "t.parquet", 120, num_gpus=[16] * 120)
    now = results(gpuplan, path, "--no-replay")["load_gpus"]
    text = " ".join(gpuplan("pareto", path, "--budget", f"{1.05 * now:.2f}gpu")[1].split())
    assert "too few GPUs at power:0.9" in text


def test_few_jobs_get_few_digits_and_a_caution(gpuplan, tmp_path):
    path = hourly(tmp_path / "t.parquet", 6)
    code, out, _ = gpuplan("pareto", path, "--budget", "now,now+37%", "--price", "1.2345")
    text = " ".join(out.split())
    assert code == 0 and "only 6 jobs, so these figures are rough" in text
    rows = [line for line in out.splitlines() if line.split()[:1] in (["now"], ["now+37%"])]
    for number in " ".join(rows).replace("now+37%", "").split():
        digits = number.strip("$h").replace(",", "").replace(".", "")
        if digits.isdigit():
            assert len(digits.strip("0")) <= 2, rows
    show = Precision(6)
    assert [show.gpus(v) for v in (0.1234, 2.31, 193.08)] == ["0.13", "2.4", "200"]
    assert (show.duration(8040), show.usd(615_261)) == ("2.2 h", "$620,000")
    many = Precision(100)
    assert [many.gpus(v) for v in (0.1234, 2.311, 193.08, 1234.5)] == [
        "0.124", "2.32", "194", "1,235",
    ]  # fmt: skip
    assert (many.duration(8040), many.usd(1_033_406)) == ("2.23 h", "$1.03M")


def test_gpus_are_never_rounded_below_what_a_plan_needs():
    for jobs in (6, 1000):
        for value in np.geomspace(0.002, 5e5, 60).tolist():
            shown = float(Precision(jobs).gpus(value).replace(",", ""))
            assert value * (1 - 1e-9) <= shown <= value * 1.12


def test_jobs_wider_than_todays_peak_are_planned_again_once(tmp_path, monkeypatch):
    # 1 GPU at the peak, while the plans give jobs more; a cap leaves no plan that narrow.
    path = write_trace(tmp_path / "t.parquet", [7200.0 * i for i in range(8)], [3600.0] * 8)
    trace = read_trace(path, columns=sorted({*COLUMNS, *TODAY_COLUMNS}))
    law, solved = load_speedup("power:0.5"), []

    def solving(classes):
        solved.append(len(classes))
        return solve_frontier(classes)

    monkeypatch.setattr(todays_peak, "solve_frontier", solving)
    for cap_s, fits in ((float("inf"), True), (2400.0, False)):
        choices = ClassOptions(rescale_s=0, caps_s={"all": cap_s} if not fits else {})
        workload = workload_of(trace, law, choices)
        peak = todays_peak.TodaysPeak(
            trace, law, choices, workload, RentedCluster(), today(trace)
        )  # fmt: skip
        frontier = solve_frontier(workload.classes)
        solved.clear()
        for gpus in (2.0, 3.0, 4.0):
            plan = frontier.at_budget(gpus)
            within = peak.replay(plan, replay_plan(workload, plan, RentedCluster()))
            assert (within is not None) == fits
            assert within is None or within.peak_gpus == 1
        assert len(solved) == 1


def test_a_peak_that_no_plan_fits_is_said(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [7200.0 * i for i in range(8)], [3600.0] * 8)
    asked = ("pareto", path, *LAW, "--require", "all <= 40m")
    text = " ".join(gpuplan(*asked)[1].split())
    assert "within today's peak of 1, no plan fits" in text


def mixed(path, h100):
    """Write 40 jobs of an hour, the first on A100, these last ones on H100."""
    types = ["A100"] * (40 - h100) + ["H100"] * h100
    return hourly(path, 40, gpu_type=types)


def test_other_gpu_types_are_never_silently_the_planned_one(gpuplan, tmp_path):
    path = mixed(tmp_path / "t.parquet", 10)
    found = results(gpuplan, path, *LAW, "--price", "2")
    assert found["gpu_mix"] == {
        "planned_gpu_type": "A100", "other_gpu_types": ["H100"],
        "other_gpu_h": pytest.approx(10), "other_gpu_h_share": pytest.approx(0.25),
    }  # fmt: skip
    _, _, err = gpuplan("pareto", path, *LAW, "--price", "2")
    said = " ".join(err.split())
    assert "25% of the GPU-hours ran on H100, planned here as one type at $2 per" in said
    planned = results(gpuplan, path, *LAW, "--gpu", "H100", "--price", "2")["gpu_mix"]
    assert (planned["planned_gpu_type"], planned["other_gpu_h_share"]) == ("H100", 0.75)
    assert results(gpuplan, mixed(tmp_path / "one.parquet", 0), *LAW)["gpu_mix"] is None
    both = ("--gpu", "A100", "--gpu", "H100=2", "--price", "A100=2", "--price", "H100=5")
    assert "gpu_mix" not in results(gpuplan, path, *LAW, *both)  # a plan for both


@pytest.mark.parametrize("gpu", [(), ("--gpu", "A100")])
def test_each_type_of_a_log_is_priced_by_its_own(gpuplan, tmp_path, gpu):
    path = mixed(tmp_path / "t.parquet", 10)
    found = results(gpuplan, path, *LAW, *gpu, "--price", "A100=2", "--price", "H100=5")
    types = {one["gpu_type"]: one for one in found["today"]["gpu_types"]}
    assert {name: one["usd_per_gpu_h"] for name, one in types.items()} == {"A100": 2, "H100": 5}
    assert found["today"]["usd_per_gpu_h"] == pytest.approx((30 * 2 + 10 * 5) / 40)
    # All GPUs are planned as one type, at the mean of their prices, or as the type named.
    assert found["price_usd_per_gpu_h"] == pytest.approx(2 if gpu else 2.75)
    listed = results(gpuplan, path, *LAW, "--gpu", "A100", "--prices", "builtin")["today"]
    own = {one["gpu_type"]: one["usd_per_gpu_h"] for one in listed["gpu_types"]}
    assert own["H100"] > own["A100"] > 0


def test_a_price_of_a_gpu_that_nobody_has_is_refused(gpuplan, tmp_path):
    path = mixed(tmp_path / "t.parquet", 10)
    both = ("--price", "A100=2,H100=5")
    code, _, err = gpuplan("pareto", path, *LAW, *both, "--price", "TPU9=1")
    assert code == 2 and "--price TPU9=...: no such GPU to plan for" in err
    code, _, err = gpuplan("pareto", path, *LAW, *both, "--price", "T4=1")
    assert code == 0 and "the price of T4 is not used" in err
    code, _, err = gpuplan("pareto", path, *LAW, "--price", "H100=5")
    assert code == 2 and "next: --price A100=USD" in err


def test_what_an_option_asks_for_is_shown(gpuplan, hours):
    asked = ("pareto", hours, *LAW, "--budget", "3gpu")
    out = gpuplan(*asked, "--mark", "ours=4,1h", "--baseline", "recorded")[1]
    assert "Known points" in out and "Baselines on the same jobs" in out
    assert "Known points" not in gpuplan(*asked)[1]


def test_more_budget_that_does_not_help_within_todays_peak_is_said_outright(gpuplan, tmp_path):
    # Two GPUs are busy all the time and no job waits: two GPUs at once leave nothing to gain.
    path = hourly(tmp_path / "t.parquet", 120, queue_s=[0.0] * 120)
    asked = (path, *LAW, "--budget", "now+20%")
    (point,) = results(gpuplan, *asked)["points"]
    assert point["replay"]["mean_jct_s"] < 3600 < point["replay_within_today_peak"]["mean_jct_s"]
    text = " ".join(gpuplan("pareto", *asked)[1].split())
    assert "; with +20% of GPUs and today's peak of 2 jobs take " in text
    assert ", slower than today's 60 min" in text
    unknown = " ".join(gpuplan("pareto", hourly(path, 120), *asked[1:])[1].split())
    assert "and today's peak" not in unknown and "within today's peak of 2, " in unknown


def within_text(within, *smaller, requested="now+20%", gpus=12.0):
    """Return the clause on a budget whose replay within a peak of 20 has these JCTs."""
    replays = [SimpleNamespace(jct_s=np.array(jct), mean_jct_s=np.mean(jct)) for jct in smaller]
    points = [
        SimpleNamespace(plan=SimpleNamespace(budget=5.0 + i), within_peak=replay)
        for i, replay in enumerate(replays)
    ]
    point = SimpleNamespace(
        plan=SimpleNamespace(budget=gpus),
        requested=requested,
        replayed=SimpleNamespace(replay=None),
        within_peak=SimpleNamespace(jct_s=np.array(within), mean_jct_s=np.mean(within)),
    )
    now = SimpleNamespace(
        usage=SimpleNamespace(peak_gpus=20, mean_gpus=10.0, jobs=3),
        jobs_with_wait=3,
        mean_jct_s=7200.0,
        p95_jct_s=9000.0,
    )
    study = SimpleNamespace(today=now, now_gpus=10.0, by_request=True, points=[*points, point])
    return within_peak(study, point, Precision(1000))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"within": [3600.0] * 3}, "; within today's peak of 20, 60 min"),
        (
            {"within": [60.0, 60.0, 18000.0]},
            "; within today's peak of 20, 101 min, but P95 rises from 2.5 h to 4.5 h",
        ),
        (
            {"within": [7200.0] * 3},
            "; with +20% of GPUs and today's peak of 20 jobs take 2 h, no faster than today's 2 h",
        ),
        (
            {"within": [9000.0] * 3, "requested": None},
            "; with more budget and today's peak of 20 jobs take 2.5 h, slower than today's 2 h",
        ),
        (
            {"within": [9000.0] * 3, "requested": "now", "gpus": 10.0},
            "; within today's peak of 20, 2.5 h, no faster than today's 2 h",
        ),
    ],
)
def test_a_budget_within_todays_peak_is_compared_with_today(given, expected):
    assert within_text(given.pop("within"), **given) == expected


def test_a_budget_within_todays_peak_is_compared_with_others():
    text = within_text([3600.0] * 3, [3000.0] * 3)
    assert text.endswith("20, 60 min, no faster than 5 GPUs on average within it (50 min)")
    assert "no faster" not in within_text([3600.0] * 3, [3700.0] * 3)
    # The replays are at 5, 6, ... GPUs: of 3 GPUs both are larger.
    text = within_text([3600.0] * 3, [3700.0] * 3, [9000.0] * 3, gpus=3.0)
    assert text.endswith(
        "20, 60 min; more budget is no faster while the peak stays at 20 (61.7 min with 5 GPUs)"
    )
    assert "more budget" not in within_text([3600.0] * 3, [3700.0] * 3, [1800.0] * 3, gpus=3.0)


def test_budgets_in_loads_say_how_many_gpus_a_load_is(gpuplan, tmp_path):
    """Two jobs of 1 h on 2 GPUs, half as fast on one: 4 GPU-hours in the hour of arrivals."""
    log = write_trace(tmp_path / "t.parquet", [0, 3600], [3600, 3600], num_gpus=[2, 2])
    asked = (log, "--speedup", "power:1", "--no-replay", "--budget")
    load = results(gpuplan, *asked, "2x")["load_gpus"]
    out = " ".join(gpuplan("pareto", *asked, "2x")[1].split())
    assert f"; 1x: {load:.3g} GPUs, every job on one" in out
    assert "1x:" not in gpuplan("pareto", *asked, "9gpu")[1]
