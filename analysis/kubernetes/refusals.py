"""Output of kubectl that is not JSON: YAML, tables for people and messages."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from gpuplan.analysis.base.errors import InputError

YAML = re.compile(rb"\A(?:\s*(?:#[^\n]*|---[^\n]*|%YAML[^\n]*)\n)*\s*(?:- )?"
                  rb"(?:apiVersion|kind|items|metadata):(?:\s|$)")  # fmt: skip
TABLE = re.compile(rb"\A\s*(?:NAMESPACE +NAME|NAME)(?: +[A-Z][A-Z0-9()_-]*)+[ \r]*(?:\n|\Z)")
MESSAGE = re.compile(
    rb"\A\s*(No resources found[^\n]*|error: [^\n]*|Error from server[^\n]*"
    rb"|The connection to the server[^\n]*|Unable to connect to the server[^\n]*)"
)
KIND = re.compile(rb'\A\s*\{[^{}\[\]]*"kind"\s*:\s*"(Status|[A-Za-z]*List)"')
NO_ITEMS = re.compile(rb'"items"\s*:\s*(?:\{|null)')
SAID = re.compile(rb'"(message|reason)"\s*:\s*"((?:[^"\\]|\\.)*)"')
LOOK_BYTES = 1 << 12
ANSWER = re.compile(rb'\s*(?:\{\s*"status"\s*:\s*"(?:success|error)"|\[\s*\{\s*"metric"\s*:)')
"""How an answer of Prometheus starts, and the bare array of promtool."""
ERROR = re.compile(rb'"status"\s*:\s*"error"')
METRIC_NAME = re.compile(rb'"__name__"\s*:\s*"([a-zA-Z0-9_:]{1,80})"')
OPENCOST_JSON = re.compile(
    rb'\s*\{\s*"code"\s*:\s*\d+\s*,(?:.*"(?:gpuCost|gpuHours|totalCost)"\s*:'
    rb'|(?:\s*"\w+"\s*:\s*(?:"(?:[^"\\]|\\.)*"|\d+|null|true|false)\s*,)*'
    rb'\s*"data"\s*:\s*(?:null|\[\s*(?:(?:null|\{\s*\})[\s,]*)*\]))',
    re.DOTALL,
)
"""An answer of OpenCost: with an allocation, or with ``data`` that has none."""
OPENCOST_COLUMNS = frozenset({"Namespace", "Pod", "Container", "GPUCost", "TotalCost"})
ALLOCATIONS = 'curl -sG "$OPENCOST/allocation/compute" -d window=30d -d step=1d -d aggregate=pod'
COMMANDS = (
    "kubectl get pods,jobs,nodes -A -o json > kube.json (with Kueue: kubectl get "
    "workloads.kueue.x-k8s.io,clusterqueues,cohorts,localqueues,resourceflavors -A -o json)"
)


def not_kubernetes_json(path: Path, data: bytes) -> InputError | None:
    """Return the error for other output of kubectl, by its first bytes; None for anything else."""
    start = data[:LOOK_BYTES]
    expected = "its output with -o json"
    if YAML.match(start):
        return InputError(
            path, "is YAML of Kubernetes", expected=expected, hint=f"make JSON: {COMMANDS}"
        )
    if TABLE.match(start):
        return InputError(
            path,
            "is a table that kubectl prints for people, without times and GPUs",
            expected=expected,
            hint=f"make JSON: {COMMANDS}",
        )
    if (match := MESSAGE.match(start)) is not None:
        said = match[1].decode("utf-8", "replace").strip()
        return InputError(
            path, f"is a message of kubectl: {said!r}", expected=expected, hint=COMMANDS
        )
    return _without_objects(path, start)


def _without_objects(path: Path, start: bytes) -> InputError | None:
    """Return the error for an answer of the API server that has no objects; None for others."""
    match = KIND.match(start)
    if match is None:
        return None
    kind = match[1].decode()
    if kind == "Status":
        said = {key: text.decode("utf-8", "replace") for key, text in SAID.findall(start)}
        text = said.get(b"message") or said.get(b"reason") or "it does not say which"
        return InputError(
            path, f"is an error of the Kubernetes API server: {text}",
            expected="the objects of a cluster",
            hint=f"mend what it says, then make it again: {COMMANDS}",
        )  # fmt: skip
    if NO_ITEMS.search(start) is None:
        return None
    return InputError(
        path, f"is a {kind} of Kubernetes without a list of objects",
        expected='"items": [...]', hint=f"make it again: {COMMANDS}",
    )  # fmt: skip


def other_answer(path: Path, data: bytes) -> InputError | None:
    """Return the error for an answer of Prometheus on other metrics; None for anything else."""
    if not ANSWER.match(data):
        return None
    name = METRIC_NAME.search(data)
    if b'"metric"' not in data:
        is_error = ERROR.search(data[:LOOK_BYTES]) is not None
        return InputError(
            path,
            "is an error of Prometheus that does not say what is wrong"
            if is_error
            else "is an answer of Prometheus with no series of kube-state-metrics",
            expected="a result with kube_pod_created and others",
            hint="ask again: the query is in docs/formats/kubernetes.md",
        )
    of = f"on {name[1].decode()}" if name is not None else "whose series have no metric name"
    return InputError(
        path,
        f"is an answer of Prometheus {of}; it has no series of kube-state-metrics",
        expected="kube_pod_created and others of the query in docs/formats/kubernetes.md",
        hint="name the metric where it is one of them: --source-format kube-metrics "
        "--metric NAME=FILE",
    )


def opencost(path: Path, data: bytes, columns: Collection[str]) -> InputError | None:
    """Return the error for allocations of OpenCost in place of a log; None for anything else.

    Those of its API are an invoice. Its daily CSV is none: it has the mean GPUs of a pod, and not
    for how many minutes of the day.

    Args:
        path: of the file.
        data: its first bytes.
        columns: of its first line, if it is a table.
    """
    if not OPENCOST_JSON.match(data) and not OPENCOST_COLUMNS <= set(columns):
        return None
    if not OPENCOST_JSON.match(data):
        return InputError(
            path,
            "has allocations of OpenCost as its daily CSV: the mean GPUs of pods, without the "
            "minutes that they ran, so no GPU-hours",
            expected="the JSON of /allocation/compute, whose allocations have gpuHours",
            hint=f"{ALLOCATIONS} > opencost.json; gpuplan bill LOG --invoice opencost.json; the "
            "jobs of the same Prometheus: kube-metrics, docs/formats/kubernetes.md",
        )
    is_empty = not any(name in data for name in (b'"gpuCost"', b'"gpuHours"', b'"totalCost"'))
    return InputError(
        path,
        "is an answer of OpenCost without allocations"
        if is_empty
        else "has allocations of OpenCost: dollars of pods by window, without submissions and "
        "waits",
        expected="a job log",
        hint=f"gpuplan bill LOG --invoice {path}; the jobs of the same Prometheus: kube-metrics, "
        "docs/formats/kubernetes.md",
    )
