"""What studies are asked that replay a log under the rules of its site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.option import Opt, json_parameters
from gpuplan.planner.requests.calibrate import READING
from gpuplan.planner.requests.declaration import StudyRequest

if TYPE_CHECKING:
    from gpuplan.analysis.site.document import SiteDocument
    from gpuplan.analysis.site.schema import CalibrationTable

SITE = "The site"
TWIN = Opt(
    "The site's settings, written by [bold]gpuplan calibrate[/bold].",
    metavar="FILE.toml",
    panel=SITE,
    common=True,
)
LEVEL = Opt(
    "Rules to replay: fifo, easy, bf, multifactor, limits or events; otherwise those that "
    "calibrate chose.",
    metavar="LEVEL",
    panel=SITE,
)
LIMIT_FACTOR = Opt(
    "Time limit of a job without one, over its run time. Default: as calibrated.",
    low=1.0,
    high=1000.0,
    panel=READING,
)


class SiteRequest(StudyRequest):
    """A request with the settings of a site: the fields ``twin``, ``level``, ``limit_factor``."""

    __slots__ = ()

    if TYPE_CHECKING:
        twin: Path
        level: str | None
        limit_factor: float | None

    def site(self) -> tuple[SiteDocument, CalibrationTable]:
        """Return the settings, and what the calibration found. Raises `InputError`."""
        from gpuplan.analysis.site.document import read_twin

        return read_twin(self.twin)

    def calibration(self) -> CalibrationTable:
        """Return how to replay: as calibrated where the request does not say."""
        from msgspec import structs

        calibration = self.site()[1]
        factor = calibration.limit_factor if self.limit_factor is None else self.limit_factor
        level = self.level or calibration.level
        return structs.replace(calibration, level=level, limit_factor=factor)

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        calibration = self.calibration()
        replayed = {"level": calibration.level, "limit_factor": calibration.limit_factor}
        return json_parameters(self) | replayed
