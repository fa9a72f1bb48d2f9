"""The quota tree of Kueue: who may use how much of what, and who borrows.

Nodes are queues, numbered first, and cohorts. A pair of flavor and resource is one number, ``fr``,
equal to flavor x resources + resource. Amounts are whole numbers. Usage of a cohort is what its
children use beyond what they keep for themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.jit import borrowing_helper

NO_LIMIT = 1 << 60


class QuotaTree(NamedTuple):
    """Quotas and usage by (node, fr), and the shape of the tree.

    Attributes:
        parent: node above; -1 for a root. ``root`` is the root of each node, ``depth`` its depth.
        height: 1 for a cohort with children, and 1 more than its highest child cohort; 0 a queue.
        weight: of fair sharing.
        subtree: quota of a node and what lies below it; of a queue, its nominal quota.
        local: part of it that is not lent. ``limit``: most that it may borrow.
        potential: most that could ever be used there.
        lendable: what all flavors of a resource could give below a node; (node, resource).
        usage: what is used now; changes.
        queue_first, queue: ``queue[queue_first[r]:queue_first[r + 1]]`` are the queues of root
            ``r``. ``child_first``, ``child`` are the children of each node, cohorts first;
            ``cohort_first``, ``cohort`` are the cohorts of each root, the deepest first.
    """

    parent: Any
    root: Any
    depth: Any
    height: Any
    weight: Any
    subtree: Any
    local: Any
    limit: Any
    potential: Any
    lendable: Any
    usage: Any
    queue_first: Any
    queue: Any
    child_first: Any
    child: Any
    cohort_first: Any
    cohort: Any


@borrowing_helper
def local_free(tree: Any, node: int, fr: int) -> int:
    """Return what is left of the part that a node does not lend."""
    return max(0, tree.local[node, fr] - tree.usage[node, fr])  # type: ignore[no-any-return]


@borrowing_helper
def available(tree: Any, node: int, fr: int) -> int:
    """Return how much more a node may use, below 0 where too much is used already."""
    kept = 0
    least = NO_LIMIT
    while tree.parent[node] >= 0:
        local, usage = tree.local[node, fr], tree.usage[node, fr]
        kept += max(0, local - usage)
        if tree.limit[node, fr] < NO_LIMIT:
            lent = tree.subtree[node, fr] - local - max(0, usage - local)
            least = min(least, kept + lent + tree.limit[node, fr])
        node = tree.parent[node]
    return min(least, kept + tree.subtree[node, fr] - tree.usage[node, fr])  # type: ignore[no-any-return]


@borrowing_helper
def use(tree: Any, node: int, fr: int, amount: int) -> None:
    """Add usage to a node, and what goes beyond its own part to those above."""
    while amount > 0:
        free = local_free(tree, node, fr)
        tree.usage[node, fr] += amount
        amount -= free
        node = tree.parent[node]
        if node < 0:
            break


@borrowing_helper
def release(tree: Any, node: int, fr: int, amount: int) -> None:
    """Take usage from a node and from those above."""
    while amount > 0:
        above = tree.usage[node, fr] - tree.local[node, fr]
        tree.usage[node, fr] -= amount
        amount = min(amount, above)
        node = tree.parent[node]
        if node < 0:
            break


@borrowing_helper
def is_over(tree: Any, node: int, fr: int, more: int) -> bool:
    """Return whether a node would borrow with this much more."""
    return tree.usage[node, fr] + more > tree.subtree[node, fr]  # type: ignore[no-any-return]


@borrowing_helper
def borrowing_height(tree: Any, queue: int, fr: int, amount: int) -> tuple[int, bool]:
    """Return the height from which a queue would borrow, and whether that lies below the root."""
    if tree.parent[queue] < 0 or not is_over(tree, queue, fr, amount):
        return 0, tree.parent[queue] >= 0
    rest = amount - local_free(tree, queue, fr)
    node = tree.parent[queue]
    while True:
        if not is_over(tree, node, fr, rest):
            return tree.height[node], tree.parent[node] >= 0
        if tree.parent[node] < 0:
            return tree.height[node], False
        rest -= local_free(tree, node, fr)
        node = tree.parent[node]


@borrowing_helper
def borrows(tree: Any, node: int) -> bool:
    """Return whether a node uses more than its quota of anything."""
    for fr in range(tree.usage.shape[1]):
        if tree.usage[node, fr] > tree.subtree[node, fr]:
            return True
    return False


@borrowing_helper
def dominant_share(tree: Any, node: int) -> tuple[float, int]:
    """Return the largest part of the lendable amounts that a node borrows, per mille, and of what.

    The resource is -1 where nothing is borrowed.
    """
    parent = tree.parent[node]
    ratio, dominant = 0.0, -1
    if parent < 0:
        return ratio, dominant
    resources, pairs = tree.lendable.shape[1], tree.usage.shape[1]
    for resource in range(resources):
        lendable = tree.lendable[parent, resource]
        over = 0
        for fr in range(resource, pairs, resources):
            over += max(0, tree.usage[node, fr] - tree.subtree[node, fr])
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
