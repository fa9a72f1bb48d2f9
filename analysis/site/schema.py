"""The one schema of a site's settings: tables, keys, types and ranges under Slurm's names.

slurm.conf, dumps, ``twin.toml`` and changes of a what-if all pass through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from gpuplan.analysis.base.typed_tables import typed_tables
from gpuplan.analysis.job_table.notation import (
    A_TIME,
    MOST_HOSTS,
    UNLIMITED,
    gpu_limit,
    minutes_limit,
)

MOST = (1 << 32) - 1  # Slurm's own numbers have 32 bits
LAST_SECOND = 1 << 44
Whole = Annotated[int, Meta(ge=0, le=MOST)]
Second = Annotated[int, Meta(ge=0, le=LAST_SECOND)]


class SiteLimit:
    """A whole number, or None for no limit."""

    expected = f"a whole number up to {MOST:,}, or unlimited"

    def __init__(self, value: int | None = None) -> None:
        self.value = value

    @classmethod
    def read(cls, value: Any) -> SiteLimit:
        """Return a limit as written. Raises `ValueError` with what is expected."""
        if isinstance(value, str):
            value = value.strip()
        try:
            return cls(None if str(value).lower() in UNLIMITED else cls._number(value))
        except ValueError:
            raise ValueError(cls.expected) from None

    @classmethod
    def _number(cls, value: Any) -> int | None:
        return msgspec.convert(value, Whole, strict=False)


class GpuLimit(SiteLimit):
    """GPUs of a limit: ``8``, ``gres/gpu=8`` or a table with ``gpu``."""

    expected = "GPUs as a whole number, such as gpu = 8; the model has no other resource"

    @classmethod
    def _number(cls, value: Any) -> int | None:
        if isinstance(value, Mapping) and set(value) <= {"gpu"}:
            return cls.read(value.get("gpu")).value
        if isinstance(value, str) and re.search("[=:]", value):
            value = gpu_limit(value)
        return None if value is None else super()._number(value)


class TimeLimit(SiteLimit):
    """Seconds of a time in Slurm's notation; a number is minutes."""

    expected = A_TIME
    least = 0

    @classmethod
    def _number(cls, value: Any) -> int | None:
        seconds = minutes_limit(str(value))
        if seconds is not None and not cls.least <= seconds <= LAST_SECOND:
            raise ValueError(seconds)
        return seconds


class PeriodLimit(TimeLimit):
    """A time of at least a minute."""

    expected = f"{A_TIME}, at least a minute"
    least = 60


class SettingsTable(Struct, forbid_unknown_fields=True, frozen=True):
    """A table of settings; other keys are refused."""


class Node(SettingsTable, frozen=True):
    """A group of equal nodes; its name is a host list."""

    count: Annotated[int, Meta(ge=1, le=MOST_HOSTS)] | None = None
    gpus: Annotated[int, Meta(ge=1, le=1 << 20)] = 1
    type: str = "gpu"
    weight: Whole = 1


class Partition(SettingsTable, frozen=True):
    """Nodes that jobs name, and its limits."""

    Nodes: str = "ALL"
    PriorityTier: Whole = 1
    PriorityJobFactor: Whole = 1
    MaxTime: TimeLimit = TimeLimit()
    MaxNodes: SiteLimit = SiteLimit()
    QOS: str = ""
    TRESBillingWeights: str = ""


class Qos(SettingsTable, frozen=True):
    """Priority and limits of a quality of service."""

    Priority: Whole = 0
    GrpTRES: GpuLimit = GpuLimit()
    GrpJobs: SiteLimit = SiteLimit()
    MaxTRESPU: GpuLimit = GpuLimit()
    MaxJobsPU: SiteLimit = SiteLimit()
    MaxTRESPerJob: GpuLimit = GpuLimit()
    MaxWall: TimeLimit = TimeLimit()


class User(SettingsTable, frozen=True):
    """Share, limits and usage of an association."""

    Fairshare: Whole = 1
    GrpTRES: GpuLimit = GpuLimit()
    MaxJobs: SiteLimit = SiteLimit()
    RawUsage: Annotated[float, Meta(ge=0, le=1e18)] = 0.0


class Account(User, frozen=True):
    """An account and its users."""

    Parent: str = "root"
    user: dict[str, User] = {}


class Priority(SettingsTable, frozen=True):
    """Settings of priority/multifactor."""

    PriorityType: str = ""
    PriorityWeightAge: Whole = 0
    PriorityWeightFairshare: Whole = 0
    PriorityWeightJobSize: Whole = 0
    PriorityWeightPartition: Whole = 0
    PriorityWeightQOS: Whole = 0
    PriorityWeightTRES: GpuLimit = GpuLimit(0)
    PriorityMaxAge: TimeLimit = TimeLimit(7 * 86400)
    PriorityFavorSmall: bool | str = "no"
    PriorityFlags: str = ""
    PriorityDecayHalfLife: TimeLimit = TimeLimit(7 * 86400)
    PriorityCalcPeriod: PeriodLimit = PeriodLimit(300)
    FairShareDampeningFactor: Annotated[float, Meta(ge=1e-6, le=1e6)] = 1.0


class Backfill(SettingsTable, frozen=True):
    """Settings of the scheduler and of its backfill."""

    SchedulerType: str = ""
    SelectTypeParameters: str = ""
    AccountingStorageEnforce: str = ""
    bf_interval: Annotated[int, Meta(ge=1, le=10_800)] = 30
    bf_window: Annotated[int, Meta(ge=0, le=1 << 24)] = 1440
    bf_resolution: Annotated[int, Meta(ge=1, le=86_400)] = 60
    bf_max_job_test: Annotated[int, Meta(ge=1, le=MOST)] = 500
    bf_max_job_user: Whole = 0
    bf_max_job_part: Whole = 0
    default_queue_depth: Annotated[int, Meta(ge=1, le=MOST)] = 100
    sched_interval: Whole = 60


class Event(SettingsTable, frozen=True):
    """A time in which a node was drained or down; seconds after 1970."""

    node: str
    start: Second
    end: Second
    announced: Second | None = None

    def __post_init__(self) -> None:
        if self.end < self.start:
            # `typed_tables` puts what it found before this, and "expected".
            raise ValueError(f"end to be {self.start}, its start, or later")


class StartCalibration(Struct, frozen=True):
    """What a backtest of forecast starts found; see `gpuplan.planner.site.backtest`."""

    jobs: Whole
    replays: Whole
    until: Second
    tail: Annotated[float, Meta(ge=0, le=0.5)]
    coverage_80: Annotated[float, Meta(ge=0, le=1)]
    raw_coverage_80: Annotated[float, Meta(ge=0, le=1)]
    pinball_s: Annotated[float, Meta(ge=0, le=1e18)]
    mean_pinball_s: Annotated[float, Meta(ge=0, le=1e18)]
    easy_pinball_s: Annotated[float, Meta(ge=0, le=1e18)] | None = None
    at_once_jobs: Whole | UnsetType = UNSET
    at_once_share: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class CalibrationTable(Struct, frozen=True):
    """What a what-if reads of a calibration."""

    level: str = "events"
    sha256: str | None = None
    time_zone: str = "UTC"
    warmup_s: Second | None = None
    limit_factor: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    within: Annotated[float, Meta(ge=0, le=1)] | None = None
    mae_s: Annotated[float, Meta(ge=0, le=1e18)] | None = None
    explains_waits: bool = True
    sources: dict[str, str] = {}
    all_jobs: bool = False
    eta: StartCalibration | None = None
    lacks: str | None = None


class SiteSettings(SettingsTable, frozen=True):
    """All settings of a site, and its calibration."""

    node: dict[str, Node] = {}
    partition: dict[str, Partition] = {}
    qos: dict[str, Qos] = {}
    account: dict[str, Account] = {}
    priority: Priority = Priority()
    backfill: Backfill = Backfill()
    event: list[Event] = []
    calibration: CalibrationTable = CalibrationTable()


def read_settings(tables: Mapping[str, Any]) -> SiteSettings:
    """Return the settings of nested tables.

    Raises:
        UsageError: one cannot be used; names its key, what was found and what is expected.
    """
    return typed_tables(tables, SiteSettings, lambda kind, value: kind.read(value))
