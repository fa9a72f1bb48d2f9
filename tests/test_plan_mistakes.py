"""Bad input to ``gpuplan plan``: what was found, what was expected, the next step, and the code."""

import json
from datetime import timedelta

import pytest
from support_plan import BOTH, DAY, HOUR, refusal_of, texts_of
from support_traces import START, write_trace

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """GPUs in use by hour of a day: 3, 2, 2, 0, on 20 days."""
    submit = [DAY * day + s for day in range(20) for s in (0, 0)]
    return write_trace(
        tmp_path_factory.mktemp("days") / "t.parquet",
        submit,
        [3 * HOUR, HOUR] * 20,
        [2.0, 1.0] * 20,
    )


@pytest.fixture
def refused(gpuplan, days):
    """Return what a mistake is answered with, on one line."""

    return lambda code, *words: refusal_of(gpuplan, code, days, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--levers", "spot"), "--levers spot: needs --spot next: --spot as well"),
        (("--policy", "srtf", "--cluster", "8"), "'srtf': expected one of first-fit, fifo, sjf"),
        (("--policy", "sjf"), "--policy sjf: without a cap no job waits for another next: --clus"),
        (("--policy", "fifo", "--cluster", "x8"), "without a cap"),
        (("--hysteresis", "5%"), "there is no plan to stay with next: --keep plan.toml"),
        (("--holdout", "90%"), "expected 0% to 80% of the time next: --holdout 30%"),
        (("--by", "nothing"), "no column 'nothing' next: --by class, group"),
        (("--owned", "128"), "such as A100=32@0.90 (and --gpu A100 where the log names no GPU"),
        (("--owned", "A100=4"), "the log names no GPU types next: --gpu A100 as well"),
        (("--growth", "1e9%"), "--growth '1e9%': expected at most 1,000%"),
        (("--growth", "0%:1001%"), "--growth '1001%': expected at most 1,000%"),
        (("--on-demand", "nan"), "--on-demand must be a finite number, got 'nan'"),
    ],
)
def test_options_are_refused_with_a_next_step(refused, words, says):
    assert says in refused(2, *BOTH, *words)


def test_services_have_no_run_time_to_rank_them_by(refused, tmp_path):
    words = ("--services", tmp_path / "f.toml", "--load", "poisson:3", "--cluster", "8")
    assert "have no run time to rank them by" in refused(2, *BOTH, *words, "--policy", "sjf")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--cluster", "1"), "--cluster: the plan cannot be replayed: a job holds 2 GPUs, but at"),
        (("--cluster", "1"), "next: --cluster 2 or more, or --where"),
        (("--target", "mean_jct <= 1m"), "a mean time of 1 min cannot be met: on the fastest"),
        (("--target", "mean_jct <= 1m"), "it is 2 h, and the jobs of"),
        (("--budget", "$1/month"), "the cheapest plan costs $"),
    ],
)
def test_what_no_plan_meets_exits_with_4(refused, words, says):
    assert says in refused(4, *BOTH, *words)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('slower = "1.1x"', 'slower = "fast"', "options.slower fast: expected how many times"),
        ('policy = "first-fit"', 'policy = "srtf"', "options.policy 'srtf': expected one of"),
        ("holdout = 0.3", "holdout = 3.0", "found 3.0, expected a number"),
        ("jobs = 40", 'jobs = "many"', "plan.jobs: found 'many', expected a whole number"),
    ],
)
def test_a_broken_plan_is_told_with_its_file(gpuplan, refused, days, tmp_path, before, after, says):
    path = tmp_path / "plan.toml"
    code, _, err = gpuplan("plan", days, *BOTH, "-o", path)
    assert code == 0, err
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    message = refused(3, "--keep", path)
    assert "plan.toml:" in message and says in message and "next: write it again" in message


def test_levers_that_no_job_fits_are_named(gpuplan, days):
    spot = ("--spot", "true", "--spot-price", "0.5", "--spot-hazard", "9/1s")
    _, err = texts_of(gpuplan, days, *BOTH, *spot)
    assert "no job is put on spot GPUs: at 3.24e+04 losses" in err


def test_lending_without_a_pool_says_that_there_is_none(gpuplan, days):
    text, _ = texts_of(gpuplan, days, "--on-demand", "1.29", "--lend", "0.5")
    assert "No GPU is owned or committed to, so there is none to lend." in text


@pytest.mark.parametrize(("usd", "is_dear"), [("1.29", True), ("1.28", False)])
def test_spot_that_is_not_cheaper_is_named(gpuplan, days, usd, is_dear):
    code, _, err = gpuplan("plan", days, *BOTH, "--spot", "true", "--spot-price", usd)
    assert code == 0, err
    assert ("--spot-price 1.29 is not below the 1.29 on demand" in err) == is_dear


def test_a_cluster_without_a_type_of_the_log_is_told_as_one_value(gpuplan, tmp_path):
    hours = [HOUR * hour for hour in range(40)]
    trace = write_trace(
        tmp_path / "t.parquet", hours, [HOUR] * 40, [8.0, 4.0] * 20, gpu_type=["A100", "T4"] * 20
    )
    code, _, err = gpuplan("plan", trace, *BOTH, "--cluster", "A100=3x4")
    message = " ".join(err.split())
    assert code == 4 and "(types that --cluster does not name have none)" in message
    assert "next: --cluster A100=3x4,T4=4 or more" in message
    code, _, err = gpuplan("plan", trace, *BOTH, "--cluster", "A100=3x4,T4=4")
    assert code == 0, err


def test_a_short_part_held_out_is_named(gpuplan, days):
    code, _, err = gpuplan("plan", days, *BOTH, "--holdout", "10%")
    assert code == 0 and "warning: the plan was tried on the last 1.9 days" in err
    code, _, err = gpuplan("plan", days, *BOTH)
    assert code == 0 and "held out" not in err


def test_a_job_that_runs_on_alone_is_named(gpuplan, tmp_path):
    submit = [DAY * day for day in range(20)]
    path = write_trace(tmp_path / "t.parquet", submit, [*[DAY] * 19, 80 * DAY])
    code, out, err = gpuplan("plan", path, *BOTH, "--output-format", "json")
    assert code == 0 and json.loads(out)["results"]["holdout"]["to_s"] == 19 * DAY
    assert "last job ends 80 days after the last submission" in err


def test_the_commitment_that_was_tried_is_named_where_it_is_another(gpuplan, days, tmp_path):
    submit = [DAY * day for day in range(20) for _ in range(4 if day < 12 else 1)]
    path = write_trace(tmp_path / "t.parquet", submit, [DAY] * len(submit))
    text, _ = texts_of(gpuplan, path, *BOTH)
    assert "A plan of the first 70% (4 GPUs committed, not 1) cost" in text
    assert "a plan of the first 70% cost" in texts_of(gpuplan, days, *BOTH)[0]


def test_the_program_is_for_those_who_ask_and_peaks_are_within_the_cap(gpuplan, days):
    code, out, err = gpuplan("plan", days, *BOTH, "--cluster", "2")
    assert code == 0 and "program" not in out + err
    code, out, err = gpuplan("plan", days, *BOTH, "--cluster", "2", "--full")
    assert code == 0 and "The program: jobs start at once" in out and "+0.00%" in out
    code, out, _ = gpuplan("plan", days, *BOTH, "--cluster", "2", "--output-format", "json")
    results = json.loads(out)["results"]
    assert sum(row["peak_gpus"] for row in results["markets"]) <= 2
    assert max(cap["gpus"] for cap in results["caps"]) == 2


def test_the_commitment_of_jobs_as_recorded_is_that_of_all_types(gpuplan, tmp_path):
    submit = [DAY * day for day in range(20) for _ in range(3)]
    types, gpus = ["A100", "A100", "T4"] * 20, [1.0, 2.0, 4.0] * 20
    path = write_trace(tmp_path / "t.parquet", submit, [DAY] * 60, gpus, gpu_type=types)
    spot = ("--spot", "gpu_type = 'T4'", "--spot-price", "0.2", "--owned", "A100=1")
    text, _ = texts_of(gpuplan, path, *BOTH, *spot)
    assert text.startswith("Commit to 2 A100 (6 of all types with jobs as recorded) beside the 1 o")


def test_policies_of_a_cap_change_who_waits(gpuplan, tmp_path):
    """By hand, on 2 GPUs rented at once: a gang of 2 waits for a job of 1; a short one comes."""
    submit = [DAY * day + s for day in range(20) for s in (0, 1, 2)]
    path = write_trace(
        tmp_path / "t.parquet", submit, [100.0, 50.0, 10.0] * 20, [1.0, 2.0, 1.0] * 20
    )
    words = ("--on-demand", "1.29", "--cluster", "2", "--provision-delay", "0s", "--output-format")
    waits = {}
    for policy in ("first-fit", "fifo", "sjf"):
        code, out, err = gpuplan("plan", path, *words, "json", "--policy", policy)
        assert code == 0, err
        waits[policy] = json.loads(out)["results"]["replay"]["mean_wait_s"]
    # The gang starts at 100; the short job at 2, or after the gang at 150.
    assert waits == pytest.approx({"first-fit": 99 / 3, "fifo": (99 + 148) / 3, "sjf": 99 / 3})


def test_an_export_in_a_document_is_refused(gpuplan, days, tmp_path):
    words = ("report", days, "--study", "plan", "--set", "plan.export=csv", "-o", tmp_path / "r")
    code, _, err = gpuplan(*words)
    assert code == 2 and "no option 'export' here: where a result goes is for the document" in err


def test_a_bound_below_todays_times_names_the_least_that_can_be_had(gpuplan, days):
    def refused(code, *words):
        return refusal_of(gpuplan, code, days, *BOTH, *words)

    err = refused(4, "--slower", "0.9x")  # no route is faster than as recorded
    assert "the jobs of all, 1 GPU take at least 1 times as long as recorded" in err
    assert "next: --slower 1x, or a --speedup with wider widths" in err
    # the short jobs on 8 GPUs run 8 ** 0.8 times as fast, after 60 s to change widths
    wider = ("--speedup", "power:0.8")
    least = 8**-0.8 + 60 / HOUR
    err = refused(4, "--slower", "0.19x", *wider)
    assert f"at least {least:.3g} times" in err
    (following,) = [word for word in err.split() if word.startswith("0.") and word.endswith("x,")]
    assert least <= float(following[:-2]) < least + 0.01
    assert gpuplan("plan", days, *BOTH, "--slower", following[:-1], *wider)[0] == 0
    for text in ("0x", "-1x", "infx"):
        assert "above 0, such as 1.25x" in refused(2, f"--slower={text}")


def test_a_period_chooses_whole_jobs_by_their_submission(gpuplan, tmp_path):
    """A job of three days at the begin of each week: one runs into the period, one out of it."""
    submit = [7 * DAY * week for week in range(4)]
    path = write_trace(tmp_path / "t.parquet", submit, [3 * DAY] * 4)
    period = [(START + timedelta(days=days)).isoformat() for days in (1, 15)]
    words = ("--from", period[0], "--to", period[1], "--output-format", "json")
    code, out, err = gpuplan("plan", path, *BOTH, *words)
    assert code == 0, err
    results = json.loads(out)["results"]
    assert results["jobs"] == 2  # of days 7 and 14, each with all of its run
    assert results["today"]["mean_time_s"] == 3 * DAY
    assert results["today"]["mean_gpus"] == pytest.approx(6 / 10)  # from day 7 to day 17
    code, out, _ = gpuplan("plan", "--help-all")
    text = " ".join(out.split())
    assert "--from TIME Use only jobs submitted at this time (UTC) or later, with all of" in text
    assert "runs are cut" not in text
