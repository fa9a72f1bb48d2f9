"""What a change of a Slurm site does to waits, or would have done: a replay of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.requests.whatif import WhatIfRequest, epoch_s
from gpuplan.planner.studies.whatif_results import (
    CalibratedError,
    ValidationResults,
    WaitGrowth,
    WhatIfResults,
)
from gpuplan.planner.twin import site_changes as changes
from gpuplan.planner.twin.validate import ChangeValidation, validate
from gpuplan.planner.twin.whatif import WITHIN, WhatIf, what_if

LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""


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
    def inputs(self) -> tuple[InputFile, ...]:
        """The log as an input."""
        return (InputFile(str(self.log.path), self.log.sha256, self.log.jobs.height),)

    @property
    def results(self) -> WhatIfResults | ValidationResults:
        """The results as JSON has them."""
        if self.validated is not None:
            return ValidationResults(self.validated)
        assert self.found is not None
        found, calibration = self.found, self.request.site()[1]
        return WhatIfResults(
            level=found.level,
            by=found.by,
            base_rejected=found.base_rejected,
            changes=found.changes,
            growth=growth(found, self.request.strict),
            calibration=CalibratedError(calibration.within, calibration.mae_s),
        )


def whatif(request: WhatIfRequest) -> WhatIfStudy:
    """Replay a log with and without each change, or around one that happened.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: no change is given, or one that the site cannot make.
    """
    request.check()
    document, calibration = request.site()
    log = read_site_log(request.trace, calibration.time_zone)
    warnings = tuple(_warnings(request, log))
    settings = request.settings()
    if request.validate is not None and request.before is not None and request.after is not None:
        old, new = (
            changes.with_settings(document, read_slurm_conf(path))
            for path in (request.before, request.after)
        )
        at = epoch_s(request.validate)
        return WhatIfStudy(
            request, log, None, validate(log, old, new, at, **settings), warnings,
            ("both effects hold what the load did before and after",),
        )  # fmt: skip
    asked = request.changes()
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


def _warnings(request: WhatIfRequest, log: SiteLog) -> Iterator[str]:
    calibrated_on = request.site()[1].sha256
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
