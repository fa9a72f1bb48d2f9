"""What ``gpuplan sweep`` answers without ``--full``: three sentences and the table of choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.analysis.base.words import listed, price_text
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import Precision, show_between, show_threshold, significant
from gpuplan.cli.tables.sweep_tables import (
    AGAINST,
    capacities_of,
    cases_table,
    grid_columns,
    limit_of,
    point_name,
    ratios_of,
    row_name,
)
from gpuplan.planner.studies.policy_prices import todays_prices
from gpuplan.planner.sweep.recommendation import NEARLY, Case
from gpuplan.planner.sweep.reference_policy import Against, ReferenceRun
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.sweep import Sweep
from gpuplan.planner.sweep.verdict import SAME

LEAST_LESS = 0.01
"""A bill that is smaller by less is not worth a warning."""
ROWS_SHOWN = 16


def headline(sweep: Sweep) -> str:
    """Return today, whether serverless pays, and which threshold to use."""
    case, precision = sweep.cases[0], precision_of(sweep)
    parts = (today_text(sweep.today, precision), _pays(case, sweep), _threshold(case, sweep))
    return " ".join(part for part in parts if part)


def precision_of(sweep: Sweep) -> Precision:
    """Return the digits that the jobs of a sweep can carry."""
    return Precision(sweep.cases[0].closed_form.jobs)


def _pays(case: Case, sweep: Sweep) -> str:
    """Return whether serverless pays vs. everything on rented workers."""
    precision, rented, verdict = precision_of(sweep), sweep.rented, sweep.verdict
    jobs = f"{case.closed_form.jobs:,} job{'' if case.closed_form.jobs == 1 else 's'}"
    rough = " (few, so these figures are rough)" if precision.is_rough else ""
    these = f"{'this' if case.closed_form.jobs == 1 else 'these'} {jobs}{rough}"
    ours = f"{_called(case.best, sweep)} costs {_bill(sweep.chosen(case), sweep)}"
    if rented is None or verdict is None:
        return f"For {these}, {ours}."
    workers = f"everything on rented workers ({_bill(rented, sweep)})"
    if verdict.serverless_pays is None:
        if verdict.rented_is_slow:
            return f"Serverless saves time for {these}: {ours}, as much as {workers}."
        is_noise = abs(verdict.saving_share or 0.0) > SAME
        why = "within the noise" if is_noise else f"within {100 * SAME:g}%"
        return (
            f"Serverless makes no real difference for {these}: {ours}, the same {why} as {workers}."
        )
    less = "" if verdict.saving_share is None else f" {_percent(verdict.saving_share)}"
    pays, sign = ("pays", "less") if verdict.serverless_pays else ("does not pay", "more")
    if verdict.rented_is_slow and not verdict.serverless_pays:
        pays = "saves time, not money,"
    return f"Serverless {pays} for {these}: {ours},{less} {sign} than {workers}{_noise(sweep)}."


def _percent(share: float) -> str:
    """Return the size of a share with two digits: ``8%``, ``28%``, ``200%``."""
    return f"{significant(100 * abs(share), 2):g}%"


def _noise(sweep: Sweep) -> str:
    """Return the confidence interval of the saving, if there is one."""
    case, verdict = sweep.cases[0], sweep.verdict
    if case.savings.confidence is None or verdict is None or verdict.saving_interval_usd is None:
        return ""
    low, high = sorted(abs(end) for end in verdict.saving_interval_usd)
    level = f"{case.savings.confidence.level_percent:g}%"
    return f", by {_between(low, high, sweep)} ({level} interval)"


def _between(low: float, high: float, sweep: Sweep) -> str:
    """Return a range of bills, per month where the window is known."""
    month = sweep.usd_per_month(1.0)
    scale, unit = (1.0, "") if month is None else (month, " a month")
    return f"{show_between(scale * low, scale * high, precision_of(sweep).usd)}{unit}"


def _threshold(case: Case, sweep: Sweep) -> str:
    """Return which threshold to use, or that it hardly matters, and what the others cost."""
    verdict = sweep.verdict
    said = []
    if (
        verdict is not None
        and verdict.same_cost_from_s is not None
        and verdict.same_cost_to_s is not None
    ):
        between = show_between(verdict.same_cost_from_s, verdict.same_cost_to_s, show_threshold)
        said.append(f"any threshold from {between} costs the same within {100 * SAME:g}%")
    elif case.best is not None and not (verdict and verdict.tied):
        said.append(f"{_called(case.best, sweep)} is {_rule(case)}")
    if case.best is not None:
        ours = sweep.chosen(case).cost_usd
        more = sweep.reference.cost_usd - ours
        share = f"{_percent(more / ours)} {'more' if more >= 0 else 'less'} " if ours else ""
        said.append(f"everything serverless costs {share}({_bill(sweep.reference, sweep)})")
    against = case.chosen_savings.against
    if sweep.against is not None and against is not None:
        said.append(_against_reference(sweep, sweep.against, against))
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _against_reference(sweep: Sweep, reference_run: ReferenceRun, against: Against) -> str:
    """Return what the policy of ``--against`` costs."""
    saving = against.saving_usd
    month = sweep.usd_per_month(abs(saving))
    change = precision_of(sweep).usd(abs(saving) if month is None else month)
    change += "" if month is None else " a month"
    noise = ""
    ends = against.confidence
    if ends is not None and ends.saving_usd is not None and saving >= 0:
        noise = f"; {ends.level_percent:g}% interval {_between(*ends.saving_usd, sweep)}"
    sign = "more" if saving >= 0 else "less"
    bill = _bill(reference_run, sweep)
    return f"{reference_run.label} costs {change} {sign} ({bill}{noise})"


def _rule(case: Case) -> str:
    """Return by which rule the recommended point was chosen."""
    if case.value_of_time is None:
        return f"the cheapest whose mean JCT is within {100 * NEARLY:g}% of the shortest"
    return f"the best with an hour of a job worth ${case.value_of_time:g}"


def _called(index: int | None, sweep: Sweep) -> str:
    """Return the name of a choice in a sentence."""
    if index is None:
        return "everything serverless"
    point = sweep.points[index]
    name = point_name(point)
    if len(capacities_of(sweep)) == 1:
        return name
    most = point.capacity
    return f"{name} with" + (
        "out a limit on workers" if most is None else f" at most {most:,} workers"
    )


def _bill(run: SweepPoint | ReferenceRun, sweep: Sweep) -> str:
    """Return a bill, per month where the window is known, and the mean completion time."""
    precision = precision_of(sweep)
    month = sweep.usd_per_month(run.cost_usd)
    usd = precision.usd(run.cost_usd) if month is None else f"{precision.usd(month)} a month"
    return f"{usd} for {precision.duration(run.mean_jct_s)} per job"


def sweep_warnings(sweep: Sweep) -> Iterator[str]:
    """Yield what may change the decision besides the warnings of the study."""
    if sweep.mix is not None:
        mix = sweep.mix
        planned, other_types = mix.planned_gpu_type, mix.other_gpu_types
        rented = f"{planned} for all{todays_prices(sweep.today, planned)}"
        if sweep.mean_usd is not None:
            usd = price_text(sweep.mean_usd, 3)
            rented = f"one type for all, at ${usd} per GPU-hour on demand, the mean of their prices"
        yield (
            f"{mix.other_gpu_h_share:.0%} of the GPU-hours ran on {listed(other_types, 3)}; "
            f'the replays rent {rented}; --where "gpu_type = '
            f"'{other_types[0]}'\" --prices builtin --set gpu={other_types[0]} "
            "sweeps one type at its own price"
        )
    case = sweep.cases[0]
    cheapest, chosen = sweep.point(case.cheapest), sweep.recommended_in(case)
    less = chosen.cost_usd - cheapest.cost_usd
    if case.value_of_time is None and less >= LEAST_LESS * chosen.cost_usd and less:
        precision = precision_of(sweep)
        yield (
            f"the cheapest choice, {_called(case.cheapest, sweep)}, costs {precision.usd(less)} "
            f"({_percent(less / chosen.cost_usd)}) less than the recommended one, but a job "
            f"takes {precision.duration(cheapest.mean_jct_s - chosen.mean_jct_s)} longer; "
            "--value-of-time weighs the two"
        )


def answer_tables(sweep: Sweep, marked_s: float | None = None) -> tuple[Table, ...]:
    """Return the choices with their bills, and what to take in each case where there are several.

    Args:
        sweep: the replays.
        marked_s: a fixed threshold to mark, seconds.
    """
    precision = precision_of(sweep)
    title = "What each choice costs"
    if sweep.window_s:
        title += f" over {precision.duration(sweep.window_s)}, and scaled to a month of 730.5 h"
    choices = table(
        title,
        _rows(sweep, marked_s),
        *grid_columns(sweep),
        {"choice": "choice"},
        Column("cost_usd", "cost", precision.usd),
        Column("usd_per_month", "$/month", precision.usd),
        Column("mean_jct_s", "mean JCT", precision.duration),
        Column("p95_jct_s", "P95 JCT", precision.duration),
        {"finished_serverless_share": "end serverless"},
        {"deadline_miss_share": "late"} if sweep.has_deadlines else {},
        {"note": "note"},
        most=ROWS_SHOWN,
    )
    return (choices, cases_table(sweep)) if len(sweep.cases) > 1 else (choices,)


def _rows(sweep: Sweep, marked_s: float | None) -> Iterator[dict[str, Any]]:
    """Yield today's cluster, everything on workers, the thresholds, everything serverless."""
    if (cluster := sweep.cluster) is not None:
        size = f"{cluster.gpus:,} GPU{'' if cluster.gpus == 1 else 's'}"
        named = {"choice": f"{size} around the clock", "note": cluster.size_from}
        measures = ("cost_usd", "usd_per_month", "mean_jct_s", "p95_jct_s")
        yield {key: getattr(cluster, key) for key in measures} | named
    if sweep.against is not None:
        yield _row(sweep, sweep.against, AGAINST) | {"note": sweep.against.label}
    if sweep.rented is not None:
        yield _row(sweep, sweep.rented, "all on rented workers") | {
            "finished_serverless_share": 0.0,
            "price_ratio": sweep.rented.price_ratio,
            "capacity": limit_of(sweep.rented),
            "note": "recommended" if sweep.cases[0].rented is not None else "",
        }
    verdict = sweep.verdict
    several = len(capacities_of(sweep)) > 1 or len(ratios_of(sweep)) > 1
    for index, point in enumerate(sweep.points):
        marks, row = sweep.marks(index), _row(sweep, point, row_name(point))
        if several and not (marks["non_dominated"] or point.is_fixed_at(marked_s)):
            continue
        is_tied = verdict is not None and verdict.tied
        is_best = index == sweep.case_of(point).best and not is_tied
        words = ["recommended" if marks["recommended"] else "best threshold"] if is_best else []
        words += ["best trade-off"] if marks["knee"] else []
        words += ["marked"] if point.is_fixed_at(marked_s) else []
        row["price_ratio"], row["capacity"] = point.price_ratio, limit_of(point)
        row["note"] = ", ".join(words)
        yield row
    is_best = sweep.cases[0].best is None and sweep.cases[0].rented is None
    note = "recommended" if is_best else ""
    yield _row(sweep, sweep.reference, "all serverless") | {"note": note}


def _row(sweep: Sweep, run: SweepPoint | ReferenceRun, name: str) -> dict[str, Any]:
    """Return the cells of one replay."""
    keys = ("cost_usd", "mean_jct_s", "p95_jct_s", "finished_serverless_share")
    row: dict[str, Any] = {
        key: getattr(run.results, key, None) for key in (*keys, "deadline_miss_share")
    }
    if row["finished_serverless_share"] is None:
        row["finished_serverless_share"] = Shown(None, "-")
    return row | {"choice": name, "usd_per_month": sweep.usd_per_month(run.cost_usd)}
