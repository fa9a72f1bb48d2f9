"""What people see of ``gpuplan simulate`` and ``gpuplan compare`` alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isclose
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.words import joined
from gpuplan.cli.formats.units import show_about_usd
from gpuplan.cli.tables.fairness_tables import with_fairness
from gpuplan.cli.tables.fidelity_text import contradiction, fidelity_table
from gpuplan.cli.tables.group_waits import with_group_waits
from gpuplan.cli.tables.lending_tables import with_lending
from gpuplan.cli.tables.policy_answer import (
    AS_TODAY,
    answer_table,
    answer_text,
    replayed_waits,
    today_sentence,
)
from gpuplan.cli.tables.price_notes import price_notes
from gpuplan.planner.money.todays_basis import NO_BASIS
from gpuplan.planner.policies.quota_settings import has_quotas

if TYPE_CHECKING:
    from gpuplan.cli.formats.report import StudyView
    from gpuplan.planner.compare import PolicyComparison, PolicyOutcome
    from gpuplan.planner.studies.compare import CompareAnswer
    from gpuplan.planner.studies.policy_prices import PricedPolicies
    from gpuplan.planner.studies.replay import ReplayInputs
    from gpuplan.planner.studies.simulate import SimulateAnswer

MOST_NAMES = 3
ON_TODAYS_BASIS = (
    "$/month starts from today's bill and adds or subtracts GPU-hours at the mean pay-per-use "
    "price; cost, and $/month in other tables, are of all GPUs of the cluster, busy or not"
)
"""What the two prices of a cluster of today's GPUs are."""


def with_policies(
    view: StudyView, study: CompareAnswer | SimulateAnswer, rows: Sequence[dict[str, Any]]
) -> StudyView:
    """Return a view with its answer: today, and the policies.

    Of policies that lend GPUs the answer is about both classes of jobs.

    Args:
        view: with its tables, and the tables that follow the answer.
        study: what was replayed.
        rows: results of each policy, with ``name`` and ``label``.
    """
    request, replays = study.request, study.replays
    today, outcomes = replays.priced.today, replays.comparison.outcomes
    rows = _on_todays_basis(replays.priced, rows)
    results = plain(study.results)
    cluster = replays.today_cluster
    table = answer_table(today, rows, cluster, has_deadlines=replays.inputs.jobs.has_deadlines)
    notes: tuple[str, ...] = ()
    if request.replay.prices is None and not request.price.is_own:
        notes = price_notes(replays.policies)
    if any(row[AS_TODAY] is not None for row in rows):
        notes = (*notes, ON_TODAYS_BASIS)
    source_format = replays.inputs.trace.provenance.source_format
    refusal = contradiction(
        replays.fidelity, source_format, replayed_waits(today, rows, replays.fidelity)
    )
    now = today_sentence(today, rows, cluster, is_of_use=replays.priced.basis == NO_BASIS)
    outside = not_ranked(replays.comparison, replays.priced.pools_usd_per_month)
    speedups = {outcome.label: outcome.settings.get("speedup") for outcome in outcomes}
    view = replace(
        view,
        headline=answer_text(
            *(now, rows, speedups, refusal, outside, replays.pooled_types),
            pays_alike=replays.comparison.pays_alike,
        ),
        notes=notes,
        tables=(*view.tables, *fidelity_table(replays.fidelity)),
        answer=(table, *(view.answer or ())),
    )
    settings = [outcome.settings for outcome in outcomes]
    view = with_lending(view, rows, settings, results.get("no_spot", ()))
    view = with_fairness(view, rows)
    groups = [(row["label"], row.get("groups")) for row in rows]
    lends = any("hp" in row for row in rows)
    return with_group_waits(
        view,
        request.replay.by,
        groups,
        results.get("today_groups"),
        of_jobs=" of high-priority jobs" if lends else "",
    )


def _on_todays_basis(
    priced: PricedPolicies, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows with the dollars a month of today's GPUs on the basis of today's bill.

    None has them where one is of another size, or pays for other GPUs than a cluster's around the
    clock: these compare busy or not alone.
    """
    usd = [
        priced.usd_per_month(row["gpus"], row["utilization"]) if _is_standing(row) else None
        for row in rows
    ]
    as_today = [None] * len(rows) if None in usd else usd
    return [{**row, AS_TODAY: of_row} for row, of_row in zip(rows, as_today, strict=True)]


def _is_standing(row: Mapping[str, Any]) -> bool:
    """Whether a policy pays for its GPUs around the clock."""
    paid_h, hours = row.get("paid_gpu_h"), row["gpus"] * row["window_s"] / HOUR_S
    return "mean_usd_per_gpu_h" in row and paid_h is not None and isclose(paid_h, hours)


def first_submission(replayed: ReplayInputs) -> datetime | None:
    """Return when the first job was submitted; None where the trace has no calendar."""
    first_us = replayed.jobs.first_submit_us
    return None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC)


def not_ranked(comparison: PolicyComparison, pools_usd_per_month: float = 0.0) -> tuple[str, ...]:
    """Return why policies are not ranked, and what their costs leave out, one sentence each.

    Args:
        comparison: the policies.
        pools_usd_per_month: what GPUs owned and committed to cost.
    """
    outcomes, texts = comparison.outcomes, []
    loops = [run for run in outcomes if run.loop]
    for run in loops:
        what = run.loop.partition(";")[0]
        rest = ", so it is not ranked" if len(outcomes) > 1 else ", so its times say little"
        texts.append(f"{run.label} ends in {what}{rest}.")
    if comparison.pooled:
        texts.append(_pooled(outcomes, comparison.pooled))
    if comparison.of_site_size:
        texts.append(_of_site_size(comparison))
    pools = f"{show_about_usd(pools_usd_per_month)} a month of GPUs owned and committed to"
    if not comparison.pays_alike:
        texts.append(
            f"None is called the cheapest: {joined(comparison.beside_pools, most=MOST_NAMES)} "
            f"would pay the {pools} on top of that."
        )
    elif comparison.beside_pools:
        texts.append(f"The {pools} are due on top of that.")
    return tuple(texts)


def _pooled(outcomes: Sequence[PolicyOutcome], pooled: Sequence[PolicyOutcome]) -> str:
    """Return that some policies pool GPUs that others keep apart, and how to compare them."""
    kept = next(run for run in outcomes if run.gpus_by_type)
    gpus = " and ".join(f"{gpus:,} {kind}" for kind, gpus in kept.gpus_by_type.items())
    kind, of_kind = next(iter(kept.gpus_by_type.items()))
    names = list(dict.fromkeys(run.name for run in pooled))
    runs = "runs" if len(names) == 1 else "run"
    most = max(run.results.gpus for run in pooled)
    waits = (kept.results.mean_wait_s, kept.results.p95_wait_s)
    is_shorter = all(
        run.results.mean_wait_s < waits[0] and run.results.p95_wait_s < waits[1] for run in pooled
    )
    why = "which by itself can shorten waits" if is_shorter else "so their waits do not compare"
    of_site = list(dict.fromkeys(run.name for run in pooled if has_quotas(run.settings)))
    steps = [] if len(kept.gpus_by_type) == 1 else [f"--where \"gpu_type = '{kind}'\""]
    if len(of_site) < len(names):
        steps.append(f"--gpus {of_kind}")
    without = f"without {joined(of_site, most=MOST_NAMES)}" if of_site else ""
    return (
        f"None is called the fastest: {kept.name} keeps jobs to {gpus}, and "
        f"{joined(names, most=MOST_NAMES)} {runs} any job on any of {most:,} GPUs, "
        f"{why}. One type at a time: "
        f"{', '.join(filter(None, (' '.join(steps), without)))}."
    )


def _of_site_size(comparison: PolicyComparison) -> str:
    """Return that a size does not apply to policies that have that of a site."""
    runs = {run.name: run.results.gpus for run in comparison.of_site_size}
    gpus = joined([f"{gpus:,}" for gpus in dict.fromkeys(runs.values())])
    names = joined(list(runs), most=MOST_NAMES)
    lead = "" if comparison.pooled else "None is called the fastest: "
    options = joined(list(comparison.sizes), most=MOST_NAMES)
    return (
        f"{lead}{options} {'does' if len(comparison.sizes) == 1 else 'do'} not apply to {names}, "
        f"which {'runs' if len(runs) == 1 else 'run'} on the {gpus} GPUs of --site. On equal GPUs: "
        f"--gpus {next(iter(runs.values()))}, or a --site with other nodes."
    )
