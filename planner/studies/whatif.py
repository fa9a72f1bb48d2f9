"""What a change of a Slurm site does to waits, or would have done: a replay of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.requests.site_request import SiteRequest
from gpuplan.planner.requests.whatif import WhatIfRequest, epoch_s
from gpuplan.planner.site.change_effects import WhatIfResults, change_cost
from gpuplan.planner.site.pairs import what_if
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.quota_whatif import quota_whatif
from gpuplan.planner.twin import site_changes as changes
from gpuplan.planner.twin.score import left_out_notes
from gpuplan.planner.twin.validate import ValidationResults, validate

FIRST_PARTS = (
    "where a job goes on as new jobs, effects are on the wait of its first part, unless they say "
    "that all parts count"
)


def whatif(request: WhatIfRequest) -> Answer[WhatIfRequest, WhatIfResults | ValidationResults]:
    """Replay a log with and without each change, or around one that happened.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: no change is given, or one that the site cannot make.
    """
    request.check()
    if request.is_of_kueue:
        return quota_whatif(request)
    document, calibration = request.site()[0], request.calibration()
    log = read_site_log(request.trace, calibration.time_zone)
    inputs: tuple[InputFile, ...] = (InputFile(str(log.path), log.sha256, log.jobs.height),)
    warnings = tuple(calibration_warnings(request, log))
    if request.validate is not None and request.before is not None and request.after is not None:
        old, new = (
            changes.with_settings(document, read_slurm_conf(path))
            for path in (request.before, request.after)
        )
        at = epoch_s(request.validate)
        return Answer(
            request=request,
            results=validate(log, old, new, at, calibration, request.grouping),
            inputs=inputs,
            warnings=warnings,
            notes=("both effects hold what the load did before and after",),
        )
    made = tuple(change.settled(document, log) for change in request.changes())
    made = (changes.combined(list(made)),) if request.together else made
    effects = what_if(
        log, document, made, calibration, by=request.grouping, strict=request.strict,
        chosen=request.site()[1].level,
    )  # fmt: skip
    if request.prices.is_given:
        prices = Prices.read(request.prices, calibration.time_zone).at(log.end_us)
        inputs += prices.inputs
        costs = [
            change_cost(effect, change, document, effects.work, prices).usd_per_month
            for effect, change in zip(effects.changes, made, strict=True)
        ]
        priced = zip(effects.changes, costs, strict=True)
        each = tuple(replace(effect, usd_per_month=usd) for effect, usd in priced)
        effects = replace(effects, changes=each)
    warnings += effects.unused
    lost = sum(sum(change.rejected.values()) for change in effects.changes)
    if lost:
        warnings += (f"{lost:,} jobs that start today never start with a change",)
    return Answer(
        request=request,
        results=effects,
        inputs=inputs,
        warnings=warnings,
        notes=(
            *(note for change in made for note in change.notes),
            *effects.work.notes,
            *left_out_notes(effects.work),
            *_job_sets(effects),
            *(
                [FIRST_PARTS]
                if any(change.split and change.split.requeued for change in effects.changes)
                else []
            ),
            "whether users would submit otherwise is not modeled",
        ),
    )


def _job_sets(effects: WhatIfResults) -> Iterator[str]:
    """Yield how many jobs the effects are of, where users give up or jobs are rejected."""
    counts = [change.groups[0].jobs for change in effects.changes if change.groups]
    scored = int(effects.work.scored.sum())
    if not counts or min(counts) == scored:
        return
    jobs = f"{min(counts):,}"
    if max(counts) > min(counts):
        jobs += f" to {max(counts):,}"
    yield (
        f"effects are of {jobs} of {scored:,} scored jobs, those that start in both replays of a "
        "pair; users give up the others in the queue, or the site rejects them"
    )


def calibration_warnings(request: SiteRequest, log: SiteLog) -> Iterator[str]:
    """Yield what is doubtful of the log and of the settings for it, one sentence each."""
    yield from log.warnings
    if (text := request.calibration().lacks) is not None:
        yield text
    calibrated_on = request.site()[1].sha256
    if calibrated_on is not None and calibrated_on not in (log.sha256, *log.sources):
        yield "the settings were calibrated on another log; the error is that of this one"
