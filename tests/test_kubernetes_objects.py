"""The objects of a file of Kubernetes JSON, in every container."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.kubernetes.heads import kinds_in
from gpuplan.analysis.kubernetes.objects import DELETED, KubeObject, newest, versions_of
from gpuplan.analysis.reading.source import Head


def pod(
    name: str, uid: str | None = None, version: str | None = None, **more: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **more}


def untyped(name: str) -> dict[str, Any]:
    return {key: value for key, value in pod(name).items() if key not in ("apiVersion", "kind")}


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def listed(*items: dict[str, Any], kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": list(items)}


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


A, B = pod("a"), pod("b")
CONTAINERS = {
    "list": json.dumps(listed(A, B)),
    "list over many lines": json.dumps(listed(A, B), indent=4) + "\n",
    "typed list": json.dumps(listed(untyped("a"), untyped("b"), kind="PodList")),
    "array": json.dumps([A, B]),
    "array of lists": json.dumps([listed(A), listed(B)]),
    "lines": f"{json.dumps(A)}\n{json.dumps(B)}\n",
    "lists one after the other": json.dumps(listed(A), indent=1) + json.dumps(listed(B), indent=1),
    "no space between": json.dumps(A) + json.dumps(B),
    "no indentation": json.dumps(A, indent=0) + "\n" + json.dumps(B, indent=0),
    "watch": "\n".join(json.dumps(event("ADDED", item), indent=4) for item in (A, B)),
    "watch in lines": "\n".join(json.dumps(event("ADDED", item)) for item in (A, B)),
    "byte order mark": "\ufeff" + json.dumps(listed(A, B)),
}


def objects_of(path: Path) -> list[KubeObject]:
    """Return the newest version of each object that is not deleted."""
    last = [newest(kept) for kept in versions_of(path)]
    return [item for item in last if item.event != DELETED]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_its_objects(tmp_path: Path, container: str) -> None:
    objects = list(objects_of(written(tmp_path / "dump.json", CONTAINERS[container])))
    assert [(item.kind, item.namespace, item.name) for item in objects] == [
        ("Pod", "team-a", "a"),
        ("Pod", "team-a", "b"),
    ]
    assert {item.api_version for item in objects} == {"v1"}
    assert objects[0].plain()["kind"] == "Pod"
    assert objects[0].plain()["metadata"]["name"] == "a"


def test_one_object_and_packed_files(tmp_path: Path) -> None:
    path = written(tmp_path / "pod.json.gz", gzip.compress(json.dumps(A).encode()))
    assert [item.name for item in objects_of(path)] == ["a"]


def test_kinds_of_one_list_differ(tmp_path: Path) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
             "metadata": {"name": "q"}}  # fmt: skip
    objects = list(objects_of(written(tmp_path / "k.json", json.dumps(listed(A, queue)))))
    assert [(item.kind, item.api_group) for item in objects] == [
        ("Pod", ""),
        ("ClusterQueue", "kueue.x-k8s.io"),
    ]


def test_an_empty_list_has_no_objects(tmp_path: Path) -> None:
    assert list(objects_of(written(tmp_path / "k.json", json.dumps(listed())))) == []


def test_the_largest_version_of_a_uid_counts(tmp_path: Path) -> None:
    snapshots = [pod("a", "u", version, spec=version) for version in ("9", "10", "8")]
    path = written(tmp_path / "k.json", "\n".join(map(json.dumps, snapshots)))
    assert [item.plain()["spec"] for item in objects_of(path)] == ["10"]


def test_the_last_one_counts_where_a_version_is_no_number(tmp_path: Path) -> None:
    snapshots = [pod("a", "u", version, spec=version) for version in ("9", "x", "8")]
    path = written(tmp_path / "k.json", "\n".join(map(json.dumps, snapshots)))
    assert [item.plain()["spec"] for item in objects_of(path)] == ["8"]


def test_an_object_without_uid_is_told_apart_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path / "k.json", json.dumps([A, {**A, "spec": 1}, B]))
    assert [item.name for item in objects_of(path)] == ["a", "b"]


def test_one_name_with_two_uids_is_two_objects(tmp_path: Path) -> None:
    path = written(tmp_path / "k.json", json.dumps([pod("a", "1"), pod("a", "2")]))
    assert [item.uid for item in objects_of(path)] == ["1", "2"]


def test_positions_and_errors_of_a_watch_are_no_objects(tmp_path: Path) -> None:
    status = {"kind": "Status", "status": "Failure", "message": "too old", "code": 410}
    events = [event("ADDED", A), event("BOOKMARK", pod("", "u")), event("ERROR", status)]
    path = written(tmp_path / "k.json", "\n".join(map(json.dumps, events)))
    assert [item.name for item in objects_of(path)] == ["a"]


def test_a_deleted_object_is_none_of_those_that_exist(tmp_path: Path) -> None:
    events = [event("ADDED", pod("a", "1", "5")), event("DELETED", pod("a", "1", "6"))]
    path = written(tmp_path / "k.json", "\n".join(map(json.dumps, [*events, event("ADDED", B)])))
    assert [item.name for item in objects_of(path)] == ["b"]


BAD = {
    "yaml": ("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n", "YAML.*-o json"),
    "yaml after a comment": ("# made by hand\n---\nkind: ClusterQueue\n", "YAML"),
    "table": ("NAMESPACE  NAME   READY   STATUS    AGE\nteam-a  a  1/1  Running  5m\n",
              "table that kubectl prints.*-o json"),
    "queue table": ("NAME     QUEUE      RESERVED IN   ADMITTED   FINISHED   AGE\n", "table"),
    "message": ("No resources found in default namespace.\n", "message of kubectl"),
    "refused": ('{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden"}',
                "error of the API server: forbidden"),
    "empty": ("", "is empty"),
    "spaces": (" \n ", "is empty"),
    "cut": (json.dumps(listed(A, B), indent=2)[:150], "ends in the middle"),
    "garbage": ('{"kind": Pod}', "is not JSON"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "number": ("12", "is not JSON"),
    "array of numbers": ("[1, 2]", "expected an object of Kubernetes"),
    "no kind": ('[{"metadata": {"name": "a"}}]', "no kind or no name"),
    "a kind that is a number": ('[{"kind": 3, "metadata": {"name": "a"}}]', "kind"),
    "cut watch": (json.dumps(event("ADDED", A)) + '\n{"type": "ADDED", "obj', "ends in the middle"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_anything_else_is_refused_with_the_next_step(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(InputError, match=f"(?s){message}.*next:"):
        list(objects_of(written(tmp_path / "k.json", text)))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"x": {"object": %s}}', []),
        ('{"object": %s}', [("v1", "Pod")]),
        ('{"items": [%s, %s', [("v1", "Pod")] * 2),
        ('{"a": {"items": [{"object": %s}]}}', []),
        ("[" * 100_000 + "%s", [("v1", "Pod")]),
        ('{"a": ' * 50_000 + "%s", []),
    ],
)
def test_kinds_are_seen_at_the_places_of_objects_however_deep_the_rest(
    text: str, kinds: list[tuple[str, str]]
) -> None:
    head = Head(Path("x.json"), text.replace("%s", json.dumps(A)).encode())
    assert list(kinds_in(head)) == kinds
