"""Warnings of quotas beyond the GPUs of the nodes, worked out by hand."""

from pathlib import Path

import pytest

from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.planner.quota_twin.room import room_warnings


def site(quota, nodes):
    gpus = {"name": "nvidia.com/gpu", "nominalQuota": str(quota)}
    group = {"coveredResources": ["nvidia.com/gpu"],
             "flavors": [{"name": "h100", "resources": [gpus]}]}  # fmt: skip
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    document = QuotaDocument(Path("site.json"))
    document.tables["clusterqueue"] = {"a": {"resourceGroups": [group]}}
    document.tables["flavor"] = {"h100": {"nodeLabels": labels}}
    kind = document.flavor_type("h100")
    document.tables["node"] = {f"n{i}": {"gpus": 8, "type": kind} for i in range(nodes)}
    return document


@pytest.mark.parametrize(
    ("quota", "nodes", "adds_nodes", "told"),
    [
        (16, 1, False, "its nodes have 8"),
        (16, 2, False, None),  # the nodes exist
        (16, 0, False, "the dump shows no nodes that have them"),
        (16, 1, True, None),  # the change brings its nodes
        (8, 0, False, None),
    ],
)
def test_quotas_beyond_the_nodes_are_told(quota, nodes, adds_nodes, told):
    warnings = room_warnings("x", site(8, nodes), site(quota, nodes), adds_nodes=adds_nodes)
    assert len(warnings) == (told is not None)
    assert all("from 8 to 16 GPUs" in text and told in text for text in warnings)
