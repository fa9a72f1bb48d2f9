"""GPUs in nodes: a gang within one node, or in as few as can hold it.

A gang of g GPUs takes ``g // n`` nodes of n GPUs whole and the rest in the fullest node that still
can take it. Nodes with the same number of free GPUs are in a list, the last changed first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, helper

# Columns of the table of nodes; the rows behind the last node head the list of each free count.
FREE, NEXT, BEFORE, FREE_COPY = range(4)
# Columns of the table of leases: the GPUs that a job holds of one node.
NODE, GPUS, FOLLOWING = range(3)


class NodeTable(NamedTuple):
    """The nodes, how many of them have each number of free GPUs, and the leases."""

    nodes: Any
    having: Any
    leases: Any


@helper
def new_places(count: int, each: int) -> Any:
    """Return `NodeTable` of ``count`` nodes of ``each`` GPUs, all free."""
    nodes = np.zeros((count + each + 1, 4), np.int64)
    for free in range(each + 1):
        head = count + free
        nodes[head, NEXT] = nodes[head, BEFORE] = head
    for node in range(count - 1, -1, -1):
        link(nodes, count, node, each)
    having = np.zeros(each + 1, np.int64)
    having[each] = count
    most = count * each
    leases = np.zeros((most + 1, 3), np.int64)  # row 0 heads the chain of those not in use
    for lease in range(most):
        leases[lease, FOLLOWING] = lease + 1
    return NodeTable(nodes, having, leases)


@borrowing_helper
def link(nodes: Any, count: int, node: int, free: int) -> None:
    """Give a node this many free GPUs and put it at the front of their list."""
    head = count + free
    after = nodes[head, NEXT]
    nodes[node, FREE] = free
    nodes[node, NEXT], nodes[node, BEFORE] = after, head
    nodes[head, NEXT] = node
    nodes[after, BEFORE] = node


@borrowing_helper
def change(places: Any, node: int, gpus: int) -> None:
    """Add free GPUs to a node; fewer where ``gpus`` is negative."""
    nodes, having = places.nodes, places.having
    count = nodes.shape[0] - having.size
    before, after = nodes[node, BEFORE], nodes[node, NEXT]
    nodes[before, NEXT], nodes[after, BEFORE] = after, before
    having[nodes[node, FREE]] -= 1
    link(nodes, count, node, nodes[node, FREE] + gpus)
    having[nodes[node, FREE]] += 1


@borrowing_helper
def can_place(places: Any, width: int) -> bool:
    """Return whether a gang fits on the nodes."""
    having = places.having
    each = having.size - 1
    full_nodes, rest = width // each, width % each
    if having[each] < full_nodes:
        return False
    if rest == 0 or having[each] > full_nodes:
        return True
    for free in range(rest, each):
        if having[free]:
            return True
    return False


@borrowing_helper
def lease(places: Any, width: int) -> int:
    """Take the nodes of a gang, which finds them; return its first lease."""
    nodes, having, leases = places.nodes, places.having, places.leases
    each = having.size - 1
    count = nodes.shape[0] - having.size
    chain = 0
    while width:
        part = min(width, each)
        free = part
        while having[free] == 0:
            free += 1
        node = nodes[count + free, NEXT]
        change(places, node, -part)
        new = leases[0, FOLLOWING]
        leases[0, FOLLOWING] = leases[new, FOLLOWING]
        leases[new, NODE], leases[new, GPUS], leases[new, FOLLOWING] = node, part, chain
        chain = new
        width -= part
    return chain


@borrowing_helper
def give_back(places: Any, chain: int) -> None:
    """Free the nodes of a gang by its first lease."""
    leases = places.leases
    while chain:
        change(places, leases[chain, NODE], leases[chain, GPUS])
        following = leases[chain, FOLLOWING]
        leases[chain, FOLLOWING] = leases[0, FOLLOWING]
        leases[0, FOLLOWING] = chain
        chain = following


@borrowing_helper
def give_back_on_trial(places: Any, chain: int, sign: int) -> None:
    """Count a gang's GPUs as free (``sign`` 1), or as taken again (-1), without moving a node."""
    nodes, having, leases = places.nodes, places.having, places.leases
    while chain:
        node = leases[chain, NODE]
        having[nodes[node, FREE] + nodes[node, FREE_COPY]] -= 1
        nodes[node, FREE_COPY] += sign * leases[chain, GPUS]
        having[nodes[node, FREE] + nodes[node, FREE_COPY]] += 1
        chain = leases[chain, FOLLOWING]
