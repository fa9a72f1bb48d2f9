"""Random sites and workloads for the rules of Kueue and KAI."""

import numpy as np
from hypothesis import strategies as st
from support_quota_state import as_jobs

from gpuplan.simkit.quota.kai_simulator import KaiJobs, KaiSite
from gpuplan.simkit.quota.kai_site import KaiQueue
from gpuplan.simkit.quota.site import (
    PodSet,
    Quota,
    QuotaCohort,
    QuotaFlavor,
    QuotaJobs,
    QuotaQueue,
    QuotaSite,
)

WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
LIMITS = st.sampled_from([None, None, 0, 2, 4])
QUOTAS = st.builds(Quota, st.integers(0, 6), LIMITS, LIMITS)


def gpu_queue(name, nominal, cohort=None, limit=None, lent=None, **rules):
    group = (QuotaFlavor("h100", {"gpu": Quota(nominal, limit, lent)}),)
    return QuotaQueue(name, (group,), cohort, **rules)


def jobs_of(rows):
    """Return workloads from rows (queue, priority, submit, run, GPUs)."""
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    return QuotaJobs.of_gpus(*columns)


@st.composite
def lines(draw):
    """Jobs for one queue of 8 GPUs, at different times so that ties play no part."""
    rows = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(1, 8)),
                         min_size=1, max_size=15))  # fmt: skip
    gaps, run, gpus = (np.array(column) for column in zip(*rows, strict=True))
    return np.cumsum(gaps), run, gpus


@st.composite
def queues(draw, name, cohorts, plain=False):
    """A queue with one or two flavors of one or two resources."""
    resources = ["gpu"] if plain else draw(st.sampled_from([["gpu"], ["gpu"], ["cpu", "gpu"]]))
    flavors = ["f1"] if plain else draw(st.sampled_from([["f1"], ["f2"], ["f1", "f2"]]))
    group = tuple(QuotaFlavor(f, {r: draw(QUOTAS) for r in resources}) for f in flavors)
    borrow = draw(st.sampled_from(["Never", "LowerPriority"]))
    return QuotaQueue(
        name,
        (group,),
        draw(st.sampled_from([None, *cohorts, *cohorts])),
        draw(st.sampled_from([0.0, 1.0, 1.0, 2.0])),
        draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"])),
        draw(st.sampled_from(WITHIN)),
        draw(st.sampled_from(["Never", "LowerPriority", "Any", "Any"])),
        borrow,
        draw(st.sampled_from([None, 0, 1])) if borrow != "Never" else None,
        draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
        draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
        draw(st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"])),
    )


@st.composite
def sites(draw, fair=None):
    """A site of up to four queues in up to three cohorts."""
    parents = draw(st.sampled_from([{"a": None}, {"a": None, "b": "a"},
                                    {"a": "r", "b": "r", "r": None}]))  # fmt: skip
    cohorts = [
        QuotaCohort(
            name, parent, draw(st.sampled_from([0.0, 1.0, 2.0])),
            draw(st.dictionaries(st.sampled_from([("f1", "gpu"), ("f2", "gpu")]), QUOTAS)),
        )
        for name, parent in parents.items()
    ]  # fmt: skip
    count = draw(st.integers(1, 4))
    members = [draw(queues(f"q{i}", list(parents))) for i in range(count)]
    return QuotaSite(
        tuple(members),
        tuple(cohorts),
        draw(st.booleans()) if fair is None else fair,
        draw(st.sampled_from([("final", "initial"), ("final",), ("initial",)])),
        draw(st.booleans()),
        draw(st.booleans()),
    )


POD_SETS = st.builds(
    lambda requests, count, cut, flavors: PodSet(
        requests, count, None if cut is None else max(0, count - cut), flavors
    ),
    st.sampled_from([{"gpu": 1}, {"gpu": 2}, {"gpu": 3}, {"gpu": 1, "cpu": 1}, {"cpu": 2}]),
    st.integers(1, 3),
    st.sampled_from([None, None, 1, 2]),
    st.sampled_from([None, None, None, frozenset({"f1"}), frozenset({"f2"})]),
)


@st.composite
def workloads(draw, count, most=12, plain=False):
    """Workloads for this many queues."""
    shapes = draw(st.lists(st.lists(POD_SETS, min_size=1, max_size=2).map(tuple),
                           min_size=1, max_size=4))  # fmt: skip
    if plain:
        shapes = [(PodSet({"gpu": size}),) for size in (1, 2, 3, 5)]
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, count - 1), st.integers(0, 2), st.integers(0, 40),
                st.integers(0, 40), st.integers(0, len(shapes) - 1),
            ),
            min_size=1, max_size=most,
        )
    )  # fmt: skip
    queue, priority, submit, run, pods = zip(*rows, strict=True)
    uid = draw(st.permutations(range(len(rows))))
    columns = {"queue": queue, "priority": priority, "submit": submit, "created": submit,
               "run": run, "pods": pods, "uid": uid}  # fmt: skip
    return as_jobs(columns, shapes)


@st.composite
def cases(draw, most=12, fair=None):
    """A site and its workloads."""
    site = draw(sites(fair))
    return site, draw(workloads(len(site.queues), most))


@st.composite
def crowds(draw, most=20, fair=None):
    """Queues that share one kind of GPU, borrow, and take back what they lent."""
    parents = draw(st.sampled_from([{"a": None}, {"a": "r", "b": "r", "r": None}]))
    leaves = [name for name in parents if name != "r"]
    members = []
    for i in range(draw(st.integers(2, 4))):
        flavors = draw(st.sampled_from([["f1"], ["f1"], ["f1", "f2"]]))
        nominal = draw(st.integers(1, 5))
        limit, lent = draw(st.sampled_from([None, None, 4])), draw(st.sampled_from([None, None, 2]))
        group = tuple(QuotaFlavor(f, {"gpu": Quota(nominal, limit, lent)}) for f in flavors)
        members.append(
            QuotaQueue(
                f"q{i}", (group,), draw(st.sampled_from(leaves)),
                draw(st.sampled_from([0.0, 1.0, 1.0, 2.0])),
                draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO"])),
                draw(st.sampled_from(WITHIN)),
                draw(st.sampled_from(["LowerPriority", "Any", "Any"])),
                draw(st.sampled_from(["Never", "LowerPriority"])),
                None,
                draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
                draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
                draw(st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"])),
            )
        )  # fmt: skip
    site = QuotaSite(
        tuple(members),
        tuple(QuotaCohort(name, parent) for name, parent in parents.items()),
        draw(st.booleans()) if fair is None else fair,
        draw(st.sampled_from([("final", "initial"), ("final",), ("initial",)])),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(members) - 1), st.integers(0, 2), st.integers(0, 60),
                st.integers(5, 60), st.integers(0, 3),
            ),
            min_size=4, max_size=most,
        )
    )  # fmt: skip
    queue, priority, submit, run, pods = zip(*rows, strict=True)
    columns = {"queue": queue, "priority": priority, "submit": submit, "created": submit,
               "run": run, "pods": pods, "uid": range(len(rows))}  # fmt: skip
    shapes = [(PodSet({"gpu": 1}, 1),), (PodSet({"gpu": 1}, 2),), (PodSet({"gpu": 1}, 4, 2),),
              (PodSet({"gpu": 1}, 1), PodSet({"gpu": 2}, 1))]  # fmt: skip
    return site, as_jobs(columns, shapes)


@st.composite
def kai_crowds(draw, most=9, gangs=None):
    """Jobs of three queues of KAI, two of them in a department, on a few nodes."""
    deserved, runtimes = st.sampled_from([0.0, 2.0, 4.0, -1.0]), st.sampled_from([None, None, 6])
    limits, weights = st.sampled_from([-1.0, -1.0, 6.0]), st.sampled_from([1.0, 1.0, 3.0, 0.0])
    priorities = st.sampled_from([100, 100, 101])
    department = KaiQueue("d", deserved=draw(st.sampled_from([-1.0, 6.0])), limit=draw(limits),
                          reclaim_min_runtime=draw(runtimes))  # fmt: skip
    leaves = [
        KaiQueue(
            name, parent, draw(priorities), draw(deserved), draw(limits), draw(weights), created,
            preempt_min_runtime=draw(runtimes), reclaim_min_runtime=draw(runtimes),
        )
        for created, (name, parent) in enumerate([("b", "d"), ("a", "d"), ("c", None)])
    ]  # fmt: skip
    rows = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.sampled_from([50, 50, 75, 100]), st.booleans(),
                      st.integers(0, 30), st.integers(0, 30), st.sampled_from([1, 1, 2, 3, 4]),
                      st.integers(1, 3), st.integers(1, 3)),
            min_size=1, max_size=most,
        )
    )  # fmt: skip
    whole = draw(st.booleans()) if gangs is None else gangs
    columns = zip(*rows, strict=True)
    queue, priority, fixed, submit, run, size, tasks, least = (np.array(c, int) for c in columns)
    jobs = KaiJobs(
        queue, priority, fixed * (priority == 100), submit, run, size, tasks,
        tasks if whole else np.minimum(tasks, least),
    )  # fmt: skip
    nodes = draw(st.lists(st.sampled_from([4, 4, 5, 8]), min_size=1, max_size=3))
    site = KaiSite(
        tuple(nodes), (department, *leaves), draw(st.sampled_from([0.0, 0.0, 1.0])), 0,
        draw(st.sampled_from([0, 12])), draw(st.sampled_from([-1, 1, 16])),
    )  # fmt: skip
    return site, jobs
