"""Policies on several GPU types: rates of jobs, metrics, and laws that hold for all of them."""

import json

import numpy as np
import polars as pl
import pytest
from support_document import write_trace
from support_mixed import jobs_of, rows

from gpuplan.analysis.base.errors import InfeasibleError, InputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.user_tables.gpu_rates import RATE_COLUMNS, read_gpu_rates
from gpuplan.cli.formats.report import StudyView
from gpuplan.cli.tables.fairness_tables import with_fairness
from gpuplan.planner.policies.mixed import mixed_rounds
from gpuplan.planner.policies.mixed.mixed_policy import fastest_free
from gpuplan.planner.policies.mixed.round_state import never
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.requests.replays import GpuTypeRequest, ReplayRequest
from gpuplan.planner.runs.job_rates import RateSource
from gpuplan.planner.studies.replay import rates_of, read_replay
from gpuplan.simkit.cluster_shape import ClusterShape

MIXED = [
    name for name, one in POLICIES.items() if one.takes_gpu_types and "round_s" in one.settings
]
RATES = """job_class,gpu_type,gpus,rate
A,V100,1,2
A,T4,1,1
A,V100,2,3
"""
SHAPE = ClusterShape.parse("V100=2x2,T4=1x4")


def some_jobs(n=14, seed=3):
    rng = np.random.default_rng(seed)
    rate = np.column_stack((np.ones(n), rng.uniform(0.3, 0.9, n)))
    rate[rng.uniform(size=n) < 0.2, 1] = 0
    return jobs_of(
        np.sort(rng.integers(0, 6000, n)), rng.integers(60, 9000, n), rng.choice([1, 2, 4], n), rate
    )


@pytest.mark.filterwarnings("error")
def test_sia_stays_within_the_range_of_numbers():
    def replayed(**settings):
        return POLICIES["sia"].run(some_jobs(), {"cluster": SHAPE, **settings}, rng)

    rng = np.random.default_rng(0)
    for power in (1e308, -101.0):
        with pytest.raises(UsageError, match="power"):
            replayed(power=power)
    for penalty in (0.0, 1e308):
        with pytest.raises(UsageError, match="waiting_penalty"):
            replayed(waiting_penalty=penalty)
    assert replayed(power=-100.0, waiting_penalty=1e6).results["jobs"] == 14


@pytest.mark.parametrize("name", MIXED)
def test_laws_of_every_policy(name):
    jobs = some_jobs()
    settings = {"cluster": SHAPE, "usd_per_gpu_h": 1.0}
    runs = [POLICIES[name].run(jobs, settings, np.random.default_rng(5)) for _ in range(2)]
    first, again = (run.frame for run in runs)
    assert first.equals(again)
    results = runs[0].results
    assert results["jobs"] == 14
    assert (first["start_s"] >= first["submit_s"]).all()
    held = first["gpu_s"].to_numpy() / jobs.workload.gpus
    assert (held >= jobs.workload.service_us / 1e6 - 1e-3).all()
    assert results["starvation_mean_s"] == pytest.approx(first["starvation_s"].mean())
    assert results["ftf_mean"] == pytest.approx(first["ftf"].mean())
    assert results["switches"] == first["switches"].sum() >= results["migrations"]
    assert set("/".join(first["gpu_types"]).split("/")) <= {"V100", "T4"}
    time = runs[0].timeline()
    assert (time["used_V100"] <= 4).all() and (time["used_T4"] <= 4).all()
    assert json.dumps(results)


def test_jobs_that_are_moved_forever_end_with_a_message():
    """Two jobs take turns on the faster GPUs in rounds of 300 s; to copy one takes 480 s."""
    rate = np.array([[1.0, 0.4], [1.0, 0.4]])
    jobs = jobs_of([0.0, 0.0], [20_000.0, 20_000.0], [4, 4], rate)
    settings = {"cluster": SHAPE, "usd_per_gpu_h": 1.0, "state_gb": 600.0}
    with pytest.raises(UsageError, match="moved again before its state is copied"):
        POLICIES["gavel"].run(jobs, settings, np.random.default_rng(0))
    run = POLICIES["gavel"].run(jobs, {**settings, "state_gb": 1.0}, np.random.default_rng(0))
    assert run.results["jobs"] == 2 and run.results["switches"] > 2


@pytest.mark.parametrize(
    "name, seed, more",
    [  # Sia solves a program in each round, which takes ten times as long as the others
        *((name, seed, {}) for name in MIXED for seed in (2, 3) if name != "sia" or seed == 2),
        *(("las", seed, {"preemptive": False}) for seed in (2, 3)),
        ("las", 2, {"skipping": False}),
        ("las", 3, {"limits_s": (100.0, 1000.0, 5000.0), "estimate_error": 0.5}),
        ("pal", 2, {"limits_gpu_s": (100.0, 7000.0, 50_000.0)}),
        ("fifo", 3, {"preemptive": True}),
        ("srtf", 2, {"preemptive": False}),
        ("tiresias", 3, {"join": "random", "estimate_error": 0.5}),
    ],
)
def test_rounds_in_which_nothing_can_change_are_skipped(monkeypatch, name, seed, more):
    rng = np.random.default_rng(seed)
    rate = np.column_stack((np.ones(20), rng.choice([0.0, 0.4, 0.8, 1.0], 20)))
    # Busy and calm by turns: some wait, some are alone.
    submit_s = np.sort(rng.choice([0, 20_000, 45_000], 20) + rng.integers(0, 8000, 20))
    jobs = jobs_of(submit_s, rng.integers(60, 16_000, 20), rng.choice([1, 2, 4], 20), rate)
    settings = {"cluster": SHAPE, "usd_per_gpu_h": 1.0, "state_gb": 600.0, **more}
    decided = []

    def runs(skips):
        def counted(jobs, cluster, choose, lasts):
            def count(state):
                decided[-1] += 1
                return choose(state)

            return play(jobs, cluster, count, lasts if skips else never)

        decided.append(0)
        monkeypatch.setattr(mixed_rounds, "play", counted)
        return POLICIES[name].run(jobs, settings, np.random.default_rng(5))

    play = mixed_rounds.play
    skipped, each = runs(True), runs(False)
    assert skipped.frame.equals(each.frame)
    assert skipped.results == each.results
    assert skipped.timeline().equals(each.timeline())
    assert decided[1] == each.results["rounds"]
    assert decided[0] < decided[1]


def test_rounds_are_longer_where_a_single_job_takes_years():
    """One job of 20 years among 29 of an hour: 43 rounds of 5 minutes, at most 50,000 of these."""
    run_s = [*[3600.0] * 29, 20 * 365.25 * 86400]
    jobs = jobs_of([0] * 30, run_s, [1] * 30, np.tile([1.0, 0.5], (30, 1)))
    run = POLICIES["las"].run(
        jobs, {"cluster": SHAPE, "usd_per_gpu_h": 1.0}, np.random.default_rng(0)
    )
    (note,) = [note for note in run.warnings if "rounds are" in note]
    assert note.startswith("the longest job takes 7,305 days, so rounds are of 3.58 h, not 300 s")
    assert run.settings["round_s"] == 43 * 300.0


@pytest.mark.parametrize("name", ["fft", "gavel", "las"])
def test_rounds_are_longer_where_jobs_take_months_and_none_are_typed(name):
    """Two jobs of 116 days and four of an hour: rounds of 2 h, 1,389 of them in a long job."""
    jobs = jobs_of([0] * 6, [*[3600.0] * 4, *[1e7] * 2], [4] * 6, np.tile([1.0, 0.5], (6, 1)))
    settings = {"cluster": SHAPE, "usd_per_gpu_h": 1.0}
    run = POLICIES[name].run(jobs, settings, np.random.default_rng(0))
    (note,) = [note for note in run.warnings if "rounds" in note]
    assert note == (
        "a tenth of the jobs take 116 days or more, so rounds are of 2 h, not 300 s; round_s sets "
        "them"
    )
    assert run.settings["round_s"] == 7200.0 and run.results["jobs"] == 6
    typed = POLICIES["las"].run(jobs, {**settings, "round_s": 3600.0}, np.random.default_rng(0))
    assert typed.settings["round_s"] == 3600.0 and not any("rounds" in n for n in typed.warnings)


def test_a_wide_gang_waits_for_one_type():
    # 4 GPUs of each type; the gang of 4 cannot be split over both.
    kind = fastest_free(
        np.array([0, 1]), np.array([[1.0, 0.5], [1.0, 0.5]]), np.array([2, 4]), np.array([4, 4])
    )
    assert kind.tolist() == [0, 1]
    blocked = fastest_free(
        np.array([0, 1, 2]),
        np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.5]]),
        np.array([2, 4, 1]),
        np.array([4, 4]),
        skipping=False,
    )
    assert blocked.tolist() == [0, -1, -1]


@pytest.mark.parametrize("name", MIXED)
def test_alone_no_job_is_faster_than_its_share(name):
    jobs = jobs_of([0], [3000], [2], [[1.0, 0.5]])
    run = POLICIES[name].run(jobs, {"cluster": SHAPE}, np.random.default_rng(0))
    assert run.results["ftf_max"] == pytest.approx(1.0)
    assert run.results["ftf_below_one_share"] == 0


def test_a_gang_that_fits_on_no_type_is_named():
    jobs = jobs_of([0, 0], [100, 100], [1, 8], [[1.0, 0.5], [1.0, 0.0]])
    with pytest.raises(InfeasibleError, match="job j1 needs 8 GPUs of one type on V100"):
        POLICIES["fft"].run(jobs, {"cluster": SHAPE}, np.random.default_rng(0))


def test_a_comparison_in_which_no_job_fits_says_so(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "wide.parquet", 3)
    wide = pl.read_parquet(trace).with_columns(num_gpus=pl.lit(64.0), gpu_type=pl.lit("V100"))
    wide.write_parquet(trace)
    command = ("compare", trace, "--cluster", "V100=2x4,T4=2x4", "--price", "2")
    speeds = ("--gpu-speed", "V100=1,T4=0.5", "--policy", "srtf", "--policy", "fft")
    code, out, err = gpuplan(*command, *speeds)
    assert (code, out) == (4, "") and "job 0 needs 64 GPUs of one type on V100 or T4" in err
    code, out, err = gpuplan(*command, "--policy", "gfs", "--policy", "yarn-cs")
    assert (code, out) == (3, "") and "no job fits into the cluster" in err


@pytest.mark.parametrize("name", ["srtf", "fft", "gavel", "fifo"])
def test_estimates_may_be_wrong(name):
    """One gang at a time: policies of known work begin with the one that seems shorter."""
    shape = ClusterShape.parse("V100=1x2,T4=1x2")
    duration = np.array([3000.0, 3300.0])
    jobs = jobs_of([0, 0], duration, [2, 2], [[1.0, 0.0]] * 2)
    own = {"objective": "sjf"} if name == "gavel" else {}
    begun = []
    for seed in range(6):
        settings = {"cluster": shape, "estimate_error": 0.9, **own}
        frame = POLICIES[name].run(jobs, settings, np.random.default_rng(seed)).frame
        seen = duration * (1 + np.random.default_rng(seed).spawn(2)[0].uniform(-0.9, 0.9, 2))
        first = int(frame["start_s"].arg_min())
        assert first == (0 if name == "fifo" else seen.argmin())
        begun.append(first)
        done_s = frame["gpu_s"].to_numpy() / 2
        assert (done_s >= duration).all()  # the work is the true one
    assert len(set(begun)) == (1 if name == "fifo" else 2)


def test_rates_of_a_table(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(RATES)
    source = RateSource(str(path), {}, ("V100", "T4"))
    found = source.apply(path, rows(["A", "A", "B"], [1, 2, 1], steps=[600, 600, 600]))
    assert found.jobs["duration_s"].to_list() == [300.0, 200.0]
    rates = found.of(found.jobs)
    assert rates.rate.tolist() == [[2.0, 1.0], [3.0, 0.0]]
    assert rates.work.tolist() == [600.0, 600.0]
    assert rates.on(("T4", "V100")).tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert found.notes == (
        "1 job is left out because it has no rate on any GPU type of the cluster: B on 1 GPU (1)",
    )
    timed = source.apply(path, rows(["A", "A"], [1, 1], [100, 100], ["Tesla T4", None]))
    assert timed.jobs["duration_s"].to_list() == [50.0, 100.0]
    assert timed.notes[0].startswith("1 job recorded no GPU type with a known rate and is assumed ")
    cpu = source.apply(path, rows(["A", "A"], [1, 0], [100, 100], ["Tesla T4", None]))
    assert not any("fastest type" in note for note in cpu.notes)
    with pytest.raises(UsageError, match="has T4, V100, and jobs of the log ran on A100"):
        source.apply(path, rows(["A"], [1], [100], ["A100"]))
    with pytest.raises(InputError, match="no job of the trace has a rate"):
        source.apply(path, rows(["B"], [1], steps=[5]))
    with pytest.raises(UsageError, match=r"has no rates on A100.*T4, V100"):
        RateSource(str(path), {}, ("A100",)).apply(path, rows(["A"], [1], steps=[5]))


def test_assumed_speeds(tmp_path):
    source = RateSource(None, {"V100": 1.0, "T4": 0.25}, ("V100", "T4"))
    found = source.apply(tmp_path, rows(["A", None], [1, 2], [100, 100], ["T4", None]))
    assert found.jobs["duration_s"].to_list() == [25.0, 100.0]
    assert "assumed the same for every job: V100 1, T4 0.25" in found.notes[0]
    with pytest.raises(UsageError, match="--gpu-speed: has no speed of A100"):
        RateSource(None, {"T4": 1.0}, ("A100", "T4")).apply(tmp_path, rows(["A"], [1], [5]))
    with pytest.raises(UsageError, match="speeds of jobs on A100, T4 are not known"):
        RateSource(None, {}, ("A100", "T4")).apply(tmp_path, rows(["A"], [1], [5]))


def test_tables_of_rates(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(RATES)
    assert read_gpu_rates(path).row(0)[:4] == ("A", "V100", 1.0, 2.0)
    path.write_text("worker_type,job_type,scale_factor,steps_per_second\nk80,A,1,4\nk80,B,1,0\n")
    assert read_gpu_rates(path).select(RATE_COLUMNS).rows() == [("A", "k80", 1.0, 4.0)]
    path.write_text(RATES + "A,T4,1,1\n")
    with pytest.raises(InputError, match="one row per class, GPU type and number of GPUs"):
        read_gpu_rates(path)
    path.write_text(RATES.replace("T4,1,1", "T4,1,fast"))
    with pytest.raises(InputError, match=r"rates.csv:3: column 'rate'"):
        read_gpu_rates(path)


def test_compare_on_several_types(gpuplan, tmp_path):
    write_trace(tmp_path / "t.parquet")
    common = ("--cluster", "V100=4x4,T4=4x4", "--gpu-speed", "V100=1,T4=0.4", "--sample", "30")
    args = ("compare", tmp_path / "t.parquet", *common, "--output-format", "json")
    policies = ("--policy", "fft", "--policy", "gavel:objective=max-min", "--policy", "srtf")
    code, out, err = gpuplan(*args, *policies, "--round", "10m")
    assert code == 0, err
    found = json.loads(out)["results"]["policies"]
    assert [one["name"] for one in found] == ["fft", "gavel:objective=max-min", "srtf"]
    wanted = "ftf_below_one_share ftf_mean ftf_max starvation_mean_s switches upward_share"
    for one in found:
        assert set(wanted.split()) <= one.keys()
    code, _, err = gpuplan(*args[:2], "--cluster", "V100=4x4,T4=4x4", "--policy", "fft")
    assert code == 2
    assert "--gpu-speed V100=1,T4=1" in err


GAVEL = [
    ("medium_test", 4, "gavel", {"objective": "max-min"}, "max_min_fairness_perf"),
    ("medium_test", 4, "gavel", {"objective": "finish-time"}, "finish_time_fairness_perf"),
    ("medium_test", 4, "allox", {"rule": "match"}, "allox"),
    ("max_min_fairness", 8, "gavel", {"objective": "max-min"}, "max_min_fairness_perf"),
    ("max_min_fairness", 8, "gavel", {"objective": "finish-time"}, "finish_time_fairness_perf"),
]


@pytest.mark.parametrize(("name", "each", "policy", "own", "expected"), GAVEL)
def test_averages_of_the_published_simulator(shared, tmp_path, name, each, policy, own, expected):
    """Rounds of 360 s and no cost of a move, as it has them."""
    data = shared / "data" / "gavel"
    ingest([data / "physical" / f"{name}.trace"], tmp_path / "t.parquet")
    shape = ClusterShape.parse(f"v100={each},p100={each},k80={each}")
    types = GpuTypeRequest(throughputs=str(data / "throughputs_isolated.csv"))
    rates = rates_of(types, [{"cluster": shape}])
    jobs = read_replay(ReplayRequest(tmp_path / "t.parquet"), rates=rates).jobs
    free = {"round_s": 360.0, "state_gb": 0.0, "restart_s": 0.0, "cross_host": 1.0}
    run = POLICIES[policy].run(jobs, {"cluster": shape, **free, **own}, np.random.default_rng(0))
    table = pl.read_csv(shared / "golden" / "gavel" / "summary.csv")
    golden = table.filter(
        (pl.col("trace") == name)
        & (pl.col("policy") == expected)
        & (pl.col("cluster_v100_p100_k80") == f"{each}_{each}_{each}")
    )["avg_jct_s"].item()
    assert run.results["mean_jct_s"] == pytest.approx(golden, rel=0.025)


def test_a_time_line_shows_each_type_and_nothing_where_no_job_is():
    # Two jobs far apart: nothing is held between them and after the last one.
    jobs = jobs_of([0, 20_000], [1000, 400], [2, 4], [[1.0, 0.5], [1.0, 0.5]])
    run = POLICIES["fft"].run(jobs, {"cluster": SHAPE}, np.random.default_rng(0))
    time = run.timeline()
    held = time["used_V100"] + time["used_T4"]
    assert ((held == 0) == (time["used_gpus"] == 0)).all()
    bars = run.lines().bars
    assert bars.job_id == ("j0", "j1") and bars.kinds == ("V100", "T4")
    spans = zip(bars.row, bars.kind, bars.begin_us / 1e6, bars.end_us / 1e6, strict=True)
    assert [tuple(map(float, one)) for one in spans] == [
        (0, 0, 0, 1000), (1, 0, 20_100, 20_500),
    ]  # fmt: skip


def test_a_picture_of_a_small_run_shows_where_each_job_ran(gpuplan, tmp_path):
    write_trace(tmp_path / "t.parquet")
    words = ("--cluster", "V100=4x4,T4=4x4", "--gpu-speed", "V100=1,T4=0.4", "--policy", "fft")
    for jobs, is_small in ((30, True), (61, False)):
        picture = tmp_path / f"{jobs}.svg"
        more = ("--sample", jobs, "--plot", picture)
        code, _, err = gpuplan("simulate", tmp_path / "t.parquet", *words, *more)
        assert code == 0, err
        text = picture.read_text()
        assert "V100" in text and "T4" in text  # GPUs held by type have a legend
        assert ("Where each of 30 jobs ran" in text) == is_small


def fair_row(label, jct_s, ftf):
    return {"label": label, "mean_jct_s": jct_s, "ftf_mean": ftf, "ftf_below_one_share": 0.5}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("fft", 100, 0.8)], "50.0% of jobs end sooner than on an equal share of the cluster."),
        (
            [("fft", 100, 0.8), ("gavel:objective=sjf", 130, 0.6)],
            "gavel:objective=sjf is the fairest and 30% slower: on average a job takes 40% less "
            "time than on an equal share of the cluster, and 20% less time under fft.",
        ),
        (
            [("fft", 100, 0.82), ("srtf", 104, 0.8), ("pal", 300, 2)],
            "None is faster or fairer than plain srtf by more than 5%: on average a job takes 20% "
            "less time than on an equal share of the cluster.",
        ),
        (
            [("fft", 100, 0.8), ("srtf", 200, 1.5)],
            "fft is also the fairest (within 5%): on average a job takes 20% less time than on an "
            "equal share of the cluster.",
        ),
        (
            [("pal", 100, 1), ("sia", 101, 0.99), ("srtf", 102, 1)],
            "All are about as fast and as fair (within 5%): on average a job takes 1% less time "
            "than on an equal share of the cluster.",
        ),
    ],
)
def test_the_answer_names_what_fairness_costs(rows, expected):
    view = StudyView("Fast.", ())
    view = with_fairness(view, [{**fair_row(*row), "utilization_by_type": {}} for row in rows])
    assert view.headline == f"Fast. {expected}"
