"""Answers of the API server and of Prometheus that have no jobs: what they are, and what to do."""

import json

import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest

FORBIDDEN = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
    "message": "pods is forbidden", "code": 403,
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FORBIDDEN, "API server: pods is forbidden.*\n  next: mend what it says"),
        ({"kind": "Status", "reason": "Forbidden"}, "API server: Forbidden"),
        ({"kind": "Status", "code": 500}, "API server: it does not say which"),
        ({"kind": "WorkloadList", "items": {}}, "is a WorkloadList .* without a list of objects"),
        ({"apiVersion": "v1", "kind": "PodList", "items": None}, "is a PodList of Kubernetes"),
        ({"status": "error", "data": None}, "error of Prometheus that does not say what"),
        ({"status": "success", "data": None}, "answer of Prometheus with no series"),
        ({"status": "success", "data": {"resultType": "matrix"}}, "Prometheus with no series"),
    ],
)
def test_answers_without_jobs_say_what_they_are(tmp_path, answer, said):
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    with pytest.raises(InputError, match=said) as raised:
        ingest([path], tmp_path / "t.parquet")
    assert "--map" not in str(raised.value) and "--metric" not in str(raised.value)
    assert "next: " in str(raised.value)


def test_labels_of_nodes_alone_are_no_jobs_and_say_so(tmp_path):
    labels = {"__name__": "kube_node_labels", "node": "n"}
    series = [{"metric": labels, "values": [[1794182400, "1"]]}]
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"status": "success", "data": {
        "resultType": "matrix", "result": series}}))  # fmt: skip
    done = ingest([path], tmp_path / "t.parquet")
    assert done.rows_kept == 0 and any("no series of pods, so no jobs" in n for n in done.notes)
