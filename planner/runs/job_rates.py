"""How fast each job runs on each GPU type of a cluster: measured, or assumed by GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.job_table.schema import STEPS
from gpuplan.analysis.user_tables.gpu_rates import OF_CLASS
from gpuplan.planner.runs.throughputs import Throughputs, load_throughputs
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

COLUMNS = ("job_class", "gpu_type", "state", STEPS)
"""What rates need of a trace besides GPUs and durations."""
LISTED = 3


@dataclass(frozen=True, slots=True)
class JobRates:
    """Rates of the jobs of a replay.

    Attributes:
        gpu_types: the types.
        rate: work per second of each job on each type, 0 where it cannot run; shape (n, T).
        work: of each job; shape (n,).
        details: what a table says of moves; None without a table.
    """

    gpu_types: tuple[str, ...]
    rate: FloatArray
    work: FloatArray
    details: JobDetails | None = None

    def on(self, gpu_types: tuple[str, ...]) -> FloatArray:
        """Return the rates on some of the types, in their order; shape (n, len(gpu_types))."""
        rates: FloatArray = self.rate[:, self._places(gpu_types)]
        return rates

    def cross_host_on(self, gpu_types: tuple[str, ...]) -> FloatArray | None:
        """Return the factors across hosts as `on` does; None without a table."""
        if self.details is None:
            return None
        factors: FloatArray = self.details.cross_host[:, self._places(gpu_types)]
        return factors

    def _places(self, gpu_types: tuple[str, ...]) -> list[int]:
        return [self.gpu_types.index(name) for name in gpu_types]


@dataclass(frozen=True, slots=True)
class JobDetails:
    """What a table of rates says of jobs besides their rates; NaN where it says nothing.

    Attributes:
        cross_host: factor on the rate of a gang on more hosts than it needs; shape (n, T).
        state_gb: state that moves with a job; shape (n,).
        dataset_gb: data that it fetches before its first start; shape (n,).
        is_pipeline: whether it is parallel in a pipeline; shape (n,).
    """

    cross_host: FloatArray
    state_gb: FloatArray
    dataset_gb: FloatArray
    is_pipeline: BoolArray

    @property
    def has_states(self) -> bool:
        """Whether the state of every job is known."""
        return bool(np.isfinite(self.state_gb).all())

    def of(self, rows: IntArray) -> JobDetails:
        """Return those of some jobs."""
        return JobDetails(
            self.cross_host[rows],
            self.state_gb[rows],
            self.dataset_gb[rows],
            self.is_pipeline[rows],
        )


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rates on the types of a cluster, the rate where each job ran, notes, and details."""

    rate: FloatArray
    ran: FloatArray
    notes: tuple[str, ...]
    details: JobDetails | None = None


@dataclass(frozen=True, slots=True)
class RateSource:
    """Where rates come from.

    Attributes:
        throughputs: measured rates; see `load_throughputs`. None for ``speeds``.
        speeds: relative speed of each GPU type, the same for every job.
        gpu_types: the types of the cluster.
    """

    throughputs: str | None
    speeds: Mapping[str, float]
    gpu_types: tuple[str, ...]

    def apply(self, path: Path, jobs: pl.DataFrame) -> RatedRows:
        """Return the jobs that can run on a type, their rates, and what to know of both.

        The work of a job is its steps where the trace has them, else its duration times its rate
        where it ran, else that of its class in a profile, unless it never started. Durations become
        those on the fastest type.

        Raises:
            UsageError: neither a table nor speeds are given, or they lack a type of the cluster.
            InputError: the table cannot be used, or no job can run.
        """
        measured = None if self.throughputs is None else load_throughputs(self.throughputs)
        rates = self._assumed(jobs) if measured is None else self._measured(jobs, measured)
        rate, ran, notes = rates.rate, rates.ran, list(rates.notes)
        fastest = rate.max(axis=1, initial=0.0)
        duration = jobs["duration_s"].to_numpy().astype(np.float64)
        steps = jobs[STEPS].to_numpy().astype(np.float64)
        started = (jobs["state"] != "not_started").fill_null(True).to_numpy()
        has_table = measured is not None and measured.table is not None
        if measured is not None and not has_table and np.isfinite(steps).any():
            notes.append(
                "the recorded steps of jobs are not used: a profile counts other work; give "
                "--throughputs a table of rates in steps per second to use them"
            )
        by_steps = np.isfinite(steps) & started & has_table
        unknown = ~by_steps & np.isfinite(duration) & ~(ran > 0) & (fastest > 0)
        unknown &= jobs["num_gpus"].to_numpy() > 0  # those without GPUs are left out
        work = np.where(by_steps, steps, duration * np.where(ran > 0, ran, fastest))
        if unknown.any():
            notes.append(
                f"{counted(int(unknown.sum()), 'job')} recorded no GPU type with a known rate and "
                f"{'is' if unknown.sum() == 1 else 'are'} assumed to have run on the fastest type "
                "of the cluster"
            )
        sizes = {} if measured is None else measured.works()
        by_class = ~by_steps & ~np.isfinite(duration) & started
        if sizes and by_class.any():
            sizes_of_jobs = jobs["job_class"].replace_strict(
                sizes, default=None, return_dtype=pl.Float64
            )
            work = np.where(by_class, sizes_of_jobs.to_numpy().astype(np.float64), work)
            sized = int((by_class & np.isfinite(work) & (fastest > 0)).sum())
            if sized:
                notes.append(
                    f"{counted(sized, 'job')} {'has' if sized == 1 else 'have'} no duration: the "
                    f"work is that of the class in {self.throughputs}"
                )
        lost = ~(fastest > 0)
        if lost.any():
            notes.append(_left_out(jobs.filter(pl.Series(lost))))
        if lost.all():
            raise InputError(
                path if measured is None else measured.path or path,
                "no job of the trace has a rate on any GPU type of the cluster",
                expected=f"rates on {', '.join(self.gpu_types)} of the classes and GPUs of jobs",
                hint="add rows to --throughputs, or give --gpu-speed instead",
            )
        keep = ~lost
        with np.errstate(divide="ignore", invalid="ignore"):
            takes = work / fastest
        rows = jobs.with_columns(
            pl.Series("duration_s", takes).fill_nan(None),
            pl.Series("row_of_rates", np.arange(jobs.height)),
        ).filter(pl.Series(keep))
        return RatedRows(rows, JobRates(self.gpu_types, rate, work, rates.details), tuple(notes))

    def _measured(self, jobs: pl.DataFrame, measured: Throughputs) -> _Rates:
        gpu_types = measured.gpu_types
        option = f"--throughputs {measured.text}"
        of_cluster = match_types(gpu_types, self.gpu_types, option)
        for name, rated_as in of_cluster.items():
            if rated_as is None:
                raise UsageError(
                    f"{option}: has no rates on {name}, a GPU type of the cluster; it has "
                    f"{', '.join(gpu_types[:12])}\n"
                    f"  next: --cluster with its types, or add rows of {name}"
                )
        gpus = jobs["num_gpus"].ceil().cast(pl.Float64)
        rows = jobs.select("job_class", gpus.alias("gpus"), pl.col("gpu_type").alias("recorded"))
        table = measured.rates(rows.select("job_class", "gpus").unique())
        columns, factors = [], []
        for name in self.gpu_types:
            rows_of_type = table.filter(pl.col("gpu_type") == of_cluster[name])
            joined = rows.join(
                rows_of_type.select("job_class", "gpus", "rate", "cross_host"),
                on=["job_class", "gpus"],
                how="left",
                maintain_order="left",
            )
            columns.append(joined["rate"].fill_null(0.0).to_numpy())
            factors.append(joined["cross_host"].to_numpy())
        names = _recorded_on(gpu_types, jobs, option, measured.table is not None)
        recorded = rows.with_columns(
            pl.col("recorded").replace_strict(names, default=None, return_dtype=pl.String)
        ).join(
            table.select("job_class", "gpus", pl.col("gpu_type").alias("recorded"), "rate"),
            on=["job_class", "gpus", "recorded"],
            how="left",
            maintain_order="left",
        )
        classes = table.select("job_class", *OF_CLASS).unique("job_class", maintain_order=True)
        of_job = rows.select("job_class").join(
            classes, on="job_class", how="left", maintain_order="left"
        )
        details = JobDetails(
            np.column_stack(factors).astype(np.float64),
            of_job["state_gb"].to_numpy().astype(np.float64),
            of_job["dataset_gb"].to_numpy().astype(np.float64),
            (of_job["parallelism"] == "pipeline").fill_null(False).to_numpy(),
        )
        ran = recorded["rate"].fill_null(0.0).to_numpy()
        return _Rates(np.column_stack(columns), ran, (), details)

    def _assumed(self, jobs: pl.DataFrame) -> _Rates:
        types = ", ".join(self.gpu_types)
        if not self.speeds:
            raise UsageError(
                f"--cluster: the speeds of jobs on {types} are not known\n  next: "
                "--throughputs FILE with measured rates, or --gpu-speed "
                + ",".join(f"{name}=1" for name in self.gpu_types)
                + " with your factors"
            )
        typed = list(self.speeds)
        matched = match_types(typed, self.gpu_types, "--gpu-speed")
        if lacking := [name for name, matching in matched.items() if matching is None]:
            raise UsageError(
                f"--gpu-speed: has no speed of {listed([*map(str, lacking)])}, a GPU type of "
                "the cluster\n"
                f"  next: add {','.join(f'{name}=1' for name in lacking)} with your factors"
            )
        each = np.array([self.speeds[str(matching)] for matching in matched.values()])
        names = _recorded_on(typed, jobs, "--gpu-speed", False)
        speeds = {matching: self.speeds[name] for matching, name in names.items() if name}
        ran = jobs["gpu_type"].replace_strict(speeds, default=0.0, return_dtype=pl.Float64)
        notes = (
            "relative GPU speeds are assumed the same for every job: "
            + ", ".join(f"{name} {self.speeds[name]:g}" for name in typed),
        )
        return _Rates(np.tile(each, (jobs.height, 1)), ran.to_numpy(), notes)


@dataclass(frozen=True, slots=True)
class RatedRows:
    """Jobs of a trace with rates.

    Attributes:
        jobs: those that can run, with their durations on the fastest type and ``row_of_rates``.
        rates: of all jobs of the trace.
        notes: what to know, one sentence each.
    """

    jobs: pl.DataFrame
    rates: JobRates
    notes: tuple[str, ...]

    def of(self, kept: pl.DataFrame) -> JobRates:
        """Return the rates of the jobs that are kept in the end."""
        at = kept["row_of_rates"].to_numpy()
        rates = self.rates
        details = None if rates.details is None else rates.details.of(at)
        return JobRates(rates.gpu_types, rates.rate[at], rates.work[at], details)


def _recorded_on(
    gpu_types: Sequence[str], jobs: pl.DataFrame, option: str, has_table: bool
) -> dict[str | None, str | None]:
    """Return the known name of each GPU type on which jobs ran whose work follows from it.

    Raises:
        UsageError: a type without one; nothing then says how much work its jobs are.
    """
    by_time = pl.col("duration_s").is_not_null()
    if has_table:
        by_time &= pl.col(STEPS).is_null()
    recorded = jobs.filter(by_time)["gpu_type"].unique(maintain_order=True)
    names = match_types(gpu_types, recorded, option)
    lacking = [name for name, matching in names.items() if name is not None and matching is None]
    if lacking:
        raise UsageError(
            f"{option}: has {listed(gpu_types, LISTED)}, and jobs of the log ran on "
            f"{listed(lacking, LISTED)}\n  next: add {lacking[0]}, or leave its jobs out with "
            f"--where \"gpu_type <> '{lacking[0]}'\""
        )
    return names


def _left_out(jobs: pl.DataFrame) -> str:
    """Return what jobs are left out as no type can run them."""
    kinds = (
        jobs.group_by("job_class", pl.col("num_gpus").ceil().cast(pl.Int64).alias("gpus"))
        .len()
        .sort(["len", "job_class", "gpus"], descending=[True, False, False])
    )
    named = [
        f"{name or 'no class'} on {counted(gpus, 'GPU')} ({many:,})"
        for name, gpus, many in kinds.head(LISTED).rows()
    ]
    more = ", ..." if kinds.height > LISTED else ""
    is_one = jobs.height == 1
    return (
        f"{counted(jobs.height, 'job')} {'is' if is_one else 'are'} left out because "
        f"{'it has' if is_one else 'they have'} no rate on any GPU type of the cluster: "
        f"{', '.join(named)}{more}"
    )
