"""Tables and sentences of ``profile`` and ``share``."""

from __future__ import annotations

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_count, show_share, show_usd
from gpuplan.planner.sharing.coscaling_study import CoscalingResults
from gpuplan.planner.sharing.placement_study import PlacementResults
from gpuplan.planner.sharing.service_outcome import overloads
from gpuplan.simkit.sharing.policies import EXCLUSIVE

MOST_FRONTIER = 20


def show_latency(seconds: float) -> str:
    """Return a latency: ``83 ms``, ``1.2 s``."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_ratio(value: float) -> str:
    """Return a ratio with two decimals."""
    return f"{value:.2f}x"


GAMMA = Column("gamma", "gamma", lambda value: f"{value:g}")
GPUS = (Column("max_gpus", "peak GPUs", show_count), Column("mean_gpus", "mean GPUs"))
WORST = Column("worst_violation_rate", "worst service over SLO", show_share)
COLD_STARTS = Column("cold_starts", "cold starts", show_count)


def placement_tables(study: PlacementResults) -> tuple[Table, ...]:
    """Return the table of policies."""
    if not study.is_known:
        rows = [row for row in study.policies if row.policy == EXCLUSIVE]
        return (table("GPUs in use, each of one job", rows, *GPUS),) if rows else ()
    priced = study.request.usd_per_gpu_h is not None
    policies = table(
        "GPUs in use, by placement policy",
        study.policies,
        {"policy": "policy"},
        GAMMA,
        *GPUS,
        {"saved_vs_exclusive_share": "saved"},
        Column("sm_fragmentation", "SMs not requested", show_share),
        Column("memory_fragmentation", "memory free", show_share),
        *([Column("saved_usd_per_month", "saved a month", show_usd)] if priced else []),
    )
    return (policies,)


MISSED = 0.05
"""Share of the requests that miss the SLO from which the P95 latency is over it."""


def placement_headline(study: PlacementResults) -> str:
    """Return the answer in one sentence."""
    best = min(study.policies, key=lambda placement: placement.max_gpus)
    exclusive = study.exclusive_gpus
    if not study.is_known:
        return (
            f"What sharing saves is not known from this log: its jobs hold whole GPUs, up to "
            f"{exclusive:,} at once, and it has no SM share or memory of a job. Give the share or "
            "the memory that jobs need: a table of instances, or fractions of GPUs in num_gpus."
        )
    if best.max_gpus >= exclusive:
        return f"Sharing saves no GPUs: the instances need {exclusive:,} either way."
    share = 1 - best.max_gpus / exclusive
    gamma = f" at gamma {best.gamma:g}" if len(study.request.gammas) > 1 else ""
    rows = study.policies
    usd = next(row.saved_usd_per_month for row in rows if row.max_gpus == best.max_gpus)
    month = "" if usd is None else f", {show_usd(usd)} a month"
    return (
        f"With shared GPUs ({best.policy}{gamma}) you need {counted(best.max_gpus, 'GPU')} instead "
        f"of {exclusive:,} ({100 * share:.1f}% fewer{month})."
    )


def coscaling_tables(study: CoscalingResults) -> tuple[Table, ...]:
    """Return the policies, the services, the verdict by cold start, and the frontier."""
    kept = {"training_kept_share": "training speed kept"} if study.request.jobs else {}
    policies = table(
        "Policies", study.policies, {"policy": "policy"}, *GPUS, WORST, COLD_STARTS, kept
    )
    services = table(
        "Services",
        [
            {"policy": row.policy, **fields_of(service)}
            for row in study.policies
            for service in row.functions
        ],
        {"policy": "policy", "name": "service"},
        Column("violation_rate", "over SLO", show_share),
        Column("p50_s", "p50", show_latency),
        Column("p95_s", "p95", show_latency),
        Column("p95_over_slo", "p95 / SLO", show_ratio),
        COLD_STARTS,
        Column("peak_demand_over_capacity", "peak / capacity", show_ratio),
        Column("longest_overload_s", "longest overload (s)", show_count),
        {"instance_s": ""},
    )
    tables = [policies, services]
    if len(study.outcomes) > 1:
        tables.append(_verdicts(study))
    if study.frontier:
        frontier = table(
            "GPUs vs. the worst service",
            sorted(study.frontier, key=lambda row: (row.max_gpus, row.worst_violation_rate)),
            {"policy": "policy"},
            GAMMA,
            Column("capacity_factor", "registered capacity", show_ratio),
            GPUS[0],
            WORST,
            Column("note", "note", read=lambda row: "" if row.efficient else "dominated"),
            most=MOST_FRONTIER,
        )
        tables.append(frontier)
    return tuple(tables)


def _verdicts(study: CoscalingResults) -> Table:
    rows = [
        {"policy": outcome.policy}
        | {f"at_{row[at].cold_start_s:g}_s": row[at] for row in study.outcomes}
        for at, outcome in enumerate(study.policies)
    ]
    colds = [f"{row[0].cold_start_s:g}" for row in study.outcomes]
    outcomes = (
        Column(
            f"at_{cold}_s",
            f"cold start {cold} s: GPUs, worst over SLO",
            lambda outcome: f"{outcome.max_gpus:,}, {show_share(outcome.worst_violation_rate)}",
        )
        for cold in colds
    )
    return table("Results by cold start", rows, {"policy": "policy"}, *outcomes)


def coscaling_headline(study: CoscalingResults) -> str:
    """Return the answer in one sentence: GPUs, the worst service, training."""
    outcome, exclusive = study.policies[0], study.exclusive
    if outcome.policy == exclusive.policy:
        parts = [f"{counted(outcome.max_gpus, 'GPU')}, each for one instance"]
    elif outcome.max_gpus >= exclusive.max_gpus:
        parts = [
            f"Sharing under {outcome.policy} saves no GPUs: {outcome.max_gpus:,}, and "
            f"{exclusive.max_gpus:,} on whole GPUs"
        ]
    else:
        gpus = counted(outcome.max_gpus, "GPU")
        parts = [f"{gpus} under {outcome.policy} instead of {exclusive.max_gpus:,}"]
    if outcome.functions:
        worst = max(outcome.functions, key=lambda service: service.violation_rate)
        alone = exclusive.worst_violation_rate
        misses = show_share(worst.violation_rate)
        text = f"worst service {worst.name}: {misses} of its requests miss the SLO"
        parts.append(text if outcome is exclusive else f"{text}, {show_share(alone)} on whole GPUs")
        if worst.violation_rate > max(alone, MISSED):
            parts[0] = f"Sharing does not keep the SLO: {parts[0][0].lower()}{parts[0][1:]}"
    if speeds := [job.kept_share for job in outcome.training]:
        low, high = min(speeds), max(speeds)
        kept = show_share(low) if high - low < 0.005 else f"{100 * low:.0f}-{100 * high:.0f}%"
        parts.append(f"training keeps {kept} of its speed")
    return f"{'; '.join(parts)}."


def coscaling_warnings(study: CoscalingResults) -> tuple[str, ...]:
    """Return what would change a decision: overload beyond the headroom, a verdict that turns."""
    warnings = []
    for outcome in study.policies[:1]:
        warnings += [
            f"{service.name}: demand reaches {service.peak_demand_over_capacity:.1f} times the "
            f"registered capacity for up to {service.longest_overload_s:,} s, and vertical "
            f"scaling gives at most {service.headroom:.1f} times"
            for service in overloads(outcome.functions)
        ]
    if len({verdict.fewest_violations for verdict in study.verdicts}) > 1:
        text = "; ".join(
            f"{verdict.cold_start_s:g} s: {' and '.join(verdict.fewest_violations)}"
            for verdict in study.verdicts
        )
        warnings.append(f"the policy with the fewest violations depends on the cold start ({text})")
    return tuple(warnings)
