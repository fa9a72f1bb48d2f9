"""A slow, readable twin of rounds on several GPU types: placement, pauses, ends."""

from math import ceil


def spread(width, free):
    """The host that fits best, else the emptiest first; GPUs by host."""
    fitting = [host for host in free if free[host] >= width]
    if fitting:
        return {min(fitting, key=lambda host: (free[host], host)): width}
    parts = {}
    for host in sorted(free, key=lambda host: (-free[host], host)):
        parts[host] = min(width - sum(parts.values()), free[host])
    return {host: gpus for host, gpus in parts.items() if gpus}


def placed(chosen, kind, state, cluster, has_changed):
    """Hosts of the jobs that run on one type: job -> host -> GPUs."""
    each = cluster.gpus_per_host[kind]
    free = {(kind, number): each for number in range(cluster.gpus[kind] // each)}
    found = {}

    def put(job, parts):
        found[job] = parts
        for host, gpus in parts.items():
            free[host] -= gpus

    here = [job for job in chosen if chosen[job] == kind]
    for job in here:
        if state[job]["ran"] and state[job]["kind"] == kind:
            put(job, state[job]["hosts"])
    rest = [job for job in here if job not in found]
    rest.sort(key=lambda job: (state[job]["pipeline"], -state[job]["width"], job))
    for job in rest:
        old = state[job]["hosts"] if state[job]["kind"] == kind else {}
        if old and all(free[host] >= gpus for host, gpus in old.items()):
            put(job, old)
    for job in rest:
        if job not in found:
            put(job, spread(state[job]["width"], free))
    loose = [
        job
        for job in here
        if len(found[job]) > ceil(state[job]["width"] / each) and not state[job]["pipeline"]
    ]
    for job in sorted(loose, key=lambda job: (state[job]["state_gb"], job)) if has_changed else ():
        for host, gpus in found[job].items():
            free[host] += gpus
        better = spread(state[job]["width"], free)
        put(job, better if len(better) < len(found[job]) else found[job])
    return found


def replay(jobs, cluster, choose):
    """Ends (s), time lost (s) and restarts of each job; ``choose`` maps (round, jobs) to types."""
    round_s, n = cluster.round_s, jobs.gpus.size
    state = [
        {
            "width": int(jobs.gpus[job]),
            "left": float(jobs.work[job]),
            "first": ceil(jobs.submit_s[job] / round_s),
            "pipeline": bool(jobs.is_pipeline[job]),
            "state_gb": float(jobs.state_gb[job]),
            "kind": None,
            "hosts": {},
            "ran": False,
            "unpaid": 0.0,
            "lost": 0.0,
            "again": 0,
            "end": None,
        }
        for job in range(n)
    ]
    before, t = None, min(one["first"] for one in state)
    while any(one["end"] is None for one in state):
        alive = [job for job in range(n) if state[job]["end"] is None and state[job]["first"] <= t]
        if not alive:
            t, before = t + 1, []
            continue
        chosen = {job: kind for job, kind in choose(t, alive).items() if kind >= 0}
        hosts = {}
        for kind in range(len(cluster.gpus)):
            hosts |= placed(chosen, kind, state, cluster, alive != before)
        for job in alive:
            one = state[job]
            if job not in chosen:
                one["ran"] = False
                continue
            kind, started = chosen[job], one["kind"] is not None
            is_moved = started and hosts[job] != one["hosts"]
            if is_moved:
                one["unpaid"] = one["state_gb"] * 8 / cluster.gbps + cluster.restart_s
            elif started and not one["ran"]:
                one["unpaid"] += cluster.restart_s
            one["again"] += is_moved or (started and not one["ran"])
            one |= {"kind": kind, "hosts": hosts[job], "ran": True}
            lost = min(one["unpaid"], round_s)
            one["unpaid"] -= lost
            one["lost"] += lost
            rate = float(jobs.rate[job, kind])
            if len(hosts[job]) > ceil(one["width"] / cluster.gpus_per_host[kind]):
                rate *= cluster.cross_host[one["pipeline"]]
            done = rate * (round_s - lost) / round_s
            if one["left"] <= done:
                one["end"] = t * round_s + lost + one["left"] / rate * round_s
            one["left"] -= done
        before, t = [job for job in alive], t + 1
    return tuple([one[key] for one in state] for key in ("end", "lost", "again"))
