"""Where an instance goes: Algorithm 1 of Dilu and its baselines, one decision at a time.

Source: Lv et al., "Dilu", ASPLOS 2025, Algorithm 1. An instance goes to the active GPU that it
fills best; a training gang to GPUs of one node; an LLM that fits no active GPU is split over active
GPUs of one node. An instance that fits nowhere gets a free GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.sharing.fleet import (
    ACTIVE_LIST,
    BEST_FIT,
    FREE_LIST,
    LIMITS,
    LLM,
    MEMORY,
    NEXT,
    REQUESTS,
    TRAINING,
    WHOLE_GPUS,
)

NOWHERE = -1


class HeldGpus(NamedTuple):
    """The GPUs that each of n instances holds, and which instances live.

    ``kind`` (n,) and ``function`` (n,) say what an instance is. ``gpus`` (n, P) and ``memory``
    (n, P) are its parts, of which ``parts`` (n,) are in use; 0 parts: it is not placed. ``live``
    (n + 1,) lists placed instances, its first entry is their number; ``place`` (n,) is where an
    instance stands in it.
    """

    kind: Any
    function: Any
    gpus: Any
    memory: Any
    parts: Any
    live: Any
    place: Any


def new_held(kind: IntArray, function: IntArray, parts: int) -> HeldGpus:
    """Return instances that hold nothing, of up to ``parts`` parts each."""
    instances = kind.size
    return HeldGpus(
        kind,
        function,
        np.zeros((instances, parts), np.int64),
        np.zeros((instances, parts)),
        np.zeros(instances, np.int64),
        np.zeros(instances + 1, np.int64),
        np.zeros(instances, np.int64),
    )


@borrowing_helper
def fits(fleet: Any, gpu: int, request: float, limit: float, memory: float, rules: Any) -> bool:
    """Return whether a GPU has room for a part."""
    charged = fleet.charged
    return bool(
        charged[REQUESTS, gpu] + request <= rules.omega + rules.slack
        and charged[LIMITS, gpu] + limit <= rules.gamma + rules.slack
        and charged[MEMORY, gpu] + memory <= rules.memory_gb + rules.slack
    )


@borrowing_helper
def score(fleet: Any, gpu: int, request: float, memory: float, rules: Any) -> float:
    """Return the weighted free shares of SMs and memory that a GPU would keep."""
    charged = fleet.charged
    sm = 1 - (charged[REQUESTS, gpu] + request)
    if rules.memory_weight == 0.0:
        return float(rules.sm_weight * sm)
    free = 1 - (charged[MEMORY, gpu] + memory) / rules.memory_gb
    return float(rules.sm_weight * sm + rules.memory_weight * free)


@borrowing_helper
def best_gpu(
    fleet: Any,
    among: int,
    request: float,
    limit: float,
    memory: float,
    rules: Any,
    by_age: bool,
    only: int,
) -> int:
    """Return the GPU with the least score of a list, or -1; ties go to the first.

    Scores within ``rules.slack`` tie. GPUs of ``among``, `ACTIVE_LIST` or `FREE_LIST`, come in
    its order or else by their ids; ``only`` is the mark of the GPUs to look at, 0 for all.
    """
    best, least = NOWHERE, np.inf
    links = fleet.links
    head = fleet.instances.size + among
    gpu = links[NEXT, head]
    while gpu != head:
        if (only == 0 or fleet.marks[gpu] == only) and fits(
            fleet, gpu, request, limit, memory, rules
        ):
            its_score = score(fleet, gpu, request, memory, rules)
            if its_score < least - rules.slack or (
                its_score <= least + rules.slack and not by_age and gpu < best
            ):
                best, least = gpu, its_score
        gpu = links[NEXT, gpu]
    return best


@borrowing_helper
def free_gpu(fleet: Any, reference: bool) -> int:
    """Return the free GPU with the least id, or the one free for longest; -1 for none."""
    gpus = fleet.instances.size
    if reference:
        gpu = fleet.links[NEXT, gpus + FREE_LIST]
        return gpu if gpu < gpus else NOWHERE
    for gpu in range(gpus):
        if fleet.instances[gpu] == 0:
            return gpu
    return NOWHERE


@borrowing_helper
def fits_worker(
    fleet: Any, gpu: int, request: float, limit: float, memory: float, rules: Any
) -> bool:
    """Return whether a GPU has room for a worker of a gang.

    With ``rules.reference`` best fit takes a free GPU whatever charges were left there.
    """
    if rules.reference and rules.method == BEST_FIT and fleet.instances[gpu] == 0:
        return True
    return bool(fits(fleet, gpu, request, limit, memory, rules))


@borrowing_helper
def node_of_gang(
    fleet: Any, n: int, request: float, limit: float, memory: float, rules: Any, with_free: bool
) -> int:
    """Return the first node with n GPUs for the workers of a gang, or -1.

    ``with_free``: count free GPUs too. The first node is that with the least id; among nodes of
    active GPUs, with ``rules.reference``, that whose GPU with room became active first.
    """
    size, gpus = fleet.node_gpus, fleet.instances.size
    head = gpus + ACTIVE_LIST
    by_age = rules.reference and not with_free
    gpu = fleet.links[NEXT, head] if by_age else 0
    while gpu < gpus:
        node = gpu // size
        if not by_age or fits(fleet, gpu, request, limit, memory, rules):
            fitting = 0
            for other in range(node * size, node * size + size):
                active = fleet.instances[other] > 0
                if (active or with_free) and fits_worker(
                    fleet, other, request, limit, memory, rules
                ):
                    fitting += 1
            if fitting >= n:
                return int(node)
        gpu = fleet.links[NEXT, gpu] if by_age else gpu + size
    return NOWHERE


@borrowing_helper
def place_gang(
    fleet: Any,
    n: int,
    request: float,
    limit: float,
    memory: float,
    rules: Any,
    into: Any,
    parts_gb: Any,
) -> int:
    """Choose n GPUs of one node, active ones first, and return n; 0 where no node has them.

    They come by their ids, with ``rules.reference`` in the order of their lists.
    """
    size = fleet.node_gpus
    node = node_of_gang(fleet, n, request, limit, memory, rules, False)
    if node == NOWHERE:
        node = node_of_gang(fleet, n, request, limit, memory, rules, True)
        if node == NOWHERE:
            return 0
    chosen = 0
    for active in (True, False):
        first = chosen
        for gpu in range(node * size, node * size + size):
            if (fleet.instances[gpu] > 0) != active:
                continue
            if fits_worker(fleet, gpu, request, limit, memory, rules):
                into[chosen], parts_gb[chosen] = gpu, memory
                chosen += 1
        if rules.reference:
            sort_by_turn(fleet, into, parts_gb, first, chosen)
    return n


@borrowing_helper
def sort_by_turn(fleet: Any, gpus: Any, memory: Any, first: int, end: int) -> None:
    """Sort GPUs, and memory with them, by the turn in which they became active or free."""
    for i in range(first + 1, end):
        gpu, part = gpus[i], memory[i]
        j = i
        while j > first and fleet.turns[gpus[j - 1]] > fleet.turns[gpu]:
            gpus[j], memory[j] = gpus[j - 1], memory[j - 1]
            j -= 1
        gpus[j], memory[j] = gpu, part


@borrowing_helper
def split_in_node(
    fleet: Any,
    node: int,
    request: float,
    limit: float,
    memory: float,
    rules: Any,
    with_free: bool,
    into: Any,
    parts_gb: Any,
) -> int:
    """Split an LLM over GPUs of a node, and return the number of parts; 0 where it does not fit.

    The GPU with the most free memory comes first, ties by id. With ``rules.reference`` it is the
    one with the least, ties by the time it became active, even where it has no memory left; the
    parts then come by that time, the order in which the GPUs become free again.
    """
    size = fleet.node_gpus
    fitting = 0
    for gpu in range(node * size, node * size + size):
        active = fleet.instances[gpu] > 0
        if (
            (active or with_free)
            and fits(fleet, gpu, request, limit, 0.0, rules)
            and (rules.reference or rules.memory_gb - fleet.charged[MEMORY, gpu] > rules.slack)
        ):
            into[fitting] = gpu
            fitting += 1
    if rules.reference:
        sort_by_turn(fleet, into, parts_gb, 0, fitting)
    for i in range(1, fitting):  # by used memory; insertion keeps ties in order
        gpu = into[i]
        used = fleet.charged[MEMORY, gpu]
        j = i
        while j and (
            (fleet.charged[MEMORY, into[j - 1]] < used)
            if rules.reference
            else (fleet.charged[MEMORY, into[j - 1]] > used + rules.slack)
        ):
            into[j] = into[j - 1]
            j -= 1
        into[j] = gpu
    left = memory
    for i in range(fitting):
        part = min(left, rules.memory_gb - fleet.charged[MEMORY, into[i]])
        parts_gb[i] = part
        left -= part
        if left <= (0.0 if rules.reference else rules.slack):
            if rules.reference:
                sort_by_turn(fleet, into, parts_gb, 0, i + 1)
            return i + 1
    return 0


@borrowing_helper
def split(
    fleet: Any,
    request: float,
    limit: float,
    memory: float,
    rules: Any,
    with_free: bool,
    into: Any,
    parts_gb: Any,
) -> int:
    """Split an LLM over the GPUs of the first node that can hold it; return the parts or 0."""
    size, gpus = fleet.node_gpus, fleet.instances.size
    if rules.reference:
        head = gpus + ACTIVE_LIST
        gpu = fleet.links[NEXT, head]
        while gpu != head:
            if fits(fleet, gpu, request, limit, 0.0, rules):
                parts = split_in_node(
                    fleet, gpu // size, request, limit, memory, rules, False, into, parts_gb
                )
                if parts:
                    return parts
            gpu = fleet.links[NEXT, gpu]
        return 0
    for node in range(gpus // size):
        parts = split_in_node(fleet, node, request, limit, memory, rules, with_free, into, parts_gb)
        if parts:
            return parts
    return 0


@borrowing_helper
def mark_affine(fleet: Any, function: int, held: Any) -> int:
    """Mark the GPUs with high affinity to a function; return the mark, 0 where there are none.

    These are the GPUs of the other workers of a gang that has an instance of the function beside
    one worker: the workers of the gang then all lose alike.
    """
    live, kind, functions, marks = held.live, held.kind, held.function, fleet.marks
    marks[-1] += 1
    mark, any_mark = marks[-1], 0
    for a in range(1, live[0] + 1):
        same = live[a]
        if functions[same] != function or kind[same] == TRAINING:
            continue
        for b in range(1, live[0] + 1):
            gang = live[b]
            if kind[gang] != TRAINING or held.parts[gang] < 2:
                continue
            for part in range(held.parts[same]):
                for worker in range(held.parts[gang]):
                    if held.gpus[gang, worker] == held.gpus[same, part]:
                        for other in range(held.parts[gang]):
                            if other != worker:
                                marks[held.gpus[gang, other]] = any_mark = mark
    return int(any_mark)


@borrowing_helper
def choose(
    fleet: Any,
    kind: int,
    n: int,
    request: float,
    limit: float,
    memory: float,
    rules: Any,
    affine: int,
    into: Any,
    parts_gb: Any,
) -> int:
    """Choose the GPUs of an instance.

    Args:
        fleet: the GPUs; nothing is charged here.
        kind: `INFERENCE`, `LLM` or `TRAINING`.
        n: GPUs of it, each with ``request``, ``limit`` and ``memory``; one for inference.
        affine: mark of the GPUs to look at first, 0 for none.
        into: gets the GPUs; as long as a node, at least.
        parts_gb: gets the memory of each part.

    Returns:
        the number of parts; 0 where the instance does not fit.
    """
    for part in range(n):
        parts_gb[part] = memory
    if rules.method == WHOLE_GPUS:
        if memory > rules.memory_gb + rules.slack or fleet.totals[0] + n > fleet.instances.size:
            return 0
        gpus = fleet.instances.size
        gpu = fleet.links[NEXT, gpus + FREE_LIST] if rules.reference else 0
        chosen = 0
        while chosen < n:
            if fleet.instances[gpu] == 0:
                into[chosen] = gpu
                chosen += 1
            gpu = fleet.links[NEXT, gpu] if rules.reference else gpu + 1
        return n
    if kind == TRAINING or n > 1:
        return place_gang(fleet, n, request, limit, memory, rules, into, parts_gb)
    gpu = NOWHERE
    if affine:
        gpu = best_gpu(fleet, ACTIVE_LIST, request, limit, memory, rules, False, affine)
    if gpu == NOWHERE:
        by_age = rules.reference and kind == LLM and rules.split
        gpu = best_gpu(fleet, ACTIVE_LIST, request, limit, memory, rules, by_age, 0)
    if gpu == NOWHERE and kind == LLM and rules.split:
        parts = split(fleet, request, limit, memory, rules, False, into, parts_gb)
        if parts:
            return parts
        if memory > rules.memory_gb + rules.slack:
            return split(fleet, request, limit, memory, rules, True, into, parts_gb)
    if gpu == NOWHERE and memory <= rules.memory_gb + rules.slack:
        if rules.reference and rules.method == BEST_FIT and kind != LLM:
            gpu = best_gpu(fleet, FREE_LIST, request, limit, memory, rules, True, 0)
        else:
            gpu = free_gpu(fleet, rules.reference)
        if gpu != NOWHERE and not rules.reference:
            if not fits(fleet, gpu, request, limit, memory, rules):
                gpu = NOWHERE
    if gpu == NOWHERE:
        return 0
    into[0], parts_gb[0] = gpu, memory
    return 1
