"""Jobs on GPU types at least loss against prices, by a search over the GPUs in use of each type.

A label is a number of GPUs in use of each type, with the least loss at which the jobs so far use
them. Of labels with the same GPUs the one of least loss stays; one whose loss can only exceed what
is allowed goes. What is found is therefore the best of all within that loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.jit import kernel

MOST_STATES = 2**62
MOST_LABELS = 400_000


def least_loss(
    loss: FloatArray,
    width: IntArray,
    gpus: IntArray,
    price: FloatArray,
    used: int,
    most: float,
) -> tuple[IntArray | None, bool]:
    """Return the choice of each job at least loss, and whether the search came to its end.

    Args:
        loss: of each job on each type and, last, waiting: >= 0, infinite where it cannot be; shape
            (m, T + 1).
        width: GPUs of each job; shape (m,).
        gpus: of each type, left for these jobs; shape (T,).
        price: loss of a GPU of each type that stays idle, >= 0; shape (T,).
        used: GPUs that the jobs use in total.
        most: loss allowed, of jobs and idle GPUs.

    Returns:
        The choice, T to wait; None where none is within the loss allowed, or the search was given
        up: the types have too many states, or the labels are more than `MOST_LABELS`.
    """
    sizes = [int(size) + 1 for size in gpus]
    strides = [1]
    for size in sizes:
        strides.append(strides[-1] * size)
    if strides[-1] > MOST_STATES:
        return None, False
    order = np.lexsort((-loss.max(axis=1, where=np.isfinite(loss), initial=0.0), -width))
    stride = np.array(strides[:-1], np.int64)
    choice, ended = _search(loss[order], width[order], gpus, stride, price, used, most, MOST_LABELS)
    if choice.size < width.size:
        return None, bool(ended)
    found = np.empty_like(choice)
    found[order] = choice
    return found, True


@kernel
def _search(
    loss: Any,
    width: Any,
    gpus: Any,
    stride: Any,
    price: Any,
    used: int,
    most: float,
    limit: int,
) -> Any:
    m, types = width.size, gpus.size
    # What the jobs from each one on can still use, of each type and in all.
    rest, rest_all = np.zeros((m + 1, types), np.int64), np.zeros(m + 1, np.int64)
    for j in range(m - 1, -1, -1):
        for i in range(types):
            rest[j, i] = rest[j + 1, i] + (width[j] if loss[j, i] <= most else 0)
        rest_all[j] = rest_all[j + 1] + width[j]
    # Labels of all jobs one after another: code, loss, parent, choice.
    size = 1024
    code, cost = np.zeros(size, np.int64), np.zeros(size, np.float64)
    total = np.zeros(size, np.int64)
    parent, option = np.zeros(size, np.int64), np.zeros(size, np.int8)
    first, last = 0, 1
    head = np.zeros(types + 1, np.int64)
    none = np.zeros(0, np.int64)
    for j in range(m):
        for i in range(types + 1):
            head[i] = first
        at = last
        while True:
            best, key = -1, np.int64(0)
            for i in range(types + 1):
                if not loss[j, i] <= most:
                    continue
                step = width[j] * stride[i] if i < types else 0
                while head[i] < last:  # labels that this choice cannot extend
                    h = head[i]
                    if cost[h] + loss[j, i] > most:
                        head[i] += 1
                    elif i < types and (
                        total[h] + width[j] > used
                        or (code[h] // stride[i]) % (gpus[i] + 1) + width[j] > gpus[i]
                    ):
                        head[i] += 1
                    else:
                        break
                if head[i] == last:
                    continue
                its = code[head[i]] + step
                if best < 0 or its < key:
                    best, key = i, its
                elif its == key and cost[head[i]] + loss[j, i] < cost[head[best]] + loss[j, best]:
                    best = i
            if best < 0:
                break
            h = head[best]
            value = cost[h] + loss[j, best]
            head[best] += 1
            if at > last and code[at - 1] == key:
                if value < cost[at - 1]:
                    cost[at - 1], parent[at - 1], option[at - 1] = value, h, best
                continue
            sum_used = total[h] + (width[j] if best < types else 0)
            if sum_used + rest_all[j + 1] < used:
                continue
            idle = 0.0
            for i in range(types):
                short = gpus[i] - (key // stride[i]) % (gpus[i] + 1) - rest[j + 1, i]
                if short > 0:
                    idle += price[i] * short
            if value + idle > most:
                continue
            if at == limit:
                return none, False
            if at == size:
                size *= 2
                code, cost = _longer(code), _longer(cost)
                total, parent, option = _longer(total), _longer(parent), _longer(option)
            code[at], cost[at], total[at], parent[at], option[at] = key, value, sum_used, h, best
            at += 1
        if at == last:
            return none, True
        first, last = last, at
    best, least = -1, np.inf
    for h in range(first, last):
        if total[h] != used:
            continue
        value = cost[h]
        for i in range(types):
            value += price[i] * (gpus[i] - (code[h] // stride[i]) % (gpus[i] + 1))
        if value <= most and value < least:
            best, least = h, value
    if best < 0:
        return none, True
    choice = np.zeros(m, np.int64)
    for j in range(m - 1, -1, -1):
        choice[j] = option[best]
        best = parent[best]
    return choice, True


@kernel
def _longer(values: Any) -> Any:
    more = np.zeros(2 * values.size, values.dtype)
    for at in range(values.size):
        more[at] = values[at]
    return more
