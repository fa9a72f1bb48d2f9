"""Policies that lend GPUs as spot: small traces worked by hand, and laws."""

import json
import tracemalloc

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.analysis.forecast.demand import WEEK_H, DemandSeries
from gpuplan.analysis.forecast.models import SEASONAL_WEEK
from gpuplan.cli.tables.lending_tables import _earning, _spot_waiting
from gpuplan.planner.policies.spot.lending import _refits, demand_bound_by_hour
from gpuplan.planner.policies.spot.settings import ABOUT, scheduler_of, scheduler_with, settings_of
from gpuplan.planner.runs.settings import defaults_of
from gpuplan.simkit.spot.parameters import SCHEDULERS

pytestmark = pytest.mark.kernels
POLICIES = list(ABOUT)


def compared(gpuplan, trace, *words, cluster="2x4"):
    code, out, err = gpuplan(
        "compare", str(trace), "--cluster", cluster, *words, "--output-format", "json"
    )
    assert code == 0, err
    return json.loads(out), err


@pytest.fixture
def small(tmp_path):
    """Two nodes of 4: a spot job of 8 GPUs from 0 s, evicted for a job of 4 at 5,000 s."""
    return write_trace(
        tmp_path / "t.parquet",
        [0, 5000],
        [9000, 1000],
        [8.0, 4.0],
        priority=pl.Series(["spot", "hp"], dtype=pl.Enum(["hp", "spot"])),
        num_workers=pl.Series([2, 1], dtype=pl.Int32),
        job_id=["lent", "own"],
        group=["a", "b"],
    )


def test_an_eviction_worked_by_hand(gpuplan, small):
    found, err = compared(
        gpuplan, small, "--policy", "yarn-cs", "--price", "1", "--spot-price", "2"
    )
    (row,) = found["results"]["policies"]
    # The spot job starts at 0 and works until 5,030 s, of which 3,600 s are kept; the other job
    # runs from 5,030 to 6,030 s; then 40 s of start-up and 5,400 s of work: it ends at 11,470 s.
    assert row["hp"]["mean_jct_s"] == 1030 and row["hp"]["mean_jqt_s"] == 30
    assert row["spot"]["mean_jct_s"] == 11470
    assert row["spot"]["mean_jqt_s"] == 1000
    assert (row["spot_runs"], row["evictions"], row["eviction_rate"]) == (2, 1, 0.5)
    assert row["guarantee_success_share"] == 1  # it lasted more than the hour guaranteed
    assert row["wasted_gpu_h"] == pytest.approx(8 * (1430 + 40) / 3600)
    assert row["allocation_rate"] == 1
    # Charged until the last recorded end, 9,000 s: two runs of 8 GPUs.
    held = 8 * (5030 + 9000 - 6030) / 3600
    assert row["paying_spot_gpu_h"] == pytest.approx(held)
    assert row["benefit_usd_per_month"] == pytest.approx(2 * held * 730.5 / 2.5)
    assert "jobs request" in err


def test_the_answer_on_lending_comes_before_the_load(gpuplan, small):
    code, out, err = gpuplan("compare", str(small), "--cluster", "2x4", "--policy", "yarn-cs")
    assert code == 0 and out.startswith("yarn-cs earns ") and "jobs request" in err
    assert "jobs request" not in out
    assert "at an assumed $0.39 per spot GPU-hour" in " ".join(out.split())
    words = (
        "compare",
        str(small),
        "--cluster",
        "2x4",
        "--policy",
        "yarn-cs",
        "--spot-price",
        "0.5",
    )
    assert "/month at $0.50 per spot GPU-hour" in " ".join(gpuplan(*words)[1].split())


def test_leases_have_no_settings_of_evictions():
    dropped = {"grace_s", "checkpoint_every_s", "milestones", "milestones_s"}
    assert dropped <= settings_of("yarn-cs").keys()
    assert not dropped & settings_of("chronus").keys()


@pytest.mark.parametrize(
    ("setting", "kept_s"), [("milestones=0.25/0.5", 4500), ("milestones_s=30m/80m/3h", 4800)]
)
def test_milestones_take_the_place_of_regular_checkpoints(gpuplan, small, setting, kept_s):
    found, _ = compared(gpuplan, small, "--policy", "yarn-cs", "--set", setting)
    (row,) = found["results"]["policies"]
    assert row["spot"]["mean_jct_s"] == 6030 + 40 + 9000 - kept_s
    assert row["wasted_gpu_h"] == pytest.approx(8 * (5030 - kept_s + 40) / 3600)


def test_a_short_run_that_is_evicted_earns_nothing(gpuplan, tmp_path):
    trace = write_trace(
        tmp_path / "t.parquet", [0, 600], [9000, 9000], [8.0, 8.0],
        priority=pl.Series(["spot", "hp"], dtype=pl.Enum(["hp", "spot"])),
        num_workers=pl.Series([2, 2], dtype=pl.Int32),
    )  # fmt: skip
    (row,) = compared(gpuplan, trace, "--policy", "yarn-cs")[0]["results"]["policies"]
    assert row["guarantee_success_share"] == 0.5
    assert row["benefit_usd_per_month"] == 0  # the window ends before the second run


@pytest.fixture
def busy(tmp_path):
    rng = np.random.default_rng(7)
    n = 250
    return write_trace(
        tmp_path / "busy.parquet",
        np.sort(rng.uniform(0, 2.5 * 86400, n)),
        np.rint(rng.exponential(6000, n)) + 60.5,
        rng.choice([0.25, 1.0, 2.0, 4.0, 8.0], n).tolist(),
        group=[f"team-{one}" for one in rng.integers(0, 3, n)],
        job_id=[f"job-{i}" for i in range(n)],
    )


SPOT = ("--spot", "duration_s < 5000")


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_finishes_every_job_and_keeps_its_laws(gpuplan, busy, tmp_path, name):
    rows = tmp_path / "rows.parquet"
    code, out, err = gpuplan(
        "simulate", str(busy), "--policy", name, "--cluster", "4x8", *SPOT, "--output-format",
        "json", "-o", str(rows), "--timeline", str(tmp_path / "line.parquet"),
        "-o", str(tmp_path / "picture.svg"),
    )  # fmt: skip
    assert code == 0, err
    found, frame = json.loads(out)["results"], pl.read_parquet(rows)
    assert found["hp"]["jobs"] + found["spot"]["jobs"] == frame.height
    assert found["hp"]["unfinished"] == found["spot"]["unfinished"] == 0
    assert (frame["start_s"] >= frame["submit_s"]).all()
    assert frame.filter(priority="hp")["preemptions"].sum() == 0
    assert found["evictions"] == frame["preemptions"].sum()
    work = frame["jct_s"] - frame["jqt_s"]  # time with GPUs
    trace = pl.read_parquet(busy).sort("submit_time")
    assert (work >= trace["duration_s"] - 1e-6).all()
    assert (frame.filter(priority="hp")["jct_s"] >= trace["duration_s"].min()).all()
    assert found["spot_runs"] >= found["spot"]["jobs"]
    assert 0 <= found["allocation_rate"] <= 1
    line = pl.read_parquet(tmp_path / "line.parquet")
    ticks = line.drop_nulls("hp_gpus")
    assert (ticks["hp_gpus"] + ticks["spot_gpus"] <= 32).all()
    assert line["used_gpus"].drop_nulls().max() <= 32
    assert (tmp_path / "picture.svg").stat().st_size > 1000


def test_first_fit_knows_of_priorities_beside_policies_that_lend(gpuplan, busy):
    words = ("--policy", "gfs", "--policy", "first-fit", "--set", "first-fit.blocking=false")
    found, _ = compared(gpuplan, busy, *words, *SPOT, cluster="4x8")
    gfs, first_fit = found["results"]["policies"]
    assert first_fit["name"] == first_fit["policy"] == "spot-first-fit"
    _, out, _ = gpuplan("compare", str(busy), *words, *SPOT, "--cluster", "4x8")
    assert " spot-first-fit " in out and " first-fit " not in out
    words = ("--policy", "gfs", "--policy", "first-fit", "--policy", "spot-first-fit")
    code, _, err = gpuplan("compare", str(busy), *words, *SPOT, "--cluster", "4x8")
    assert code == 2 and "give one of the two" in err
    code, _, err = gpuplan("simulate", str(busy), "--policy", "first-fit", *SPOT)
    assert code == 2 and "next: --policy spot-first-fit" in err
    assert first_fit["spot"]["jobs"] == gfs["spot"]["jobs"] > 0
    alone, _ = compared(gpuplan, busy, "--policy", "first-fit", cluster="4x8")
    assert "spot" not in alone["results"]["policies"][0]


def test_all_policies_queue_alike_unless_set(gpuplan, busy):
    assert {settings_of(name)["blocking"].default for name in POLICIES} == {False}
    words = ("compare", str(busy), "--cluster", "4x8", *SPOT, "--policy", "gfs")
    words = (*words, "--policy", "yarn-cs", "--policy", "fifo")
    _, out, err = gpuplan(*words)
    assert "jobs pass one that does not fit" in out and "unequal queues" not in err
    _, out, err = gpuplan(*words, "--set", "yarn-cs.blocking=true")
    assert "jobs pass" not in out
    assert "unequal queues: under yarn-cs a job that does not fit holds up" in " ".join(err.split())


def test_a_comparison_shows_high_priority_jobs_without_spot(gpuplan, small, busy):
    words = ("--policy", "fifo", "--policy", "yarn-cs")
    found, _ = compared(gpuplan, small, *words)
    (alone,) = found["results"]["no_spot"]
    assert alone["label"] == "yarn-cs" and alone["hp"]["jobs"] == 1
    # With spot it waits for 30 s of grace (the case above); alone it starts at once.
    assert (alone["hp"]["mean_jqt_s"], alone["hp"]["mean_jct_s"]) == (0, 1000)
    _, out, _ = gpuplan("compare", str(small), "--cluster", "2x4", *words)
    said = " ".join(out.split())
    assert "High-priority jobs wait on average 30 s (+30 s from lending)." in said
    only, _ = compared(gpuplan, busy, *words, "--where", "duration_s < 5000", *SPOT, cluster="4x8")
    assert only["results"]["no_spot"] == []
    fifo, _ = compared(gpuplan, small, "--policy", "fifo")
    assert fifo["results"]["no_spot"] == []


def test_each_policy_is_compared_with_itself_without_spot(gpuplan, tmp_path):
    # One node of 4. High priority: 3 GPUs for 1,000 s from 0 s, 4 for 100 s from 10 s, 1 for 100 s
    # from 20 s. A spot job of 1 GPU comes at 5 s. Without it the last job starts at once where it
    # may pass, so the others wait 0 and 990 s; behind the second it waits until 1,100 s. With it
    # the last one waits for 30 s of grace under yarn-cs, and so does the second at 1,000 s.
    trace = write_trace(
        tmp_path / "t.parquet", [0, 5, 10, 20], [1000, 9000, 100, 100], [3.0, 1.0, 4.0, 1.0],
        priority=pl.Series(["hp", "spot", "hp", "hp"], dtype=pl.Enum(["hp", "spot"])),
    )  # fmt: skip
    yarn, lyra = "yarn-cs", "lyra:blocking=true"
    for order in ((yarn, lyra), (lyra, yarn)):
        words = ("--policy", order[0], "--policy", order[1])
        results = compared(gpuplan, trace, *words, cluster="1x4")[0]["results"]
        alone, lent = (
            {one["label"]: one["hp"]["mean_jqt_s"] for one in results[name]}
            for name in ("no_spot", "policies")
        )
        assert [*alone] == [*lent] == [*order]
        assert alone == {yarn: pytest.approx(330), lyra: pytest.approx(690)}
        assert lent == {yarn: pytest.approx(350), lyra: pytest.approx(690)}
    _, out, _ = gpuplan("compare", str(trace), "--cluster", "1x4", *words)
    said = " ".join(out.split())
    assert f"under {lyra} (+0 s from lending) and 5.83 min under {yarn} (+20 s from" in said
    assert f"Spot jobs wait 3.33 min under {yarn}, 19.9 min under {lyra}." in said


def test_spot_waits_are_said_where_they_differ_much():
    waits = {"a": 90.0, "b": 200.0}
    rows = [{"label": name, "spot": {"mean_jqt_s": wait}} for name, wait in waits.items()]
    assert _spot_waiting(rows) == "Spot jobs wait 90 s under a, 3.33 min under b."
    rows[0]["spot"]["mean_jqt_s"] = 110.0
    assert _spot_waiting(rows) == ""


@pytest.mark.parametrize("name", ["gfs", "yarn-cs", "chronus"])
def test_utilization_counts_no_work_that_is_not_done(gpuplan, busy, name):
    words = ("--policy", name, "--set", "drain_s=0", *SPOT)
    found, _ = compared(gpuplan, busy, *words, cluster="1x8")
    (row,) = found["results"]["policies"]
    assert row["spot"]["unfinished"] > 0
    assert 0 < row["utilization"] <= 1
    (demand,) = row["demand"]
    assert demand["hp_demand_over_capacity"] > 1  # a ratio, no share
    whole = compared(gpuplan, busy, "--policy", name, *SPOT, "--window", "run", cluster="8x8")
    (row,) = whole[0]["results"]["policies"]
    assert row["utilization"] == pytest.approx(row["gpu_h"] / row["paid_gpu_h"], rel=1e-3)


@pytest.mark.parametrize(
    ("days", "words", "said"),
    [
        (20_000, (), "it takes 480,000 hours, at most 200,000 can be"),
        (60, ("--set", "tick_s=1s"), "5,185,000 updates of the quota; expected at most 5,000,000"),
    ],
)
def test_a_replay_over_decades_or_of_many_ticks_is_refused(gpuplan, tmp_path, days, words, said):
    log = write_trace(tmp_path / "t.parquet", [0, days * 86_400], [1_000, 1_000], [1.0, 1.0])
    code, _, err = gpuplan("simulate", log, "--policy", "gfs", "--cluster", "2x4", *words)
    assert code == 2 and said in " ".join(err.split()) and "next: " in err


@pytest.mark.parametrize("policy", ["gfs", "fifo", "gavel"])
def test_more_gpus_than_a_cluster_can_have_are_refused(gpuplan, tmp_path, policy):
    trace = write_trace(tmp_path / "t.parquet", [0, 10], [100, 100], [1e7, 1e7])
    code, _, err = gpuplan("compare", str(trace), "--cluster", "x8", "--policy", policy)
    assert code == 2 and "20,000,000 GPUs are needed" in err, err


def test_nodes_of_many_gpus_are_no_hindrance(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0] * 5000, [100] * 5000, [1.0] * 5000)
    code, out, err = gpuplan(
        "compare", str(trace), "--cluster", "x4096", "--policy", "fifo", "--output-format", "json"
    )  # one node for each job would be 20 million GPUs
    assert code == 0, err
    assert json.loads(out)["results"]["policies"][0]["gpus"] == 2 * 4096


@pytest.mark.parametrize("cluster", ["10000000", "x8,10000000"])
def test_memory_of_a_comparison_follows_the_jobs_and_not_the_gpus(gpuplan, tmp_path, cluster):
    trace = write_trace(tmp_path / "t.parquet", [0, 10, 20], [100, 200, 300], [1.0, 2.0, 8.0])
    words = ("--policy", "gfs", "--policy", "yarn-cs", "--cluster", cluster)
    tracemalloc.start()
    code, out, err = gpuplan("compare", trace, *words, *SPOT, "--output-format", "json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 0, err
    assert json.loads(out)["results"]["policies"][-1]["gpus"] == 10_000_000
    assert peak < 2**30  # 74.5 GiB where every GPU has its place


def test_the_answer_is_short(gpuplan, busy):
    words = ("compare", str(busy), "--cluster", "4x8", *SPOT, "--policy", "gfs")
    code, out, err = gpuplan(*words, "--policy", "yarn-cs", "--policy", "lyra")
    assert code == 0, err
    assert len(out.splitlines()) <= 40
    assert "/month" in out and "High-priority jobs wait" in out


def test_a_comparison_shows_both_kinds_of_jobs_the_quota_and_eta_over_time(gpuplan, busy, tmp_path):
    names = ("gfs", "gfs-d", "static-quota", "yarn-cs", "lyra")
    picture, line = tmp_path / "picture.svg", tmp_path / "line.parquet"
    code, _, err = gpuplan(
        "compare", str(busy), "--cluster", "4x8", *SPOT,
        *(word for name in (*names, "fifo") for word in ("--policy", name)),
        "-o", str(picture), "--timeline", str(line),
    )  # fmt: skip
    assert code == 0, err
    drawn = picture.read_text()
    for name in names[:3]:
        assert f"{name}: GPUs in use, of 32<" in drawn
    assert "yarn-cs: GPUs in use, of 32 (1 more: --timeline)" in drawn and "lyra: GPUs" not in drawn
    assert drawn.count(">spot quota<") == 3 and "Factor of the quota (eta)" in drawn
    rows = pl.read_parquet(line)
    assert rows["time_s"].min() == 0
    known = rows.drop_nulls("hp_gpus").group_by("label").len()
    assert sorted(known["label"]) == sorted(names)
    columns = {"hp_gpus", "spot_gpus", "quota_gpus", "eta", "spot_waiting"}
    assert columns <= set(rows.columns)


def test_jobs_that_never_fit_are_named_and_left_out(gpuplan, busy):
    found, err = compared(
        gpuplan, busy, "--policy", "gfs", "--policy", "fifo", *SPOT, cluster="7x1"
    )
    assert any("can never fit: job-" in one for one in found["warnings"])
    gfs, fifo = found["results"]["policies"]
    assert gfs["jobs"] == fifo["jobs"] < 250
    assert "more than there is" in err  # before anything runs


def test_pools_of_two_gpu_types_run_apart(gpuplan, tmp_path):
    n = 60
    rng = np.random.default_rng(1)
    types = ["A100", "T4"] * (n // 2)
    trace = write_trace(
        tmp_path / "t.parquet", np.sort(rng.uniform(0, 86400, n)), rng.uniform(900, 9000, n),
        rng.choice([1.0, 2.0], n).tolist(), gpu_type=types,
    )  # fmt: skip
    words = ("--policy", "gfs", "--spot", "num_gpus = 1")
    both = compared(gpuplan, trace, *words, cluster="A100=2x4,T4=1x4")[0]["results"]["policies"][0]
    assert [one["pool"] for one in both["demand"]] == ["A100", "T4"]
    alone = compared(gpuplan, trace, *words, "--where", "gpu_type = 'T4'", cluster="T4=1x4")[0][
        "results"
    ]["policies"][0]
    assert both["demand"][1]["gpus"] == alone["demand"][0]["gpus"] == 4
    assert both["spot"]["jobs"] > alone["spot"]["jobs"]
    code, _, err = gpuplan("compare", str(trace), "--cluster", "A100=2x4,L4=1x4", "--policy", "gfs")
    assert code == 2 and "jobs request T4" in err


def test_without_spot_jobs_nothing_is_lent_and_that_is_said(gpuplan, busy):
    found, _ = compared(gpuplan, busy, "--policy", "gfs", cluster="8x8")
    (row,) = found["results"]["policies"]
    assert row["spot"]["jobs"] == 0 and row["eviction_rate"] is None
    assert any("--spot CONDITION" in one for one in found["warnings"])


def test_spot_jobs_that_never_start_are_not_called_absent():
    waiting = {"spot_runs": 0, "spot": {"jobs": 3}}
    absent = {"spot_runs": 0, "spot": {"jobs": 0}}
    assert _earning([waiting]) == "No spot job starts."
    assert _earning([absent]) == "No job is spot."


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--policy", "fifo", "--spot-price", "1"), "lends no GPUs"),
        (("--policy", "fifo", "--spot", "num_gpus = 1"), "--spot: fifo lends no GPUs"),
        (("--policy", "gfs", "--gpu-speed", "A100=1,T4=0.4"), "leave --gpu-speed out"),
        (("--policy", "gfs", "--set", "p=0.2"), "p must be at least 0.5"),
        (("--policy", "gfs", "--set", "eta_min=3"), "eta_min must be"),
        (("--policy", "gfs", "--set", "forecast=arima"), "forecast"),
        (("--policy", "gfs", "--spot", "gpus > 1"), "--spot"),
        (("--policy", "gfs", "--set", "checkpoint_every_s=0"), "checkpoint_every_s must be"),
        (("--policy", "gfs", "--set", "milestones=0.5/0.25"), "milestones must be at least"),
        (("--policy", "gfs", "--set", "eta_rises_below=-1"), "eta_rises_below must be at least 0"),
        (("--policy", "gfs-d", "--set", "eta_max=3"), "eta_max"),
    ],
)
def test_mistakes_are_named(gpuplan, busy, words, told):
    code, _, err = gpuplan("compare", str(busy), "--cluster", "4x8", *words)
    assert code == 2 and told in err, err


@pytest.mark.parametrize("name", POLICIES)
def test_settings_are_those_of_the_kernel_unless_set(name):
    assert scheduler_with(name, defaults_of(settings_of(name))) == scheduler_of(name)
    assert set(SCHEDULERS) == {name.removeprefix("spot-") for name in ABOUT}


@pytest.mark.parametrize("forecast", ["auto", "last-value", "orglinear", "last-week-peak"])
def test_a_bound_knows_nothing_of_its_own_hours(forecast):
    rng = np.random.default_rng(0)
    series = np.rint(rng.uniform(0, 30, (2, 200)))
    changed = series.copy()
    changed[:, 150:] += 500
    one, other = (
        demand_bound_by_hour(DemandSeries(("a", "b"), each, 0, False), forecast, 0.9, 2, "pool")
        for each in (series, changed)
    )
    np.testing.assert_allclose(one[:151], other[:151])
    assert other[-1] > one[-1]
    assert np.isinf(one[0])  # nothing is known, so nothing is lent


def test_a_bound_of_a_long_log_learns_from_its_last_two_years():
    rng = np.random.default_rng(2)
    hours = np.arange(130 * WEEK_H)
    gpus = np.rint(20 + 8 * np.sin(hours * np.pi / 12) + rng.uniform(0, 4, hours.size))[None, :]
    once = gpus.copy()
    once[:, : 20 * WEEK_H] = 500.0

    def bounds(series):
        demand = DemandSeries(("a",), series, 24 * 30, True)
        return demand_bound_by_hour(demand, SEASONAL_WEEK, 0.9, 1, "pool")

    assert (bounds(once)[-WEEK_H:] == bounds(gpus)[-WEEK_H:]).all()


def test_demand_that_did_not_change_is_expected_to_stay():
    gpus = np.full((1, 900), 3.0)
    gpus[0, 800:] = 7.0
    demand = DemandSeries(("a",), gpus, 0, True)
    for forecast in ("auto", "orglinear"):
        bound = demand_bound_by_hour(demand, forecast, 0.9, 1, "pool")
        assert (bound[36:801] == 3.0).all() and bound[801] == 7.0


def test_models_are_fitted_anew_every_four_weeks_and_later_every_twenty_fifth_of_the_log():
    assert _refits(30, 4) == []
    assert _refits(700, 4) == [36, 72, 168, 336, 672]
    assert _refits(700, 24) == [168, 336, 672]
    hundred = _refits(100 * WEEK_H, 4)
    assert set(np.diff(hundred[4:])) == {4 * WEEK_H}
    century = _refits(876_000, 4)
    assert century[: len(hundred)] == hundred and len(century) < 150


def test_the_exact_bound_is_the_highest_demand_to_come():
    series = DemandSeries(("a", "b"), np.array([[1.0, 5, 2, 0], [1, 1, 4, 0]]), 0, False)
    assert demand_bound_by_hour(series, "exact", 0.9, 2, "pool").tolist() == [6, 6, 6, 0]


def test_clusters_with_types_need_jobs_that_name_one(gpuplan, lab):
    typed = ("--cluster", "A100=2x8,T4=4x8")
    code, _, err = gpuplan("compare", lab, "--policy", "gfs", "--spot", "num_gpus = 1", *typed)
    assert code == 2 and "the jobs name no GPU type" in err and "such as 48" in err
    code, _, err = gpuplan("forecast", lab, *typed)
    assert code == 2 and "--cluster 48" in err


def test_pods_and_nodes_that_would_take_minutes_to_place_are_refused(gpuplan, tmp_path):
    wide = write_trace(tmp_path / "t.parquet", [0, 5], [9, 9], [1e7, 4.0])
    code, _, err = gpuplan("simulate", wide, "--policy", "fgd")
    assert code == 2
    assert "1,250,001 pods on 1,250,001 nodes" in err and "Leave the widest jobs out" in err
