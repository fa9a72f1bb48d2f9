"""Whose demand to forecast: the request, its limits, and its parameters as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.base.time_units import written_utc
from gpuplan.analysis.forecast.forecast import AUTO
from gpuplan.analysis.forecast.models import MODELS, ORGLINEAR
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.user_tables.holidays import holidays_file, read_holidays
from gpuplan.simkit.cluster_shape import ClusterShape

ALL = "all"
MOST_STEPS = 24


@dataclass(frozen=True, slots=True)
class ForecastParameters:
    """What was asked for, as JSON has it."""

    by: str
    horizon_h: int
    at: str | None
    model: str
    cluster: str | None
    backtest: bool
    holidays: str | None
    spot: str | None
    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int
    as_of: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """Whose demand to forecast, and when.

    Attributes:
        source: a trace, a log, or a CSV of hourly demand.
        jobs: which jobs of a trace.
        by: the column that makes a series, or `ALL`; of a CSV whether its columns are GPU types.
        horizon_h: hours ahead, 1 to 24.
        at: the forecast is issued at the beginning of this hour, a time or, without a calendar, an
            hour; None for the end of what is known.
        model: one of `MODELS`, or ``auto``.
        cluster: GPUs that there are; None for the most held at once so far.
        backtest: whether the errors of every model are asked for too.
        holidays: dates with commas between them, or a file of them (`read_holidays`).
    """

    source: Path
    jobs: Selection = field(default_factory=Selection)
    by: str = "group"
    horizon_h: int = 4
    at: datetime | int | None = None
    model: str = AUTO
    cluster: ClusterShape | None = None
    backtest: bool = False
    holidays: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.horizon_h <= MOST_STEPS:
            raise UsageError(f"--horizon: expected 1h to {MOST_STEPS}h, got {self.horizon_h}h")
        find_named(self.model, {AUTO: "", **MODELS}, "--model", "model")
        if self.cluster is not None and self.cluster.gpus is None:
            raise UsageError("--cluster: expected a number of GPUs, such as 64x8")
        if self.holidays is not None and self.model not in (AUTO, ORGLINEAR):
            raise UsageError(
                f"--holidays: {self.model} does not use holidays\n"
                f"  next: --model {ORGLINEAR}, or auto"
            )

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads."""
        of_holidays = None if self.holidays is None else holidays_file(self.holidays)
        return (self.source,) if of_holidays is None else (self.source, of_holidays)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check what can be checked before the source is read. Raises `GpuplanError`."""
        self.days()

    def days(self) -> tuple[date, ...]:
        """Return the holidays. Raises `InputError` or `UsageError`."""
        return () if self.holidays is None else read_holidays(self.holidays)

    def parameters(self) -> ForecastParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        at = self.at
        written = written_utc(at) if isinstance(at, datetime) else None if at is None else str(at)
        return ForecastParameters(
            by=self.by,
            horizon_h=self.horizon_h,
            at=written,
            model=self.model,
            cluster=None if self.cluster is None else str(self.cluster),
            backtest=self.backtest,
            holidays=self.holidays,
            **{"spot": None, **self.jobs.parameters()},
        )
