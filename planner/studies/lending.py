"""What comes before a replay: what pools that lend are asked for, and jobs that never fit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import UNSET

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.compare import PolicyOutcome, PolicySpec, compare
from gpuplan.planner.engine import Engine
from gpuplan.planner.policies.spot.pools import loads_of, pools_of
from gpuplan.planner.policies.spot.replay import unplaceable_jobs
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.trace_jobs import Tenants, TraceJobs
from gpuplan.planner.studies.replay import ReplayInputs
from gpuplan.planner.studies.replay_results import NoSpotResults
from gpuplan.simkit.arrays import BoolArray

LOG = logging.getLogger("gpuplan")
MOST_NAMED = 5


def placeable(read: ReplayInputs, policies: Sequence[PolicySpec]) -> ReplayInputs:
    """Return the jobs that fit into pools that lend and into quotas, for all policies.

    What each pool is asked for is reported before anything runs.

    Raises:
        InputError: no job fits.
        UsageError: settings that make no cluster.
    """
    jobs = read.jobs
    dropped = np.zeros(jobs.workload.size, np.bool_)
    reported = set()
    for policy in policies:
        if (never_starts := find_policy(policy.policy).never_starts) is not None:
            with policy.blamed(is_alone=len(policies) == 1):
                dropped[never_starts(jobs, policy.effective())] = True
        if not lends(policy.effective()):
            continue
        with policy.blamed(is_alone=len(policies) == 1):
            for load in loads_of(jobs, pools_of(jobs, policy.settings)):
                if load.text not in reported:
                    more = ", more than there is" if load.demand_over_capacity > 1 else ""
                    LOG.log(logging.WARNING if more else logging.INFO, "%s%s", load.text, more)
                reported.add(load.text)
            dropped[unplaceable_jobs(jobs, policy.settings)] = True
    if not dropped.any():
        return read
    if dropped.all():
        raise InputError(
            read.trace.path,
            "no job fits into the cluster",
            hint="allow more GPUs in --cluster, more quota or longer limits in --site",
        )
    names = [
        f"{jobs.job_id[int(at)]} ({jobs.workload.billed_gpus[at]:g} GPUs)"
        for at in np.flatnonzero(dropped)[:MOST_NAMED]
    ]
    count = int(dropped.sum())
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    note = f"{counted(count, 'job')} left out that can never fit: {listed(names)}{more}"
    kept = _only(jobs, ~dropped)
    return replace(read, jobs=replace(kept, notes=(*kept.notes, note)))


def no_spot(
    read: ReplayInputs, policies: Sequence[PolicySpec], engine: Engine
) -> tuple[NoSpotResults, ...]:
    """Return how high-priority jobs fare alone, under each policy that lends.

    Empty where none lends, or there are no jobs of one kind.
    """
    tenants = read.jobs.tenants
    alone = [_unlent(policy) for policy in policies if lends(policy.effective())]
    if not alone or tenants is None or tenants.is_spot.all() or not tenants.is_spot.any():
        return ()
    comparison = compare(_only(read.jobs, ~tenants.is_spot), alone, read.draws, engine=engine)
    return tuple(
        NoSpotResults(outcome.label, outcome.results.hp, outcome.results.allocation_rate)
        for outcome in comparison.outcomes
        if outcome.results.hp is not UNSET and outcome.results.allocation_rate is not UNSET
    )


def _unlent(policy: PolicySpec) -> PolicySpec:
    """Return a policy for high-priority jobs alone, without the models of what can be lent."""
    if "forecast" not in policy.effective():
        return policy
    return replace(policy, settings={**policy.settings, "forecast": "exact"})


def queue_notes(outcomes: Sequence[PolicyOutcome]) -> tuple[str, ...]:
    """Return what makes policies that lend unequal: their queues."""
    notes = []
    blocking: dict[bool, list[str]] = {True: [], False: []}
    for outcome in outcomes:
        if lends(outcome.settings):
            blocking[bool(outcome.settings["blocking"])].append(outcome.label)
    if blocking[True] and blocking[False]:
        notes.append(
            f"unequal queues: under {listed(blocking[True])} a job that does not fit holds up "
            f"those behind it, under {listed(blocking[False])} they pass it; for equal terms, set "
            "blocking=false for all"
        )
    return tuple(notes)


def _only(jobs: TraceJobs, kept: BoolArray) -> TraceJobs:
    """Return some of the jobs; times stay those after the first submission of them."""
    work, tenants = jobs.workload, jobs.tenants
    first, window = int(work.submit_us[kept][0]), jobs.window_us
    other = {
        name: None if (times := getattr(work, name)) is None else times[kept]
        for name in ("checkpoint_us", "restore_us")
    }
    return replace(
        jobs,
        workload=replace(
            work,
            submit_us=work.submit_us[kept] - first,
            service_us=work.service_us[kept],
            gpus=work.gpus[kept],
            deadline_us=work.deadline_us[kept] - first,
            billed_gpus=work.billed_gpus[kept],
            **other,
        ),
        job_id=jobs.job_id.filter(kept),
        window_us=window and (window[0] - first, window[1] - first),
        first_submit_us=None if jobs.first_submit_us is None else jobs.first_submit_us + first,
        labels=None if jobs.labels is None else jobs.labels.filter(kept),
        queues=None if jobs.queues is None else jobs.queues.filter(kept),
        limit_us=None if jobs.limit_us is None else jobs.limit_us[kept],
        job_class=None if jobs.job_class is None else jobs.job_class.filter(kept),
        recorded_wait_s=None if jobs.recorded_wait_s is None else jobs.recorded_wait_s[kept],
        tenants=None
        if tenants is None
        else Tenants(
            tenants.is_spot[kept],
            tenants.group.filter(kept),
            tenants.gpu_type.filter(kept),
            tenants.pods[kept],
            tenants.has_priorities,
        ),
    )
