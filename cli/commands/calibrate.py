"""``gpuplan calibrate``: how well a site's rules explain the waits in its own log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables.twin_tables import calibration_headline, calibration_tables

if TYPE_CHECKING:
    from gpuplan.planner.studies.calibrate import Calibration


def show(study: Calibration) -> StudyView:
    """Return the calibration as people see it."""
    calibration, show_advice = study.results, study.request.advice

    tables = tuple(calibration_tables(calibration, show_advice))
    return StudyView(
        headline=" ".join(filter(None, [calibration.doubt, calibration_headline(calibration)])),
        tables=tables,
        answer=(*tables[:2], *(tables[-1:] if show_advice else ())),
        notes=study.notes,
        figure=picture("twin:draw_calibration", calibration),
        texts={".toml": lambda _: study.twin_text()},
    )
