"""How well a site's rules explain the waits in its own log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.objects import COMMAND
from gpuplan.analysis.quota.twin_text import quota_twin_text
from gpuplan.analysis.quota.workloads import is_kueue_dump, read_kueue_log
from gpuplan.analysis.site.document import twin_text
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.quota_twin.calibrate import calibrate_quotas
from gpuplan.planner.requests.calibrate import CalibrateRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.quota_site import site_of_log
from gpuplan.planner.twin.calibrate import CalibrateResults, Progress, no_progress
from gpuplan.planner.twin.calibrate import calibrate as calibrate_log
from gpuplan.planner.twin.infer import complete
from gpuplan.planner.twin.lacks import lacks_text
from gpuplan.planner.twin.workload import recent


@dataclass(frozen=True, slots=True)
class Calibration(Answer[CalibrateRequest, CalibrateResults]):
    """How well a site's rules explain its waits."""

    def twin_text(self) -> str:
        """Return the text of ``twin.toml``: the settings, and what the calibration found."""
        document, table = self.results.document, self._table()
        if isinstance(document, QuotaDocument):
            return quota_twin_text(document, table)
        return twin_text(document, table)

    def _table(self) -> dict[str, Any]:
        results, request = self.results, self.request
        score, jobs = results.score, results.log.jobs
        table: dict[str, Any] = {
            "log": str(results.log.path.name),
            "sha256": results.log.sha256,
            "first_submit": int(jobs["submit"].min()),  # type: ignore[arg-type]
            "last_submit": int(jobs["submit"].max()),  # type: ignore[arg-type]
            "level": results.chosen,
            "within": score.within,
            "mae_s": score.mae_s,
            "noise_mae_s": results.noise_floor.mae_s,
            "noise_spread_s": results.noise_floor.spread_s,
            "scored_jobs": score.jobs,
            "limit_factor": request.limit_factor,
            "levels": {
                level.name: {
                    "within": level.within,
                    "mae_s": level.mae_s,
                    "bias_s": level.bias_s,
                    "p95_s": level.p95_s,
                    **({} if level.mean_rel is None else {"mean_rel": level.mean_rel}),
                }
                for level in results.levels
            },
            "excluded": dict(results.excluded),
        }
        if isinstance(results.document, QuotaDocument):
            table["explains_waits"] = not results.doubt
        if (text := lacks_text(results.lacks)) is not None:
            table["lacks"] = text
        if request.all_jobs:
            table["all_jobs"] = True
        if request.time_zone is not None:
            table["time_zone"] = request.time_zone
        if (warmup_s := request.warmup_s()) is not None:
            table["warmup_s"] = warmup_s
        return table


def calibrate(request: CalibrateRequest, progress: Progress = no_progress) -> Calibration:
    """Replay a log under more and more of its site's rules and score each.

    Of a long log only the last weeks are replayed, unless the request wants all jobs.
    ``progress`` is called with the share done.

    Raises:
        InputError: a file cannot be used, or the log has no job to score.
        UsageError: a setting cannot be used.
    """
    request.check()
    if is_kueue_dump(request.trace):
        return _calibrate_quotas(request, progress)
    if request.site is not None:
        raise InputError(
            request.trace,
            "has no Workloads of Kueue, and --site is for these",
            expected="what kubectl get workloads.kueue.x-k8s.io -A -o json prints",
            hint=COMMAND,
        )
    document = request.document()
    full_log = read_site_log(request.trace, request.time_zone)
    log = full_log if request.all_jobs else recent(full_log)
    inferred = complete(document, log, cluster=request.shape(), infer=request.infer)
    results = calibrate_log(
        log,
        document,
        inferred,
        warmup_s=request.warmup_s(),
        limit_factor=request.limit_factor,
        earlier=full_log.jobs.height - log.jobs.height,
        progress=progress,
    )
    return Calibration(
        request=request,
        results=results,
        inputs=(InputFile(str(full_log.path), full_log.sha256, full_log.jobs.height),),
        warnings=results.warnings,
        notes=results.notes,
    )


def _calibrate_quotas(request: CalibrateRequest, progress: Progress) -> Calibration:
    """Calibrate the quotas of a site of Kueue. Raises as `calibrate`."""
    request.check_for_quotas()
    log = read_kueue_log(request.trace)
    results = calibrate_quotas(
        log, site_of_log(log, request.site), warmup_s=request.warmup_s(), progress=progress
    )
    return Calibration(
        request=request,
        results=results,
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height),),
        warnings=results.warnings,
        notes=results.notes,
    )
