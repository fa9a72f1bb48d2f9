"""Waiting tasks by kind and shape; what does not fit is tried again once something changes.

A bucket holds the tasks of one priority, pod size and number of pods, in the order of submission.
Buckets of HP tasks come first; within a priority the largest pods, then the largest gangs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.spot.pool import MILLI

NOBODY = 1 << 60


class Queue(NamedTuple):
    """All buckets, of which each has a heap of ranks.

    Attributes:
        hp, g, pods: of the tasks of each bucket; ``g`` in milli-GPU.
        size: place of ``g`` among the pods of whole cards.
        first: where each bucket's heap begins, shape (buckets + 1,).
        heap: the ranks.
        count: waiting tasks of each bucket.
        failed: the count of changes at which a task of the bucket last did not fit, or -1.
        skipped: whether the bucket is done with in this pass.
        waiting: HP and spot tasks that wait, shape (2,).
    """

    hp: Any
    g: Any
    pods: Any
    size: Any
    first: Any
    heap: Any
    count: Any
    failed: Any
    skipped: Any
    waiting: Any

    @classmethod
    def of(cls, hp: Any, g: Any, pods: Any, sizes: Any) -> tuple[Queue, Any]:
        """Return empty buckets for these tasks, and the bucket of each task."""
        # One number for each shape, in the order of the buckets: sorting rows takes long.
        most_g, most_pods = int(g.max()), int(pods.max())
        shapes = (~hp).astype(np.int64) * most_g + (most_g - g)
        shapes = shapes * most_pods + (most_pods - pods)
        shapes, bucket, count = np.unique(shapes, return_inverse=True, return_counts=True)
        shapes, fewer = np.divmod(shapes, most_pods)
        is_spot, less = np.divmod(shapes, most_g)
        first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        of_bucket = most_g - less
        queue = cls(
            hp=is_spot == 0,
            g=of_bucket,
            pods=most_pods - fewer,
            size=np.searchsorted(sizes, of_bucket // MILLI).astype(np.int64),
            first=first,
            heap=np.zeros(hp.size, np.int64),
            count=np.zeros(count.size, np.int64),
            failed=np.full(count.size, -1, np.int64),
            skipped=np.zeros(count.size, np.bool_),
            waiting=np.zeros(2, np.int64),
        )
        return queue, bucket.reshape(-1).astype(np.int64)


@borrowing_helper
def add(queue: Any, bucket: int, rank: int) -> None:
    """Let a task wait."""
    first, at = queue.first[bucket], queue.count[bucket]
    queue.count[bucket] += 1
    queue.waiting[0 if queue.hp[bucket] else 1] += 1
    while at > 0:
        up = (at - 1) >> 1
        if queue.heap[first + up] <= rank:
            break
        queue.heap[first + at] = queue.heap[first + up]
        at = up
    queue.heap[first + at] = rank


@borrowing_helper
def take(queue: Any, bucket: int) -> None:
    """Remove the first task of a bucket."""
    first = queue.first[bucket]
    size = queue.count[bucket] - 1
    queue.count[bucket] = size
    queue.waiting[0 if queue.hp[bucket] else 1] -= 1
    rank = queue.heap[first + size]
    at, down = 0, 1
    while down < size:
        if down + 1 < size and queue.heap[first + down + 1] < queue.heap[first + down]:
            down += 1
        if rank <= queue.heap[first + down]:
            break
        queue.heap[first + at] = queue.heap[first + down]
        at, down = down, 2 * down + 1
    queue.heap[first + at] = rank


@borrowing_helper
def next_bucket(queue: Any, hp: bool, largest_first: bool) -> int:
    """Return the bucket whose first task is next, or -1."""
    best, least = -1, NOBODY
    for bucket in range(queue.count.size):
        if queue.hp[bucket] != hp or queue.count[bucket] == 0 or queue.skipped[bucket]:
            continue
        if largest_first:
            return bucket
        rank = queue.heap[queue.first[bucket]]
        if rank < least:
            best, least = bucket, rank
    return best


@borrowing_helper
def skip_larger(queue: Any, failed: int, everything: bool) -> None:
    """Skip what cannot fit for the rest of the pass, as one task of a bucket did not.

    That is every bucket of the same priority whose pods are as large and as many, shares of a card
    apart from whole cards; or ``everything`` of the priority.
    """
    for bucket in range(queue.count.size):
        if queue.hp[bucket] == queue.hp[failed] and (
            everything
            or (
                queue.g[bucket] >= queue.g[failed]
                and queue.pods[bucket] >= queue.pods[failed]
                and (queue.g[bucket] >= MILLI) == (queue.g[failed] >= MILLI)
            )
        ):
            queue.skipped[bucket] = True
