"""The quota tree of Kueue: who may use how much of what, and who borrows.

Nodes are queues, numbered first, and cohorts. A pair of flavor and resource is one number, ``fr``,
equal to flavor x resources + resource. Amounts are whole numbers. Usage of a cohort is what its
children use beyond what they keep for themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col

NO_LIMIT = 1 << 60


class QuotaTree(NamedTuple):
    """Quotas and usage by (node, fr), and the shape of the tree; columns in `columns`.

    Attributes:
        nodes: by node, with a last row for ends. Parent: the node above; -1 for a root. Root, depth
            of each node; height: 1 for a cohort with children, and 1 more than its highest child
            cohort; 0 a queue. First: where its members begin.
        members: by place: queues of each root; children of each node, cohorts first; cohorts of
            each root, the deepest first.
        weight: of fair sharing.
        quotas: by (node, fr). Subtree: quota of a node and what lies below it; of a queue, its
            nominal quota. Local: part of it that is not lent. Limit: most that it may borrow.
            Potential: most that could ever be used there. Usage: what is used now; changes.
        lendable: what all flavors of a resource could give below a node; (node, resource).
    """

    nodes: Any
    members: Any
    weight: Any
    quotas: Any
    lendable: Any


@borrowing_helper
def local_free(tree: Any, node: int, fr: int) -> int:
    """Return what is left of the part that a node does not lend."""
    return max(0, tree.quotas[node, fr, col.LOCAL] - tree.quotas[node, fr, col.USAGE])  # type: ignore[no-any-return]


@borrowing_helper
def available(tree: Any, node: int, fr: int) -> int:
    """Return how much more a node may use, below 0 where too much is used already."""
    kept = 0
    least = NO_LIMIT
    while tree.nodes[node, col.PARENT] >= 0:
        local, usage = tree.quotas[node, fr, col.LOCAL], tree.quotas[node, fr, col.USAGE]
        kept += max(0, local - usage)
        if tree.quotas[node, fr, col.LIMIT] < NO_LIMIT:
            lent = tree.quotas[node, fr, col.SUBTREE] - local - max(0, usage - local)
            least = min(least, kept + lent + tree.quotas[node, fr, col.LIMIT])
        node = tree.nodes[node, col.PARENT]
    return min(least, kept + tree.quotas[node, fr, col.SUBTREE] - tree.quotas[node, fr, col.USAGE])  # type: ignore[no-any-return]


@borrowing_helper
def use(tree: Any, node: int, fr: int, amount: int) -> None:
    """Add usage to a node, and what goes beyond its own part to those above."""
    while amount > 0:
        free = local_free(tree, node, fr)
        tree.quotas[node, fr, col.USAGE] += amount
        amount -= free
        node = tree.nodes[node, col.PARENT]
        if node < 0:
            break


@borrowing_helper
def release(tree: Any, node: int, fr: int, amount: int) -> None:
    """Take usage from a node and from those above."""
    while amount > 0:
        above = tree.quotas[node, fr, col.USAGE] - tree.quotas[node, fr, col.LOCAL]
        tree.quotas[node, fr, col.USAGE] -= amount
        amount = min(amount, above)
        node = tree.nodes[node, col.PARENT]
        if node < 0:
            break


@borrowing_helper
def is_over(tree: Any, node: int, fr: int, more: int) -> bool:
    """Return whether a node would borrow with this much more."""
    return tree.quotas[node, fr, col.USAGE] + more > tree.quotas[node, fr, col.SUBTREE]  # type: ignore[no-any-return]


@borrowing_helper
def borrowing_height(tree: Any, queue: int, fr: int, amount: int) -> tuple[int, bool]:
    """Return the height from which a queue would borrow, and whether that lies below the root."""
    if tree.nodes[queue, col.PARENT] < 0 or not is_over(tree, queue, fr, amount):
        return 0, tree.nodes[queue, col.PARENT] >= 0
    rest = amount - local_free(tree, queue, fr)
    node = tree.nodes[queue, col.PARENT]
    while True:
        if not is_over(tree, node, fr, rest):
            return tree.nodes[node, col.HEIGHT], tree.nodes[node, col.PARENT] >= 0
        if tree.nodes[node, col.PARENT] < 0:
            return tree.nodes[node, col.HEIGHT], False
        rest -= local_free(tree, node, fr)
        node = tree.nodes[node, col.PARENT]


@borrowing_helper
def borrows(tree: Any, node: int) -> bool:
    """Return whether a node uses more than its quota of anything."""
    for fr in range(tree.quotas.shape[1]):
        if tree.quotas[node, fr, col.USAGE] > tree.quotas[node, fr, col.SUBTREE]:
            return True
    return False


@borrowing_helper
def dominant_share(tree: Any, node: int) -> tuple[float, int]:
    """Return the largest part of the lendable amounts that a node borrows, per mille, and of what.

    The resource is -1 where nothing is borrowed.
    """
    parent = tree.nodes[node, col.PARENT]
    ratio, dominant = 0.0, -1
    if parent < 0:
        return ratio, dominant
    resources, pairs = tree.lendable.shape[1], tree.quotas.shape[1]
    for resource in range(resources):
        lendable = tree.lendable[parent, resource]
        over = 0
        for fr in range(resource, pairs, resources):
            over += max(0, tree.quotas[node, fr, col.USAGE] - tree.quotas[node, fr, col.SUBTREE])
        if over > 0 and lendable > 0 and 1000.0 * over / lendable > ratio:
            ratio, dominant = 1000.0 * over / lendable, resource
    return ratio, dominant


@borrowing_helper
def share(tree: Any, node: int) -> tuple[bool, float]:
    """Return the share of a node as (infinite, number), which compares as shares do."""
    ratio, _ = dominant_share(tree, node)
    if ratio == 0.0:
        return False, 0.0
    weight = tree.weight[node]
    if weight == 0.0:
        return True, ratio
    return False, ratio / weight
