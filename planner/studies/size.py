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
from gpuplan.analysis.waits.spells import REASON, limit_share
from gpuplan.planner.money.bill_today import at_book
from gpuplan.planner.money.commitment import together
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.registry import find_policy
from gpuplan.planner.requests.site_request import KUBERNETES
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.runs.deadlines import INFERRED_FROM
from gpuplan.planner.runs.group_waits import recorded_waits
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    NOT_REPLAYED,
    Fidelity,
    named_for,
    unknown,
    why_not_today,
    without_limits,
)
from gpuplan.planner.site.pool_replays import fidelity_of_pools
from gpuplan.planner.sizing.pools import COLUMNS, PoolTerms, pools_of
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.size_commitment import SizePrices, read_prices, read_size_prices
from gpuplan.planner.studies.size_pool import PoolAnswer
from gpuplan.planner.studies.size_results import (
    SizePool,
    SizeResults,
    SizeToday,
    TargetResult,
)
from gpuplan.planner.studies.size_site import size_site


@dataclass(frozen=True, slots=True)
class CommitmentLine:
    """Dollars a month of committed GPUs of one type.

    Attributes:
        gpu_type: ``all`` where the log names none.
        points: committed GPUs and dollars a month.
    """

    gpu_type: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer(Answer[SizeRequest, SizeResults]):
    """How many GPUs the jobs need.

    Attributes:
        lines: dollars of many commitments on each GPU type, for a picture.
        source_format: of the log.
    """

    lines: tuple[CommitmentLine, ...] = ()
    source_format: str = ""

    def to_frame(self) -> pl.DataFrame:
        """Return one row per size of the curve; without sizes, one per count of a commitment."""
        if not self.results.points and self.results.commitment is not None:
            return pl.DataFrame([plain(point) for point in self.results.commitment.curve])
        rows = [plain(point) for point in self.results.points]
        ends = ("mean_wait_interval_s", "p95_wait_interval_s")
        lists = (*ends, "groups", "target_values", "target_errors")
        flat = [
            {key: value for key, value in row.items() if key not in lists}
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
        of_site = read_prices(request)
        site = size_site(request, of_site)
        return SizeAnswer(
            request=request,
            results=site.results,
            inputs=(*site.inputs, *of_site.inputs),
            warnings=site.warnings,
            notes=site.notes,
            failure=site.failure,
        )
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
    fidelity = without_limits(_fidelity(request, trace.provenance, answers, seen), limited)
    source_format = trace.provenance.source_format
    fidelity = named_for(fidelity, has_partitions=source_format not in KUBERNETES)
    for done, answer in enumerate(answers):
        answer.run(may_speak=fidelity.may_speak)
        if progress is not None and len(answers) > 1:
            progress((done + 1) / len(answers))
    results = _together(request, answers, seen, fidelity)
    results = replace(results, today_groups=recorded)
    if todays_usd is not None:
        results = replace(results, today=replace(results.today, usd_per_month=todays_usd))
    if not (prices.is_priced or request.commits):
        results = replace(results, today=replace(results.today, price_is_assumed=True))
    return SizeAnswer(
        request=request,
        results=results,
        inputs=(trace_input(trace), *prices.inputs),
        warnings=tuple(_warnings(request, spec.policy, trace, answers, prices)),
        notes=tuple(prices.left_out([pool.gpu_type for pool in pools])),
        lines=tuple(
            CommitmentLine(answer.plan.offer.gpu_type, answer.plan.line())
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
        growth=request.grown,
        jobs=sum(pool.jobs for pool in pools),
        targets=tuple(
            TargetResult(target.text, target.limit, value)
            for target, value in zip(request.targets(), values, strict=True)
        ),
        points=tuple(point for answer in answers for point in answer.points),
        pools=pools,
        today=first.today if is_one else _today(pools, seen),
        commitment=together(pool.commitment for pool in pools),
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
