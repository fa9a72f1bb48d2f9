"""From a trace to job classes: rates, work, candidate widths, what is left out."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.options.pareto_parsers import parse_weights, parse_widths
from gpuplan.planner.elastic.candidates import candidate_widths
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import (
    COLUMNS,
    workload_of,
)
from gpuplan.planner.frontier.study import study_frontier
from gpuplan.planner.speedup.registry import load_speedup

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def trace(tmp_path):
    """Make a trace of (hours after the start, seconds, GPUs, class, state) and read it."""

    def make(*jobs):
        rows = [
            {
                "submit_time": START + timedelta(hours=hours),
                "duration_s": seconds,
                "num_gpus": float(gpus),
                "job_class": job_class,
                "state": state,
            }
            for hours, seconds, gpus, job_class, state in jobs
        ]
        path = tmp_path / "trace.parquet"
        frame = pl.DataFrame(
            rows, schema_overrides={"duration_s": pl.Float64, "job_class": pl.String}
        )
        frame.write_parquet(path)
        return read_trace(path, columns=COLUMNS)

    return make


def test_rates_and_work_by_hand(trace):
    jobs = trace(
        (0, 3600, 4, "a", "completed"),
        (1, 7200, 1, "a", "completed"),
        (2, 1800, 0.5, "b", "completed"),
    )
    workload = workload_of(jobs, load_speedup("power:0.5"))
    # Three jobs in 2 h leave two gaps: the horizon is 2 x 3/2 = 3 h.
    assert workload.horizon_h == 3
    a, b = workload.classes
    assert (a.name, a.jobs, b.name, b.jobs) == ("a", 2, "b", 1)
    assert a.rate_per_h == pytest.approx(2 / 3)
    assert a.work_h == pytest.approx([(1 * 2 + 2 * 1) / 2])  # d s(g) with s(4) = 2
    assert b.work_h == pytest.approx([0.25])  # half a GPU does half the work
    assert a.widths.tolist() == list(range(1, 65))
    assert a.rescale_h == 60 / 3600  # nobody measured it
    assert (workload.rescale_origin, workload.notes) == ("default", ())


def test_what_is_left_out_is_told(trace):
    jobs = trace(
        (0, 3600, 1, "a", "completed"),
        (1, 3600, 0, "a", "completed"),
        (2, None, 1, "a", "not_started"),
        (3, None, 1, "a", "failed"),
        (4, 3600, 1, "a", "running"),
    )
    workload = workload_of(jobs, load_speedup("power:0.5"))
    assert workload.jobs == 2
    assert workload.horizon_h == 5
    (a,) = workload.classes  # what is left out arrives neither
    assert (a.jobs, a.rate_per_h, a.load_gpus) == (2, 2 / 5, 2 / 5)
    notes = "\n".join(workload.notes)
    assert "1 job is left out, without a GPU" in notes
    assert "1 job is left out, never started" in notes
    assert "1 job is left out, without a duration" in notes
    assert "1 job is still running" in notes


def test_classes_of_a_profile_take_its_sizes(trace):
    jobs = trace((0, None, 4, "bert", "unknown"), (48, None, 8, "cifar10", "unknown"))
    model = load_speedup("profile:t4")
    workload = workload_of(jobs, model, ClassOptions(horizon_s=48 * 3600))
    bert, cifar = workload.classes
    assert bert.work_h == pytest.approx([4.51119])
    assert bert.rescale_h == pytest.approx(120 / 3600)
    assert cifar.rescale_h == pytest.approx(50 / 3600)
    assert bert.widths.tolist() == list(range(1, 49))
    assert workload.rescale_origin == "profile"
    scaled = workload_of(jobs, model, ClassOptions(rescale_s=0, scale_work=2, max_width=9))
    assert scaled.classes[0].work_h == pytest.approx([9.02238])
    assert scaled.classes[0].rescale_h == 0
    assert scaled.classes[0].widths.tolist() == list(range(1, 10))
    assert scaled.rescale_origin == "option"


def test_durations_win_over_the_sizes_of_a_profile(trace):
    jobs = trace((0, 3600, 1, "bert", "completed"), (1, 7200, 4, "bert", "completed"))
    (bert,) = workload_of(jobs, load_speedup("profile:t4")).classes
    assert bert.work_h == pytest.approx([(1 + 2 * 4.088701954) / 2])


def test_classes_by_other_columns(trace):
    jobs = trace((0, 60, 1, None, "completed"), (1, 60, 8, None, "completed"))
    law = load_speedup("power:0.5")
    assert [c.name for c in workload_of(jobs, law).classes] == ["all"]
    assert {c.name for c in workload_of(jobs, law, ClassOptions(class_by="num_gpus")).classes} == {
        "1",
        "8",
    }
    mixed = trace((0, 60, 1, None, "completed"), (1, 60, 8, "a", "completed"))
    assert {c.name for c in workload_of(mixed, law).classes} == {"(none)", "a"}


def test_epochs_of_a_table_share_the_work(trace, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "job_class,epoch,num_gpus,throughput,work_share\n"
        "a,0,1,10,.25\na,0,2,12,.25\na,1,1,10,.75\na,1,4,40,.75\n"
    )
    jobs = trace((0, 3600, 1, "a", "completed"), (1, 3600, 64, "a", "completed"))
    workload = workload_of(jobs, load_speedup(str(path)))
    (a,) = workload.classes
    assert a.widths.tolist() == [1, 2, 3, 4]  # up to the widest of any epoch
    np.testing.assert_allclose(a.speedup, [[1, 1.2, 1.2, 1.2], [1, 2, 3, 4]])
    assert a.work_h[1] == pytest.approx(3 * a.work_h[0])
    assert "1 jobs ran on more GPUs than" in workload.notes[-1]


def test_widths_asked_for(trace):
    jobs = trace((0, 60, 1, "a", "completed"), (1, 60, 8, "a", "completed"))
    choices = ClassOptions(widths=parse_widths("8,1,2,4,16"), max_width=8)
    (a,) = workload_of(jobs, load_speedup("power:0.5"), choices).classes
    assert a.widths.tolist() == [1, 2, 4, 8]
    with pytest.raises(UsageError, match="none is left"):
        workload_of(jobs, load_speedup("power:0.5"), ClassOptions(widths=(8,), max_width=4))
    with pytest.raises(UsageError, match="whole GPUs"):
        parse_widths("1,two")


def test_weights_by_class(trace):
    jobs = trace((0, 60, 1, "a", "completed"), (1, 60, 8, "b=c", "completed"))
    choices = ClassOptions(weights=parse_weights(["b=c=2.5"]))
    law = load_speedup("power:0.5")
    assert {c.name: c.weight for c in workload_of(jobs, law, choices).classes} == {
        "a": 1,
        "b=c": 2.5,
    }
    with pytest.raises(UsageError, match=r"'d': no job_class of that name(.|\n)*one of a, b=c"):
        workload_of(jobs, law, ClassOptions(weights={"d": 1.0}))
    for text in ("a", "2", "a=", "a=much"):
        with pytest.raises(UsageError, match="expected CLASS=W"):
            parse_weights([text])


def test_progress_runs_once_over_all_frontiers_of_a_range(trace):
    jobs = trace((0, 60, 1, "a", "completed"), (1, 60, 1, "b", "completed"))
    shares = []
    free = ClassOptions(rescale_s=0)
    study = study_frontier(jobs, load_speedup("power:0.5..0.7"), free, progress=shares.append)
    assert shares == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    jct_s = [f.mean_jct_s[-1] for f in (study.ends[0], study.frontier, study.ends[1])]
    assert jct_s == pytest.approx([60 / 64**alpha for alpha in (0.5, 0.6, 0.7)])


def test_more_widths_than_can_be_tried_are_refused(trace, tmp_path):
    jobs = trace((0, 60, 1, "a", "completed"), (1, 60, 8, "a", "completed"))
    path = tmp_path / "t.csv"
    path.write_text("job_class,num_gpus,throughput\na,1,1\na,1000000,5\n")
    for speedup, widest in (("power:0.5", 10**9), (str(path), None)):
        model = load_speedup(speedup)
        with pytest.raises(UsageError, match="--max-width 10000 at most, or --widths"):
            workload_of(jobs, model, ClassOptions(max_width=widest))
        (a,) = workload_of(jobs, model, ClassOptions(widths=(1, 1000000))).classes
        assert a.widths.tolist() == [1, 1000000]
    (a,) = workload_of(jobs, load_speedup(str(path)), ClassOptions(max_width=8)).classes
    assert a.widths.tolist() == list(range(1, 9))


def test_errors_name_the_next_step(trace):
    law, t4 = load_speedup("power:0.5"), load_speedup("profile:t4")
    without = trace((0, None, 4, "bert", "unknown"), (1, None, 4, "bert", "unknown"))
    with pytest.raises(InputError, match=r"'bert' have no duration(.|\n)*--speedup profile:t4"):
        workload_of(without, law)
    unknown = trace((0, 60, 4, "llama", "completed"), (1, 60, 4, "bert", "completed"))
    with pytest.raises(InputError, match=r"has no job_class 'llama'; it has bert, cifar10"):
        workload_of(unknown, t4)
    at_once = trace((0, 60, 4, "a", "completed"), (0, 60, 4, "a", "completed"))
    with pytest.raises(UsageError, match="--horizon 48h"):
        workload_of(at_once, law)
    assert workload_of(at_once, law, ClassOptions(horizon_s=3600)).classes[0].rate_per_h == 2
    idle = trace((0, 60, 0, "a", "completed"), (1, 60, 0, "a", "completed"))
    with pytest.raises(InputError, match="no jobs with GPUs and a duration"):
        workload_of(idle, law)
    zero = trace((0, 0, 1, "a", "completed"), (1, 0, 1, "a", "completed"))
    with pytest.raises(InputError, match="no jobs with GPUs and a duration"):
        workload_of(zero, law)


def test_a_horizon_shorter_than_the_trace_is_told(trace):
    jobs = trace((0, 60, 1, "a", "completed"), (10, 60, 1, "a", "completed"))
    workload = workload_of(jobs, load_speedup("power:0.5"), ClassOptions(horizon_s=3600))
    assert "shorter than the 10 h" in workload.notes[0]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"class_by": "colour"}, "--class-by"),
        ({"horizon_s": 0.0}, "--horizon"),
        ({"rescale_s": -1.0}, "--rescale"),
        ({"max_width": 0}, "--max-width"),
        ({"widths": (0, 1)}, "--widths"),
        ({"weights": {"a": 0.0}}, "--weight a=0"),
        ({"weights": {"a": float("nan")}}, "--weight a=nan"),
    ],
)
def test_choices_out_of_range(choice, said):
    with pytest.raises(UsageError, match=said):
        ClassOptions(**choice)


def test_each_job_keeps_its_own_work(trace):
    jobs = trace(
        (0, 3600, 4, "a", "completed"),
        (1, None, 1, "a", "completed"),  # left out: others of its class have a duration
        (2, 1800, 0.5, "b", "completed"),
        (3, 7200, 1, "a", "completed"),
    )
    workload = workload_of(jobs, load_speedup("power:0.5"))
    assert [c.name for c in workload.classes] == ["a", "b"]
    arrivals = workload.arrivals
    assert arrivals.submit_s.tolist() == [0, 7200, 10800]
    assert arrivals.job_class.tolist() == [0, 1, 0]
    assert arrivals.work_h.tolist() == [2, 0.25, 2]
    assert arrivals.gpus.tolist() == [4, 0.5, 1]


def test_jobs_without_durations_take_the_mean_of_the_profile(trace):
    jobs = trace((0, None, 8, "bert", "completed"), (1, None, 1, "bert", "completed"))
    workload = workload_of(jobs, load_speedup("profile:t4"), ClassOptions(scale_work=2))
    assert workload.arrivals.work_h == pytest.approx([2 * 4.51119] * 2)


def test_a_class_may_have_limits_of_its_own(trace):
    jobs = trace((0, 3600, 1, "a", "completed"), (1, 3600, 1, "b", "completed"))
    choices = ClassOptions(max_width=8, limits={"a": 3, "b": 100}, caps_s={"a": 1800})
    a, b = workload_of(jobs, load_speedup("power:0.5"), choices).classes
    assert a.widths.tolist() == [1, 2, 3]
    assert b.widths.tolist() == list(range(1, 101))
    assert (a.cap_h, b.cap_h) == (0.5, float("inf"))
    only = ClassOptions(widths=(1, 4, 16), limits={"a": 5})
    a, b = workload_of(jobs, load_speedup("power:0.5"), only).classes
    assert (a.widths.tolist(), b.widths.tolist()) == ([1, 4], [1, 4, 16])


def test_widths_in_steps_of_a_node(trace):
    names = ("cifar10", "ncf")
    jobs = trace(*((i, 3600, 1, name, "completed") for i, name in enumerate(names)))
    t4 = load_speedup("profile:t4")
    widths = {c.name: c for c in workload_of(jobs, t4, ClassOptions(width_step=8)).classes}
    # cifar10 was measured to gain up to 18 GPUs, ncf up to 4: the last node is not full.
    assert widths["cifar10"].widths.tolist() == [8, 16, 24]
    assert widths["cifar10"].speedup[0, 2] == 8.585326659
    assert widths["ncf"].widths.tolist() == [8]
    law, step = load_speedup("power:0.5"), ClassOptions(width_step=6, limits={"ncf": 20})
    widths = {c.name: c.widths.tolist() for c in workload_of(jobs, law, step).classes}
    assert widths == {"cifar10": list(range(6, 61, 6)), "ncf": [6, 12, 18]}
    with pytest.raises(UsageError, match=r"--width-step 8: a job of '.*' may get 4 GPUs at most"):
        workload_of(jobs, law, ClassOptions(width_step=8, max_width=4))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"limits": {"a": 0}}, "--limit a=0: a limit is at least 1 GPU"),
        ({"caps_s": {"a": 0.0}}, "--require a: a time must be above 0 s"),
        ({"width_step": 0}, "--width-step must be at least 1 GPU"),
        ({"width_step": 2, "widths": (2,)}, "use either --width-step or --widths"),
        ({"limits": {"z": 2}}, "--limit 'z': no job_class of that name"),
        ({"caps_s": {"z": 2.0}}, "--require 'z': no job_class of that name"),
        ({"widths": (8,), "limits": {"a": 4}}, "none is left for 'a' within its 4 GPUs"),
    ],
)
def test_limits_and_caps_that_cannot_be(trace, fields, said):
    with pytest.raises(UsageError, match=said):
        workload_of(
            trace((0, 60, 1, "a", "completed"), (1, 60, 1, "a", "completed")),
            load_speedup("power:0.5"),
            ClassOptions(**fields),
        )


def test_too_many_widths_are_told_of_the_option_that_asks_for_them():
    law = load_speedup("power:0.8").law
    for choices, said in (
        (
            ClassOptions(limits={"a": 100_000}),
            "--limit a=100000: .*\n  next: --limit a=10000 at most",
        ),
        (ClassOptions(max_width=100_000), "--max-width: .*\n  next: --max-width 10000 at most"),
    ):
        with pytest.raises(UsageError, match=said):
            candidate_widths(law, choices, "a")
