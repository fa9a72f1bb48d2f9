"""Instances that start and end on shared GPUs: the event loop of placement alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, kernel
from gpuplan.simkit.sharing.fleet import LLM, TRAINING, charge, release
from gpuplan.simkit.sharing.place import choose, mark_affine


@borrowing_helper
def add_instance(
    fleet: Any,
    held: Any,
    instance: int,
    parts: int,
    request: float,
    limit: float,
    into: Any,
    memory: Any,
) -> None:
    """Charge the GPUs that were chosen for an instance, and let it live."""
    for part in range(parts):
        charge(fleet, into[part], request, limit, memory[part])
        held.gpus[instance, part] = into[part]
        held.memory[instance, part] = memory[part]
    held.parts[instance] = parts
    held.live[0] += 1
    held.live[held.live[0]] = instance
    held.place[instance] = held.live[0]


@borrowing_helper
def remove_instance(
    fleet: Any, held: Any, instance: int, request: float, limit: float, reference: bool
) -> None:
    """Release the GPUs of an instance."""
    for part in range(held.parts[instance]):
        gpu, memory = held.gpus[instance, part], held.memory[instance, part]
        release(fleet, gpu, request, limit, memory, reference)
    held.parts[instance] = 0
    live, at = held.live, held.place[instance]
    last = live[live[0]]
    live[at] = last
    held.place[last] = at
    live[0] -= 1


@kernel
def replay_instances(
    event_of: Any,
    starts: Any,
    gpus: Any,
    request: Any,
    limit: Any,
    memory: Any,
    fleet: Any,
    held: Any,
    rules: Any,
) -> Any:
    """Place instances as they start, and release them as they end.

    Args:
        event_of: the instance of each event; shape (m,).
        starts: whether it starts or ends; shape (m,).
        gpus: GPUs of each of the n instances; shape (n,), like the rest.
        request: its request of each GPU.
        limit: its limit on each GPU.
        memory: memory on each GPU.
        fleet: GPUs, all free.
        held: instances that hold nothing, with as many parts as a node or a gang has GPUs.
        rules: see `PlacementRules`.

    Returns:
        the state after each event, (m, 3): active GPUs, mean free share of their SMs and of their
        memory; and the event of the first instance that fits nowhere, or -1.
    """
    after = np.zeros((event_of.size, 3))
    kind, function = held.kind, held.function
    most = max(held.gpus.shape[1], fleet.node_gpus)
    into, parts_gb = np.zeros(most, np.int64), np.zeros(most)
    last = 0
    for instance in range(function.size):
        last = max(last, function[instance])
    alive = np.zeros(last + 1, np.int64)  # instances of a function
    for event in range(event_of.size):
        instance = event_of[event]
        if starts[event]:
            affine = 0
            if rules.affinity and kind[instance] != TRAINING and alive[function[instance]] > 0:
                affine = mark_affine(fleet, function[instance], held)
            parts = choose(
                fleet,
                kind[instance],
                gpus[instance],
                request[instance],
                limit[instance],
                memory[instance],
                rules,
                affine,
                into,
                parts_gb,
            )
            if parts == 0:
                return after, event
            split = rules.reference and kind[instance] == LLM and parts > 1
            charged = request[instance] if split else limit[instance]
            add_instance(fleet, held, instance, parts, request[instance], charged, into, parts_gb)
            alive[function[instance]] += 1
        else:
            remove_instance(
                fleet, held, instance, request[instance], limit[instance], rules.reference
            )
            alive[function[instance]] -= 1
        active = fleet.totals[0]
        after[event, 0] = active
        if active:
            after[event, 1] = 1 - fleet.totals[1] / active
            after[event, 2] = 1 - fleet.totals[2] / active / rules.memory_gb
    return after, -1
