"""The report of ``gpuplan simulate`` and ``gpuplan compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Report
from gpuplan.cli.tables.fairness_tables import with_fairness
from gpuplan.cli.tables.group_waits import with_group_waits
from gpuplan.cli.tables.lending_tables import with_lending
from gpuplan.cli.tables.policy_answer import answer_table, answer_text
from gpuplan.cli.tables.price_notes import price_notes

if TYPE_CHECKING:
    from gpuplan.planner.studies.compare import CompareStudy
    from gpuplan.planner.studies.replay import ReplayInputs
    from gpuplan.planner.studies.simulate import SimulateStudy


def policy_report(
    report: Report,
    study: CompareStudy | SimulateStudy,
    rows: Sequence[dict[str, Any]],
    settings: Mapping[str, Mapping[str, Any]],
) -> Report:
    """Return a report with its answer: today, and the policies.

    Of policies that lend GPUs the answer is about both classes of jobs.

    Args:
        report: with its results, tables, and the tables that follow the answer.
        study: what was replayed.
        rows: results of each policy, with ``name`` and ``label``.
        settings: of each policy, by label.
    """
    request, today = study.request, study.priced.today
    speedups = {label: values.get("speedup") for label, values in settings.items()}
    table = answer_table(today, rows, has_deadlines=study.replayed.jobs.has_deadlines)
    notes: tuple[str, ...] = ()
    if request.replay.prices is None:
        notes = price_notes(request.policies, has_price=request.price.is_given)
    report = replace(
        report,
        inputs=study.replayed.inputs,
        parameters=plain(study.parameters()),
        headline=answer_text(today, rows, speedups),
        warnings=study.warnings,
        caveats=study.caveats,
        notes=notes,
        answer=(table, *(report.answer or ())),
    )
    typed = [
        {**row, "label": policy.label} for row, policy in zip(rows, request.policies, strict=True)
    ]
    report = with_fairness(with_lending(report, typed), typed)
    groups = [(row["label"], row.get("groups")) for row in rows]
    return with_group_waits(report, request.replay.by, groups)


def first_submission(replayed: ReplayInputs) -> datetime | None:
    """Return when the first job was submitted; None where the trace has no calendar."""
    first_us = replayed.jobs.first_submit_us
    return None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC)
