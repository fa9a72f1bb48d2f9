"""Replays of a trace under the quotas of a site, as the comparison takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuplan.planner.policies.cluster_replay import ClusterReplay, replay_settings, replayed
from gpuplan.planner.policies.quota_sites import site_of_settings
from gpuplan.planner.quota.kai_model import as_kueue, kai_model
from gpuplan.planner.quota.model import quota_model
from gpuplan.planner.quota.replayed_run import ReplayedQuota
from gpuplan.planner.quota.trace_queues import kai_jobs, queued_jobs
from gpuplan.planner.quota.use import loop_notes, unfinished_notes
from gpuplan.planner.runs.settings import Setting
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.quota.kai_simulator import replay_kai
from gpuplan.simkit.quota.simulator import replay_quota

NOT_MODELED = "topology, image pulls and the latency of the controller are not modeled"


def kueue_replay(
    name: str, settings_of: Mapping[str, Setting], jobs: TraceJobs, typed: Mapping[str, Any]
) -> Simulation:
    """Return the replay of jobs under the queues of a site of Kueue.

    Raises:
        InputError: the site cannot be used.
        UsageError: no site is given, or a job names none of its queues.
    """
    settings = replay_settings(name, settings_of, typed)
    values = settings.values
    document = as_kueue(site_of_settings(name, values))
    model = quota_model(document)
    queued = queued_jobs(jobs, model, any_type=values["flavor"] == "any")
    run = replay_quota(
        model.site,
        queued.jobs,
        grace_s=round(values["grace_s"]),
        checkpoint_s=round(values["checkpoint_every_s"] or 0),
    )
    quota = ReplayedQuota(jobs.workload, run, queued.usable_gpus, jobs.workload.gpus[run.job])
    replay = _replay(
        jobs,
        quota,
        queue_names=[model.queues[number] for number in queued.jobs.queue],
        loop=loop_notes(run, jobs.job_id.to_list(), model.queues),
        notes=(*document.notes, *queued.notes),
    )
    of_types = replace(replay, gpus_by_type=queued.gpus_by_type, site_gpus=model.gpus)
    return replayed(jobs, settings, of_types)


def kueue_refusals(jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that no quota of their queue could hold, by their places.

    Raises as `kueue_replay`.
    """
    model = quota_model(as_kueue(site_of_settings("kueue", values)))
    return np.flatnonzero(queued_jobs(jobs, model, any_type=values["flavor"] == "any").never)


def kai_refusals(jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that their queue could never hold, by their places.

    Raises as `kai_replay`.
    """
    model = kai_model(site_of_settings("kai", values), round(values["node_size"]))
    _, never, _ = kai_jobs(jobs, model, round(values["unpreemptible_priority"]))
    return np.flatnonzero(never)


def kai_replay(
    name: str, settings_of: Mapping[str, Setting], jobs: TraceJobs, typed: Mapping[str, Any]
) -> Simulation:
    """Return the replay of jobs under the queues of a site of KAI.

    Raises:
        InputError: the site cannot be used.
        UsageError: no site is given, or a job names none of its queues.
    """
    settings = replay_settings(name, settings_of, typed)
    values = settings.values
    document = site_of_settings(name, values)
    model = kai_model(document, round(values["node_size"]))
    gangs, _, notes = kai_jobs(jobs, model, round(values["unpreemptible_priority"]))
    site = replace(
        model.site,
        usage_weight=values["usage_weight"],
        half_life_s=round(values["half_life_s"]),
    )
    run = replay_kai(
        site,
        gangs,
        grace_s=round(values["grace_s"]),
        checkpoint_s=round(values["checkpoint_every_s"] or 0),
    )
    replay = _replay(
        jobs,
        ReplayedQuota(jobs.workload, run, model.gpus, run.gpus),
        queue_names=[model.site.queues[number].name for number in gangs.queue],
        loop=loop_notes(run, jobs.job_id.to_list(), run.nodes),
        notes=(*document.notes, *model.notes, *notes),
    )
    return replayed(jobs, settings, replay)


def _replay(
    jobs: TraceJobs,
    quota: ReplayedQuota,
    *,
    queue_names: Sequence[str],
    loop: tuple[str, ...],
    notes: tuple[str, ...],
) -> ClusterReplay:
    """Return a replay under quotas as every policy has it.

    Args:
        jobs: that were replayed.
        quota: their replay.
        queue_names: of each job.
        loop: what repeats without end, if anything does.
        notes: what is to be said of the site and the jobs.
    """
    unfinished = unfinished_notes(quota.quota.unfinished, jobs.job_id.to_list())
    return ClusterReplay(
        run=quota,
        size={"gpus": quota.gpus},
        notes=(*notes, *loop, *unfinished, NOT_MODELED),
        columns=lambda: {"queue": list(queue_names)},
        measured=quota.lost_work,
        loses_work=True,
        loop="".join(loop),
    )
