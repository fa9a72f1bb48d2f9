"""The command gpuplan pareto: what it finds, and its exit codes."""

import csv
import io
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from support_pareto import FREE, NEWTRACE_1, results


def test_newtrace_on_t4_as_documented(gpuplan, newtrace):
    found = results(
        gpuplan, newtrace, "--speedup", "profile:t4", "--horizon", "48h", "--rescale", "0",
        "--budget", "98.81,112.92,141.15,188.20,282.31",
    )  # fmt: skip
    jct = [point["mean_jct_s"] for point in found["points"]]
    assert jct == pytest.approx([8598.5, 3807.8, 2222.3, 1751.4, 1590.3], rel=1e-3)
    assert found["min_budget_gpus"] == pytest.approx(93.435, abs=1e-3)
    assert found["load_gpus"] == pytest.approx(94.1024, abs=1e-3)
    point = found["points"][1]
    assert point["used_gpus"] == pytest.approx(112.92)
    assert point["utilization"] == pytest.approx(94.1024 / 112.92, rel=1e-4)
    assert point["rounded_used_gpus"] <= 112.92
    assert point["rounded_mean_jct_s"] - point["mean_jct_s"] == pytest.approx(
        point["rounding_gap_s"]
    )
    assert {width["job_class"] for width in point["widths"]} == set(NEWTRACE_1)
    assert sum(w["share"] for w in point["widths"]) == pytest.approx(5)
    assert [w["job_class"] for w in point["widths"] if w["rounded"]] == [
        c["job_class"] for c in found["classes"]
    ]
    assert found["rescale"] == {"origin": "option", "mean_s": 0}


def test_newtrace_on_t4_with_dear_starts(gpuplan, newtrace):
    # The vertices of the curves alone give 8483.25 s, and call 101 GPUs too few.
    t4 = ("--speedup", "profile:t4", "--horizon", "48h")
    (point,) = results(gpuplan, newtrace, *t4, "--budget", "100")["points"]
    assert point["mean_jct_s"] == pytest.approx(8462.345, rel=1e-6)
    every = ("--widths", ",".join(map(str, range(1, 65))))
    for extra in ((), every):
        found = results(gpuplan, newtrace, *t4, "--rescale", "20m", "--budget", "101", *extra)
        assert found["min_budget_gpus"] == pytest.approx(100.769, abs=1e-3)


def test_one_class_with_a_law(gpuplan, hours):
    # b = 2 k^0.5: k = 4 needs 4 GPUs and halves the time; 3 GPUs in between.
    found = results(gpuplan, hours, *FREE, "--speedup", "power:0.5", "--budget", "2x,1x,4gpu")
    least, by_load, by_gpus = found["points"]  # by budget
    assert (by_load.pop("requested"), by_gpus.pop("requested")) == ("2x", "4gpu")
    assert by_load == by_gpus
    assert by_load["mean_jct_s"] == pytest.approx(1800)
    assert by_load["mean_jct_over_one_gpu"] == pytest.approx(0.5)
    assert by_load["widths"] == [
        {"job_class": "all", "epoch": 0, "width": 4, "share": 1, "rounded": True, "gpu_type": None}
    ]
    assert least["mean_jct_s"] == pytest.approx(3600)
    assert found["saturation_budget_gpus"] == pytest.approx(16)
    assert found["knee"]["mean_jct_s"] == pytest.approx(3600 / 8**0.5)


def test_weights_favour_a_class_and_both_means_are_told(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "120")
    (plain,) = results(gpuplan, *asked)["points"]
    found = results(gpuplan, *asked, "--weight", "bert=5", "--weight", "imagenet=0.5")
    (point,) = found["points"]
    assert plain["weighted_mean_jct_s"] == plain["mean_jct_s"] < point["mean_jct_s"]
    wider = {
        name: [w["width"] for w in row["widths"] if w["job_class"] == "bert"]
        for name, row in (("plain", plain), ("weighted", point))
    }
    assert min(wider["weighted"]) > max(wider["plain"])
    assert {c["job_class"]: c["weight"] for c in found["classes"]}["imagenet"] == 0.5
    _, out, _ = gpuplan("pareto", "--full", *asked, "--weight", "bert=5")
    assert " weighted " in out
    assert max(map(len, out.splitlines())) <= 100


def test_savings_are_differences_of_the_frontier(gpuplan, hours):
    # b = 2 k^0.5 and JCT = 60 min / k^0.5 = 120 min / b at whole k: 4 GPUs, 4.04, 5, 6, beyond.
    # One more GPU beside 2 cannot save more than the 60 min a job takes; the derivative says so.
    curve = ("--speedup", "power:0.5")
    four, six, most = results(gpuplan, hours, *FREE, *curve, "--budget", "4,6,30")["points"]
    least = results(gpuplan, hours, *FREE, *curve, "--budget", "2")["points"][0]
    next_five = results(gpuplan, hours, *FREE, *curve, "--budget", "5")["points"][0]
    assert four["next_gpu_saves_s"] == pytest.approx(four["mean_jct_s"] - next_five["mean_jct_s"])
    assert least["next_gpu_saves_s"] < least["marginal_jct_s_per_gpu"] and "multiplier" in least
    assert six["next_gpu_saves_s"] == pytest.approx(1200 - 7200 / 7, rel=1e-2)
    assert six["next_1pct_saves_s"] < six["next_gpu_saves_s"] / 10
    assert most["next_gpu_saves_s"] == 0
    told = ("pareto", "--full", hours, *FREE, *curve, "--output-format", "csv")
    _, out, _ = gpuplan(*told)  # a whole GPU is half of the least budget
    assert "next_1pct_saves_s" in out.splitlines()[0]
    for row in csv.DictReader(io.StringIO(out)):
        assert 0 <= float(row["next_1pct_saves_s"]) <= float(row["mean_jct_s"])


def test_what_the_record_says_stands_beside_the_plan(gpuplan, hours, newtrace, tmp_path):
    # Four GPUs for an hour each: 2 x 4 = 8 GPUs held, twice the work at s(4) = 2.
    path = tmp_path / "four.parquet"
    frame = pl.read_parquet(hours).with_columns(num_gpus=pl.lit(4.0), queue_s=pl.lit(600.0))
    frame.write_parquet(path)
    asked = (path, "--speedup", "power:0.5", *FREE)
    record = results(gpuplan, *asked)["recorded"]
    assert record == {
        "mean_run_s": 3600, "mean_queue_s": 600, "jobs_with_queue": 100, "mean_jct_s": 4200,
        "gpus": pytest.approx(8), "best_mean_jct_s_at_these_gpus": pytest.approx(3600),
    }  # fmt: skip
    out = " ".join(gpuplan("pareto", "--full", *asked)[1].split())
    today = "Today: 7.89 GPUs on average (peak 8), 70 min per job (10 min waiting, 60 min running)"
    assert f"{today}." in out
    some = pl.when(pl.int_range(pl.len()) < 25).then(pl.lit(600.0)).alias("queue_s")
    frame.with_columns(some).write_parquet(path)
    out = " ".join(gpuplan("pareto", "--full", *asked)[1].split())
    assert "(peak 12), 70 min per job" in out and "are known (25 of 100 jobs)." in out
    assert results(gpuplan, hours, *FREE)["recorded"]["mean_queue_s"] is None
    assert results(gpuplan, newtrace, "--speedup", "profile:t4")["recorded"] is None


def test_budgets_and_targets_stand_in_one_order(gpuplan, hours):
    asked = (hours, *FREE, "--speedup", "power:0.5", "--budget", "5,3", "--target-jct", "30m")
    points = results(gpuplan, *asked)["points"]
    assert [p["budget_gpus"] for p in points] == pytest.approx([3, 4, 5])
    assert [p["target_jct_s"] for p in points] == [None, 1800, None]
    lines = gpuplan("pareto", "--full", *asked, "--no-replay")[1].splitlines()
    assert ["JCT 30 min" in line for line in lines if line[:14].strip() in ("3.000", "4.000")] == [
        False, True,
    ]  # fmt: skip


def test_target_is_answered_with_a_budget(gpuplan, hours):
    found = results(gpuplan, hours, *FREE, "--speedup", "power:0.5", "--target-jct", "30m,20m")
    assert [p["budget_gpus"] for p in found["points"]] == pytest.approx([4, 6])


def test_without_budget_the_whole_frontier_is_swept(gpuplan, hours):
    code, out, err = gpuplan("pareto", "--full", hours, *FREE, "--output-format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert float(rows[0]["budget_gpus"]) == pytest.approx(2)
    assert float(rows[-1]["budget_gpus"]) == pytest.approx(2 * 64**0.2)
    assert "no --speedup given: power:0.8 is assumed" in err
    assert "a start or resize of a job is assumed to take" not in err
    assert "in the replay" in err
    _, _, err = gpuplan("pareto", "--full", hours, *FREE, "--no-replay", "--output-format", "csv")
    assert "1.9 to 35 times" in err


def test_a_range_of_laws_gives_a_band(gpuplan, hours, tmp_path):
    picture = tmp_path / "band.svg"
    found = results(
        gpuplan, hours, *FREE, "--speedup", "power:0.5..0.7", "--budget", "2x", "--plot", picture
    )
    low, high = found["points"][0]["ends_mean_jct_s"]
    assert low == pytest.approx(1800)
    better = results(gpuplan, hours, *FREE, "--speedup", "power:0.7", "--budget", "2x")
    assert high == pytest.approx(better["points"][0]["mean_jct_s"])
    assert low > found["points"][0]["mean_jct_s"] > high
    drawn = picture.read_text()
    assert "power:0.5 to power:0.7; line: power:0.6" in drawn
    assert "least budget: 2.000 GPUs (power:0.6)" in drawn
    assert "dotted: beyond use" in drawn
    priced = ("pareto", "--full", hours, *FREE, "--speedup", "power:0.5..0.7", "--price", "2")
    _, out, _ = gpuplan(*priced, "--output-format", "md")
    assert "| JCT at power:0.5 | JCT at power:0.6 | JCT at power:0.7 |" in out
    _, out, _ = gpuplan(*priced)
    assert max(map(len, out.splitlines())) <= 100


def test_a_band_end_that_cannot_keep_up_is_no_number(gpuplan, tmp_path):
    # The jobs ran on 16 GPUs, so their work depends on the law: 16^0.8 against 16^0.5 hours.
    start = datetime(2026, 1, 1, tzinfo=UTC)
    frame = pl.DataFrame({"submit_time": [start + timedelta(hours=i) for i in range(50)]})
    path = tmp_path / "wide.parquet"
    frame.with_columns(duration_s=pl.lit(3600.0), num_gpus=pl.lit(16.0)).write_parquet(path)
    asked = (path, *FREE, "--speedup", "power:0.5..0.8", "--budget", "1.05x")
    found = results(gpuplan, *asked)
    low, high = found["points"][0]["ends_mean_jct_s"]
    assert low > 0 and high is None
    _, out, err = gpuplan("pareto", "--full", *asked)
    text = " ".join(out.split())
    assert "You need at least 6.1 GPUs on average (4 at power:0.5" in text
    assert "(4 at power:0.5, 9.2 at power:0.8)" in text  # 50 jobs carry two digits
    assert "too few" in out and "(2.5 h planned at power:0.5, too few GPUs at power:0.8)" in text
    assert "the better one may show the longer JCT" in " ".join(err.split())


def test_the_same_command_gives_the_same_bytes(gpuplan, newtrace, tmp_path):
    said = []
    for name in ("a.svg", "b.svg"):
        _, out, _ = gpuplan(
            "pareto", newtrace, "--speedup", "profile:t4", "--plot", tmp_path / name,
            "--output-format", "json",
        )  # fmt: skip
        said.append((out, (tmp_path / name).read_bytes()))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--budget", "10", "--speedup", "profile:t4"], 4, "the least is 9"),
        (["--target-jct", "1m", "--speedup", "profile:t4"], 4, "out of reach"),
        (["--target-jct", "1m", "--speedup", "profile:t4"], 4, "next: --target-jct "),
        (["--budget", "100"], 3, "--speedup profile:t4"),
        (["--budget", "plenty"], 2, "60gpu"),
        (["--budget", "$12/h", "--speedup", "profile:t4"], 2, "--price 1.29"),
        (["--price", "-1"], 2, "expected dollars per GPU-hour above 0"),
        (["--price", "1e308"], 2, "--price 1e+308: must be from 0 to 1,000,000 dollars per"),
        (["--speedup", ""], 2, "--speedup must not be empty"),
        (["--speedup", "x"], 2, "expected one of amdahl:SIGMA"),
        (["--speedup", "warp:9"], 2, "amdahl:SIGMA"),
        (["--horizon", "soon"], 2, "--horizon"),
        (["--widths", "a"], 2, "--widths"),
        (["--weight", "bert"], 2, "CLASS=W"),
        (["--speedup", "profile:t4", "--weight", "llama=2"], 2, "one of bert, cifar10"),
        (["--target-jct", "soon"], 2, "--target-jct"),
        (["--target-jct", "45m,"], 2, "--target-jct"),
        (["--speedup", "profile:t4", "--class-by", "user"], 3, "has no user 'all'"),
        (["-o", "x.pdf"], 2, ".json"),
        (["--speedup", "profile:t4", "--budget", "150", "--fail-if", "points.mean_jct > 1m"], 1,
         "gate tripped"),
    ],
)  # fmt: skip
def test_exit_codes(gpuplan, newtrace, arguments, code, said):
    found, out, err = gpuplan("pareto", "--full", newtrace, *arguments)
    assert (found, said in err) == (code, True), err
    assert "Traceback" not in err
    assert bool(out) == (code == 1)
