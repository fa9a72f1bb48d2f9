"""What a change of a Slurm site does to waits, or would have done: a replay of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from msgspec import UNSET, UnsetType, structs

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.site.slurm_conf import included_files, read_slurm_conf
from gpuplan.analysis.site.twin_file import read_twin
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.twin import site_changes as changes
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.validate import ValidationResults, validate
from gpuplan.planner.twin.whatif import WhatIfResults, check_groups, what_if

NONE_GIVEN = (
    "give a change: --add-nodes, --remove-nodes, --set, --slurm-conf, --scale-load or "
    "--limits-times"
)


@dataclass(frozen=True, slots=True)
class WhatIfParameters:
    """What was asked of ``gpuplan whatif``.

    Attributes:
        limit_factor: time limit of a job without one, over its run time.
        validate: when a change happened, in seconds after 1970.
        before, after: slurm.conf on each side of it.
    """

    twin: str
    add_nodes: list[str]
    remove_nodes: list[str]
    set: list[str]
    slurm_conf: list[str]
    scale_load: list[float]
    limits_times: list[float]
    together: bool
    by: str
    strict: bool
    level: str
    limit_factor: float
    validate: int | UnsetType = UNSET
    before: str | UnsetType = UNSET
    after: str | UnsetType = UNSET


@dataclass(frozen=True)
class WhatIfRequest:
    """Which changes of a site to replay on its log.

    Attributes:
        trace: the log, or a trace that kept its scheduler's fields.
        twin: the site's settings.
        add_nodes, remove_nodes: changes of the form ``[PARTITION=]N``.
        values: changes of the form ``KEY=VALUE``.
        slurm_conf: files whose settings are changes.
        scale_load, limits_times: factors.
        together: whether all changes are one.
        by: what groups are.
        level: the rules to replay; None for those that the calibration chose.
        limit_factor: limit of a job without one, over its run time; None as calibrated.
        strict: whether the growth of waits for gates counts what could be.
        validate: when a change happened, in place of changes.
        before, after: slurm.conf before and after ``validate``.
    """

    trace: Path
    twin: Path
    add_nodes: tuple[str, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    slurm_conf: tuple[Path, ...] = ()
    scale_load: tuple[float, ...] = ()
    limits_times: tuple[float, ...] = ()
    together: bool = False
    by: str = "account"
    level: str | None = None
    limit_factor: float | None = None
    strict: bool = False
    validate: datetime | None = None
    before: Path | None = None
    after: Path | None = None

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that a slurm.conf includes."""
        named = [path for path in (self.before, self.after) if path is not None]
        settings = [one for path in (*self.slurm_conf, *named) for one in included_files(path)]
        return (self.trace, self.twin, *settings)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        named = [path for path in (self.before, self.after) if path is not None]
        if self.validate is None and named:
            raise UsageError("--before and --after: need --validate DATE")
        if self.validate is not None and (self.changes or len(named) < 2):
            raise UsageError("--validate: needs --before FILE and --after FILE, and no change")
        if self.validate is None and not self.changes:
            raise UsageError(NONE_GIVEN)
        check_groups(self.by, self.calibration.level)

    @cached_property
    def changes(self) -> tuple[SiteChange, ...]:
        """The changes one by one. Raises `InputError` or `UsageError`."""
        return (
            *map(changes.add_nodes, self.add_nodes),
            *map(changes.remove_nodes, self.remove_nodes),
            *map(changes.set_value, self.values),
            *(changes.new_settings(path.name, read_slurm_conf(path)) for path in self.slurm_conf),
            *map(changes.scale_load, self.scale_load),
            *map(changes.scale_limits, self.limits_times),
        )

    @cached_property
    def site(self) -> tuple[SiteDocument, CalibrationTable]:
        """The settings, and what the calibration found. Raises `InputError`."""
        return read_twin(self.twin)

    @property
    def calibration(self) -> CalibrationTable:
        """How to replay: as calibrated where the request does not say."""
        calibration = self.site[1]
        factor = calibration.limit_factor if self.limit_factor is None else self.limit_factor
        level = self.level or calibration.level
        return structs.replace(calibration, level=level, limit_factor=factor)

    def parameters(self) -> WhatIfParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        calibration, is_validation = self.calibration, self.validate is not None
        return WhatIfParameters(
            twin=str(self.twin),
            add_nodes=list(self.add_nodes),
            remove_nodes=list(self.remove_nodes),
            set=list(self.values),
            slurm_conf=[str(path) for path in self.slurm_conf],
            scale_load=list(self.scale_load),
            limits_times=list(self.limits_times),
            together=self.together,
            by=self.by,
            strict=self.strict,
            level=calibration.level,
            limit_factor=calibration.limit_factor,
            validate=_seconds(self.validate) if is_validation else UNSET,
            before=str(self.before) if is_validation else UNSET,
            after=str(self.after) if is_validation else UNSET,
        )


def whatif(request: WhatIfRequest) -> Answer[WhatIfRequest, WhatIfResults | ValidationResults]:
    """Replay a log with and without each change, or around one that happened.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: no change is given, or one that the site cannot make.
    """
    request.check()
    document, calibration = request.site[0], request.calibration
    log = read_site_log(request.trace, calibration.time_zone)
    inputs = (InputFile(str(log.path), log.sha256, log.jobs.height),)
    warnings = tuple(_warnings(request, log))
    if request.validate is not None and request.before is not None and request.after is not None:
        old, new = (
            changes.with_settings(document, read_slurm_conf(path))
            for path in (request.before, request.after)
        )
        at = _seconds(request.validate)
        return Answer(
            request=request,
            results=validate(log, old, new, at, calibration, request.by),
            inputs=inputs,
            warnings=warnings,
            notes=("both effects hold what the load did before and after",),
        )
    made = request.changes
    made = (changes.combined(list(made)),) if request.together else made
    effects = what_if(log, document, made, calibration, by=request.by, strict=request.strict)
    warnings += effects.unused
    lost = sum(sum(change.rejected.values()) for change in effects.changes)
    if lost:
        warnings += (f"{lost:,} jobs that start today never start with a change",)
    return Answer(
        request=request,
        results=effects,
        inputs=inputs,
        warnings=warnings,
        notes=(*effects.work.notes, "whether users would submit otherwise is not modeled"),
    )


def _seconds(time: datetime | None) -> int:
    """Return the second after 1970 of a time in UTC."""
    assert time is not None
    return int(as_utc(time).timestamp())


def _warnings(request: WhatIfRequest, log: SiteLog) -> Iterator[str]:
    calibrated_on = request.site[1].sha256
    if calibrated_on is not None and calibrated_on not in (log.sha256, *log.sources):
        yield "the settings were calibrated on another log; the error is that of this one"
