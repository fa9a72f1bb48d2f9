"""How many GPUs instances need under each placement policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.gpu_names import gpu_memory_gb
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.user_tables.sharing_instances import (
    INFERENCE,
    KINDS,
    TRAINING,
    SharedInstance,
)
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.sharing.placement import Instances, PlacementRun, place_instances
from gpuplan.simkit.sharing.policies import EXCLUSIVE, PlacementSettings


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What to place, and how.

    Attributes:
        instances: the instances, in the order in which they start.
        policies: placement policies.
        nodes, node_gpus: the cluster.
        settings: bounds and weights; ``gammas`` replaces its gamma where several are given.
        gammas: values of gamma to compare; empty for that of the settings.
        usd_per_gpu_h: price of a GPU; None for no dollars.
        is_known: whether the input says what part of a GPU some instance needs.
    """

    instances: Sequence[SharedInstance]
    policies: Sequence[str]
    nodes: int
    node_gpus: int
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    gammas: Sequence[float] = ()
    usd_per_gpu_h: float | None = None
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """Instances placed under one policy at one gamma.

    Attributes:
        name: the policy.
        policy: the policy.
        gamma: most that the limits on a GPU add up to, in GPUs.
        max_gpus: most GPUs in use.
        mean_gpus: mean over the time from the first to the last event.
        sm_fragmentation: share of the SMs of GPUs in use that no request holds, mean over the time
            with GPUs in use.
        memory_fragmentation: share of the memory of GPUs in use that is free, likewise.
        saved_vs_exclusive_gpus: GPUs fewer than if every instance had whole GPUs.
        saved_vs_exclusive_share: the same over those GPUs.
        saved_usd_per_month: what the saved GPUs cost; null without a price.
        run: what happened after each event.
        time_s: time of each event.
    """

    name: str
    policy: str
    gamma: float
    max_gpus: int
    mean_gpus: float
    sm_fragmentation: float
    memory_fragmentation: float
    saved_vs_exclusive_gpus: int
    saved_vs_exclusive_share: float
    saved_usd_per_month: float | None
    run: Hidden[PlacementRun]
    time_s: Hidden[FloatArray]


@dataclass(frozen=True, slots=True)
class PlacementResults:
    """Instances placed under several policies.

    Attributes:
        instances: instances placed.
        cluster_gpus: GPUs of the cluster.
        exclusive_gpus: most GPUs in use if every instance had whole GPUs.
        policies: one row per policy and gamma.
        is_known: whether the input tells what sharing saves: false for a job log of whole GPUs.
        request: what was asked.
    """

    instances: int
    cluster_gpus: int
    exclusive_gpus: int
    policies: tuple[PlacementRow, ...]
    is_known: bool
    request: Hidden[PlacementRequest]


def study_placement(request: PlacementRequest) -> PlacementResults:
    """Place the instances under each policy and each gamma; exclusive GPUs are always among them.

    Raises:
        InfeasibleError: an instance does not fit; the message names it.
        UsageError: a bound below what an instance asks for.
    """
    arrays = _arrays(request.instances)
    of, starts, time_s = _events(request.instances)
    runs: list[tuple[str, float, PlacementRun]] = []
    for policy in dict.fromkeys((*request.policies, EXCLUSIVE)):
        gammas = request.gammas if policy != EXCLUSIVE else ()
        for gamma in gammas or (request.settings.gamma,):
            settings = replace(request.settings, gamma=gamma)
            _check_bounds(request, policy, settings)
            run = place_instances(
                arrays,
                of,
                starts,
                nodes=request.nodes,
                node_gpus=request.node_gpus,
                policy=policy,
                settings=settings,
            )
            if run.failed_event is not None:
                raise _misfit(request, policy, int(of[run.failed_event]), time_s[run.failed_event])
            runs.append((policy, gamma, run))
    exclusive_gpus = max(_most(run) for policy, _, run in runs if policy == EXCLUSIVE)
    return PlacementResults(
        instances=len(request.instances),
        cluster_gpus=request.nodes * request.node_gpus,
        exclusive_gpus=exclusive_gpus,
        policies=tuple(
            _measured(policy, gamma, run, time_s, exclusive_gpus, request.usd_per_gpu_h)
            for policy, gamma, run in runs
            if policy in request.policies
        ),
        is_known=request.is_known,
        request=request,
    )


def _most(run: PlacementRun) -> int:
    """Return the most GPUs in use."""
    return int(run.active_gpus.max())


def log_memory_gb(trace: Trace) -> float | None:
    """Return the memory of the GPUs of a log in GB; None unless its GPU types have the same."""
    types = trace.jobs.filter(pl.col("num_gpus") > 0)["gpu_type"].unique().to_list()
    sizes = {None if name is None else gpu_memory_gb(name) for name in types}
    return sizes.pop() if len(sizes) == 1 else None


def instances_of_trace(
    trace: Trace, memory_gb: float, nodes: int, node_gpus: int
) -> tuple[list[SharedInstance], tuple[str, ...]]:
    """Return the jobs of a trace as instances with request = limit = the share they hold.

    Jobs without GPUs and jobs that never started are left out; a job wider than a node becomes
    several gangs.

    Returns:
        the instances in the order of their starts, and notes.

    Raises:
        InfeasibleError: a job holds more GPUs than the nodes have.
    """
    jobs = trace.jobs
    state = jobs["state"].cast(pl.String)
    submit_s = trace.submit_s
    wait_s = jobs["queue_s"].fill_null(0.0).to_numpy()
    length_s = jobs["duration_s"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    gpus = jobs["num_gpus"].fill_null(0.0).to_numpy()
    running = (state == "running").fill_null(False).to_numpy()
    started = (gpus > 0) & (~np.isnan(length_s) | running)
    names = jobs["job_id"].fill_null("job").to_list()
    widest = int(np.argmax(np.where(started, gpus, 0.0))) if started.any() else 0
    if started.any() and math.ceil(gpus[widest]) > nodes * node_gpus:
        raise InfeasibleError(
            f"{names[widest]} held {counted(math.ceil(gpus[widest]), 'GPU')}, and the cluster has "
            f"{counted(nodes * node_gpus, 'GPU')}\n  next: more GPUs, by --cluster or --gpus"
        )
    instances = []
    for at in np.argsort(submit_s + wait_s, kind="stable"):
        if not started[at]:
            continue
        start_s = float(submit_s[at] + wait_s[at])
        end_s = None if np.isnan(length_s[at]) else start_s + float(length_s[at])
        share = float(gpus[at])
        if share < 1:
            parts = [(1, share, INFERENCE)]
        else:
            whole_gpus = math.ceil(share)
            full, rest = divmod(whole_gpus, node_gpus)
            parts = [(node_gpus, 1.0, TRAINING)] * full + ([(rest, 1.0, TRAINING)] if rest else [])
        for number, (workers, held, kind) in enumerate(parts):
            name = names[at] if len(parts) == 1 else f"{names[at]}/{number + 1}"
            memory = held * memory_gb
            instances.append(
                SharedInstance(name, kind, workers, held, held, memory, start_s, end_s, name)
            )
    dropped = int((~started).sum())
    has_parts = any(instance.request < 1 for instance in instances)
    notes = [] if not has_parts else [
        "the log has no limits, so request and limit are the share of a GPU that a job holds",
        f"the log has no memory of jobs, so a job holds its share of the {memory_gb:g} GB of a GPU",
    ]  # fmt: skip
    if dropped:
        notes.append(f"{counted(dropped, 'job')} without GPUs or without a start left out")
    return instances, tuple(notes)


def _arrays(instances: Sequence[SharedInstance]) -> Instances:
    numbers: dict[str, int] = {}
    function = [numbers.setdefault(instance.function, len(numbers)) for instance in instances]
    return Instances(
        kind=np.array([KINDS.index(instance.kind) for instance in instances], np.int64),
        gpus=np.array([instance.gpus for instance in instances], np.int64),
        request=np.array([instance.request for instance in instances], np.float64),
        limit=np.array([instance.limit for instance in instances], np.float64),
        memory_gb=np.array([instance.memory_gb for instance in instances], np.float64),
        function=np.array(function, np.int64),
    )


def _events(instances: Sequence[SharedInstance]) -> tuple[IntArray, Any, FloatArray]:
    """Return instance, whether it starts, and time of every event.

    Events of one time keep the order of their rows where these are known; else ends come first.
    """
    events = []
    for at, instance in enumerate(instances):
        events.append((instance.start_s, instance.start_row or 1, at, True))
        if instance.end_s is not None:
            at_once = instance.end_s <= instance.start_s
            events.append((instance.end_s, instance.end_row or (2 if at_once else 0), at, False))
    events.sort()
    time_s, _, of, starts = (np.array(column) for column in zip(*events, strict=True))
    return of.astype(np.int64), starts.astype(np.bool_), time_s.astype(np.float64)


def _check_bounds(request: PlacementRequest, policy: str, settings: PlacementSettings) -> None:
    for instance in request.instances:
        limit = instance.request if policy == "infless-r" else instance.limit
        charge = instance.limit if policy in ("infless-l", "fast-gs") else instance.request
        if policy != EXCLUSIVE and limit > settings.gamma + 1e-9:
            raise UsageError(
                f"--gamma {settings.gamma:g}: {instance.name} alone has a limit of {limit:g}; "
                "expected at least that"
            )
        if policy != EXCLUSIVE and charge > settings.omega + 1e-9:
            raise UsageError(
                f"--set omega={settings.omega:g}: {instance.name} alone requests {charge:g}; "
                "expected at least that"
            )


def _misfit(request: PlacementRequest, policy: str, at: int, time_s: float) -> InfeasibleError:
    instance = request.instances[at]
    gpus = request.nodes * request.node_gpus
    what = f"{instance.gpus} GPUs in one node" if instance.gpus > 1 else "1 GPU"
    shape = f"{counted(request.nodes, 'node')} of {counted(request.node_gpus, 'GPU')}"
    memory = request.settings.memory_gb
    if instance.memory_gb > memory and instance.kind != "llm-inference":
        return InfeasibleError(
            f"{policy}: {instance.name} takes {instance.memory_gb:g} GB, and a GPU has "
            f"{memory:g} GB\n  next: --set memory_gb={instance.memory_gb:g} or more"
        )
    return InfeasibleError(
        f"{policy}: {instance.name} does not fit at {time_s:,.0f} s; it needs {what} with "
        f"{instance.request:g} of the SMs and {instance.memory_gb:g} GB free in a cluster of "
        f"{shape} ({counted(gpus, 'GPU')})\n"
        "  next: more GPUs, by --cluster or --gpus"
    )


def _measured(
    policy: str,
    gamma: float,
    run: PlacementRun,
    time_s: FloatArray,
    exclusive_gpus: int,
    usd_per_gpu_h: float | None,
) -> PlacementRow:
    lasts = np.diff(time_s, append=time_s[-1])
    span_s, total = float(lasts.sum()), float((lasts * run.active_gpus).sum())
    mean = total / span_s if span_s else float(run.active_gpus.max())
    in_use = np.where(run.active_gpus > 0, lasts if total else 1.0, 0.0)  # 1: all at one instant
    saved = exclusive_gpus - _most(run)
    return PlacementRow(
        name=policy,
        policy=policy,
        gamma=float(gamma),
        max_gpus=_most(run),
        mean_gpus=mean,
        sm_fragmentation=float(np.average(run.sm_free_share, weights=in_use)),
        memory_fragmentation=float(np.average(run.memory_free_share, weights=in_use)),
        saved_vs_exclusive_gpus=saved,
        saved_vs_exclusive_share=saved / exclusive_gpus,
        saved_usd_per_month=None if usd_per_gpu_h is None else saved * usd_per_gpu_h * MONTH_H,
        run=run,
        time_s=time_s,
    )
