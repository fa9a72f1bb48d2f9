"""Gangs on GPU types, on the hosts of one type, and on equal shares of a mixed cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, kernel


@kernel
def take_fastest(order: Any, rate: Any, width: Any, gpus: Any, keeps: Any, skipping: bool) -> Any:
    """Return the type of each gang, -1 to wait: the fastest with enough free GPUs, in an order.

    Args:
        order: the gangs, best first.
        rate: of each gang on each type, 0 where it cannot run; shape (m, T).
        width: GPUs of each gang; shape (m,).
        gpus: of each type; shape (T,).
        keeps: type that each stays on if it runs, -1 for any.
        skipping: whether gangs may pass one that does not fit.
    """
    m, types = rate.shape
    kind, free = np.full(m, -1, np.int64), gpus.copy()
    least, left = 1, free.sum()
    if m:
        least = width.min()
    for j in order:
        if left < least:
            break
        best = -1
        for i in range(types):
            if keeps[j] >= 0 and i != keeps[j]:
                continue
            if rate[j, i] > 0 and free[i] >= width[j] and (best < 0 or rate[j, i] > rate[j, best]):
                best = i
        if best >= 0:
            kind[j] = best
            free[best] -= width[j]
            left -= width[j]
        elif not skipping:
            break
    return kind


@kernel
def put_on_hosts(
    width: Any,
    before: Any,
    stays: Any,
    was_here: Any,
    widest: Any,
    lightest: Any,
    may_gather: Any,
    each: int,
) -> Any:
    """Return GPUs of each gang on each host; shape (m, H).

    Gangs that stay keep their hosts. Others come in the order ``widest``: first those whose last
    hosts are free return there, then each to the host that it fits best or to the emptiest. Gangs
    on more hosts than they need come together at last, in the order ``lightest``.

    Args:
        width: GPUs of each gang; shape (m,).
        before: GPUs on each host when it last ran; shape (m, H).
        stays, was_here: whether it ran here in the last round, and when it last ran.
        widest, lightest: orders of the gangs.
        may_gather: whether each may come together on fewer hosts.
        each: GPUs of a host.
    """
    m, hosts = before.shape
    free = np.full(hosts, each, np.int64)
    held = np.zeros((m, hosts), np.int64)
    is_new = np.zeros(m, np.bool_)
    for j in range(m):
        if stays[j]:
            for h in range(hosts):
                held[j, h] = before[j, h]
                free[h] -= before[j, h]
    for j in widest:
        if stays[j]:
            continue
        fits = was_here[j]
        for h in range(hosts):
            fits = fits and before[j, h] <= free[h]
        is_new[j] = not fits
        if fits:
            for h in range(hosts):
                held[j, h] = before[j, h]
                free[h] -= before[j, h]
    for j in widest:
        if is_new[j]:
            _spread(width[j], free, held[j])
    better = np.zeros(hosts, np.int64)
    for j in lightest:
        many = 0
        for h in range(hosts):
            many += held[j, h] > 0
        if not may_gather[j] or many <= (width[j] + each - 1) // each:
            continue
        for h in range(hosts):
            free[h] += held[j, h]
            better[h] = 0
        _spread(width[j], free, better)
        fewer = 0
        for h in range(hosts):
            fewer += better[h] > 0
        for h in range(hosts):
            if fewer < many:
                held[j, h] = better[h]
            else:
                free[h] += better[h] - held[j, h]
    return held


@borrowing_helper
def _spread(width: int, free: Any, held: Any) -> None:
    """Take GPUs of the host that a gang fits best, else of the emptiest hosts first."""
    best = -1
    for h in range(free.size):
        if free[h] >= width and (best < 0 or free[h] < free[best]):
            best = h
    while width:
        if best < 0:
            for h in range(free.size):
                if free[h] and (best < 0 or free[h] > free[best]):
                    best = h
            if best < 0:
                return
        placed = min(width, free[best])
        held[best] += placed
        free[best] -= placed
        width -= placed
        best = -1


@kernel
def rounds_on_shares(
    work: Any, rate: Any, gpus: Any, width: Any, active: Any, begin: Any, end: Any
) -> Any:
    """Return the rounds that each job takes on its share; shape (n,).

    Args:
        work: of each job; shape (n,).
        rate, gpus: work per round on each type, and its GPUs, the fastest type first; shape (n, T).
        width: GPUs of each job.
        active: unfinished jobs in each round, which share the cluster; shape (R,).
        begin, end: the first round of each job, and the one after its last; a job that is not done
            by then goes on at the rate of its last round.
    """
    n, types = rate.shape
    rounds = np.zeros(n)
    for j in range(n):
        done, at, many, now = 0.0, begin[j], 0, 0.0
        while at < end[j]:
            if active[at] != many:
                many = active[at]
                now = 0.0
                before = 0.0
                for i in range(types):
                    most = gpus[j, i] / (many * width[j])
                    if rate[j, i] > 0:
                        before += most
                    part = max(min(most, 1 - (before - most)), 0.0)
                    now += part * rate[j, i]
            if done + now >= work[j]:
                done = (done + now) - now  # rounded as a running sum
                break
            done += now
            at += 1
        rounds[j] = (at - begin[j]) + (work[j] - done) / now
    return rounds
