"""The event loop of one cluster: arrays in, arrays out, time in whole microseconds.

At every instant at which a job comes, ends, changes its level or is promoted, and after all of
that, the policy acts until no further action is possible:

    take the best waiting job that fits into the free GPUs or, with preemption, into these and the
    GPUs of running jobs with a worse key; stop as many of those, the worst first; start it.

With ``skipping`` every waiting job is looked at, without it only the best. Keys are compared first,
then the numbers of the jobs; only a strictly worse key can be stopped. Jobs of one width stand in
one heap, because where its best does not fit the others do not either: an event costs O(log n)
for its job, and a look at the best of each width and at the running jobs that are worse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.cluster.nodes import can_place, give_back, give_back_on_trial, lease, new_places
from gpuplan.simkit.heap import count_below, front, join, leave, new_heap, pop, push
from gpuplan.simkit.jit import borrowing_helper, helper, kernel
from gpuplan.simkit.time import FOREVER
from gpuplan.simkit.watch import COUNT, STOP

STATIC, REMAINING, LEVELS = range(3)  # kinds of keys

# Columns of the table of jobs; PLACE is 0. LEFT and ATTAINED are as of BEGAN.
# A running job ends at ENDS and is in its section under KEY. Without preemption the first
# `FEW_COLUMNS` are enough.
START, FINISH, STATE, LEFT, ENDS, CHAIN, BEGAN, HELD, STOPS, SINCE, ATTAINED, LEVEL, KEY = range(
    1, 14
)
COLUMNS, FEW_COLUMNS = 14, 7
COMING, WAITING, RUNNING, DONE = range(4)  # states

# Kinds of events, in the order in which they are taken at one instant.
FINISHES, CROSSES, PROMOTED = (kind << 40 for kind in range(3))
NUMBER = (1 << 40) - 1

TIMELINE = ("time", "used", "waiting")
LOOK_EVERY = 1 << 14  # events between two looks at whether the run is to end


class ClusterRules(NamedTuple):
    """The rules for all jobs of `replay`; times in microseconds.

    ``keys`` is `STATIC`, `REMAINING` or `LEVELS`. ``gpus_per_node`` 0 counts GPUs only. A job that
    has waited ``starvation`` times as long as it has run is promoted to the first level; 0 promotes
    none.
    """

    gpus: int
    gpus_per_node: int
    keys: int
    preemptive: bool
    starvation: float


class Lines(NamedTuple):
    """The heaps of waiting and running jobs.

    Waiting jobs are in the sections before ``first``, the best in front. Running jobs of
    ``widths[i]`` GPUs are in section ``first + i``, the worst in front; their key is
    (KEY - now) x ``scales[i]`` where keys are remaining times, and KEY where they are not.
    """

    queues: Any
    first: int
    widths: Any
    scales: Any


@borrowing_helper
def worst_line(lines: Any, shift: int) -> Any:
    """Return the section with the worst running job, or -1, and its key."""
    worst = -1
    worst_key = worst_job = 0
    for i in range(lines.widths.size):
        if lines.queues.size[lines.first + i]:
            key, job = front(lines.queues, lines.first + i)
            key, job = (-key - shift) * lines.scales[i], -job
            if worst < 0 or key > worst_key or (key == worst_key and job > worst_job):
                worst, worst_key, worst_job = lines.first + i, key, job
    return worst, worst_key


@borrowing_helper
def can_free(lines: Any, key: int, shift: int, need: int) -> bool:
    """Return whether the running jobs with a key above ``key`` hold ``need`` GPUs."""
    for i in range(lines.widths.size):
        most = -(-need // lines.widths[i])
        # KEY is stored negated, and is above the key sought where KEY > shift + key // scale.
        limit = -(shift + key // lines.scales[i])
        need -= lines.widths[i] * count_below(lines.queues, lines.first + i, limit, most)
        if need <= 0:
            return True
    return False


@helper
def can_free_nodes(lines: Any, places: Any, jobs: Any, key: int, shift: int, width: int) -> bool:
    """Return whether a gang fits on nodes if jobs with a key above ``key`` stop, worst first."""
    queues = lines.queues
    running = count = 0
    for i in range(lines.widths.size):
        running += queues.size[lines.first + i]
    tried = np.zeros((running, 2), np.int64)
    fits = False
    while not fits:
        line, worst_key = worst_line(lines, shift)
        if line < 0 or worst_key <= key:
            break
        job = -front(queues, line)[1]
        leave(queues, jobs, line, job)
        give_back_on_trial(places, jobs[job, CHAIN], 1)
        tried[count, 0], tried[count, 1] = line, job
        count += 1
        fits = can_place(places, width)
    for i in range(count):
        line, job = tried[i, 0], tried[i, 1]
        join(queues, jobs, line, -jobs[job, KEY], -job)
        give_back_on_trial(places, jobs[job, CHAIN], -1)
    return fits


@borrowing_helper
def settle_run(job: Any, scale: int, now: int) -> None:
    """Update the remaining and the attained service of a running job to ``now``."""
    left = min(job[LEFT], job[ENDS] - now)  # no change during its overhead
    job[ATTAINED] += (job[LEFT] - left) * scale
    job[LEFT] = left
    job[HELD] += now - job[BEGAN]
    job[BEGAN] = now


@borrowing_helper
def crossing(job: Any, limits: Any, scale: int) -> int:
    """Return when a running job reaches the next level; `FOREVER` if it ends before or has none."""
    if job[LEVEL] == limits.size:
        return FOREVER
    more = -((job[ATTAINED] - limits[job[LEVEL]]) // scale)
    return job[ENDS] - job[LEFT] + more if more < job[LEFT] else FOREVER


@helper
def noted(timeline: Any, notes: int, now: int, used: int, waiting: int) -> Any:
    """Add the state at ``now`` to the time line, replacing what it has of the same time."""
    if notes and timeline[0, notes - 1] == now:
        notes -= 1
    if notes == timeline.shape[1]:
        timeline = longer(timeline)
    timeline[0, notes], timeline[1, notes], timeline[2, notes] = now, used, waiting
    return timeline, notes + 1


@helper
def longer(timeline: Any) -> Any:
    """Return the same time line with room for half as much again."""
    rows, size = timeline.shape
    more = np.empty((rows, size + size // 2), np.int64)
    for row in range(rows):
        for column in range(size):
            more[row, column] = timeline[row, column]
    return more


@borrowing_helper
def of(values: Any, job: int) -> int:
    """Return the value of a job; a single value holds for all."""
    return int(values[min(job, values.size - 1)])


@borrowing_helper
def wait_line(lines: Any, of_width: Any, job: int) -> int:
    """Return the section that a job waits in."""
    return int(of_width[job]) if lines.first > 1 else 0


@kernel
def replay(
    submit: Any,
    service: Any,
    gpus: Any,
    static: Any,
    scale: Any,
    overhead: Any,
    of_width: Any,
    lines: Any,
    limits: Any,
    ranks: Any,
    rules: Any,
    watch: Any,
) -> Any:
    """Run every job to its end.

    Args:
        submit, service, gpus: one value per job, shape (n,), sorted by ``submit``; every job fits
            into the empty cluster.
        static: the keys, where they are `STATIC`; one for all or one per job, as the next two.
        scale: the factor of each job's remaining time in its key, or of its run time in what it
            has attained; >= 1.
        overhead: time that each job pays when it starts again after a stop.
        of_width: place of each job's width among all widths. A job runs in that section of
            ``lines`` after ``first``, and waits in that section where there is more than one.
        lines: `Lines`, all empty.
        limits: attained service at which a job leaves each level but the last; ascending.
        ranks: key of each level.
        rules: `ClusterRules`.
        watch: as `gpuplan.simkit.watch` has it.

    Returns:
        Table of jobs, the time line (a row for each of `TIMELINE`), GPU-microseconds idle while a
            job that could
        start would have fitted by count, and the most nodes in use at once.
    """
    n = submit.size
    jobs = np.zeros((n, COLUMNS if rules.preemptive else FEW_COLUMNS), np.int64)
    timeline = np.empty((3, 2 * n + 64), np.int64)  # unused places take no memory
    each = rules.gpus_per_node
    by_nodes = each > 0
    places = new_places(rules.gpus // each if by_nodes else 1, max(each, 1))
    queues = lines.queues
    events = new_heap()
    free, waiting, done, coming, notes = rules.gpus, 0, 0, 0, 0
    now = most_nodes = 0
    fragmented = 0.0
    blocked = 0  # idle GPUs that a waiting job cannot use because of nodes

    steps = 0
    while done < n:
        steps += 1
        if steps % LOOK_EVERY == 0:
            watch[COUNT] = done
            if watch[STOP]:
                break
        time = FOREVER
        if coming < n:
            time = submit[coming]
        if events[0, 0]:
            time = min(time, events[1, 0])
        fragmented += float(blocked) * float(time - now)
        now = time
        shift = now if rules.keys == REMAINING else 0

        while events[0, 0] and events[1, 0] == now:
            code = events[1, 1]
            pop(events)
            kind, number = code & ~NUMBER, code & NUMBER
            job = jobs[number]
            if kind == FINISHES:
                if job[STATE] == RUNNING and job[ENDS] == now:  # else it was stopped on the way
                    job[STATE] = DONE
                    job[FINISH] = now
                    if rules.preemptive:
                        job[HELD] += now - job[BEGAN]
                        leave(queues, jobs, lines.first + of_width[number], number)
                    if by_nodes:
                        give_back(places, job[CHAIN])
                    free += gpus[number]
                    done += 1
            elif kind == CROSSES:
                if job[STATE] == RUNNING:
                    settle_run(job, of(scale, number), now)
                    level = job[LEVEL]
                    while level < limits.size and job[ATTAINED] >= limits[level]:
                        level += 1
                    if level > job[LEVEL]:
                        job[LEVEL] = level
                        job[KEY] = ranks[level]
                        line = lines.first + of_width[number]
                        leave(queues, jobs, line, number)
                        join(queues, jobs, line, -job[KEY], -number)
                        at = crossing(job, limits, of(scale, number))
                        if at < FOREVER:
                            events = push(events, at, CROSSES | number)
            elif (
                job[STATE] == WAITING and job[SINCE] + promotion(job, service[number], rules) == now
            ):
                job[LEVEL] = job[ATTAINED] = 0
                line = wait_line(lines, of_width, number)
                leave(queues, jobs, line, number)
                join(queues, jobs, line, ranks[0], number)
        while coming < n and submit[coming] == now:
            jobs[coming, STATE] = WAITING
            jobs[coming, LEFT] = service[coming]
            jobs[coming, START] = -1
            key = of(static, coming)
            if rules.keys == REMAINING:
                key = service[coming] * of(scale, coming)
            elif rules.keys == LEVELS:
                key = ranks[0]
            join(queues, jobs, wait_line(lines, of_width, coming), key, coming)
            waiting += 1
            coming += 1

        while True:
            best, best_key = -1, 0
            for line in range(lines.first):
                if queues.size[line] == 0:
                    continue
                key, number = front(queues, line)
                if best >= 0 and (key > best_key or (key == best_key and number > best)):
                    continue
                width = gpus[number]
                fits = width <= free
                if fits and by_nodes:
                    fits = can_place(places, width)
                if not fits and rules.preemptive:
                    fits = width <= free or can_free(lines, key, shift, width - free)
                    if fits and by_nodes:
                        fits = can_free_nodes(lines, places, jobs, key, shift, width)
                if fits:
                    best, best_key = number, key
            if best < 0:
                break
            leave(queues, jobs, wait_line(lines, of_width, best), best)
            waiting -= 1
            while free < gpus[best] or (by_nodes and not can_place(places, gpus[best])):
                line, key = worst_line(lines, shift)
                number = -front(queues, line)[1]
                job = jobs[number]
                leave(queues, jobs, line, number)
                if by_nodes:
                    give_back(places, job[CHAIN])
                free += gpus[number]
                settle_run(job, of(scale, number), now)
                job[STATE] = WAITING
                job[STOPS] += 1
                job[SINCE] = now
                key = of(static, number)
                if rules.keys == REMAINING:
                    key = (job[LEFT] + of(overhead, number)) * of(scale, number)
                elif rules.keys == LEVELS:
                    key = ranks[job[LEVEL]]
                    if rules.starvation > 0 and job[LEVEL] > 0:
                        at = now + promotion(job, service[number], rules)
                        events = push(events, at, PROMOTED | number)
                join(queues, jobs, wait_line(lines, of_width, number), key, number)
                waiting += 1
            job = jobs[best]
            if by_nodes:
                job[CHAIN] = lease(places, gpus[best])
            free -= gpus[best]
            job[STATE] = RUNNING
            if job[START] < 0:
                job[START] = now
                job[ENDS] = now + job[LEFT]
            elif job[SINCE] == now and not by_nodes:
                job[STOPS] -= 1  # it was stopped at this same time: it continues
            else:
                job[ENDS] = now + of(overhead, best) + job[LEFT]
            events = push(events, job[ENDS], FINISHES | best)
            if rules.preemptive:
                job[BEGAN] = now
                job[KEY] = of(static, best)
                if rules.keys == REMAINING:
                    job[KEY] = job[ENDS]
                elif rules.keys == LEVELS:
                    job[KEY] = ranks[job[LEVEL]]
                    at = crossing(job, limits, of(scale, best))
                    if at < FOREVER:
                        events = push(events, at, CROSSES | best)
                join(queues, jobs, lines.first + of_width[best], -job[KEY], -best)

        blocked = 0
        if by_nodes:
            most_nodes = max(most_nodes, rules.gpus // each - places.having[each])
            for line in range(lines.first):
                if queues.size[line] and gpus[front(queues, line)[1]] <= free:
                    blocked = free
        timeline, notes = noted(timeline, notes, now, rules.gpus - free, waiting)
    watch[COUNT] = done
    return jobs, timeline[:, :notes], fragmented, most_nodes


@borrowing_helper
def promotion(job: Any, service: int, rules: Any) -> int:
    """Return how long a stopped job waits before it is promoted, microseconds."""
    return int(np.ceil(rules.starvation * float(service - job[LEFT])))
