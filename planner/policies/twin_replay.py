"""Replays of a trace under the rules of a Slurm site, as the comparison takes them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.site.document import SiteDocument, read_twin
from gpuplan.analysis.site.log import SITE_COLUMNS, SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.storage.files import existing_file
from gpuplan.planner.policies.cluster_replay import ClusterReplay, replay_settings, replayed
from gpuplan.planner.policies.quota_settings import SITE
from gpuplan.planner.runs.settings import Setting, SettingError
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.twin.settings import LEVELS, config_of, level_config, site_of
from gpuplan.planner.twin.workload import SiteWorkload, site_run, site_workload
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import ClusterRun
from gpuplan.simkit.run import usage_of_gangs
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.twin.refusals import REASONS
from gpuplan.simkit.twin.simulator import refusals_of
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

CALIBRATE = "gpuplan calibrate LOG --slurm-conf slurm.conf -o twin.toml"
LOG = logging.getLogger("gpuplan")
MOST_NAMED = 5
MOST_PARTITIONS = 12


@dataclass(frozen=True, slots=True)
class _Case:
    """The jobs of a trace at a site.

    Attributes:
        site, config: its cluster and rules.
        work: the jobs, in whole seconds after 1970, or after the first where a trace tells no time.
        usable: nodes of partitions in which a job is.
        notes: what a reader must know.
    """

    site: SiteCluster
    config: SchedulerConfig
    work: SiteWorkload
    usable: BoolArray
    notes: tuple[str, ...]

    @property
    def gpus(self) -> int:
        """GPUs of the nodes that a job may run on."""
        return sum(n.gpus for n, used in zip(self.site.nodes, self.usable, strict=True) if used)

    @property
    def gpus_by_type(self) -> dict[str, int]:
        """The same by GPU type, where jobs keep to one of several; else empty."""
        by_type: dict[str, int] = {}
        for node, used in zip(self.site.nodes, self.usable, strict=True):
            if used:
                kind = gpu_name(node.gpu_type)
                by_type[kind] = by_type.get(kind, 0) + node.gpus
        jobs = self.work.jobs
        is_kept = any(jobs.gpu_types[code] for code in np.unique(jobs.gpu_type))
        return by_type if is_kept and len(by_type) > 1 else {}


def twin_replay(
    name: str, settings_of: Mapping[str, Setting], jobs: TraceJobs, typed: Mapping[str, Any]
) -> Simulation:
    """Return the replay of jobs under the rules of a Slurm site.

    Every job is submitted when it was, runs as long as it did, and is held back by nothing but the
    rules: begin times, dependencies and reservations do not count, as under every other policy.

    Raises:
        InputError: the settings of the site cannot be used.
        UsageError: none are given, or a job names a partition that they lack.
    """
    settings = replay_settings(name, settings_of, typed)
    case = _case(name, jobs, settings.values)
    site_jobs, work = case.work.jobs, jobs.workload
    run = site_run(case.site, site_jobs, case.config)
    is_started = run.start >= 0
    first_us = _first_us(jobs)
    start = np.maximum(run.start * MICROS - first_us, work.submit_us)
    last = int((start + work.service_us)[is_started].max(initial=int(work.submit_us[-1])))
    start = np.where(is_started, start, last)
    end = np.where(is_started, start + work.service_us, last)
    usage = usage_of_gangs(work.submit_us, start, end, work.gpus)
    none = np.zeros(work.size, np.int64)
    partition = case.work.names("partition")
    return replayed(
        jobs,
        settings,
        ClusterReplay(
            run=ClusterRun(
                work, Cluster(case.gpus), start, end, end - start, none, usage.time_us,
                usage.used, usage.waiting, np.nan, 0,  # not measured
            ),
            size={"gpus": case.gpus},
            notes=(*case.notes, *_unstarted(jobs, ~is_started)),
            columns=lambda: {"partition": partition.tolist()},
            gpus_by_type=case.gpus_by_type,
            site_gpus=sum(node.gpus for node in case.site.nodes),
        ),
    )  # fmt: skip


def refused_jobs(name: str, jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that the site refuses at once, by their places. Raises as `twin_replay`."""
    case = _case(name, jobs, values)
    codes = refusals_of(case.site, case.work.jobs, case.config)
    places = np.flatnonzero(codes)
    counts = Counter(REASONS[code] for code in codes[places].tolist())
    if counts:
        why = listed([f"{count:,} for {reason}" for reason, count in counts.most_common()])
        LOG.warning("%s: the site refuses %s: %s", name, counted(places.size, "job"), why)
    return places


def site_gpus(path: Path) -> int:
    """Return the GPUs of a Slurm site. Raises `InputError`."""
    return sum(node.gpus for node in site_of(read_settings(path)[0]).nodes)


def read_settings(path: Path) -> tuple[SiteDocument, CalibrationTable]:
    """Return the settings of a site; a file that was just read is not read again.

    Raises `InputError`.
    """
    existing_file(path)
    return _read(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *_: int) -> tuple[SiteDocument, CalibrationTable]:
    return read_twin(path)


def _case(policy: str, jobs: TraceJobs, values: Mapping[str, Any]) -> _Case:
    path = values.get(SITE)
    if path is None:
        raise SettingError(
            [SITE],
            f"{policy} replays the rules of a Slurm site, and none is given",
            f"--site twin.toml; {CALIBRATE}",
            "--site",
        )
    document, calibration = read_settings(Path(path))
    log = _log_of(jobs)
    named = log.jobs.select("account", "user").drop_nulls().unique().sort("account", "user")
    site = site_of(document, named.rows())
    log = _of_its_types(_in_partitions(policy, Path(path), log, site), site)
    work = site_workload(log, site, warmup_s=0, limit_factor=calibration.limit_factor)
    find_named(calibration.level, dict.fromkeys(LEVELS), f"{path}: calibration.level", "level")
    config = level_config(config_of(document), calibration.level)
    names = set(log.jobs["partition"])
    nodes = {node for part in site.partitions if part.name in names for node in part.nodes}
    usable = np.array([node.name in nodes for node in site.nodes], np.bool_)
    notes = list(work.notes)
    if elsewhere := sum(n.gpus for n, used in zip(site.nodes, usable, strict=True) if not used):
        notes.append(
            f"{counted(elsewhere, 'GPU')} of the site do not count: no job is in their partitions; "
            "--gpus gives other policies as many"
        )
    if site.events and calibration.level == LEVELS[-1]:
        notes.append(
            f"drains and maintenance of the site count, in the time zone {calibration.time_zone}: "
            "read the log with it too (--time-zone)"
        )
    return _Case(site, config, work, usable, tuple(notes))


def _first_us(jobs: TraceJobs) -> int:
    """Return the first submission, in whole seconds of microseconds; 0 where no date is known."""
    return (jobs.first_submit_us or 0) // MICROS * MICROS


def _log_of(jobs: TraceJobs) -> SiteLog:
    """Return the jobs as a log in which each starts as it comes; what is unknown is null."""
    work, first_us = jobs.workload, _first_us(jobs)
    kept = pl.DataFrame({"job_id": jobs.job_id})
    if jobs.queues is not None:
        kept = kept.with_columns(jobs.queues)
    if jobs.limit_us is not None:
        limit_s = -(-jobs.limit_us // MICROS)
        kept = kept.with_columns(pl.Series("limit_s", np.where(jobs.limit_us < 0, -1, limit_s)))

    def column(*names: str) -> pl.Expr:
        columns = [pl.col(name) for name in names if name in kept.columns]
        return pl.coalesce(columns) if columns else pl.lit(None)

    submit = pl.Series(-(-work.submit_us // MICROS) + first_us // MICROS)
    run_s = pl.Series(-(-work.service_us // MICROS))
    limit = column("limit_s")
    cells: dict[str, pl.Expr | pl.Series] = {
        "job_id": pl.col("job_id"), "submit": submit, "start": submit, "end": submit + run_s,
        "run_s": run_s, "gpus": pl.Series(work.gpus), "limit_s": pl.when(limit > 0).then(limit),
        "account": column("account", "group"), "nodes": column("req_nodes"),
        "gpu_type": column("gres_type", "gpu_type"), "state": pl.lit("completed"),
        **{name: column(name) for name in ("user", "partition", "qos", "billing")},
    }  # fmt: skip
    table = kept.select(
        cells.get(name, pl.lit(None)).cast(kind).alias(name) for name, kind in SITE_COLUMNS.items()
    )
    lacks = ("eligible",) if jobs.limit_us is not None else ("eligible", "limit_s")
    return SiteLog(table, Path("trace"), "", "trace", missing=lacks)


def _in_partitions(policy: str, path: Path, log: SiteLog, site: SiteCluster) -> SiteLog:
    """Return the log with the partition of every job; at a site of one, jobs need not name it.

    Raises `SettingError` where a job names none of several, or one that the site does not have.
    """
    names = [partition.name for partition in site.partitions]
    column = log.jobs["partition"]
    if len(names) == 1:
        column = column.fill_null(names[0])
    strange = ~column.is_in(names).fill_null(False)
    if strange.any():
        at = int(strange.arg_max() or 0)
        job = f"job {log.jobs['job_id'][at]}"
        named = column[at]
        problem = f"{job} names no partition" if named is None else f"{job} is in {named!r}"
        expected = listed(names, MOST_PARTITIONS)
        raise SettingError(
            [SITE],
            f"{policy}: {problem}, and {path} has the partitions {expected}",
            "the twin of the site that wrote the log, and the log itself or what ingest --twin "
            "makes of it",
            "--site",
        )
    return replace(log, jobs=log.jobs.with_columns(column.alias("partition")))


def _of_its_types(log: SiteLog, site: SiteCluster) -> SiteLog:
    """Return the log with GPU types as the site writes them: the ``a100`` that is an A100-80GB."""
    kinds = dict.fromkeys(node.gpu_type for node in site.nodes)
    column = log.jobs["gpu_type"]
    same = {
        name: next((kind for kind in kinds if same_gpu(name, kind)), name)
        for name in column.drop_nulls().unique()
        if name not in kinds
    }
    return replace(log, jobs=log.jobs.with_columns(column.replace(same)))


def _unstarted(jobs: TraceJobs, never: BoolArray) -> tuple[str, ...]:
    """Return what to say of jobs that still wait when all others have ended."""
    if not never.any():
        return ()
    some = listed([jobs.job_id[int(at)] for at in np.flatnonzero(never)[:MOST_NAMED]])
    return (
        f"{counted(int(never.sum()), 'job')} never start under these rules ({some}); they count as "
        "if they had waited to the end and left",
    )
