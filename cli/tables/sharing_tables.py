"""Tables and sentences of ``profile`` and ``share``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_number, show_share, show_usd
from gpuplan.planner.sharing.coscaling_study import CoscalingResults
from gpuplan.planner.sharing.placement_study import PlacementResults
from gpuplan.planner.sharing.service_outcome import overloads

MOST_FRONTIER = 20


def show_latency(seconds: float) -> str:
    """Return a latency: ``83 ms``, ``1.2 s``."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_rate(share: float) -> str:
    """Return a violation rate with one decimal."""
    return f"{100 * share:.1f}%"


def show_ratio(value: float) -> str:
    """Return a ratio with two decimals."""
    return f"{value:.2f}x"


def _gpus(value: float) -> str:
    return f"{value:,.0f}"


def placement_tables(study: PlacementResults) -> tuple[Table, ...]:
    """Return the table of policies."""
    rows = plain(study.policies)
    columns = [
        Column("policy", "policy"),
        Column("gamma", "gamma", lambda value: f"{value:g}"),
        Column("max_gpus", "peak GPUs", _gpus),
        Column("mean_gpus", "mean GPUs", show_number),
        Column("saved_vs_exclusive_share", "saved", show_rate),
        Column("sm_fragmentation", "SMs not requested", show_share),
        Column("memory_fragmentation", "memory free", show_share),
    ]
    if study.request.usd_per_gpu_h is not None:
        columns.append(Column("saved_usd_per_month", "saved a month", show_usd))
    return (_table("GPUs in use, by placement policy", columns, rows),)


def placement_headline(study: PlacementResults) -> str:
    """Return the answer in one sentence."""
    best = min(study.policies, key=lambda one: one.max_gpus)
    exclusive = study.exclusive_gpus
    if best.max_gpus >= exclusive:
        return f"Sharing saves no GPUs: the instances need {exclusive:,} either way."
    share = 1 - best.max_gpus / exclusive
    gamma = f" at gamma {best.gamma:g}" if len(study.request.gammas) > 1 else ""
    rows = study.policies
    usd = next(row.saved_usd_per_month for row in rows if row.max_gpus == best.max_gpus)
    month = "" if usd is None else f", {show_usd(usd)} a month"
    return (
        f"With shared GPUs ({best.policy}{gamma}) you need {best.max_gpus:,} instead of "
        f"{exclusive:,} ({100 * share:.1f}% fewer{month})."
    )


def coscaling_tables(study: CoscalingResults) -> tuple[Table, ...]:
    """Return the policies, the services, the verdict by cold start, and the frontier."""
    rows = plain(study.policies)
    kept = [Column("training_kept_share", "training speed kept", show_share)]
    policies = _table(
        "Policies",
        [
            Column("policy", "policy"),
            Column("max_gpus", "peak GPUs", _gpus),
            Column("mean_gpus", "mean GPUs", show_number),
            Column("worst_violation_rate", "worst service over SLO", show_rate),
            Column("cold_starts", "cold starts", _gpus),
            *(kept if study.request.jobs else ()),
        ],
        rows,
    )
    services = _table(
        "Services",
        [
            Column("policy", "policy"),
            Column("name", "service"),
            Column("violation_rate", "over SLO", show_rate),
            Column("p50_s", "p50", show_latency),
            Column("p95_s", "p95", show_latency),
            Column("p95_over_slo", "p95 / SLO", show_ratio),
            Column("cold_starts", "cold starts", _gpus),
            Column("peak_demand_over_capacity", "peak / capacity", show_ratio),
            Column("longest_overload_s", "longest overload (s)", _gpus),
            Column("instance_s", "", None),
        ],
        [{"policy": row["policy"], **one} for row in rows for one in row["functions"]],
    )
    tables = [policies, services]
    if len(study.outcomes) > 1:
        tables.append(_verdicts(study))
    if study.frontier:
        points = sorted(
            plain(study.frontier),
            key=lambda row: (row["max_gpus"], row["worst_violation_rate"]),
        )
        for row in points:
            row["note"] = "" if row["efficient"] else "dominated"
        columns = [
            Column("policy", "policy"),
            Column("gamma", "gamma", lambda value: f"{value:g}"),
            Column("capacity_factor", "registered capacity", show_ratio),
            Column("max_gpus", "peak GPUs", _gpus),
            Column("worst_violation_rate", "worst service over SLO", show_rate),
            Column("note", "note"),
        ]
        title = "GPUs vs. the worst service"
        table = _table(title, columns, points)
        tables.append(Table(table.title, table.columns, table.rows, MOST_FRONTIER))
    return tuple(tables)


def _verdicts(study: CoscalingResults) -> Table:
    rows = [
        {"policy": outcome.policy}
        | {
            f"at_{row[at].cold_start_s:g}_s": (row[at].max_gpus, row[at].worst_violation_rate)
            for row in study.outcomes
        }
        for at, outcome in enumerate(study.policies)
    ]
    columns = [Column("policy", "policy")]
    for row in study.outcomes:
        key = f"at_{row[0].cold_start_s:g}_s"
        header = f"cold start {row[0].cold_start_s:g} s: GPUs, worst over SLO"
        columns.append(Column(key, header, lambda pair: f"{pair[0]:,}, {show_rate(pair[1])}"))
    return _table("Results by cold start", columns, rows)


def coscaling_headline(study: CoscalingResults) -> str:
    """Return the answer in one sentence: GPUs, the worst service, training."""
    one, whole = study.policies[0], study.exclusive
    if one.policy == whole.policy:
        parts = [f"{counted(one.max_gpus, 'GPU')}, each for one instance"]
    elif one.max_gpus >= whole.max_gpus:
        parts = [
            f"Sharing under {one.policy} saves no GPUs: {one.max_gpus:,}, and {whole.max_gpus:,} "
            "on whole GPUs"
        ]
    else:
        parts = [f"{counted(one.max_gpus, 'GPU')} under {one.policy} instead of {whole.max_gpus:,}"]
    if one.functions:
        worst = max(one.functions, key=lambda service: service.violation_rate)
        alone = show_rate(whole.worst_violation_rate)
        text = f"worst service {worst.name}: {show_rate(worst.violation_rate)} over its SLO"
        parts.append(text if one is whole else f"{text}, {alone} on whole GPUs")
    if speeds := [job.kept_share for job in one.training]:
        low, high = min(speeds), max(speeds)
        kept = show_share(low) if high - low < 0.005 else f"{100 * low:.0f}-{100 * high:.0f}%"
        parts.append(f"training keeps {kept} of its speed")
    return f"{'; '.join(parts)}."


def coscaling_warnings(study: CoscalingResults) -> tuple[str, ...]:
    """Return what would change a decision: overload beyond the headroom, a verdict that turns."""
    found = []
    for one in study.policies[:1]:
        found += [
            f"{service.name}: demand reaches {service.peak_demand_over_capacity:.1f} times the "
            f"registered capacity for up to {service.longest_overload_s:,} s, and vertical "
            f"scaling gives at most {service.headroom:.1f} times"
            for service in overloads(one.functions)
        ]
    calm = study.verdicts
    if len({one.fewest_violations for one in calm}) > 1:
        text = "; ".join(
            f"{one.cold_start_s:g} s: {' and '.join(one.fewest_violations)}" for one in calm
        )
        found.append(f"the policy with the fewest violations depends on the cold start ({text})")
    return tuple(found)


def _table(title: str, columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> Table:
    cells = [[row.get(column.key) for column in columns] for row in rows]
    return Table(title, tuple(columns), cells)
