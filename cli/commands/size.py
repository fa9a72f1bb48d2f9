"""``gpuplan size``: how many GPUs the jobs need, and how many to commit to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import StudyView, Table, picture
from gpuplan.cli.tables.commitment_tables import (
    commitment_curve_table,
    commitment_table,
    commitments,
    terms_table,
)
from gpuplan.cli.tables.fidelity_text import fidelity_table
from gpuplan.cli.tables.group_waits import with_group_waits
from gpuplan.cli.tables.size_tables import (
    curve_table,
    headline,
    pools_table,
    price_note,
)

if TYPE_CHECKING:
    from gpuplan.planner.studies.size_results import SizeAnswer, SizeResults


def show(study: SizeAnswer) -> StudyView:
    """Return the size and the commitment as people see them."""
    request, results = study.request, study.results

    curve = (curve_table(results),) if results.points else ()
    committed = _commitment_tables(results)
    pools = (pools_table(results),) if len(results.pools) > 1 else ()
    is_one = len(results.pools) == 1
    sizes = {(None if is_one else pool.name, pool.gpus) for pool in results.pools}
    groups = [
        (f"{point.gpus:,} {point.gpu_type or 'GPUs'}", plain(point).get("groups"))
        for point in results.points
        if (point.gpu_type, point.gpus) in sizes or not request.target
    ]
    answer = (*pools, *curve)[:2]
    if results.commitment is not None and not curve:
        answer = committed[: 2 if results.commitment.terms else 1]
    view = StudyView(
        headline=headline(
            results, request.replay.jobs.parameters().get("period"), study.source_format
        ),
        tables=(*curve, *committed, pools_table(results), *fidelity_table(results.fidelity)),
        notes=(*price_note(study), *study.notes),
        answer=answer,
        figure=picture("size:draw_size", results, study.lines),
        frame=study.to_frame,
    )
    today = plain(results).get("today_groups")
    return with_group_waits(view, request.replay.by, groups, today, of_runs="size")


def _commitment_tables(results: SizeResults) -> tuple[Table, ...]:
    """Return the tables of commitments, the one of the answer first."""
    if results.commitment is None:
        return ()
    curve, types = commitment_curve_table(results), commitment_table(results)
    tables = (curve, types) if len(commitments(results)) == 1 else (types, curve)
    terms = terms_table(results)
    return tables if terms is None else (tables[0], terms, tables[1])
