"""The arrivals of a workload, and what a replay says of them."""

import numpy as np
import pytest

from gpuplan.analysis.errors import UsageError
from gpuplan.planner.boa.arrivals import Arrivals
from gpuplan.planner.boa.replay import Cluster, replay_of


def arrivals_of(submit_s, work_h, job_class=None):
    size = len(submit_s)
    return Arrivals(
        submit_s=np.array(submit_s, float),
        job_class=np.zeros(size, np.int64) if job_class is None else np.array(job_class),
        work_h=np.array(work_h, float),
        gpus=np.ones(size),
    )


def measured(**changes):
    """Two jobs on 2 GPUs each for one hour and half an hour, half an hour apart."""
    parts = {
        "arrivals": arrivals_of([0, 1800], [1.5, 0.75]),
        "horizon_h": 2.0,
        "jct_s": np.array([3600.0, 1800.0]),
        "jqt_s": np.array([0.0, 60.0]),
        "rescales": np.array([1, 2]),
        "held_gpu_h": 3.0,
        "time_s": np.array([0.0, 1800.0, 3600.0, 5400.0]),
        "gpus": np.array([2, 4, 2, 0]),
    } | changes
    return replay_of(parts.pop("arrivals"), parts.pop("horizon_h"), **parts)


def test_numbers_of_a_replay_by_hand():
    replay = measured(demand_s=np.array([10.0, 0.0, 70.0, 0.0, 20.0]))
    found = replay.summary()
    assert found["jobs"] == 2 and found["mean_jct_s"] == 2700 and found["median_jct_s"] == 2700
    assert found["p95_jct_s"] == pytest.approx(1800 + 0.95 * 1800)
    assert (found["mean_jqt_s"], found["rescales_per_job"]) == (30, 1.5)
    assert found["rented_gpu_h"] == 2 * 0.5 + 4 * 0.5 + 2 * 0.5
    assert found["billed_gpu_h"] == found["rented_gpu_h"]
    assert (found["held_gpus"], found["rented_gpus"], found["peak_gpus"]) == (1.5, 2.0, 4)
    assert found["efficiency"] == 2.25 / 4
    assert [replay.share_above(gpus) for gpus in (0, 1.5, 2, 4)] == [0.9, 0.9, 0.2, 0]
    assert measured().share_above(2) is None
    assert replay.to_frame().height == 2 and replay.timeline().height == 4


def test_a_replay_is_checked():
    with pytest.raises(ValueError, match="jqt_s"):
        measured(jqt_s=np.zeros(3))
    with pytest.raises(ValueError, match="end with 0"):
        measured(gpus=np.array([2, 4, 2, 1]))
    with pytest.raises(ValueError, match="rented"):
        measured(held_gpu_h=4.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_gpus": 0},
        {"provision_s": -1},
        {"release_s": float("inf")},
        {"billing_s": 0},
        {"billed_from": "now"},
        {"overflow": "drop"},
        {"node_gpus": 8, "max_gpus": 4},
    ],
)
def test_a_cluster_is_checked(wrong):
    with pytest.raises(UsageError, match="--"):
        Cluster(**wrong)


def test_arrivals_are_checked():
    with pytest.raises(ValueError, match="ascend"):
        arrivals_of([1, 0], [1, 1])
    with pytest.raises(ValueError, match="shape"):
        arrivals_of([0, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="at least one"):
        arrivals_of([], [])
    with pytest.raises(ValueError, match="at least 0"):
        arrivals_of([0], [-1])
