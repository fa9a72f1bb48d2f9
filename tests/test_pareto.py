"""The command gpuplan pareto, from options to JSON, table, picture and exit code."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.trace import read_trace
from gpuplan.cli.budgets import parse_budgets
from gpuplan.cli.figures.frontier import draw_frontier
from gpuplan.planner.boa.show import show_gpus
from gpuplan.planner.boa.study import Budget, study_frontier
from gpuplan.planner.speedup.registry import load_speedup

# Jobs per application of the first newTrace sample (Sia artifact), 48 h.
NEWTRACE_1 = {"cifar10": 484, "deepspeech2": 226, "bert": 208, "yolov3": 36, "imagenet": 6}


@pytest.fixture
def newtrace(tmp_path):
    """A trace with the classes of newTrace, evenly spread, without durations."""
    names = [name for name, count in NEWTRACE_1.items() for _ in range(count)]
    start = datetime(1970, 1, 1, tzinfo=UTC)
    submit = [start + timedelta(seconds=179 * i) for i in range(len(names))]
    frame = pl.DataFrame({"submit_time": submit, "job_class": names}).with_columns(
        num_gpus=pl.lit(4.0), duration_s=pl.lit(None, pl.Float64)
    )
    path = tmp_path / "newtrace.parquet"
    frame.write_parquet(path)
    return path


@pytest.fixture
def hours(tmp_path):
    """A trace of 100 jobs of an hour on one GPU, one every half hour: 2 GPUs of load."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    frame = pl.DataFrame({"submit_time": [start + timedelta(hours=i / 2) for i in range(100)]})
    path = tmp_path / "hours.parquet"
    frame.with_columns(duration_s=pl.lit(3600.0), num_gpus=pl.lit(1.0)).write_parquet(path)
    return path


def results(gpuplan, *arguments):
    code, out, err = gpuplan("pareto", *arguments, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


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
    found = results(gpuplan, hours, "--speedup", "power:0.5", "--budget", "2x,1x,4gpu")
    least, by_load, by_gpus = found["points"]  # by budget
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
    _, out, _ = gpuplan("pareto", *asked, "--weight", "bert=5")
    assert " weighted " in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_fullest_table_is_whole(gpuplan, hours, tmp_path):
    # Dollars, weights and a range of laws at once.
    path = tmp_path / "two.parquet"
    frame = pl.read_parquet(hours).with_row_index("row")
    frame.with_columns(job_class=pl.format("c{}", pl.col("row") % 2)).drop("row").write_parquet(
        path
    )
    asked = ("--speedup", "power:0.5..0.7", "--weight", "c1=3", "--price", "2000")
    _, out, _ = gpuplan("pareto", path, *asked)
    point = results(gpuplan, path, *asked)["points"][0]
    assert point["rounded_mean_jct_s"] == pytest.approx(3600)
    first = next(line for line in out.splitlines() if line.strip().startswith("2.00"))
    assert first.split()[-2:] == ["60", "min"]  # the last column
    assert max(map(len, out.splitlines())) <= 100
    _, out, _ = gpuplan("pareto", path, *asked, "--output-format", "csv")
    assert "utilization" in out.splitlines()[0]


def test_savings_are_differences_of_the_frontier(gpuplan, hours):
    # b = 2 k^0.5 and JCT = 60 min / k^0.5 = 120 min / b at whole k: 4 GPUs, 4.04, 5, 6, beyond.
    # One more GPU beside 2 cannot save more than the 60 min a job takes; the derivative says so.
    curve = ("--speedup", "power:0.5")
    four, six, most = results(gpuplan, hours, *curve, "--budget", "4,6,30")["points"]
    least = results(gpuplan, hours, *curve, "--budget", "2")["points"][0]
    next_five = results(gpuplan, hours, *curve, "--budget", "5")["points"][0]
    assert four["next_gpu_saves_s"] == pytest.approx(four["mean_jct_s"] - next_five["mean_jct_s"])
    assert least["next_gpu_saves_s"] < least["marginal_jct_s_per_gpu"] and "multiplier" in least
    assert six["next_gpu_saves_s"] == pytest.approx(1200 - 7200 / 7, rel=1e-2)
    assert six["next_1pct_saves_s"] < six["next_gpu_saves_s"] / 10
    assert most["next_gpu_saves_s"] == 0
    told = ("pareto", hours, *curve, "--output-format", "csv")
    _, out, _ = gpuplan(*told)  # a whole GPU is half of the least budget
    assert "next_1pct_saves_s" in out.splitlines()[0]
    for row in csv.DictReader(io.StringIO(out)):
        assert 0 <= float(row["next_1pct_saves_s"]) <= float(row["mean_jct_s"])


def test_what_the_record_says_stands_beside_the_plan(gpuplan, hours, newtrace, tmp_path):
    # Four GPUs for an hour each: 2 x 4 = 8 GPUs held, twice the work at s(4) = 2.
    path = tmp_path / "four.parquet"
    frame = pl.read_parquet(hours).with_columns(num_gpus=pl.lit(4.0), queue_s=pl.lit(600.0))
    frame.write_parquet(path)
    asked = (path, "--speedup", "power:0.5")
    record = results(gpuplan, *asked)["recorded"]
    assert record == {
        "mean_run_s": 3600, "mean_queue_s": 600, "jobs_with_queue": 100, "mean_jct_s": 4200,
        "gpus": pytest.approx(8), "best_mean_jct_s_at_these_gpus": pytest.approx(3600),
    }  # fmt: skip
    out = " ".join(gpuplan("pareto", *asked)[1].split())
    assert (
        "As recorded (not replayed) a job ran 60 min after a wait of 10 min, and all held 8.000 "
        "GPUs on average; planned, as many could give a mean JCT of 60 min." in out
    )
    some = pl.when(pl.int_range(pl.len()) < 25).then(pl.lit(600.0)).alias("queue_s")
    frame.with_columns(some).write_parquet(path)
    out = " ".join(gpuplan("pareto", *asked)[1].split())
    assert "after a wait of 10 min (known of 25), and all" in out
    assert results(gpuplan, hours)["recorded"]["mean_queue_s"] is None
    assert results(gpuplan, newtrace, "--speedup", "profile:t4")["recorded"] is None


def test_widths_of_a_few_budgets_stand_side_by_side(gpuplan, newtrace):
    asked = ("pareto", newtrace, "--speedup", "profile:t4", "--rescale", "0", "--horizon", "48h")
    _, out, err = gpuplan(*asked, "--budget", "93.5,120,200")
    heads = next(line for line in out.splitlines() if "job class" in line)
    assert heads.split()[-6:] == ["at", "93.50", "at", "120.00", "at", "200.00"]
    assert "epochs" not in out  # every class has one
    assert "100.6%" in out and "an efficiency above 100% is no error" in err
    _, out, err = gpuplan(*asked, "--budget", "150:200:6")
    assert "GPUs per job at the knee" in out
    assert "above 100%" not in err


def test_the_widest_job_is_told(gpuplan, hours):
    assert "gains at up to 64 GPUs a job (--max-width);" in " ".join(
        gpuplan("pareto", hours)[1].split()
    )
    _, out, _ = gpuplan("pareto", hours, "--max-width", "16")
    assert "at up to 16 GPUs a job" in " ".join(out.split())
    _, out, _ = gpuplan("pareto", hours, "--max-width", "1")
    assert "at up to 1 GPU a job" in " ".join(out.split())
    assert results(gpuplan, hours, "--max-width", "16")["max_gpus_per_job"] == 16


def test_budgets_and_targets_stand_in_one_order(gpuplan, hours):
    asked = (hours, "--speedup", "power:0.5", "--budget", "5,3", "--target-jct", "30m")
    points = results(gpuplan, *asked)["points"]
    assert [p["budget_gpus"] for p in points] == pytest.approx([3, 4, 5])
    assert [p["target_jct_s"] for p in points] == [None, 1800, None]
    lines = gpuplan("pareto", *asked)[1].splitlines()
    assert ["JCT 30 min" in line for line in lines if line[:14].strip() in ("3.000", "4.000")] == [
        False, True,
    ]  # fmt: skip


def test_a_full_table_is_cut_nowhere(gpuplan, hours):
    asked = (hours, "--speedup", "power:0.6..0.9", "--budget", "1.1x", "--target-jct", "10m")
    _, out, _ = gpuplan("pareto", *asked)
    row = next(line for line in out.splitlines() if "JCT 10 min" in line)
    assert row.endswith(" min") and "…" not in out
    assert "efficiency" in out


def test_target_is_answered_with_a_budget(gpuplan, hours):
    found = results(gpuplan, hours, "--speedup", "power:0.5", "--target-jct", "30m,20m")
    assert [p["budget_gpus"] for p in found["points"]] == pytest.approx([4, 6])


def test_dollars(gpuplan, hours):
    found = results(
        gpuplan, hours, "--speedup", "power:0.5", "--price", "1.5",
        "--budget", "$6/h,$4380/month",
    )  # fmt: skip
    assert [p["budget_gpus"] for p in found["points"]] == pytest.approx([4, 4])
    point = found["points"][0]
    assert point["usd_per_month"] == pytest.approx(4380)
    per_gpu = point["marginal_jct_s_per_gpu"]
    assert point["marginal_jct_s_per_100_usd_month"] == pytest.approx(per_gpu / (1.5 * 7.3))
    priced = ("pareto", hours, "--speedup", "power:0.5", "--price", "1.5")
    _, out, _ = gpuplan(*priced, "--output-format", "md")
    assert "| $/month |" in out
    assert "| next $100 a month saves |" in out


def test_dollars_are_paid_for_gpus_in_use(gpuplan, hours):
    # 64 GPUs per job hold 2 x 64^0.5 = 16 GPUs; of a budget of 40 the rest is never rented.
    found = results(
        gpuplan, hours, "--speedup", "power:0.5", "--price", "1.5", "--budget", "40"
    )  # fmt: skip
    (point,) = found["points"]
    assert (point["budget_gpus"], point["used_gpus"]) == (40, pytest.approx(16))
    assert point["usd_per_month"] == pytest.approx(16 * 1.5 * 730)


def test_without_budget_the_whole_frontier_is_swept(gpuplan, hours):
    code, out, err = gpuplan("pareto", hours, "--output-format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert float(rows[0]["budget_gpus"]) == pytest.approx(2)
    assert float(rows[-1]["budget_gpus"]) == pytest.approx(2 * 64**0.2)
    assert "no --speedup given: power:0.8 is assumed" in err
    assert "--rescale 20s" in err
    assert "3 to 5 times" in err


def test_a_range_of_laws_gives_a_band(gpuplan, hours, tmp_path):
    picture = tmp_path / "band.svg"
    found = results(
        gpuplan, hours, "--speedup", "power:0.5..0.7", "--budget", "2x", "--plot", picture
    )
    low, high = found["points"][0]["ends_mean_jct_s"]
    assert low == pytest.approx(1800)
    assert high == pytest.approx(results(gpuplan, hours, "--speedup", "power:0.7", "--budget", "2x")
                                 ["points"][0]["mean_jct_s"])  # fmt: skip
    assert low > found["points"][0]["mean_jct_s"] > high
    drawn = picture.read_text()
    assert "power:0.5 to power:0.7; line: power:0.6" in drawn
    assert "least budget: 2.000 GPUs (power:0.6)" in drawn
    assert "dotted: beyond use" in drawn
    priced = ("pareto", hours, "--speedup", "power:0.5..0.7", "--price", "2")
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
    found = results(gpuplan, path, "--speedup", "power:0.5..0.8", "--budget", "1.05x")
    low, high = found["points"][0]["ends_mean_jct_s"]
    assert low > 0 and high is None
    _, out, err = gpuplan("pareto", path, "--speedup", "power:0.5..0.8", "--budget", "1.05x")
    text = " ".join(out.split())
    found_least = [
        f"{name}: {show_gpus(16**a)}" for name, a in (("power:0.5", 0.5), ("power:0.8", 0.8))
    ]
    assert f"({'; '.join(found_least)})" in text
    assert "too few" in out
    assert "the better one may show the longer JCT" in " ".join(err.split())


def test_table_says_what_people_need(gpuplan, newtrace):
    code, out, err = gpuplan("pareto", newtrace, "--speedup", "profile:t4", "--budget", "150")
    assert code == 0
    assert "No budget under" in out and "knee" in out
    assert "GPUs per job at the budget" in out
    assert "imagenet" in out
    assert "the plan without a split takes the first" in " ".join(out.split())
    assert " efficiency " in out
    assert max(map(len, out.splitlines())) <= 100
    assert "--rescale" not in err  # the profile measured it


def test_files(gpuplan, hours, tmp_path):
    for suffix in ("svg", "png", "json", "md", "csv", "txt", "parquet"):
        path = tmp_path / f"out.{suffix}"
        code, _, err = gpuplan("pareto", hours, "--speedup", "amdahl:0.02", "-o", path)
        assert code == 0, err
        assert path.stat().st_size > 100
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows.columns == [
        "budget_gpus",
        "job_class",
        "epoch",
        "width",
        "share",
        "rounded",
        "gpu_type",
    ]
    assert "knee" in (tmp_path / "out.svg").read_text()


def test_picture_with_dollars_and_a_long_frontier(gpuplan, hours, tmp_path):
    picture = tmp_path / "dear.svg"
    # Amdahl with a fifth serial: 64 GPUs per job cost 13.6 times the load.
    code, _, err = gpuplan(
        "pareto", hours, "--speedup", "amdahl:0.2", "--price", "2", "--budget", "1.2x,2x",
        "--plot", picture,
    )  # fmt: skip
    assert code == 0, err
    drawn = picture.read_text()
    assert "dollars per month at $2 per GPU-hour" in drawn
    assert "least budget: 2.000 GPUs" in drawn
    assert "GPUs rented on average, logarithmic" in drawn


def test_a_point_beyond_saturation_is_drawn_where_its_gpus_are_used(hours):
    # 16 GPUs are of use; a budget of 40 must not stretch the axis.
    study = study_frontier(
        read_trace(hours), load_speedup("power:0.5"), budgets=[Budget(4), Budget(40)]
    )
    axes = draw_frontier(study).axes[0]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert dots.get_xdata() == pytest.approx([4, 16])
    assert axes.get_xlim()[1] < 20


def test_the_same_command_gives_the_same_bytes(gpuplan, newtrace, tmp_path):
    said = []
    for name in ("a.svg", "b.svg"):
        _, out, _ = gpuplan(
            "pareto", newtrace, "--speedup", "profile:t4", "--plot", tmp_path / name,
            "--output-format", "json",
        )  # fmt: skip
        said.append((out, (tmp_path / name).read_bytes()))
    assert said[0] == said[1]


def test_many_classes_and_epochs_in_the_table(gpuplan, tmp_path):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    names = [f"c{i % 20}" for i in range(60)]
    frame = pl.DataFrame(
        {"submit_time": [start + timedelta(hours=i) for i in range(60)], "job_class": names}
    ).with_columns(duration_s=pl.lit(3600.0), num_gpus=pl.lit(1.0))
    frame.write_parquet(tmp_path / "t.parquet")
    lines = ["job_class,epoch,num_gpus,throughput"]
    for name in sorted(set(names)):
        lines += [f"{name},0,1,10", f"{name},0,2,11", f"{name},1,1,10", f"{name},1,2,20"]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    code, out, err = gpuplan(
        "pareto", tmp_path / "t.parquet", "--speedup", tmp_path / "s.csv", "--budget", "1x"
    )
    assert code == 0, err
    assert "15 of 20 classes" in out
    assert " 1 " in out and " 2 " in out  # the two epochs differ


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--budget", "10", "--speedup", "profile:t4"], 4, "the least is 9"),
        (["--target-jct", "1m", "--speedup", "profile:t4"], 4, "out of reach"),
        (["--target-jct", "1m", "--speedup", "profile:t4"], 4, "next: --target-jct "),
        (["--budget", "100"], 3, "--speedup profile:t4"),
        (["--budget", "plenty"], 2, "60gpu"),
        (["--budget", "$12/h", "--speedup", "profile:t4"], 2, "--price 1.29"),
        (["--price", "-1"], 2, "--price must be above 0"),
        (["--speedup", ""], 2, "expected one of amdahl:SIGMA"),
        (["--speedup", "warp:9"], 2, "amdahl:SIGMA"),
        (["--horizon", "soon"], 2, "--horizon"),
        (["--widths", "a"], 2, "--widths"),
        (["--weight", "bert"], 2, "CLASS=W"),
        (["--speedup", "profile:t4", "--weight", "llama=2"], 2, "one of bert, cifar10"),
        (["--target-jct", "soon"], 2, "--target-jct"),
        (["--target-jct", "45m,"], 2, "--target-jct"),
        (["--speedup", "profile:t4", "--class-by", "user"], 3, "knows no user 'all'"),
        (["-o", "x.pdf"], 2, ".json"),
        (["--speedup", "profile:t4", "--budget", "150", "--fail-if", "points.mean_jct > 1m"], 1,
         "gate tripped"),
    ],
)  # fmt: skip
def test_exit_codes(gpuplan, newtrace, arguments, code, said):
    found, out, err = gpuplan("pareto", newtrace, *arguments)
    assert (found, said in err) == (code, True), err
    assert "Traceback" not in err
    assert bool(out) == (code == 1)


@pytest.mark.parametrize(
    ("asked", "price", "said", "raised"),
    [
        ("2", None, "a budget of 2 GPUs", "2.062gpu"),
        ("0.9x", None, "0.9x: a budget of", "2.062gpu"),
        ("$1000/month", "1", "$1,000.00/month: a budget of", "'$1505.26/month'"),
        ("$1/hour", "1", "$1.00/h: a budget of", "'$2.07/h'"),
    ],
)
def test_too_small_a_budget_says_which_is_enough(gpuplan, hours, asked, price, said, raised):
    # 2 GPUs of load and a start of 111 s twice an hour: 2 (3600 + 111) / 3600 = 2.0617 GPUs.
    trace = (hours, "--speedup", "power:0.8", "--rescale", "111s")
    extra = () if price is None else ("--price", price)
    code, _, err = gpuplan("pareto", *trace, *extra, "--budget", asked)
    assert code == 4
    assert said in err and "the least is 2.062 GPUs" in err
    assert f"next: raise --budget to at least {raised}" in err
    code, _, err = gpuplan("pareto", *trace, *extra, "--budget", raised.strip("'"))
    assert code == 0, err


@pytest.mark.parametrize(
    "value", [0.000012345, 0.00123456, 1.0000001, 2.534567, 146.69001, 12345.6]
)
def test_gpus_are_rounded_up_and_can_be_told_apart(value):
    shown = float(show_gpus(value).replace(",", ""))
    assert value <= shown <= value * 1.0011
    assert show_gpus(shown) == show_gpus(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60", [Budget(60)]),
        ("60gpu, 1.5x", [Budget(60), Budget(1.5, True)]),
        ("1x:2x:3", [Budget(1, True), Budget(1.5, True), Budget(2, True)]),
        ("10:30:3,$4/h", [Budget(10), Budget(20), Budget(30), Budget(2)]),
        ("$1460/month", [Budget(1)]),
        ("1e2gpus", [Budget(100)]),
    ],
)
def test_budgets(text, expected):
    assert parse_budgets(text, 2.0) == expected


@pytest.mark.parametrize(
    "text",
    ["", "x", "-5", "0", "$5", "5/h", "$5x", "1:2", "1x:2:3", "2:1:3", "1:2:1", "1:2:3:4", "1,,2",
     "1:2:1.5", "nan", "inf"],
)  # fmt: skip
def test_budgets_that_mean_nothing(text):
    with pytest.raises(UsageError, match="--budget"):
        parse_budgets(text, 2.0)


@pytest.mark.parametrize("count", ["1e9", "200000", "1", "9" * 5000])
def test_a_range_has_no_more_points_than_can_be_looked_at(count):
    with pytest.raises(UsageError, match="a range has 2 to 10,000 points, as a whole number"):
        parse_budgets(f"1:5:{count}", None)
    assert len(parse_budgets("1:5:10000", None)) == 10_000
