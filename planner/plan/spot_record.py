"""When spot GPUs were there, as a record of their availability has it, on the time of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import DAY_S, MICROS
from gpuplan.analysis.base.words import counted, length_words, listed
from gpuplan.analysis.prices.price_table import PriceTable
from gpuplan.analysis.prices.supply import AvailabilitySteps, availability_steps
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.simkit.arrays import BoolArray, FloatArray

SPOT_KIND = "spot"
NAMED = 6
MOST_SPELLS = 1_000_000
"""Stretches without spot GPUs, a record repeated as often as the log needs."""


@dataclass(frozen=True, slots=True)
class SpotRecord:
    """How spot GPUs of one type come and go, at one place.

    Attributes:
        source: provider, GPU and region.
        file: with the record.
        gone_s: rows (from, until) without any, seconds after the first submission; apart and
            ascending.
        losses: how often they went while it was known.
        available_s: for which they were there.
        known_s: for which it is known whether they were.
        repeats: whether the record is of other dates, and is laid end to end from the first
            submission on.
    """

    source: str
    file: InputFile
    gone_s: tuple[tuple[float, float], ...]
    losses: int
    available_s: float
    known_s: float
    repeats: bool

    @property
    def text(self) -> str:
        """The record in words, with what is assumed of its dates."""
        dates = (
            "of other dates, so it is repeated from the first submission on"
            if self.repeats
            else "of the dates of the log"
        )
        losses = counted(self.losses, "time")
        return (
            f"spot GPUs come and go as {self.source} did in {self.known_s / DAY_S:.3g} days: there "
            f"for {self.available_s / self.known_s:.0%} of the time, lost {losses}; "
            f"the record is {dates}"
        )


def spot_record(
    table: PriceTable, gpu_type: str, begin_us: int, window_s: float, until_s: float
) -> SpotRecord:
    """Return the record of the spot GPUs of a type.

    A record that covers the window of a log is taken at its own dates, and where nothing is known
    they are there. Another is laid end to end, what is not known left out. GPUs are there while
    any is.

    Args:
        table: with availability.
        gpu_type: as the log names it; empty for any.
        begin_us: the first submission, microseconds since 1970.
        window_s: of the log.
        until_s: how long a record that repeats must last.

    Raises:
        InputError: the table has no availability of this GPU on spot, or that of several places.
    """
    every = [steps for steps in availability_steps(table) if steps.kind == SPOT_KIND]
    of_type = [
        steps
        for steps in availability_steps(table, gpu_type or None)
        if steps.kind == SPOT_KIND and steps.start_us.size
    ]
    if not of_type:
        has = listed([_name(steps) for steps in every], NAMED) if every else "none of spot GPUs"
        raise InputError(
            table.path,
            f"has no availability of spot GPUs{f' of type {gpu_type}' if gpu_type else ''}, "
            f"but {has}",
            expected="a record of when these GPUs were there, read by gpuplan prices",
            hint="another --spot-availability, or none: losses are then drawn (--spot-hazard)",
        )
    if len(of_type) > 1:
        raise InputError(
            table.path,
            f"has the availability of {listed([_name(steps) for steps in of_type], NAMED)}",
            expected=f"one place of {gpu_type or 'the GPUs'}",
            hint="make a table of one place: gpuplan prices FILE -o one.parquet",
        )
    return _of_steps(of_type[0], table.input, begin_us, window_s, until_s)


def _name(steps: AvailabilitySteps) -> str:
    region = f" {steps.region}" if steps.region else ""
    return f"{steps.provider} {steps.gpu_type}{region}"


def _of_steps(
    steps: AvailabilitySteps, file: InputFile, begin_us: int, window_s: float, until_s: float
) -> SpotRecord:
    lasting_s = (steps.end_us - steps.start_us) / MICROS
    is_available = steps.available > 0
    touches = steps.start_us[1:] == steps.end_us[:-1]
    known_s = float(lasting_s.sum())
    repeats = steps.start_us[0] > begin_us or steps.end_us[-1] < begin_us + window_s * MICROS
    if repeats:
        end_s = np.cumsum(lasting_s)
        gone_s = _unavailable(end_s - lasting_s, end_s, is_available)
        rounds = ceil(until_s / known_s)
        if rounds * len(gone_s) > MOST_SPELLS:
            length = length_words(known_s)
            raise InputError(
                file.path,
                f"has the availability of {length}, which would repeat {rounds:,} times",
                expected=f"at least {length_words(until_s * len(gone_s) / MOST_SPELLS)}",
                hint="a longer record, or none: losses are then drawn (--spot-hazard)",
            )
        gone_s = np.concatenate([gone_s + number * known_s for number in range(rounds)])
    else:
        begin_s, end_s = ((us - begin_us) / MICROS for us in (steps.start_us, steps.end_us))
        gone_s = _unavailable(begin_s, end_s, is_available)
    return SpotRecord(
        source=_name(steps),
        file=file,
        gone_s=joined(gone_s.tolist()),
        losses=int(np.count_nonzero(touches & is_available[:-1] & ~is_available[1:])),
        available_s=float(lasting_s[is_available].sum()),
        known_s=known_s,
        repeats=bool(repeats),
    )


def _unavailable(begin_s: FloatArray, end_s: FloatArray, is_available: BoolArray) -> FloatArray:
    return np.stack([begin_s, end_s], axis=1)[~is_available & (end_s > 0)].clip(min=0.0)


def joined(stretches: Sequence[Sequence[float]]) -> tuple[tuple[float, float], ...]:
    """Return stretches of time in order, those that touch or overlap as one."""
    spells: list[tuple[float, float]] = []
    for begin_s, end_s in sorted((float(begin), float(end)) for begin, end in stretches):
        if spells and begin_s <= spells[-1][1]:
            spells[-1] = (spells[-1][0], max(spells[-1][1], end_s))
        else:
            spells.append((begin_s, end_s))
    return tuple(spells)


def losses_per_s(records: Sequence[SpotRecord]) -> float:
    """Return how often spot GPUs were lost, per second in which they were there."""
    available_s = sum(record.available_s for record in records)
    return sum(record.losses for record in records) / available_s if available_s else 0.0
