"""What studies are asked that replay a log under the rules of its site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.option import Opt, json_parameters
from gpuplan.analysis.kubernetes.heads import LOG_FORMATS
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.requests.calibrate import READING
from gpuplan.planner.requests.declaration import StudyRequest

if TYPE_CHECKING:
    from gpuplan.analysis.quota.kueue_site import QuotaDocument
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.schema import CalibrationTable

SITE = "The site"
TWIN = Opt(
    "The site's settings, written by [bold]gpuplan calibrate[/bold].",
    metavar="FILE.toml",
    panel=SITE,
    common=True,
)
NO_TWIN = (
    "--twin: needs the settings of the site\n"
    "  next: gpuplan calibrate LOG --slurm-conf slurm.conf -o twin.toml"
)
LEVEL = Opt(
    "Rules to replay: fifo, easy, bf, multifactor, limits or events (of Kueue fifo, quotas, "
    "borrowing, preemption or fair); otherwise those that calibrate chose.",
    metavar="LEVEL",
    panel=SITE,
)
LIMIT_FACTOR = Opt(
    "Time limit of a job without one, over its run time. Default: as calibrated.",
    low=1.0,
    high=1000.0,
    panel=READING,
)
TIME_ZONE = Opt(
    "Zone of times without an offset, such as Europe/Berlin: that of --twin, which need not be "
    "repeated.",
    metavar="NAME",
    panel=READING,
    omitted=True,
)


KUBERNETES = LOG_FORMATS
"""Formats of logs that no Slurm site wrote."""
OF_KUEUE = KUBERNETES[:3]
"""Formats of logs that a site of Kueue may have written."""


def is_quota_site(twin: Path) -> bool:
    """Return whether settings are of a site of Kueue or KAI. Raises `InputError`."""
    from gpuplan.analysis.quota.kueue_site import is_quota_twin

    return is_quota_twin(twin)


def read_quota_settings(twin: Path) -> tuple[QuotaDocument, CalibrationTable]:
    """Return the settings of a site of Kueue, and what the calibration found.

    Raises `InputError`.
    """
    from gpuplan.analysis.quota.kueue_site import read_quota_twin

    return read_quota_twin(twin)


def check_kind(trace: Path, source_format: str, twin: Path) -> None:
    """Refuse settings of another kind of site than the one that wrote a log. Raises `InputError`.

    Args:
        trace: the log, or a trace of it.
        source_format: its format.
        twin: the settings.
    """
    is_of_kueue = is_quota_site(twin)
    if is_of_kueue and source_format not in OF_KUEUE:
        raise InputError(
            twin,
            f"is of a site of Kueue, and {trace} is a {source_format} log",
            expected="the settings of the site that wrote the log",
            hint=f"gpuplan calibrate {trace} --slurm-conf slurm.conf -o twin.toml",
        )
    if not is_of_kueue and source_format in KUBERNETES:
        raise InputError(
            twin,
            f"is of a Slurm site, and {trace} is a {source_format} log",
            expected="the settings of a site of Kueue",
            hint=f"gpuplan calibrate {trace if source_format == 'kueue' else 'kueue.json'} "
            "-o twin.toml",
        )


def is_of_kueue(trace: Path, twin: Path | None) -> bool:
    """Return whether a study is of a site of Kueue.

    Args:
        twin: the settings; None where the log alone tells.

    Raises:
        InputError: a file cannot be read, or the settings are of another kind of site.
    """
    from gpuplan.analysis.quota.workloads import is_kueue_dump

    if twin is None:
        return is_kueue_dump(trace)
    if is_quota_site(twin):
        from gpuplan.analysis.site.source_format import source_format_of

        if not is_kueue_dump(trace) and (source_format := source_format_of(trace)):
            check_kind(trace, source_format, twin)
        return True
    if is_kueue_dump(trace):
        check_kind(trace, "kueue", twin)
    return False


def read_site(twin: Path) -> tuple[SiteDocument, CalibrationTable]:
    """Return the settings of a site, and what the calibration found. Raises `InputError`."""
    from gpuplan.analysis.site.document import read_twin

    return read_twin(twin)


def site_zone(calibration: CalibrationTable, twin: Path, time_zone: str | None) -> str:
    """Return the zone of local times of a site: its settings tell it.

    Args:
        calibration: what the settings tell of the log.
        twin: their file.
        time_zone: as requested; None for that of the settings.

    Raises:
        UsageError: another zone is requested.
    """
    zone = calibration.time_zone
    if time_zone is not None and time_zone != zone:
        raise UsageError(
            f"--time-zone {time_zone}: the settings {twin} were calibrated with times in {zone}\n"
            f"  next: leave it out, or gpuplan calibrate --time-zone {time_zone}"
        )
    return zone


def in_site_zone(
    jobs: Selection, log: Path, calibration: CalibrationTable, twin: Path
) -> Selection:
    """Return how to read a log for a site: its local times are in the zone of the settings.

    Raises:
        UsageError: another zone is requested.
    """
    from gpuplan.analysis.site.log import has_local_times

    zone = site_zone(calibration, twin, jobs.log.time_zone)
    if zone == "UTC" or not has_local_times(log):
        return jobs
    return replace(jobs, log=replace(jobs.log, time_zone=zone))


def selected_at_site(jobs: Selection, log: Path, twin: Path | None) -> Selection:
    """Return how to read a log where a twin may say so. Raises as `in_site_zone`, `InputError`."""
    return jobs if twin is None else in_site_zone(jobs, log, read_site(twin)[1], twin)


class TwinRequest(StudyRequest):
    """A request with a log and the settings of its site: the fields below."""

    __slots__ = ()

    if TYPE_CHECKING:
        trace: Path
        twin: Path | None

    @property
    def is_of_kueue(self) -> bool:
        """Whether the log is of Kueue. Raises `InputError` where a file cannot be read."""
        return is_of_kueue(self.trace, self.twin)

    def site(self) -> tuple[SiteDocument, CalibrationTable]:
        """Return the settings, and what the calibration found.

        Raises `InputError` or, without ``twin``, `UsageError`.
        """
        return read_site(self._twin())

    def quota_site(self) -> tuple[QuotaDocument, CalibrationTable]:
        """Return the settings of a site of Kueue. Raises as `site`."""
        return read_quota_settings(self._twin())

    def _twin(self) -> Path:
        if self.twin is None:
            raise UsageError(NO_TWIN)
        return self.twin


class SiteRequest(TwinRequest):
    """A request to replay a log under the rules of its site: the fields below."""

    __slots__ = ()

    if TYPE_CHECKING:
        level: str | None
        limit_factor: float | None
        time_zone: str | None

    def calibration(self) -> CalibrationTable:
        """Return how to replay: as calibrated where the request does not say.

        Raises:
            InputError: the settings cannot be used.
            UsageError: another time zone than theirs is requested.
        """
        calibration = self.site()[1]
        site_zone(calibration, self.twin or Path(), self.time_zone)
        factor = calibration.limit_factor if self.limit_factor is None else self.limit_factor
        level = self.level or calibration.level
        return structs.replace(calibration, level=level, limit_factor=factor)

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        calibration = self.calibration()
        replayed = {"level": calibration.level, "limit_factor": calibration.limit_factor}
        return json_parameters(self) | replayed
