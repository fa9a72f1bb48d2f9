"""How well a site's rules explain the waits in its own log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.dumps import read_dump
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.slurm_conf import included_files, read_slurm_conf
from gpuplan.analysis.site.twin_file import twin_text
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.twin.calibrate import CalibrateResults
from gpuplan.planner.twin.calibrate import calibrate as calibrate_log
from gpuplan.planner.twin.infer import complete
from gpuplan.planner.twin.replays import Progress, nothing
from gpuplan.planner.twin.workload import recent
from gpuplan.simkit.cluster_shape import ClusterShape


@dataclass(frozen=True, slots=True)
class CalibrateParameters:
    """What was asked of ``gpuplan calibrate``, as JSON has it.

    Attributes:
        cluster: the nodes, as given.
        infer: whether settings that no file gives are inferred from the log.
        warmup: time after the first submission in which jobs are not scored, as given.
        limit_factor: time limit of a job without one, over its run time.
        advice: whether advice is shown.
        all_jobs: whether all jobs of a long log are replayed, not only those of its last weeks.
    """

    slurm_conf: str | None
    scontrol: list[str]
    sacctmgr: list[str]
    sshare: str | None
    cluster: str | None
    infer: bool
    time_zone: str | None
    warmup: str | None
    limit_factor: float
    advice: bool
    all_jobs: bool


@dataclass(frozen=True, slots=True)
class CalibrateRequest:
    """Which log to replay, and what is known of its site.

    Attributes:
        trace: the log, or a trace that kept its scheduler's fields.
        slurm_conf: slurm.conf of the site.
        scontrol, sacctmgr: outputs of Slurm's commands.
        sshare: output of sshare at the start of the log.
        shape: the nodes where no file tells them; ``cluster`` is their text.
        infer: whether to take from the log what no file tells.
        time_zone: of times without an offset; None for UTC.
        warmup_s: jobs submitted in this time after the first are not scored; None for a tenth of
            the log. ``warmup`` is its text.
        limit_factor: time limit of a job without one, over its run time.
        advice: whether advice is shown.
        all_jobs: whether to replay all jobs of a long log, not only those of its last weeks.
    """

    trace: Path
    slurm_conf: Path | None = None
    scontrol: tuple[Path, ...] = ()
    sacctmgr: tuple[Path, ...] = ()
    sshare: Path | None = None
    shape: ClusterShape | None = None
    cluster: str | None = None
    infer: bool = False
    time_zone: str | None = None
    warmup_s: int | None = None
    warmup: str | None = None
    limit_factor: float = 2.0
    advice: bool = False
    all_jobs: bool = False

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads, those among them that slurm.conf includes."""
        named = () if self.slurm_conf is None else tuple(included_files(self.slurm_conf))
        usage = () if self.sshare is None else (self.sshare,)
        return (self.trace, *named, *usage, *self.scontrol, *self.sacctmgr)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check what can be checked before files are read. Raises `UsageError`."""
        if self.time_zone is not None:
            check_zone(self.time_zone)

    def document(self) -> SiteDocument:
        """Return the settings in the files. Raises `InputError`."""
        document, zone = SiteDocument(), self.time_zone or "UTC"
        if self.slurm_conf is not None:
            document.merge(read_slurm_conf(self.slurm_conf))
        for path in (*self.scontrol, *self.sacctmgr):
            document.merge(read_dump(path, zone))
        if self.sshare is not None:
            document.merge(read_dump(self.sshare, zone))
        return document

    def parameters(self) -> CalibrateParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        return CalibrateParameters(
            slurm_conf=None if self.slurm_conf is None else str(self.slurm_conf),
            scontrol=[str(path) for path in self.scontrol],
            sacctmgr=[str(path) for path in self.sacctmgr],
            sshare=None if self.sshare is None else str(self.sshare),
            cluster=self.cluster,
            infer=self.infer,
            time_zone=self.time_zone,
            warmup=self.warmup,
            limit_factor=self.limit_factor,
            advice=self.advice,
            all_jobs=self.all_jobs,
        )


@dataclass(frozen=True, slots=True)
class Calibration(Answer[CalibrateRequest, CalibrateResults]):
    """How well a site's rules explain its waits."""

    def twin_text(self) -> str:
        """Return the text of ``twin.toml``: the settings, and what the calibration found."""
        return twin_text(self.results.document, self._table())

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
        if request.all_jobs:
            table["all_jobs"] = True
        if request.time_zone is not None:
            table["time_zone"] = request.time_zone
        if request.warmup_s is not None:
            table["warmup_s"] = request.warmup_s
        return table


def calibrate(request: CalibrateRequest, progress: Progress = nothing) -> Calibration:
    """Replay a log under more and more of its site's rules and score each.

    Of a long log only the last weeks are replayed, unless the request wants all jobs.
    ``progress`` is called with the share done.

    Raises:
        InputError: a file cannot be used, or the log has no job to score.
        UsageError: a setting cannot be used.
    """
    request.check()
    document = request.document()
    whole = read_site_log(request.trace, request.time_zone or "UTC")
    log = whole if request.all_jobs else recent(whole)
    inferred = complete(document, log, cluster=request.shape, infer=request.infer)
    results = calibrate_log(
        log,
        document,
        inferred,
        warmup_s=request.warmup_s,
        limit_factor=request.limit_factor,
        earlier=whole.jobs.height - log.jobs.height,
        progress=progress,
    )
    return Calibration(
        request=request,
        results=results,
        inputs=(InputFile(str(whole.path), whole.sha256, whole.jobs.height),),
        warnings=results.warnings,
        notes=results.notes,
    )
