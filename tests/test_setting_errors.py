"""Errors of settings with which no run can be made: the option typed, and what to do next."""

import pickle

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.planner.policies import allpass
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.runs.settings import Setting, SettingError, check_values, check_widest
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.time import TimeOverflow
from gpuplan.simkit.workload import Workload

WIDEST = "the widest job takes 4 GPUs at once and would never start"
NARROWER = "allow at least 4, or leave wide jobs out with --where 'num_gpus <= {}'"
ASCEND = "the cheapest, median and most expensive offer must ascend"
OFFERS = f"{ASCEND}, found 2, 1.08 and 1.66 USD per GPU-hour"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    return write_trace(path, [0, 1, 2], [900.0, 60.0, 30.0], [4.0, 1.0, 0.5])


def error_of(gpuplan, trace, command, arguments):
    name, *arguments = command, *arguments.split()
    code, out, err = gpuplan(name, trace, *arguments, "-q")
    assert (code, out) == (2, "")
    problem, _, hint = err.strip().removeprefix("error: ").partition("\n  next: ")
    return problem, hint


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        ("--policy fifo --gpus 3", f"--gpus 3: {WIDEST}", NARROWER.format(3)),
        ("--policy fifo --set gpus=3", f"--set gpus=3: {WIDEST}", NARROWER.format(3)),
        ("--policy hpa --gpus 3", f"--gpus 3: {WIDEST}", NARROWER.format(3)),
        (
            "--set serverless_limit=2",
            "--set serverless_limit=2: the widest job takes 4 GPUs at once and starts in the "
            "serverless tier",
            NARROWER.format(2),
        ),
        (
            "--policy 2d-las --set limits_gpu_s=100,50",
            "--set limits_gpu_s=100,50: limits_gpu_s must be above 0 and ascending, got 100/50",
            "set limits_gpu_s=50/100",
        ),
        (
            "--policy fifo --cluster 1x3",
            f"--cluster 1x3: {WIDEST}",
            "allow at least 6, or leave wide jobs out with --where 'num_gpus <= 3'",
        ),
        (
            "--policy las --set restore_s=1 --set reference=true",
            "--set restore_s=1 and --set reference=true: the published simulator is run with "
            "restore_s=0",
            "leave out restore_s, or reference",
        ),
        (
            "--policy fifo --set preemptive=yes --set reference=true",
            "--set preemptive=yes and --set reference=true: the published simulator is run with "
            "preemptive=false",
            "leave out preemptive, or reference",
        ),
        ("--policy las --set starvation=0", "--set starvation=0: starvation must be above 0", ""),
        (
            "--set marketplace_min_usd_per_gpu_h=2",
            f"--set marketplace_min_usd_per_gpu_h=2: {OFFERS}",
            "set marketplace_median_usd_per_gpu_h and marketplace_max_usd_per_gpu_h too",
        ),
        (
            "--set threshold_s=2h",
            "--set threshold_s=2h: the adaptive threshold begins at threshold_s=7200, beyond "
            "max_threshold_s=3600",
            "set max_threshold_s=7200 too, or controller=fixed",
        ),
        (
            "--set threshold_s=none",
            "--set threshold_s=none: the adaptive threshold begins at threshold_s=inf, beyond "
            "max_threshold_s=3600",
            "set controller=fixed",
        ),
        (
            "--set min_threshold_s=10m",
            "--set min_threshold_s=10m: the adaptive threshold begins at threshold_s=300, beyond "
            "min_threshold_s=600",
            "set threshold_s=600 too",
        ),
        (
            "--policy hpa --set min_workers=100 --set capacity=10",
            "--set min_workers=100 and --set capacity=10: 100 workers are always kept, and at "
            "most 10 may be",
            "set min_workers=10 or less, or a larger capacity",
        ),
        (
            "--set tick_s=3 --set tick_s=3",
            "--set tick_s=3 and --set tick_s=3: give one of the two",
            "",
        ),
        (
            "--policy fifo:gpus=32,skipping=true",
            "--policy 'fifo:gpus=32,skipping=true': for one policy, settings go in --set",
            "--policy fifo --set gpus=32 --set skipping=true",
        ),
        ("--policy fifo --set region=x", "--set region=x: needs --prices FILE or builtin", ""),
    ],
)
def test_of_a_replay(gpuplan, trace, arguments, problem, hint):
    found = error_of(gpuplan, trace, "simulate", arguments)
    assert found[0].startswith(problem) and found[1] == hint


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--policy fifo:gpus", "--policy fifo:gpus: 'gpus': expected key=value, for example"),
        ("--policy fifo:gpus=x", "--policy fifo:gpus=x: gpus 'x': expected a whole number"),
        (
            "--policy fifo:gpus=-1",
            "--policy fifo:gpus=-1: gpus '-1': expected a whole number, at least 1",
        ),
        ("--policy fifo:foo=2", "--policy fifo:foo=2: 'foo=2': no setting 'foo'"),
        ("--policy fixed:gpus=60", "{0}: 'gpus=60': no setting 'gpus' (did you mean capacity?)"),
        (
            "--policy fifo:capacity=60",
            "{0}: 'capacity=60': no setting 'capacity' (did you mean gpus?)",
        ),
        (
            "--policy allpass --set gpus=60",
            "--set 'gpus=60': none of allpass has a setting 'gpus' (did you mean capacity?)",
        ),
        (
            "--policy 2d-las:limits_gpu_s=100,200",
            "--policy 2d-las:limits_gpu_s=100,200: '200': expected key=value, and / between the "
            "parts of a list: limits_gpu_s=100/200",
        ),
        ("--policy fifo --set fifo.gpus=x", "--set fifo.gpus=x: gpus 'x': expected a whole"),
        ("--policy fifo --set capacity=x", "--set capacity=x: gpus 'x': expected a whole number"),
        ("--policy hpa:capacity=2 --policy allpass", f"--policy hpa:capacity=2: {WIDEST}"),
        (
            "--policy fifo:gpus=2,skipping=true --policy allpass",
            f"--policy fifo:gpus=2,skipping=true (gpus): {WIDEST}",
        ),
        ("--policy allpass --policy hpa --set capacity=2", f"--set capacity=2 (for hpa): {WIDEST}"),
        ("--policy fifo --policy allpass --gpus 2", f"--gpus 2 (for fifo): {WIDEST}"),
        ("--policy fifo --gpus 2", f"--gpus 2: {WIDEST}"),
        ("--policy fifo --policy allpass --set fifo.gpus=2", f"--set fifo.gpus=2: {WIDEST}"),
        (
            "--policy hpa:target_utilization=1.2 --policy fifo --engine processes --parallel 2",
            "--policy hpa:target_utilization=1.2: target_utilization must be above 0",
        ),
        (
            "--policy allpass --policy hpa:marketplace_min_usd_per_gpu_h=2",
            f"--policy hpa:marketplace_min_usd_per_gpu_h=2: {OFFERS}",
        ),
        ("--policy allpass --policy hpa:gpu=H100", "--policy hpa:gpu=H100: needs --prices"),
        (
            "--prices builtin --policy allpass --policy hpa:provider=none-such",
            "--policy hpa:provider=none-such: found none-such, expected one of ",
        ),
        (
            "--prices builtin --policy allpass:region=EU --policy hpa",
            "--policy allpass:region=EU: the built-in prices have no regions",
        ),
        (
            "--policy fifo:gpus=32,gpus=64",
            "--policy fifo:gpus=32,gpus=64: gpus=32 and gpus=64: give one of the two",
        ),
        (
            "--set tick_s=3 --set tick_s=4",
            "--set tick_s=3 and --set tick_s=4: give one of the two",
        ),
        (
            "--policy hpa --set hpa.tick_s=3 --set hpa.tick_s=4",
            "--set hpa.tick_s=3 and --set hpa.tick_s=4: give one of the two",
        ),
        (
            "--policy serverless-only --gpus 8",
            "--gpus 8: serverless-only has no cluster and rents no workers",
        ),
    ],
)
def test_of_rows(gpuplan, trace, arguments, problem):
    found, _ = error_of(gpuplan, trace, "compare", arguments)
    assert found.startswith(problem.format(arguments))


def test_a_row_is_the_same_with_a_space_behind(gpuplan, trace):
    code, _, err = gpuplan("compare", trace, "--policy", "fifo", "--policy", "fifo ")
    assert code == 2 and "--policy fifo: given twice" in err


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        ("--against fifo:gpus=2", f"--against fifo:gpus=2: {WIDEST}", NARROWER.format(2)),
        (
            "--against fifo --set gpus=2",
            "--set 'gpus=2': no setting 'gpus'",
            "--capacity 2 for the most workers rented, or --against NAME --cluster 2 for a cluster",
        ),
        ("--against fifo:foo=2", "--against fifo:foo=2: 'foo=2': no setting 'foo'", None),
        (
            "--set threshold_s=2h",
            "--set threshold_s=2h: the adaptive threshold begins there, beyond its limits, 0 to "
            "3600 s",
            "--threshold 7200 replays it as a fixed one",
        ),
        (
            "--set threshold_s=5m --policy fixed",
            "--set threshold_s=5m: the adaptive threshold begins there, and --policy fixed "
            "replays none",
            "--threshold 300 replays it as a fixed one",
        ),
        (
            "--set capacity=5 --capacity 10",
            "--capacity 10 and --set capacity=5: give one of the two",
            "",
        ),
        ("--mark 5m --mark 7m", "--mark is given 2 times; give it once", None),
        (
            "--against fifo --against hpa --against allpass",
            "--against is given 3 times; give it once",
            None,
        ),
        (
            "--against fifo:gpus=32,gpus=64",
            "--against fifo:gpus=32,gpus=64: gpus=32 and gpus=64: give one of the two",
            "",
        ),
        ("--set tick_s=3 --set tick_s=4", "--set tick_s=3 and --set tick_s=4: give one of", ""),
        (
            "--set serverless_limit=2",
            "--set serverless_limit=2: the widest job takes 4 GPUs at once and starts in the "
            "serverless tier",
            NARROWER.format(2),
        ),
    ],
)
def test_of_a_sweep(gpuplan, trace, arguments, problem, hint):
    found = error_of(gpuplan, trace, "sweep", f"--threshold 60 {arguments}")
    assert found[0].startswith(problem) and hint in (None, found[1])


@pytest.mark.parametrize(
    ("cause", "scaling", "advice"),
    [
        (ValueError, "literal", "set scaling=bounded, or a lower capacity"),
        (ValueError, "bounded", "set a lower capacity"),
        (ValueError, "utilization", "set a higher target_utilization, a lower min_workers"),
        (TimeOverflow, "bounded", "leave the longest and the widest jobs out with --where"),
        (TimeOverflow, "literal", "leave the longest and the widest jobs out with --where"),
    ],
)
def test_what_to_do_about_a_replay_without_measure(monkeypatch, cause, scaling, advice):
    def fail(*_):
        raise cause("too much")

    monkeypatch.setattr(allpass, "run_allpass", fail)
    jobs = TraceJobs(Workload.from_seconds([0], [1], [1], [1]), pl.Series(["a"]), ())
    with pytest.raises(UsageError, match=rf"made: too much\n  next: {advice}"):
        allpass.replay(jobs, Allpass(scaling=scaling), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"target_utilization": 1e-6}, "target_utilization"),
        ({"target_utilization": 1e-6, "min_workers": 9}, "target_utilization and min_workers"),
    ],
)
def test_the_settings_are_named_that_ask_for_too_many_workers(monkeypatch, given, named):
    def fail(*_):
        raise ValueError("too much")

    monkeypatch.setattr(allpass, "run_allpass", fail)
    jobs = TraceJobs(Workload.from_seconds([0], [1], [1], [1]), pl.Series(["a"]), ())
    with pytest.raises(SettingError, match=f"^--set {named}: this replay cannot be made: too much"):
        POLICIES["hpa"].run(jobs, given, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("allpass", "checkpoint_s"),
        ("allpass", "serverless_startup_s"),
        ("allpass", "conventional_startup_sd_s"),
        ("hpa", "tick_s"),
        ("hpa", "marketplace_startup_s"),
        ("srtf", "checkpoint_s"),
        ("srtf", "restore_s"),
    ],
)
def test_the_setting_is_named_that_makes_a_replay_too_long(policy, name):
    zeros, ones = np.zeros(400), np.ones(400)
    work = Workload.from_seconds(zeros, 60 * ones, ones, 900 * ones)
    jobs = TraceJobs(work, pl.Series(["a"] * 400), ())
    with pytest.raises(SettingError, match="more than 36,000 years") as error:
        POLICIES[policy].run(jobs, {name: CENTURY_S}, np.random.default_rng(0))
    assert error.value.names == (name,) and error.value.hint == f"set {name} lower"


@pytest.mark.parametrize("policy", ["allpass", "srtf"])
def test_jobs_are_told_of_where_they_make_a_replay_too_long_or_too_wide(policy):
    many = np.ones(400)
    for service_s, gpus in ((CENTURY_S, 1), (60.0, 1e7)):
        work = Workload.from_seconds(0 * many, service_s * many, gpus * many, many)
        jobs = TraceJobs(work, pl.Series(["a"] * 400), ())
        if policy == "allpass" and gpus > 1:
            continue  # it fits
        with pytest.raises(UsageError, match="next: leave the longest and the widest jobs out"):
            POLICIES[policy].run(jobs, {}, np.random.default_rng(0))


def test_how_an_error_tells_who_is_to_blame():
    error = SettingError(["gpus", "capacity"], "both are wrong", "choose")
    assert str(error) == "--set gpus and capacity: both are wrong\n  next: choose"
    typed = error.given_as({"gpus": "--gpus 3", "levels": "--set levels=2"}, "fifo")
    assert str(typed) == "--gpus 3 (for fifo): both are wrong\n  next: choose"
    assert str(typed.given_as({"capacity": "--set capacity=1"}, "sjf")) == str(typed)
    assert str(pickle.loads(pickle.dumps(typed))) == str(typed)
    same = error.given_as(dict.fromkeys(error.names, "--policy fifo:gpus=3"), "fifo:gpus=3")
    assert str(same) == "--policy fifo:gpus=3: both are wrong\n  next: choose"


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        (
            Setting("count", "", at_least=1, at_most=9),
            0,
            "x must be at least 1 and at most 9, got 0",
        ),
        (
            Setting("count", "", at_least=1, at_most=9),
            10,
            "x must be at least 1 and at most 9, got 10",
        ),
        (Setting("number", "", above=0.0), 0.0, "x must be above 0, got 0"),
        (Setting("number", ""), float("inf"), "x must be at least 0, got inf"),
        (Setting("number", ""), float("nan"), "x must be at least 0, got nan"),
        (
            Setting("duration", "", at_least=60, multiple_of=60, at_most=600),
            90.0,
            "x must be a multiple of 60, at least 60 and at most 600, got 90",
        ),
        (
            Setting("number", "", at_least=-float("inf")),
            float("nan"),
            "x must be a number, got nan",
        ),
        (Setting("number", "", above=-5.0), -5.0, "x must be above -5, got -5"),
        (Setting("choice", "", ("a", "b")), "c", "x must be a or b, got 'c'"),
        (Setting("numbers", "", above=0.0), (2.0, 2.0), "x must be above 0 and ascending, got 2/2"),
        (Setting("text", "", looked_up_in="--prices"), "A100", "needs --prices"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(setting, value, problem):
    with pytest.raises(SettingError) as error:
        check_values({"x": setting}, {"y": 1, "x": value})
    assert (error.value.names, error.value.problem) == (("x",), problem)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (Setting("count", "", at_least=1, at_most=9), 9),
        (Setting("duration", "", unlimited=True), float("inf")),
        (Setting("number", "", at_least=-float("inf"), at_most=0), -5.0),
        (Setting("number", "", above=-5.0), -4.0),
        (Setting("numbers", "", above=0.0), (1.0, 2.0)),
        (Setting("flag", ""), True),
        (Setting("text", "", looked_up_in="--prices"), None),
    ],
)
def test_a_value_within_its_range_is_taken(setting, value):
    check_values({"x": setting}, {"x": value})


@pytest.mark.parametrize("name", POLICIES)
def test_every_default_is_within_its_range(name):
    for key, setting in POLICIES[name].settings.items():
        assert setting.error(key, setting.default) is None


def test_a_job_wider_than_what_is_allowed_is_refused():
    with pytest.raises(SettingError, match=r"next: allow at least 4$"):
        check_widest(4, 0, "capacity", "would never start")
    check_widest(4, 4, "capacity", "would never start")
    check_widest(4, None, "capacity", "would never start")
