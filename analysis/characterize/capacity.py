"""Whether jobs held more GPUs than the cluster has, which a log of right times cannot show.

The cluster is the one that the user names, or the nodes that the log names. What these held tells
their size: a node has the GPUs of the largest part of a job on it, and those that it held for long.
Times that are read in the wrong zone make jobs overlap for an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.time_units import DAY_US, HOUR_US, MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, held_over_time
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.history.runs import written
from gpuplan.analysis.job_table.notation import expand_hosts
from gpuplan.analysis.kubernetes.heads import LOG_FORMATS
from gpuplan.analysis.trace.trace import Trace

NODES = "node_list"
"""Column of the nodes of a job; only traces of some logs have it."""
SHORT_US = 2 * HOUR_US
"""A clock that is set back makes jobs overlap for an hour; a node that holds GPUs for longer has
them."""
YEAR_US = 365 * DAY_US


@dataclass(frozen=True, slots=True)
class TimeAbove:
    """The time in which jobs held more GPUs than there are.

    Attributes:
        peak_gpus: most GPUs held at once.
        hours: how long in all.
        when: the first and the last instant, in words.
        has_local_times: whether the log may have local times that are read as UTC.
        has_gone_nodes: whether the log names only nodes that are there when it is written.
    """

    peak_gpus: float
    hours: float
    when: str
    has_local_times: bool
    has_gone_nodes: bool = False

    def warning(self, gpu_type: str | None, cluster: str) -> str:
        """Return a sentence that names the hours.

        Args:
            gpu_type: of the GPUs; None for all.
            cluster: what there is, such as ``the 80 of --cluster``.
        """
        what = f"{gpu_type} GPUs" if gpu_type else "GPUs"
        hint, hours = "", f"{self.hours:,.0f}" if self.hours >= 10 else f"{self.hours:.2g}"
        if self.has_local_times:
            hint = "\n  next: if the log's times are local, --time-zone NAME reads them right"
        elif self.has_gone_nodes:
            hint = "; nodes that are gone are not in the log"
        return (
            f"jobs held up to {self.peak_gpus:,.0f} {what} at once, more than {cluster}, for "
            f"{hours} h {self.when}{hint}"
        )


def time_above(trace: Trace, chosen: BoolArray, gpus: float) -> TimeAbove | None:
    """Return when some jobs of a trace held more GPUs than ``gpus``; None if they never did."""
    jobs = trace.arrays().only(chosen)
    if not jobs.holding().any():
        return None
    times, held, _ = held_over_time(jobs)
    lasting = np.diff(times, append=times[-1:])
    at = np.flatnonzero((held > gpus * PARTS_PER_GPU) & (lasting > 0))
    if not at.size:
        return None
    is_of_kubernetes = trace.provenance.source_format in LOG_FORMATS
    begin, end = int(times[at[0]]), int(times[at[-1]] + lasting[at[-1]])
    when = f"between {begin / HOUR_US:,.1f} h and {end / HOUR_US:,.1f} h of the log"
    if not trace.provenance.relative_time:
        first = int(jobs.submit_us[0] if jobs.period is None else jobs.period[0])
        begin_text, end_text = (written(first + edge)[:16] for edge in (begin, end))
        when = f"between {begin_text} and {end_text} UTC"
    return TimeAbove(
        peak_gpus=float(held[at].max()) / PARTS_PER_GPU,
        hours=float(lasting[at].sum()) / HOUR_US,
        when=when,
        has_local_times=trace.provenance.time_zone == "UTC" and not is_of_kubernetes,
        has_gone_nodes=is_of_kubernetes,
    )


@dataclass(frozen=True, slots=True)
class PeakAboveNodes:
    """A peak of GPUs held that the nodes in the log cannot have had.

    Attributes:
        gpu_type: their type.
        gpus: of the nodes.
        above: when jobs seem to have held more.
        warning: a sentence that says so.
    """

    gpu_type: str
    gpus: int
    above: TimeAbove
    warning: str


def warnings_above_nodes(trace: Trace) -> tuple[str, ...]:
    """Return a warning per GPU type of which jobs held more than the nodes in the log have.

    Args:
        trace: as `peaks_above_nodes` takes it.
    """
    return tuple(peak.warning for peak in peaks_above_nodes(trace))


def peaks_above_nodes(trace: Trace) -> tuple[PeakAboveNodes, ...]:
    """Return the GPU types of which jobs held more than the nodes in the log have.

    Args:
        trace: with the columns of `today`; without `NODES` nothing is known.
    """
    if NODES not in trace.jobs.columns:
        return ()
    jobs = trace.arrays()
    types = trace.jobs["gpu_type"].cast(pl.String)
    peaks = []
    for gpu_type in sorted(types.unique().drop_nulls().to_list()):
        of_type = (types == gpu_type).fill_null(False).to_numpy() & jobs.holding()
        on_nodes = _on_nodes(trace.jobs[NODES], jobs, of_type)
        if on_nodes is None:
            continue
        nodes, size = on_nodes.count, float(on_nodes.gpus.max())
        above = time_above(trace, of_type, nodes * size)
        if above is None:
            continue
        size = max(size, on_nodes.usual_gpus(jobs.window_us()))
        above = time_above(trace, of_type, nodes * size)
        if above is not None:
            cluster = (
                f"the {nodes * size:,.0f} of the {counted(nodes, 'node')} that the log names, of "
                f"{size:,.0f} each"
            )
            warning = above.warning(gpu_type, cluster)
            peaks.append(PeakAboveNodes(gpu_type, round(nodes * size), above, warning))
    return tuple(peaks)


@dataclass(frozen=True, slots=True)
class _OnNodes:
    """Parts of runs on nodes: arrays of shape (m,)."""

    node: IntArray
    start_us: IntArray
    end_us: IntArray
    gpus: FloatArray
    count: int

    def usual_gpus(self, window_us: tuple[int, int]) -> float:
        """Return the most GPUs that a node held for longer than clocks explain."""
        short_us = SHORT_US + HOUR_US * ((window_us[1] - window_us[0]) / YEAR_US)
        node = np.concatenate([self.node, self.node])
        at = np.concatenate([self.end_us, self.start_us])
        change = np.concatenate([-self.gpus, self.gpus])
        order = np.lexsort((change, at, node))
        node, at, change = node[order], at[order], change[order]
        held = np.rint(np.cumsum(change) * MICROS) / MICROS  # every node ends at 0
        lasting = np.where(np.append(node[1:] == node[:-1], False), np.diff(at, append=at[-1:]), 0)
        usual = 0.0
        for level in np.unique(np.ceil(held)):
            is_high = held > level - 1
            most = np.bincount(node[is_high], lasting[is_high], self.count).max()
            usual = float(level) if most > short_us else usual
        return usual


def _on_nodes(lists: pl.Series, jobs: JobArrays, chosen: BoolArray) -> _OnNodes | None:
    """Return the parts of the chosen jobs' runs; None where a job's nodes are not known.

    Requeued jobs are left out: the column tells the nodes of their first run.
    """
    runs = jobs.only(chosen).runs()
    if jobs.requeued is not None:
        runs = runs.chosen(~np.isin(runs.job, jobs.requeued.job))
    written_lists = lists.cast(pl.String).gather(runs.job)
    if not len(written_lists) or written_lists.null_count():
        return None
    try:
        names = {text: expand_hosts(text) for text in written_lists.unique().to_list()}
    except ValueError:
        return None
    every = dict.fromkeys(name for of_list in names.values() for name in of_list)
    places = {name: i for i, name in enumerate(every)}
    if not places or not all(names.values()):
        return None
    counts = np.array([len(names[text]) for text in written_lists.to_list()])
    node = np.array([places[name] for text in written_lists.to_list() for name in names[text]])
    run = np.repeat(np.arange(counts.size), counts)
    return _OnNodes(
        node, runs.start_us[run], runs.end_us[run], (runs.gpus / counts)[run], len(places)
    )
