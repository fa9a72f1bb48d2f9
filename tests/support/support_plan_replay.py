"""The joint replay of a plan once more, slow and plain: the oracle of the kernels.

Rules as in docs/plan.md, section "Replay": lists of jobs and of single leases, and fresh sums at
each instant. Spot gangs step from one end or loss to the next. Also small sets of jobs to replay.
"""

from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.plan.simulator import JointJobs
from gpuplan.simkit.time import FOREVER


@dataclass
class PlainJob:
    """A job of one market; times are whole numbers."""

    submit: int
    run: int = 0  # on the pool; with spot=True the work there
    gpus: float = 1
    pool: bool = True
    outside: int = 0  # in containers, before it joins the pool
    due: int = -1
    spot: bool = False
    tau: int = FOREVER
    losses: list = field(default_factory=list)


def joint_jobs(jobs):
    """Return plain jobs as the simulator takes them."""
    whole = [
        [j.submit for j in jobs],
        [j.outside for j in jobs],
        [-1 if j.spot or not j.pool else j.run for j in jobs],
        [j.due for j in jobs],
        [j.run if j.spot else -1 for j in jobs],
        [j.tau for j in jobs],
        [at for j in jobs for at in j.losses],
        [0, *np.cumsum([len(j.losses) for j in jobs])],
    ]
    submit, outside, pool, due, spot, tau, loss, first = (np.array(x, np.int64) for x in whole)
    gpus = np.array([j.gpus for j in jobs], float)
    return JointJobs(submit, gpus, outside, pool, gpus, due, spot, tau, loss, first)


def plain_pool(jobs, fixed, *, most=None, node=1, provision=0, release=0, policy="first-fit"):
    """Return job -> start for jobs on the pool, and the sorted leases of GPUs (begin, end)."""
    queue, patient, running = [], [], []  # numbers; numbers; (end, number)
    coming = [(j.submit + j.outside, i) for i, j in enumerate(jobs) if j.pool and not j.spot]
    orders, leases, idle, ended, start = [], [], [], [], {}  # idle: since, the longest first

    def busy():
        return sum(jobs[i].gpus for _, i in running)

    def waiting():
        return sum(jobs[i].gpus for i in queue)

    def rank(i):
        return (jobs[i].run if policy == "sjf" else 0, i)

    while True:
        times = [end for end, _ in running] + orders + [at for at, _ in coming]
        times += [jobs[i].due for i in patient] + [since + release for since in idle]
        if not times:
            return start, sorted(ended)
        now = min(times)
        while True:
            running = [(end, i) for end, i in running if end > now]
            leases += [now for at in orders if at <= now]
            orders = [at for at in orders if at > now]
            for at, i in coming:
                if at == now:
                    (queue if jobs[i].due < 0 else patient).append(i)
            coming = [(at, i) for at, i in coming if at > now]
            queue += [i for i in patient if jobs[i].due <= now]
            patient = [i for i in patient if jobs[i].due > now]
            for i in sorted(queue, key=rank):
                if jobs[i].gpus <= fixed + len(leases) - busy():
                    queue.remove(i)
                    start[i] = now
                    running.append((now + jobs[i].run, i))
                elif policy == "fifo":
                    break
            for i in sorted(patient, key=rank):
                if jobs[i].gpus <= fixed - busy():
                    patient.remove(i)
                    start[i] = now
                    running.append((now + jobs[i].run, i))
            lacking = waiting() - (fixed + len(leases) - busy()) - len(orders)
            wanted = 0
            while wanted < lacking:
                wanted += node
            for _ in range(wanted):
                if most is None or fixed + len(leases) + len(orders) + 1 <= most:
                    orders.append(now + provision)
            if all(end > now for end, _ in running) and all(at > now for at in orders):
                break
        needed = 0
        while needed < busy() + waiting() - fixed:
            needed += 1
        spare = max(0, len(leases) - needed)
        while len(idle) > spare:
            idle.pop()
        while len(idle) < spare:
            idle.append(now)
        while idle and idle[0] + release <= now:
            idle.pop(0)
            ended.append((leases.pop(), now))


def plain_spot(job, checkpoint, restart, gone=()):
    """Return start, end, time held, checkpoints and losses of a gang on spot GPUs."""

    def back(at):
        for begin, end in gone:
            if begin <= at < end:
                return end
        return at

    at = start = back(job.submit)
    saved = held = checkpoints = losses = 0
    breaks = sorted([(t, False) for t in set(job.losses)] + [(b, True) for b, _ in gone])

    def interrupted(begin, end):
        """Return the first loss inside a stretch, and whether all spot GPUs go at it."""
        for t, is_gone in sorted(breaks, key=lambda entry: (entry[0], not entry[1])):
            if t < end and (t > begin or (is_gone and t == begin)):
                return t, is_gone
        return None

    while True:
        piece = min(job.tau, job.run - saved)
        is_last = saved + piece == job.run
        lasting = piece + (0 if is_last else checkpoint)
        hit = interrupted(at, at + lasting)
        if hit is None:
            held += lasting
            at += lasting
            saved += piece
            if is_last:
                return start, at, held, checkpoints, losses
            checkpoints += 1
            continue
        while hit is not None:
            losses += 1
            held += hit[0] - at
            at = back(hit[0]) if hit[1] else hit[0]
            hit = interrupted(at, at + restart)
        held += restart
        at += restart


def held_gpu_us(run):
    """Return the GPU time that each job held, in all markets."""
    jobs = run.jobs
    held = (jobs.outside_us + run.spot_held_us) * jobs.gpus
    return held + np.maximum(jobs.pool_us, 0) * jobs.pool_gpus
