"""A slow, readable twin of the rounds, and random workloads for both."""

from math import ceil, floor, inf

import numpy as np

from gpuplan.simkit.rounds.simulator import RoundsJobs

FLOOR = 4e-3


def best_widths(cost, gpus):
    """Widths of least total cost by the textbook recursion over jobs and GPUs.

    Where several are best, those of fewest GPUs, and of these the ones that favour earlier jobs.
    """

    def better(row, c):
        found = [(best[c - k], k) for k in range(min(c, len(row) - 1) + 1)]
        return min((round(b[0] + row[k], 9), b[1] + k, (*b[2], -k)) for b, k in found)

    best = [(0.0, 0, ())] * (gpus + 1)
    for row in cost:
        best = [better(row, c) for c in range(gpus + 1)]
    return [-k for k in best[gpus][2]]


def drawn(rng, jobs=12, most=6, classes=None):
    """Jobs with one to three epochs, concave speedups and gaps of minutes.

    Each is a class of its own by default, since like jobs can change places at no cost.
    """
    classes = classes or jobs
    epochs = rng.integers(1, 4, classes)
    first = np.concatenate(([0], np.cumsum(epochs)))
    alpha = rng.uniform(0.3, 0.95, first[-1])
    speedup = np.arange(most + 1) ** alpha[:, None]
    share = np.concatenate([np.full(count, 1 / count) for count in epochs])
    return RoundsJobs(
        submit_us=np.sort(rng.integers(0, 1_200_000_000, jobs)),
        group=np.arange(jobs) % classes,
        work_us=rng.exponential(900e6, jobs),
        first_epoch=first,
        work_share=share,
        speedup=speedup,
        rescale_us=rng.integers(0, 40_000_000, classes),
    )


def fitness_cost(job, s, fair, power, penalty):
    """Cost of each width of one job: what Pollux' mean adds up, to be minimized."""
    age, pause, restarts = job["age"], job["pause"], max(0, job["starts"] - 1)
    factor = max(0, age - restarts * pause) / (age + pause) if penalty and pause else 1.0
    base = s[max(1, min(fair, len(s) - 1))]
    found = []
    for k, value in enumerate(s):
        x = value / base * (1.0 if k == job["width"] else factor)
        found.append(-((x + FLOOR) ** power) if power > 0 else (x + FLOOR) ** power)
    return found


def pollux(jobs, tables, gpus, power, *, penalty=True):
    fair = ceil(gpus / len(jobs))
    costs = [fitness_cost(j, t, fair, power, penalty) for j, t in zip(jobs, tables, strict=True)]
    return best_widths(costs, gpus)


def equal(jobs, tables, gpus):
    widest = len(tables[0]) - 1
    share, rest = divmod(gpus, len(jobs))
    return [min(widest, share + (i < rest)) for i in range(len(jobs))]


def efficiency(widths, tables, gpus):
    return sum(t[k] for k, t in zip(widths, tables, strict=True)) / gpus


def gap_of(jobs, tables, policy, gpus):
    widths = pollux(jobs, tables, gpus, policy.power, penalty=False)
    return efficiency(widths, tables, gpus) - policy.target


def best_size(jobs, tables, policy, most):
    node = policy.node_gpus
    usable = len(jobs) * (len(tables[0]) - 1)
    low, high = 1, max(1, min(most, usable + node - 1) // node)
    while high - low > 1:
        middle = (low + high) // 2
        if gap_of(jobs, tables, policy, middle * node) > 0:
            low = middle
        else:
            high = middle
    return min((abs(gap_of(jobs, tables, policy, n * node)), n * node) for n in (low, high))[1]


def run_twin(work, policy):
    """Run all jobs; returns finish, waited, held, starts per job, and the time line."""
    step = round(policy.interval_s * 1e6)
    node, provision = policy.node_gpus, round(policy.provision_s * 1e6)
    tables = work.speedup.tolist()  # plain floats: NumPy's take ten times as long to round
    most = policy.max_gpus // node * node
    waiting = [
        {
            "number": i,
            "submit": int(work.submit_us[i]),
            "pause": int(work.rescale_us[g]),
            "epochs": list(range(work.first_epoch[g], work.first_epoch[g + 1])),
            "work": float(work.work_us[i]),
            "left": float(work.work_us[i] * work.work_share[work.first_epoch[g]]),
            "width": 0,
            "starts": 0,
            "waited": 0,
            "held": 0,
            "to_pause": 0,
        }
        for i, g in enumerate(work.group.tolist())
    ]
    every = list(waiting)
    active, timeline, recent = [], [], []
    ready = most if policy.target is None else 0
    order = None  # GPUs on their way, and when they come
    now = ceil(waiting[0]["submit"] / step) * step
    while waiting or active:
        if not active:
            now = max(now, ceil(waiting[0]["submit"] / step) * step)
        while waiting and waiting[0]["submit"] <= now:
            job = waiting.pop(0)
            job["waited"] = now - job["submit"]
            active.append(job)
        for job in active:
            job["age"] = now - job["submit"]
        rows = [tables[job["epochs"][0]] for job in active]
        if order and now >= order[1]:
            ready, order = ready + order[0], None
        if policy.target is not None and not order:
            recent.append(efficiency([j["width"] for j in active], rows, ready) if ready else inf)
            recent = recent[-policy.window :]
            off = len(recent) == policy.window and (
                abs(np.mean(recent) - policy.target) > policy.band
            )
            if ready == 0 or off:
                size = best_size(active, rows, policy, most)
                if size > ready and provision:
                    order = (size - ready, now + provision)
                else:
                    ready = size
                recent = []
        if policy.share == "equal":
            widths = equal(active, rows, ready)
        else:
            widths = pollux(active, rows, ready, policy.power)
        rented = ready + (order[0] if order else 0)
        if not timeline or timeline[-1][1] != rented:
            timeline.append((now, rented))
        for job, width in zip(active, widths, strict=True):
            if width != job["width"]:
                job["width"] = width
                if width:
                    job["to_pause"], job["starts"] = job["pause"], job["starts"] + 1
            if not width:
                job["waited"] += step
                continue
            used = min(job["to_pause"], step)
            job["to_pause"] -= used
            while job["epochs"] and used < step:
                rate = tables[job["epochs"][0]][width]
                if job["left"] > rate * (step - used):
                    job["left"] -= rate * (step - used)
                    used = step
                else:
                    used += job["left"] / rate
                    job["epochs"].pop(0)
                    if job["epochs"]:
                        job["left"] = job["work"] * work.work_share[job["epochs"][0]]
            used = floor(used + 0.5)
            job["held"] += used * width
            if not job["epochs"]:
                job["finish"] = now + used
        active = [job for job in active if job["epochs"]]
        now += step
        if policy.target is not None and not active:
            ready, order, recent = 0, None, []
            if timeline[-1][1]:
                timeline.append((now, 0))
    if policy.target is None:
        timeline = [(0, most), (max(job["finish"] for job in every), 0)]
    columns = [[job[key] for job in every] for key in ("finish", "waited", "held", "starts")]
    return (*columns, timeline)
