"""One replay under any policy: what happened, and the numbers and rows that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from gpuplan.planner.runs.window import share_within, window_results
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.time import MICROS

if TYPE_CHECKING:
    import polars as pl

    from gpuplan.planner.runs.panels import TimeLines
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import FloatArray
    from gpuplan.simkit.run import Run
    from gpuplan.simkit.workload import Workload

SOON_S = 600.0
"""Every policy reports the share of jobs done within this time, as the Allpass paper does."""
P = TypeVar("P", bound="PolicyResults")


@dataclass(frozen=True, kw_only=True)
class PolicyResults:
    """What every policy has.

    Attributes:
        jobs: jobs replayed.
        mean_jct_s, median_jct_s, p90_jct_s, p95_jct_s, p99_jct_s: completion times, from
            submission to finish.
        mean_wait_s, p95_wait_s: JCT less run time: queues, start-ups, checkpoints and restores.
            Under quotas without the work that evictions undo, which is a part of its own.
        deadline_miss_share: jobs that finish after their deadline.
        finished_within_10min_share: jobs that finish within 10 minutes of their submission.
        cost_usd: the bill of the window.
        gpu_h: run time x GPUs of the jobs, a fraction of a GPU as such.
        paid_gpu_h: GPU-hours billed; null where the policy does not measure its utilization.
        gpus: size of the cluster; of a policy that rents, the most GPUs rented or in use at once.
        usd_per_month: the bill per month of 730.5 h; null for a window of no length.
        window_s: time charged for.
        backlog_jobs: jobs that run or wait at the end of the window.
        backlog_gpu_h: GPU-hours held after the end of the window.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p90_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_wait_s: float
    p95_wait_s: float
    deadline_miss_share: float
    finished_within_10min_share: float
    cost_usd: float
    gpu_h: float
    paid_gpu_h: float | None
    gpus: int
    usd_per_month: float | None
    window_s: float
    backlog_jobs: int
    backlog_gpu_h: float


def results_as(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return results of a type; what an installed policy adds to them comes last."""
    names = {field.name for field in fields(kind)}
    more = [(name, Any) for name in values if name not in names]
    if more:
        kind = make_dataclass(kind.__name__, more, bases=(kind,), frozen=True, kw_only=True)
    return kind(**values)


@dataclass(frozen=True, slots=True)
class RunBill:
    """What a run costs within the window of its jobs.

    Attributes:
        usd: all of it, US dollars.
        gpu_us: GPU time billed, in GPU x microseconds.
        jobs_usd: returns the share of each job; shape (n,). They add up to the whole.
        mean_usd_per_gpu_h: price of a GPU-hour on average, as it is metered; None where no GPU was
            rented, or their prices have no mean.
        parts: US dollars by where GPUs are rented; empty where their price is set.
    """

    usd: float
    gpu_us: float
    jobs_usd: Callable[[], FloatArray]
    mean_usd_per_gpu_h: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Simulation:
    """One replay.

    Attributes:
        policy: name in `gpuplan.planner.registry.POLICIES`.
        settings: the effective value of every setting.
        jobs: what was replayed.
        run: what happened to jobs and GPUs.
        bill: what it costs.
        gpus: size of the cluster, or the most GPUs rented or in use at once.
        measured: more numbers by name, with their unit; they count where `results` has them too.
        warnings: what a reader of the results must know.
        timeline: makes a row per change over time: ``time_s`` after the first submission,
            ``queued`` jobs, and what the policy adds.
        lines: makes what pictures and tables show over time.
        columns: makes more columns of the rows of jobs, by name.
        is_rescaled: whether jobs run longer or shorter than recorded; their GPU time is then that
            which they held, else run time x GPUs (a fraction of one as such).
        loses_work: whether evicted jobs hold GPUs for work that they do again: no wait.
        loop: what to say of jobs that evict each other again and again; empty without any.
        gpus_by_type: GPUs of each GPU type that jobs keep to; empty where all GPUs are one pool.
        site_gpus: of the whole site, also those that no job may run on; None for no site.
    """

    policy: str
    settings: dict[str, Any]
    jobs: TraceJobs
    run: Run
    bill: RunBill
    gpus: int
    measured: Mapping[str, Any]
    warnings: tuple[str, ...]
    timeline: Callable[[], pl.DataFrame]
    lines: Callable[[], TimeLines]
    columns: Callable[[], Mapping[str, Any]] = dict
    is_rescaled: bool = False
    loses_work: bool = False
    loop: str = ""
    gpus_by_type: Mapping[str, int] = field(default_factory=dict)
    site_gpus: int | None = None

    @property
    def gpu_s(self) -> FloatArray:
        """GPU time of each job, in seconds."""
        work = self.jobs.workload
        gpu_s: FloatArray
        if self.is_rescaled:
            gpu_s = self.run.held_gpu_us / MICROS
        else:
            gpu_s = work.service_us / MICROS * work.billed_gpus
        return gpu_s

    @cached_property
    def results(self) -> dict[str, Any]:
        """The headline numbers; keys are stable and carry their unit.

        ``utilization`` is the GPU time of jobs within the window over the GPU time billed.
        """
        run, bill, window_us = self.run, self.bill, self.jobs.window_us
        service_s, jqt_s = self.jobs.workload.service_us / MICROS, run.waited_us / MICROS
        jct_s = (run.finish_us - run.submit_us) / MICROS
        wait_s = jqt_s if self.is_rescaled or self.loses_work else jct_s - service_s
        gpu_s, paid_s = float(self.gpu_s.sum()), bill.gpu_us / MICROS
        return {
            **job_times(run, self.jobs.workload),
            "mean_service_s": float(((jct_s - jqt_s) if self.is_rescaled else service_s).mean()),
            "mean_jqt_s": float(jqt_s.mean()),
            "mean_queue_s": float(jqt_s.mean()),
            "mean_wait_s": float(wait_s.mean()),
            "p95_wait_s": float(np.percentile(wait_s, 95)),
            "cost_usd": bill.usd,
            "gpu_h": gpu_s / 3600,
            "paid_gpu_h": paid_s / 3600,
            "utilization": gpu_s * share_within(run, window_us) / paid_s if paid_s else None,
            **window_results(run, window_us, bill.usd),
            "gpus": self.gpus,
            **self.measured,
        }

    @property
    def frame(self) -> pl.DataFrame:
        """One row per job, made anew each time; ``cost_usd`` adds up to the whole bill.

        Columns: ``job_id``, ``submit_s``, ``start_s``, ``finish_s``, ``jct_s``, ``jqt_s``,
        ``gpu_s``, ``cost_usd`` and what the policy adds. Times are seconds after the first
        submission.
        """
        run = self.run
        frame = pl.DataFrame(
            {
                "job_id": self.jobs.job_id,
                "submit_s": run.submit_us / MICROS,
                "start_s": run.start_us / MICROS,
                "finish_s": run.finish_us / MICROS,
                "jct_s": (run.finish_us - run.submit_us) / MICROS,
                "jqt_s": run.waited_us / MICROS,
                "gpu_s": self.gpu_s,
                "cost_usd": self.bill.jobs_usd(),
            }
        )
        return frame.with_columns(
            pl.Series(name, column) for name, column in self.columns().items()
        )


def job_times(run: Run, workload: Workload) -> dict[str, Any]:
    """Return what follows from when jobs finish."""
    jct_s = (run.finish_us - run.submit_us) / MICROS
    return {
        "jobs": workload.size,
        **distribution(jct_s, "jct", "s"),
        "deadline_miss_share": float((run.finish_us > workload.deadline_us).mean()),
        "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
        "makespan_s": float(run.finish_us.max() - run.submit_us[0]) / MICROS,
    }
