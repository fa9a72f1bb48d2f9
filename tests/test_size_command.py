"""``gpuplan size``: its answer, its curve and its errors, as a user gets them."""

import json

import numpy as np
import pytest
from support_answers import command_results
from support_program import write_minutely
from support_traces import lab_trace, write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.requests.size_texts import SizeRange, parse_growth, parse_sizes
from gpuplan.planner.sizing.targets import OVER, PERCENTILE, parse_target
from gpuplan.planner.studies import size_pool

FIELDS = ("mean_wait_s", "p95_wait_s", "p99_wait_s", "utilization")


def answer(gpuplan, *words, command="size", code=0):
    return command_results(gpuplan, command, *words, code=code)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return lab_trace(tmp_path_factory.mktemp("size") / "t.parquet", jobs=300)


@pytest.fixture(scope="module")
def two_types(tmp_path_factory):
    rng = np.random.default_rng(5)
    n = 200
    return write_trace(
        tmp_path_factory.mktemp("types") / "t.parquet", np.sort(rng.uniform(0, 86_400, n)),
        rng.lognormal(6.5, 1, n), num_gpus=rng.choice([1.0, 2.0], n).tolist(),
        gpu_type=["A100" if i % 3 else "T4" for i in range(n)],
        queue_s=rng.exponential(60, n),
    )  # fmt: skip


def simulated(gpuplan, trace, gpus, *words, nodes=None):
    size = ("--gpus", gpus) if nodes is None else ("--cluster", f"{gpus // nodes}x{nodes}")
    return answer(gpuplan, trace, *size, *words, command="simulate")


def wait_of(result):
    return {name: result[name.replace("wait", "jqt")] for name in FIELDS}


@pytest.mark.parametrize(
    ("more", "replayed", "nodes"),
    [
        ((), ("--policy", "first-fit"), None),
        (("--policy", "srtf"), ("--policy", "srtf"), None),
        (
            ("--growth", "20%", "--cluster", "x4"),
            ("--policy", "first-fit", "--scale-interarrival", repr(1 / 1.2)),
            4,
        ),
        (("--policy", "easy", "--cluster-step", "2"), ("--policy", "easy"), None),
    ],
)
def test_the_size_found_meets_the_target_in_simulate_and_the_next_smaller_does_not(
    gpuplan, lab, more, replayed, nodes
):
    words = ("--target", "mean_wait <= 5m", "--target", "p95_wait <= 20m", *more)
    results = answer(gpuplan, lab, *words)
    step = nodes or (2 if "--cluster-step" in more else 1)
    at = wait_of(simulated(gpuplan, lab, results["gpus"], *replayed, nodes=nodes))
    assert at["mean_wait_s"] <= 300 and at["p95_wait_s"] <= 1200
    below = wait_of(simulated(gpuplan, lab, results["gpus"] - step, *replayed, nodes=nodes))
    assert below["mean_wait_s"] > 300 or below["p95_wait_s"] > 1200
    assert results["gpus"] % step == 0
    assert results["nodes"] == (None if nodes is None else results["gpus"] // nodes)
    point = next(point for point in results["points"] if point["gpus"] == results["gpus"])
    assert {name: point[name] for name in FIELDS} == at
    values = [target["value"] for target in results["targets"]]
    assert values == [at["mean_wait_s"], at["p95_wait_s"]]
    ends = results["interval"]
    assert ends["low_gpus"] <= results["gpus"] <= ends["high_gpus"]


def test_the_curve_is_that_of_simulate_point_by_point(gpuplan, lab):
    results = answer(gpuplan, lab, "--gpus", "8:24:3", "--price", "1.5", "--ci", "0")
    assert [point["gpus"] for point in results["points"]] == [8, 16, 24]
    assert results["gpus"] is results["interval"] is None
    for point in results["points"]:
        own = wait_of(simulated(gpuplan, lab, point["gpus"], "--policy", "first-fit"))
        assert {name: point[name] for name in FIELDS} == own
        assert point["usd_per_month"] == pytest.approx(point["gpus"] * 1.5 * 730.5)
        assert point["mean_wait_interval_s"] is point["meets"] is None
    first, second, _ = results["points"]
    window_h = answer(gpuplan, lab, "--price", "1", command="bill")["window_s"] / 3600
    saved_h = (first["mean_wait_s"] - second["mean_wait_s"]) / 3600 * 300 / window_h * 730.5
    assert second["usd_per_wait_h_saved"] == pytest.approx(8 * 1.5 * 730.5 / saved_h)
    assert first["usd_per_wait_h_saved"] is None


def test_a_log_of_several_types_has_a_pool_each(gpuplan, two_types):
    words = ("--target", "p95_wait <= 10m", "--price", "A100=2", "--price", "T4=0.5")
    results = answer(gpuplan, two_types, *words, "--cluster", "A100=5x4,T4=10x2")
    pools = {pool["name"]: pool for pool in results["pools"]}
    assert pools.keys() == {"A100", "T4"}
    assert results["gpus"] == sum(pool["gpus"] for pool in pools.values())
    assert results["usd_per_month"] == pytest.approx(
        730.5 * (2 * pools["A100"]["gpus"] + 0.5 * pools["T4"]["gpus"])
    )
    assert pools["A100"]["today"]["cluster_gpus"] == 20
    assert results["today"]["cluster_gpus"] == 40
    assert results["today"]["usd_per_month"] == pytest.approx(730.5 * (2 * 20 + 0.5 * 20))
    described = json.loads(gpuplan("characterize", two_types, "--output-format", "json")[1])
    for field in ("peak_gpus", "p95_wait_s"):
        assert results["today"][field] == described["results"]["today"][field]
    billed = json.loads(gpuplan("bill", two_types, "--price", "1", "--output-format", "json")[1])
    assert results["today"]["mean_gpus"] == pytest.approx(billed["results"]["mean_gpus"])
    for name, nodes in (("A100", 4), ("T4", 2)):
        alone = answer(
            gpuplan, two_types, *words[:2], "--where", f"gpu_type = '{name}'",
            "--cluster", f"{name}=8x{nodes}",
        )  # fmt: skip
        assert alone["gpus"] == pools[name]["gpus"] and alone["gpus"] % nodes == 0
        assert alone["interval"] == pools[name]["interval"]
    code, out, err = gpuplan("size", two_types, *words)
    assert code == 0 and "A100" in out and "T4" in out
    assert "By GPU type: a pool each" in out and "GPU types" not in err
    assert len(out.splitlines()) <= 40


def test_the_mean_of_all_types_is_over_one_window_also_with_jobs_that_name_none(gpuplan, tmp_path):
    trace = write_trace(
        tmp_path / "t.parquet", [0.0, 100.0, 10_000.0, 10_100.0], [1000.0] * 4,
        num_gpus=[4.0] * 4, gpu_type=["A100", "A100", None, None], queue_s=[0.0] * 4,
    )  # fmt: skip
    found = answer(gpuplan, trace, "--target", "p95_wait <= 10m")
    described = answer(gpuplan, trace, command="characterize")["today"]
    assert len(found["pools"]) == 2
    assert found["today"]["mean_gpus"] == pytest.approx(described["mean_gpus"])
    assert found["today"]["mean_gpus"] <= found["today"]["peak_gpus"]


def test_a_commitment_with_its_two_extremes(gpuplan, lab, two_types):
    words = ("--gpus", "16,32", "--commit", "0.9", "--on-demand", "2.1")
    results = answer(gpuplan, lab, *words)
    plan = results["commitment"]
    assert plan["usd_per_month"] <= min(
        plan["all_committed_usd_per_month"], plan["all_on_demand_usd_per_month"]
    )
    assert 0 < plan["coverage_share"] <= 1 and 0 < plan["utilization"] <= 1
    ends = plan["interval"]
    assert ends["low_gpus"] <= plan["committed_gpus"] <= ends["high_gpus"]
    assert results["points"][0]["usd_per_month"] == pytest.approx(16 * 0.9 * 730.5)
    both = answer(
        gpuplan, two_types, "--commit", "A100=1", "--commit", "T4=0.2", "--on-demand", "2"
    )["commitment"]  # fmt: skip
    assert both["interval"] is None and both["committed_gpus"] > 0
    none = answer(gpuplan, lab, "--commit", "2", "--on-demand", "2")["commitment"]
    assert none["committed_gpus"] == 0 and none["utilization"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "say what waits you accept"),
        (("--target", "p95 <= 1h"), 2, "expected a target such as p95_wait <= 1h"),
        (("--target", "wait <= 1h"), 2, "say which wait"),
        (("--target", "mean_wait <= soon"), 2, "expected a duration"),
        (("--target", "mean_slowdown <= -1"), 2, "expected a number"),
        (("--target", "p95_wait_over_5m <= 2%"), 2, "a share of jobs has no p95"),
        (("--target", "mean_slowdown <= 0.9"), 4, "no size meets it; where no job waits it is 1"),
        (("--gpus", "2,8"), 4, "a job needs 4 GPUs at once and would never start"),
        (("--gpus", "8:4:3"), 2, "LO at most HI"),
        (("--gpus", "8:x"), 2, "expected whole numbers of GPUs"),
        (("--gpus", "10", "--cluster", "x4"), 2, "10 is not a multiple of 4"),
        (("--gpus", "8", "--cluster", "x4", "--cluster-step", "6"), 2, "use 8"),
        (("--gpus", "8", "--policy", "allpass"), 2, "it rents its GPUs, so it has no size"),
        (("--gpus", "8", "--set", "gpus=3"), 2, "gpuplan size computes it"),
        (("--gpus", "8", "--commit", "1"), 2, "a commitment needs both prices"),
        (("--gpus", "8", "--growth", "20"), 2, "expected a percentage such as 20%"),
        (("--gpus", "8", "--growth=-100%"), 2, "more than -100%"),
        (
            ("--gpus", "8", "--ci", "30"),
            2,
            "--ci must be 0 (no interval) or 50 to 99.9 percent, got 30",
        ),
        (("--gpus", "8", "--price", "A100=1"), 2, "name no GPU type have no price"),
        (
            ("--commit", "A100=1", "--on-demand", "2"),
            2,
            "--commit A100: the log names no GPU types",
        ),
        (
            ("--commit", "1", "--on-demand", "A100=2"),
            2,
            "--on-demand A100: the log names no GPU types",
        ),
    ],
)
def test_what_cannot_be_answered_is_said(gpuplan, lab, words, code, message):
    assert message in " ".join(answer(gpuplan, lab, *words, code=code).split())


def test_each_gpu_type_has_its_curve_in_words(gpuplan, two_types):
    code, out, err = gpuplan("size", two_types, "--gpus", "8", "--price", "1", "--ci", "0")
    text = " ".join(out.split())
    assert code == 0, err
    assert "8 A100 GPUs under first-fit: a P95 wait of" in text and "8 T4 GPUs under" in text
    assert "all GPU types at once)" in text


def test_one_gpu_is_singular(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0], [3600])
    code, out, _ = gpuplan("size", str(trace), "--target", "p95_wait <= 1h", "--price", "1")
    text = " ".join(out.split())
    assert code == 0 and "You need 1 GPU for p95_wait" in text
    assert "Today: 1 GPU held on average (peak 1)" in text


def test_a_policy_that_lets_jobs_wait_on_any_cluster_may_have_no_size(gpuplan, lab):
    words = ("--policy", "equal", "--target", "mean_wait <= 1s")
    message = answer(gpuplan, lab, *words, code=4)
    assert "no size meets it" in message and "under equal" in message


def test_gates_name_the_size_in_size_diff_and_report(gpuplan, lab, tmp_path):
    words = ("size", lab, "--target", "mean_wait <= 5m", "--price", "1")
    for field in ("gpus", "size.gpus"):
        assert gpuplan(*words, "--fail-if", f"{field} > 3")[0] == 1
        assert gpuplan(*words, "--fail-if", f"{field} > 512")[0] == 0
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert gpuplan(*words, "-o", old)[0] == 0
    assert gpuplan(*words, "--growth", "100%", "-o", new)[0] == 0
    assert gpuplan("diff", old, new, "--fail-if", "size.gpus > +10%")[0] == 1
    study = ("--study", "size", "--set", "size.target=mean_wait <= 5m", "--study", "bill")
    folder = ("-o", tmp_path / "made", "--formats", "md,json", "--set", "bill.price=1")
    code, _, err = gpuplan("report", lab, *study, *folder, "--fail-if", "size.gpus > 3")
    assert code == 1 and "gate tripped: size.gpus > 3" in err
    text = (tmp_path / "made" / "report.md").read_text()
    assert "9 GPUs" in text and "a month" in text


def test_the_answer_is_short_and_the_picture_marks_today(gpuplan, two_types, tmp_path):
    picture, rows = tmp_path / "size.svg", tmp_path / "size.parquet"
    words = ("--target", "p95_wait <= 10m", "--where", "gpu_type = 'A100'", "--cluster", "30")
    code, out, err = gpuplan("size", two_types, *words, "--plot", picture, "-o", rows)
    assert code == 0, err
    assert out.startswith("You need ") and len(out.splitlines()) <= 40
    assert "an assumption" in err
    assert "today: 30 GPUs" in picture.read_text() and "meet the target" in picture.read_text()


@pytest.mark.parametrize(
    ("text", "statistic", "at", "limit"),
    [
        ("p95_wait <= 1h", PERCENTILE, 95, 3600),
        ("p99.9_wait<=90s", PERCENTILE, 99.9, 90),
        ("median_wait <= 2m", PERCENTILE, 50, 120),
        ("max_wait <= 1d", PERCENTILE, 100, 86_400),
        ("wait_over_10m <= 5%", OVER, 600, 0.05),
        ("slowdown_over_3 <= 0.1", OVER, 3, 0.1),
        ("p95_wait_s <= 60", PERCENTILE, 95, 60),
        ("p95_wait <= 0", PERCENTILE, 95, 0),
    ],
)
def test_targets_as_they_are_written(text, statistic, at, limit):
    found = parse_target(text)
    assert (found.statistic, found.at, found.limit) == (statistic, at, pytest.approx(limit))


@pytest.mark.parametrize("text", ["p95_wait <= 1", "wait_over_10 <= 5%", "mean_wait <= 1.5"])
def test_a_wait_without_a_unit_is_refused(text):
    with pytest.raises(UsageError, match=r"--target '.*a time needs a unit, such as [\d.]+h or"):
        parse_target(text)


def test_sizes_and_growth_as_they_are_written():
    assert parse_sizes("64,128,64") == (64, 128)
    assert parse_sizes("64:512:8") == SizeRange(64, 512, 8)
    assert parse_growth("20%") == pytest.approx(0.2)
    assert parse_growth("0.5") == 0.5 and parse_growth("-10%") == pytest.approx(-0.1)
    with pytest.raises(UsageError, match="--growth 'x'"):
        parse_growth("x")


def test_a_scenario_has_sizes_and_bills_as_studies_with_gates(gpuplan, lab, tmp_path):
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        f'workload.trace = "{lab}"\n[study.size]\ntarget = ["mean_wait <= 5m"]\nprice = ["1"]\n'
        '[study.bill]\nprice = ["1"]\nby = "user"\n'
        '[gates]\nfail_if = ["size.gpus > 3", "bill.usd_per_month > $1e9"]\n'
    )
    out = tmp_path / "out"
    code, _, err = gpuplan("run", scenario, "-o", out, "--cache", tmp_path / "cache")
    assert code == 1 and "gate tripped: size.gpus > 3" in err and "bill.usd" not in err
    studies = json.loads((out / "report.json").read_text())["studies"]
    found = {study["name"]: study["results"] for study in studies}
    alone = answer(gpuplan, lab, "--target", "mean_wait <= 5m", "--price", "1")
    assert found["size"]["gpus"] == alone["gpus"] > 3
    billed = answer(gpuplan, lab, "--price", "1", "--by", "user", command="bill")
    assert found["bill"]["usd_per_month"] == billed["usd_per_month"]
    assert {"size.svg", "bill.svg"} <= {path.name for path in (out / "figures").iterdir()}


def test_sizes_that_backfill_cannot_count_are_refused(gpuplan, lab):
    code, _, err = gpuplan(
        "size", lab, "--policy", "easy", "--cluster-step", "16777216", "--target", "p95_wait <= 1h"
    )
    assert code == 2 and "easy takes at most 16,777,215 GPUs, got 16,777,216" in err
    assert "million nodes" not in err


def test_jobs_that_need_more_gpus_than_a_cluster_can_have_are_refused(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0, 10], [100, 100], [1e7, 1e7])
    code, out, err = gpuplan("size", trace, "--target", "p95_wait <= 1h")
    assert (code, out) == (2, "") and "20,000,000 GPUs are needed" in err
    assert "next: leave the longest and the widest jobs out" in err


def test_no_smaller_size_of_the_curve_meets_the_target(gpuplan, lab, monkeypatch):
    """Waits need not fall with the size: a search may stop at a size above another that meets."""
    monkeypatch.setattr(size_pool, "smallest", lambda sizes: sizes.enough())
    found = answer(gpuplan, lab, "--policy", "easy", "--target", "p95_wait <= 10h")
    pool = found["pools"][0]
    points = {row["gpus"]: row["p95_wait_s"] for row in found["points"]}
    assert min(gpus for gpus, wait_s in points.items() if wait_s <= 36_000) == pool["gpus"]


def test_a_step_that_is_too_large_is_blamed_and_a_size_off_the_step_is_marked(gpuplan, tmp_path):
    trace = write_minutely(tmp_path / "trace.parquet")
    wanted = ("size", trace, "--target", "mean_wait <= 1h")
    code, _, err = gpuplan(*wanted, "--policy", "easy", "--cluster-step", 1 << 24)
    assert code == 2 and err.startswith("error: --cluster-step: easy takes at most"), err
    code, out, _ = gpuplan(*wanted, "--gpus", "40", "--cluster-step", 64)
    assert code == 0 and "meets, off the step" in out


def test_a_size_for_a_synthetic_log_says_that_nothing_checked_it(gpuplan, tmp_path):
    log = tmp_path / "week.parquet"
    assert gpuplan("synth", "--preset", "philly", "--jobs", "200", "--seed", "3", "-o", log)[0] == 0
    words = ("size", log, "--target", "p95_wait <= 30m", "--price", "1.29", "--ci", "0")
    out = " ".join(gpuplan(*words)[1].split("\n\n")[0].split())
    assert out.endswith(
        "The answer is not checked against the log: it is synthetic, its waits are sampled, and no "
        "scheduler made them."
    )


def test_today_may_meet_the_target_for_less_than_a_fixed_cluster(gpuplan, tmp_path):
    # Two jobs of an hour come at once every two hours: one GPU on average, two at once.
    begins = [7200 * (i // 2) for i in range(60)]
    rented = "Today already meets the target for less: its bill is for GPUs rented as jobs come"
    for wait_s, target, meets in (
        (30, "p95_wait <= 1m", True),
        (90, "p95_wait <= 1m", False),
        (360, "mean_slowdown <= 1.1", True),
        (370, "mean_slowdown <= 1.1", False),
    ):
        log = write_trace(tmp_path / f"{wait_s}.parquet", begins, [3600] * 60, queue_s=wait_s)
        words = (log, "--target", target, "--price", "1", "--ci", "0")
        found = answer(gpuplan, *words)
        assert (found["gpus"], found["today_meets"]) == (2, meets)
        assert (rented in " ".join(gpuplan("size", *words)[1].split())) == meets
    # A cluster that is there costs as much, and what a grown load waits today is not known.
    words = (tmp_path / "30.parquet", "--target", "p95_wait <= 1m", "--price", "1")
    assert "for less" not in gpuplan("size", *words, "--cluster", "2")[1]
    assert answer(gpuplan, *words, "--growth", "20%")["today_meets"] is None
