"""``gpuplan synth``: a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import Column, Shown, StudyView, Table, cells_table, table
from gpuplan.cli.formats.units import show_duration
from gpuplan.cli.tables.characterize_tables import UNIT_SHOW

if TYPE_CHECKING:
    from gpuplan.analysis.synth import Synthesis
    from gpuplan.analysis.synth.compare import ComparedStatistic, Verdict
    from gpuplan.planner.requests.synth import SynthRequest
    from gpuplan.planner.studies.answer import Answer


def show(study: Answer[SynthRequest, Synthesis]) -> StudyView:
    """Return how near the new trace is as people see it."""
    result, few = study.results, study.results.statistics_too_few_data
    if study.request.save_model is not None:
        messages.note(f"wrote {study.request.save_model}")
    return StudyView(
        tables=tuple(_tables(result)),
        headline=f"{result.jobs:,} jobs over {show_duration(result.span_s)} in "
        f"{result.output}: {result.statistics_within} of {result.statistics_compared} statistics "
        f"within their tolerance{f', {few} with too few data to tell' if few else ''}",
    )


def _tables(result: Synthesis) -> list[Table]:
    def shown(key: str, header: str) -> Column:
        """Return a column of values in the unit of each row's statistic."""

        def read(row: ComparedStatistic) -> Shown | None:
            value = getattr(row, key)
            return None if value is None else Shown(value, UNIT_SHOW[row.unit](value))

        return Column(key, header, read=read)

    tables = [
        table(
            f"How close it is ({result.model.source})",
            result.compared,
            {"statistic": ""},
            Column("", "statistic", read=lambda row: row.label),
            *(shown(key, key) for key in ("original", "synthetic", "difference")),
            shown("allowed", "tolerance"),
            Column("verdict", "within", _show_verdict),
        )
    ]
    if result.model.notes:
        tables.append(cells_table("Assumptions", "note", [(note,) for note in result.model.notes]))
    return tables


def _show_verdict(verdict: Verdict) -> str:
    return {"within": "yes", "outside": "NO"}.get(verdict, "too few data")
