"""Gangs on spot GPUs: pieces of work with checkpoints between them, and losses.

A gang works in pieces of ``tau``, each but the last followed by a checkpoint. A loss strictly
inside a piece or its checkpoint takes the work since the last checkpoint that ended. A restart
follows, and a loss in it begins it anew. A loss at the instant at which something ends comes after
it, and takes nothing. While no spot GPU is to be had, gangs hold none: those that ran restart
afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.time import FOREVER


class SpotRules(NamedTuple):
    """What a checkpoint and a restart take, microseconds."""

    checkpoint_us: int
    restart_us: int


@kernel
def replay_spot(
    submit: Any, work: Any, tau: Any, loss: Any, first: Any, gone: Any, rules: Any
) -> Any:
    """Run gangs to their end; each is by itself.

    Args:
        submit: when each comes; shape (n,).
        work: how long each runs without a loss.
        tau: work between two checkpoints, > 0; `FOREVER` for none.
        loss: instants of the losses of the gangs, one gang after another, ascending for each.
        first: where those of each gang begin, and the end of all; shape (n + 1,).
        gone: rows (from, until) in which no spot GPU is to be had, apart and ascending.
        rules: `SpotRules`.

    Returns:
        Columns start, end, time held, checkpoints, losses met; shape (n, 5).
    """
    n = submit.size
    table = np.zeros((n, 5), np.int64)
    for job in range(n):
        at, last = first[job], first[job + 1]
        out = 0
        while out < gone.shape[0] and gone[out, 1] <= submit[job]:
            out += 1
        ready = submit[job]
        if out < gone.shape[0] and gone[out, 0] <= ready:
            ready = gone[out, 1]
            out += 1
        start, since = ready, ready
        saved = held = checkpoints = losses = 0
        while True:
            left = work[job] - saved
            pieces = max(1, -(-left // tau[job]))
            end = ready + left + (pieces - 1) * rules.checkpoint_us
            while at < last and loss[at] <= ready:
                at += 1
            lost = loss[at] if at < last else FOREVER
            is_gone = out < gone.shape[0] and gone[out, 0] <= lost
            if is_gone:
                lost = gone[out, 0]
            if lost >= end:
                checkpoints += pieces - 1
                break
            full_cycles = 0
            if lost > ready and tau[job] < FOREVER:
                cycle = tau[job] + rules.checkpoint_us
                full_cycles = min(pieces - 1, (lost - ready) // cycle)
                if not is_gone and lost == ready + full_cycles * cycle:
                    at += 1  # as a checkpoint ended
                    continue
            checkpoints += full_cycles
            saved += full_cycles * tau[job]
            losses += 1
            while True:  # the restart, until nothing is lost in it
                if is_gone:
                    held += lost - since
                    lost = since = gone[out, 1]
                    out += 1
                else:
                    at += 1
                ready = lost + rules.restart_us
                while at < last and loss[at] <= lost:
                    at += 1
                again = loss[at] if at < last else FOREVER
                is_gone = out < gone.shape[0] and gone[out, 0] <= again
                if is_gone:
                    again = gone[out, 0]
                if again >= ready:
                    break
                lost = again
                losses += 1
        table[job, 0], table[job, 1], table[job, 2] = start, end, held + end - since
        table[job, 3], table[job, 4] = checkpoints, losses
    return table
