"""``gpuplan compare``: the same draws and prices for all, settings, table, picture and gates."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support_kueue import cluster_queue, write_list
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.figures.palette import LOOKS, look_of
from gpuplan.planner.compare import PolicySpec, PolicyTies, compare
from gpuplan.planner.policy_results import policy_results
from gpuplan.planner.registry import BASELINES, POLICIES
from gpuplan.planner.requests.clusters import ClusterRequest
from gpuplan.planner.requests.policy_specs import read_specs
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of

SEVERAL = ("allpass", "fixed:threshold_s=60", "serverless-only", "serverful-only", "hpa", "fifo")
GPUS_8 = ClusterRequest(gpus="8").size()


def given(policies):
    return [part for policy in policies for part in ("--policy", policy)]


def test_each_row_is_what_simulate_finds(gpuplan, lab, tmp_path):
    chosen = ("--seed", 3, "--sample", 150, "--deadline-factor", "1:4", "--output-format", "json")
    code, out, err = gpuplan(
        *("compare", lab, *given(SEVERAL), *chosen, "--set", "conventional_usd_per_gpu_h=1.5"),
        *("-o", tmp_path / "rows.parquet"),
    )
    assert code == 0, err
    document = json.loads(out)
    rows = document["results"]["policies"]
    assert [row["label"] for row in rows] == list(SEVERAL)
    effective = {one["label"]: one["settings"] for one in document["parameters"]["policies"]}
    for row, text in zip(rows, SEVERAL, strict=True):
        name, _, own = text.partition(":")
        texts = [] if name == "serverless-only" else ["conventional_usd_per_gpu_h=1.5"]
        sets = [part for one in [*texts, *own.split()] for part in ("--set", one)]
        code, out, err = gpuplan("simulate", lab, "--policy", name, *chosen, *sets)
        assert code == 0, err
        alone = json.loads(out)
        del alone["results"]["today"], alone["results"]["fidelity"]
        assert alone["results"] == {key: row[key] for key in alone["results"]}
        assert alone["parameters"]["settings"] == effective[text]
    code, elsewhere, err = gpuplan(
        *("compare", lab, *given(SEVERAL), *chosen, "--set", "conventional_usd_per_gpu_h=1.5"),
        *("--engine", "processes", "--parallel", 2),
    )
    assert code == 0, err
    assert json.loads(elsewhere)["results"] == document["results"]
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["cost_usd"].to_list() == [row["cost_usd"] for row in rows]


@pytest.mark.kernels
def test_what_all_policies_have_follows_from_their_jobs(tmp_path):
    # Containers at once at 3.60 $/h: 0.001 $ a GPU-second. A cluster of 1 GPU at 1.80 $/h: the
    # second job waits 90 s and is late, the bill is 700 s at 0.0005 $.
    read = read_trace(
        write_trace(tmp_path / "t.parquet", [0, 10], [100.0, 600.0]), Selection(), columns=COLUMNS
    )
    jobs = jobs_of(read, np.random.default_rng(0), (1.1, 1.1))
    now = {"serverless_startup_s": 0.0, "serverless_startup_sd_s": 0.0}
    found = compare(
        jobs,
        [
            PolicySpec("a", "serverless-only", {**now, "serverless_usd_per_gpu_h": 3.6}),
            PolicySpec("b", "fifo", {"gpus": 1, "usd_per_gpu_h": 1.8}),
            PolicySpec("c", "fifo", {"gpus": 1, "usd_per_gpu_h": 9.0}),
        ],
        np.random.default_rng(0),
    )
    serverless, fifo, dearer = plain(found.rows())
    assert serverless["cost_usd"] == pytest.approx(0.7)
    assert serverless["mean_wait_s"] == serverless["deadline_miss_share"] == 0
    assert serverless["finished_within_10min_share"] == 1
    assert serverless["paid_gpu_h"] == pytest.approx(700 / 3600)
    assert fifo["cost_usd"] == pytest.approx(0.35)
    assert fifo["mean_wait_s"] == pytest.approx(45)
    assert (fifo["deadline_miss_share"], fifo["finished_within_10min_share"]) == (0.5, 0.5)
    assert fifo["paid_gpu_h"] == pytest.approx(700 / 3600)
    assert fifo["cost_over_first"] == pytest.approx(0.5)
    assert fifo["mean_jct_over_first"] == pytest.approx(395 / 350)
    assert [one.label for one in found.cheapest] == ["b"]
    assert [one.label for one in found.fastest] == ["a"]
    assert found.ties == PolicyTies(cost=False, times=False)
    assert [row["non_dominated"] for row in (serverless, fifo, dearer)] == [True, True, False]
    assert found.outcomes[1].jct_s.tolist() == [100, 690]


def test_no_winner_among_ties(tmp_path):
    # One job of 100 s: clusters of 1 GPU cost 100 s each, the price of the second is 1% higher.
    path = write_trace(tmp_path / "t.parquet", [0], [100.0])
    jobs = jobs_of(read_trace(path, Selection(), columns=COLUMNS), np.random.default_rng(0))
    usd = {"a": 1.01, "b": 1.0, "c": 2.0}
    specs = [PolicySpec(k, "fifo", {"gpus": 1, "usd_per_gpu_h": v}) for k, v in usd.items()]
    found = compare(jobs, specs, np.random.default_rng(0))
    assert [one.label for one in found.cheapest] == ["b", "a"]
    assert [one.label for one in found.fastest] == ["b", "a", "c"]
    assert found.ties == PolicyTies(cost=False, times=True)
    two = compare(jobs, specs[:2], np.random.default_rng(0))
    assert two.ties.cost and len(two.cheapest) == 2


def test_a_policy_may_measure_what_no_other_does(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [100.0])
    jobs = jobs_of(read_trace(path, Selection(), columns=COLUMNS), np.random.default_rng(0))
    run = POLICIES["fifo"].run(jobs, {"gpus": 1}, np.random.default_rng(0))
    known = plain(policy_results(run, run.frame))
    own = replace(run, measured={"swaps": 3, **run.measured})
    assert list(plain(policy_results(own, run.frame)).items()) == [*known.items(), ("swaps", 3)]


@pytest.mark.kernels
@pytest.mark.parametrize("policy", POLICIES)
def test_fractions_of_a_gpu_are_the_same_work_under_every_policy(policy, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 0, 5], [3600.0] * 3, [0.5, 0.25, 1.5])
    jobs = jobs_of(read_trace(path, Selection(), columns=COLUMNS), np.random.default_rng(0))
    site = write_list(tmp_path / "site.json", [cluster_queue("all", 8, None)])
    if policy == "twin":
        site = tmp_path / "twin.toml"
        site.write_text('[node.n]\ncount = 1\ngpus = 8\n[partition.p]\nNodes = "ALL"\n')
    values = {"site": str(site)} if "site" in POLICIES[policy].settings else {}
    run = POLICIES[policy].run(jobs, values, np.random.default_rng(0))
    if policy in BASELINES:  # on other GPUs than recorded the same work takes other GPU time
        assert run.results["gpu_h"] == pytest.approx(run.frame["gpu_s"].sum() / 3600)
        return
    assert run.results["gpu_h"] == pytest.approx(2.25)
    assert run.frame.sort("job_id")["gpu_s"].to_list() == [1800.0, 900.0, 5400.0]
    if policy == "fifo":  # they hold 4 whole GPUs for 3600 of 3605 s
        assert run.results["utilization"] == pytest.approx(2.25 * 3600 / (4 * 3605))
        assert run.results["gpu_busy_share"] == pytest.approx(3600 / 3605)


def test_settings_go_to_whom_they_are_meant_for():
    found = read_specs(
        ["allpass", "fixed:threshold_s=60,capacity=3", "fifo", "serverless-only"],
        [
            "conventional_usd_per_gpu_h=$2",
            "threshold_s=120",
            "allpass.capacity=none",
            "checkpoint_s=5",
        ],
        GPUS_8,
    )
    assert [dict(one.settings) for one in found] == [
        {
            **{"capacity": None, "conventional_usd_per_gpu_h": 2.0},
            **{"threshold_s": 120.0, "checkpoint_s": 5.0},
        },
        {
            **{"capacity": 3, "conventional_usd_per_gpu_h": 2.0},
            **{"threshold_s": 60.0, "checkpoint_s": 5.0},
        },
        {"cluster": GPUS_8.shape, "conventional_usd_per_gpu_h": 2.0, "checkpoint_s": 5.0},
        {},
    ]
    assert [one.label for one in found][1] == "fixed:threshold_s=60,capacity=3"


def test_a_second_size_for_all_is_refused():
    for text in ("capacity=50", "gpus=50"):
        with pytest.raises(UsageError, match=f"--gpus 8 and --set {text}: give one of the two"):
            read_specs(["allpass", "fifo"], [text], GPUS_8)
    own, policys, plain = read_specs(["fifo:gpus=4", "sjf", "allpass"], ["sjf.gpus=5"], GPUS_8)
    assert (own.settings["gpus"], policys.settings["gpus"]) == (4, 5)
    assert plain.settings["capacity"] == 8


@pytest.mark.kernels
@pytest.mark.parametrize("policy", ["allpass", "serverful-only", "fifo"])
def test_gpus_mean_the_same_to_simulate_and_compare(gpuplan, lab, policy):
    arguments = (lab, "--policy", policy, "--gpus", 6, "--output-format", "json")
    (row,) = json.loads(gpuplan("compare", *arguments)[1])["results"]["policies"]
    code, out, err = gpuplan("simulate", *arguments)
    assert code == 0, err
    alone = json.loads(out)["results"]
    del alone["today"], alone["fidelity"]
    assert alone == {key: row[key] for key in alone}
    assert alone.get("workers_peak", 0) <= 6 and (policy != "fifo" or alone["gpus"] == 6)


@pytest.mark.parametrize(
    ("policies", "settings", "problem"),
    [
        (["alpass"], [], "did you mean allpass?"),
        (["allpass", "allpass"], [], "given twice"),
        (["fifo:"], [], "'fifo:': expected fifo or fifo:key=value"),
        (["allpass", "hpa"], ["treshold_s=5"], "did you mean threshold_s?"),
        (["allpass"], ["capacity"], "expected key=value or policy.key=value"),
        (["allpass"], ["hpa.capacity=4"], "hpa is not one of the policies compared"),
        (["hpa"], ["hpa.threshold_s=4"], "no setting 'threshold_s'"),
        (["fixed:threshold_s=soon"], [], "threshold_s 'soon': expected a duration"),
    ],
)
def test_usage_errors_name_the_setting(policies, settings, problem):
    with pytest.raises(UsageError) as error:
        read_specs(policies, settings)
    assert problem in str(error.value)


def test_table_picture_and_gates(gpuplan, lab, tmp_path):
    code, out, err = gpuplan("compare", lab, "--sample", 60, "--plot", tmp_path / "c.svg")
    assert code == 0, err
    assert out.startswith("Today: ") and " a month, " in out
    assert max(map(len, out.splitlines())) <= 100
    picture = (tmp_path / "c.svg").read_text()
    for name in ("allpass", "serverless-only", "serverful-only", "hpa"):
        assert name in out
        assert picture.count(f">{name}</text>") == 2  # beside its curve and beside its bar
    long = given(["allpass", "fifo:preemptive=false,skipping=true"])
    code, text, _ = gpuplan("compare", lab, "--sample", 60, *long)
    assert code == 0 and "skipping=true" in text
    code, out, _ = gpuplan("compare", lab, "--sample", 60, "--output-format", "csv")
    assert code == 0
    header, first, *_ = out.splitlines()
    assert header.startswith("label,policy,gpus,usd_per_month,cost_usd,cost_over_first,mean_jct_s")
    assert header.endswith("utilization,backlog_jobs,backlog_gpu_h,non_dominated")
    assert first.startswith("allpass,allpass,")
    gate = ("--fail-if", "policies.cost_over_first < 0.99")
    code, _, err = gpuplan("compare", lab, *given(["serverless-only", "allpass"]), *gate)
    assert code == 1
    assert "gate tripped" in err


@pytest.mark.kernels
def test_one_job_of_no_length_has_a_picture(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [0.0])
    both = given(["fifo", "serverful-only"])
    code, out, err = gpuplan("compare", path, *both, "--plot", tmp_path / "c.png")
    assert code == 0, err
    assert out.startswith("Today: 0 GPUs on average")


def test_every_policy_has_a_look_of_its_own():
    assert LOOKS.keys() == POLICIES.keys()
    assert len(set(LOOKS.values())) == len(LOOKS)
    assert look_of("fixed-threshold", 1).colour == LOOKS["fixed-threshold"].colour
    assert look_of("fixed-threshold", 1).dash != LOOKS["fixed-threshold"].dash
    again = [look_of(policy, repeat) for policy in LOOKS for repeat in (1, 2, 3)]
    assert len({look.dash for look in again}) == 3 and not set(again) & set(LOOKS.values())
    # Bars tell colours better than dashes: those that rent share theirs with nobody.
    renting = ("allpass", "fixed-threshold", "serverless-only", "serverful-only", "hpa")
    colours = [look.colour for look in LOOKS.values()]
    assert all(colours.count(LOOKS[policy].colour) == 1 for policy in renting)


def test_what_more_money_buys(gpuplan, tmp_path):
    # Both are charged for 610 s. A cluster of 1 GPU at $1.80: the second job waits 90 s, 6.58 min
    # per job. Two at $9: nobody waits.
    trace = write_trace(tmp_path / "t.parquet", [0, 10], [100.0, 600.0])
    one, two = "fifo:gpus=1,usd_per_gpu_h=1.8", "fifo:gpus=2,usd_per_gpu_h=9"
    cheap = "On 1 GPU ($1,310 a month busy or not, at $1.80 per GPU-hour), "
    for policies, message in (
        ((one,), f"{cheap}{one} takes 6.58 min per job (P95 wait 85.5 s)."),
        (
            (one, two),
            f"{cheap}{one} takes 6.58 min per job (P95 wait 85.5 s); on 2 GPUs ($13,100 a month "
            f"busy or not, at $9 per GPU-hour), {two} takes 5.83 min per job (P95 wait 0 s).",
        ),
        (
            (one, f"{two},preemptive=true", two),
            "the scheduler hardly matters: 57% used, P95 waits differ by 0.0%",
        ),
        ((one, "sjf:gpus=1,usd_per_gpu_h=9"), "sjf:gpus=1,usd_per_gpu_h=9 costs more and is no"),
    ):
        code, out, err = gpuplan("compare", trace, *given(policies), "-q")
        assert code == 0, err
        assert message in " ".join(out.split())
    out = gpuplan("compare", trace, *given([one]), "-q", "--output-format", "json")[1]
    assert json.loads(out)["results"]["span_s"] == 10


def test_a_job_that_runs_faster_than_recorded_has_no_negative_wait(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [600.0 * i for i in range(20)], [3600.0] * 20)
    asked = ("compare", path, "--policy", "equal", "--policy", "fifo", "--gpus", "16")
    code, out, err = gpuplan(*asked, "--output-format", "json")
    assert code == 0, err
    equal, fifo = json.loads(out)["results"]["policies"]
    assert equal["mean_jct_s"] < 3600 <= fifo["mean_jct_s"]
    assert equal["p95_wait_s"] == equal["p95_jqt_s"] >= 0
    text = " ".join(gpuplan(*asked)[1].split())
    assert "equal is fastest with " in text and " per job if jobs scale as power:0.8 (" in text
    assert text.count("if jobs scale as") == 1
