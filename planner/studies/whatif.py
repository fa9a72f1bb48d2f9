"""What a change of a Slurm site does to waits, or would have done: a replay of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import UNSET

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.site.document import SiteDocument, read_twin
from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.site.slurm_conf import included_files, read_slurm_conf
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.studies.whatif_results import (
    CalibratedError,
    ValidationResults,
    WaitGrowth,
    WhatIfParameters,
    WhatIfResults,
)
from gpuplan.planner.twin import site_changes as changes
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.validate import ChangeValidation, validate
from gpuplan.planner.twin.whatif import WITHIN, WhatIf, check_groups, what_if

NONE_GIVEN = (
    "give a change: --add-nodes, --remove-nodes, --set, --slurm-conf, --scale-load or "
    "--limits-times"
)
LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""


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
        found = self.changes
        named = [path for path in (self.before, self.after) if path is not None]
        if self.validate is None and named:
            raise UsageError("--before and --after: need --validate DATE")
        if self.validate is not None and (found or len(named) < 2):
            raise UsageError("--validate: needs --before FILE and --after FILE, and no change")
        if self.validate is None and not found:
            raise UsageError(NONE_GIVEN)
        check_groups(self.by, self.settings["level"])

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
    def settings(self) -> dict[str, Any]:
        """How to replay: as calibrated where the request does not say."""
        calibration = self.site[1]
        factor = self.limit_factor
        return {
            "level": self.level or calibration.level,
            "by": self.by,
            "warmup_s": calibration.warmup_s,
            "limit_factor": calibration.limit_factor if factor is None else factor,
        }


@dataclass(frozen=True, slots=True)
class WhatIfStudy:
    """What changes do, or did.

    Attributes:
        request: what was asked for.
        log: the jobs.
        found: the effects of the changes; None where one that happened is replayed.
        validated: predicted and recorded effect of that one; None where changes are replayed.
        warnings: what the reader must know, one sentence each.
        notes: what else, one sentence each.
    """

    request: WhatIfRequest
    log: SiteLog
    found: WhatIf | None
    validated: ChangeValidation | None
    warnings: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    @property
    def input(self) -> InputFile:
        """The log as an input."""
        return InputFile(str(self.log.path), self.log.sha256, self.log.jobs.height)

    @property
    def results(self) -> WhatIfResults | ValidationResults:
        """The results as JSON has them."""
        if self.validated is not None:
            return ValidationResults(self.validated)
        assert self.found is not None
        found, calibration = self.found, self.request.site[1]
        return WhatIfResults(
            level=found.level,
            by=found.by,
            base_rejected=found.base_rejected,
            changes=found.changes,
            growth=growth(found, self.request.strict),
            calibration=CalibratedError(calibration.within, calibration.mae_s),
        )

    def parameters(self) -> WhatIfParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        asked, settings = self.request, self.request.settings
        is_validation = self.validated is not None
        return WhatIfParameters(
            twin=str(asked.twin),
            add_nodes=list(asked.add_nodes),
            remove_nodes=list(asked.remove_nodes),
            set=list(asked.values),
            slurm_conf=[str(path) for path in asked.slurm_conf],
            scale_load=list(asked.scale_load),
            limits_times=list(asked.limits_times),
            together=asked.together,
            by=asked.by,
            strict=asked.strict,
            level=settings["level"],
            limit_factor=settings["limit_factor"],
            validate=_seconds(asked.validate) if is_validation else UNSET,
            before=str(asked.before) if is_validation else UNSET,
            after=str(asked.after) if is_validation else UNSET,
        )


def whatif(request: WhatIfRequest) -> WhatIfStudy:
    """Replay a log with and without each change, or around one that happened.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: no change is given, or one that the site cannot make.
    """
    request.check()
    document, calibration = request.site
    log = read_site_log(request.trace, calibration.time_zone)
    warnings = tuple(_warnings(request, log))
    settings = request.settings
    if request.validate is not None and request.before is not None and request.after is not None:
        old, new = (
            changes.with_settings(document, read_slurm_conf(path))
            for path in (request.before, request.after)
        )
        at = _seconds(request.validate)
        return WhatIfStudy(
            request, log, None, validate(log, old, new, at, **settings), warnings,
            ("both effects hold what the load did before and after",),
        )  # fmt: skip
    asked = request.changes
    asked = (changes.combined(list(asked)),) if request.together else asked
    found = what_if(log, document, asked, all_jobs=calibration.all_jobs, **settings)
    warnings += found.unused
    lost = sum(sum(change.rejected.values()) for change in found.changes)
    if lost:
        warnings += (f"{lost:,} jobs that start today never start with a change",)
    return WhatIfStudy(
        request, log, found, None, warnings,
        (*found.work.notes, "whether users would submit otherwise is not modeled"),
    )  # fmt: skip


def _seconds(time: datetime | None) -> int:
    """Return the second after 1970 of a time in UTC."""
    assert time is not None
    return int(as_utc(time).timestamp())


def _warnings(request: WhatIfRequest, log: SiteLog) -> Iterator[str]:
    calibrated_on = request.site[1].sha256
    if calibrated_on is not None and calibrated_on not in (log.sha256, *log.sources):
        yield "the settings were calibrated on another log; the error is that of this one"


def growth(found: WhatIf, strict: bool) -> tuple[WaitGrowth, ...]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth within its error counts as none; with ``strict`` the error is added to the effect.
    ``any team`` is the greatest of all groups.
    """
    most: dict[str, WaitGrowth] = {}
    for change in found.changes:
        for group in change.groups:
            mean = _growth(
                group.effect_s, group.error_s, group.verdict, group.replayed_mean_wait_s, strict
            )
            p95 = _growth(
                group.p95_effect_s,
                group.p95_error_s,
                group.p95_verdict,
                group.replayed_p95_wait_s,
                strict,
            )
            aliases = ["any team", f"any {found.by}"] if group is not change.groups[0] else []
            for name in dict.fromkeys([*aliases, group.name]):
                row = most.get(name, WaitGrowth(name, mean, p95))
                most[name] = WaitGrowth(
                    name, max(row.mean_wait_growth, mean), max(row.p95_wait_growth, p95)
                )
    return tuple(most.values())


def _growth(effect_s: float, error_s: float, verdict: str, today_s: float, strict: bool) -> float:
    counted = 0.0 if verdict == WITHIN else effect_s
    return (effect_s + error_s if strict else counted) / max(today_s, LEAST_WAIT_S)
