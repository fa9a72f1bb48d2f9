"""Schedules of the twin worked out by hand, one per rule, and the golden schedules."""

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from support_twin import schedule
from support_twin_oracle import Shares

from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.priority import associations, set_factors
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

pytestmark = pytest.mark.compiled
spec = spec_from_file_location("golden_twin", Path(__file__).with_name("golden_twin.py"))
golden_twin = module_from_spec(spec)
spec.loader.exec_module(golden_twin)

J = SiteJob  # id, submit, nodes, GPUs per node, limit, run time


def site(nodes, partitions=None, qos=("normal",), assocs=(), events=()):
    nodes = tuple(SiteNode(*node) if isinstance(node, tuple) else node for node in nodes)
    parts = partitions or (SitePartition("p", tuple(node.name for node in nodes)),)
    made = tuple(SiteQos(q) if isinstance(q, str) else q for q in qos)
    return SiteCluster(nodes, tuple(parts), made, tuple(assocs), tuple(events))


def starts(where, jobs, **settings):
    return schedule(where, jobs, SchedulerConfig(**settings))[0]


def nodes_of(where, jobs, **settings):
    return schedule(where, jobs, SchedulerConfig(**settings))[2]


def reasons(where, jobs, **settings):
    return schedule(where, jobs, SchedulerConfig(**settings))[3]


FOUR = site([("n0", 4)])
TWO = site([("a", 4), ("b", 4)])
HEAD = [J(1, 0, 1, 3, 100, 100), J(2, 1, 1, 4, 50, 50), J(3, 2, 1, 1, 200, 200)]
SLURM = {"backfill": "slurm", "bf_resolution": 1}


def test_fifo_blocks_everything_behind_the_head():
    jobs = [*HEAD, J(4, 3, 1, 1, 90, 90)]
    assert starts(FOUR, jobs) == {1: 0, 2: 100, 3: 150, 4: 150}


@pytest.mark.parametrize(("limit", "start"), [(90, 3), (97, 3), (98, 150)])
def test_easy_lets_a_job_pass_that_ends_by_the_start_of_the_head(limit, start):
    found = starts(FOUR, [*HEAD, J(4, 3, 1, 1, limit, limit)], backfill="easy")
    assert found == {1: 0, 2: 100, 3: 150, 4: start}


def test_easy_may_delay_the_second_in_line_and_conservative_may_not():
    jobs = [J(1, 0, 1, 3, 100, 100), J(2, 1, 1, 2, 100, 100), J(3, 2, 1, 4, 100, 100),
            J(4, 3, 1, 1, 300, 300)]  # fmt: skip
    assert starts(FOUR, jobs, backfill="easy") == {1: 0, 4: 3, 2: 100, 3: 303}
    assert starts(FOUR, jobs, backfill="conservative") == {1: 0, 2: 100, 3: 200, 4: 300}


def test_plans_count_with_limits_not_with_run_times():
    jobs = [J(1, 0, 1, 3, 100, 40), J(2, 1, 1, 4, 50, 50), J(3, 2, 1, 1, 90, 90)]
    assert starts(FOUR, jobs, backfill="easy") == {1: 0, 3: 2, 2: 92}


def test_slurm_backfills_once_per_interval():
    late = J(4, 3, 1, 1, 90, 90)  # seen at 31 only, and 31 + 90 > 100
    assert starts(FOUR, [*HEAD, late], **SLURM)[4] == 150
    assert starts(FOUR, [*HEAD, replace(late, limit=60, runtime=60)], **SLURM)[4] == 31


def test_slurm_rounds_ends_up_to_the_resolution():
    jobs = [*HEAD, J(4, 3, 1, 1, 100, 100)]  # 100 is taken for 31 + 120
    found = starts(FOUR, jobs, backfill="slurm", bf_resolution=60)
    assert found == {1: 0, 4: 31, 2: 131, 3: 181}


def test_slurm_tests_so_many_jobs_and_reserves_within_the_window():
    jobs = [*HEAD, J(4, 3, 1, 1, 60, 60)]
    assert starts(FOUR, jobs, bf_max_job_test=2, **SLURM)[4] == 150
    far = [HEAD[0], HEAD[1], J(3, 3, 1, 1, 500, 500)]
    assert starts(FOUR, far, bf_window=60, **SLURM) == {1: 0, 3: 31, 2: 531}
    assert starts(FOUR, far, **SLURM) == {1: 0, 2: 100, 3: 150}


def test_slurm_tests_so_many_jobs_of_a_user_and_of_a_partition():
    jobs = [*HEAD, J(4, 3, 1, 1, 60, 60)]
    assert starts(FOUR, jobs, bf_max_job_user=2, **SLURM)[4] == 150
    assert starts(FOUR, jobs, bf_max_job_part=2, **SLURM)[4] == 150
    other = replace(jobs[3], user="v")
    assert starts(FOUR, [*HEAD, other], bf_max_job_user=2, **SLURM)[4] == 31


def test_a_gang_needs_its_shape_not_only_its_gpus():
    assert starts(TWO, [J(1, 0, 1, 3, 50, 50), J(2, 1, 2, 3, 10, 10)]) == {1: 0, 2: 50}


def test_best_fit_packs_and_least_loaded_spreads():
    jobs = [J(1, 0, 1, 1, 50, 50), J(2, 1, 1, 2, 50, 50), J(3, 2, 1, 4, 10, 10)]
    assert nodes_of(TWO, jobs) == {1: (0,), 2: (0,), 3: (1,)}
    assert starts(TWO, jobs, placement="least-loaded") == {1: 0, 2: 1, 3: 50}


def test_a_light_node_goes_first():
    weighted = site([SiteNode("a", 4, weight=5), SiteNode("b", 4, weight=1)])
    assert nodes_of(weighted, [J(1, 0, 1, 1, 5, 5)]) == {1: (1,)}


def test_a_job_waits_for_its_gpu_type():
    typed = site([("a", 4, "a100"), ("h", 4, "h100")])
    jobs = [J(1, 0, 1, 4, 10, 10, gpu_type="h100"), J(2, 1, 1, 1, 5, 5, gpu_type="h100")]
    assert starts(typed, jobs) == {1: 0, 2: 10}


def test_the_nodes_of_a_blocked_partition_are_kept_free():
    parts = (SitePartition("p", ("a", "b")), SitePartition("q", ("b", "c")))
    where = site([("a", 2), ("b", 2), ("c", 2)], parts)
    jobs = [J(1, 0, 1, 2, 100, 100), J(2, 1, 2, 2, 10, 10),
            J(3, 2, 1, 2, 50, 50, partition="q"), J(4, 3, 1, 2, 50, 50, partition="q")]  # fmt: skip
    assert starts(where, jobs) == {1: 0, 3: 2, 2: 100, 4: 52}


def test_a_higher_tier_goes_first_unless_tiers_are_off():
    parts = (SitePartition("p", ("a",), tier=1), SitePartition("q", ("a",), tier=2))
    jobs = [J(1, 0, 1, 2, 10, 10), J(2, 1, 1, 2, 10, 10), J(3, 2, 1, 2, 10, 10, partition="q")]
    assert starts(site([("a", 2)], parts), jobs) == {1: 0, 3: 10, 2: 20}
    assert starts(site([("a", 2)], parts), jobs, tiers=False) == {1: 0, 2: 10, 3: 20}


def test_partitions_refuse_jobs_that_break_their_limits():
    where = site([("a", 2)], (SitePartition("p", ("a",), max_time=60, max_nodes=1),))
    jobs = [J(1, 0, 1, 1, 61, 1), J(2, 0, 2, 1, 60, 1), J(3, 0, 1, 3, 60, 1)]
    expected = {1: "PartitionTimeLimit", 2: "PartitionNodeLimit", 3: "shape"}
    assert reasons(where, jobs) == expected


def test_a_job_over_a_limit_is_passed_over():
    qos = ("normal", SiteQos("big", user_gpus=2), SiteQos("few", user_jobs=1))
    where = site([("a", 8)], qos=(SiteQos("normal", grp_gpus=4), *qos[1:]))
    jobs = [
        J(1, 0, 1, 4, 100, 100), J(2, 1, 1, 1, 10, 10), J(3, 2, 1, 2, 20, 20, qos="big"),
        J(4, 3, 1, 1, 5, 5, qos="big"), J(5, 4, 1, 1, 30, 30, qos="few"),
        J(6, 5, 1, 1, 3, 3, qos="few"), J(7, 6, 1, 1, 3, 3, qos="few", user="v"),
    ]  # fmt: skip
    expected = {1: 0, 3: 2, 5: 4, 7: 6, 4: 22, 6: 34, 2: 100}
    assert starts(where, jobs, limits=True) == expected
    assert starts(where, jobs) == {1: 0, 2: 1, 3: 2, 4: 3, 5: 8, 6: 11, 7: 14}


def test_the_qos_of_the_partition_goes_first():
    qos = (SiteQos("normal", user_gpus=8), SiteQos("pq", user_gpus=2))
    where = site([("a", 8)], (SitePartition("p", ("a",), qos="pq"),), qos)
    assert starts(where, [J(1, 0, 1, 2, 10, 10), J(2, 1, 1, 1, 5, 5)], limits=True) == {1: 0, 2: 10}


def test_an_account_limits_everything_below_it():
    assocs = [
        SiteAssociation("x", grp_gpus=4), SiteAssociation("x1", parent="x"),
        SiteAssociation("x1", "u"), SiteAssociation("x2", parent="x"), SiteAssociation("x2", "v"),
    ]  # fmt: skip
    jobs = [J(1, 0, 1, 3, 10, 10, account="x1"), J(2, 1, 1, 2, 5, 5, "v", "x2"),
            J(3, 2, 1, 1, 5, 5, "v", "x2")]  # fmt: skip
    assert starts(site([("a", 8)], assocs=assocs), jobs, limits=True) == {1: 0, 2: 10, 3: 2}


def test_a_job_over_a_limit_reserves_nothing():
    where = site([("a", 8)], qos=("normal", SiteQos("few", user_jobs=1)))
    jobs = [J(1, 0, 1, 4, 100, 100, qos="few"), J(2, 1, 1, 8, 10, 10, qos="few"),
            J(3, 1, 1, 4, 500, 99)]  # fmt: skip
    assert starts(where, jobs, limits=True, backfill="conservative") == {1: 0, 3: 1, 2: 100}


def test_limits_refuse_what_they_never_allow():
    qos = (SiteQos("normal", user_gpus=2), SiteQos("short", max_wall=60, job_gpus=1),
           SiteQos("group", grp_gpus=3))  # fmt: skip
    jobs = [J(1, 0, 1, 3, 10, 10), J(2, 0, 1, 1, 61, 10, qos="short"),
            J(3, 0, 1, 2, 10, 10, qos="short"), J(4, 0, 1, 4, 10, 10, qos="group")]  # fmt: skip
    assert reasons(site([("a", 8)], qos=qos), jobs, limits=True) == {
        1: "QOSMaxGRESPerUser", 2: "QOSMaxWallDurationPerJobLimit", 3: "QOSMaxGRESPerJob",
        4: "QOSGrpGRES",
    }  # fmt: skip
    assert reasons(site([("a", 8)], qos=qos), jobs) == {}


MULTI = {"order": "multifactor", "calc_period": 10, "max_age": 1000}
RACE = [J(1, 0, 1, 4, 100, 100), J(2, 10, 1, 1, 10, 10), J(3, 20, 1, 4, 10, 10)]


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        ({"w_age": 1000}, 2),
        ({"w_age": 1000, "w_size": 1000}, 3),
        ({"w_size": 1000, "favor_small": True}, 2),
        ({"w_tres_gpu": 1000}, 3),
    ],
)
def test_age_and_size_make_the_order(weights, first):
    assert starts(FOUR, RACE, **weights, **MULTI)[first] == 100


def test_qos_and_partitions_and_niceness_make_the_order():
    same = [RACE[0], J(2, 10, 1, 4, 10, 10), J(3, 20, 1, 4, 10, 10)]
    where = site([("n0", 4)], qos=(SiteQos("normal", 10), SiteQos("hi", 20)))
    high = [*same[:2], replace(same[2], qos="hi")]
    assert starts(where, high, w_qos=100, **MULTI) == {1: 0, 3: 100, 2: 110}
    parts = (SitePartition("p", ("n0",)), SitePartition("q", ("n0",), job_factor=5))
    other = [*same[:2], replace(same[2], partition="q")]
    assert starts(site([("n0", 4)], parts), other, w_partition=100, **MULTI)[3] == 100
    nice = [same[0], replace(same[1], nice=500), same[2]]
    assert starts(FOUR, nice, w_age=1000, **MULTI) == {1: 0, 3: 100, 2: 110}


@pytest.mark.parametrize("kind", ["tree", "classic"])
def test_who_used_less_goes_first(kind):
    jobs = [replace(RACE[0], user="a"), J(2, 10, 1, 4, 10, 10, "a"), J(3, 20, 1, 4, 10, 10, "b")]
    assert starts(FOUR, jobs, w_fairshare=1000, fairshare=kind, **MULTI) == {1: 0, 3: 100, 2: 110}


def factors(assocs, kind):
    known = associations(assocs, [])
    tree = known.tree()
    set_factors(tree, ("tree", "classic").index(kind), 1.0)
    return {key: tree.factor[node] for key, node in known.node.items() if key[1]}


def test_factors_of_two_accounts():
    # S: u1, u2 .375, u3 .25. E: u1 .6, u2 0 + (.6 - 0) x .5, u3 .4
    rows = [SiteAssociation("A", shares=3), SiteAssociation("B"),
            SiteAssociation("A", "u1", usage=60), SiteAssociation("A", "u2"),
            SiteAssociation("B", "u3", usage=40)]  # fmt: skip
    keys = [("A", "u1"), ("A", "u2"), ("B", "u3")]
    classic, tree = factors(rows, "classic"), factors(rows, "tree")
    want = [2 ** -(0.6 / 0.375), 2 ** -(0.3 / 0.375), 2 ** -(0.4 / 0.25)]
    assert [classic[key] for key in keys] == pytest.approx(want)
    assert [tree[key] for key in keys] == pytest.approx([2 / 3, 1.0, 1 / 3])
    assert Shares(rows, []).tree() == pytest.approx(tree)


def test_tied_accounts_merge_and_tied_users_share_a_rank():
    rows = [SiteAssociation("A"), SiteAssociation("B"), SiteAssociation("A", "u1"),
            SiteAssociation("A", "u2", usage=10), SiteAssociation("B", "u3"),
            SiteAssociation("B", "u4", usage=10)]  # fmt: skip
    found = factors(rows, "tree")
    assert [found[a, u] for a, u in (("A", "u1"), ("A", "u2"), ("B", "u3"), ("B", "u4"))] == [
        1.0, 0.5, 1.0, 0.5
    ]  # fmt: skip


def test_an_account_above_itself_lies_under_the_root():
    rows = [SiteAssociation("A", parent="B"), SiteAssociation("B", parent="A")]
    known = associations(rows, [("A", "u")])
    assert known.parent[known.node["A", ""]] in (0, known.node["B", ""])
    assert factors(rows, "tree") == {}


def test_usage_halves_in_a_half_life():
    # 400 GPU-seconds at 100, 200 at 200, 100 at 300, after which nothing runs until a tick.
    jobs = [J(1, 0, 1, 4, 100, 100, "a"), J(9, 300, 1, 4, 1, 1, "a")]
    config = SchedulerConfig(order="multifactor", w_fairshare=1, half_life=100, calc_period=100)
    usage = replay_site(FOUR, SiteJobs.of(jobs), config).usage
    assert usage["a", "a"] == pytest.approx(100.0)


def test_a_drain_keeps_new_jobs_off_and_lets_the_running_one_end():
    events = (SiteNodeEvent("b", 5, 50), SiteNodeEvent("a", 100, 120, announced=0))
    where = site([("a", 4), ("b", 4)], events=events)
    jobs = [J(1, 0, 1, 4, 30, 30), J(2, 1, 1, 4, 20, 20), J(3, 6, 1, 4, 40, 40),
            J(4, 7, 1, 4, 40, 40)]  # fmt: skip
    assert starts(where, jobs, events=True) == {1: 0, 2: 1, 3: 30, 4: 50}


@pytest.mark.parametrize(
    ("backfill", "second"), [("none", 121), ("easy", 30), ("conservative", 30), ("slurm", 50)]
)
def test_an_announced_window_is_kept_free(backfill, second):
    where = site([("a", 4)], events=(SiteNodeEvent("a", 100, 120, announced=0),))
    jobs = [J(1, 20, 1, 4, 90, 1), J(2, 30, 1, 4, 50, 5)]
    settings = {"backfill": backfill, "bf_resolution": 1, "events": True}
    assert starts(where, jobs, **settings) == {1: 120, 2: second}


def test_a_job_cancelled_while_it_waits_holds_its_place():
    jobs = [J(1, 0, 1, 3, 100, 100), J(2, 1, 1, 4, 50, 0, cancel=60), J(3, 2, 1, 1, 20, 20)]
    assert starts(FOUR, jobs) == {1: 0, 3: 60}
    assert reasons(FOUR, jobs) == {2: "cancelled"}
    early = [J(1, 0, 1, 4, 10, 10), J(2, 1, 1, 4, 50, 0, cancel=60), J(3, 2, 1, 4, 20, 20)]
    assert starts(FOUR, early) == {1: 0, 3: 10}  # it would start at 10, and leaves instead


def test_a_job_that_is_given_up_later_runs_where_it_starts_before():
    early = [J(1, 0, 1, 4, 10, 10), J(2, 1, 1, 4, 50, 50, cancel=60), J(3, 2, 1, 4, 20, 20)]
    assert starts(FOUR, early) == {1: 0, 2: 10, 3: 60}
    late = [J(1, 0, 1, 4, 70, 70), J(2, 1, 1, 4, 50, 50, cancel=60), J(3, 2, 1, 4, 20, 20)]
    assert starts(FOUR, late) == {1: 0, 3: 70}
    assert reasons(FOUR, late) == {2: "cancelled"}


def test_eligible_not_submit_makes_the_order():
    jobs = [RACE[0], J(2, 1, 1, 4, 10, 10, eligible=50), J(3, 2, 1, 4, 10, 10)]
    assert starts(FOUR, jobs) == {1: 0, 3: 100, 2: 110}


def test_a_pinned_job_starts_when_it_did():
    assert starts(FOUR, [J(1, 0, 1, 4, 100, 10, pinned=7), J(2, 8, 1, 4, 1, 1)]) == {1: 7, 2: 17}
    both = [J(1, 0, 1, 4, 100, 10, pinned=7), J(2, 0, 1, 4, 10, 10, pinned=9)]
    assert starts(FOUR, both) == {1: 7, 2: 17}  # there is no room before


def test_what_can_never_start_ends_the_replay():
    down = site([("a", 4)], events=(SiteNodeEvent("a", 0, 1 << 40),))
    multi = {"order": "multifactor", "w_age": 10, "events": True, "backfill": "slurm"}
    assert reasons(site([("a", 4)]), [J(1, 0, 1, 5, 10, 10)]) == {1: "shape"}
    assert reasons(down, [J(1, 5, 1, 4, 10, 10, cancel=60)], **multi) == {1: "cancelled"}


def test_jobs_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="unknown node"):
        SiteCluster((SiteNode("a", 1),), (SitePartition("p", ("b",)),))
    with pytest.raises(ValueError, match="partition 'q'"):
        starts(FOUR, [J(1, 0, 1, 1, 1, 1, partition="q")])
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        starts(FOUR, [J(1, 0, 0, 1, 1, 1)])
    with pytest.raises(ValueError, match="backfill"):
        SchedulerConfig(backfill="some")


def test_no_jobs_is_no_replay():
    assert starts(FOUR, []) == {}


def test_golden_schedules(shared):
    files = sorted((shared / "golden" / "twin").glob("*.json"))
    if not files:
        pytest.skip("no golden schedules here")
    for path in files:
        assert list(golden_twin.differences(path)) == []


def test_the_golden_tool_prints_differences(tmp_path, capsys):
    (tmp_path / "w.json").write_text(
        '{"nodes": [{"name": "n", "gpus": 1}], "partitions": [{"name": "p", "nodes": ["n"]}],'
        '"policies": {"fifo": {}}}'
    )
    (tmp_path / "w_jobs.csv").write_text("id,submit,nodes,gpus,limit,runtime\n1,0,1,1,5,5\n")
    starts_file = tmp_path / "w_starts.csv"
    starts_file.write_text("policy,id,start,end,nodes,rejected\nfifo,1,0,5,n,\n")
    assert golden_twin.main([str(tmp_path / "w.json")]) == 0
    starts_file.write_text("policy,id,start,end,nodes,rejected\nfifo,1,1,6,n,\n")
    assert golden_twin.main([str(tmp_path / "w.json")]) == 1
    assert "job 1: expected ('1', '6', 'n', '')" in capsys.readouterr().out
