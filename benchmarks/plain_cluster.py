"""First fit and least time left, with heapq and plain Python, to compare with the kernel."""

import heapq
from collections import defaultdict

from gpuplan.simkit.workload import Workload


def first_fit(work: Workload, gpus: int) -> list[int]:
    """Return when each job ends; jobs pass others that do not fit, and none is stopped."""
    jobs = list(
        zip(*(a.tolist() for a in (work.submit_us, work.service_us, work.gpus)), strict=True)
    )
    finish, waiting = [0] * len(jobs), defaultdict[int, list[int]](list)
    running: list[tuple[int, int]] = []
    free, coming = gpus, 0
    while coming < len(jobs) or running:
        now = running[0][0] if running else jobs[coming][0]
        if coming < len(jobs):
            now = min(now, jobs[coming][0])
        while running and running[0][0] == now:
            free += jobs[heapq.heappop(running)[1]][2]
        while coming < len(jobs) and jobs[coming][0] == now:
            heapq.heappush(waiting[jobs[coming][2]], coming)
            coming += 1
        while fits := [line[0] for width, line in waiting.items() if line and width <= free]:
            job = min(fits)
            _, service, width = jobs[job]
            heapq.heappop(waiting[width])
            free -= width
            finish[job] = now + service
            heapq.heappush(running, (now + service, job))
    return finish


def least_left(work: Workload, gpus: int) -> list[int]:
    """Return when each job ends; at each event the cluster is filled anew, the least left first."""
    jobs = list(
        zip(*(a.tolist() for a in (work.submit_us, work.service_us, work.gpus)), strict=True)
    )
    left, finish = [job[1] for job in jobs], [0] * len(jobs)
    active, running = list[int](), list[int]()
    now = coming = 0
    while coming < len(jobs) or active:
        times = [now + left[job] for job in running]
        if coming < len(jobs):
            times.append(jobs[coming][0])
        then = min(times)
        for job in running:
            left[job] -= then - now
            if left[job] == 0:
                finish[job] = then
        active = [job for job in active if left[job]]
        now = then
        while coming < len(jobs) and jobs[coming][0] == now:
            active.append(coming)
            coming += 1
        heap = [(left[job], job) for job in active]
        heapq.heapify(heap)
        free, running = gpus, []
        while heap and free:
            job = heapq.heappop(heap)[1]
            if jobs[job][2] <= free:
                free -= jobs[job][2]
                running.append(job)
    return finish
