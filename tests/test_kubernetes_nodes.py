"""The nodes of a dump of pods as the size of the cluster."""

import json

import pytest

from gpuplan.analysis.kubernetes.nodes import NodeGpus, read_node_gpus

GPU = "nvidia.com/gpu"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def node(name, labels=H100, **status):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": status}  # fmt: skip


def pod(name, at, start, end, gpus):
    """Return a pod that was created, scheduled and ended at minutes of an hour."""

    def time(minute):
        return f"2026-11-02T08:{minute:02}:00Z"

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": time(at),
                     "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}]},
        "status": {
            "phase": "Succeeded",
            "conditions": [{"type": "PodScheduled", "status": "True",
                            "lastTransitionTime": time(start)}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {
                "startedAt": time(start), "finishedAt": time(end)}}}],
        },
    }  # fmt: skip


def write(path, *items):
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_allocatable_counts_before_capacity(tmp_path):
    path = write(
        tmp_path / "k.json",
        node("n1", capacity={GPU: "8"}, allocatable={GPU: "7", "cpu": "96"}),
        node("n2", capacity={GPU: "8"}),
        node("cpu", {}, capacity={"cpu": "96"}),
    )
    read = read_node_gpus(path, {})
    assert read == NodeGpus({"n1": 7, "n2": 8}, {"n1": "H100-80GB", "n2": "H100-80GB"})


@pytest.mark.parametrize(
    "status",
    [{"capacity": {GPU: "many"}}, {"capacity": {"nvidia.com/gpu.shared": "8"}},
     {"allocatable": {"nvidia.com/mig-1g.10gb": "3"}}, {}],
)  # fmt: skip
def test_nodes_that_do_not_tell_are_no_cluster(tmp_path, status):
    assert read_node_gpus(write(tmp_path / "k.json", node("n1", **status)), {}) == NodeGpus()


def waits(gpuplan, path):
    code, out, err = gpuplan("waits", path, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"], err


def test_the_free_gpus_of_a_dump_are_those_of_its_nodes(gpuplan, tmp_path):
    # The second pod waits 10 minutes for 8 GPUs: of two nodes as many were free all the time.
    pods = pod("one", 0, 0, 30, 8), pod("two", 20, 30, 40, 8)
    full = node("n1", capacity={GPU: "8"})
    one, err = waits(gpuplan, write(tmp_path / "one.json", full, *pods))
    both, _ = waits(gpuplan, write(tmp_path / "both.json", full, {**full, "metadata": {
        "name": "n2", "labels": H100}}, *pods))  # fmt: skip
    sizes = [
        [(row["gpu_type"], row["gpus"], row["source"]) for row in result["gpu_types"]]
        for result in (one, both)
    ]
    assert sizes == [[("H100-80GB", 8, "nodes of the dump")],
                     [("H100-80GB", 16, "nodes of the dump")]]  # fmt: skip
    assert "look free here" in err


def test_without_nodes_the_log_tells_the_size(gpuplan, tmp_path):
    result, _ = waits(gpuplan, write(tmp_path / "k.json", pod("one", 0, 0, 30, 8)))
    assert [row["source"] for row in result["gpu_types"]] != ["nodes of the dump"]
