"""The replay of fixed widths once more, slow and plain: the oracle of the kernel.

Rules as in docs/boa.md, section "Replay": a list of jobs, a list of nodes, fresh sums at each
event, every epoch an event of its own. Also small workloads to replay.
"""

from dataclasses import dataclass
from math import floor

import numpy as np

from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.simkit.elastic.kernel import NARROW, SQUEEZE, WHOLE, ElasticRules, Paths


def rules_of(**changes):
    """A cluster without delays or limits, one GPU a node; times in microseconds."""
    default = ElasticRules(
        node_gpus=1,
        provision_us=0,
        release_us=0,
        from_request=False,
        max_nodes=1 << 40,
        start=WHOLE,
        horizon_us=0,
    )
    return default._replace(**changes)


def paths_of(*paths):
    """Paths of (widths, target of each epoch, times[epoch][width], rescale)."""
    most, size = max(len(p[1]) for p in paths), max(len(p[0]) for p in paths)
    width = np.ones((len(paths), size), np.int64)
    target = np.zeros((len(paths), most), np.int64)
    times = np.zeros((len(paths), most, size))
    for row, (widths, aims, per_work, _) in enumerate(paths):
        width[row, : len(widths)] = widths
        target[row, : len(aims)] = aims
        times[row, : len(aims), : len(widths)] = per_work
    epochs = np.array([len(p[1]) for p in paths])
    return Paths(width, target, times, epochs, np.array([p[3] for p in paths], np.int64))


def workload_of_jobs(classes, submit_s, job_class, work_h, horizon_h):
    size = len(submit_s)
    arrivals = ClassArrivals(
        submit_s=np.asarray(submit_s, float),
        job_class=np.asarray(job_class, np.int64),
        work_h=np.asarray(work_h, float),
        gpus=np.ones(size),
    )
    return ClassWorkload(tuple(classes), horizon_h, size, "option", (), arrivals=arrivals)


@dataclass
class Job:
    submit: int
    work: float
    widths: list
    aims: list
    times: list
    rescale: int
    epoch: int = 0
    at: int = -1  # index of its width; -1 before the start
    waits: bool = False
    left: int = 0
    pause: int = 0  # what is left of its last start or change of width
    start: int = -1
    finish: int = -1
    rescales: int = 0
    held: int = 0

    @property
    def holds(self):
        return self.widths[self.at] if self.at >= 0 and self.finish < 0 else 0

    @property
    def asks(self):
        return self.widths[self.aims[self.epoch]] if self.waits else self.holds

    def epoch_us(self, at):
        return floor(self.work * self.times[self.epoch][at] + 0.5)


def twin(submit, path_of, work, paths, rules, billing_us=1):
    """(start, finish, rescales, held) of each job, rented GPUs at each instant, levels, bill."""
    jobs = [
        Job(
            submit=int(submit[i]),
            work=float(work[i]),
            widths=paths.width[p].tolist(),
            aims=paths.target[p, : paths.epochs[p]].tolist(),
            times=paths.time_per_work[p].tolist(),
            rescale=int(paths.rescale_us[p]),
        )
        for i, p in enumerate(path_of)
    ]
    coming = list(jobs)
    queue = []
    leases, orders, idle = [], [], []  # beginnings of leases; ready times; since when idle
    rented, levels, clock, bill = {}, {}, 0, 0
    g = rules.node_gpus

    def running():
        return [job for job in jobs if job.at >= 0 and job.finish < 0]

    while True:
        times = [clock + job.left for job in running()]
        times += orders + [job.submit for job in coming[:1]] + [t + rules.release_us for t in idle]
        if not times:
            break
        now = min(times)
        level = sum(job.asks for job in jobs)
        inside = min(now, rules.horizon_us) - min(clock, rules.horizon_us)
        levels[level] = levels.get(level, 0) + inside
        for job in running():
            job.left -= now - clock
            job.pause = max(0, job.pause - (now - clock))
            job.held += job.holds * (now - clock)
        clock = now

        over = [job for job in running() if job.left == 0]
        if over:
            job = over[0]
            job.epoch += 1
            if job.epoch == len(job.aims):
                job.finish, job.waits = now, False
            else:
                aim = job.aims[job.epoch]
                if aim > job.at:
                    if not job.waits:
                        queue.append(job)
                    job.waits = True
                    job.left = job.epoch_us(job.at)
                else:
                    if job.waits:
                        queue.remove(job)
                    job.waits = False
                    job.left = job.epoch_us(aim)
                    if aim < job.at:
                        job.at = aim
                        job.rescales += 1
                        job.left += job.rescale
                        job.pause = job.rescale
            queue = [waiting for waiting in queue if waiting.waits]
        elif now in orders:
            while now in orders:
                orders.remove(now)
                leases.append(now - (rules.provision_us if rules.from_request else 0))
        elif coming and coming[0].submit == now:
            job = coming.pop(0)
            job.waits = True
            queue.append(job)
        else:
            while idle and idle[0] + rules.release_us == now:
                idle.pop(0)
                length = now - leases.pop()
                bill += g * -(-length // billing_us) * billing_us

        while queue:
            job = queue[0]
            aim = job.aims[job.epoch]
            spare = len(leases) * g - sum(other.holds for other in jobs)
            fits = [
                at for at in range(job.at, aim + 1) if at < 0 or job.widths[at] - job.holds <= spare
            ]
            to = max(fits, default=-1)
            growing = len(leases) < rules.max_nodes
            if to < aim and growing:  # only a start takes fewer GPUs than its width, and then waits
                first = job.at < 0 and rules.provision_us > 0
                if rules.start not in (NARROW, SQUEEZE) or not first:
                    break
            elif to < aim and rules.start != SQUEEZE:
                break
            if to < 0:
                break
            if to == aim or not growing:
                queue.pop(0)
                job.waits = False
            if to == job.at:
                continue
            if job.at < 0:
                job.start = now
                job.left = job.epoch_us(to)
            elif job.times[job.epoch][job.at] > 0:
                share = job.times[job.epoch][to] / job.times[job.epoch][job.at]
                job.left = floor((job.left - job.pause) * share + 0.5)
            else:
                job.left -= job.pause
            job.at = to
            job.rescales += 1
            job.left += job.rescale
            job.pause = job.rescale

        needed = -(-sum(job.asks for job in jobs) // g)
        more = min(needed, rules.max_nodes) - len(leases) - len(orders)
        orders += [now + rules.provision_us] * more
        spare_nodes = max(0, len(leases) - needed)
        idle = (idle + [now] * spare_nodes)[: max(spare_nodes, 0)]
        rented[now] = g * (len(leases) + (len(orders) if rules.from_request else 0))
    return jobs, rented, levels, bill
