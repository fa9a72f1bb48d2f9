"""Models from published figures: these are reproduced, all else is assumed and stated.

Durations follow the published distribution function; how long jobs of each GPU count run follows
from their shares of jobs and of GPU time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from scipy.special import ndtri

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S
from gpuplan.analysis.job_table.schema import STATES as STATE_NAMES
from gpuplan.analysis.synth.curve import DurationCurve, curve_through
from gpuplan.analysis.synth.dependence import Shared, fit_shifts, on_one_curve
from gpuplan.analysis.synth.model import (
    ArrivalModel,
    Habits,
    Holding,
    JobMixCell,
    Owners,
    Reference,
    States,
    Waits,
    WorkloadModel,
)


@dataclass(frozen=True, slots=True)
class Published:
    """Published figures of a workload.

    Attributes:
        title: its name, and the jobs covered.
        jobs: jobs of that kind.
        days: days they were submitted in.
        start: first day.
        time_zone: zone of its clock.
        users: distinct users; None where not published.
        duration_percentages: of jobs of at most 1, 2, 4, ... seconds; empty where not published.
        quantiles: published or assumed (probability, seconds), without a CDF.
        mean_s, median_s, p90_s: durations; P90 None where not published.
        longest_s: longest duration.
        gpus: (GPUs, percent of jobs and percent of GPU time with at most that many).
        mean_gpus: published mean; None where not published.
        gpu_time_s: GPU time of all jobs, GPU-seconds; None where not published.
        states: state -> share of jobs; empty where not published.
        states_by_time: state -> share of GPU time; empty where not published.
        wait_mean_s, wait_median_s: waits; None where not published.
        scv: C^2 of the gaps aimed at.
        zero_share: share of zero gaps aimed at.
        notes: assumptions, one sentence each.
    """

    title: str
    jobs: int
    days: float
    start: str
    time_zone: str
    mean_s: float
    median_s: float
    longest_s: float
    users: int | None = None
    duration_percentages: tuple[float, ...] = ()
    quantiles: tuple[tuple[float, float], ...] = ()
    p90_s: float | None = None
    gpus: tuple[tuple[int, float, float], ...] = ((1, 100.0, 100.0),)
    mean_gpus: float | None = None
    gpu_time_s: float | None = None
    states: dict[str, float] = field(default_factory=dict)
    states_by_time: dict[str, float] = field(default_factory=dict)
    wait_mean_s: float | None = None
    wait_median_s: float | None = None
    scv: float = 8.0
    zero_share: float = 0.05
    notes: tuple[str, ...] = ()

    @property
    def duration_cdf(self) -> tuple[tuple[float, float], ...]:
        """Seconds, and the percentage of jobs of at most that."""
        return tuple((float(2**k), share) for k, share in enumerate(self.duration_percentages))


PUBLISHED = msgspec.toml.decode(
    Path(__file__).with_name("published_workloads.toml").read_bytes(), type=dict[str, Published]
)
PRESETS = tuple(sorted(PUBLISHED))

USERS = 300
GPUS_PER_NODE = 8
TAIL_FROM = 0.998
STATE_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
STATE_ROUNDS = 2000
LONGEST_WAIT_S = 7 * DAY_S
BY_HOUR = tuple(1 + 0.6 * float(np.cos((hour - 15) / 12 * np.pi)) for hour in range(24))
BY_WEEKDAY = (1.15, 1.2, 1.2, 1.2, 1.1, 0.6, 0.55)
MEMORY = (0.15, 0.2, 0.15, 0.1)
HABITS = Habits(size=Shared(0.2, 0.4), duration=Shared(0.1, 0.3), wait=Shared(0.0, 0.5))
ASSUMED = ("hours and weekdays, bursts, habits and activity of users are assumed, not published",)


def preset_model(name: str) -> WorkloadModel:
    """Return the model of a preset; ``name`` is one of `PRESETS` (a ValueError otherwise)."""
    if name not in PUBLISHED:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    facts = PUBLISHED[name]
    curve = _durations(facts)
    counts, jobs, times = (np.array(column) for column in zip(*facts.gpus, strict=True))
    shares = np.diff(jobs, prepend=0.0) / 100
    shifts = fit_shifts(curve, counts, shares, np.diff(times, prepend=0.0) / 100)
    return WorkloadModel(
        source=f"preset {name}: {facts.title}",
        jobs=facts.jobs,
        arrivals=_arrivals(facts),
        owners=Owners("user", facts.users or USERS, 1.0, (0.8, 0.7, 0.1)),
        habits=HABITS,
        cells=tuple(
            JobMixCell(None, float(count), float(share), 1.0, 0, float(shift))
            for count, share, shift in zip(counts, shares, shifts, strict=True)
        ),
        durations=(curve,),
        holdings=tuple(
            Holding(float(count), 1.0, num_workers=int(-(-count // GPUS_PER_NODE)))
            for count in counts
        ),
        states=_states(facts, curve, counts, shares, shifts),
        waits=_waits(facts),
        duration_step_s=1.0,
        reference=_reference(facts),
        notes=(*facts.notes, *ASSUMED),
    )


def _arrivals(facts: Published) -> ArrivalModel:
    """Return gaps of a lognormal law, with the rate, the C^2 and the zeros of the figures."""
    positive_scv = (1 - facts.zero_share) * (facts.scv + 1) - 1
    spread = np.log1p(positive_scv) ** 0.5
    levels = np.concatenate([[0.0], np.arange(0.02, 0.99, 0.02), [0.99, 0.999]])
    values = np.exp(spread * ndtri(np.maximum(levels, 1e-4)))
    cap = float(np.exp(spread * 4.5))
    mean = float(np.exp(spread**2 / 2))
    return ArrivalModel(
        mean_gap_s=facts.days * DAY_S / facts.jobs,
        scv=facts.scv,
        zero_share=facts.zero_share,
        gap=curve_through(levels, values, cap, mean, 1e-6),
        memory=MEMORY,
        by_hour=BY_HOUR,
        by_weekday=BY_WEEKDAY,
        time_zone=facts.time_zone,
        start=facts.start,
    )


def _durations(facts: Published) -> DurationCurve:
    """Return the curve through the published points, its tail the one with the published mean."""
    points = [(share / 100, seconds) for seconds, share in facts.duration_cdf]
    body = [(p, s) for p, s in points if 0 < p <= TAIL_FROM] or list(facts.quantiles)
    if facts.duration_cdf:
        least = max((s for p, s in points if p == 0), default=0.0)
        body = sorted([(0.0, least), *body, (0.5, facts.median_s)])
    levels, values = zip(*body, strict=True)
    return curve_through(levels, values, facts.longest_s, facts.mean_s, 1.0)


def _states(
    facts: Published,
    curve: DurationCurve,
    counts: FloatArray,
    shares: FloatArray,
    shifts: FloatArray,
) -> States:
    """Return the states by duration that give them their shares of jobs and of GPU time.

    The odds of a state grow or fall exponentially with the normal score of the duration; level and
    growth of each are found by moving them in proportion to the logarithm of its shortfall.
    """
    names = list(facts.states) or ["unknown"]
    wanted = np.array([facts.states.get(name, 1.0) for name in names])
    wanted /= wanted.sum()
    edges, jobs, time = _bins(curve, counts, shares, shifts)
    level, growth = np.log(wanted), np.zeros(wanted.size)
    by_time = np.array([facts.states_by_time.get(name, 0.0) for name in names])
    rows = np.tile(wanted, (jobs.size, 1))
    middle = _middles(jobs)
    for _ in range(STATE_ROUNDS if facts.states_by_time else 0):
        odds = np.exp(level + np.outer(middle, growth))
        rows = odds / odds.sum(axis=1, keepdims=True)
        lack = np.log(by_time / by_time.sum() / (time @ rows))
        level += np.log(wanted / (jobs @ rows))
        growth += 0.1 * lack
    full = np.zeros((jobs.size, len(STATE_NAMES)))
    full[:, [STATE_NAMES.index(name) for name in names]] = rows
    table = tuple(tuple(float(x) for x in row) for row in full)
    return States(edges, table, table, table[0])


def _bins(
    curve: DurationCurve, counts: FloatArray, shares: FloatArray, shifts: FloatArray
) -> tuple[tuple[float, ...], FloatArray, FloatArray]:
    """Return edges of duration bins, and their shares of jobs and of GPU time."""
    density, seconds = on_one_curve(curve, shares, shifts)
    edges = np.unique(np.rint(curve.at(np.array(STATE_LEVELS))))
    place = np.searchsorted(edges, seconds, side="left")
    jobs = np.bincount(place, shares @ density, minlength=edges.size + 1)
    held = (shares * counts) @ density * seconds
    time = np.bincount(place, held, minlength=edges.size + 1)
    return tuple(map(float, edges)), jobs / jobs.sum(), time / time.sum()


def _middles(shares: FloatArray) -> FloatArray:
    """Return the normal score of the middle of each bin."""
    result: FloatArray = ndtri(np.cumsum(shares) - shares / 2)
    return result


def _waits(facts: Published) -> tuple[Waits, ...]:
    """Return waits with the published median and mean, log-linear below the median."""
    curve = None
    if facts.wait_mean_s is not None and facts.wait_median_s is not None:
        ends = (0.0, facts.wait_median_s)
        curve = curve_through((0.0, 0.5), ends, LONGEST_WAIT_S, facts.wait_mean_s, 1.0)
    return (Waits(float(2**40), float(curve is not None), curve),)


def _reference(facts: Published) -> Reference:
    figures = {
        "duration_s.mean": facts.mean_s,
        "duration_s.p50": facts.median_s,
        "duration_s.p90": facts.p90_s,
        "gpus.mean": facts.mean_gpus,
        "interarrival.mean_s": facts.days * DAY_S / facts.jobs,
        "queue_s.mean": facts.wait_mean_s,
        "queue_s.p50": facts.wait_median_s,
        "users": facts.users,
    }
    if facts.gpu_time_s is not None:
        figures["gpu_time.gpu_hours_per_job"] = facts.gpu_time_s / HOUR_S / facts.jobs
    several = len(facts.gpus) > 1
    return Reference(
        statistics={key: float(value) for key, value in figures.items() if value is not None},
        duration_cdf=tuple((seconds, share / 100) for seconds, share in facts.duration_cdf),
        gpu_cdf=tuple((gpus, jobs / 100) for gpus, jobs, _ in facts.gpus) if several else (),
        gpu_time_cdf=tuple((gpus, time / 100) for gpus, _, time in facts.gpus) if several else (),
        states=facts.states,
    )
