"""Which rule holds a waiting job when every start is given: worked out by hand, and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.simkit.twin import state
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.refusals import REASONS
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteJob,
    SiteNode,
    SitePartition,
    SiteQos,
)
from gpuplan.simkit.twin.watch import RULES, watch_site

pytestmark = pytest.mark.compiled
NODES = (SiteNode("a", 8), SiteNode("b", 8))
PARTS = (SitePartition("p", ("a", "b")), SitePartition("q", ("b",)))
SITE = SiteCluster(
    NODES, PARTS, (SiteQos("normal", user_gpus=4), SiteQos("group", grp_gpus=6, user_jobs=1)),
    (SiteAssociation("lab", grp_gpus=6), SiteAssociation("lab", "ann"), SiteAssociation("x")),
)  # fmt: skip
LIMITS = SchedulerConfig(limits=True)


def job(number, submit, gpus, **more):
    return SiteJob(number, submit, 1, gpus, 1000, more.pop("run", 100), **more)


def watched(jobs, starts, config=LIMITS, array=None, cap=(1,)):
    """Return the rules that held each job, as (rule, begin, end) by job."""
    made = SiteJobs.of(jobs)
    start = np.array(starts, np.int64)
    of_array = np.full(len(jobs), -1) if array is None else np.array(array)
    job, rule, begin, end = watch_site(
        SITE, made.changed(pinned=start), config, start, of_array.astype(np.int64),
        np.array(cap, np.int64),
    )  # fmt: skip
    rows = {}
    for place in np.lexsort((begin, job)):
        rows.setdefault(int(job[place]), []).append(
            (RULES[rule[place]], int(begin[place]), int(end[place]))
        )
    return rows


def test_codes_of_limits_are_those_of_refusals():
    assert [REASONS[code] for code in (
        state.OVER_QOS_GPUS, state.OVER_QOS_JOBS, state.OVER_USER_GPUS, state.OVER_USER_JOBS,
        state.OVER_ASSOC_JOBS, state.OVER_ASSOC_GPUS,
    )] == [
        "QOSGrpGRES", "QOSGrpJobsLimit", "QOSMaxGRESPerUser", "QOSMaxJobsPerUserLimit",
        "AssocMaxJobsLimit", "AssocGrpGRES",
    ]  # fmt: skip


def test_a_limit_holds_until_its_gpus_are_free_and_then_the_queue():
    # Ann may have 4 GPUs. Her first job has them from 0 to 100, her second waits for the limit to
    # 100 and, first of the queue, for resources to 130. Bob's job of 20 waits behind it.
    jobs = [
        job(1, 0, 4, user="ann"), job(2, 10, 2, user="ann"), job(3, 20, 1, user="bob"),
    ]  # fmt: skip
    assert watched(jobs, [0, 130, 150]) == {
        1: [("QOSMaxGRESPerUser", 10, 100), ("Resources", 100, 130)],
        2: [("Resources", 20, 100), ("Priority", 100, 130), ("Resources", 130, 150)],
    }


def test_each_partition_has_a_first_job():
    jobs = [job(1, 0, 1), job(2, 0, 1, partition="q", user="bob"), job(3, 5, 1, user="cid")]
    assert watched(jobs, [50, 60, 70]) == {
        0: [("Resources", 0, 50)],
        1: [("Resources", 0, 60)],
        2: [("Priority", 5, 50), ("Resources", 50, 70)],
    }


def test_limits_of_a_qos_and_of_an_account():
    jobs = [
        job(1, 0, 4, user="ann", qos="group"), job(2, 1, 4, user="bob", qos="group"),
        job(3, 2, 1, user="ann", qos="group"), job(4, 3, 4, user="eve", account="lab"),
        job(5, 4, 4, user="ann", account="lab"),
    ]  # fmt: skip
    found = watched(jobs, [0, 100, 100, 3, 103])
    assert found == {
        1: [("QOSGrpGRES", 1, 100)],
        2: [("QOSMaxJobsPerUserLimit", 2, 100)],
        4: [("AssocGrpGRES", 4, 103)],
    }


def test_the_limit_of_an_array_holds_before_all_others():
    jobs = [job(n, 0, 1, user=f"u{n}") for n in range(4)]
    found = watched(jobs, [0, 0, 100, 100], array=[0, 0, 0, 0], cap=[2])
    assert found == {2: [("JobArrayTaskLimit", 0, 100)], 3: [("JobArrayTaskLimit", 0, 100)]}


def test_a_cancelled_job_leaves_the_queue():
    # The first job of the queue leaves at 40; the second is the first then.
    jobs = [job(1, 0, 1, cancel=40), job(2, 0, 1, user="bob")]
    assert watched(jobs, [-1, 90]) == {
        0: [("Resources", 0, 40)],
        1: [("Priority", 0, 40), ("Resources", 40, 90)],
    }


def test_without_limits_only_the_queue_holds():
    jobs = [job(1, 0, 4, user="ann"), job(2, 10, 2, user="ann")]
    assert watched(jobs, [0, 130], SchedulerConfig()) == {1: [("Resources", 10, 130)]}


rows_of_jobs = st.lists(
    st.tuples(
        st.integers(0, 50), st.integers(0, 60), st.integers(0, 30), st.integers(1, 4),
        st.sampled_from("abc"), st.sampled_from("pq"), st.integers(-1, 1),
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip


@given(rows_of_jobs, st.booleans())
@settings(max_examples=60)
def test_spells_cover_each_wait_without_a_gap_or_an_overlap(rows, multifactor):
    jobs = [
        job(number, submit, gpus, run=run, user=user, partition=part)
        for number, (submit, _, run, gpus, user, part, _) in enumerate(rows)
    ]
    starts = [submit + wait for submit, wait, *_ in rows]
    config = SchedulerConfig(
        limits=True, order="multifactor" if multifactor else "fifo", w_age=100, w_fairshare=1000,
        calc_period=7,
    )  # fmt: skip
    found = watched(jobs, starts, config, [row[-1] for row in rows], cap=[1, 2])
    for number, (submit, wait, *_) in enumerate(rows):
        spells = found.get(number, [])
        edges = [submit] + [end for _, _, end in spells]
        assert [begin for _, begin, _ in spells] == edges[:-1]
        assert edges[-1] == submit + wait
        assert all(end > begin for _, begin, end in spells)
