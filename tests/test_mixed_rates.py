"""Rates of jobs on several GPU types: profiles, and what a table says of moves."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support_document import write_trace
from support_mixed import jobs_of, rows

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.user_tables.gpu_rates import read_gpu_rates
from gpuplan.planner.policies.mixed.mixed_rounds import play
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs, rated_jobs
from gpuplan.planner.runs.job_rates import RateSource
from gpuplan.planner.runs.throughputs import load_throughputs
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.simkit.cluster_shape import ClusterShape

APPLICATIONS = ("cifar10", "bert", "deepspeech2", "yolov3", "ncf", "cifar10", "bert", "ncf")
DETAILED = """job_class,gpu_type,gpus,rate,batch_size,cross_host,state_gb,dataset_gb,parallelism
A,V100,2,3,32,0.8,10,40,pipeline
A,V100,2,4,64,0.7,10,40,pipeline
A,T4,2,1,32,0.5,10,40,pipeline
B,T4,1,1,32,1,0,0,data
"""
GOODPUT = (
    "job_class,gpu_type,epoch,work_share,alpha_c,beta_c,alpha_r,beta_r,alpha_n,beta_n,gamma,"
    "init_batch_size,max_batch_size,min_local_bsz,max_local_bsz,gpus_per_node,noise_scale,work_h\n"
    "A,T4,0,0.5,0.4,0.02,0,0,0,0,1,8,32,4,16,4,100,2\n"
    "A,T4,1,0.5,0.4,0.02,0,0,0,0,1,8,32,4,16,4,400,2\n"
    "A,V100,0,0.5,0.2,0.01,0,0,0,0,1,8,32,4,16,4,100,1\n"
    "A,V100,1,0.5,0.2,0.01,0,0,0,0,1,8,32,4,16,4,400,1\n"
)


def test_a_built_in_profile_gives_rates_and_sizes(tmp_path):
    source = RateSource("profile:sia", {}, ("T4", "A100"))
    found = source.apply(tmp_path, rows(["bert", "bert", "ncf"], [2, 16, 8]))
    # Durations are those on A100: 0.79401 h on one GPU, at its measured speedups.
    assert found.jobs["duration_s"].to_list() == pytest.approx(
        [0.79401 * 3600 / 2.15007, 0.79401 * 3600 / 15.0436]
    )
    ratio = found.of(found.jobs).rate[:, 1] / found.of(found.jobs).rate[:, 0]
    t4 = [4.51119 * 3600 / 2.070688808, 4.51119 * 3600 / 10.22263078]
    assert (found.jobs["duration_s"].to_numpy() * ratio).tolist() == pytest.approx(t4)
    assert found.notes[0].startswith("2 jobs have no duration: the work is that of the class in")
    assert "ncf on 8 GPUs (1)" in found.notes[1]  # measured on up to 4
    assert load_throughputs("profile:sia").inputs() == ()
    with pytest.raises(UsageError, match="does not tell GPU types apart"):
        load_throughputs("profile:t4")
    for text, expected in (("profile:x", "profile:sia"), ("pollux:", "pollux:FILE.csv")):
        with pytest.raises(UsageError, match=f"--throughputs {text}: expected {expected}"):
            load_throughputs(text)
    with pytest.raises(UsageError, match=r"has no rates on H100.*A100, RTX2080Ti, T4"):
        RateSource("profile:sia", {}, ("T4", "H100")).apply(tmp_path, rows(["bert"], [2]))


def test_goodput_parameters_by_gpu_type_give_rates(tmp_path):
    path = tmp_path / "goodput.csv"
    path.write_text(GOODPUT)
    model = load_speedup(f"pollux:{path}")
    assert list(model.types) == ["T4", "V100"]
    source = RateSource(f"pollux:{path}", {}, ("V100", "T4"))
    found = source.apply(tmp_path, rows(["A", "A"], [1, 2], [1000, None], ["T4", None]))
    rates = found.of(found.jobs)
    # All times on V100 are half those on T4, so goodput is twice; a job of 2 h on T4.
    assert rates.rate[:, 0] == pytest.approx(2 * rates.rate[:, 1])
    speedup = float(model.types["T4"].classes["A"].at(np.array([2.0]))[0])
    assert found.jobs["duration_s"].to_list() == pytest.approx([500.0, 3600 / speedup])
    (read,) = load_throughputs(f"pollux:{path}").inputs()
    assert read.path == str(path)
    path.write_text(GOODPUT.replace(",1\n", ",1.04\n"))
    assert load_throughputs(f"pollux:{path}").works()["A"] > 0
    path.write_text(GOODPUT.replace(",1\n", ",3\n"))
    with pytest.raises(InputError, match=r"takes 2 h on T4 and 3 h on V100, but .* 1 h there"):
        load_throughputs(f"pollux:{path}")
    path.write_text(GOODPUT.replace("A,V100,1,0.5,0.2,0.01,0,0,0,0,1,8,32,4,16,4,400,1\n", ""))
    with pytest.raises(InputError, match="same epochs on every GPU type"):
        load_throughputs(f"pollux:{path}")


@pytest.mark.parametrize("source", ["profile:sia", "table"])
def test_a_job_that_never_started_gets_no_work(tmp_path, source):
    if source == "table":
        source = str(tmp_path / "rates.csv")
        (tmp_path / "rates.csv").write_text("job_class,gpu_type,gpus,rate\nbert,T4,2,1\n")
    states = ["completed", "not_started", None]
    jobs = rows(["bert"] * 3, [2] * 3, steps=[50, 50, 50], state=states)
    found = RateSource(source, {}, ("T4",)).apply(tmp_path, jobs)
    assert found.jobs["duration_s"].is_null().to_list() == [False, True, False]
    never = rows(["bert"], [2], steps=[50], state=["not_started"])
    notes = RateSource(source, {}, ("T4",)).apply(tmp_path, never).notes
    steps = [note for note in found.notes if "steps of jobs are not used" in note]
    assert len(steps) == (source == "profile:sia")
    assert not any("of the class in" in note for note in notes)


def test_a_table_may_say_what_a_move_takes(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(DETAILED)
    table = read_gpu_rates(path)
    assert table.filter(pl.col("gpu_type") == "V100").rows() == [
        ("A", "V100", 2.0, 4.0, 0.7, 10.0, 40.0, "pipeline")
    ]
    source = RateSource(str(path), {}, ("V100", "T4"))
    jobs = rows(["A", "B", "A"], [2, 1, 2], [100] * 3)
    details = source.apply(tmp_path, jobs).rates.details
    assert details.cross_host[:2] == pytest.approx(np.array([[0.7, 0.5], [np.nan, 1]]), nan_ok=True)
    assert details.state_gb.tolist() == [10, 0, 10]
    assert details.is_pipeline.tolist() == [True, False, True]
    path.write_text(DETAILED.replace("B,T4,1,1,32,1,0,0,data", "B,T4,1,1,32,, ,,"))
    assert read_gpu_rates(path).rows()[-1] == ("B", "T4", 1.0, 1.0, None, None, None, None)
    path.write_text(DETAILED.replace("V100,2,4,64,0.7,10,40,pipeline", "V100,2,4,64,0.7,,,"))
    assert read_gpu_rates(path).rows() == table.rows()
    for blank in ("B,T4,1,,32,1,0,0,data", "B,T4,1,1,,1,0,0,data"):
        path.write_text(DETAILED.replace("B,T4,1,1,32,1,0,0,data", blank))
        with pytest.raises(InputError, match=r"rates.csv:5: column .*an empty cell"):
            read_gpu_rates(path)
    path.write_text(DETAILED.replace("1,1,32,1,0,0,data", "1,1,32,1.1,0,0,data"))
    with pytest.raises(InputError, match=r"rates.csv:5: column 'cross_host'.*at most 1"):
        read_gpu_rates(path)
    path.write_text(DETAILED.replace("A,T4,2,1,32,0.5,10", "A,T4,2,1,32,0.5,11"))
    with pytest.raises(InputError, match="the same in every row of a class"):
        read_gpu_rates(path)


def test_gavels_rates_across_hosts_are_measured_factors(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(
        "worker_type,job_type,scale_factor,steps_per_second\n"
        "v100,A,2,4\nv100_unconsolidated,A,2,3\nk80,A,2,1\nk80_unconsolidated,A,2,1.5\n"
    )
    table = read_gpu_rates(path)
    assert dict(table.select("gpu_type", "cross_host").rows()) == {"v100": 0.75, "k80": 1.0}


def test_settings_count_before_the_table(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(DETAILED)
    shape = ClusterShape.parse("V100=1x4,T4=1x4")
    found = RateSource(str(path), {}, shape.gpu_types).apply(tmp_path, rows(["A"], [2], [100]))
    jobs = trace_jobs(found)
    values = {"estimate_error": 0.0, "state_gb": 2.0, "dataset_gb": 0.0, "cross_host": 0.9}
    args = (jobs, shape, MixedCluster((4, 4)))
    table = rated_jobs(*args, values, {}, np.random.default_rng(0))
    assert (table.state_gb[0], table.dataset_gb[0], table.cross_host[0, 0]) == (10.0, 40.0, 0.7)
    own = rated_jobs(*args, values, values, np.random.default_rng(0))
    assert (own.state_gb[0], own.dataset_gb, own.cross_host) == (2.0, None, None)
    given = rated_jobs(*args, {**values, "work_unit": "given"}, {}, np.random.default_rng(0))
    assert given.rate.tolist() == [[4 * 300.0, 300.0]]
    assert given.work / given.rate[0, 0] == pytest.approx(table.work / table.rate[0, 0])


def trace_jobs(found):
    """The jobs of rated rows, all submitted at once."""
    n = found.jobs.height
    plain = jobs_of([0] * n, [100] * n, found.jobs["num_gpus"].to_list(), [[1.0, 1.0]] * n)
    return replace(plain, rates=found.of(found.jobs))


def test_a_first_start_waits_for_its_data_and_a_spread_gang_runs_at_the_measured_factor():
    # 40 GB take 32 s at 10 Gb/s. The second gang of 2 finds 1 GPU free on each of two hosts, and
    # runs at half its rate until the first ends; then it moves together within 30 s.
    jobs = RatedJobs(
        submit_s=np.zeros(3),
        gpus=np.array([3, 3, 2]),
        work=np.array([1.0, 1.0, 1.0]),
        rate=np.ones((3, 1)),
        state_gb=np.zeros(3),
        is_pipeline=np.zeros(3, bool),
        dataset_gb=np.array([0.0, 40.0, 0.0]),
        cross_host=np.array([[np.nan], [np.nan], [0.5]]),
    )
    run = play(jobs, MixedCluster((8,), (4,)), lambda state: np.zeros(state.running.size, np.int64))
    assert run.run.finish_us.tolist() == [300e6, 332e6, 480e6]
    assert run.lost_s.tolist() == [0, 32, 30]


@pytest.mark.parametrize(
    ("kinds", "state_gb", "dataset_gb", "end_s", "lost_s"),
    [
        ([0, 0, 0, 0], 0.0, 750.0, 900, 600),  # 750 GB take two rounds at 10 Gb/s
        ([0, -1, 0, 0, 0], 0.0, 750.0, 1230, 630),  # 300 s are left, and a restart of 30 s
        ([0, 1, 1, 1, 1], 750.0, 0.0, 1230, 630),
        ([0, 1, -1, 1, 1, 1], 750.0, 0.0, 1560, 660),  # 330 s are left at 600 s
        ([0, 1, 0, 0, 0], 375.0, 750.0, 1230, 930),  # fetch 300; fetch 300; copy 300 and 30 s
    ],
)
def test_a_pause_longer_than_a_round_goes_on_after_an_interruption(
    kinds, state_gb, dataset_gb, end_s, lost_s
):
    jobs = RatedJobs(
        submit_s=np.zeros(1),
        gpus=np.array([1]),
        work=np.array([1.0 + (state_gb == 750)]),
        rate=np.ones((1, 2)),
        state_gb=np.array([state_gb]),
        is_pipeline=np.zeros(1, bool),
        dataset_gb=np.array([dataset_gb]),
    )
    run = play(jobs, MixedCluster((1, 1)), lambda state: np.array([kinds[state.number]]))
    assert (run.run.finish_us.tolist(), run.lost_s.tolist()) == ([end_s * 1e6], [lost_s])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("dataset_gb=1e15", "dataset_gb=1e15: make a job pause"),
        ("gbps=1e-12", "gbps=1e-12: make a job pause"),
        ("round_s=1e-9", "round_s=1e-9: round_s must be at least 1"),
    ],
)
def test_pauses_and_rounds_have_limits(gpuplan, lab, setting, said):
    speeds = ("--cluster", "T4=2x8,A100=2x8", "--gpu-speed", "T4=0.5,A100=1")
    code, _, err = gpuplan("simulate", lab, *speeds, "--policy", "las", "--set", setting)
    assert code == 2 and said in " ".join(err.split())


SCENARIO = """
[workload]
trace = "jobs.parquet"
{speeds}

[clouds]
cluster = "T4=4x4,A100=2x8"

[study.compare]
policy = ["fft", "gavel:objective=finish-time", "allox:rule=tail", "srtf"]

[study.alone]
command = "simulate"
policy = "sia"

[output]
dir = "out"
formats = ["json", "md"]
"""


@pytest.mark.parametrize(
    "speeds", ['throughputs = "profile:sia"', 'gpu_speed = "T4=0.4,A100=1"\nround = "10m"']
)
def test_scenarios_and_reports_take_several_types(gpuplan, tmp_path, speeds):
    rows = [f"{name}-{i},{60 * i},{name},{1 + i % 4},64" for i, name in enumerate(APPLICATIONS)]
    log = tmp_path / "sia.csv"
    log.write_text("\n".join(["name,time,application,num_replicas,batch_size", *rows]) + "\n")
    assert gpuplan("ingest", log, "-o", tmp_path / "jobs.parquet")[0] == 0
    if "gpu_speed" in speeds:  # which needs durations
        jobs = pl.read_parquet(tmp_path / "jobs.parquet")
        jobs = jobs.with_columns(duration_s=pl.lit(900.0))
        jobs.write_parquet(tmp_path / "jobs.parquet")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(SCENARIO.format(speeds=speeds))
    code, _, err = gpuplan("run", scenario, "--no-cache", "-o", tmp_path / "out")
    assert code == 0, err
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    studies = {one["name"]: one["results"] for one in found["studies"]}
    policies = {one["name"]: one for one in studies["compare"]["policies"]}
    assert policies["allox:rule=tail"]["jobs"] == len(APPLICATIONS)
    assert studies["alone"]["ftf_max"] > 0
    assert "Finish-time fairness" in (tmp_path / "out" / "report.md").read_text()


def test_size_says_that_no_job_changes_its_type(gpuplan, tmp_path):
    write_trace(tmp_path / "t.parquet", 40)
    jobs = pl.read_parquet(tmp_path / "t.parquet")
    types = pl.Series("gpu_type", ["T4", "A100"] * 20)
    jobs.with_columns(types).write_parquet(tmp_path / "t.parquet")
    args = ("size", tmp_path / "t.parquet", "--gpus", "8", "--ci", "0", "--policy")
    for policy, is_said in (("gavel", True), ("srtf", False)):
        code, out, err = gpuplan(*args, policy, "--output-format", "json")
        assert code == 0, err
        warnings = " ".join(json.loads(out)["warnings"])
        assert (f"{policy} does not move jobs to another type" in warnings) == is_said
