"""Pods by Prometheus: range answers on the metrics of kube-state-metrics, of any scheduler.

The query is in docs/formats/kubernetes.md. Several files, of several times or metrics, are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import msgspec

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.kubernetes.gangs import jobs_of_pods
from gpuplan.analysis.kubernetes.jobs import numbered, rows_of_sources, shown_time
from gpuplan.analysis.kubernetes.metrics import (
    METRICS,
    NODE_LABELS,
    REQUESTS,
    SCHEDULER_REQUESTS,
    PodSeries,
    gang_owners,
    pod_runs,
)
from gpuplan.analysis.kubernetes.pods import PodRun
from gpuplan.analysis.kubernetes.refusals import ANSWER
from gpuplan.analysis.kubernetes.series import LINE, SeriesFile, read_series
from gpuplan.analysis.log_formats.format import (
    IngestOptions,
    KubernetesOptions,
    LogFormat,
)
from gpuplan.analysis.log_formats.kubernetes_jobs import (
    ADD_NODE_LABELS,
    job_plan,
    kept_columns,
    surroundings,
    user_note,
)
from gpuplan.analysis.reading.batch import Refused, Rows
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.storage.files import read_small

ERROR = re.compile(rb'"status"\s*:\s*"error"\s*,\s*"errorType"')
EMPTY = re.compile(rb'"result"\s*:\s*\[\s*\]')
OUR_METRIC = re.compile(rb'"?__name__"?\s*[:=]\s*"kube_|(?:^|\n)kube_[a-z_]+\{')
OPTION = "--metric NAME=FILE"


def _open_all(streams: Sequence[SourceStream], choices: IngestOptions) -> list[Rows]:
    options = choices.kubernetes
    series = PodSeries(surroundings(choices), _node_types(options.node_types))
    names = _named_files(streams, options.metrics)
    refused: list[tuple[int, Refused]] = []
    notes: list[str] = []
    answers = []
    for source, stream in enumerate(streams):
        answer = SeriesFile(stream.path)
        for item in read_series(stream, answer):
            name = item.name or names.get(source, "")
            if not name:
                raise _nameless(stream.path)
            series.add(source, replace(item, name=name))
        series.steps_s[source] = answer.step_s
        refused += [(source, row) for row in answer.refused]
        notes += [note for note in answer.notes if note not in notes]
        answers.append(answer)
    series.finish()
    pods = pod_runs(series)
    jobs = jobs_of_pods(pods, _gangs(options.gang, pods))
    for job in jobs:
        if job.state == "running":
            job.last_known = answers[job.source].last
    notes += [*_notes(series, answers), *user_note(jobs, choices)]
    taken_s = max((answer.last for answer in answers if answer.last is not None), default=None)
    return rows_of_sources(numbered(jobs), refused, len(streams), notes, taken_s)


def _gangs(gang: str | None, pods: Sequence[PodRun]) -> set[str]:
    """Return which plain Jobs are gangs, as the user or their times say."""
    if gang == "pod":
        return set()
    if gang == "job":
        return {f"{pod.namespace}/{pod.owner.name}" for pod in pods}
    return gang_owners(pods)


def _node_types(path: Path | None) -> Mapping[str, str]:
    """Return node -> GPU type of the user's file. Raises `InputError`."""
    if path is None:
        return {}
    try:
        return msgspec.json.decode(read_small(path), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            path, f"is not a map of nodes ({error})", expected='JSON: {"node": "type", ...}',
            hint="write it by hand or with jq",
        ) from error  # fmt: skip


def _named_files(streams: Sequence[SourceStream], metrics: Mapping[str, str]) -> Mapping[int, str]:
    """Return position of a file -> its metric, by the user or by the name of the file.

    Raises `UsageError` where a file that the user names is not there.
    """
    names = {}
    for source, stream in enumerate(streams):
        if (name := _metric_in(stream.path)) is not None:
            names[source] = name
    for name, file in metrics.items():
        at = [
            source for source, stream in enumerate(streams)
            if str(stream.path) == file or stream.path.name == file
        ]  # fmt: skip
        if not at:
            raise UsageError(f"--metric {name}={file}: must be one of the files to read")
        names.update(dict.fromkeys(at, name))
    return names


def _metric_in(path: Path) -> str | None:
    named = [name for name in METRICS if path.name.startswith(name)]
    return max(named, key=len, default=None)


def _nameless(path: Path) -> InputError:
    return InputError(
        path,
        "has series without a name of their metric",
        expected='"__name__" among the labels',
        hint=f"name it: {OPTION}, or call the file like the metric, as kube_pod_created.json",
    )


def _notes(series: PodSeries, answers: Sequence[SeriesFile]) -> Iterator[str]:
    first = min((a.first for a in answers if a.first is not None), default=None)
    last = max((a.last for a in answers if a.last is not None), default=None)
    if first is None or last is None:
        yield "the answer is empty: no pod with GPUs in that time, or no kube-state-metrics"
        return
    steps = ", ".join(f"{step:g} s" for step in sorted({a.step_s for a in answers if a.step_s}))
    yield (
        f"the answer covers {shown_time(first)} to {shown_time(last)} UTC"
        + (f" in steps of {steps}" if steps else "")
    )
    if not series.pods:
        yield "no series of pods, so no jobs: add the answer on kube_pod_created and the others"
    if series.pods and not {REQUESTS, SCHEDULER_REQUESTS} & series.last.keys():
        yield f"no series says how many GPUs pods request: ask for {REQUESTS} too"
    if not series.nodes and not series.node_types:
        yield f"no GPU types: add an answer of {NODE_LABELS}, or --node-types FILE"
    if series.nameless:
        yield f"series left out because they have no pod label: {series.nameless:,}"
    if series.unread_metrics:
        names = ", ".join(sorted(series.unread_metrics)[:5])
        yield f"metrics that are not read: {names}"


def _open(stream: SourceStream) -> Rows:
    return _open_all([stream], IngestOptions())[0]


def _recognizes(head: Head) -> str | None:
    data = head.data
    if ANSWER.match(data):
        if ERROR.search(data[:200]):
            return "an error of Prometheus"
        if OUR_METRIC.search(data):
            return "an answer of Prometheus with metrics of kube-state-metrics"
        if EMPTY.search(data):
            return "an empty answer of Prometheus"
        if (name := _metric_in(head.path)) is not None:
            return f"an answer of Prometheus in a file called {name}"
    elif LINE.match(data.partition(b"\n")[0]) and OUR_METRIC.search(data):
        return "lines of promtool with metrics of kube-state-metrics"
    return None


KUBE_METRICS = LogFormat(
    name="kube-metrics",
    description="pods by Prometheus: range answers on the metrics of kube-state-metrics",
    source="your cluster: one query_range, in docs/formats/kubernetes.md",
    recognizes=_recognizes,
    plan=partial(job_plan, types=ADD_NODE_LABELS),
    open=_open,
    open_all=_open_all,
    kubernetes=tuple(field.name for field in fields(KubernetesOptions)),
    kept=kept_columns,
    may_be_empty=True,
)
