"""When jobs arrive: a correlated gap process in busy time, bent by the day and the week.

Busy time runs fast in busy hours: it is the integral of the relative rate of arrivals, hour of the
day times day of the week in the source's zone (the time change of a non-homogeneous process,
Cinlar, "Introduction to Stochastic Processes", 1975, section 4.7). In busy time the gaps are
stationary: a share of zeros and a curve of positive gaps, in the order of scores with memory
(see `synth.dependence`), so that short gaps follow short gaps: bursts, and lulls between them.

Bending and whole seconds change the moments, so knobs are turned on the sampled path until C^2, the
share of zero gaps and the shares of hours and weekdays are the wanted ones: a power on the longest
tenth of the positive gaps (the lulls), the share of zeros, and the rates themselves, as a few
bursts that fall on a quiet day would hide any week. How much memory the scores have is settled
before, when the model is fitted: as much as gives hourly counts the dispersion of the original's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.characterize.arrivals import find_bursts, interarrival
from gpuplan.analysis.characterize.clock import is_zone
from gpuplan.analysis.synth.curve import fit_curve
from gpuplan.analysis.synth.dependence import (
    MOST_SHARED,
    fit_memory,
    long_weight,
    memory_scores,
    normal_scores,
    strata,
)
from gpuplan.analysis.synth.hours import Pattern, dispersion, fit_hours, hourly_counts, regroup
from gpuplan.analysis.synth.model import ArrivalModel
from gpuplan.analysis.synth.week import Busy, Clock, busy_time, clock_of, local_day

ROUNDS = 40
TRIAL_ROUNDS = 8
SCV_CLOSE = 0.02
ZERO_CLOSE = 0.002
SHAPE_CLOSE = 0.02
SHAPE_STEP = 0.35
"""Power of the raking factors: whole ones would overshoot, as later bursts move along."""
MOST_BENT = 4.0
"""A rate may grow or shrink by at most this factor."""
MEMORY_ROUNDS = 6
MEMORY_CLOSE = 0.05
MEMORY_FACTORS = (0.1, 6.0)
TRIAL_JOBS = 200_000
LEAST_BURSTING = 0.05
LEAST_LONG = 0.05
POWERS = (0.2, 4.0)
FIRST_RISE = 2.0
"""Assumed rise of log(C^2) with the power, until two points determine it."""
LULLS_FROM = 0.9
LATEST_S = 900.0
STEPS_US = (60 * MICROS, MICROS, 1000, 1)

_Path = Callable[[float, float, "Busy"], IntArray]


def rates_of(arrivals: ArrivalModel) -> FloatArray:
    """Return the relative rate of each hour of the week; shape (7, 24)."""
    if not arrivals.by_hour or not arrivals.by_weekday:
        return np.ones((7, 24))
    return np.outer(arrivals.by_weekday, arrivals.by_hour)


def clock_over(arrivals: ArrivalModel, first_s: float, last_s: float) -> Clock:
    """Return the clock of a process between two instants."""
    return clock_of(arrivals.time_zone or "UTC", first_s, last_s)


def fit_arrivals(submit_us: IntArray, zone: str | None, *, calendar: bool) -> ArrivalModel:
    """Return the arrival process of ascending submissions; shape (n,), n >= 1."""
    zone = (zone if is_zone(zone) else "UTC") if calendar else None
    start = local_day(submit_us[0] / MICROS, zone) if calendar else None
    step_s = clock_step_s(submit_us)
    gaps = interarrival(submit_us)
    model = ArrivalModel(
        gaps.mean_s,
        gaps.scv,
        gaps.zero_share or 0.0,
        None,
        time_zone=zone,
        start=start,
        step_s=step_s,
    )
    if not gaps.mean_s:  # one job, or all at once: no rate is defined
        return replace(model, mean_gap_s=None)
    if calendar:
        by_hour, by_weekday = _weekly_shape(submit_us, model)
        model = replace(model, by_hour=by_hour, by_weekday=by_weekday)
    real_s = submit_us / MICROS
    clock = clock_over(model, real_s[0], real_s[-1])
    busy = np.diff(busy_time(clock, rates_of(model), real_s[0]).into(real_s))
    busy[np.diff(submit_us) == 0] = 0.0
    positive = np.sort(busy[busy > 0])
    memory = fit_memory(normal_scores(busy))
    model = replace(
        model,
        gap=fit_curve(positive, step_s / 2),
        memory=memory,
        bursting=_bursting(memory, submit_us),
    )
    return replace(_with_dispersion(model, submit_us), hours=fit_hours(submit_us))


def _bursting(memory: tuple[float, ...], submit_us: IntArray) -> float | None:
    """Return the share of the jobs in burst hours; None without bursts, lulls or long memories."""
    if long_weight(memory) < LEAST_LONG:
        return None
    share = find_bursts(submit_us, calendar=False, top=1).share_jobs
    return share if LEAST_BURSTING <= share <= 1 - LEAST_BURSTING else None


def hourly_dispersion(submit_us: IntArray) -> float:
    """Return variance over mean of the hourly counts of ascending submissions; 1 for Poisson.

    Hours run from the first submission on; the last one counts as a full hour.
    """
    hour, counts = hourly_counts(submit_us)
    return dispersion(counts, int(hour[-1]) + 1)


def _with_dispersion(model: ArrivalModel, submit_us: IntArray) -> ArrivalModel:
    """Return the process with its memory scaled until hourly counts disperse as the original's.

    Autocorrelation of the scores alone understates it: zero gaps are ties there. Trials with fixed
    seeds, of up to `TRIAL_JOBS` jobs in all, show the effect of a scale of the memory.
    """
    wanted = hourly_dispersion(submit_us)
    weight = sum(model.memory)
    if weight <= 0 or wanted <= 0:
        return model
    count = min(submit_us.size, TRIAL_JOBS)
    trials = int(np.clip(TRIAL_JOBS // count, 1, 8))
    span_s = (model.mean_gap_s or 0.0) * (count - 1)
    low, high = MEMORY_FACTORS[0], min(MEMORY_FACTORS[1], MOST_SHARED / weight)
    best, least, factor = model, np.inf, 1.0
    for _ in range(MEMORY_ROUNDS):
        scaled = replace(model, memory=tuple(w * factor for w in model.memory))
        dispersions = [
            hourly_dispersion(
                draw_submissions(
                    scaled,
                    count,
                    submit_us[0] / MICROS,
                    span_s,
                    np.random.default_rng(trial),
                    rounds=TRIAL_ROUNDS,
                )
            )
            for trial in range(trials)
        ]
        lack = float(np.log(wanted / max(float(np.mean(dispersions)), 1e-9)))
        if abs(lack) < least:
            best, least = scaled, abs(lack)
        if abs(lack) <= MEMORY_CLOSE or high <= low * 1.01:
            break
        low, high = (factor, high) if lack > 0 else (low, factor)
        factor = (low * high) ** 0.5
    return best


def clock_step_s(micros: IntArray) -> float:
    """Return the largest of a minute, a second, a millisecond, 1 us that divides all values."""
    return next(step for step in STEPS_US if not (micros % step).any()) / MICROS


def _weekly_shape(
    submit_us: IntArray, arrivals: ArrivalModel
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return relative rates by hour and by weekday, pulled towards 1 as the evidence is thin.

    A count of an hour has a variance of about C^2 times its mean, so that it is worth 1 / C^2 of
    the jobs in it: each rate is shrunk as if max(1, C^2) further jobs had come at the mean rate.
    """
    real_s = submit_us / MICROS
    clock = clock_over(arrivals, real_s[0], real_s[-1])
    counts = np.bincount(clock.slots(real_s), minlength=7 * 24).reshape(7, 24)
    expected = clock.watched_s(real_s[0], real_s[-1]) / (arrivals.mean_gap_s or 1.0)
    pseudo = max(1.0, arrivals.scv or 1.0)
    by_day = _rates(counts.sum(axis=1), expected.sum(axis=1), pseudo)
    by_hour = _rates(counts.sum(axis=0), by_day @ expected, pseudo)
    return tuple(map(float, by_hour)), tuple(map(float, by_day))


def _rates(counts: IntArray, expected: FloatArray, pseudo: float) -> FloatArray:
    result: FloatArray = np.maximum((counts + pseudo) / (expected + pseudo), 0.01)
    return result


def draw_submissions(
    arrivals: ArrivalModel,
    count: int,
    first_s: float,
    span_s: float,
    rng: np.random.Generator,
    *,
    rounds: int | None = None,
) -> IntArray:
    """Return ascending submissions in microseconds since 1970 UTC; shape (count,).

    Args:
        arrivals: the process.
        count: jobs, at least 1.
        first_s: the earliest submission may be up to one mean gap later.
        span_s: time from the first to the last submission; 0 submits all at once.
        rng: source of randomness.
        rounds: of the calibration at most; None for `ROUNDS`.
    """
    step_us = round(arrivals.step_s * MICROS)
    offset_s = float(rng.random()) * (span_s / max(count - 1, 1))
    origin_s = first_s + offset_s
    if count == 1 or span_s <= 0 or arrivals.zero_share >= 1:
        return np.full(count, int(origin_s * MICROS) // step_us * step_us)
    place = np.argsort(
        memory_scores(arrivals.memory, count - 1, rng, arrivals.bursting).astype(np.float32)
    )
    levels_seed = int(rng.integers(2**63))
    grouped = arrivals.hours if span_s > 2 * HOUR_S else None
    if grouped is not None and grouped.dispersion <= 1:  # all hours are equal
        grouped = None
    by_pattern = grouped is not None
    shape = ArrivalShape(arrivals, origin_s, origin_s + span_s, by_pattern=by_pattern)

    def path(zero_share: float, power: float, clock: Busy) -> IntArray:
        zeros = min(round(zero_share * (count - 1)), count - 2)
        levels = strata(count - 1 - zeros, np.random.default_rng(levels_seed))
        positive = -np.log1p(-levels) if arrivals.gap is None else arrivals.gap.at(levels)
        lulls = positive[int(LULLS_FROM * positive.size) :]
        lulls[:] = lulls[0] * (lulls / lulls[0]) ** power
        gaps = np.zeros(count - 1)
        gaps[place[zeros:]] = positive
        busy = np.concatenate([[0.0], np.cumsum(gaps)])
        busy *= clock.into(np.array([origin_s + span_s])) / busy[-1]
        real_s = clock.back(busy) - origin_s
        if grouped is not None:
            real_s = regroup(
                real_s, grouped, shape.pattern(), np.random.default_rng((levels_seed, 1))
            )
        return int(origin_s * MICROS) // step_us * step_us + step_us * _on_clock(
            real_s * (MICROS / step_us), min(LATEST_S, span_s / 100) * MICROS / step_us
        )

    return _calibrated(path, arrivals, shape, rounds or ROUNDS)


class ArrivalShape:
    """Rates by hour and weekday, turned until a path has the shares of them that are wanted.

    Raking: each rate is multiplied by its wanted share over the one found, hours and weekdays in
    turn (Deming and Stephan, Annals of Mathematical Statistics 11, 1940).
    """

    def __init__(
        self, arrivals: ArrivalModel, first_s: float, last_s: float, *, by_pattern: bool = False
    ) -> None:
        self.by_pattern = by_pattern
        self.first_s, self.rates = first_s, rates_of(arrivals)
        self.hours = clock_over(arrivals, first_s, last_s)
        self.clock = busy_time(self.hours, self.rates, first_s)
        days = (last_s - first_s) / (24 * HOUR_S)
        self.turned = bool(arrivals.by_hour and arrivals.by_weekday) and days >= 2
        self.weekly = days >= 14
        self.factors = np.ones(24), np.ones(7)
        self.wanted = _shares(self.hours.watched_s(first_s, last_s) * self.rates)

    def off(self, submit_us: IntArray) -> float:
        """Return the larger distance of a path's shares to the wanted ones, and turn the rates."""
        if not self.turned:
            return 0.0
        counts = np.bincount(self.hours.slots(submit_us / MICROS), minlength=7 * 24)
        shares = _shares(counts.reshape(7, 24).astype(np.float64))
        distances = [
            float(np.abs(w - f).sum() / 2) for w, f in zip(self.wanted, shares, strict=True)
        ]
        for number in range(1 + self.weekly):
            ratio = (self.wanted[number] + 1e-3) / (shares[number] + 1e-3)
            factor = self.factors[number]
            factor *= ratio**SHAPE_STEP
            np.clip(factor, 1 / MOST_BENT, MOST_BENT, out=factor)
        return max(distances[: 1 + self.weekly])

    def pattern(self) -> Pattern | None:
        """Return the shares to give to the hours of a path, as turned; None without a pattern."""
        if not self.turned:
            return None
        by_hour, by_weekday = (
            shares * factor / (shares @ factor)
            for shares, factor in zip(self.wanted, self.factors, strict=True)
        )
        return Pattern(
            lambda offset_s: self.hours.slots(self.first_s + offset_s),
            by_hour,
            by_weekday if self.weekly else None,
            1 - self.first_s % HOUR_S / HOUR_S,
        )

    def turn(self) -> None:
        """Set the clock to the adjusted rates; a pattern needs no other clock."""
        if self.turned and not self.by_pattern:
            by_hour, by_weekday = self.factors
            rates = self.rates * np.outer(by_weekday, by_hour)
            self.clock = busy_time(self.hours, rates, self.first_s)


def _shares(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of the hours of the day and of the days of the week; of shape (7, 24).

    Of weights that are all 0, as for a span of no time, all shares are 0.
    """
    total = weights.sum() or 1.0
    return weights.sum(axis=0) / total, weights.sum(axis=1) / total


def _on_clock(ticks: FloatArray, latest: float) -> IntArray:
    """Return whole ticks for ascending ones, no positive gap made zero: later where it must be.

    Within a burst jobs are at least a tick apart and fall behind, between bursts they catch up. If
    that takes longer than ``latest`` ticks, positions are rounded down instead, and gaps below a
    tick may be lost.
    """
    whole_ticks = np.floor(ticks).astype(np.int64)
    distinct = np.concatenate([[0], np.cumsum(np.diff(ticks) > 0)])
    moved: IntArray = distinct + np.maximum.accumulate(whole_ticks - distinct)
    if float((moved - whole_ticks).max()) > latest:
        return whole_ticks
    moved = np.minimum(moved, whole_ticks[-1])
    return moved


def _calibrated(path: _Path, arrivals: ArrivalModel, shape: ArrivalShape, rounds: int) -> IntArray:
    """Return the path with C^2, zero gaps, hours and weekdays closest to the wanted ones."""
    zero_share, power = arrivals.zero_share, 1.0
    best: IntArray | None = None
    least = np.inf
    before: tuple[float, float] | None = None
    for _ in range(rounds):
        submit_us = path(zero_share, power, shape.clock)
        seen = interarrival(submit_us)
        if arrivals.scv is None or seen.scv is None or seen.zero_share is None:
            return submit_us
        scv_off = abs(seen.scv - arrivals.scv) / max(arrivals.scv, 0.1)
        zero_off = abs(seen.zero_share - arrivals.zero_share)
        shape_off = shape.off(submit_us)
        off = scv_off / SCV_CLOSE + zero_off / ZERO_CLOSE + shape_off / SHAPE_CLOSE
        if best is None or off < least:
            best, least = submit_us, off
        if scv_off <= SCV_CLOSE and zero_off <= ZERO_CLOSE and shape_off <= SHAPE_CLOSE:
            break
        shape.turn()
        zero_share = float(np.clip(zero_share + arrivals.zero_share - seen.zero_share, 0, 0.999))
        log_scv = float(np.log(seen.scv + 0.01))
        lacking = float(np.log(arrivals.scv + 0.01)) - log_scv
        rise = FIRST_RISE
        if before is not None and power != before[0]:  # the secant, where it rises
            slope = (log_scv - before[1]) / (power - before[0])
            rise = slope if slope > FIRST_RISE / 10 else FIRST_RISE
        before = (power, log_scv)
        power = float(np.clip(power + np.clip(lacking / rise, -0.5, 0.5), *POWERS))
    assert best is not None
    return best
