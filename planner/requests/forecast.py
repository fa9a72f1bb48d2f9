"""What ``gpuplan forecast`` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import UnsetType

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.base.option import DATE_FORMATS, Group, Opt, files_read, parameters_type
from gpuplan.analysis.base.time_units import as_utc, written_utc
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.user_tables.holidays import holidays_file, read_holidays
from gpuplan.planner.money.spend_request import AUTO, SPEND_MODELS, SpendRequest
from gpuplan.planner.requests.declaration import COST, OF_BOOK, StudyRequest, study
from gpuplan.planner.requests.shapes import read_shape, shape_text

if TYPE_CHECKING:
    from gpuplan.simkit.cluster_shape import ClusterShape

ALL = "all"
HORIZON_H, MOST_STEPS = 4, 24


def read_hours(text: str, flag: str) -> int:
    """Return the whole hours of ``4h``. Raises `UsageError`."""
    hours = parse_duration(text, flag) / 3600
    if hours != int(min(hours, MOST_STEPS + 1)):
        raise UsageError(f"{flag} {text!r}: expected whole hours, 1h to {MOST_STEPS}h")
    return int(hours)


def read_hour(text: str, flag: str) -> datetime | int:
    """Return a time, or the number of an hour. Raises `UsageError` for anything else."""
    if text.strip().isdecimal() and len(text) < 10:
        return int(text)
    for form in (*DATE_FORMATS, "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"):
        try:
            return as_utc(datetime.strptime(text.strip(), form))
        except ValueError:
            continue
    raise UsageError(
        f"{flag} {text!r}: expected a time such as 2026-01-31T12:00, or an hour number"
    )


def hour_text(hour: datetime | int) -> str:
    """Return a time, or the number of an hour, as JSON has it."""
    return str(written_utc(hour) if isinstance(hour, datetime) else hour)


PRICES_OF_SPEND = ("prices", "price", "gpu", "contracts", "commit", "owned", "on_demand")
"""Options of prices that say what use costs: of ``--spend`` alone."""


@study(
    "forecast",
    title="Demand of the next hours",
    picture="Demand so far, and in the next hours",
    example="gpuplan forecast trace.parquet --by user --horizon 4h --cluster 64x8",
    doing="forecasting",
    has_rows=False,
    usual_for=OF_BOOK,
    book_needs={
        **dict.fromkeys(PRICES_OF_SPEND, ("spend",)),
        "provider": ("prices",),
    },
    compared={
        "usd": (COST, "forecast of all months"),
        "totals.usd": (COST, "forecast"),
    },
)
@dataclass(frozen=True, slots=True)
class ForecastRequest(StudyRequest):
    """Forecast the GPUs of each group, and how many to lend.

    With --spend: the dollars of the next months.

    Attributes:
        jobs: which jobs of a trace.
        spending: whether dollars are forecast, and at which prices.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "spend": Annotated[parameters_type(SpendRequest) | UnsetType, "what --spend takes"],
    }

    trace: Annotated[
        Path,
        Opt(
            "A trace or a job log; or a CSV of hourly demand: hour or time, then one column of "
            "GPUs per group.",
            key=None,
            metavar="TRACE|LOG|CSV",
            argument=True,
        ),
    ]
    jobs: Annotated[Selection, Group(without=("period_from", "period_to"), with_null=("spot",))] = (
        field(default_factory=Selection)
    )
    spending: Annotated[SpendRequest, Group(in_json=False)] = field(default_factory=SpendRequest)
    by: Annotated[
        str,
        Opt(
            "Forecast each of these on its own: group, user, job_class, gpu_type, all, or a "
            "column kept by --keep. GPU types are pools of their own.",
            metavar="WHAT",
            common=True,
            complete=("group", "user", "job_class", "gpu_type", ALL),
        ),
    ] = "group"
    horizon_h: Annotated[
        int,
        Opt(
            "Hours ahead, 1h to 24h.",
            flag="--horizon",
            parse=read_hours,
            metavar="TIME",
            default=f"{HORIZON_H}h",
            common=True,
        ),
    ] = HORIZON_H
    at: Annotated[
        datetime | int | None,
        Opt(
            "Forecast from this hour on, using the hours before it: a time (UTC), or an hour "
            "number where the trace has no calendar. Default: the end of the trace.",
            parse=read_hour,
            write=hour_text,
            metavar="TIME",
        ),
    ] = None
    backtest: Annotated[
        bool,
        Opt(
            "Show how good each model was on the last 20% of hours; of spend in past months.",
            flag="--backtest",
        ),
    ] = False
    model: Annotated[
        str,
        Opt(
            "Model: auto (the best in validation), last-value, seasonal-24h, seasonal-168h, "
            "last-week-peak, dlinear, or orglinear. Of spend: auto (the best in past months), "
            "last-month, mean-of-3, drift, or seasonal.",
            metavar="NAME",
            common=True,
            complete="forecast_models",
        ),
    ] = "auto"
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs of the cluster: 512, 64x8, or by GPU type A100=432x8,A10=2494 (of --by "
            "gpu_type; only these types are lent). Default: the most that jobs held at once.",
            write=shape_text,
            metavar="SHAPE",
            common=True,
        ),
    ] = None
    holidays: Annotated[
        str | None,
        Opt(
            "Days on which demand differs, for orglinear: 2026-12-25,2026-12-26, or a file with "
            "one date per line. Name past holidays and those to come (UTC).",
            metavar="DATES|FILE",
        ),
    ] = None

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, that of holidays among them."""
        return (*files_read(self), None if self.holidays is None else holidays_file(self.holidays))

    def check(self) -> None:
        """Check what can be checked before the trace is read. Raises `GpuplanError`."""
        from gpuplan.analysis.forecast.models import MODELS, ORGLINEAR

        self.spending.check(self.trace)
        if self.spending.spend:
            self._check_spend()
            return
        if not 1 <= self.horizon_h <= MOST_STEPS:
            raise UsageError(f"--horizon: expected 1h to {MOST_STEPS}h, got {self.horizon_h}h")
        find_named(self.model, {AUTO: "", **MODELS}, "--model", "model")
        self.shape()
        if self.holidays is not None and self.model not in (AUTO, ORGLINEAR):
            raise UsageError(
                f"--holidays: {self.model} does not use holidays\n"
                f"  next: --model {ORGLINEAR}, or auto"
            )
        self.days()

    def _check_spend(self) -> None:
        find_named(self.model, {AUTO: "", **SPEND_MODELS}, "--model", "model of spend")
        if "," in self.by:
            raise UsageError(f"--by {self.by}: --spend takes one column, such as group")
        hourly = {
            "--horizon": self.horizon_h != HORIZON_H,
            "--at": self.at is not None,
            "--cluster": self.cluster is not None,
            "--holidays": self.holidays is not None,
            "--spot": self.jobs.spot is not None,
        }
        for flag in (flag for flag, is_given in hourly.items() if is_given):
            raise UsageError(f"{flag}: is of the next hours, not with --spend")

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        shown = StudyRequest.parameters(self)
        return shown | ({"spend": self.spending.parameters()} if self.spending.spend else {})

    def shape(self) -> ClusterShape | None:
        """Return the GPUs of ``cluster``. Raises `UsageError`."""
        shape = None if self.cluster is None else read_shape(self.cluster, "--cluster")
        if shape is not None and shape.gpus is None:
            raise UsageError("--cluster: expected a number of GPUs, such as 64x8")
        return shape

    def days(self) -> tuple[date, ...]:
        """Return the holidays. Raises `InputError` or `UsageError`."""
        return () if self.holidays is None else read_holidays(self.holidays)
