"""``gpuplan whatif``: what a change of a site does to waits, with its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView, declared_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.whatif import WhatIfStudy
    from gpuplan.planner.twin.validate import ChangeValidation
    from gpuplan.planner.twin.whatif import WhatIf


def show(study: WhatIfStudy) -> StudyView:
    """Return the effects of changes, or of one that happened, as people see them."""
    if study.validated is not None:
        return _validation(study, study.validated)
    assert study.found is not None
    return _effects(study, study.found)


def _effects(study: WhatIfStudy, effects: WhatIf) -> StudyView:
    from gpuplan.cli.tables.twin_tables import whatif_headline, whatif_tables

    def draw() -> Figure:
        from gpuplan.cli.figures.twin import draw_whatif

        return draw_whatif(effects)

    return StudyView(
        headline=whatif_headline(effects, study.request.strict),
        tables=tuple(whatif_tables(effects)),
        notes=study.notes,
        figure=draw,
    )


def _validation(study: WhatIfStudy, validation: ChangeValidation) -> StudyView:
    from gpuplan.cli.tables.twin_tables import show_signed, validation_table

    whole = validation.groups[0]
    return StudyView(
        headline=(
            f"The change was predicted to move the mean wait by "
            f"{show_signed(whole.predicted_effect_s)}; recorded was "
            f"{show_signed(whole.recorded_effect_s)}."
        ),
        tables=(validation_table(validation),),
        notes=study.notes,
    )


COMMAND = declared_command("whatif", show)
register = COMMAND.register
