"""The generative model of a workload: plain numbers, fitted to a trace or taken from papers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from gpuplan.analysis.base.words import counted
from gpuplan.analysis.synth.curve import DurationCurve
from gpuplan.analysis.synth.dependence import MEMORY_JOBS, Shared
from gpuplan.analysis.synth.hours import Hours

FEWEST_TIMED = 100  # below it each quantile of the durations is one job's, or nearly
MODEL_VERSION = 1


@dataclass(frozen=True, slots=True)
class ArrivalModel:
    """When jobs are submitted.

    Attributes:
        mean_gap_s: mean gap between submissions; None if the source has no rate.
        scv: C^2 of the gaps; None if undefined.
        zero_share: share of gaps that are zero.
        gap: positive gaps in busy time (see `synth.arrivals`); only its shape counts.
        memory: weight of each memory in `MEMORY_JOBS`.
        by_hour: rate in each hour of the day over the mean, 24 numbers; empty: no pattern.
        by_weekday: the same for the days of the week, Monday first, 7 numbers; empty: no pattern.
        time_zone: zone of the pattern; None without a calendar.
        start: first day, ``YYYY-MM-DD``; None without a calendar.
        step_s: resolution of the clock.
        bursting: share of the jobs that come in bursts, where the long memories switch between
            bursts and lulls; None where they wander.
        hours: submissions per hour; None leaves them to the gaps.
    """

    mean_gap_s: float | None
    scv: float | None
    zero_share: float
    gap: DurationCurve | None
    memory: tuple[float, ...] = (0.0,) * len(MEMORY_JOBS)
    by_hour: tuple[float, ...] = ()
    by_weekday: tuple[float, ...] = ()
    time_zone: str | None = None
    start: str | None = None
    step_s: float = 1.0
    bursting: float | None = None
    hours: Hours | None = None


@dataclass(frozen=True, slots=True)
class Owners:
    """Who submits: a Zipf law of activity and runs of one owner.

    Attributes:
        kind: canonical column of the owner, ``user`` or ``group``; None if not recorded.
        count: distinct owners.
        exponent: share of the owner of rank r is proportional to ``r ** -exponent``.
        stay: chance that a job has the owner of the one before for that reason alone, after a
            zero, a short and a long gap.
        short: longest short gap, in mean gaps.
        pause: gap that ends a run, in mean gaps.
        groups: distinct groups of users; 0 if not recorded or if groups are the owners.
        group_exponent: Zipf exponent of the groups by jobs.
        loyalty: share of a user's jobs in its main group.
    """

    kind: str | None = None
    count: int = 1
    exponent: float = 0.0
    stay: tuple[float, float, float] = (1.0, 1.0, 1.0)
    short: float = 0.5
    pause: float = 1.0
    groups: int = 0
    group_exponent: float = 0.0
    loyalty: float = 1.0


@dataclass(frozen=True, slots=True)
class JobMixCell:
    """Jobs of one class and GPU count.

    Attributes:
        job_class: class; None if not recorded.
        num_gpus: GPUs held.
        share: share of all jobs.
        timed: share of its jobs that have a duration.
        curve: position of its duration curve in `WorkloadModel.durations`; -1 without timed jobs.
        shift: how much longer than others on that curve its jobs run, as a normal score.
    """

    job_class: str | None
    num_gpus: float
    share: float
    timed: float
    curve: int
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Holding:
    """What else jobs of one GPU count have: one combination and its share of them."""

    num_gpus: float
    share: float
    num_workers: int = 1
    gpu_type: str | None = None
    priority: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class States:
    """Shares of the states (in the order of `STATES`) by duration.

    Attributes:
        edges_s: durations that part the bins, ascending.
        gpu: one row per bin, for jobs with GPUs; shape (edges + 1, states).
        cpu: the same for jobs without.
        untimed: shares among jobs without a duration.
        running: share of all jobs still running at the snapshot.
    """

    edges_s: tuple[float, ...]
    gpu: tuple[tuple[float, ...], ...]
    cpu: tuple[tuple[float, ...], ...]
    untimed: tuple[float, ...]
    running: float = 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of jobs of at most ``num_gpus`` GPUs that no narrower band holds.

    Attributes:
        num_gpus: upper end of the band.
        known: share of the jobs with a recorded wait.
        curve: waits, zeros included; None if not recorded.
    """

    num_gpus: float
    known: float
    curve: DurationCurve | None


@dataclass(frozen=True, slots=True)
class Habits:
    """Dependence between jobs of one user, of one run and of equally busy times."""

    size: Shared = field(default_factory=Shared)
    duration: Shared = field(default_factory=Shared)
    wait: Shared = field(default_factory=Shared)


@dataclass(frozen=True, slots=True)
class Reference:
    """The statistics that a synthetic trace is compared with.

    Attributes:
        statistics: name -> value, of those in `synth.compare`.
        duration_cdf: (seconds, share of jobs of at most that).
        gpu_cdf: (GPUs, share of GPU jobs of at most that).
        gpu_time_cdf: (GPUs, share of GPU time in jobs of at most that).
        states: state -> share of jobs.
        by_hour, by_weekday: shares of submissions; empty where unknown.
    """

    statistics: dict[str, float]
    duration_cdf: tuple[tuple[float, float], ...] = ()
    gpu_cdf: tuple[tuple[float, float], ...] = ()
    gpu_time_cdf: tuple[tuple[float, float], ...] = ()
    states: dict[str, float] = field(default_factory=dict)
    by_hour: tuple[float, ...] = ()
    by_weekday: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadModel:
    """A workload from which jobs can be sampled; only numbers and names of classes and GPU types.

    Attributes:
        source: description of the original.
        jobs: jobs of the original.
        arrivals, owners, habits, states: its parts.
        cells: classes and GPU counts, by GPUs, then class; shares add up to 1.
        durations: duration curves that cells point to.
        holdings: by GPU count, shares of each count add up to 1.
        waits: by band, ascending.
        duration_step_s: resolution of durations.
        reference: what to hold the result against.
        notes: assumptions a reader must know, one sentence each.
        timed_jobs: jobs that the durations are fitted to; None where they are not of a trace.
        version: of this form.
    """

    source: str
    jobs: int
    arrivals: ArrivalModel
    owners: Owners
    habits: Habits
    cells: tuple[JobMixCell, ...]
    durations: tuple[DurationCurve, ...]
    holdings: tuple[Holding, ...]
    states: States
    waits: tuple[Waits, ...]
    duration_step_s: float
    reference: Reference
    notes: tuple[str, ...] = ()
    timed_jobs: int | None = None
    version: int = MODEL_VERSION

    @property
    def warnings(self) -> tuple[str, ...]:
        """What keeps it from hiding the jobs it was fitted to."""
        if self.timed_jobs is None or not 0 < self.timed_jobs < FEWEST_TIMED:
            return ()
        jobs = counted(self.timed_jobs, "job")
        return (
            f"fitted to {jobs} with a duration, below {FEWEST_TIMED}: drawn jobs may have the very "
            "durations, GPUs and classes of recorded ones",
        )

    def to_json(self) -> str:
        """Return the model as JSON that `synth.store.read_model` reads back to an equal model."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"
