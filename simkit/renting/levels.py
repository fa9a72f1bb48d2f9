"""How long each user of a cluster holds how many GPUs while all hold a certain number.

Whoever shares a pool needs this: at ``u`` GPUs in use of which a user holds ``x``, the user has the
share ``x / u`` of what the pool covers. Sums are whole numbers, so that bills are exact.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.jit import borrowing_kernel

LOW_BITS = 20
LOW = (1 << LOW_BITS) - 1


def held_at_levels(
    user: IntArray, change: IntArray, lasting: IntArray, code: IntArray, users: int, edges: IntArray
) -> list[tuple[IntArray, IntArray, list[int]]]:
    """Return the time that users hold GPUs, by the level in use, for stretches of events.

    Args:
        user: of each event, in order of time; shape (e,).
        change: GPUs that the user takes or gives back; 0 at an edge.
        lasting: time until the next event.
        code: the level in use until then, a code from 0 that begins anew in each stretch; -1 where
            nobody holds a GPU.
        users: how many there are.
        edges: places of the events at which stretches begin, and the number of events.

    Returns:
        One entry per stretch: users and codes of the non-zero sums, and each sum of GPUs x time, a
        Python int as it may have more than 64 bits.
    """
    holders = np.zeros((3, users), np.int64)
    count, sums = 0, []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = slice(first, last)
        held = np.zeros((2, users, int(code[part].max(initial=-1)) + 1), np.int64)
        count = add_held(user[part], change[part], lasting[part], code[part], holders, count, held)
        high, low = held
        who, level = np.nonzero(high | low)
        pairs = zip(high[who, level].tolist(), low[who, level].tolist(), strict=True)
        sums.append((who, level, [(upper << LOW_BITS) + rest for upper, rest in pairs]))
    return sums


@borrowing_kernel
def add_held(
    user: IntArray,
    change: IntArray,
    lasting: IntArray,
    code: IntArray,
    holders: IntArray,
    count: int,
    held: IntArray,
) -> int:
    """Add GPUs x time of each user and level, in two parts of a number of up to 83 bits.

    Args:
        user, change, lasting, code: as those of `held_at_levels`.
        holders: the GPUs of each user; the ``count`` users who hold any; where each of them stands.
        count: of users who hold any.
        held: upper and lower parts of the sums, by user and level.

    Returns:
        The new ``count``.
    """
    used, active, place = holders[0], holders[1], holders[2]
    high, low = held[0], held[1]
    for event in range(user.size):
        who, gpu_change = user[event], change[event]
        if gpu_change != 0:
            if used[who] == 0:
                active[count] = who
                place[who] = count
                count += 1
            used[who] += gpu_change
            if used[who] == 0:
                count -= 1
                active[place[who]] = active[count]
                place[active[count]] = place[who]
        time, level = lasting[event], code[event]
        if time > 0 and level >= 0:
            for i in range(count):
                holder = active[i]
                gpus = used[holder]
                rest = low[holder, level] + gpus * (time & LOW)
                high[holder, level] += gpus * (time >> LOW_BITS) + (rest >> LOW_BITS)
                low[holder, level] = rest & LOW
    return count
