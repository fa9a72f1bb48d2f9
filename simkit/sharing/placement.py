"""Place instances on shared GPUs as they start and end: check, call the kernel, return the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.sharing.fleet import LLM, new_fleet
from gpuplan.simkit.sharing.place import new_held
from gpuplan.simkit.sharing.policies import PlacementSettings, charges
from gpuplan.simkit.sharing.replay import replay_instances


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of functions; every array has shape (n,).

    Attributes:
        kind: `INFERENCE`, `LLM` or `TRAINING` of `gpuplan.simkit.sharing.fleet`.
        gpus: GPUs of each, >= 1; more than one are a gang in one node.
        request: share of the SMs it needs of each of its GPUs; 0 < request <= limit.
        limit: share of the SMs it may get of each.
        memory_gb: memory it takes on each GPU; of an LLM that is split, in all.
        function: the function it is an instance of, a number from 0.
    """

    kind: IntArray
    gpus: IntArray
    request: FloatArray
    limit: FloatArray
    memory_gb: FloatArray
    function: IntArray

    def __post_init__(self) -> None:
        shape = self.kind.shape
        arrays = (self.gpus, self.request, self.limit, self.memory_gb, self.function)
        if any(array.shape != shape for array in arrays) or self.kind.ndim != 1 or not shape[0]:
            raise ValueError(f"instances need arrays of one shape (n,), n >= 1, got {shape}")
        if not ((self.request > 0) & (self.request <= self.limit) & (self.limit <= 1)).all():
            raise ValueError("shares must satisfy 0 < request <= limit <= 1")
        if self.gpus.min() < 1 or self.function.min() < 0 or not (self.memory_gb >= 0).all():
            raise ValueError("gpus must be at least 1, functions and memory at least 0")


@dataclass(frozen=True, slots=True)
class PlacementRun:
    """What happened as instances started and ended.

    Attributes:
        active_gpus: GPUs with an instance after each event; shape (m,).
        sm_free_share: mean share of their SMs that no request holds; shape (m,).
        memory_free_share: mean share of their memory that is free; shape (m,).
        gpu_of: the GPUs of each instance, -1 where unused; shape (n, parts).
        failed_event: the event whose instance fits nowhere, where the run stops; None if all fit.
    """

    active_gpus: IntArray
    sm_free_share: FloatArray
    memory_free_share: FloatArray
    gpu_of: IntArray
    failed_event: int | None


def place_instances(
    instances: Instances,
    event_of: IntArray,
    starts: BoolArray,
    *,
    nodes: int,
    node_gpus: int,
    policy: str,
    settings: PlacementSettings,
) -> PlacementRun:
    """Place instances one event at a time.

    Args:
        instances: the instances.
        event_of: the instance of each event; shape (m,).
        starts: whether the event is its start, which comes once, or its end, once after it.
        nodes, node_gpus: the cluster.
        policy: one of `PLACEMENT_POLICIES`.
        settings: bounds, weights, memory and ties.

    Raises:
        ValueError: arrays that do not fit together.
    """
    if event_of.shape != starts.shape or event_of.ndim != 1 or nodes < 1 or node_gpus < 1:
        raise ValueError(f"events need one shape (m,), got {event_of.shape} and {starts.shape}")
    n = instances.kind.size
    if event_of.size and not 0 <= event_of.min() <= event_of.max() < n:
        raise ValueError(f"events must be of the instances 0..{n - 1}")
    _check_order(event_of, starts, n)
    most_gpus = int(instances.gpus.max())
    split = settings.split and bool((instances.kind == LLM).any())
    parts = max(most_gpus, node_gpus if split else 1)
    held = new_held(instances.kind, instances.function, parts)
    request, limit = charges(policy, instances.request, instances.limit)
    after, failed = replay_instances(
        event_of.astype(np.int64),
        starts.astype(np.bool_),
        instances.gpus,
        request,
        limit,
        instances.memory_gb,
        new_fleet(nodes, node_gpus),
        held,
        settings.rules(policy),
    )
    return PlacementRun(
        active_gpus=after[:, 0].astype(np.int64),
        sm_free_share=after[:, 1],
        memory_free_share=after[:, 2],
        gpu_of=held.gpus,
        failed_event=None if failed < 0 else int(failed),
    )


def _check_order(event_of: IntArray, starts: BoolArray, n: int) -> None:
    """Refuse an instance that starts twice, or ends before it starts."""
    for what in (starts, ~starts):
        counts = np.bincount(event_of[what], minlength=n)
        if counts.size and counts.max() > 1:
            raise ValueError(f"instance {int(counts.argmax())} starts or ends twice")
    first = np.full(n, event_of.size, np.int64)
    first[event_of[starts]] = np.flatnonzero(starts)
    last = np.flatnonzero(~starts)
    if (first[event_of[~starts]] > last).any():
        raise ValueError("an instance ends before it starts")
