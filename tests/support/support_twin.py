"""Random sites and jobs of the twin, small enough for the plain replay."""

from hypothesis import strategies as st

from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteJob,
    SiteNode,
    SiteNodeEvent,
    SitePartition,
    SiteQos,
)

POOL = SiteCluster((SiteNode("n", 8),), (SitePartition("p", ("n",)),))


def schedule(site, jobs, config):
    """Return starts, ends, nodes and reasons by job id, as the kernel finds them."""
    arrays = SiteJobs.of(jobs)
    run = replay_site(site, arrays, config)
    ids = arrays.id.tolist()
    started = [i for i in range(len(ids)) if run.start[i] >= 0]
    return (
        {ids[i]: int(run.start[i]) for i in started},
        {ids[i]: int(run.end[i]) for i in started},
        {ids[i]: tuple(run.nodes(i)) for i in started},
        {ids[i]: run.reason(i) for i in range(len(ids)) if run.start[i] < 0},
    )


@st.composite
def configs(draw):
    """Any settings, with small periods."""
    multifactor = draw(st.booleans())
    weight = st.integers(0, 2000)
    return SchedulerConfig(
        order="multifactor" if multifactor else "fifo",
        tiers=draw(st.booleans()),
        backfill=draw(st.sampled_from(["none", "easy", "conservative", "slurm", "slurm"])),
        limits=draw(st.booleans()),
        events=draw(st.booleans()),
        placement=draw(st.sampled_from(["best-fit", "first-fit", "least-loaded"])),
        queue_depth=draw(st.sampled_from([2, 100])),
        sched_interval=draw(st.sampled_from([0, 60])),
        bf_interval=draw(st.sampled_from([1, 7, 30])),
        bf_window=draw(st.sampled_from([50, 300, 86400])),
        bf_max_job_test=draw(st.sampled_from([2, 5, 500])),
        bf_max_job_user=draw(st.sampled_from([None, 1, 3])),
        bf_max_job_part=draw(st.sampled_from([None, 2, 4])),
        bf_resolution=draw(st.sampled_from([1, 7, 60])),
        bf_phase=draw(st.sampled_from([0, 5])),
        calc_phase=draw(st.sampled_from([0, 3])),
        w_age=draw(weight),
        w_fairshare=draw(weight),
        w_size=draw(weight),
        w_partition=draw(weight),
        w_qos=draw(weight),
        w_tres_gpu=draw(weight),
        max_age=draw(st.sampled_from([50, 1000])),
        favor_small=draw(st.booleans()),
        fairshare=draw(st.sampled_from(["tree", "classic"])),
        dampening=draw(st.sampled_from([1.0, 3.0])),
        half_life=draw(st.sampled_from([0, 100, 5000])),
        calc_period=draw(st.sampled_from([10, 45])),
    )


@st.composite
def sites(draw):
    """Up to 4 nodes of 2 types, 3 partitions that overlap, QOS, accounts, node events."""
    nodes = tuple(
        SiteNode(f"n{i}", draw(st.integers(1, 4)), draw(st.sampled_from(["a", "h"])),
                 draw(st.integers(1, 2)))
        for i in range(draw(st.integers(1, 4)))
    )  # fmt: skip
    names = [node.name for node in nodes]
    limit = st.sampled_from([None, None, 1, 2, 4])
    partitions = tuple(
        SitePartition(
            name, tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True))),
            draw(st.integers(1, 2)), draw(st.integers(0, 3)),
            draw(st.sampled_from([None, None, 60])), draw(st.sampled_from([None, None, 2])),
            draw(st.sampled_from(["", "", "pq"])),
        )
        for name in ("p", "q", "r")
    )  # fmt: skip
    qos = tuple(
        SiteQos(name, draw(st.integers(0, 10)), draw(limit), draw(limit), draw(limit),
                draw(limit), draw(limit), draw(st.sampled_from([None, None, 80])))
        for name in ("normal", "high", "pq")
    )  # fmt: skip
    assocs = (
        SiteAssociation("x", shares=draw(st.integers(0, 3)), grp_gpus=draw(limit)),
        SiteAssociation("x1", parent="x", shares=draw(st.integers(0, 3)), grp_gpus=draw(limit)),
        SiteAssociation("x1", "u", shares=draw(st.integers(0, 2)), max_jobs=draw(limit)),
        SiteAssociation("x2", parent="x", usage=0.0),
        SiteAssociation("x2", "v", usage=float(draw(st.sampled_from([0, 100])))),
    )
    events = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, 150))
        announced = draw(st.sampled_from([None, 0, start]))
        events.append(
            SiteNodeEvent(draw(st.sampled_from(names)), start, start + draw(st.integers(1, 90)),
                          announced)
        )  # fmt: skip
    return SiteCluster(nodes, partitions, qos, assocs, tuple(events))


@st.composite
def site_jobs(draw, most=14, parts=("p", "q", "r"), nodes=2, gpus=3, plain=False):
    """Return jobs; ``plain`` ones have no cancellation, pin, hold, niceness or billing."""
    jobs, submit = [], 0
    for number in range(1, draw(st.integers(1, most)) + 1):
        submit += draw(st.sampled_from([0, 0, 1, 5, 30]))
        run = draw(st.integers(0 if not plain else 1, 60))
        fields = {}
        if not plain:
            fields = {
                "user": draw(st.sampled_from("uvw")),
                "account": draw(st.sampled_from(["x1", "x2", "z"])),
                "qos": draw(st.sampled_from(["normal", "high", "other"])),
                "gpu_type": draw(st.sampled_from(["", "", "a", "h"])),
                "eligible": draw(st.sampled_from([None, None, submit + 20])),
                "nice": draw(st.sampled_from([0, 0, 300])),
                "billing": draw(st.sampled_from([None, 7.0])),
            }
            kind = draw(st.sampled_from(["", "", "", "cancel", "pinned"]))
            if kind:
                fields[kind] = submit + draw(st.integers(0, 60))
        jobs.append(
            SiteJob(
                number, submit, draw(st.integers(1, nodes)), draw(st.integers(1, gpus)),
                max(1, run + draw(st.sampled_from([-20, 0, 0, 10, 100]))), run,
                partition=draw(st.sampled_from(parts)), **fields,
            )
        )  # fmt: skip
    return jobs


def exact(jobs):
    """Return the jobs with limits equal to their run times."""
    return [
        SiteJob(j.id, j.submit, j.nodes, j.gpus, max(j.runtime, 1), max(j.runtime, 1)) for j in jobs
    ]


def counted_schedule(jobs, gpus, conservative):
    """EASY or conservative backfill by counts of GPUs, on one pool: Job id -> start.

    Written from the definitions, second by second; jobs have ``nodes`` 1.
    """
    start, running, queue = {}, [], []
    todo = sorted(jobs, key=lambda j: (j.submit, j.id))
    now = 0
    while todo or queue or running:
        ends = [s + j.runtime for s, j in running] + [j.submit for j in todo[:1]]
        now = max(now, min(ends))
        running = [(s, j) for s, j in running if s + j.runtime > now]
        while todo and todo[0].submit <= now:
            queue.append(todo.pop(0))
        plan = [(now, max(s + j.limit, now + 1), j.gpus) for s, j in running]

        def free(begin, end, plan=plan):
            marks = [begin] + [s for s, _, _ in plan if begin < s < end]
            return gpus - max(sum(g for s, e, g in plan if s <= m < e) for m in marks)

        reserved = False
        for j in list(queue):
            times = sorted({now} | {e for _, e, _ in plan})
            if reserved and not conservative:
                times = [now]
            at = next((t for t in times if free(t, t + j.limit) >= j.gpus), None)
            if at is None:
                continue
            plan.append((at, at + j.limit, j.gpus))
            if at == now:
                queue.remove(j)
                start[j.id] = now
                running.append((now, j))
            else:
                reserved = True
    return start


def uses(jobs, start, nodes):
    """Return the GPUs in use on each node at each start."""
    by_id = {j.id: j for j in jobs}
    found = []
    for t in sorted(set(start.values())):
        use = {}
        for i, s in start.items():
            if s <= t < s + by_id[i].runtime:
                for n in nodes[i]:
                    use[n] = use.get(n, 0) + by_id[i].gpus
        found.append((t, use))
    return found
