"""Slow, readable twins of the kernels of rounds on several GPU types."""

from itertools import product

import numpy as np

from gpuplan.planner.policies.mixed.fairness import share_rates


def place(
    width,
    before,
    stays,
    was_here,
    *,
    each,
    is_pipeline,
    state_gb,
    consolidates,
):
    m, hosts = before.shape
    free = np.full(hosts, each, np.int64)
    found = np.zeros((m, hosts), np.int64)
    found[stays] = before[stays]
    free -= found.sum(axis=0)
    new = []
    rank = sorted(np.flatnonzero(~stays).tolist(), key=lambda j: (is_pipeline[j], -width[j], j))
    for j in rank:
        if was_here[j] and (before[j] <= free).all():
            found[j] = before[j]
            free -= before[j]
        else:
            new.append(j)
    for j in new:
        found[j] = _spread(int(width[j]), free)
        free -= found[j]
    if consolidates:
        needed = -(-width // each)
        loose = np.flatnonzero(((found > 0).sum(axis=1) > needed) & ~is_pipeline)
        for j in loose[np.argsort(state_gb[loose], kind="stable")].tolist():
            better = _spread(int(width[j]), free + found[j])
            if (better > 0).sum() < (found[j] > 0).sum():
                free += found[j] - better
                found[j] = better
    return found


def _spread(width, free):
    found = np.zeros(free.size, np.int64)
    fits = np.flatnonzero(free >= width)
    if fits.size:
        found[fits[np.argmin(free[fits])]] = width
        return found
    for host in np.argsort(-free, kind="stable").tolist():
        found[host] = min(width, int(free[host]))
        width -= int(found[host])
        if not width:
            break
    return found


def fastest_free(
    order,
    rate,
    width,
    gpus,
    *,
    keeps=None,
    skipping=True,
):
    kind, free = np.full(width.size, -1, np.int64), gpus.tolist()
    least, left = int(width.min(initial=1)), int(gpus.sum())
    ranked = np.argsort(-rate, axis=1, kind="stable")
    for job in order.tolist():
        if left < least:
            break
        wide = int(width[job])
        kept = -1 if keeps is None else int(keeps[job])
        for i in ranked[job].tolist() if kept < 0 else (kept,):
            if rate[job, i] > 0 and free[i] >= wide:
                kind[job] = i
                free[i] -= wide
                left -= wide
                break
        else:
            if not skipping:
                break
    return kind


def ideal_rounds(
    work,
    rate,
    width,
    gpus,
    first,
    rounds,
    last,
):
    number, active = rounds
    levels, level = np.unique(active, return_inverse=True)
    by_level = np.stack([share_rates(rate, width, gpus, int(many)) for many in levels])
    found = np.zeros(work.size)
    begin = np.searchsorted(number, first)
    end = np.searchsorted(number, last, side="right")
    for j in range(work.size):
        rates = by_level[level[begin[j] : end[j]], j]
        done = np.cumsum(rates)
        at = int(np.searchsorted(done, work[j]))
        if at < done.size:
            found[j] = at + (work[j] - (done[at] - rates[at])) / rates[at]
        else:
            found[j] = done.size + (work[j] - done[-1]) / rates[-1]
    return found


def least_loss(loss, width, gpus, price, used, most):
    """Return the least loss of any choice that uses as many GPUs, infinite above ``most``."""
    best = np.inf
    for choice in product(range(gpus.size + 1), repeat=width.size):
        taken = np.bincount(choice, weights=width, minlength=gpus.size + 1)[:-1]
        if (taken <= gpus).all() and taken.sum() == used:
            value = loss[np.arange(width.size), choice].sum() + price @ (gpus - taken)
            best = min(best, value if value <= most else np.inf)
    return best


def least_of_states(cost, width, gpus):
    """Return the least cost of each state, and the type that each job takes there."""
    best = np.full(gpus + 1, np.inf)
    best[(0,) * gpus.size] = 0.0
    choice = np.full((width.size, *best.shape), -1, np.int8)
    for j, wide in enumerate(width.tolist()):
        before = best.copy()
        for state in product(*(range(many + 1) for many in gpus)):
            for i in range(gpus.size):
                since = tuple(at - wide * (k == i) for k, at in enumerate(state))
                if since[i] >= 0 and before[since] + cost[j, i] < best[state]:
                    best[state], choice[(j, *state)] = before[since] + cost[j, i], i
    return best, choice
