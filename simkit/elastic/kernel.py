"""The event loop of fixed-width jobs on rented nodes: arrays in, arrays out, whole microseconds.

Source: BOA, "fixed-width rule": jobs of a class always get the same GPUs in the same epoch; while
GPUs are short, the first job in line runs on what is left (section 5.2 of the paper). The rules of
renting and of a hard limit are stated in ``docs/boa.md``, section "Replay". At one instant
ends of epochs come first, then nodes that become ready, then submissions, then returns of nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.heap import new_heap, pop, push
from gpuplan.simkit.jit import borrowing_helper, kernel
from gpuplan.simkit.renting.leases import end_leases, follow_idle
from gpuplan.simkit.time import FOREVER

NOTHING, END, READY, SUBMIT, RETURN = range(5)

# Columns of the table of jobs. WIDTH is an index into the widths of the job's path, -1 before its
# start; DUE is the end of the stretch it runs, -1 before and after; TICKET is its place in the
# queue, -1 outside; BUSY is when its last start or change of width is over.
START, FINISH, RESCALES, HELD, EPOCH, WIDTH, DUE, TICKET, SINCE, BUSY = range(10)

# When the first job in line starts on fewer GPUs than its width: never, while nodes come, or also
# at the limit.
WHOLE, NARROW, SQUEEZE = range(3)

MOST_LEVELS = 1 << 20  # distinct levels of demand


class ElasticRules(NamedTuple):
    """The parameters of `replay`; times in microseconds, ``max_nodes`` and ``node_gpus`` >= 1.

    ``start`` is `WHOLE`, `NARROW` or `SQUEEZE`.
    """

    node_gpus: int
    provision_us: int
    release_us: int
    from_request: bool
    max_nodes: int
    start: int
    horizon_us: int


class Paths(NamedTuple):
    """Widths that jobs follow: P paths of up to J epochs, with up to V widths each.

    ``width`` (P, V) are GPUs, ascending in each row; ``target`` (P, J) is the index of the width of
    each epoch; ``time_per_work`` (P, J, V) is the time in an epoch at a width per time of the whole
    job on one GPU; ``epochs`` and ``rescale_us`` have the shape (P,).
    """

    width: Any
    target: Any
    time_per_work: Any
    epochs: Any
    rescale_us: Any


@borrowing_helper
def epoch_us(work: float, path: int, epoch: int, at: int, paths: Any) -> int:
    """Return the time that an epoch takes at a width, rounded half up."""
    return int(np.floor(work * paths.time_per_work[path, epoch, at] + 0.5))


@borrowing_helper
def run_on(work: float, path: int, epoch: int, at: int, left: int, paths: Any) -> Any:
    """Return the epoch until whose end nothing changes, and the time until then.

    ``left`` is the time to the end of ``epoch``. Epochs that the path runs at one width pass
    without an event of their own.
    """
    target = paths.target
    while (
        at == target[path, epoch]
        and epoch + 1 < paths.epochs[path]
        and at == target[path, epoch + 1]
    ):
        epoch += 1
        left += epoch_us(work, path, epoch, at, paths)
    return epoch, left


@kernel
def replay(submit: Any, path_of: Any, work: Any, paths: Any, rules: Any) -> Any:
    """Run jobs, sorted by submission, to their end, and rent the nodes they need.

    Args:
        submit: submissions, ascending, >= 0; shape (n,).
        path_of: the path of each job; shape (n,).
        work: run time on one GPU, microseconds; float, shape (n,).
        paths: see `Paths`; every path can run within ``max_nodes``, or, with `SQUEEZE`,
            its narrowest width can.
        rules: see `ElasticRules`.

    Returns:
        the table of jobs, of which the first four columns are results (``HELD`` in GPU x us); the
        time line (time, GPUs rented from then on); the time within the horizon at each level of
        demand; the leases of nodes, rows (begin, end, nodes), in the order of their ends.
    """
    n = submit.size
    gpus = rules.node_gpus
    width, target = paths.width, paths.target
    jobs = np.zeros((n, 10), np.int64)
    ends = new_heap()
    queue = np.zeros((64, 1), np.int64)
    orders = np.zeros((64, 2), np.int64)  # (ready at, nodes), in the order of both
    idle = np.zeros((64, 2), np.int64)  # (since, nodes), the longest idle first
    leases = np.zeros((64, 2), np.int64)  # (since, nodes) of ready nodes, the latest last
    returned = np.zeros((64, 3), np.int64)  # (begin, end, nodes) of ended leases
    timeline = np.zeros((64, 2), np.int64)
    level_us = np.zeros((64, 1), np.int64)
    next_job = queue_head = queue_tail = order_head = order_tail = idle_head = idle_tail = 0
    lease_count = changes = 0
    nodes = ordered = idle_nodes = 0
    held = demand = rented = 0  # GPUs; demand is what jobs hold or wait for
    clock = returns = 0
    while True:
        now, kind = FOREVER, NOTHING
        if ends[0, 0]:
            now, kind = ends[1, 0], END
        if order_head < order_tail and orders[order_head, 0] < now:
            now, kind = orders[order_head, 0], READY
        if next_job < n and submit[next_job] < now:
            now, kind = submit[next_job], SUBMIT
        if idle_head < idle_tail and idle[idle_head, 0] + rules.release_us < now:
            now, kind = idle[idle_head, 0] + rules.release_us, RETURN
        if kind == NOTHING:
            break
        if now > clock:
            level = min(demand, MOST_LEVELS)
            while level >= level_us.shape[0]:
                level_us = grown(level_us)
            level_us[level, 0] += min(now, rules.horizon_us) - min(clock, rules.horizon_us)
            clock = now

        if kind == END:
            job = ends[1, 1]
            pop(ends)
            if jobs[job, DUE] != now:
                continue  # the job has changed its width since
            path, epoch, at = path_of[job], jobs[job, EPOCH], jobs[job, WIDTH]
            holds = width[path, at]
            asks = holds if jobs[job, TICKET] < 0 else width[path, target[path, epoch]]
            epoch += 1
            if epoch == paths.epochs[path]:
                jobs[job, FINISH] = now
                jobs[job, HELD] += holds * (now - jobs[job, SINCE])
                jobs[job, DUE] = jobs[job, TICKET] = -1
                held -= holds
                demand -= asks
            else:
                aim = target[path, epoch]
                demand += width[path, aim] - asks
                left = epoch_us(work[job], path, epoch, min(at, aim), paths)
                if aim > at:  # go on, and wait for the GPUs to grow
                    if jobs[job, TICKET] < 0:
                        jobs[job, TICKET] = queue_tail
                        if queue_tail == queue.shape[0]:
                            queue = grown(queue)
                        queue[queue_tail, 0] = job
                        queue_tail += 1
                else:
                    jobs[job, TICKET] = -1
                    if aim < at:
                        jobs[job, HELD] += holds * (now - jobs[job, SINCE])
                        jobs[job, SINCE] = now
                        jobs[job, WIDTH] = aim
                        jobs[job, RESCALES] += 1
                        held -= holds - width[path, aim]
                        left += paths.rescale_us[path]
                        jobs[job, BUSY] = now + paths.rescale_us[path]
                    epoch, left = run_on(work[job], path, epoch, aim, left, paths)
                jobs[job, EPOCH] = epoch
                jobs[job, DUE] = now + left
                ends = push(ends, now + left, job)
        elif kind == READY:
            while order_head < order_tail and orders[order_head, 0] == now:
                if lease_count == leases.shape[0]:
                    leases = grown(leases)
                leases[lease_count, 0] = now - (rules.provision_us if rules.from_request else 0)
                leases[lease_count, 1] = orders[order_head, 1]
                lease_count += 1
                nodes += orders[order_head, 1]
                ordered -= orders[order_head, 1]
                order_head += 1
        elif kind == SUBMIT:
            job = next_job
            next_job += 1
            demand += width[path_of[job], target[path_of[job], 0]]
            jobs[job, WIDTH] = jobs[job, DUE] = -1
            jobs[job, TICKET] = queue_tail
            if queue_tail == queue.shape[0]:
                queue = grown(queue)
            queue[queue_tail, 0] = job
            queue_tail += 1
        else:
            unused = idle[idle_head, 1]
            idle_head += 1
            idle_nodes -= unused
            nodes -= unused
            lease_count, returned, returns = end_leases(
                leases, lease_count, unused, now, returned, returns
            )

        while queue_head < queue_tail:  # serve the queue, its head first
            job = queue[queue_head, 0]
            if jobs[job, TICKET] != queue_head:
                queue_head += 1
                continue
            path, epoch, at = path_of[job], jobs[job, EPOCH], jobs[job, WIDTH]
            aim = target[path, epoch]
            to = aim
            holds = width[path, at] if at >= 0 else 0
            spare = nodes * gpus - held
            coming = nodes < rules.max_nodes
            if width[path, to] - holds > spare:
                if rules.start < (NARROW if coming else SQUEEZE):
                    break
                if coming and (at >= 0 or rules.provision_us == 0):
                    break  # it runs, or its GPUs are there at this instant
                while to > at and width[path, to] - holds > spare:
                    to -= 1
                if to < 0:
                    break
            if to == aim or not coming:
                queue_head += 1
                jobs[job, TICKET] = -1
                demand -= width[path, aim] - width[path, to]
            if to == at:
                continue  # no GPU to grow by: the job continues at its width
            if at < 0:
                jobs[job, START] = now
                left = epoch_us(work[job], path, epoch, to, paths)
            else:
                jobs[job, HELD] += holds * (now - jobs[job, SINCE])
                left = jobs[job, DUE] - max(now, jobs[job, BUSY])  # a new start ends the last one
                before = paths.time_per_work[path, epoch, at]
                if before > 0:
                    share = paths.time_per_work[path, epoch, to] / before
                    left = int(np.floor(left * share + 0.5))
            held += width[path, to] - holds
            left += paths.rescale_us[path]
            jobs[job, BUSY] = now + paths.rescale_us[path]
            epoch, left = run_on(work[job], path, epoch, to, left, paths)
            jobs[job, SINCE] = now
            jobs[job, WIDTH] = to
            jobs[job, EPOCH] = epoch
            jobs[job, RESCALES] += 1
            jobs[job, DUE] = now + left
            ends = push(ends, now + left, job)

        needed = -(-demand // gpus)
        more = min(needed, rules.max_nodes) - nodes - ordered
        if more > 0:
            if order_tail == orders.shape[0]:
                orders = grown(orders)
            orders[order_tail, 0], orders[order_tail, 1] = now + rules.provision_us, more
            order_tail += 1
            ordered += more
        spare_nodes = max(0, nodes - needed)
        idle, idle_tail = follow_idle(idle, idle_tail, idle_nodes, spare_nodes, now)
        idle_nodes = spare_nodes
        paid = gpus * (nodes + (ordered if rules.from_request else 0))
        if paid != rented:
            rented = paid
            if changes and timeline[changes - 1, 0] == now:
                changes -= 1  # the last change at a time wins
            if paid != (timeline[changes - 1, 1] if changes else 0):
                if changes == timeline.shape[0]:
                    timeline = grown(timeline)
                timeline[changes, 0], timeline[changes, 1] = now, paid
                changes += 1
    if rules.horizon_us > clock:
        level_us[0, 0] += rules.horizon_us - clock
    return jobs, timeline[:changes], level_us[:, 0], returned[:returns]
