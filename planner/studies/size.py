"""Say how many GPUs the jobs of a log need, and how many of them to commit to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from msgspec import UNSET

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.characterize.capacity import NODES
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.history.jobs import BY, NAMES
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.schema import LIMIT_COLUMN, Provenance
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.renting_settings import RENTED
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.registry import find_policy
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.runs.deadlines import INFERRED_FROM
from gpuplan.planner.runs.group_waits import recorded_waits
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    NOT_REPLAYED,
    Fidelity,
    unknown,
    why_not_today,
)
from gpuplan.planner.site.pools_today import PoolReplays
from gpuplan.planner.sizing.commitment import CommitmentResult
from gpuplan.planner.sizing.pools import COLUMNS, JobPool, PoolTerms, pools_of
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.size_pool import PoolAnswer
from gpuplan.planner.studies.size_results import (
    SizePool,
    SizeResults,
    SizeToday,
    TargetResult,
)
from gpuplan.planner.studies.size_site import size_site


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer(Answer[SizeRequest, SizeResults]):
    """How many GPUs the jobs need."""

    def to_frame(self) -> pl.DataFrame:
        """Return one row per size of the curve."""
        rows = [plain(point) for point in self.results.points]
        ends = ("mean_wait_interval_s", "p95_wait_interval_s")
        flat = [
            {key: value for key, value in row.items() if key not in (*ends, "groups")}
            | {
                f"{key.removesuffix('_interval_s')}_{end}_s": value[place] if value else None
                for key in ends
                for place, end in enumerate(("low", "high"))
                for value in (row[key],)
            }
            for row in rows
        ]
        return pl.DataFrame(flat, infer_schema_length=None)


def size(request: SizeRequest, progress: Callable[[float], None] | None = None) -> SizeAnswer:
    """Return the smallest cluster that meets the targets, the curve, and the commitment.

    Raises:
        InfeasibleError: no size meets a target, or a size of the curve cannot hold a job.
        InputError: the trace or a price table cannot be used.
        UsageError: options that do not fit together, or that no run can have.
    """
    request.check()
    if request.twin is not None:
        prices = _prices(request)
        site = size_site(request, prices)
        return SizeAnswer(
            request=request,
            results=site.results,
            inputs=(*site.inputs, *prices.inputs),
            warnings=site.warnings,
            notes=site.notes,
        )
    replay, spec = request.replay, request.spec()
    columns = {*REPLAYED, *COLUMNS}
    columns |= {*INFERRED_FROM} if replay.deadline == "inferred" else set()
    columns |= {BY[name] for name in replay.by}
    columns |= {LIMIT_COLUMN} if "limit_factor" in find_policy(spec.policy).settings else set()
    columns |= {"job_class"} if needs_classes(spec.effective()) else set()
    names = [name for name in ("gpu_type", *NAMES) if name in columns]
    trace = read_trace(
        replay.trace, replay.jobs, columns=sorted(columns), categories=names, optional=(NODES,)
    )
    terms = PoolTerms(
        request.prices.gpu,
        request.shape(),
        request.growth,
        replay.deadline_rule(),
        replay.deadline_factor,
        replay.include_running,
        replay.jobs.seed,
        replay.by,
        bool(request.commit),
        request.replays,
    )
    recorded = recorded_waits(trace.submitted().jobs, replay.by) or UNSET
    pools, seen = pools_of(trace, terms)
    trace = replace(trace, jobs=trace.jobs.clear())  # the jobs are in the pools now
    prices = _prices(request)
    answers = [
        PoolAnswer(request, pool, prices.of(pool.gpu_type), is_one=len(pools) == 1)
        for pool in pools
    ]
    fidelity = _fidelity(request, trace.provenance, answers, seen)
    for done, answer in enumerate(answers):
        answer.run(may_speak=fidelity.may_speak)
        if progress is not None and len(answers) > 1:
            progress((done + 1) / len(answers))
    results = _together(request, answers, seen, fidelity)
    results = replace(results, today_groups=recorded)
    return SizeAnswer(
        request=request,
        results=results,
        inputs=(trace_input(trace), *prices.inputs),
        warnings=tuple(_warnings(request, spec.policy, trace, pools, answers)),
    )


def _prices(request: SizeRequest) -> Prices:
    """Return the prices of GPUs held: those given, of a commitment, or the usual one."""
    if request.prices.is_given:
        return Prices.read(request.prices)
    if request.commit:
        return Prices.read(request.committed)
    usual = float(RENTED["conventional_usd_per_gpu_h"].default)
    return Prices({"": usual}, option="assumed")


def _fidelity(
    request: SizeRequest, provenance: Provenance, answers: Sequence[PoolAnswer], seen: Today
) -> Fidelity:
    """Return how a replay of today compares with the log, all pools together and each alone."""
    if not request.replays:
        return unknown(NOT_REPLAYED)
    why = why_not_today(request.replay.jobs, provenance)
    why = why or (NO_WAITS if seen.mean_wait_s is None else "")
    if why:
        for answer in answers:
            answer.fidelity = unknown(why)
        return unknown(why)
    _, draws = np.random.default_rng(request.replay.jobs.seed).spawn(2)  # as every replay draws
    is_part = request.replay.jobs.where is not None
    replays = PoolReplays(request.spec(), draws, request.growth, is_part)
    fidelity, each = replays.fidelity([answer.pool for answer in answers], seen)
    for answer, of_pool in zip(answers, each, strict=True):
        answer.fidelity = of_pool
    return fidelity


def _together(
    request: SizeRequest, answers: Sequence[PoolAnswer], seen: Today, fidelity: Fidelity
) -> SizeResults:
    """Return the results of all pools in one."""
    pools = tuple(answer.result() for answer in answers)
    first = pools[0]
    is_one = len(pools) == 1
    values: tuple[float | None, ...] = (None,) * len(request.target)
    if is_one and first.gpus is not None:
        values = answers[0].sizes.one(first.gpus).target_values
    gpus = [pool.gpus for pool in pools if pool.gpus is not None]
    nodes = [pool.nodes for pool in pools if pool.nodes is not None]
    usd = [pool.usd_per_month for pool in pools if pool.usd_per_month is not None]
    whole = len(pools)
    return SizeResults(
        gpus=sum(gpus) if len(gpus) == whole else None,
        nodes=sum(nodes) if len(nodes) == whole else None,
        usd_per_month=sum(usd) if len(usd) == whole else None,
        interval=first.interval if is_one else None,
        policy=request.spec().policy,
        growth=request.growth,
        jobs=sum(pool.jobs for pool in pools),
        targets=tuple(
            TargetResult(target.text, target.limit, value)
            for target, value in zip(request.targets(), values, strict=True)
        ),
        points=tuple(point for answer in answers for point in answer.points),
        pools=pools,
        today=first.today if is_one else _today(pools, seen),
        commitment=first.commitment if is_one else _commitment(pools),
        fidelity=fidelity,
    )


def _today(pools: Sequence[SizePool], seen: Today) -> SizeToday:
    """Return what the log shows of all pools."""
    each = [pool.today for pool in pools]
    gpus = [today.cluster_gpus for today in each if today.cluster_gpus is not None]
    usd = [today.usd_per_month for today in each if today.usd_per_month is not None]
    return SizeToday(
        cluster_gpus=sum(gpus) if len(gpus) == len(each) else None,
        mean_gpus=sum(today.mean_gpus for today in each),
        peak_gpus=seen.usage.peak_gpus,
        mean_wait_s=seen.mean_wait_s,
        p95_wait_s=seen.p95_wait_s,
        usd_per_month=sum(usd) if len(usd) == len(each) else None,
    )


def _commitment(pools: Sequence[SizePool]) -> CommitmentResult | None:
    """Return the commitments of all pools in one; its interval is by pool."""
    each = [pool.commitment for pool in pools if pool.commitment is not None]
    if not each:
        return None
    committed = sum(plan.committed_gpus for plan in each)
    busy = sum(plan.committed_gpus * (plan.utilization or 0.0) for plan in each)
    used = busy + sum(plan.on_demand_mean_gpus for plan in each)
    return CommitmentResult(
        committed_gpus=committed,
        on_demand_mean_gpus=sum(plan.on_demand_mean_gpus for plan in each),
        on_demand_peak_gpus=sum(plan.on_demand_peak_gpus for plan in each),
        usd_per_month=sum(plan.usd_per_month for plan in each),
        all_committed_usd_per_month=sum(plan.all_committed_usd_per_month for plan in each),
        all_on_demand_usd_per_month=sum(plan.all_on_demand_usd_per_month for plan in each),
        coverage_share=busy / used if used else None,
        utilization=busy / committed if committed else None,
        interval=None,
    )


def _warnings(
    request: SizeRequest,
    policy: str,
    trace: Trace,
    pools: Sequence[JobPool],
    answers: Sequence[PoolAnswer],
) -> list[str]:
    kinds = [request.prices.gpu, *(pool.gpu_type for pool in pools)]
    notes = list(trace.notes)
    notes += [pool.impossible.warning for pool in pools if pool.impossible and not pool.shape]
    notes += request.replay.jobs.submission_notes if request.commit else ()
    for priced in (request.prices, request.committed, request.rented):
        notes += Prices(priced.usd_per_gpu_h, option=priced.option).unmatched_note(kinds)
    by_deadlines = find_policy(policy).decides_by_deadlines
    for pool, answer in zip(pools, answers, strict=True):
        name = f"{answer.name}: " if len(pools) > 1 else ""
        notes += [f"{name}{note}" for note in pool.jobs.notes if request.replays]
        if by_deadlines and pool.jobs.deadline_note:
            notes.append(f"the log has no deadlines: {pool.jobs.deadline_note}")
    for pool in pools:
        if pool.above is not None and pool.shape is not None:
            gpu_type = pool.gpu_type if len(pools) > 1 else None
            cluster = f"the {pool.shape.gpus:,} of --cluster"
            notes.append(pool.above.warning(gpu_type, cluster))
    if any(pool.seen.jobs_with_wait == 0 for pool in pools):
        notes.append("the log records no waits, so today's waits are unknown")
    if len(pools) > 1 and _chooses_types(policy):
        notes.append(
            f"each GPU type is sized for its own jobs; here {policy} does not move "
            "jobs to another type\n  next: to replay jobs on a mix of types, gpuplan compare "
            "--cluster with --gpu-speed or --throughputs"
        )
    return list(dict.fromkeys(notes))


def _chooses_types(policy: str) -> bool:
    """Return whether a policy is one that chooses among GPU types in rounds."""
    settings = find_policy(policy).settings
    return "round_s" in settings and "preemptive" not in settings
