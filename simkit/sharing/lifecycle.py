"""The life of an instance in a co-scaling run: launch, requests handed out, drain and end."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.sharing.fleet import TRAINING
from gpuplan.simkit.sharing.place import choose, mark_affine
from gpuplan.simkit.sharing.replay import add_instance, remove_instance
from gpuplan.simkit.sharing.state import (
    ABSENT,
    CHARGED_LIMIT,
    CHARGED_REQUEST,
    DRAINING,
    FUNCTION,
    HEAD,
    KIND,
    LAUNCHED_S,
    MEMORY_GB,
    PERIOD_S,
    QUOTA,
    READY,
    READY_AT,
    REMOVED_S,
    STARTING,
    STATUS,
    TAIL,
    WORKERS,
)


class Room(NamedTuple):
    """Where instances go.

    ``fleet`` are the GPUs, ``held`` what instances hold of them, ``rules`` how they are placed (see
    `PlacementRules`); ``into`` and ``parts_gb`` are buffers for the GPUs chosen and the memory on
    each.
    """

    fleet: Any
    held: Any
    rules: Any
    into: Any
    parts_gb: Any


@borrowing_helper
def wake_gpus(instance: int, period: int, parts: Any, held: Any, wakes: Any) -> None:
    """Let the GPUs of an instance issue tokens in a period, at the latest."""
    for part in range(parts[instance]):
        gpu = held[instance, part]
        wakes[gpu] = min(wakes[gpu], period)


@borrowing_helper
def launch(
    instance: int,
    period: int,
    ready: int,
    functions: Any,
    instances: Any,
    gpus: Any,
    room: Any,
) -> bool:
    """Place an instance and let it start; return whether it fits."""
    fleet, held, rules, into, parts_gb = room
    function = instances.numbers[instance, FUNCTION]
    affine = 0
    if rules.affinity and functions.numbers[function, KIND] != TRAINING:
        affine = mark_affine(fleet, function, held)
    parts = choose(
        fleet,
        functions.numbers[function, KIND],
        functions.numbers[function, WORKERS],
        functions.values[function, CHARGED_REQUEST],
        functions.values[function, CHARGED_LIMIT],
        functions.values[function, MEMORY_GB],
        rules,
        affine,
        into,
        parts_gb,
    )
    if parts == 0:
        return False
    request, limit = (
        functions.values[function, CHARGED_REQUEST],
        functions.values[function, CHARGED_LIMIT],
    )
    add_instance(fleet, held, instance, parts, request, limit, into, parts_gb)
    instances.numbers[instance, STATUS] = STARTING
    instances.numbers[instance, READY_AT] = ready
    instances.values[instance, LAUNCHED_S] = period * PERIOD_S
    for part in range(parts):
        gpu = held.gpus[instance, part]
        if gpus.count[gpu] == 0:
            gpus.state[gpu] = 0
        instances.quota[instance, part] = functions.values[function, QUOTA]
        at = gpus.count[gpu]
        while at and gpus.parts[gpu, at - 1, 0] > instance:
            gpus.parts[gpu, at, 0] = gpus.parts[gpu, at - 1, 0]
            gpus.parts[gpu, at, 1] = gpus.parts[gpu, at - 1, 1]
            at -= 1
        gpus.parts[gpu, at, 0], gpus.parts[gpu, at, 1] = instance, part
        gpus.count[gpu] += 1
    wake_gpus(instance, period, held.parts, held.gpus, gpus.wake)
    return True


@borrowing_helper
def end_instance(
    instance: int,
    period: int,
    functions: Any,
    instances: Any,
    gpus: Any,
    fleet: Any,
    held: Any,
) -> None:
    """Take an instance off its GPUs at the end of a period."""
    wake_gpus(instance, period + 1, held.parts, held.gpus, gpus.wake)
    for part in range(held.parts[instance]):
        gpu = held.gpus[instance, part]
        count = gpus.count[gpu]
        at = 0
        while gpus.parts[gpu, at, 0] != instance:
            at += 1
        for later in range(at + 1, count):
            gpus.parts[gpu, later - 1, 0] = gpus.parts[gpu, later, 0]
            gpus.parts[gpu, later - 1, 1] = gpus.parts[gpu, later, 1]
        gpus.count[gpu] -= 1
    function = instances.numbers[instance, FUNCTION]
    request, limit = (
        functions.values[function, CHARGED_REQUEST],
        functions.values[function, CHARGED_LIMIT],
    )
    remove_instance(fleet, held, instance, request, limit, False)
    instances.numbers[instance, STATUS] = ABSENT
    instances.values[instance, REMOVED_S] = period * PERIOD_S + PERIOD_S


@borrowing_helper
def append_request(request: int, instance: int, following: Any, numbers: Any) -> None:
    """Put a request at the end of the queue of an instance."""
    following[request] = -1
    if numbers[instance, HEAD] < 0:
        numbers[instance, HEAD] = request
    else:
        following[numbers[instance, TAIL]] = request
    numbers[instance, TAIL] = request


@borrowing_helper
def next_ready(function: int, first: int, count: int, turn: Any, numbers: Any) -> int:
    """Return the ready instance whose turn it is, or -1; the turn advances first."""
    ready = 0
    for instance in range(first, first + count):
        ready += numbers[instance, STATUS] == READY and not numbers[instance, DRAINING]
    if ready == 0:
        return -1
    turn[function] = (turn[function] + 1) % ready
    at = turn[function]
    for instance in range(first, first + count):
        if numbers[instance, STATUS] == READY and not numbers[instance, DRAINING]:
            if at == 0:
                return instance
            at -= 1
    return -1
