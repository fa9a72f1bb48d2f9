"""Say how many GPUs the jobs of a log need, and how many of them to commit to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from msgspec import UNSET

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.capacity import NODES
from gpuplan.analysis.characterize.today import COLUMNS, Today
from gpuplan.analysis.history.jobs import BY, NAMES
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.schema import LIMIT_COLUMN, Provenance
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.spells import REASON, limit_share
from gpuplan.planner.money.bill_today import at_book
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.registry import find_policy
from gpuplan.planner.requests.site_request import KUBERNETES
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.runs.deadlines import INFERRED_FROM
from gpuplan.planner.runs.group_waits import recorded_waits
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    NOT_REPLAYED,
    UNKNOWN,
    Fidelity,
    named_for,
    unknown,
    why_not_today,
    without_limits,
)
from gpuplan.planner.site.pool_replays import fidelity_of_pools
from gpuplan.planner.sizing.pools import PoolTerms, pools_of
from gpuplan.planner.speedup.registry import needs_classes
from gpuplan.planner.studies.size_commitment import SizePrices, read_prices, read_size_prices
from gpuplan.planner.studies.size_pool import PoolAnswer, results_of
from gpuplan.planner.studies.size_results import (
    CommitmentLine,
    SizeAnswer,
    SizeResults,
    SizeToday,
)
from gpuplan.planner.studies.size_site import size_site

N = TypeVar("N", int, float)


def size(request: SizeRequest, progress: Callable[[float], None] | None = None) -> SizeAnswer:
    """Return the smallest cluster that meets the targets, the curve, and the commitment.

    Raises:
        InfeasibleError: no size meets a target, or a size of the curve cannot hold a job.
        InputError: the trace or a price table cannot be used.
        UsageError: options that do not fit together, or that no run can have.
    """
    request.check()
    if request.twin is not None:
        return size_site(request, read_prices(request))
    replay, spec = request.replay, request.spec()
    columns = {*REPLAYED, *COLUMNS}
    columns |= {*INFERRED_FROM} if replay.deadline == "inferred" else set()
    columns |= {BY[name] for name in replay.by}
    columns |= {LIMIT_COLUMN} if "limit_factor" in find_policy(spec.policy).settings else set()
    columns |= {"job_class"} if needs_classes(spec.effective()) else set()
    names = [name for name in ("gpu_type", *NAMES) if name in columns]
    optional = (NODES, *((REASON,) if request.target else ()))
    trace = read_trace(
        replay.trace, replay.jobs, columns=sorted(columns), categories=names, optional=optional
    )
    terms = PoolTerms(
        request.prices.gpu,
        request.shape(),
        request.grown,
        replay.deadline_rule(),
        replay.deadline_factor,
        replay.include_running,
        replay.jobs.seed,
        replay.by,
        request.commits,
        request.replays,
    )
    recorded = recorded_waits(trace.submitted().jobs, replay.by) or UNSET
    limited = limit_share(trace.submitted().jobs)
    pools, seen = pools_of(trace, terms)
    prices = read_size_prices(request, trace, pools)
    of_prices = prices.notes(trace, pools)
    plans = prices.plans(pools)
    todays_usd = None
    if prices.is_priced and (prices.prices.book.pools or request.cluster is None):
        billed = at_book(trace, seen, prices.prices)
        todays_usd = None if billed is None else billed.usage.usd_per_month
    trace = replace(trace, jobs=trace.jobs.clear())  # the jobs are in the pools now
    answers = [
        PoolAnswer(
            request, pool, prices.of_cluster(pool.gpu_type), plan, is_one=len(pools) == 1,
            paid=prices.prices.pools(pool.gpu_type),
        )
        for pool, plan in zip(pools, plans, strict=True)
    ]  # fmt: skip
    other_usd_per_h = prices.other_usd_per_h([pool.gpu_type for pool in pools])
    if len(answers) == 1:
        answers[0].other_usd_per_h = other_usd_per_h
    fidelity = without_limits(_fidelity(request, trace.provenance, answers, seen), limited)
    source_format = trace.provenance.source_format
    fidelity = named_for(fidelity, has_partitions=source_format not in KUBERNETES)
    for done, answer in enumerate(answers):
        answer.run(may_speak=fidelity.may_speak)
        if progress is not None and len(answers) > 1:
            progress((done + 1) / len(answers))
    results = _results(request, answers, seen, fidelity)
    results = replace(results, today_groups=recorded)
    if len(answers) > 1 and results.usd_per_month is not None:
        usd = results.usd_per_month + other_usd_per_h * MONTH_H
        results = replace(results, usd_per_month=usd)
    if todays_usd is not None:
        results = replace(results, today=replace(results.today, usd_per_month=todays_usd))
    if not (prices.is_priced or request.commits):
        results = replace(results, today=replace(results.today, price_is_assumed=True))
    return SizeAnswer(
        request=request,
        results=results,
        inputs=(trace_input(trace), *prices.inputs),
        warnings=(*_warnings(request, spec.policy, trace, answers, prices), *of_prices),
        notes=tuple(prices.left_out([pool.gpu_type for pool in pools])),
        lines=tuple(
            CommitmentLine(answer.plan.gpu_type, answer.plan.line())
            for answer in answers
            if answer.plan is not None and answer.commitment is not None
        ),
        source_format=source_format,
    )


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
    fidelity, each = fidelity_of_pools(
        [answer.pool for answer in answers], seen, request.spec(), draws, growth=request.grown,
        is_part=is_part,
    )  # fmt: skip
    for answer, of_pool in zip(answers, each, strict=True):
        answer.fidelity = of_pool
    return fidelity


def _results(
    request: SizeRequest, answers: Sequence[PoolAnswer], seen: Today, fidelity: Fidelity
) -> SizeResults:
    """Return the results of all pools in one."""
    pools = tuple(answer.result() for answer in answers)
    each = [pool.today for pool in pools]
    today = SizeToday(
        cluster_gpus=_total(today.cluster_gpus for today in each),
        mean_gpus=sum(today.mean_gpus for today in each),
        peak_gpus=seen.usage.peak_gpus,
        mean_wait_s=seen.mean_wait_s,
        p95_wait_s=seen.p95_wait_s,
        usd_per_month=_total(today.usd_per_month for today in each),
    )
    return replace(
        results_of(request, answers, pools, today, fidelity),
        gpus=_total(pool.gpus for pool in pools),
        nodes=_total(pool.nodes for pool in pools),
        usd_per_month=_total(pool.usd_per_month for pool in pools),
        policy=request.spec().policy,
        jobs=sum(pool.jobs for pool in pools),
        today_meets=_meets_today(request, answers, fidelity),
    )


def _meets_today(
    request: SizeRequest, answers: Sequence[PoolAnswer], fidelity: Fidelity
) -> bool | None:
    """Return whether recorded waits meet the targets; None where they are not those of today."""
    if not request.target or request.grown or fidelity.verdict == UNKNOWN:
        return None
    each = [answer.meets_today for answer in answers]
    return None if None in each else all(each)


def _total(values: Iterable[N | None]) -> N | None:
    """Return a sum; None where a value is not known."""
    each = list(values)
    known_values = [value for value in each if value is not None]
    return sum(known_values[1:], known_values[0]) if len(known_values) == len(each) else None


def _warnings(
    request: SizeRequest,
    policy: str,
    trace: Trace,
    answers: Sequence[PoolAnswer],
    prices: SizePrices,
) -> list[str]:
    pools = [answer.pool for answer in answers]
    kinds = [pool.gpu_type for pool in pools]
    notes = list(trace.notes)
    notes += [pool.impossible.warning for pool in pools if pool.impossible and not pool.shape]
    notes += request.replay.jobs.submission_notes if request.commits else ()
    of_cluster = Prices(request.prices.usd_per_gpu_h, option=request.prices.option)
    notes += of_cluster.unmatched_note([request.prices.gpu, *kinds])
    notes += prices.warnings(kinds)
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
