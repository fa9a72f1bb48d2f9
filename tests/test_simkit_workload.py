"""A workload is checked once; metrics of a schedule are the textbook's."""

import numpy as np
import pytest

from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.time import FOREVER, to_micros
from gpuplan.simkit.workload import Workload


def build(**changes):
    columns = {"submit_s": [0, 1], "service_s": [5, 6], "gpus": [1, 2], "deadline_s": [9, 9]}
    return Workload.from_seconds(**(columns | changes))


def test_seconds_become_whole_microseconds():
    assert build(submit_s=[0, 1.0000005]).submit_us.tolist() == [0, 1_000_001]
    assert to_micros(np.inf) == FOREVER


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"submit_s": [1, 0]}, "ascend"),
        ({"submit_s": [-1, 0]}, "ascend"),
        ({"service_s": [-1, 0]}, "service_us must be >= 0"),
        ({"gpus": [0, 1]}, "gpus must be >= 1"),
        ({"gpus": [1, 1, 1]}, "shape"),
        ({"billed_gpus": [0.0, 1.0]}, "billed_gpus"),
        ({"billed_gpus": [1.5, 1.0]}, "billed_gpus"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, problem):
    with pytest.raises(ValueError, match=problem):
        build(**changes)


def test_an_empty_workload_is_refused():
    with pytest.raises(ValueError, match="at least one job"):
        Workload.from_seconds([], [], [], [])


def test_arrays_must_have_their_type():
    good = build()
    with pytest.raises(ValueError, match="service_us must be int64"):
        Workload(good.submit_us, np.ones(2), good.gpus, good.deadline_us, good.billed_gpus)


def test_percentiles_interpolate_linearly():
    found = distribution(np.array([0.0, 10.0]), "jct", "s")
    assert found == {
        "mean_jct_s": 5.0,
        "median_jct_s": 5.0,
        "p90_jct_s": 9.0,
        "p95_jct_s": 9.5,
        "p99_jct_s": pytest.approx(9.9),
    }
    with pytest.raises(ValueError, match="no values"):
        distribution(np.array([]), "jct", "s")
