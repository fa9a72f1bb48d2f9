"""Jobs on GPU types at least loss against prices: wide gangs by a search, narrow ones by a flow.

A label of the search is a number of GPUs in use of each type, with the least loss at which the wide
gangs so far use them. Of labels with the same GPUs the one of least loss stays; one goes whose loss
must exceed what is allowed, as one of several sets of prices tells. The narrow gangs, all of
one width, then fill what is left of each type: a flow at least cost. What is found is therefore the
best of all within the loss allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.jit import helper, kernel
from gpuplan.simkit.rounds.transport import transport

MOST_STATES = 2**62
MOST_CUTS = 100
FEW_TYPES = 4
STEPS = (2, 6)
"""GPUs by which each set of prices differs from what the relaxation gives the narrow gangs."""


def least_loss(
    loss: FloatArray,
    width: IntArray,
    gpus: IntArray,
    price: FloatArray,
    used: int,
    most: float,
    most_labels: int,
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
        most_labels: of the search, over all wide gangs.

    Returns:
        The choice, T to wait; None where none is within the loss allowed, or the search was given
        up: the types have too many states, or the labels are too many.
    """
    each = int(np.gcd.reduce(width)) if width.size else 1
    all_gpus = int(gpus.sum())
    if used % each or not 0 <= used <= min(all_gpus, int(width.sum())):
        return None, True
    most -= float(price @ (gpus % each))
    gpus, width, used, price = gpus // each, width // each, used // each, price * each
    idle = int(gpus.sum()) - used
    if idle < 0:
        return None, True
    strides = np.cumprod([1.0, *(gpus + 1.0)])
    if strides[-1] > MOST_STATES:
        return None, False
    order = np.lexsort((-loss.max(axis=1, where=np.isfinite(loss), initial=0.0), -width))
    wide = int((width > 1).sum())
    sinks = np.append(gpus, int(width.sum()) - used)
    # What stays idle is one more source of the flow, which cannot wait.
    sorted_loss = np.where(loss <= most, loss, np.inf)[order]
    narrow = np.vstack((sorted_loss[wide:], np.append(price, np.inf)))
    supply = np.append(width[order][wide:], idle)
    prices = _prices(narrow, supply, sinks, sorted_loss[:wide], width[order][:wide])
    choice, ended = _search(
        sorted_loss[:wide],
        width[order][:wide],
        sinks,
        np.array(strides[:-1], np.int64),
        narrow,
        supply,
        prices,
        most,
        most_labels,
    )
    if choice.size < width.size:
        return None, bool(ended)
    in_order = np.empty_like(choice)
    in_order[order] = choice
    return in_order, True


def _prices(
    narrow: FloatArray, supply: IntArray, sinks: IntArray, loss: FloatArray, width: IntArray
) -> FloatArray:
    """Return sets of prices: 0, and those of narrow gangs that fill a few GPUs more or less."""
    left = sinks - np.bincount(loss.argmin(axis=1), weights=width, minlength=sinks.size).astype(int)
    target = np.maximum(left, 0)
    wait = sinks.size - 1
    spare = int(supply.sum() - target.sum())
    for i in [wait, *range(wait)]:  # make the sum that of the supply
        change = max(spare, -int(target[i]))
        target[i] += change
        spare -= change
    pairs = [
        (a, b)
        for a in range(wait + 1)
        for b in range(wait + 1)
        if a != b and (wait <= FEW_TYPES or wait in (a, b))
    ]
    prices = _prices_near(narrow, supply, target, np.array(pairs, np.int64), np.array(STEPS))
    return np.ascontiguousarray(prices)


@kernel
def _prices_near(narrow: Any, supply: Any, target: Any, pairs: Any, steps: Any) -> Any:
    prices = np.zeros((2 + pairs.shape[0] * steps.size, target.size))
    many = 1
    for step in range(-1, steps.size):
        for pair in range(pairs.shape[0] if step >= 0 else 1):
            sinks = target.copy()
            if step >= 0:
                moved = min(steps[step], sinks[pairs[pair, 0]])
                if moved == 0:
                    continue
                sinks[pairs[pair, 0]] -= moved
                sinks[pairs[pair, 1]] += moved
            _, price, works = transport(narrow, supply, sinks, prices[0])
            is_finite = works
            for i in range(target.size):  # as in `grown`: quicker to compile than a slice
                prices[many, i] = price[i]
                is_finite = is_finite and abs(price[i]) < np.inf
            many += is_finite
    return prices[:many]


@kernel
def _search(
    loss: Any,
    width: Any,
    sinks: Any,
    stride: Any,
    narrow: Any,
    supply: Any,
    prices: Any,
    most: float,
    limit: int,
) -> Any:
    m, types, sets = width.size, sinks.size - 1, prices.shape[0]
    # The least that the jobs from each one on, and all narrow ones, cost at each set of prices.
    rest = np.zeros((m + 1, sets))
    for k in range(sets):
        for j in range(supply.size):
            least = np.inf
            for i in range(types + 1):
                least = min(least, narrow[j, i] + prices[k, i])
            if supply[j]:
                rest[m, k] += supply[j] * least
        for j in range(m - 1, -1, -1):
            least = np.inf
            for i in range(types + 1):
                least = min(least, loss[j, i] + width[j] * prices[k, i])
            rest[j, k] = rest[j + 1, k] + least
    slack = 1e-9 * most
    # Labels of all jobs one after another: code, loss, parent, choice.
    size = 1024
    code, cost = np.zeros(size, np.int64), np.zeros(size, np.float64)
    bound = np.zeros(size, np.float64)
    parent, option = np.zeros(size, np.int64), np.zeros(size, np.int8)
    first, last, before = 0, 1, 0
    head = np.zeros(types + 1, np.int64)
    free = np.zeros(types + 1, np.int64)
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
                    elif (
                        i < types and (code[h] // stride[i]) % (sinks[i] + 1) + width[j] > sinks[i]
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
                    bound[at - 1] += value - cost[at - 1]
                    cost[at - 1], parent[at - 1], option[at - 1] = value, h, best
                continue
            waits = sinks[types] - before - width[j]
            for i in range(types):
                free[i] = sinks[i] - (key // stride[i]) % (sinks[i] + 1)
                waits += sinks[i] - free[i]
            free[types] = waits
            if waits < 0:
                continue
            least = 0.0
            for k in range(sets):
                its_bound = rest[j + 1, k]
                for i in range(types + 1):
                    its_bound -= prices[k, i] * free[i]
                least = max(least, its_bound)
                if value + least > most + slack:
                    break
            if value + least > most + slack:
                continue
            if at == limit:
                return none, False
            if at == size:
                size *= 2
                code, cost, bound = _longer(code), _longer(cost), _longer(bound)
                parent, option = _longer(parent), _longer(option)
            code[at], cost[at], parent[at], option[at] = key, value, h, best
            bound[at] = value + least
            at += 1
        if at == last:
            return none, True
        before += width[j]
        first, last = last, at
    # Narrow gangs fill what each label leaves, the most promising labels first. The prices of each
    # flow bound the others, and the nearest of them are where the next begins.
    order = np.argsort(bound[first:last])
    choice = np.zeros(m + supply.size - 1, np.int64)
    reached, cut_count = -1, sets
    cuts, alone = np.zeros((sets + MOST_CUTS, types + 1)), np.zeros(sets + MOST_CUTS)
    for k in range(sets):
        alone[k] = rest[m, k]
        for i in range(types + 1):
            cuts[k, i] = prices[k, i]
    for h in order + first:
        if bound[h] > most + slack:
            break
        waits = sinks[types] - before
        for i in range(types):
            free[i] = sinks[i] - (code[h] // stride[i]) % (sinks[i] + 1)
            waits += sinks[i] - free[i]
        free[types] = waits
        nearest, least = 0, -np.inf
        for k in range(cut_count):
            its_bound = cost[h] + alone[k]
            for i in range(types + 1):
                its_bound -= cuts[k, i] * free[i]
            if its_bound > least:
                nearest, least = k, its_bound
        if least > most + slack:
            continue
        flow, price, works = transport(narrow, supply, free, cuts[nearest])
        if not works:
            continue
        if cut_count < cuts.shape[0]:
            for i in range(types + 1):
                cuts[cut_count, i] = price[i]
            for j in range(supply.size):
                least = np.inf
                for i in range(types + 1):
                    least = min(least, narrow[j, i] + price[i])
                if supply[j]:
                    alone[cut_count] += supply[j] * least
            cut_count += 1
        value = cost[h]
        for j in range(supply.size):
            for i in range(types + 1):
                if flow[j, i]:
                    value += flow[j, i] * narrow[j, i]
        if not value <= most or (reached >= 0 and value >= most - slack):
            continue
        most, reached = value, h
        for j in range(supply.size - 1):
            for i in range(types + 1):
                if flow[j, i]:
                    choice[m + j] = i
    if reached < 0:
        return none, True
    for j in range(m - 1, -1, -1):
        choice[j] = option[reached]
        reached = parent[reached]
    return choice, True


@helper
def _longer(values: Any) -> Any:
    more = np.zeros(2 * values.size, values.dtype)
    for at in range(values.size):
        more[at] = values[at]
    return more


@kernel
def least_of_states(cost: Any, width: Any, gpus: Any) -> Any:
    """Return the least cost for each number of GPUs in use of each type, and who uses them.

    Args:
        cost: of each job on each type, infinite where it cannot run; shape (m, T).
        width: GPUs of each job; shape (m,).
        gpus: of each type; shape (T,).

    Returns:
        The costs of all states, the last type fastest, infinite where no jobs use as many GPUs;
        and for each job and state the type it takes there, -1 to wait; shape (m, states).
    """
    m, types = cost.shape
    stride = np.ones(types + 1, np.int64)
    for i in range(types - 1, -1, -1):
        stride[i] = stride[i + 1] * (gpus[i] + 1)
    states = stride[0]
    best = np.full(states, np.inf)
    best[0] = 0.0
    before = best.copy()
    choice = np.full((m, states), -1, np.int8)
    for j in range(m):
        for state in range(states):
            before[state] = best[state]
        for i in range(types):
            if cost[j, i] == np.inf:
                continue
            inner, held = stride[i + 1], gpus[i] + 1
            step = width[j] * inner
            for block in range(0, states, inner * held):
                for state in range(block + step, block + inner * held):
                    total = before[state - step] + cost[j, i]
                    if total < best[state]:
                        best[state], choice[j, state] = total, i
    return best, choice
