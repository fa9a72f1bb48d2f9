"""``gpuplan characterize``: what a workload is, or how several differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UnsetType

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.formats.waits_text import hardly_wait, waits_text
from gpuplan.cli.tables.characterize_tables import (
    gpu_type_table,
    main_statistics,
    workload_headline,
    workload_tables,
)
from gpuplan.cli.tables.fit_tables import fit_tables
from gpuplan.cli.tables.price_tables import bill_tables
from gpuplan.cli.tables.trace_comparison import comparison_headline, comparison_tables
from gpuplan.planner.studies.characterize import WorkloadComparison

if TYPE_CHECKING:
    from gpuplan.planner.studies.characterize import (
        CharacterizeAnswer,
        CharacterizeResults,
        TraceBill,
    )


def show(study: CharacterizeAnswer) -> StudyView:
    """Return one workload, or several compared, as people see it."""
    results = study.results
    if isinstance(results, WorkloadComparison):
        return _compared(results)
    return _alone(results, study.bill, study.request.jobs.parameters().get("period"))


def _alone(
    workload: CharacterizeResults, bill: TraceBill | None, period: dict[str, str | None] | None
) -> StudyView:

    waits = workload.waits
    tables = workload_tables(workload)
    types = () if workload.today is None else (gpu_type_table(workload.today),)
    return StudyView(
        tables=(
            tables[0],
            *types,
            *tables[1:],
            *(() if isinstance(workload.fits, UnsetType) else fit_tables(workload.fits)),
            *(() if bill is None else bill_tables(bill.cost, bill.view)),
        ),
        headline=" ".join(
            text
            for text in (
                "" if waits is None or hardly_wait(waits) else waits_text(waits, is_short=True),
                workload_headline(workload, workload.today, period),
            )
            if text
        ),
        answer=(*types, main_statistics(tables[0])),
        figure=picture("workload:draw_workload", workload),
    )


def _compared(results: WorkloadComparison) -> StudyView:

    names = [trace.name for trace in results.traces]
    workloads = [trace.workload for trace in results.traces]

    return StudyView(
        tables=tuple(comparison_tables(names, workloads, results.comparison)),
        headline=comparison_headline(names, workloads),
        figure=picture("cdf:draw_comparison", names, workloads),
    )
