"""Draw a synthetic trace, hold it against its original, and write it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden, plain
from gpuplan.analysis.base.time_units import DAY_S, FIRST_SUBMIT, LAST_SUBMIT, MICROS
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    LAST_INSTANT_US,
    METADATA_KEY,
    SYNTHETIC,
    Provenance,
    SourceFile,
)
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.synth.compare import ComparedStatistic, Verdict, compare
from gpuplan.analysis.synth.draw import SampledJobs, draw, to_frame
from gpuplan.analysis.synth.model import Reference, WorkloadModel
from gpuplan.analysis.synth.week import local_midnight_s

CHUNK_ROWS = 250_000
LONGEST_DAYS = 200 * 366
RECORDED = ("submit_time", "duration_s", "num_gpus", "job_class")
TIMED_KEY = RECORDED[:3]
UNTIMED_KEY = ("submit_time", "num_gpus", "job_class")
NOTHING_RECORDED = "synthetic: every row was sampled from a model, none was recorded"


class SynthModel(Protocol):
    """What a result says of the model behind it."""

    @property
    def source(self) -> str:
        """What it comes from."""

    @property
    def jobs(self) -> int:
        """Jobs of the original."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What it assumes."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes it doubtful."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to draw.

    Attributes:
        jobs: number of jobs, at least 1.
        seed: seed of everything random, at least 0.
        days: length of the trace; None takes the original's jobs per day.
        start: first day in the model's time zone; None takes the original's.
    """

    jobs: int
    seed: int = 0
    days: float | None = None
    start: date | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UsageError(f"--jobs must be at least 1, got {self.jobs}")
        if self.days is not None and not 0 < self.days <= LONGEST_DAYS:
            raise UsageError(f"--days must be above 0 and at most {LONGEST_DAYS}, got {self.days}")


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A synthetic trace beside its original.

    Attributes:
        output: the trace.
        jobs: its jobs.
        span_s: seconds from its first submission to the last.
        source: what the model comes from.
        original_jobs: jobs of the original.
        time_zone: of the original; null where it has no calendar.
        relative_time: whether it has no calendar.
        compared: its statistics beside those of the original.
        statistics_compared: how many have a tolerance.
        statistics_within: how many are within it.
        statistics_too_few_data: how many have too few data to tell.
        statistics_outside: how many are outside.
        rows_moved: sampled rows that equaled a recorded one and were changed.
        notes: what the model assumes.
        model: the model of the trace.
        provenance: the metadata of the file.
    """

    output: Path
    jobs: int
    span_s: float
    source: str
    original_jobs: int
    time_zone: str | None
    relative_time: bool
    compared: tuple[ComparedStatistic, ...]
    statistics_compared: int
    statistics_within: int
    statistics_too_few_data: int
    statistics_outside: int
    rows_moved: int
    notes: tuple[str, ...]
    model: Hidden[SynthModel]
    provenance: Hidden[Provenance]

    @property
    def outside(self) -> tuple[ComparedStatistic, ...]:
        """Statistics that differ by more than their tolerance."""
        return tuple(row for row in self.compared if row.verdict == Verdict.outside)

    def summary(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        values: dict[str, Any] = plain(self)
        return values


def synthesis_of(
    output: Path,
    model: SynthModel,
    jobs: int,
    span_s: float,
    provenance: Provenance,
    compared: Sequence[ComparedStatistic],
    moved: int = 0,
) -> Synthesis:
    """Return a trace that was written, with its statistics counted by their verdict."""
    verdicts = [row.verdict for row in compared]
    return Synthesis(
        output=output,
        jobs=jobs,
        span_s=span_s,
        source=model.source,
        original_jobs=model.jobs,
        time_zone=provenance.time_zone,
        relative_time=provenance.relative_time,
        compared=tuple(compared),
        statistics_compared=len(verdicts) - verdicts.count(None),
        statistics_within=verdicts.count(Verdict.within),
        statistics_too_few_data=verdicts.count(Verdict.too_few_data),
        statistics_outside=verdicts.count(Verdict.outside),
        rows_moved=moved,
        notes=(*model.notes, *model.warnings),
        model=model,
        provenance=provenance,
    )


def synthesize(
    model: WorkloadModel,
    request: Request,
    output: Path,
    *,
    sources: tuple[SourceFile, ...] = (),
    recorded: pl.DataFrame | None = None,
) -> Synthesis:
    """Draw a trace and write it as a canonical Parquet file.

    Args:
        model: fitted, published or read.
        request: the requested size.
        output: the trace; its name ends in ``.parquet``.
        sources: files the model comes from, for the provenance.
        recorded: rows of the original (`RECORDED`); a sampled row that equals one in submission,
            duration and GPUs (without a duration: in submission, GPUs and class) is moved.

    Raises:
        UsageError: the length is undefined, or the times leave the calendar.
        OutputError: the file cannot be written.
    """
    if output.suffix != ".parquet":
        raise UsageError(f"{output}: a trace is Parquet; give it a name that ends in .parquet")
    span_s = _span_s(model, request)
    first_s = _first_s(model, request)
    if (first_s + span_s + DAY_S) * MICROS > LAST_INSTANT_US:
        year = LAST_SUBMIT.year
        raise UsageError(
            f"the last submission would be past the year {year}; choose --start, --days"
        )
    if first_s < FIRST_SUBMIT.timestamp():
        raise UsageError(
            f"the first submission would be before {FIRST_SUBMIT:%-d %B} of the year 1; choose a "
            "later --start"
        )
    sampled = draw(model, request.jobs, first_s, span_s, request.seed)
    sampled, moved = _without_copies(sampled, recorded, model)
    zone = model.arrivals.time_zone
    relative = model.arrivals.start is None and request.start is None
    provenance = Provenance(
        source_format=SYNTHETIC,
        sources=sources,
        rows_read=request.jobs,
        rows_kept=request.jobs,
        rows_rejected={},
        relative_time=relative,
        time_zone=zone if zone or relative else "UTC",
        notes=(
            NOTHING_RECORDED,
            f"model: {model.source}; seed {request.seed}",
            *model.notes,
            *model.warnings,
        ),
        gpuplan_version=gpuplan_version(),
    )
    users = int(np.unique(sampled.owner).size) if model.owners.kind == "user" else None
    compared = compare(sampled.job_arrays(), users, zone, _reference(model, request, span_s))
    with atomic_output(output) as temporary:
        _write(model, sampled, temporary, provenance)
    drawn_s = float(sampled.submit_us[-1] - sampled.submit_us[0]) / MICROS
    return synthesis_of(output, model, request.jobs, drawn_s, provenance, compared, moved)


def _span_s(model: WorkloadModel, request: Request) -> float:
    """Return the time from the first to the last submission."""
    if request.days is not None:
        return request.days * DAY_S * (request.jobs - 1) / request.jobs
    gap_s = model.arrivals.mean_gap_s
    if gap_s is None and request.jobs > 1 and model.arrivals.zero_share < 1:
        raise UsageError(
            f"{model.source}: one job has no rate of arrivals\n  next: give the length with --days"
        )
    span_s = (gap_s or 0.0) * (request.jobs - 1)
    if span_s > LONGEST_DAYS * DAY_S:
        per_day = DAY_S / (gap_s or 1.0)
        raise UsageError(
            f"at {per_day:,.3g} jobs a day, {request.jobs:,} jobs take "
            f"{span_s / DAY_S / 365.25:,.0f} years\n  next: give the length with --days"
        )
    return span_s


def _first_s(model: WorkloadModel, request: Request) -> float:
    day = model.arrivals.start if request.start is None else request.start.isoformat()
    return 0.0 if day is None else float(local_midnight_s(day, model.arrivals.time_zone))


def _reference(model: WorkloadModel, request: Request, span_s: float) -> Reference:
    """Return the comparable statistics: no rate if another is requested, no users of more jobs.

    Hours of the day are compared from two days on, days of the week from two weeks on; what depends
    on the rate and the length (bursts, GPUs held) where the rate is the original's and there are
    half to twice as many jobs.
    """
    left_out = set()
    if request.days is not None:
        left_out.add("interarrival.mean_s")
    if request.days is not None or not model.jobs / 2 <= request.jobs <= model.jobs * 2:
        of_length = ("arrivals.", "load.")
        left_out |= {key for key in model.reference.statistics if key.startswith(of_length)}
    if request.jobs < model.jobs:
        left_out.add("users")
    reference = model.reference
    days = min((model.arrivals.mean_gap_s or 0.0) * model.jobs, span_s) / DAY_S
    return replace(
        reference,
        statistics={k: v for k, v in reference.statistics.items() if k not in left_out},
        by_hour=reference.by_hour if days >= 2 else (),
        by_weekday=reference.by_weekday if days >= 14 else (),
    )


def _without_copies(
    sampled: SampledJobs, recorded: pl.DataFrame | None, model: WorkloadModel
) -> tuple[SampledJobs, int]:
    """Return the jobs without copies of recorded rows, and the number that had to be moved.

    A row that equals a recorded one in submission, duration and GPUs gets one clock step more. One
    without a duration that equals a recorded one in submission, GPUs and class comes half a step
    of the clock later, between the instants that the original can have.
    """
    if recorded is None:
        return sampled, 0
    rows = pl.DataFrame(
        {
            "submit_time": sampled.submit_us,
            "duration_s": pl.Series(sampled.duration_s).fill_nan(None),
            "num_gpus": sampled.num_gpus,
            "job_class": pl.Series([c.job_class for c in model.cells], dtype=pl.String).gather(
                sampled.cell.astype(np.uint32)
            ),
        }
    ).with_row_index("at")
    originals = recorded.with_columns(pl.col("submit_time").dt.epoch("us"))
    timed = pl.col("duration_s").is_not_null()
    later_us = max(1, round(model.arrivals.step_s * MICROS / 2))
    longer = _changed_rows(
        rows.filter(timed), originals.filter(timed), TIMED_KEY, "duration_s", model.duration_step_s
    )
    later = _changed_rows(
        rows.filter(~timed), originals.filter(~timed), UNTIMED_KEY, "submit_time", later_us
    )
    duration_s, submit_us = sampled.duration_s.copy(), sampled.submit_us.copy()
    duration_s[longer["at"]] = longer["duration_s"]
    submit_us[later["at"]] = later["submit_time"]
    sampled = replace(sampled, duration_s=duration_s, submit_us=submit_us)
    return sampled.in_order() if later.height else sampled, longer.height + later.height


def _changed_rows(
    rows: pl.DataFrame, originals: pl.DataFrame, key: tuple[str, ...], column: str, step: float
) -> pl.DataFrame:
    """Return the rows (``at`` and ``column``) whose ``column`` had to grow by steps.

    It grows until the key of the row is new.
    """
    moved = hit = _with_a_key_of(rows, originals, key)
    while hit.height:
        hit = hit.with_columns((pl.col(column) + step).cast(rows.schema[column]))
        moved = moved.select("at", column).update(hit.select("at", column), on="at")
        hit = _with_a_key_of(hit, originals, key)
    return moved.select("at", column)


def _with_a_key_of(
    rows: pl.DataFrame, originals: pl.DataFrame, key: tuple[str, ...]
) -> pl.DataFrame:
    """Return the rows with a known key; no class equals no class."""
    return rows.join(originals, on=list(key), how="semi", nulls_equal=True, maintain_order="left")


def _write(model: WorkloadModel, sampled: SampledJobs, path: Path, provenance: Provenance) -> None:
    count = sampled.submit_us.size

    def batches(*_: object) -> Iterator[pl.DataFrame]:
        for begin in range(0, count, CHUNK_ROWS):
            yield to_frame(model, sampled, begin, min(begin + CHUNK_ROWS, count))

    scan = register_io_source(batches, schema=dict(CANONICAL))
    with path.open("wb") as file:
        try:
            scan.sink_parquet(
                file, row_group_size=CHUNK_ROWS, metadata={METADATA_KEY: provenance.to_json()}
            )
        except pl.exceptions.PolarsError as error:  # a full disk, for example
            raise OSError(str(error)) from error
