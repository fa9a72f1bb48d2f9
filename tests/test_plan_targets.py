"""Targets of times that the cheapest plan misses: with more commitments fewer jobs wait."""

import json
import re
import shlex

import pytest
from support_plan import DAY, HOUR
from support_traces import write_trace

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
BOTH = ("--commit", "0.9", "--on-demand", "1.29", "--holdout", "0%")


@pytest.fixture(scope="module")
def peaks(tmp_path_factory):
    """Two GPUs for 12 h of each day, and four more for 10 min of each of these hours; no waits."""
    hours = [DAY * day + HOUR * hour for day in range(10) for hour in range(12)]
    return write_trace(
        tmp_path_factory.mktemp("peaks") / "t.parquet",
        [s for hour in hours for s in (hour, hour + 600.0)],
        [HOUR, 600.0] * len(hours),
        [2.0, 4.0] * len(hours),
        wait_s=[0.0, 0.0] * len(hours),
    )


@pytest.fixture
def committed(gpuplan, peaks):
    """Return the GPUs that a plan commits to, and its results."""

    def plan(*words):
        code, out, err = gpuplan("plan", peaks, *words, "--output-format", "json")
        assert code == 0, err
        results = json.loads(out)["results"]
        uses = [use for use in results["markets"] if use["name"] == "committed"]
        return sum(use["gpus"] for use in uses), results, err

    return plan


@pytest.mark.parametrize("target", ["mean_jct <= now", "p95_wait <= 10s", "mean_wait <= 10s"])
def test_all_is_committed_where_no_job_may_wait(committed, target):
    without, _, _ = committed(*BOTH)
    gpus, results, err = committed(*BOTH, "--target", target)
    assert without < 6 == gpus
    assert results["replay"]["mean_wait_s"] == 0.0
    assert "the plan commits to more GPUs than the cheapest plan would" in err


def test_no_more_is_committed_than_the_target_needs(committed):
    # 1 of 12 jobs of an hour waits too where their 2 GPUs are rented; the others wait 90 s
    gpus, results, _ = committed(*BOTH, "--target", "mean_wait <= 46s")
    assert gpus == 2
    assert results["replay"]["mean_wait_s"] == 45.0


def test_a_class_on_spot_leaves_it_for_the_target(committed):
    spot = ("--spot", "num_gpus<=4", "--spot-price", "0.2", "--slower", "2x")
    _, free, _ = committed(*BOTH, *spot)
    _, bound, _ = committed(*BOTH, *spot, "--target", "mean_jct <= now")
    assert free["replay"]["mean_time_s"] > free["today"]["mean_time_s"]
    assert bound["replay"]["mean_time_s"] <= bound["today"]["mean_time_s"] * (1 + 1e-9)


@pytest.mark.parametrize("target", ["mean_jct <= now", "p95_wait <= 10s"])
def test_a_refusal_has_a_next_step_that_works(gpuplan, peaks, target):
    only_rented = ("--on-demand", "1.29", "--holdout", "0%")
    code, _, err = gpuplan("plan", peaks, *only_rented, "--target", target)
    message = " ".join(err.split())
    assert code == 4 and "no plan was found with" in message and "4 GPUs weigh" in message
    step = re.search(r"next: --target '[^']*'", message)
    assert step is not None
    words = shlex.split(step[0].removeprefix("next: "))
    code, _, err = gpuplan("plan", peaks, *only_rented, *words)
    assert code == 0, err


def test_a_cluster_bounds_what_may_be_committed(gpuplan, peaks):
    capped = (*BOTH, "--cluster", "4", "--target", "p95_wait <= 10s")
    code, _, err = gpuplan("plan", peaks, *capped)
    message = " ".join(err.split())
    assert code == 4 and "with 4 GPUs committed, has 1.833 h in its replay" in message
