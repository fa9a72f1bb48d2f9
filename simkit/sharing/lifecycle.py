"""The life of an instance in a co-scaling run: launch, requests handed out, drain and end."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.sharing.fleet import TRAINING
from gpuplan.simkit.sharing.place import choose, mark_affine
from gpuplan.simkit.sharing.replay import add_instance, remove_instance
from gpuplan.simkit.sharing.state import ABSENT, PERIOD_S, READY, STARTING


@kernel
def wake_gpus(one: int, period: int, held: Any, gpus: Any) -> None:
    """Let the GPUs of an instance issue tokens in a period, at the latest."""
    for part in range(held.parts[one]):
        gpu = held.gpus[one, part]
        gpus.wake[gpu] = min(gpus.wake[gpu], period)


@kernel
def launch(
    one: int,
    period: int,
    ready: int,
    functions: Any,
    instances: Any,
    gpus: Any,
    fleet: Any,
    held: Any,
    rules: Any,
    into: Any,
    parts_gb: Any,
) -> bool:
    """Place an instance and let it start; return whether it fits."""
    function = instances.function[one]
    affine = np.zeros(0, np.bool_)
    if rules.affinity and functions.kind[function] != TRAINING:
        affine = mark_affine(fleet, function, functions.kind, instances.function, held)
    parts = choose(
        fleet,
        functions.kind[function],
        functions.gpus[function],
        functions.charged_request[function],
        functions.charged_limit[function],
        functions.memory[function],
        rules,
        affine,
        into,
        parts_gb,
    )
    if parts == 0:
        return False
    request, limit = functions.charged_request[function], functions.charged_limit[function]
    add_instance(fleet, held, one, parts, request, limit, into, parts_gb)
    instances.status[one] = STARTING
    instances.ready[one] = ready
    instances.launched_s[one] = period * PERIOD_S
    for part in range(parts):
        gpu = held.gpus[one, part]
        if gpus.count[gpu] == 0:
            gpus.state[gpu] = gpus.calm[gpu] = 0
        instances.quota[one, part] = functions.quota[function]
        at = gpus.count[gpu]
        while at and gpus.parts[gpu, at - 1, 0] > one:
            gpus.parts[gpu, at] = gpus.parts[gpu, at - 1]
            at -= 1
        gpus.parts[gpu, at, 0], gpus.parts[gpu, at, 1] = one, part
        gpus.count[gpu] += 1
    wake_gpus(one, period, held, gpus)
    return True


@kernel
def end_instance(
    one: int,
    period: int,
    functions: Any,
    instances: Any,
    gpus: Any,
    fleet: Any,
    held: Any,
) -> None:
    """Take an instance off its GPUs at the end of a period."""
    wake_gpus(one, period + 1, held, gpus)
    for part in range(held.parts[one]):
        gpu = held.gpus[one, part]
        count = gpus.count[gpu]
        at = 0
        while gpus.parts[gpu, at, 0] != one:
            at += 1
        gpus.parts[gpu, at : count - 1] = gpus.parts[gpu, at + 1 : count]
        gpus.count[gpu] -= 1
    function = instances.function[one]
    request, limit = functions.charged_request[function], functions.charged_limit[function]
    remove_instance(fleet, held, one, request, limit, False)
    instances.status[one] = ABSENT
    instances.removed_s[one] = period * PERIOD_S + PERIOD_S


@kernel
def append_request(request: int, one: int, following: Any, instances: Any) -> None:
    """Put a request at the end of the queue of an instance."""
    following[request] = -1
    if instances.head[one] < 0:
        instances.head[one] = request
    else:
        following[instances.tail[one]] = request
    instances.tail[one] = request


@kernel
def next_ready(function: int, turn: Any, functions: Any, instances: Any) -> int:
    """Return the ready instance whose turn it is, or -1; the turn advances first."""
    first, count = functions.first[function], functions.count[function]
    ready = 0
    for one in range(first, first + count):
        ready += instances.status[one] == READY and not instances.draining[one]
    if ready == 0:
        return -1
    turn[function] = (turn[function] + 1) % ready
    at = turn[function]
    for one in range(first, first + count):
        if instances.status[one] == READY and not instances.draining[one]:
            if at == 0:
                return one
            at -= 1
    return -1
