"""Whether replays of policies may speak: the closest of them on today's cluster and the log.

``--cluster`` of a replay is a candidate as often as today's cluster. The smallest one given that
holds as many GPUs as the log shows held at once counts as today's; where it contradicts the log, or
none is given, the peak itself is replayed. A policy that only rents has no cluster of today; one
that replays the queues of a site (``--site``) replays those of today.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.base.words import listed
from gpuplan.planner.compare import PolicyOutcome, PolicySpec
from gpuplan.planner.policies.quota_settings import has_quotas
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.cluster_setting import shape_of
from gpuplan.planner.runs.recorded_waits import WaitMatch
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.site.fidelity import (
    TOO_FEW,
    TWIN,
    Fidelity,
    TodayReplay,
    fidelity_of,
    replay_today,
    unknown,
)
from gpuplan.planner.sizing.targets import whole_multiple

MOST_REPLAYS = 3
"""Policies that are replayed on the peak, the first ones."""


def fidelity_of_policies(
    jobs: TraceJobs,
    runs: Sequence[tuple[PolicySpec, PolicyOutcome]],
    peak_gpus: float,
    rng: np.random.Generator,
    *,
    is_part: bool,
) -> Fidelity:
    """Return how the closest policy on today's cluster compares with the log.

    Args:
        runs: each policy and what it made of them.
        peak_gpus: most GPUs that the log shows held at once.
        rng: random values come from a copy.
        is_part: whether other jobs of the log are left out.
    """
    sited = _of_site(runs, peak_gpus, is_part)
    if sited and _closest(sited).may_speak:
        return _closest(sited)
    owned = [(spec, run) for spec, run in runs if has_cluster(spec)]
    if sited and not owned:
        return _closest(sited)
    if not owned:
        names = listed(list(dict.fromkeys(spec.policy for spec, _ in runs)), 3)
        return unknown(f"today's cluster cannot be replayed under {names}")
    if all(run.match is None for _, run in owned):
        return unknown(TOO_FEW)
    replays = _on_given_clusters(owned, peak_gpus, is_part)
    if replays and _closest(replays).may_speak:
        return _closest(replays)
    at_peak: list[TodayReplay] = []
    for policy in _policies(owned, replays)[:MOST_REPLAYS]:
        replay = _at_peak(jobs, policy, peak_gpus, rng, is_part)
        at_peak += [] if replay is None else [replay]
        if replay is not None and fidelity_of(replay).may_speak:
            return fidelity_of(replay)
    slurm = [replay for replay in sited if replay.policy == TWIN]
    if not slurm and not replays and not at_peak:
        return unknown("today's cluster is unknown: --cluster has fewer GPUs than the log")
    return _closest(slurm or replays or at_peak)


def _of_site(
    runs: Sequence[tuple[PolicySpec, PolicyOutcome]], peak_gpus: float, is_part: bool
) -> list[TodayReplay]:
    """Return the replays under the rules of a site: they are of today as they are."""
    return [
        TodayReplay(spec.policy, run.results.gpus, run.match, peak_gpus, is_part)
        for spec, run in runs
        if has_quotas(find_policy(spec.policy).settings) and run.match is not None
    ]


def has_cluster(policy: PolicySpec) -> bool:
    """Return whether a policy runs on one cluster, whose jobs wait as those of the log do."""
    settings = find_policy(policy.policy).settings
    return "cluster" in settings and not lends(policy.effective())


def _on_given_clusters(
    runs: Sequence[tuple[PolicySpec, PolicyOutcome]], peak_gpus: float, is_part: bool
) -> list[TodayReplay]:
    """Return the replays on the smallest cluster given that holds the peak."""
    sized = [
        TodayReplay(spec.policy, shape.gpus, run.match, peak_gpus, is_part)
        for spec, run in runs
        if (shape := shape_of(spec.settings)) is not None
        and shape.gpus is not None
        and shape.gpus >= peak_gpus
        and run.match is not None
    ]
    least = min((replay.cluster_gpus for replay in sized), default=0)
    return [replay for replay in sized if replay.cluster_gpus == least]


def _policies(
    runs: Sequence[tuple[PolicySpec, PolicyOutcome]], replays: Sequence[TodayReplay]
) -> list[PolicySpec]:
    """Return the policies to replay on the peak, each once, the closest so far first."""
    order = [replay.policy for replay in sorted(replays, key=_distance)]
    first = {spec.policy: spec for spec, _ in reversed(runs)}
    names = dict.fromkeys([*order, *(spec.policy for spec, _ in runs)])
    return [first[name] for name in names]


def _at_peak(
    jobs: TraceJobs, policy: PolicySpec, peak_gpus: float, rng: np.random.Generator, is_part: bool
) -> TodayReplay | None:
    """Return a replay on the peak; None where the policy or a job has no place on it."""
    shape = shape_of(policy.settings)
    if shape is not None and len(shape.pools) > 1:
        return None
    each = None if shape is None else shape.pool.gpus_per_node
    gpus = whole_multiple(peak_gpus, each or 1)
    if int(jobs.workload.gpus.max()) > gpus:
        return None
    match = replay_today(jobs, policy, gpus, each, rng).summary()
    return TodayReplay(policy.policy, gpus, match, peak_gpus, is_part)


def _closest(replays: Sequence[TodayReplay]) -> Fidelity:
    return fidelity_of(min(replays, key=_distance))


def _distance(replay: TodayReplay) -> float:
    match: WaitMatch | None = replay.match
    return float("inf") if match is None else match.distance
