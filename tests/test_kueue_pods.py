"""Pods that Kueue admitted are no dump of its Workloads, though they bear its labels."""

import json

import pytest
from support_kueue import GPU, stamp, workload, write_list

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.workloads import is_kueue_dump
from gpuplan.analysis.site.log import read_site_log

LABEL = "kueue.x-k8s.io/queue-name"


def pod(name, start, end):
    """Return a finished pod with a GPU, which a queue of Kueue admitted."""
    said = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(workload("w", "a", 0))}
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(start)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "uid": name, "annotations": said,
                     "creationTimestamp": stamp(0), "labels": {LABEL: "main"}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}]},
        "status": {
            "phase": "Succeeded", "startTime": stamp(start),
            "conditions": [{"type": "PodScheduled", "status": "True",
                            "lastTransitionTime": stamp(start)}],
            "containerStatuses": [
                {"name": "c", "state": {"terminated": ended | {"finishedAt": stamp(end)}}}],
        },
    }  # fmt: skip


@pytest.fixture
def pods(tmp_path):
    return write_list(tmp_path / "kube.json", [pod(f"p{i}", 60 * i, 900) for i in range(5)])


def test_a_label_of_kueue_makes_no_dump(pods, tmp_path):
    assert not is_kueue_dump(pods)
    assert is_kueue_dump(write_list(tmp_path / "k.json", [workload("w", "a", 0)]))
    mixed = [pod("p", 0, 60), workload("w", "a", 0)]
    assert is_kueue_dump(write_list(tmp_path / "m.json", mixed))


def test_waits_reads_pods_that_kueue_admitted(gpuplan, pods):
    code, out, err = gpuplan("waits", pods)
    assert code == 0 and "wait: 2 min on average" in " ".join(out.split()), err


@pytest.mark.parametrize("rest", [(), ("--set", "clusterqueue.a.nominalQuota=3")])
def test_a_replay_of_pods_says_that_workloads_are_missing(gpuplan, pods, rest):
    code, out, err = gpuplan("whatif" if rest else "calibrate", pods, *rest)
    assert code == 3 and not out
    assert "has no Workloads of Kueue (it starts with Pod of Kubernetes)" in err
    assert "sacct" not in err and "next: kubectl get workloads.kueue.x-k8s.io" in err


def test_an_empty_list_is_no_log_of_slurm(tmp_path):
    with pytest.raises(InputError, match=r"it starts with no objects.*\n  next: kubectl get wo"):
        read_site_log(write_list(tmp_path / "empty.json", []))
