"""The runs of a log by node and by job, and which of them series of metrics are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.notation import hosts_of
from gpuplan.analysis.metrics.samples import GpuKey
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.holders import NodeRuns


@dataclass(frozen=True, slots=True)
class LogRuns:
    """The first runs of the jobs of a log, by node and by id.

    Attributes:
        nodes: nodes of the log.
        by_node: node -> its runs, by start.
        by_job: id of a job -> its run.
    """

    nodes: frozenset[str]
    by_node: dict[str, NodeRuns]
    by_job: dict[str, NodeRuns]

    @classmethod
    def of(cls, log: Trace) -> LogRuns:
        """Return the runs of a log."""
        runs = log.arrays().runs()
        first = np.unique(runs.job, return_index=True)[1]
        job, gpus = runs.job[first], runs.gpus[first]
        start_s, end_s = (np.rint(t[first] / MICROS).astype(np.int64)
                          for t in (runs.start_us, runs.end_us))  # fmt: skip
        names = log.jobs["job_id"].gather(job).to_list()
        whole_gpus = np.maximum(np.rint(gpus), 1).astype(np.int64)
        by_job = {
            name: NodeRuns(*(column[i : i + 1] for column in (job, start_s, end_s, whole_gpus)))
            for i, name in enumerate(names)
        }
        rows: dict[str, list[int]] = {}
        per_node = np.zeros(job.size, np.int64)
        if "node_list" in log.jobs.columns:
            hosts = {text: hosts_of(text) for text in log.jobs["node_list"].unique().to_list()}
            for i, text in enumerate(log.jobs["node_list"].gather(job).to_list()):
                nodes = hosts[text]
                if nodes and gpus[i] >= len(nodes) and gpus[i] % len(nodes) == 0:
                    per_node[i] = int(gpus[i]) // len(nodes)
                    for node in nodes:
                        rows.setdefault(node, []).append(i)
        by_node = {}
        for node, places in rows.items():
            at = np.array(places)
            at = at[np.argsort(start_s[at], kind="stable")]
            by_node[node] = NodeRuns(job[at], start_s[at], end_s[at], per_node[at])
        return cls(frozenset(by_node), by_node, by_job)


def joined_gpus(
    gpus: Sequence[GpuKey], runs: LogRuns
) -> Iterator[tuple[str | None, list[list[GpuKey]], NodeRuns]]:
    """Yield nodes, or None for one job, with the keys of their GPUs and the runs there."""
    of_job: dict[str, dict[tuple[str, str], list[GpuKey]]] = {}
    of_node: dict[str, dict[str, list[GpuKey]]] = {}
    for key in gpus:
        short = key.job.rpartition("/")[2]
        job = next((name for name in (key.job, short) if name in runs.by_job), None)
        if job is not None:
            of_job.setdefault(job, {}).setdefault((key.node, key.gpu), []).append(key)
        elif key.node in runs.by_node:
            of_node.setdefault(key.node, {}).setdefault(key.gpu, []).append(key)
    for job, keys in of_job.items():
        yield None, list(keys.values()), runs.by_job[job]
    for node, by_gpu in of_node.items():
        order = sorted(by_gpu, key=lambda gpu: (len(gpu), gpu))
        yield node, [by_gpu[gpu] for gpu in order], runs.by_node[node]
