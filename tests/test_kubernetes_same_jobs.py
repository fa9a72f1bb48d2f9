"""Logs of one cluster in several formats of Kubernetes: no job counts twice."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.kubernetes.jobs import KubeRows
from gpuplan.analysis.kubernetes.same_jobs import SameJobs

SAMPLES = Path(__file__).parents[1] / "sample_traces"
WORKLOADS = SAMPLES / "kueue" / "workloads.json"
PODS = SAMPLES / "kube" / "kube.json"
METRICS = SAMPLES / "kube" / "kube_metrics.json"


@pytest.mark.parametrize("files", [*permutations((WORKLOADS, PODS, METRICS), 2)])
def test_a_job_of_two_logs_counts_once(tmp_path, files):
    alone = [ingest([path], tmp_path / f"{path.stem}.parquet").rows_kept for path in files]
    both = ingest(files, tmp_path / "both.parquet")
    assert both.rows_kept == max(alone)  # the pods are all of Workloads, and those of a day
    assert both.left_out["in_another_log"] == min(alone)


def test_pods_without_owners_and_workloads_of_their_time_are_refused(tmp_path):
    answer = json.loads(METRICS.read_text())
    answer["data"]["result"] = [
        series
        for series in answer["data"]["result"]
        if series["metric"]["__name__"] != "kube_pod_owner"
    ]
    path = tmp_path / "kube_metrics.json"
    path.write_text(json.dumps(answer))
    with pytest.raises(InputError, match=r"may be in .*kueue.*none counts twice\n.*give one"):
        ingest([path, WORKLOADS], tmp_path / "both.parquet")
    assert not (tmp_path / "both.parquet").exists()


def job(name, start, end, owner="", group="a"):
    attempts = [] if start is None else [Attempt(start, end, 8, 1, "completed")]
    return KubeJob(1, 0, f"{group}/{name}", group, start, attempts, owner=owner)


def left_out(workloads, pods):
    """Return which pods are left out beside some Workloads."""
    logs = SameJobs()
    for name, jobs in (("kueue", workloads), ("kube", pods)):
        logs.leave_out(name, Path(f"{name}.json"), [KubeRows((), (), None, (), jobs)])
    return [pod.name for pod in pods if pod.left_out]


def test_owner_and_time_tell_which_jobs_are_the_same():
    workload = job("job-train-x1", 100, 200, owner="train")
    assert left_out([workload], [job("train-0", 110, 200, "train")]) == ["a/train-0"]
    assert left_out([workload], [job("train#2", 150, None)]) == ["a/train#2"]
    assert left_out([workload], [job("job-train-x1", 110, 200)]) == ["a/job-train-x1"]
    # The same names at another time, or in another namespace, are other jobs.
    assert left_out([workload], [job("train-0", 210, 300, "train")]) == []
    assert left_out([workload], [job("train-0", 110, 200, "train", group="b")]) == []


def test_other_pods_beside_workloads_whose_pods_are_there_count():
    workload = job("job-train-x1", 100, 200, owner="train")
    pods = [job("train-0", 110, 200, "train"), job("notebook", 120, 180, "notebook")]
    assert left_out([workload], pods) == ["a/train-0"]


@pytest.mark.parametrize(("start", "end"), [(150, 160), (50, 101), (199, None), (10, 300)])
def test_unknown_pods_at_the_time_of_an_unknown_workload_are_refused(start, end):
    with pytest.raises(InputError, match=r"1 job may be in kueue\.json too"):
        left_out([job("job-x", 100, 200, "x"), job("job-y", 20, 30, "y")], [job("p", start, end)])


@pytest.mark.parametrize(("start", "end"), [(200, 210), (50, 100), (31, 60)])
def test_unknown_pods_at_another_time_count(start, end):
    workloads = [job("job-x", 100, 200, "x"), job("job-y", 20, 30, "y")]
    assert left_out(workloads, [job("p", start, end)]) == []
