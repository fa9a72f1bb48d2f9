"""What series of GPU metrics say of the jobs of a log: a row per job, to join with its trace.

Series are joined to the runs of the log by node, or by a label with the id of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.gpu_names import is_known_gpu, same_gpu
from gpuplan.analysis.job_table.notation import hosts_of
from gpuplan.analysis.job_table.schema import RUNS
from gpuplan.analysis.metrics.nvidia_smi import NO_NUMBER
from gpuplan.analysis.metrics.prometheus import HINT, NAMELESS, UNLABELED
from gpuplan.analysis.metrics.registry import read_samples
from gpuplan.analysis.metrics.samples import (
    ABOVE,
    ENGINE,
    NOT_IN_SECONDS,
    UTILIZATION,
    GpuKey,
    GpuSamples,
)
from gpuplan.analysis.reading.inputs import opened_inputs
from gpuplan.analysis.reading.source import SourceStream
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.clocks import ClockCheck, ClockDifference
from gpuplan.analysis.waste.holders import NodeRuns, busy_times, held_gpus, node_lists
from gpuplan.analysis.waste.job_sums import GpuSeries, JobSums
from gpuplan.analysis.waste.kinds import COLUMNS as KIND_COLUMNS

COLUMNS = KIND_COLUMNS
OPTIONAL = ("node_list", RUNS, "gpu_type")
"""Columns of a trace that `read_metrics` reads; the latter where the trace has them."""

UNCLEAR = (
    "GPU-hours unknown, since several jobs shared a node and the series do not tell which of them "
    "held which GPU"
)
HINTS = {
    NAMELESS: "ask for the metric itself: functions such as avg_over_time() and sum by () drop "
    "its name",
    UNLABELED: "ask for the metric itself: sum by () and avg by () drop its labels",
    ABOVE: "DCGM_FI_PROF_GR_ENGINE_ACTIVE is from 0 to 1, DCGM_FI_DEV_GPU_UTIL from 0 to 100; "
    "fetch them as they are",
    NO_NUMBER: "nvidia-smi does not tell the use of these GPUs, as of MIG slices; ask DCGM",
    NOT_IN_SECONDS: "times are seconds since 1970, as Prometheus answers; divide them by 1000",
}
"""What was left out -> the next step where nothing else is there."""


@dataclass(frozen=True, slots=True)
class MetricCoverage:
    """What series of metrics cover.

    Attributes:
        nodes: with samples, that the log has too.
        gpus: with samples.
        samples: read, with copies and those that could not be used.
        begin, end: first and last sample, UTC.
        covered_gpu_h: GPU-hours of jobs with samples.
        covered_share: of all GPU-hours of the log.
        clock_later_h: hours by which the log must be moved later to fit the series (negative:
            earlier); null where the clocks agree.
    """

    nodes: int
    gpus: int
    samples: int
    begin: str
    end: str
    covered_gpu_h: float
    covered_share: float
    clock_later_h: float | None


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """What series say of jobs.

    Attributes:
        jobs: a row per job that has samples, with the `JOB_COLUMNS` of
            `gpuplan.analysis.waste.job_sums`; energy and memory are null where not measured.
        inputs: the files, with their samples.
        coverage: what they cover.
        notes: what was left out, one sentence each.
        warnings: what makes the summary doubtful.
        clock: by how much the clocks of the log and of the metrics differ; None where they agree.
        strange: why the metrics are not of the jobs of the log; empty where they may be.
    """

    jobs: pl.DataFrame
    inputs: tuple[InputFile, ...]
    coverage: MetricCoverage
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    clock: ClockDifference | None = None
    strange: str = ""

    @property
    def misfit(self) -> str:
        """Why no user can be told of a job by these metrics; empty where they can."""
        return self.strange or ("" if self.clock is None else self.clock.warning())


def read_metrics(paths: Sequence[Path], log: Trace) -> MetricSummary:
    """Read series of metrics and join them to the jobs of a log.

    A series belongs to the job that a label names, else to the jobs that ran on its node at the
    time: see `gpuplan.analysis.waste.holders`. Each run of a requeued job is joined on nodes of its
    own, where the trace has its `RUNS`; else the first one alone.

    Args:
        paths: files, folders or archives, of formats that may differ.
        log: jobs with `COLUMNS`, and `OPTIONAL` where they have them.

    Raises:
        InputError: a file cannot be read or is no series of metrics, or none is of the log.
    """
    runs = LogRuns.of(log)
    samples, inputs = GpuSamples(), list[InputFile]()
    with opened_inputs(paths, None, lambda source: True) as opened:
        for source in opened.sources:
            before = samples.read
            with closing(SourceStream(source)) as stream:
                read_samples(stream, samples, runs.nodes, log.provenance.time_zone)
                digest = stream.sha256()
            inputs.append(InputFile(str(source.path), digest, samples.read - before))
    _check_use(paths[0], samples)
    summary = JobSums(log.jobs.height)
    span = [np.inf, -np.inf]
    clocks = ClockCheck()
    gpus = samples.gpus()
    unclear_h = 0.0
    nodes_joined = set[str]()
    for node, keys_of_gpus, node_runs in joined_gpus(gpus, runs):
        parts = [GpuSeries.of(samples, keys) for keys in keys_of_gpus]
        usable = [part for part in parts if part is not None]
        for part in usable:
            span = [min(span[0], part.use.time_s[0]), max(span[1], part.use.time_s[-1])]
        if not usable or not node_runs.job.size:
            continue
        if node is None:
            held = np.ones((node_runs.job.size, len(usable)), np.bool_)
        else:
            nodes_joined.add(node)
            busy = [busy_times(part.memory, part.use) for part in usable]
            shared = held_gpus(node_runs, busy, [part.use for part in usable])
            held = shared.held
            within_s = np.clip(node_runs.end_s, span[0], span[1]) - np.clip(
                node_runs.start_s, span[0], span[1]
            )
            unclear_h += float(shared.unclear.sum(axis=1) @ within_s) / HOUR_S
            clocks.add(node_runs, [part.use for part in usable])
        for place, part in enumerate(usable):
            summary.add(part, node_runs, held[:, place])
    held_h = log.arrays().gpu_s / HOUR_S
    jobs = summary.frame(log.jobs["job_id"], held_h)
    if not jobs.height and not unclear_h:
        raise _why_nothing_joins(paths[0], samples, gpus, runs, span)
    clock = clocks.difference()
    strange = _other_models(log, samples, runs, nodes_joined)
    if clock is None and not strange:
        strange = clocks.strange()
    covered_h, all_h = float(jobs["covered_gpu_h"].sum()), float(held_h.sum())
    hint = "\n  next: name series of the cluster of the log with --metrics"
    strange = f"{strange}{hint}" if strange else ""
    return MetricSummary(
        jobs=jobs,
        inputs=tuple(inputs),
        coverage=MetricCoverage(
            nodes=len(nodes_joined),
            gpus=len({(gpu.node, gpu.gpu) for gpu in gpus}),
            samples=samples.read,
            begin=_shown(span[0]),
            end=_shown(span[1]),
            covered_gpu_h=covered_h,
            covered_share=covered_h / all_h if all_h else 0.0,
            clock_later_h=None if clock is None else clock.later_h,
        ),
        notes=(
            *(f"{what}: {count:,}" for what, count in samples.counts.items() if count),
            *((f"{UNCLEAR}: {unclear_h:,.1f}",) if unclear_h else ()),
        ),
        warnings=tuple(
            text for text in (strange, "" if clock is None else clock.warning()) if text
        ),
        clock=clock,
        strange=strange,
    )


def _shown(at_s: float) -> str:
    return datetime.fromtimestamp(float(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _other_models(log: Trace, samples: GpuSamples, runs: LogRuns, nodes: Iterable[str]) -> str:
    """Return on which nodes jobs and metrics name other GPUs; empty where they agree."""
    if "gpu_type" not in log.jobs.columns:
        return ""
    types = log.jobs["gpu_type"].cast(pl.String)
    other = []
    for node in sorted(nodes):
        model, job_types = samples.models.get(node), types.gather(runs.by_node[node].job)
        usual = job_types.drop_nulls().mode().sort().to_list()[:1]
        names = [*usual, *([] if model is None else [model])]
        if len(names) == 2 and all(map(is_known_gpu, names)) and not same_gpu(*names):
            other.append(f"{node}: {model}, in the log {usual[0]}")
    if not other:
        return ""
    return (
        f"the metrics are of other GPUs than the log on {counted(len(other), 'node')} "
        f"({'; '.join(other[:3])})"
    )


def _check_use(path: Path, samples: GpuSamples) -> None:
    """Refuse series that do not tell the use of GPUs over time. Raises `InputError`."""
    use = {UTILIZATION, ENGINE}
    if not samples.metrics():
        return
    if not use & samples.metrics():
        lost = _left_out(samples)
        raise InputError(
            path,
            f"has no sample of the use of GPUs that can be used ({lost})"
            if lost
            else f"has no metric of the use of GPUs, only {', '.join(samples.sources)}",
            expected="DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL",
            hint="fetch one of these for the same GPUs, and name its file with --metrics too",
        )
    if samples.is_instant(use):
        raise InputError(
            path,
            "has one sample of each GPU, as an instant query has",
            expected="samples over the time of the log",
            hint="ask /api/v1/query_range, with start, end and step, not /api/v1/query",
        )


def _overlaps(runs: NodeRuns, span: list[float]) -> bool:
    return bool(((runs.start_s < span[1]) & (runs.end_s > span[0])).any())


def _hint(samples: GpuSamples) -> str:
    return next((hint for what, hint in HINTS.items() if samples.counts[what]), HINT)


def _left_out(samples: GpuSamples) -> str:
    return "; ".join(f"{what}: {count:,}" for what, count in samples.counts.items() if count)


def _why_nothing_joins(
    path: Path, samples: GpuSamples, gpus: Sequence[GpuKey], runs: LogRuns, span: list[float]
) -> InputError:
    """Return why no job has samples."""
    if not gpus:
        problem = _left_out(samples) or "no series of a GPU"
        return InputError(
            path, f"has no sample that can be used ({problem})",
            expected="series of the utilization of GPUs, with their node",
            hint=_hint(samples),
        )  # fmt: skip
    nodes = sorted({gpu.node for gpu in gpus if gpu.node})
    if not nodes:
        jobs = sorted({gpu.job for gpu in gpus})
        return InputError(
            path,
            f"is of jobs that the log does not have, or has without GPUs ({', '.join(jobs[:3])})",
            expected=f"jobs of the log with GPUs, such as {', '.join(sorted(runs.by_job)[:3])}",
            hint="a file of W&B has the name of its run: RUN.jsonl, or run-DATE-RUN/files",
        )
    if not runs.nodes:
        return InputError(
            path,
            "cannot be joined to the log, which does not tell the nodes of its jobs",
            expected="a log with NodeList, or series with a label of the job",
            hint="have sacct print NodeList too, and keep it with --twin where a trace is made",
        )
    if not set(nodes) & runs.nodes:
        return InputError(
            path,
            f"is of nodes that the log does not have ({', '.join(nodes[:3])})",
            expected=f"nodes of the log, such as {', '.join(sorted(runs.nodes)[:3])}",
            hint="fetch the series of these nodes, or name a file of nvidia-smi after its node",
        )
    if any(_overlaps(runs.by_node[node], span) for node in nodes if node in runs.by_node):
        lost = _left_out(samples)
        return InputError(
            path,
            f"tells the use of no job of the log{f' ({lost})' if lost else ''}",
            expected="samples that can be used of at least half of the time of a job",
            hint=_hint(samples),
        )
    return InputError(
        path,
        f"has no samples within the runs of the log on {counted(len(nodes), 'node')}",
        expected="series of the time of the log",
        hint="check the time zone of the log: --time-zone",
    )


@dataclass(frozen=True, slots=True)
class LogRuns:
    """The runs of the jobs of a log, by node and by id.

    Attributes:
        nodes: nodes of the log.
        by_node: node -> its runs, by start.
        by_job: id of a job -> its runs.
    """

    nodes: frozenset[str]
    by_node: dict[str, NodeRuns]
    by_job: dict[str, NodeRuns]

    @classmethod
    def of(cls, log: Trace) -> LogRuns:
        """Return the runs of a log, each of a requeued job on nodes of its own."""
        runs = log.arrays().runs()
        job, gpus = runs.job, runs.gpus
        start_s, end_s = (np.rint(time_us / MICROS).astype(np.int64)
                          for time_us in (runs.start_us, runs.end_us))  # fmt: skip
        whole_gpus = np.maximum(np.rint(gpus), 1).astype(np.int64)
        columns = (job, start_s, end_s, whole_gpus)
        jobs, first, count = np.unique(job, return_index=True, return_counts=True)
        by_job = {
            name: NodeRuns(*(column[begin : begin + several] for column in columns))
            for name, begin, several in zip(
                log.jobs["job_id"].gather(jobs).to_list(), first, count, strict=True
            )
        }
        rows: dict[str, list[int]] = {}
        per_node = np.zeros(job.size, np.int64)
        hosts: dict[str | None, tuple[str, ...]] = {}
        for i, text in enumerate(node_lists(log, job, first, count)):
            if text not in hosts:
                hosts[text] = tuple(hosts_of(text))
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
