"""The GPUs that instances share: what each has given away, and which are active or free.

A GPU is in one of two linked lists: active GPUs in the order in which they became active, free GPUs
in the order in which they became free. Ids of GPUs ascend with their nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper

INFERENCE, LLM, TRAINING = range(3)  # kinds of instances
BEST_FIT, BEST_FIT_SM, WHOLE_GPUS = range(3)  # how an instance finds its GPU
NEXT, BEFORE = range(2)  # rows of the links
ACTIVE_LIST, FREE_LIST = range(2)  # the last two columns of the links are the heads of the lists
REQUESTS, LIMITS, MEMORY = range(3)  # rows of the charges


class PlacementRules(NamedTuple):
    """How instances are placed.

    ``method`` is `BEST_FIT`, `BEST_FIT_SM` or `WHOLE_GPUS`; ``omega`` and ``gamma`` bound the
    requests and the limits on a GPU, in GPUs; ``sm_weight`` and ``memory_weight`` weigh the score;
    ``memory_gb`` is the memory of a GPU; ``split`` lets an LLM go to several GPUs of a node;
    ``affinity`` prefers GPUs by the instances of the same function; ``slack`` is the tolerance of
    the bounds; ``reference`` breaks ties as the authors' simulation does.
    """

    method: int
    omega: float
    gamma: float
    sm_weight: float
    memory_weight: float
    memory_gb: float
    split: bool
    affinity: bool
    slack: float
    reference: bool


class Fleet(NamedTuple):
    """The state of G GPUs in nodes of ``node_gpus``.

    ``charged`` (3, G) are the sums of requests, limits and memory; ``instances`` (G,) counts what
    runs there; ``links`` (2, G + 2) hold the two lists; ``turns`` (G + 1,) are the turns in which
    GPUs last became active or free, 0 for never, and the number of turns so far; ``marks`` (G + 1,)
    are marks on GPUs, and the last mark used; ``totals`` (3,) are the active GPUs, and the sums of
    requests and memory on them; ``node_gpus`` is the size of a node.
    """

    charged: Any
    instances: Any
    links: Any
    turns: Any
    marks: Any
    totals: Any
    node_gpus: int


def new_fleet(nodes: int, node_gpus: int) -> Fleet:
    """Return GPUs that are all free, in the order of their ids."""
    gpus = nodes * node_gpus
    links = np.empty((2, gpus + 2), np.int64)
    active, free = gpus + ACTIVE_LIST, gpus + FREE_LIST
    links[NEXT, :gpus] = np.arange(1, gpus + 1)
    links[BEFORE, :gpus] = np.arange(-1, gpus - 1)
    links[:, active] = active
    links[NEXT, gpus - 1] = free
    links[BEFORE, 0] = free
    links[NEXT, free], links[BEFORE, free] = 0, gpus - 1
    charged, instances = np.zeros((3, gpus)), np.zeros(gpus, np.int64)
    turns, marks = np.zeros(gpus + 1, np.int64), np.zeros(gpus + 1, np.int64)
    return Fleet(charged, instances, links, turns, marks, np.zeros(3), node_gpus)


@borrowing_helper
def move_to_end(fleet: Any, gpu: int, among: int) -> None:
    """Take a GPU out of its list, and append it to the other, `ACTIVE_LIST` or `FREE_LIST`."""
    links, turns, head = fleet.links, fleet.turns, fleet.instances.size + among
    turns[-1] += 1
    turns[gpu] = turns[-1]
    before, after = links[BEFORE, gpu], links[NEXT, gpu]
    links[NEXT, before] = after
    links[BEFORE, after] = before
    last = links[BEFORE, head]
    links[NEXT, last] = links[BEFORE, head] = gpu
    links[BEFORE, gpu], links[NEXT, gpu] = last, head


@borrowing_helper
def charge(fleet: Any, gpu: int, request: float, limit: float, memory: float) -> None:
    """Give a part of a GPU to an instance."""
    charged, totals = fleet.charged, fleet.totals
    if fleet.instances[gpu] == 0:
        move_to_end(fleet, gpu, ACTIVE_LIST)
        totals[0] += 1
        totals[1] += charged[REQUESTS, gpu]
        totals[2] += charged[MEMORY, gpu]
    fleet.instances[gpu] += 1
    charged[REQUESTS, gpu] += request
    charged[LIMITS, gpu] += limit
    charged[MEMORY, gpu] += memory
    totals[1] += request
    totals[2] += memory


@borrowing_helper
def release(
    fleet: Any, gpu: int, request: float, limit: float, memory: float, reference: bool
) -> None:
    """Take a part of a GPU back; one that is free again has no charges left.

    With ``reference`` what rounding and unequal charges leave stays on the GPU.
    """
    charged, totals = fleet.charged, fleet.totals
    fleet.instances[gpu] -= 1
    charged[REQUESTS, gpu] -= request
    charged[LIMITS, gpu] -= limit
    charged[MEMORY, gpu] -= memory
    totals[1] -= request
    totals[2] -= memory
    if fleet.instances[gpu] == 0:
        move_to_end(fleet, gpu, FREE_LIST)
        totals[0] -= 1
        totals[1] -= charged[REQUESTS, gpu]
        totals[2] -= charged[MEMORY, gpu]
        if not reference:
            charged[REQUESTS, gpu] = charged[LIMITS, gpu] = charged[MEMORY, gpu] = 0.0
        if totals[0] == 0:
            totals[1] = totals[2] = 0.0
