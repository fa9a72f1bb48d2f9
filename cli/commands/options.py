"""``gpuplan options``: changes of a site side by side, with dollars and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables.option_tables import groups_table, headline, options_table

if TYPE_CHECKING:
    from gpuplan.planner.requests.options import OptionsRequest
    from gpuplan.planner.site.options import OptionsResults
    from gpuplan.planner.studies.answer import Answer


def show(study: Answer[OptionsRequest, OptionsResults]) -> StudyView:
    """Return the options as people compare them."""
    results = study.results

    groups = (groups_table(results),) if results.by is not None else ()
    return StudyView(
        headline=headline(results),
        tables=(options_table(results), *groups),
        notes=study.notes,
        figure=picture("options:draw_options", results, study.request.targets()),
    )
