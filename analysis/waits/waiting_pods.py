"""What a dump of pods, or their series in Prometheus, tells of pods that wait now."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gpuplan.analysis.history.reasons import NOT_SCHEDULED, group_of
from gpuplan.analysis.kubernetes.jobs import KubeRows
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.log_formats.kube import KUBE
from gpuplan.analysis.log_formats.kube_metrics import KUBE_METRICS
from gpuplan.analysis.reading.batch import PENDING
from gpuplan.analysis.reading.source import opened_file
from gpuplan.analysis.waits.results import NO_REASON, WaitingNow

FORMATS = {form.name: form for form in (KUBE, KUBE_METRICS)}


def waiting_pods(path: Path, source_format: str) -> tuple[WaitingNow, ...]:
    """Return the pods that wait at the end of a log by reason, most GPUs first.

    Args:
        path: of the log.
        source_format: of the log; nothing is told of one without pods.

    Raises:
        InputError: the log cannot be used.
    """
    form = FORMATS.get(source_format)
    if form is None or form.open_all is None:
        return ()
    with opened_file(path) as stream:
        rows = [part for part in form.open_all([stream], IngestOptions())]
    by_reason: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for part in rows:
        if not isinstance(part, KubeRows) or part.until is None:
            continue
        for job in part.jobs:
            if job.left_out == PENDING:
                waited = 0.0 if job.submit is None else max(part.until - job.submit, 0.0)
                by_reason[job.reason or NO_REASON].append((float(job.gpus), waited))
    waiting = [
        WaitingNow(
            name,
            group_of(NOT_SCHEDULED if name == NO_REASON else name).title,
            len(pods),
            sum(gpus for gpus, _ in pods),
            sum(waited for _, waited in pods) / len(pods),
            max(waited for _, waited in pods),
        )
        for name, pods in by_reason.items()
    ]
    return tuple(sorted(waiting, key=lambda row: (-row.gpus, row.name)))
