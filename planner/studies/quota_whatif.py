"""What a change of a site of Kueue does to waits: a replay of the Workloads of a dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from gpuplan.analysis.base.words import counted
from gpuplan.analysis.quota.git_site import site_before
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.quota_twin.calibrate import calibrate_quotas, work_warnings
from gpuplan.planner.quota_twin.changes import QuotaChange, combined_changes, to_site
from gpuplan.planner.quota_twin.log_workload import QuotaWorkload
from gpuplan.planner.quota_twin.room import missing_gpus, room_warnings
from gpuplan.planner.quota_twin.what_if import quota_what_if
from gpuplan.planner.requests.whatif import WhatIfRequest
from gpuplan.planner.site.change_effects import WhatIfResults
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.quota_site import dump_of, site_of_log

EACH_ALONE = "each change is replayed alone: --together makes all of them at once"


def quota_whatif(request: WhatIfRequest) -> Answer[WhatIfRequest, WhatIfResults]:
    """Replay a dump of Kueue with and without each change.

    Without ``--twin`` the site is calibrated first.

    Raises:
        InputError: a file cannot be used.
        UsageError: no change is given, or one that the site cannot make.
    """
    log = dump_of(request.trace)
    document, calibration, notes = _today(request, log)
    chosen = calibration.level
    calibration = structs.replace(calibration, level=request.level or chosen)
    changes = request.quota_changes()
    made = (combined_changes(changes),) if request.together else changes
    effects = quota_what_if(
        log, document, made, calibration, by=request.grouping, strict=request.strict, chosen=chosen
    )
    warnings = [*log.warnings, *effects.unused]
    for change in made:
        changed, _ = change.changed(document)
        warnings += room_warnings(
            change.name, document, changed, adds_nodes="add-nodes" in change.name
        )
    if isinstance(effects.work, QuotaWorkload):
        warnings += work_warnings(effects.work)
    if calibration.sha256 is not None and calibration.sha256 != log.sha256:
        warnings.append(
            "the settings were calibrated on another log; the error is that of this one"
        )
    if lost := sum(sum(change.rejected.values()) for change in effects.changes):
        warnings.append(f"{lost:,} workloads that start today never start with a change")
    effects = replace(
        effects,
        on_no_node=dict(_on_no_node(document, made)),
        caveats=tuple(_still_waiting(log)),
    )
    return Answer(
        request=request,
        results=effects,
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height),),
        warnings=tuple(warnings),
        notes=(
            *notes,
            *([EACH_ALONE] if len(made) > 1 else []),
            *effects.notes,
            "whether users would submit otherwise is not modeled",
        ),
    )


def _on_no_node(
    document: QuotaDocument, changes: Sequence[QuotaChange]
) -> Iterator[tuple[str, int]]:
    """Yield the changes whose quotas are for more GPUs than the nodes have, and how many more."""
    for change in changes:
        if "add-nodes" in change.name:
            continue
        changed, _ = change.changed(document)
        if gpus := missing_gpus(document, changed):
            yield change.name, gpus


def _still_waiting(log: KueueLog) -> Iterator[str]:
    """Yield a sentence on the workloads that wait at the end of a dump, which no replay has."""
    if jobs := log.waiting.height:
        gpus, is_one = round(log.waiting["gpus"].sum()), jobs == 1
        yield (
            f"{counted(jobs, 'workload')} ({counted(gpus, 'GPU')}) still "
            f"{'waits and is' if is_one else 'wait and are'} not in these waits, as "
            f"{'its run time is' if is_one else 'their run times are'} unknown."
        )


def _today(
    request: WhatIfRequest, log: KueueLog
) -> tuple[QuotaDocument, CalibrationTable, tuple[str, ...]]:
    """Return the site of today, what its calibration scores, and notes. Raises as above."""
    document: QuotaDocument | None = None
    calibration: CalibrationTable | None = None
    if request.twin is not None:
        document, calibration = request.quota_site()
    notes: tuple[str, ...] = ()
    if request.before is not None:
        before = site_before(request.kueue_site[0], str(request.before))
        document = document if document is not None else log.site
        if document is None:
            document = before
        else:
            document, notes = to_site(f"before {request.before}", before).changed(document)
    if document is None:
        document = site_of_log(log, None)
    if calibration is None:
        scores = calibrate_quotas(log, document)
        calibration = CalibrationTable(
            level=scores.chosen, sha256=log.sha256, within=scores.within, mae_s=scores.mae_s
        )
        notes += (
            f"calibrated on this dump without --twin: the rules up to {scores.chosen} explain "
            f"{scores.within:.0%} of its waits",
        )
    return document, calibration, notes
