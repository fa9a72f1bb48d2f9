"""What series of GPU metrics say of the jobs of a log: a row per job, to join with its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.metrics.registry import read_samples
from gpuplan.analysis.metrics.samples import (
    ENGINE,
    MEMORY_FREE_MIB,
    MEMORY_MIB,
    MEMORY_SHARE,
    POWER_W,
    UTILIZATION,
    GpuKey,
    GpuSamples,
    Series,
)
from gpuplan.analysis.reading.inputs import opened_inputs
from gpuplan.analysis.reading.source import SourceStream
from gpuplan.analysis.site.notation import expand_hosts
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.clocks import ClockCheck
from gpuplan.analysis.waste.gpu_use import GpuUse, gpu_use
from gpuplan.analysis.waste.holders import NodeRuns, busy_times, held_gpus
from gpuplan.analysis.waste.kinds import COLUMNS as KIND_COLUMNS

COLUMNS = KIND_COLUMNS
OPTIONAL = ("node_list",)
"""Columns of a trace that `read_metrics` reads; the latter where the trace has them."""
MIB_PER_GIB = 1024.0
J_PER_KWH = 3.6e6
METRICS = (ENGINE, UTILIZATION, MEMORY_MIB, MEMORY_FREE_MIB, MEMORY_SHARE, POWER_W)
SHARE_HOURS = "hours with a share of memory"

JOB_COLUMNS: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "covered_gpu_h": pl.Float64(),
    "covered_share": pl.Float64(),
    "gpu_util_mean": pl.Float64(),
    "gpus_never_used": pl.Float64(),
    "never_used_gpu_h": pl.Float64(),
    "idle_begin_gpu_h": pl.Float64(),
    "idle_end_gpu_h": pl.Float64(),
    "gpu_mem_used_share": pl.Float64(),
    "gpu_mem_used_gib": pl.Float64(),
    "gpu_mem_total_gib": pl.Float64(),
    "energy_kwh": pl.Float64(),
    "energy_covered_gpu_h": pl.Float64(),
}
"""Columns of `MetricSummary.jobs`."""


@dataclass(frozen=True, slots=True)
class IdleRules:
    """When a GPU idles.

    Attributes:
        idle_percent: largest utilization, in percent, at which it does.
        least_h: hours that an idle stretch at an end of a job must exceed.
    """

    idle_percent: float = 0.0
    least_h: float = 2.0


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """What series say of jobs.

    Attributes:
        jobs: a row per job that has samples, with `JOB_COLUMNS`; energy and memory are null where
            they were not measured.
        inputs: the files, with their samples.
        nodes: nodes with samples that the log has too.
        gpus: GPUs with samples.
        samples: samples read, with copies and those that could not be used.
        step_s: usual seconds between two samples of a GPU.
        begin_s, end_s: first and last sample, seconds since 1970.
        held_gpu_h: GPU-hours that all jobs of the log held.
        covered_gpu_h: of these, those with samples.
        metrics: names of the metrics read.
        notes: what was left out, one sentence each.
        warnings: what makes the summary doubtful.
    """

    jobs: pl.DataFrame
    inputs: tuple[InputFile, ...]
    nodes: int
    gpus: int
    samples: int
    step_s: float
    begin_s: float
    end_s: float
    held_gpu_h: float
    covered_gpu_h: float
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def read_metrics(
    paths: Sequence[Path], log: Trace, rules: IdleRules | None = None
) -> MetricSummary:
    """Read series of metrics and join them to the jobs of a log.

    A series belongs to the job that a label names, else to the jobs that ran on its node at the
    time: see `gpuplan.analysis.waste.holders`. Of a requeued job only the first run is joined, as
    the log tells its nodes alone.

    Args:
        paths: files, folders or archives, of formats that may differ.
        log: jobs with `COLUMNS`, and `OPTIONAL` where they have them.
        rules: when a GPU idles.

    Raises:
        InputError: a file cannot be read or is no series of metrics, or none is of the log.
    """
    runs = _LogRuns.of(log)
    samples, inputs = GpuSamples(), list[InputFile]()
    with opened_inputs(paths, None, lambda source: True) as opened:
        for source in opened.sources:
            before = samples.read
            with closing(SourceStream(source)) as stream:
                read_samples(stream, samples, runs.nodes, log.provenance.time_zone)
                digest = stream.sha256()
            inputs.append(InputFile(str(source.path), digest, samples.read - before))
    summary = _Summary(log.jobs.height, rules or IdleRules())
    span = [np.inf, -np.inf]
    steps: list[float] = []
    clocks = ClockCheck()
    gpus = samples.gpus()
    nodes_joined = set[str]()
    for node, keys_of_gpus, node_runs in _joined(gpus, runs):
        parts = [_GpuSeries.of(samples, keys) for keys in keys_of_gpus]
        usable = [part for part in parts if part is not None]
        for part in usable:
            span = [min(span[0], part.use.time_s[0]), max(span[1], part.use.time_s[-1])]
            steps.append(part.use.step_s)
        if not usable or not node_runs.job.size:
            continue
        if node is None:
            held = np.ones((node_runs.job.size, len(usable)), np.bool_)
        else:
            nodes_joined.add(node)
            held = held_gpus(node_runs, [busy_times(p.memory, p.use) for p in usable])
            clocks.add(node_runs, [part.use for part in usable])
        for place, part in enumerate(usable):
            summary.add(part, node_runs, held[:, place])
    held_h = log.arrays().gpu_s / HOUR_S
    jobs = summary.frame(log.jobs["job_id"], held_h)
    if not jobs.height:
        raise _nothing_joined(paths[0], samples, gpus, runs, span)
    warning = clocks.warning()
    return MetricSummary(
        jobs=jobs,
        inputs=tuple(inputs),
        nodes=len(nodes_joined),
        gpus=len({(gpu.node, gpu.gpu) for gpu in gpus}),
        samples=samples.read,
        step_s=float(np.median(steps)),
        begin_s=float(span[0]),
        end_s=float(span[1]),
        held_gpu_h=float(held_h.sum()),
        covered_gpu_h=float(jobs["covered_gpu_h"].sum()),
        metrics=tuple(samples.sources),
        notes=tuple(f"{what}: {count:,}" for what, count in samples.counts.items() if count),
        warnings=() if warning is None else (warning,),
    )


@dataclass(frozen=True, slots=True)
class _LogRuns:
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
    def of(cls, log: Trace) -> _LogRuns:
        """Return the runs of a log."""
        runs = log.arrays().runs()
        first = np.unique(runs.job, return_index=True)[1]
        job, gpus = runs.job[first], runs.gpus[first]
        start_s, end_s = (np.rint(t[first] / MICROS).astype(np.int64)
                          for t in (runs.start_us, runs.end_us))  # fmt: skip
        names = log.jobs["job_id"].gather(job).to_list()
        whole = np.maximum(np.rint(gpus), 1).astype(np.int64)
        by_job = {
            name: NodeRuns(*(column[i : i + 1] for column in (job, start_s, end_s, whole)))
            for i, name in enumerate(names)
        }
        rows: dict[str, list[int]] = {}
        per_node = np.zeros(job.size, np.int64)
        if "node_list" in log.jobs.columns:
            hosts = {text: _hosts(text) for text in log.jobs["node_list"].unique().to_list()}
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


def _hosts(text: str | None) -> list[str]:
    try:
        return expand_hosts(text) if text else []
    except ValueError:
        return []


def _joined(
    gpus: Sequence[GpuKey], runs: _LogRuns
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


@dataclass(frozen=True, slots=True)
class _GpuSeries:
    """The series of one GPU.

    Attributes:
        use: utilization: the engine's where it is there.
        other: utilization of the other kind.
    """

    use: Series
    other: Series | None
    memory: Series | None
    memory_free: Series | None
    memory_share: Series | None
    power: Series | None

    @classmethod
    def of(cls, samples: GpuSamples, keys: Sequence[GpuKey]) -> _GpuSeries | None:
        """Return the series of a GPU; None where its use was sampled less than twice."""
        engine, utilization, *others = (samples.take(keys, metric) for metric in METRICS)
        usable = [u for u in (engine, utilization) if u is not None and u.time_s.size > 1]
        if not usable:
            return None
        return cls(usable[0], usable[1] if len(usable) > 1 else None, *others)


class _Summary:
    """Sums over the GPUs of each job."""

    def __init__(self, jobs: int, rules: IdleRules) -> None:
        self._rules = rules
        names = [name for name in JOB_COLUMNS if name not in ("job_id", "covered_share")]
        self._sums: dict[str, FloatArray] = {name: np.zeros(jobs) for name in (*names, SHARE_HOURS)}
        self._largest = {
            name: np.full(jobs, np.nan) for name in ("gpu_mem_used_gib", "gpu_mem_total_gib")
        }

    def add(self, gpu: _GpuSeries, runs: NodeRuns, held: BoolArray) -> None:
        """Count what a GPU did in the runs that held it; a job may count several times."""
        job, start_s, end_s = runs.job[held], runs.start_s[held], runs.end_s[held]
        if not job.size:
            return
        use = self._use(gpu, start_s, end_s)
        hours = use.covered_s / HOUR_S
        is_covered = hours > 0
        least_s = self._rules.least_h * HOUR_S
        never = np.where(is_covered & ~use.is_used, hours, 0.0)
        self._count("covered_gpu_h", job, hours)
        self._count("gpu_util_mean", job, np.where(is_covered, hours * use.mean, 0.0))
        self._count("gpus_never_used", job, (never > 0).astype(np.float64))
        self._count("never_used_gpu_h", job, never)
        for name, idle_s in (("idle_begin_gpu_h", use.begin_s), ("idle_end_gpu_h", use.end_s)):
            self._count(name, job, np.where(idle_s > least_s, idle_s, 0.0) / HOUR_S)
        self._memory(gpu, job, start_s, end_s)
        if gpu.power is not None and gpu.power.time_s.size > 1:
            power = gpu_use(gpu.power, start_s, end_s, 0.0)
            joules = np.nan_to_num(power.mean) * power.covered_s
            self._count("energy_kwh", job, joules / J_PER_KWH)
            self._count("energy_covered_gpu_h", job, power.covered_s / HOUR_S)

    def _use(self, gpu: _GpuSeries, start_s: IntArray, end_s: IntArray) -> GpuUse:
        """Return the use by the better metric, or the other where only that was sampled."""
        use = gpu_use(gpu.use, start_s, end_s, self._rules.idle_percent)
        if gpu.other is None:
            return use
        other = gpu_use(gpu.other, start_s, end_s, self._rules.idle_percent)
        is_better = use.covered_s >= other.covered_s * 0.5
        return GpuUse(
            *(
                np.where(is_better, getattr(use, name), getattr(other, name))
                for name in ("covered_s", "mean", "most", "is_used", "begin_s", "end_s")
            )
        )

    def _memory(self, gpu: _GpuSeries, job: IntArray, start_s: IntArray, end_s: IntArray) -> None:
        """Count memory: where its total is known, or the share is measured, its share too."""
        share, of_share = gpu.memory_share, 100.0
        if gpu.memory is not None and gpu.memory.time_s.size > 1:
            used = gpu_use(gpu.memory, start_s, end_s, 0.0).most / MIB_PER_GIB
            np.fmax.at(self._largest["gpu_mem_used_gib"], job, used)
            if gpu.memory_free is not None:
                share, of_share = gpu.memory, _total_mib(gpu.memory, gpu.memory_free)
                total = np.full(job.size, of_share / MIB_PER_GIB)
                np.fmax.at(self._largest["gpu_mem_total_gib"], job, total)
        if share is not None and share.time_s.size > 1:
            mean = gpu_use(share, start_s, end_s, 0.0)
            hours = mean.covered_s / HOUR_S
            self._count("gpu_mem_used_share", job, hours * np.nan_to_num(mean.mean) / of_share)
            self._count(SHARE_HOURS, job, hours)

    def _count(self, name: str, job: IntArray, values: FloatArray) -> None:
        np.add.at(self._sums[name], job, values)

    def frame(self, job_id: pl.Series, held_h: FloatArray) -> pl.DataFrame:
        """Return `JOB_COLUMNS` of the jobs that have samples."""
        sums = self._sums
        covered, energy_h = sums["covered_gpu_h"], sums["energy_covered_gpu_h"]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = {
                **sums,
                **self._largest,
                "covered_share": np.minimum(covered / held_h, 1.0),
                "gpu_util_mean": sums["gpu_util_mean"] / covered,
                "gpu_mem_used_share": sums["gpu_mem_used_share"] / sums[SHARE_HOURS],
                "energy_kwh": np.where(energy_h > 0, sums["energy_kwh"], np.nan),
            }
        frame = pl.DataFrame({"job_id": job_id, **values}).select(
            pl.col(name).cast(kind) for name, kind in JOB_COLUMNS.items()
        )
        return frame.filter(pl.col("covered_gpu_h") > 0).with_columns(
            pl.selectors.float().fill_nan(None)
        )


def _total_mib(used: Series, free: Series) -> float:
    """Return the memory of a GPU: used and free at the times when both were sampled."""
    _, of_used, of_free = np.intersect1d(used.time_s, free.time_s, return_indices=True)
    if not of_used.size:
        return float(used.values.max() + free.values.max())
    return float((used.values[of_used] + free.values[of_free]).max())


def _nothing_joined(
    path: Path, samples: GpuSamples, gpus: Sequence[GpuKey], runs: _LogRuns, span: list[float]
) -> InputError:
    """Return why no job has samples."""
    if not gpus:
        told = "; ".join(f"{what}: {count:,}" for what, count in samples.counts.items() if count)
        return InputError(
            path, f"has no sample that can be used ({told or 'no series of a GPU'})",
            expected="series of the utilization of GPUs, with their node",
        )  # fmt: skip
    if not runs.nodes:
        return InputError(
            path,
            "cannot be joined to the log, which does not tell the nodes of its jobs",
            expected="a log with NodeList, or series with a label of the job",
            hint="have sacct print NodeList too, and keep it with --twin where a trace is made",
        )
    nodes = sorted({gpu.node for gpu in gpus})
    if not set(nodes) & runs.nodes:
        return InputError(
            path,
            f"is of nodes that the log does not have ({', '.join(nodes[:3])})",
            expected=f"nodes of the log, such as {', '.join(sorted(runs.nodes)[:3])}",
        )
    return InputError(
        path,
        f"has no samples within the runs of the log on {counted(len(nodes), 'node')}",
        expected="series of the time of the log",
        hint="check the time zone of the log: --time-zone",
    )
