"""How fast job classes are on a share of a GPU, from tables that ``profile`` and ``share`` read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.sharing_functions import TRAINING, SharedFunction, read_functions
from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable, read_profile
from gpuplan.planner.sharing.profile_search import REQUEST_SHARE, rate_at, row_of_batch

MOST_NAMED = 6
WHOLE_PERCENT = 100.0
LEAST_SHARES = 2
MOST_FALL = 0.15
"""Share of the throughput that noise of a measurement may cost on a larger share of the GPU."""


@dataclass(frozen=True, slots=True)
class ClassSpeed:
    """What a share of a GPU does to jobs of a class.

    Attributes:
        name: the class.
        table: its measured rates.
        row: of the table, the batch size that counts.
        request: the least share of a GPU, of 1, as the file of functions has it; None to keep
            `REQUEST_SHARE` of the speed.
        is_service: whether it lasts as long on a share: it serves, and does not end earlier.
    """

    name: str
    table: ProfileTable
    row: int = -1
    request: float | None = None
    is_service: bool = False

    def speed(self, share: float) -> float:
        """Return the speed on a share of a GPU over that on a whole one."""
        return rate_at(self.table, 100 * share, self.row) / rate_at(self.table, 100, self.row)

    def is_enough(self, share: float) -> bool:
        """Return whether a share of a GPU would do."""
        if self.request is not None:
            return share >= self.request - 1e-9
        return self.speed(share) >= REQUEST_SHARE

    def times_longer(self, share: float) -> float:
        """Return how many times as long a job runs on a share of a GPU."""
        return 1.0 if self.is_service else 1 / self.speed(share)


def read_class_speeds(
    paths: Sequence[Path],
) -> tuple[dict[str, ClassSpeed], tuple[InputFile, ...]]:
    """Read tables, each of the class that its file is named after, or files of functions (.toml).

    Raises:
        InputError: a file cannot be used.
        UsageError: two of a class.
    """
    speeds: dict[str, ClassSpeed] = {}
    inputs = []
    for path in paths:
        if path.suffix.lower() == ".toml":
            rows = [_of_function(function) for function in read_functions(path)]
            size = len(rows)
        else:
            table = read_profile(path)
            rows, size = [ClassSpeed(table.name, table)], table.latency_s.size
        inputs.append(InputFile(str(path), sha256_of(path), size))
        for row in rows:
            _check_speed(row)
            if row.name in speeds:
                raise UsageError(f"--profile: class {row.name!r} is measured twice; give one table")
            speeds[row.name] = row
    return speeds, tuple(inputs)


def _check_speed(speed: ClassSpeed) -> None:
    """Refuse a table that does not tell how much slower a part of a GPU is. Raises `InputError`."""
    table, rates = speed.table, speed.table.throughput[speed.row]
    shares, batch = table.sm_percent, int(table.batch[speed.row])
    if shares[-1] < WHOLE_PERCENT or shares.size < LEAST_SHARES:
        raise InputError(
            table.path,
            f"measures {listed([f'{share:g}%' for share in shares], MOST_NAMED)} of the SMs alone",
            expected=f"a whole GPU ({WHOLE_PERCENT:g}%) and at least one smaller share of it",
            hint="measure the class on a whole GPU too; a part is as fast as its share of that",
        )
    before = np.maximum.accumulate(rates)
    worst = int(np.argmin(rates / before))
    fall = 1 - rates[worst] / before[worst]
    if fall > MOST_FALL:
        best = int(np.argmax(rates[:worst]))
        raise InputError(
            table.path,
            f"has {fall:.0%} less throughput at {shares[worst]:g}% of the SMs than at "
            f"{shares[best]:g}% (batch {batch})",
            expected=f"throughput that falls by at most {MOST_FALL:.0%} where the share rises",
            hint="check the order of the columns: batch, percent of the SMs, seconds, items per "
            "second; or measure it again",
        )


def _of_function(function: SharedFunction) -> ClassSpeed:
    table, is_service = read_profile(function.profile), function.kind != TRAINING
    row = row_of_batch(table, function.batch) if is_service else -1
    return ClassSpeed(function.name, table, row, function.request, is_service)


def classes_of(jobs: pl.DataFrame) -> list[str]:
    """Return the classes of jobs, in order; none where no job has one."""
    if "job_class" not in jobs.columns:
        return []
    return jobs["job_class"].cast(pl.String).unique().drop_nulls().sort().to_list()


def check_classes(speeds: Mapping[str, ClassSpeed], classes: Sequence[str]) -> None:
    """Refuse tables of which none is of a class of the log.

    Raises:
        UsageError: names the classes of the log.
    """
    if not speeds or set(speeds) & set(classes):
        return
    has = f"the log has {listed(classes, MOST_NAMED)}" if classes else "the log has none"
    raise UsageError(
        f"--profile: no job is of class {listed(sorted(speeds), MOST_NAMED)}; {has}\n"
        "  next: name the file after a class, or say which column is the class: "
        "--map job_class=COLUMN"
    )
