"""Cases of the twin's finer rules worked out by hand: the kernel and the plain replay agree."""

from dataclasses import replace

import pytest
from support_twin import schedule
from support_twin_oracle import simulate

from gpuplan.simkit.twin.kernel import SLICE_S
from gpuplan.simkit.twin.simulator import LARGEST, MOST_GPUS
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

pytestmark = pytest.mark.compiled
J = SiteJob  # id, submit, nodes, GPUs per node, limit, run time
PAIR = SiteCluster(
    (SiteNode("a", 1), SiteNode("b", 1)), (SitePartition("p", ("a",)), SitePartition("q", ("b",)))
)


def starts_and_reasons(site, jobs, **settings):
    """Return both by job id, after the plain replay said the same."""
    config = SchedulerConfig(**settings)
    start, _, _, reasons = schedule(site, jobs, config)
    plain = simulate(site, jobs, config)
    assert (start, reasons) == (plain.start, plain.rejected)
    return start, reasons


def starts(site, jobs, **settings):
    return starts_and_reasons(site, jobs, **settings)[0]


def one_node(gpus, **limits):
    return SiteCluster((SiteNode("n", gpus),), (SitePartition("p", ("n",), **limits),))


@pytest.mark.parametrize(
    ("first_s", "expected"), [(1000, {1: 0, 2: 1000, 3: 60}), (30, {1: 0, 2: 30, 3: 60})]
)
def test_a_full_pass_comes_without_an_event_where_a_job_was_left_untested(first_s, expected):
    jobs = [J(1, 0, 1, 1, first_s, first_s), J(2, 10, 1, 1, 1000, 1000),
            J(3, 20, 1, 1, 100, 100, partition="q")]  # fmt: skip
    assert starts(PAIR, jobs, queue_depth=1, sched_interval=60) == expected


def test_a_full_pass_comes_at_the_default_depth_too():
    jobs = [J(1, 0, 1, 1, 10_000, 10_000), *(J(i, 10, 1, 1, 5, 5) for i in range(2, 102)),
            J(102, 20, 1, 1, 5, 5, partition="q")]  # fmt: skip
    assert starts(PAIR, jobs, queue_depth=100, sched_interval=60)[102] == 60


def test_no_full_pass_is_woken_where_every_job_was_tested():
    # At 60 nothing happens, so the pass at 65 is the first after 0 and sees all jobs.
    jobs = [J(1, 0, 1, 1, 1000, 1000), J(2, 10, 1, 1, 10, 10), J(3, 65, 1, 1, 10, 10),
            J(4, 70, 1, 1, 10, 10, partition="q")]  # fmt: skip
    assert starts(PAIR, jobs, queue_depth=2, sched_interval=60)[4] == 125


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_an_announced_window_has_an_end_while_it_lasts(backfill):
    site = SiteCluster(
        (SiteNode("a", 2), SiteNode("b", 2)), (SitePartition("p", ("a", "b")),),
        events=(SiteNodeEvent("a", 100, 200, announced=0),),
    )  # fmt: skip
    jobs = [J(9, 0, 1, 1, 1000, 1000), J(1, 110, 1, 2, 100, 100), J(2, 111, 1, 1, 2000, 2000)]
    assert starts(site, jobs, backfill=backfill, events=True) == {9: 0, 1: 200, 2: 111}
    unknown = replace(site, nodes=site.nodes[::-1], events=(SiteNodeEvent("a", 100, 200),))
    assert starts(unknown, jobs, backfill=backfill, events=True) == {9: 0, 1: 200, 2: 200}


@pytest.mark.parametrize("gpus", [2, 4])
def test_the_partitions_qos_sets_the_limits_of_a_job_first(gpus):
    qos = (SiteQos("normal", job_gpus=6 - gpus, max_wall=500), SiteQos("pq", job_gpus=gpus))
    site = SiteCluster((SiteNode("n", 4),), (SitePartition("p", ("n",), qos="pq"),), qos)
    start, reasons = starts_and_reasons(site, [J(1, 0, 1, 3, 400, 10)], limits=True)
    assert (start, reasons) == (({1: 0}, {}) if gpus == 4 else ({}, {1: "QOSMaxGRESPerJob"}))


@pytest.mark.parametrize("wall", [1000, None, 500])
def test_the_partitions_qos_sets_the_longest_limit_first(wall):
    qos = (SiteQos("normal", max_wall=500 if wall else 1000), SiteQos("pq", max_wall=wall))
    site = SiteCluster((SiteNode("n", 4),), (SitePartition("p", ("n",), qos="pq"),), qos)
    _, reasons = starts_and_reasons(site, [J(1, 0, 1, 1, 800, 10)], limits=True)
    assert reasons == ({1: "QOSMaxWallDurationPerJobLimit"} if wall == 500 else {})


def test_a_refused_job_is_no_change():
    jobs = [J(1, 0, 1, 1, 1000, 1000), J(2, 1, 1, 2, 100, 100), J(3, 40, 1, 1, 9000, 10),
            J(4, 45, 1, 1, 500, 500)]  # fmt: skip
    start, reasons = starts_and_reasons(
        one_node(2, max_time=5000), jobs, backfill="slurm", bf_interval=30
    )
    assert start[4] == 45
    assert reasons == {3: "PartitionTimeLimit"}


@pytest.mark.parametrize("backfill", ["slurm", "easy", "conservative"])
def test_windows_hold_against_the_limit_that_is_not_rounded(backfill):
    site = SiteCluster(
        (SiteNode("b", 2), SiteNode("a", 1)), (SitePartition("p", ("b", "a")),),
        events=(SiteNodeEvent("a", 1611, 3000, announced=0),),
    )  # fmt: skip
    jobs = [J(1, 0, 1, 2, 2000, 2000), J(2, 700, 1, 2, 3000, 3000), J(4, 780, 1, 1, 652, 652)]
    settings = {"backfill": backfill, "bf_resolution": 300, "events": True}
    assert starts(site, jobs, **settings)[4] == 780
    late = replace(jobs[2], limit=832, runtime=832)  # would end one second into the window
    assert starts(site, [*jobs[:2], late], **settings)[4] > 780


def test_ticks_count_from_the_first_arrival_not_from_an_event_before():
    # Ticks at 7, 107, ...: usage is charged at 107, so v goes first at 110; from 0 on they
    # would come at 100 and 200, and the tick at 100 finds no less usage.
    site = replace(one_node(1), events=(SiteNodeEvent("n", 0, 1, announced=0),))
    settings = {"order": "multifactor", "w_fairshare": 1000, "calc_period": 100, "events": True,
                "half_life": 0, "sched_interval": 0}  # fmt: skip
    jobs = [J(1, 7, 1, 1, 98, 98, "u"), J(2, 8, 1, 1, 2, 2, "w"), J(3, 9, 1, 1, 10, 10, "u"),
            J(4, 106, 1, 1, 10, 10, "v")]  # fmt: skip
    assert starts(site, jobs, **settings) == {1: 7, 2: 105, 4: 107, 3: 117}


@pytest.mark.parametrize("half_life", [0, 5_000])
def test_ticks_of_an_empty_site_change_nothing_but_usage(half_life):
    """Two weeks without a job, after which usage decides: as the plain replay, tick by tick."""
    settings = {"order": "multifactor", "w_fairshare": 1000, "w_age": 10, "calc_period": 300,
                "half_life": half_life, "backfill": "slurm"}  # fmt: skip
    fortnight = 14 * 86_400
    jobs = [J(1, 7, 1, 1, 9_000, 9_000, "v"), J(2, fortnight, 1, 1, 700, 700, "u")]
    jobs += [J(i, fortnight + 10 * i, 1, 1, 700, 700, user)
             for i, user in enumerate(("u", "v", "w", "u", "v"), 3)]  # fmt: skip
    order = starts(one_node(1), jobs, **settings)
    assert order[1] == 7 and order[2] == fortnight and len(set(order.values())) == len(jobs)


def test_a_refusal_names_the_shape_first_then_slurms_order():
    assocs = (SiteAssociation("a", grp_gpus=1),)
    qos = (SiteQos("normal", user_gpus=1, grp_gpus=1, job_gpus=1, max_wall=10),)
    site = replace(one_node(2, max_time=60, max_nodes=1), qos=qos, assocs=assocs)
    every = J(1, 0, 2, 3, 61, 1)
    cases = {
        "shape": every,
        "PartitionTimeLimit": replace(every, gpus=2),
        "PartitionNodeLimit": replace(every, gpus=2, limit=60),
        "QOSMaxGRESPerJob": replace(every, gpus=2, nodes=1, limit=60),
        "QOSMaxWallDurationPerJobLimit": replace(every, gpus=1, nodes=1, limit=60),
    }
    for reason, job in cases.items():
        assert starts_and_reasons(site, [job], limits=True) == ({}, {1: reason})
    wide = replace(every, gpus=1, limit=5)
    roomy = replace(one_node(2), qos=(SiteQos("normal", grp_gpus=1),))
    assert starts_and_reasons(roomy, [wide], limits=True)[1] == {1: "shape"}


@pytest.mark.slow
def test_slices_change_no_start(monkeypatch):
    from gpuplan.simkit.twin import kernel

    jobs = [J(i, i // 3, 1, 1 + i % 4, 50 + i, 20 + i) for i in range(1, 200)]
    whole = starts(one_node(4), jobs, backfill="slurm", order="multifactor", w_age=1000)
    monkeypatch.setattr(kernel, "FEWEST_INSTANTS", 1)
    monkeypatch.setattr(kernel, "SLICE_S", 0.0)
    config = SchedulerConfig(backfill="slurm", order="multifactor", w_age=1000)
    assert schedule(one_node(4), jobs, config)[0] == whole
    assert 0 < SLICE_S < 1


@pytest.mark.parametrize(
    ("site", "job", "settings", "message"),
    [
        (one_node(1 << 60), {}, {}, "16,777,216 GPUs"),
        (replace(PAIR, nodes=(SiteNode("a", 1), SiteNode("b", MOST_GPUS))), {}, {}, "nodes of up"),
        (one_node(2), {"nodes": 1 << 60}, {}, "nodes of a job must be within 0 and"),
        (one_node(2), {"gpus": 1 << 62}, {}, "gpus of a job must be within 0 and"),
        (one_node(2), {"limit": 1 << 60}, {}, "limit of a job must be within"),
        (one_node(2), {"nice": -(1 << 60)}, {}, "nice of a job"),
        (one_node(2, max_time=10**30), {}, {}, "max_time of p must be within"),
        (replace(PAIR, qos=(SiteQos("normal", grp_gpus=1 << 64),)), {}, {}, "grp_gpus of normal"),
        (replace(PAIR, assocs=(SiteAssociation("x", usage=float("inf")),)), {}, {}, "usage of"),
        (one_node(2), {}, {"w_age": 10**400}, "w_age of SchedulerConfig"),
        (one_node(2), {}, {"bf_window": 1 << 63}, "bf_window of"),
    ],
)
def test_numbers_too_large_for_a_replay_are_refused(site, job, settings, message):
    with pytest.raises(ValueError, match=message):
        schedule(site, [replace(J(1, 0, 1, 1, 5, 5), **job)], SchedulerConfig(**settings))


def test_a_refused_job_needs_no_room_whatever_it_wants():
    jobs = [J(1, 0, MOST_GPUS, 1, 5, 5), J(2, 0, 1, 1, 5, 5), J(3, 0, 1, 1, LARGEST, 5)]
    assert starts_and_reasons(one_node(2), jobs) == ({2: 0, 3: 0}, {1: "shape"})
