"""What ``gpuplan sweep`` answers without ``--full``: three sentences and the table of choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.precision import Precision
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import show_between, show_share, show_threshold, significant
from gpuplan.cli.tables.sweep_tables import (
    TODAY,
    capacities_of,
    cases_table,
    grid_columns,
    limit_of,
    point_name,
    ratios_of,
    row_name,
)
from gpuplan.planner.studies.policy_prices import todays_prices
from gpuplan.planner.sweep.pareto_front import NEARLY
from gpuplan.planner.sweep.recommendation import Case
from gpuplan.planner.sweep.reference_policy import Against, ReferenceRun
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.sweep import Sweep
from gpuplan.planner.sweep.verdict import SAME

LEAST_LESS = 0.01
"""A bill that is smaller by less is not worth a warning."""
ROWS_SHOWN = 16


def headline(found: Sweep) -> str:
    """Return today, whether serverless pays, and which threshold to use."""
    case, precision = found.cases[0], precision_of(found)
    parts = (today_text(found.today, precision), _pays(case, found), _threshold(case, found))
    return " ".join(part for part in parts if part)


def precision_of(found: Sweep) -> Precision:
    """Return the digits that the jobs of a sweep can carry."""
    return Precision(found.cases[0].closed_form.jobs)


def _pays(case: Case, found: Sweep) -> str:
    """Return whether serverless pays vs. everything on rented workers."""
    precision, rented, verdict = precision_of(found), found.rented, found.verdict
    jobs = f"{case.closed_form.jobs:,} job{'' if case.closed_form.jobs == 1 else 's'}"
    rough = " (few, so these figures are rough)" if precision.is_rough else ""
    these = f"{'this' if case.closed_form.jobs == 1 else 'these'} {jobs}{rough}"
    ours = f"{_called(case.best, found)} costs {_bill(found.chosen(case), found)}"
    if rented is None or verdict is None:
        return f"For {these}, {ours}."
    workers = f"everything on rented workers ({_bill(rented, found)})"
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
    return f"Serverless {pays} for {these}: {ours},{less} {sign} than {workers}{_noise(found)}."


def _percent(share: float) -> str:
    """Return the size of a share with two digits: ``8%``, ``28%``, ``200%``."""
    return f"{significant(100 * abs(share), 2):g}%"


def _noise(found: Sweep) -> str:
    """Return the confidence interval of the saving, if there is one."""
    case, verdict = found.cases[0], found.verdict
    if case.confidence is None or verdict is None or verdict.interval_usd is None:
        return ""
    low, high = sorted(abs(end) for end in verdict.interval_usd)
    return f"; {case.confidence.level:g}% interval {_between(low, high, found)}"


def _between(low: float, high: float, found: Sweep) -> str:
    """Return a range of bills, per month where the window is known."""
    month = found.usd_per_month(1.0)
    scale, unit = (1.0, "") if month is None else (month, " a month")
    return f"{show_between(scale * low, scale * high, precision_of(found).usd)}{unit}"


def _threshold(case: Case, found: Sweep) -> str:
    """Return which threshold to use, or that it hardly matters, and what the others cost."""
    verdict = found.verdict
    said = []
    if verdict is not None and verdict.same_from_s is not None and verdict.same_to_s is not None:
        between = show_between(verdict.same_from_s, verdict.same_to_s, show_threshold)
        said.append(f"any threshold from {between} costs the same within {100 * SAME:g}%")
    elif case.best is not None and not (verdict and verdict.tied):
        said.append(f"{_called(case.best, found)} is {_rule(case)}")
    if case.best is not None:
        ours = found.chosen(case).cost_usd
        more = found.reference.cost_usd - ours
        share = f"{_percent(more / ours)} {'more' if more >= 0 else 'less'} " if ours else ""
        said.append(f"everything serverless costs {share}({_bill(found.reference, found)})")
    against = case.taken.against
    if found.against is not None and against is not None:
        said.append(_beside_reference(found, found.against, against))
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _beside_reference(found: Sweep, reference_run: ReferenceRun, against: Against) -> str:
    """Return what the policy of ``--against`` costs."""
    saving = against.saving_usd
    month = found.usd_per_month(abs(saving))
    change = precision_of(found).usd(abs(saving) if month is None else month)
    change += "" if month is None else " a month"
    noise = ""
    if against.level is not None and against.usd is not None and saving >= 0:
        noise = f"; {against.level:g}% interval {_between(*against.usd, found)}"
    sign = "more" if saving >= 0 else "less"
    bill = _bill(reference_run, found)
    return f"{reference_run.label} costs {change} {sign} ({bill}{noise})"


def _rule(case: Case) -> str:
    """Return by which rule the recommended point was chosen."""
    if case.value_of_time is None:
        return f"the cheapest whose mean JCT is within {100 * NEARLY:g}% of the shortest"
    return f"the best with an hour of a job worth ${case.value_of_time:g}"


def _called(index: int | None, found: Sweep) -> str:
    """Return the name of a choice in a sentence."""
    if index is None:
        return "everything serverless"
    point = found.points[index]
    name = point_name(point)
    if len(capacities_of(found)) == 1:
        return name
    most = point.capacity
    return f"{name} with" + (
        "out a limit on workers" if most is None else f" at most {most:,} workers"
    )


def _bill(run: SweepPoint | ReferenceRun, found: Sweep) -> str:
    """Return a bill, per month where the window is known, and the mean completion time."""
    precision = precision_of(found)
    month = found.usd_per_month(run.cost_usd)
    usd = precision.usd(run.cost_usd) if month is None else f"{precision.usd(month)} a month"
    return f"{usd} for {precision.duration(run.mean_jct_s)} per job"


def sweep_warnings(found: Sweep) -> Iterator[str]:
    """Yield what may change the decision besides the warnings of the study."""
    if found.mix is not None:
        mix = found.mix
        others = listed(mix.others, 3)
        own = todays_prices(found.today, mix.planned)
        yield (
            f"{mix.other_share:.0%} of the GPU-hours ran on {others}; the replays rent "
            f"{mix.planned} for all{own}; --where \"gpu_type = '{mix.others[0]}'\" --prices "
            f"builtin --set gpu={mix.others[0]} sweeps one type at its own price"
        )
    case = found.cases[0]
    cheapest, chosen = found.point(case.cheapest), found.taken(case)
    less = chosen.cost_usd - cheapest.cost_usd
    if case.value_of_time is None and less >= LEAST_LESS * chosen.cost_usd and less:
        precision = precision_of(found)
        yield (
            f"the cheapest choice, {_called(case.cheapest, found)}, costs {precision.usd(less)} "
            f"({_percent(less / chosen.cost_usd)}) less than the recommended one, but a job "
            f"takes {precision.duration(cheapest.mean_jct_s - chosen.mean_jct_s)} longer; "
            "--value-of-time weighs the two"
        )


def answer_tables(found: Sweep, marked_s: float | None = None) -> tuple[Table, ...]:
    """Return the choices with their bills, and what to take in each case where there are several.

    Args:
        found: the replays.
        marked_s: a fixed threshold to mark, seconds.
    """
    precision = precision_of(found)
    columns = (
        *grid_columns(found),
        Column("choice", "choice"),
        Column("cost_usd", "cost", precision.usd),
        Column("usd_per_month", "$/month", precision.usd),
        Column("mean_jct_s", "mean JCT", precision.duration),
        Column("p95_jct_s", "P95 JCT", precision.duration),
        Column("finished_serverless_share", "end serverless", show_share),
        *([Column("deadline_miss_share", "late", show_share)] if found.has_deadlines else []),
        Column("note", "note"),
    )
    rows = [[row.get(column.key) for column in columns] for row in _rows(found, marked_s)]
    title = "What each choice costs"
    if found.window_s:
        title += f" over {precision.duration(found.window_s)}, and scaled to a month of 730.5 h"
    choices = Table(title, columns, rows, most=ROWS_SHOWN)
    return (choices, cases_table(found)) if len(found.cases) > 1 else (choices,)


def _rows(found: Sweep, marked_s: float | None) -> Iterator[dict[str, Any]]:
    """Yield today's cluster, everything on workers, the thresholds, everything serverless."""
    if (cluster := found.cluster) is not None:
        size = f"{cluster.gpus:,} GPU{'' if cluster.gpus == 1 else 's'}"
        yield {
            "choice": f"{size} around the clock",
            "cost_usd": cluster.cost_usd,
            "usd_per_month": cluster.usd_per_month,
            "mean_jct_s": cluster.mean_jct_s,
            "p95_jct_s": cluster.p95_jct_s,
            "note": cluster.size_from,
        }
    if found.against is not None:
        yield _row(found, found.against, TODAY) | {"note": found.against.label}
    if found.rented is not None:
        yield _row(found, found.rented, "all on rented workers") | {
            "finished_serverless_share": 0.0,
            "price_ratio": found.rented.price_ratio,
            "capacity": limit_of(found.rented),
            "note": "recommended" if found.cases[0].rented is not None else "",
        }
    verdict = found.verdict
    several = len(capacities_of(found)) > 1 or len(ratios_of(found)) > 1
    for index, point in enumerate(found.points):
        marks, row = found.marks(index), _row(found, point, row_name(point))
        if several and not (marks["non_dominated"] or point.is_fixed_at(marked_s)):
            continue
        is_tied = verdict is not None and verdict.tied
        is_best = index == found.case_of(point).best and not is_tied
        words = ["recommended" if marks["recommended"] else "best threshold"] if is_best else []
        words += ["best trade-off"] if marks["knee"] else []
        words += ["marked"] if point.is_fixed_at(marked_s) else []
        row["price_ratio"], row["capacity"] = point.price_ratio, limit_of(point)
        row["note"] = ", ".join(words)
        yield row
    is_best = found.cases[0].best is None and found.cases[0].rented is None
    note = "recommended" if is_best else ""
    yield _row(found, found.reference, "all serverless") | {"note": note}


def _row(found: Sweep, run: SweepPoint | ReferenceRun, name: str) -> dict[str, Any]:
    """Return the cells of one replay."""
    keys = ("cost_usd", "mean_jct_s", "p95_jct_s", "finished_serverless_share")
    row: dict[str, Any] = {key: run.results.get(key) for key in (*keys, "deadline_miss_share")}
    if row["finished_serverless_share"] is None:
        row["finished_serverless_share"] = Shown(None, "-")
    return row | {"choice": name, "usd_per_month": found.usd_per_month(run.cost_usd)}
