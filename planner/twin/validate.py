"""Test a what-if on a change that did happen: its predicted against its recorded effect."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.planner.twin.calibrate import Replays, prepared
from gpuplan.planner.twin.settings import level_config
from gpuplan.planner.twin.workload import ALL_JOBS
from gpuplan.simkit.arrays import BoolArray

LEAST_JOBS = 20


@dataclass(frozen=True, slots=True)
class GroupValidation:
    """Effects of a change on the mean wait: after - before.

    Attributes:
        name: the group.
        jobs_before, jobs_after: scored jobs on each side of the change.
        predicted_effect_s: as replayed.
        recorded_effect_s: as recorded.
    """

    name: str
    jobs_before: int
    jobs_after: int
    predicted_effect_s: float
    recorded_effect_s: float


@dataclass(frozen=True, slots=True)
class ChangeValidation:
    """Predicted and recorded effects of a change at one time.

    Attributes:
        by: what groups are.
        groups: all jobs first, then the groups by name.
    """

    by: str
    groups: tuple[GroupValidation, ...]


@dataclass(frozen=True, slots=True)
class ValidationResults:
    """What a change that happened did to waits.

    Attributes:
        validation: predicted and recorded effects.
    """

    validation: ChangeValidation


def validate(
    log: SiteLog,
    before: SiteDocument,
    after: SiteDocument,
    at: int,
    calibration: CalibrationTable,
    by: str = "account",
) -> ValidationResults:
    """Replay what came before a change under the old settings, and what came after under the new.

    Jobs submitted before the change start as recorded in the second replay. Both effects hold what
    the load did too.

    Args:
        before, after: the settings.
        at: when they changed; seconds after 1970.
        calibration: the rules to replay, and the jobs of the first replay to score.
        by: what groups are.

    Raises:
        UsageError: there are too few scored jobs on one side of the change.
    """
    level = calibration.level
    first = int(log.jobs["submit"].min())  # type: ignore[arg-type]
    site, full, old = prepared(log, before, calibration.warmup_s, calibration.limit_factor)
    early = old.jobs.submit < at
    replays = Replays(2)
    run_old = replays.run("before", site, old.jobs.kept(early), level_config(full, level))
    site, full, new = prepared(log, after, max(at - first, 0), calibration.limit_factor)
    run_new = replays.run("after", site, new.jobs, level_config(full, level))
    scored_old = old.scored[early] & (run_old.start >= 0)
    scored_new = new.scored & (run_new.start >= 0)
    if min(scored_old.sum(), scored_new.sum()) < LEAST_JOBS:
        raise UsageError(
            f"--validate: {scored_old.sum()} scored jobs before and {scored_new.sum()} after; "
            f"needs {LEAST_JOBS} on each side"
        )
    names_old = old.names(by)[early]
    names_new = new.names(by)

    def group(name: str, left: BoolArray, right: BoolArray) -> GroupValidation:
        recorded = new.recorded_wait[right].mean() - old.recorded_wait[early][left].mean()
        predicted = run_new.wait[right].mean() - run_old.wait[left].mean()
        return GroupValidation(
            name, int(left.sum()), int(right.sum()), float(predicted), float(recorded)
        )

    groups = [group(ALL_JOBS, scored_old, scored_new)]
    for name in sorted(set(names_old[scored_old]) & set(names_new[scored_new])):
        left, right = scored_old & (names_old == name), scored_new & (names_new == name)
        if min(left.sum(), right.sum()) >= LEAST_JOBS:
            groups.append(group(str(name), left, right))
    return ValidationResults(ChangeValidation(by, tuple(groups)))
