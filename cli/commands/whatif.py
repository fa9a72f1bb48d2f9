"""``gpuplan whatif``: what a change of a site does to waits, with its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables.twin_tables import (
    validation_headline,
    validation_table,
    whatif_headline,
    whatif_tables,
)
from gpuplan.planner.site.change_effects import WhatIfResults

if TYPE_CHECKING:
    from gpuplan.planner.requests.whatif import WhatIfRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.twin.validate import ValidationResults


BEHIND_FULL = ("Effect on the 95th", "Who ")
"""Beginnings of titles of tables that an answer on quotas does without."""


def show(study: Answer[WhatIfRequest, WhatIfResults | ValidationResults]) -> StudyView:
    """Return the effects of changes, or of one that happened, as people see them."""
    results = study.results
    if not isinstance(results, WhatIfResults):
        return StudyView(
            headline=validation_headline(results.validation),
            tables=(validation_table(results.validation),),
            notes=study.notes,
        )

    tables = tuple(whatif_tables(results))
    has_quotas = isinstance(results.queues, tuple)
    shown = (part for part in tables if not part.title.startswith(BEHIND_FULL))

    return StudyView(
        headline=" ".join(
            filter(
                None,
                [
                    results.doubt,
                    whatif_headline(results, study.request.strict),
                    *results.caveats,
                ],
            )
        ),
        tables=tables,
        answer=tuple(shown) if has_quotas else None,
        notes=study.notes,
        figure=picture("twin:draw_whatif", results),
    )
