"""``gpuplan profile`` and ``gpuplan share``: from tables and loads to answers, and mistakes."""

import json
import math

import numpy as np
import polars as pl
import pytest
from support_schemas import SAMPLES
from support_traces import write_trace

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.user_tables.sharing_functions import read_functions
from gpuplan.analysis.user_tables.sharing_profiles import read_profile
from gpuplan.planner.sharing.loads import RequestProcess, even_arrivals
from gpuplan.planner.sharing.profile_search import search_service, search_training, traverse
from gpuplan.planner.studies.profile import ProfileRequest, profile

SHARES = range(10, 101, 10)


def write_table(path, base_s=0.004, flat=100, batches=(1, 2, 4, 8)):
    """Write a table by a formula: no more than ``flat`` percent of the SMs are of use."""
    rows = []
    for batch in batches:
        for percent in SHARES:
            time_s = base_s * (1 + batch / 4) * 100 / min(percent, flat)
            rows.append(f"{batch},{percent},{time_s:.9f},{batch / time_s:.9f}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_study_of_profiles_says_what_the_command_does(gpuplan, tmp_path):
    table = write_table(tmp_path / "model.csv", flat=40)
    study = profile(ProfileRequest((table,), slo_s=0.1))
    code, out, _ = gpuplan("profile", table, "--slo", "100ms", "--output-format", "json")
    assert code == 0 and plain(study.results) == json.loads(out)["results"]
    function = study.results.functions[0].function
    (one,) = study.results.functions
    assert (one.request, one.limit, one.batch) == (function.request, function.limit, function.batch)
    with pytest.raises(UsageError, match="--map size: expected one of batch"):
        profile(ProfileRequest((table,), slo_s=0.1, names={"size": "b"}))
    with pytest.raises(UsageError, match="--slo: services need it"):
        profile(ProfileRequest((table,)))


@pytest.fixture
def functions(gpuplan, tmp_path):
    """A service that takes half of a GPU, and a training job on two."""
    table = write_table(tmp_path / "model.csv")
    out = tmp_path / "functions.toml"
    assert gpuplan("profile", table, "--slo", "60ms", "-o", out)[0] == 0
    job = f'[[functions]]\nname="job"\nkind="training"\nprofile="{table}"\n'
    out.write_text(out.read_text() + job + "request=0.3\nlimit=0.6\nworkers=2\n")
    return out


def results(shown):
    return json.loads(shown)["results"]


def test_the_search_stays_within_half_of_the_slo(tmp_path):
    table = read_profile(write_table(tmp_path / "bs_sm_model.csv"))
    assert table.name == "model"
    found = search_service(table, 0.06)
    # Batch 1 takes 50 ms at 10% and 25 ms at 20%, within 30 ms; batch 2 takes 30 ms at 20%; batch 4
    # takes 40 ms there and 26.7 ms at 30%; batch 8 takes 40 ms at 30% and 30 ms at 40%.
    assert [(one.batch, one.sm_percent, one.feasible) for one in found.path] == [
        *((1, 10, False), (1, 20, True), (2, 20, True), (4, 20, False), (4, 30, True)),
        *((8, 30, False), (8, 40, True)),
    ]
    assert (found.batch, found.request, found.limit) == (8, 0.4, 0.8)
    assert found.moves == 6
    best = traverse(table, 0.03)
    assert (best.batch, best.sm_percent) == (8, 40)


def test_a_load_is_served_on_the_least_of_a_gpu(gpuplan, tmp_path):
    table, out = write_table(tmp_path / "model.csv"), tmp_path / "functions.toml"
    # A batch b takes 4 ms (1 + b / 4) / share. Half of 300 ms: at 10%, batch 1 takes 50 ms
    # (20/s), 2 takes 60 ms (33.3/s), 4 takes 80 ms (50/s), 8 takes 120 ms (66.7/s).
    for load, want in ((15, (1, 1, 0.1)), (30, (1, 2, 0.1)), (60, (1, 8, 0.1)), (70, (1, 4, 0.2))):
        code, shown, _ = gpuplan(
            "profile", table, "--slo", "300ms", "--load", load, "-o", out, "--output-format=json"
        )
        (one,) = results(shown)["functions"]
        found = one["for_load"]
        assert code == 0 and (found["instances"], found["batch"], found["request"]) == want
        assert found["throughput"] >= load and found["latency_s"] <= 0.15
        (function,) = read_functions(out)
        assert (function.batch, function.request) == want[1:]
        assert (one["batch"], one["request"]) == (8, 0.1)  # the most throughput per share
    code, shown, _ = gpuplan("profile", table, "--slo", "300ms", "--load", "30")
    assert "model needs 10% of a GPU at batch 2 for 30 requests/s: 33.3 requests/s" in shown
    assert "1 x 10%, batch 2" in shown
    code, shown, _ = gpuplan("profile", table, "--slo", "300ms", "--load", "1900")
    assert "model needs 29 instances, each with 10% of a GPU, at batch 8" in shown
    code, shown, _ = gpuplan("profile", table, "--slo", "300ms")
    assert "for_load" not in shown and "requests/s" not in shown


def test_training_keeps_80_percent_at_its_request(tmp_path):
    table = read_profile(write_table(tmp_path / "t.csv", flat=50))
    assert search_training(table, 0.8).sm_percent == 40
    assert search_training(table, 1.0).sm_percent == 50


def test_profile_writes_what_share_reads(gpuplan, tmp_path):
    table = write_table(tmp_path / "model.csv")
    out = tmp_path / "functions.toml"
    picture = tmp_path / "p.svg"
    code, shown, _ = gpuplan(
        "profile", table, "--slo", "60ms", "-o", out, "--plot", picture, "--output-format", "json"
    )
    (one,) = results(shown)["functions"]
    assert code == 0 and picture.exists()
    assert (one["name"], one["batch"], one["request"], one["limit"]) == ("model", 8, 0.4, 0.8)
    assert (one["evaluations"], one["moves"]) == (7, 6)
    assert one["traversal"] == {"batch": 8, "request": 0.4}
    assert one["te"] == one["te_best"] and not one["suspicious"]
    assert 'profile = "model.csv"' in out.read_text()
    code, shown, _ = gpuplan(
        "share", "--functions", out, "--load", "poisson:50", "--horizon", "20s", "--output-format",
        "json", "--no-frontier",
    )  # fmt: skip
    assert code == 0
    found = results(shown)
    assert [one["policy"] for one in found["policies"]] == ["dilu", "exclusive"]
    assert [one["name"] for one in found["policies"]] == ["dilu", "exclusive"]
    assert [one["cold_start_s"] for one in found["verdicts"]] == [10, 30]


@pytest.mark.parametrize("name", ["\N{ROCKET}", "a\x1bb", "a\x7fb", 'a"b', "a b\u2028"])
def test_names_of_profiles_survive_the_file_of_functions(gpuplan, tmp_path, name):
    out = tmp_path / "functions.toml"
    table = write_table(tmp_path / f"{name}.csv")
    assert gpuplan("profile", table, "--slo", "60ms", "-o", out)[0] == 0
    (function,) = read_functions(out)
    assert (function.name, function.profile) == (name, table)


def test_a_table_with_a_header_and_one_that_ignores_the_share(gpuplan, tmp_path):
    table = tmp_path / "odd.csv"
    rows = [f"{batch},{percent},0.01" for batch in (1, 2) for percent in SHARES]
    table.write_text("\n".join(["bs,sm,seconds", *rows]))
    names = ("--map", "batch=bs", "--map", "sm_percent=sm", "--map", "latency_s=seconds")
    code, shown, said = gpuplan(
        "profile", table, "--slo", "60ms", *names, "--output-format", "json"
    )
    assert code == 0
    assert results(shown)["functions"][0]["suspicious"]
    assert "the share was perhaps not applied" in said


@pytest.mark.parametrize("latency", ["5e-324", "0", "-1", "1e300"])
def test_a_latency_that_nothing_can_have_is_named(gpuplan, tmp_path, latency):
    table = tmp_path / "t.csv"
    table.write_text(f"1,50,{latency},10\n1,100,0.01,100\n")
    code, _, err = gpuplan("profile", table, "--slo", "60ms")
    assert code == 3
    assert f"t.csv:1: column 'latency_s': found '{latency}'; expected a number above 1e-09" in err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("profile", "TABLE", "--slo", "4ms"), 4, "the best latency of batch 1 is 5.0 ms"),
        (("profile", "TABLE"), 2, "--slo"),
        (("profile", "TABLE", "--slo", "1s", "--load", "0"), 2, "expected requests per second"),
        (("profile", "TABLE", "--training", "--load", "9"), 2, "training serves no requests"),
        (("profile", "TABLE", "--slo", "x"), 2, "expected a duration"),
        (("profile", "TABLE", "--slo", "100"), 2, "needs a unit\n  next: --slo 100ms, or"),
        (("profile", "TABLE", "TABLE", "--slo", "1s"), 2, "two tables have this name"),
        (("profile", "BAD", "--slo", "1s"), 3, "column 'sm_percent': found '900'"),
        (("share",), 2, "give INSTANCES to place, or --functions"),
        (("share", "INSTANCES", "--policy", "dulu"), 2, "did you mean dilu"),
        (("share", "INSTANCES", "--cluster", "1x2"), 4, "gang does not fit"),
        (("share", "INSTANCES", "--gamma", "0.5"), 2, "alone has a limit"),
        (("share", "INSTANCES", "--gamma", "2:1:1"), 2, "expected 1.5"),
        (("share", "INSTANCES", "--set", "beta=x"), 2, "expected a number"),
        (("share", "INSTANCES", "--set", "x=1"), 2, "expected one of gamma"),
        (("share", "INSTANCES", "--load", "poisson:1"), 2, "--load: needs --functions"),
        (("share", "FUNCTIONS"), 3, "has no instances"),
        (("share", "--functions", "FUNCTIONS"), 2, "--load: model has none"),
        (("share", "--functions", "FUNCTIONS", "--load", "x=poisson:1"), 2, "no service x"),
        (("share", "LONE_CR"), 3, "lone.csv:3: column 'request': found nothing"),
        (("share", "LONG_CELL"), 3, "long.csv:2: is not CSV"),
        (("share", "--functions", "FUNCTIONS", "--load", "poisson"), 2, "poisson:RATE, as in"),
        *(
            (("share", "--functions", "FUNCTIONS", "--load", load), 2, text)
            for load, text in (
                ("poisson:-1", "a rate of 1e-09 to below"),
                ("poisson:1e12", "below 1,000,000"),
                ("poisson:1e-308", "a rate of 1e-09 to below"),
                ("poisson:nan", "a rate of 1e-09 to below"),
                ("gamma:1:1e6", "expected 0.001 to 100 after the rate, got 1e+06"),
                ("gamma-rate:1:1e-308", "expected 0.001 to 100 after the rate"),
                ("periodic:1:1e-308", "expected 1e-09 to 1,000,000 after the rate"),
                ("bursty:1e-9:inf", "expected 1e-09 to 1,000,000 after the rate"),
            )
        ),
        (
            ("share", "--functions", "FUNCTIONS", "--load", "RATES", "--multiplier", "1e300"),
            2,
            "requests; expected at most 50,000,000",
        ),
        (
            ("share", "--functions", "FUNCTIONS", "--load", "poisson:1", "--horizon", "1e9s"),
            2,
            "is longer than 31,622,400 s (366 days)",
        ),
        (
            ("share", "--functions", "FUNCTIONS", "--load", "poisson:9e5"),
            2,
            "540,000,000 requests; expected at most 50,000,000",
        ),
        (("share", "--functions", "TABLE", "--load", "poisson:1"), 3, "TOML"),
        (
            ("share", "--functions", "FUNCTIONS", "--load", "poisson:1", "--cluster", "1x1"),
            4,
            "job does not fit at 0 s in a cluster of 1 node of 1 GPU (1 GPU)",
        ),
    ],
)
def test_mistakes_are_named(gpuplan, tmp_path, functions, arguments, code, text):
    bad = tmp_path / "bad.csv"
    bad.write_text("1,900,0.1,10\n")
    lone = tmp_path / "lone.csv"
    lone.write_bytes(b"name,request\na,0.3\nb\rc,0.3\n")
    long_cell = tmp_path / "long.csv"
    long_cell.write_text(f"name,request\n{'a' * 200_000},0.3\n")
    rates = tmp_path / "rates.txt"
    rates.write_text("1\n2\n")
    instances = tmp_path / "instances.csv"
    instances.write_text("name,type,gpus,request,limit\na,,1,0.3,0.6\ngang,training,4,0.5,0.9\n")
    known = {
        "TABLE": tmp_path / "model.csv",
        "BAD": bad,
        "INSTANCES": instances,
        "LONE_CR": lone,
        "LONG_CELL": long_cell,
        "RATES": rates,
        "FUNCTIONS": functions,
    }
    found, out, said = gpuplan(*(known.get(word, word) for word in arguments))
    assert found == code, said
    assert text in said and "Traceback" not in said and not out


def test_instances_in_three_forms_are_the_same(gpuplan, tmp_path):
    table = tmp_path / "i.csv"
    table.write_text(
        "name,type,gpus,request,limit,memory_gb,start_s,end_s\n"
        "a,inference,1,0.3,0.6,10,0,60\nb,training,2,0.6,0.8,20,1,\n"
    )
    toml = tmp_path / "i.toml"
    toml.write_text(
        '[[instances]]\nname="a"\nrequest=0.3\nlimit=0.6\nmemory_gb=10\nend_s=60\n'
        '[[instances]]\nname="b"\ntype="training"\ngpus=2\nrequest=0.6\nlimit=0.8\n'
        "memory_gb=20\nstart_s=1\n"
    )
    events = tmp_path / "i.txt"
    lines = []
    for at, action, one in (
        ("00", "start", ("a", "inference", 1, 0.3, 0.6, [10])),
        ("01", "start", ("b", "training", 2, 0.6, 0.8, [20, 20])),
        ("60", "delete", ("a", "inference", 1, 0.3, 0.6, [10])),
    ):
        keys = ("service_name", "type", "gpu_num", "sm_requests", "sm_limits", "memory")
        time = "2026-01-01 00:01:00" if at == "60" else f"2026-01-01 00:00:{at}"
        instance = dict(zip(keys, one, strict=True))
        lines.append(repr({"Time": time, "Action": action, "Instance": instance}))
    events.write_text("\n".join(lines))
    found = []
    for path in (table, toml, events):
        code, shown, said = gpuplan("share", path, "--cluster", "A100=2x4", "--output-format=json")
        assert code == 0, said
        found.append(results(shown))
    assert found[0] == found[1] == found[2]
    first = found[0]["policies"][0]
    assert (first["max_gpus"], found[0]["exclusive_gpus"]) == (2, 3)
    assert first["saved_vs_exclusive_share"] == pytest.approx(1 / 3)


def test_what_is_free_is_a_mean_over_the_time_with_gpus_in_use(gpuplan, tmp_path):
    # One GPU with 0.5 of its SMs and 10 of 40 GB requested for 30 s, and a second, full one for the
    # first 10 s: (10 x (0.5 + 0) / 2 + 20 x 0.5) / 30 of the SMs, (10 x 0.375 + 20 x 0.75) / 30 of
    # the memory. Then nobody for 30 s, and both measures of 0.5 and 0.75 for 30 s more.
    table = tmp_path / "i.csv"
    table.write_text(
        "name,type,gpus,request,limit,memory_gb,start_s,end_s\n"
        "a,inference,1,0.5,0.5,10,0,30\nb,inference,1,1,1,40,0,10\n"
        "c,inference,1,0.5,0.5,10,60,90\n"
    )
    code, shown, said = gpuplan("share", table, "--output-format=json")
    assert code == 0, said
    dilu = results(shown)["policies"][0]
    assert dilu["mean_gpus"] == pytest.approx((10 * 2 + 20 + 30) / 90)
    assert dilu["sm_fragmentation"] == pytest.approx((12.5 + 15) / 60)
    assert dilu["memory_fragmentation"] == pytest.approx((18.75 + 22.5) / 60)


def test_the_command_shows_the_golden_counts(gpuplan, shared):
    names = {"k8s": "exclusive", "infless_l": "infless-l", "infless_r": "infless-r", "dilu": "dilu"}
    golden = (shared / "golden/dilu/summary.jsonl").read_text().splitlines()
    for count in (100, 400):
        words = [word for name in names.values() for word in ("--policy", name)]
        source = shared / f"data/dilu/instances-{count}.txt"
        code, shown, said = gpuplan(
            "share", source, *words, "--set", "tie_break=reference", "--output-format=json"
        )
        assert code == 0, said
        found = {row["policy"]: row for row in results(shown)["policies"]}
        wanted = [row for row in map(json.loads, golden) if row["instances"] == source.name]
        for row in wanted:
            if not row["det"]:
                continue
            ours = found[names[row["scheduler"].removeprefix("scheduler_").removesuffix(".py")]]
            assert ours["max_gpus"] == row["max_active_gpus"]
            assert ours["mean_gpus"] == pytest.approx(row["tw_mean_gpus"], abs=5.1e-4)
            assert ours["sm_fragmentation"] == pytest.approx(row["tw_sm_frag"], abs=5.1e-5)
            assert ours["memory_fragmentation"] == pytest.approx(row["tw_mem_frag"], abs=5.1e-5)


def test_a_log_with_fractions_of_gpus(gpuplan, tmp_path):
    trace = tmp_path / "t.parquet"
    rows = pl.DataFrame(
        {
            "submit_time": [0.0, 1.0, 2.0, 3.0],
            "num_gpus": [0.5, 0.4, 2.0, 0.0],
            "duration_s": [100.0, 100.0, 50.0, 10.0],
        }
    ).with_columns(pl.from_epoch((pl.col("submit_time") * 1e6).cast(pl.Int64), time_unit="us"))
    rows.write_csv(tmp_path / "log.csv")
    maps = [f"{name}={name}" for name in ("submit_time", "num_gpus", "duration_s")]
    words = [word for pair in maps for word in ("--map", pair)]
    assert gpuplan("ingest", tmp_path / "log.csv", "-o", trace, *words)[0] == 0
    code, shown, said = gpuplan("share", trace, "--output-format", "json")
    assert code == 0
    assert results(shown)["policies"][0]["max_gpus"] == 3  # 0.5 + 0.4, and two whole GPUs
    assert results(shown)["exclusive_gpus"] == 4
    assert (
        "request and limit are the share of a GPU" in said
        and "its share of the 40 GB of a GPU" in said
        and "1 job" in said
    )
    assert results(shown)["is_known"]


def test_what_sharing_saves_is_not_known_from_whole_gpus(gpuplan, tmp_path):
    log, times = SAMPLES / "kueue" / "workloads.json", [0.0, 1.0]
    code, shown, said = gpuplan("share", log)
    assert code == 0 and "a GPU that a job holds" not in said, said
    told = " ".join(shown.split())
    assert told.startswith(
        "What sharing saves is not known from this log: its jobs hold whole GPUs"
    )
    assert "saves no GPUs" not in told and "dilu" not in told
    assert not results(gpuplan("share", log, "--output-format", "json")[1])["is_known"]
    trace = write_trace(tmp_path / "t.parquet", times, [9.0, 9.0], [0.5, 1.0],
                        gpu_type=["H100-80GB"] * 2)  # fmt: skip
    code, shown, said = gpuplan("share", trace, "--output-format", "json")
    assert code == 0 and "its share of the 80 GB of a GPU" in said, said
    assert json.loads(shown)["parameters"]["memory_gb"] == 80
    code, shown, _ = gpuplan(
        *("share", trace, "--set", "memory_gb=40", "--output-format", "json"),
    )
    assert json.loads(shown)["parameters"]["memory_gb"] == 40


def test_the_answer_and_the_frontier(gpuplan, functions, tmp_path):
    rates = tmp_path / "rates.txt"
    rates.write_text("\n".join(["20"] * 30 + ["150"] * 30))
    picture = tmp_path / "p.svg"
    common = ("share", "--functions", functions, "--load", rates, "--multiplier", "2")
    code, shown, said = gpuplan(
        *common, "--policy", "dilu", "--policy", "fast-gs", "--policy", "infless", "--plot",
        picture, "--output-format", "json",
    )  # fmt: skip
    assert code == 0, said
    found = results(shown)
    assert picture.exists() and found["requests"] == 2 * (30 * 20 + 30 * 150)
    for policy in found["policies"]:
        (one,) = policy["functions"]
        assert 0 <= one["violation_rate"] <= 1 and one["p50_s"] <= one["p95_s"]
        assert one["cold_starts"] >= 1 and one["instance_s"] <= 60 * one["cold_starts"] + 1e-6
        assert 0.3 <= policy["training_kept_share"] <= 0.6  # from its request to its limit
    names = [point["policy"] for point in found["frontier"]]
    assert names[:4] == ["dilu", "exclusive", "infless-l", "infless-r"]
    assert any(point["efficient"] for point in found["frontier"])
    code, shown, _ = gpuplan(*common, "--no-frontier")
    assert code == 0
    said = " ".join(shown.split())
    assert "GPUs under dilu instead of" in said and "training keeps" in said
    assert "Results by cold start" in shown


def test_a_load_that_every_service_overrides_is_refused(gpuplan, functions, tmp_path):
    own = functions.read_text().replace('name = "model"', 'name = "model"\nload = "poisson:2"')
    functions.write_text(own)
    short = ("share", "--functions", functions, "--horizon", "20s", "--no-frontier")
    assert gpuplan(*short)[0] == gpuplan(*short, "--load", "model=poisson:3")[0] == 0
    for loads in (("--load", "poisson:3"), ("--load", "poisson:3", "--load", "model=poisson:5")):
        code, _, err = gpuplan(*short, *loads)
        assert code == 2, err
        assert "every service has another load" in err and "or --load model=..." in err


def test_a_load_without_a_service_is_refused(gpuplan, functions):
    text = functions.read_text()
    functions.write_text(text[text.index('[[functions]]\nname="job"') :])
    code, _, err = gpuplan("share", "--functions", functions, "--load", "poisson:3")
    assert code == 2 and "no function is a service\n  next: leave --load out" in err


def test_the_same_seed_draws_the_same_requests():
    for name, shape in (("poisson", 1.0), ("gamma", 3.0), ("gamma-rate", 0.5), ("bursty", 4.0)):
        process = RequestProcess(name, 20.0, shape)
        one, two = (process.arrivals(300, np.random.default_rng(1)) for _ in range(2))
        np.testing.assert_array_equal(one, two)
        assert (np.diff(one) >= 0).all() and one[-1] < 300
        factor = 1.5 if name == "bursty" else 1.0  # 10 of 60 seconds four times the rate
        assert one.size == pytest.approx(300 * 20 * factor, rel=0.25)
    gaps = np.diff(RequestProcess("gamma", 50.0, 2.0).arrivals(2000, np.random.default_rng(2)))
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)


def test_rates_spread_evenly_inside_each_second():
    np.testing.assert_allclose(even_arrivals(np.array([2.9, 0, 1.5])), [0, 0.5, 2])
    assert even_arrivals(np.array([2.9, 0, 1.5]), 2).size == math.floor(5.8) + 3


@pytest.mark.compiled
def test_a_scenario_of_shares_needs_no_workload(gpuplan, functions, tmp_path):
    load = tmp_path / "load.txt"
    load.write_text("5\n" * 20)
    scenario = tmp_path / "sharing.toml"
    scenario.write_text(
        '[study.share]\nfunctions = "functions.toml"\nload = "load.txt"\nno_frontier = true\n'
        '[gates]\nfail_if = "share.policies[dilu].max_gpus > 0"'
    )
    out, cache = tmp_path / "out", ("--cache", tmp_path / "cache")
    code, shown, err = gpuplan("run", scenario, "-o", out, *cache)
    assert code == 1 and "gate tripped" in err and "dilu" in shown
    (study,) = json.loads((out / "report.json").read_text())["studies"]
    assert study["arguments"][0].startswith("--functions")
    assert "GPUs shared" in (out / "report.html").read_text()
    assert "from the cache" in gpuplan("run", scenario, *cache)[2]
    load.write_text("6\n" * 20)
    assert "from the cache" not in gpuplan("run", scenario, *cache)[2]
    profile = tmp_path / "model.csv"
    profile.write_text(profile.read_text() + "\n")  # named by the functions alone
    assert "from the cache" not in gpuplan("run", scenario, *cache)[2]


@pytest.mark.compiled
def test_a_scenario_places_the_jobs_of_its_workload(gpuplan, lab, tmp_path):
    scenario = tmp_path / "sharing.toml"
    scenario.write_text(
        f'workload.trace = "{lab}"\nstudy.share = {{ policy = "dilu", cluster = "100x8" }}'
    )
    code, shown, err = gpuplan("run", scenario, "--no-cache", "--full")
    assert code == 0 and "GPUs in use, by placement policy" in shown, err
    scenario.write_text('study.share = { policy = "dilu" }')
    code, _, err = gpuplan("run", scenario, "--no-cache")
    assert code == 2 and "[workload] expected one of" in err


@pytest.mark.compiled
def test_columns_of_instances_may_have_other_names(gpuplan, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("pod,sm,start_s,end_s\na,0.5,0,10\nb,0.25,1,5\n")
    mapped = ("--map=name=pod", "--map=request=sm")
    code, out, err = gpuplan("share", path, *mapped, "--gpus=4", "--output-format=json")
    assert code == 0, err
    found = json.loads(out)
    assert found["results"]["instances"] == 2
    assert found["parameters"]["map"] == {"name": "pod", "request": "sm"}
    assert found["parameters"]["cluster"] == "4"
    code, _, err = gpuplan("share", path, *mapped, "--map=limit=most", "--gpus=4")
    assert code == 3 and "no column most" in err
    code, _, err = gpuplan("share", path, *mapped, "--map=color=sm")
    assert code == 2 and "--map color" in err
    code, _, err = gpuplan("share", path, "--gpus=4", "--cluster=4x1")
    assert code == 2 and "give one of the two" in err


def test_a_file_of_functions_that_is_too_deep_is_refused(tmp_path):
    path = tmp_path / "functions.toml"
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(
        InputError, match=r"functions\.toml: TOML that cannot be used: .* levels deep"
    ):
        read_functions(path)


@pytest.mark.parametrize("key", ["slo_s", "capacity_rps", "memory_gb", "work"])
def test_a_number_of_hundreds_of_digits_is_refused(tmp_path, key):
    path = tmp_path / "functions.toml"
    fields = {"name": '"a"', "profile": '"p"', "request": 0.5, "batch": 1, "slo_s": 1}
    path.write_text("[[functions]]\n" + "\n".join(
        f"{name} = {value}" for name, value in (fields | {key: "9" * 400}).items()))  # fmt: skip
    with pytest.raises(InputError, match=f"function a: {key} is 999"):
        read_functions(path)


def test_fewer_gpus_that_miss_the_slo_are_no_success(gpuplan, functions):
    """At 60 times what one instance takes, nothing keeps up; on whole GPUs more requests do."""
    words = ("share", "--functions", functions, "--policy", "dilu", "--no-frontier")
    words += ("--horizon", "2m", "--load")
    text = " ".join(gpuplan(*words, "poisson:6000")[1].split())
    assert text.startswith("Sharing does not keep the SLO: ")
    assert "of its requests miss the SLO, " in text
    text = " ".join(gpuplan(*words, "poisson:20")[1].split())
    assert "Sharing does not keep" not in text and "0.0% of its requests miss the SLO" in text


@pytest.mark.parametrize(
    ("start", "end", "column"), [("1e400", "", "start_s"), ("0", "1e308", "end_s")]
)
def test_an_instance_of_no_time_is_refused(gpuplan, tmp_path, start, end, column):
    path = tmp_path / "instances.csv"
    path.write_text(f"name,request,start_s,end_s\na,0.5,0,10\nb,0.5,{start},{end}\n")
    code, _, err = gpuplan("share", path, "--price", "9223372036854775808")
    assert code == 3 and f":3: column '{column}'" in " ".join(err.split())


def test_an_instance_that_ends_at_infinity_does_not_end(gpuplan, tmp_path):
    results = set()
    for end in ("", "inf"):
        path = tmp_path / "instances.csv"
        path.write_text(f"name,request,start_s,end_s\na,0.5,0,10\nb,0.5,0,{end}\n")
        code, out, err = gpuplan("share", path, "--output-format", "csv")
        assert code == 0, err
        results.add(out)
    assert len(results) == 1
