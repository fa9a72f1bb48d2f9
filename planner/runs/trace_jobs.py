"""From a trace to the jobs a simulator runs: what is left out, and where deadlines come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.history.jobs import BY, PeriodUs, job_arrays
from gpuplan.analysis.job_table.schema import LIMIT_COLUMN
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.user_tables.checkpoints import EVERY_OTHER
from gpuplan.planner.runs.deadlines import check_factor, soft_deadlines
from gpuplan.planner.runs.job_rates import JobRates, RateSource
from gpuplan.planner.runs.whole_gpus import whole_gpus_note
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.time import CENTURY_S, MICROS, to_micros
from gpuplan.simkit.workload import Workload

COLUMNS = ("job_id", "submit_time", "duration_s", "num_gpus", "deadline_s", "state")
BYTES_PER_JOB = 200
"""Table of jobs, time line and what is measured, of a replay on one cluster."""

LABELS = tuple(BY.values())
"""Columns that say whose a job is."""

OF_TENANTS = ("priority", "group", "gpu_type", "num_workers")
"""Columns for policies that tell high-priority and spot jobs apart."""

QUEUE_COLUMNS = (
    "cluster_queue",
    "queue",
    "partition",
    "qos",
    "account",
    "group",
    "user",
    "job_class",
)
"""Columns that may say in which queue of a site a job waits; the first that names one counts."""
RECORDED_PRIORITY = "recorded_priority"
PREEMPTIBLE = "preemptible"
OF_QUEUES = (
    *QUEUE_COLUMNS, RECORDED_PRIORITY, PREEMPTIBLE, "priority", "gpu_type", "num_workers",
    "gres_type", "req_nodes", "billing",
)  # fmt: skip
"""Columns for policies that replay the queues of a site, where a trace has them."""


@dataclass(frozen=True, slots=True)
class Tenants:
    """Whose jobs are replayed, and on which GPUs; in the order of the jobs.

    Attributes:
        is_spot: whether each may be evicted; shape (n,).
        group: whose it is; null where unknown.
        gpu_type: the GPU type that it asks for; null for any.
        pods: workers of each, >= 1; shape (n,).
        has_priorities: whether the trace or the user says which jobs are spot.
    """

    is_spot: BoolArray
    group: pl.Series
    gpu_type: pl.Series
    pods: IntArray
    has_priorities: bool


@dataclass(frozen=True, slots=True)
class TraceJobs:
    """The jobs of a trace that can be replayed.

    Attributes:
        workload: the jobs, times after the first submission among them.
        job_id: their names, in the same order.
        notes: what was left out or assumed, one sentence each.
        first_submit_us: the first submission, microseconds of the Unix epoch; None where the trace
            has no calendar.
        job_class: the class of each, in the same order; None where it was not read.
        limit_us: the recorded time limit of each, microseconds, -1 where there is none; None where
            the trace has no limits.
        window_us: of the log, on the clock of the workload, so that it may begin before 0; every
            policy is charged for it. None where each is charged until its own last finish.
        deadline_note: what to say to those who read deadlines, where they are assumed.
        has_deadlines: whether deadlines are the log's own or were requested.
        rates: how fast each runs on each GPU type; None where that was not asked. Durations are
            then those on the fastest type.
        tenants: priorities, groups and GPU types; None where they were not read.
        by: what waits are split by, of `analysis.history.jobs.BY`; empty where they are not.
        labels: whose each job is, in the same order: the canonical columns that were read.
        queues: what may say in which queue of a site each waits, in the same order; None where it
            was not read.
        recorded_wait_s: wait of each that the log recorded, seconds, NaN where it is unknown; None
            where it was not read.
    """

    workload: Workload
    job_id: pl.Series
    notes: tuple[str, ...]
    first_submit_us: int | None = None
    job_class: pl.Series | None = None
    limit_us: IntArray | None = None
    window_us: PeriodUs | None = None
    deadline_note: str = ""
    has_deadlines: bool = True
    rates: JobRates | None = None
    tenants: Tenants | None = None
    by: tuple[str, ...] = ()
    labels: pl.DataFrame | None = None
    recorded_wait_s: FloatArray | None = None
    queues: pl.DataFrame | None = None

    @property
    def span_s(self) -> float:
        """Seconds from the first submission to the last."""
        return float(self.workload.submit_us[-1] - self.workload.submit_us[0]) / MICROS


def jobs_of(
    trace: Trace,
    rng: np.random.Generator,
    deadline_factor: tuple[float, float] | None = None,
    *,
    deadlines: str | None = None,
    include_running: bool = False,
    checkpoints: Mapping[str, tuple[float, float]] | None = None,
    window_us: PeriodUs | None = None,
    rates: RateSource | None = None,
    by: tuple[str, ...] = (),
    queues: bool = False,
) -> TraceJobs:
    """Return the jobs of a trace that have a duration and use GPUs; those submitted in a period.

    A job holds ``num_gpus`` workers, rounded up; a fraction of a GPU is billed as such where the
    provider bills fractions.

    Args:
        trace: with the columns `COLUMNS`, and those of `INFERRED_FROM` for ``inferred``
            deadlines.
        rng: draws the factors, one per job of the trace.
        deadline_factor: bounds of factors for `soft_deadlines`.
        deadlines: its rule; None stands for ``drawn`` where there are bounds, else for ``given``.
        include_running: replay jobs still running as if they had ended after the time recorded.
        checkpoints: seconds to save and to load a job by class, ``*`` for every other one
            (`read_checkpoints`); the trace then needs ``job_class``. None leaves it to the policy.
        window_us: charge every policy for this time, `JobArrays.window_us` of the log; that of
            the jobs as rated where the log has no run time. The trace then needs ``queue_s``.
        rates: where the rates on several GPU types come from; the trace then needs the columns of
            `gpuplan.planner.runs.job_rates`. None for jobs that take their recorded time.
        by: what waits are split by, of `analysis.history.jobs.BY`; the trace needs the columns.
        queues: keep the columns of `OF_QUEUES` that the trace has.

    Raises:
        InputError: no job of the trace can be replayed, or a class has no checkpoint.
        UsageError: the bounds do not ascend, or nothing uses them.
    """
    rule = check_factor(deadlines, deadline_factor)
    trace = trace.submitted()
    if trace.jobs.is_empty():
        raise InputError(
            trace.path,
            "no job is submitted in the period, so there is none to replay",
            hint="choose another --from or --to",
        )
    jobs = trace.jobs.with_columns(pl.Series("at", rng.uniform(size=trace.jobs.height)))
    rated = None
    if rates is not None:
        rated = rates.apply(trace.path, jobs)
        if window_us is not None and jobs["duration_s"].is_null().all():
            window_us = job_arrays(rated.jobs).window_us()
        jobs = rated.jobs
    timeless, gpuless = jobs["duration_s"].is_null(), jobs["num_gpus"] == 0
    if timeless.all():
        raise InputError(
            trace.path,
            f"none of its {jobs.height:,} jobs has a duration",
            column="duration_s",
            expected="seconds of run time on the recorded GPUs",
            hint="a replay needs run times: gpuplan ingest LOG -o trace.parquet --map "
            "duration_s=COLUMN (or start_time and end_time); gpuplan pareto can take job sizes "
            "from a --speedup profile instead, and a replay on several GPU types from "
            "--throughputs profile:sia",
        )
    timed = ~timeless & ~gpuless
    running = timed & (jobs["state"] == "running").fill_null(False)
    chosen = timed if include_running else timed & (jobs["state"] != "running").fill_null(False)
    without_gpus, without_time = int(gpuless.sum()), int((timeless & ~gpuless).sum())
    still_running, nothing_timed = int(running.sum()), not timed.any()
    kept = jobs if chosen.all() else jobs.filter(chosen)
    del jobs, timeless, gpuless, timed, running, chosen
    if kept.is_empty():
        ended = "" if nothing_timed else " and has ended"
        raise InputError(
            trace.path,
            f"no job has both GPUs and a duration{ended}",
            column="num_gpus" if nothing_timed else "state",
            expected=f"at least one GPU job{ended and ' that is not running'}",
            hint="loosen --where, or use a trace of GPU jobs"
            if nothing_timed
            else "--include-running takes the time that jobs have run so far",
        )
    deadline_s, deadline_notes = soft_deadlines(trace, kept, rule, deadline_factor)
    slack = kept.select("job_id", "duration_s", deadline_s)
    for column in ("duration_s", "deadline_s"):
        _check_unit(trace, slack, column)
    slack_us = to_micros(slack["deadline_s"].to_numpy())
    submit_us = kept["submit_time"].dt.epoch("us").to_numpy()
    first_us = int(submit_us[0])
    submit_us = submit_us - first_us
    if submit_us[-1] > CENTURY_S * MICROS:
        raise InputError(
            trace.path,
            f"the submissions span {submit_us[-1] / MICROS / CENTURY_S * 100:,.0f} years",
            column="submit_time",
            expected="at most a century",
            hint="leave out the times that are wrong with --since and --until",
        )
    gpus = kept["num_gpus"].to_numpy()
    # Without a word about deadlines, those of a log that has none are an assumption.
    are_assumed = rule == "given" and kept["deadline_s"].null_count() == kept.height
    save_us, load_us = (None, None) if checkpoints is None else _overheads(trace, kept, checkpoints)
    workload = Workload(
        submit_us=submit_us,
        service_us=to_micros(kept["duration_s"].to_numpy()),
        gpus=np.ceil(gpus).astype(np.int64),
        deadline_us=submit_us + slack_us,
        billed_gpus=gpus,
        checkpoint_us=save_us,
        restore_us=load_us,
    )
    return TraceJobs(
        workload=workload,
        job_id=kept["job_id"],
        job_class=kept.get_column("job_class", default=None),
        tenants=_tenants(kept),
        by=by,
        labels=kept.select(name for name in LABELS if name in kept.columns),
        queues=kept.select(name for name in OF_QUEUES if name in kept.columns) if queues else None,
        limit_us=_limits(kept),
        recorded_wait_s=_recorded_waits(kept),
        rates=None if rated is None else rated.of(kept),
        first_submit_us=None if trace.provenance.relative_time else first_us,
        window_us=window_us and (window_us[0] - first_us, window_us[1] - first_us),
        deadline_note=" ".join(deadline_notes) if are_assumed else "",
        has_deadlines=not are_assumed,
        notes=tuple(
            [
                *(() if rated is None else rated.notes),
                *_left_out(without_gpus, "they use no GPU", "it uses no GPU"),
                *_left_out(
                    without_time,
                    "they have no duration",
                    "it has no duration",
                ),
                *_running(still_running, include_running),
                *whole_gpus_note(workload),
                *(() if are_assumed else deadline_notes),
            ]
        ),
    )


def first_jobs(jobs: TraceJobs, count: int) -> TraceJobs:
    """Return the first jobs, without rates, tenants, labels and recorded waits."""
    return chosen_jobs(jobs, np.arange(min(count, jobs.workload.size)))


def chosen_jobs(jobs: TraceJobs, places: IntArray, later_us: IntArray | None = None) -> TraceJobs:
    """Return some jobs, without rates, tenants, labels and recorded waits.

    Args:
        jobs: all of them.
        places: of the jobs, in the order of their submissions.
        later_us: by how much each is submitted later; shape of ``places``.
    """
    work = jobs.workload
    columns = {
        column.name: value[places]
        for column in fields(Workload)
        if (value := getattr(work, column.name)) is not None
    }
    if later_us is not None:
        for name in ("submit_us", "deadline_us"):
            columns[name] = columns[name] + later_us
    job_class, limit_us = jobs.job_class, jobs.limit_us
    has_ids = len(jobs.job_id) == work.size
    return replace(
        jobs,
        workload=Workload(**columns),
        job_id=jobs.job_id.gather(places) if has_ids else jobs.job_id,
        job_class=None if job_class is None else job_class.gather(places),
        limit_us=None if limit_us is None else limit_us[places],
        window_us=None,
        by=(),
        rates=None,
        tenants=None,
        labels=None,
        recorded_wait_s=None,
        queues=None if jobs.queues is None else jobs.queues[places],
    )


def replay_bytes(jobs: TraceJobs) -> int:
    """Return about what a replay on one cluster takes besides the jobs."""
    return BYTES_PER_JOB * jobs.workload.size


def _tenants(jobs: pl.DataFrame) -> Tenants | None:
    """Return whose jobs they are; None where the columns were not read."""
    if not set(OF_TENANTS) <= set(jobs.columns):
        return None
    priority = jobs["priority"]
    return Tenants(
        is_spot=(priority == "spot").fill_null(False).to_numpy(),
        group=jobs["group"],
        gpu_type=jobs["gpu_type"],
        pods=jobs["num_workers"].cast(pl.Int64).to_numpy(),
        has_priorities=priority.null_count() < len(priority),
    )


def _limits(jobs: pl.DataFrame) -> IntArray | None:
    """Return the recorded time limits, microseconds; -1 for a job without one."""
    if LIMIT_COLUMN not in jobs.columns:
        return None
    limit_s = jobs[LIMIT_COLUMN].fill_nan(None)
    has_limit = limit_s.is_between(1 / MICROS, CENTURY_S).fill_null(False)
    if not has_limit.any():
        return None
    return np.where(
        has_limit.to_numpy(), to_micros(limit_s.fill_null(0.0).clip(0, CENTURY_S).to_numpy()), -1
    )


def _recorded_waits(jobs: pl.DataFrame) -> FloatArray | None:
    """Return the waits that the log recorded; None where it has none."""
    if "queue_s" not in jobs.columns or jobs["queue_s"].null_count() == jobs.height:
        return None
    wait_s: FloatArray = jobs["queue_s"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return wait_s


def _overheads(
    trace: Trace, jobs: pl.DataFrame, checkpoints: Mapping[str, tuple[float, float]]
) -> tuple[IntArray, IntArray]:
    """Return the time to save and to load each job, microseconds."""
    usual = checkpoints.get(EVERY_OTHER)
    times = {
        name: usual if name is None else checkpoints.get(name, usual)
        for name in jobs["job_class"].unique(maintain_order=True)
    }
    for name, times_s in times.items():
        if times_s is None:
            raise InputError(
                trace.path,
                f"jobs of class {name!r}, which --checkpoints has no row for",
                column="job_class",
                expected=f"one of {', '.join(list(checkpoints)[:12])}",
                hint=f"add it, or a row of class {EVERY_OTHER} for every other one",
            )
    each = [times[name] for name in jobs["job_class"]]
    save, load = np.array(each, np.float64).T
    return to_micros(save), to_micros(load)


def _check_unit(trace: Trace, jobs: pl.DataFrame, column: str) -> None:
    """Refuse a time no cluster has; the usual cause is another unit."""
    worst = jobs.filter(pl.col(column) > CENTURY_S).head(1)
    if worst.height:
        job_id, seconds = worst.select("job_id", column).row(0)
        raise InputError(
            trace.path,
            f"job {job_id} has {seconds:.3g} s, more than a century",
            column=column,
            expected="seconds",
            hint="check the unit of the log, or scale it: --scale-duration 0.001",
        )


def _left_out(count: int, why: str, why_one: str) -> list[str]:
    if count == 1:
        return [f"1 job is left out because {why_one}"]
    return [f"{count:,} jobs are left out because {why}"] if count else []


def _running(count: int, included: bool) -> list[str]:
    if not count:
        return []
    plural, singular = ("were", "are", "they", "their"), ("was", "is", "it", "its")
    were, are, they, their = singular if count == 1 else plural
    left_out = "left out of replays (--include-running), not of today"
    done = f"replayed as if {they} had ended" if included else left_out
    return [
        f"{counted(count, 'job')} {were} still running and {are} {done}: {their} recorded "
        "duration is a lower bound"
    ]
