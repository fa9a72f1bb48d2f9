"""The replay of plans on arrivals: by hand, against a reference run, against the plan itself."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support_boa_replay import workload_of_jobs

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.paths import WidthPath
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay, replay_paths
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.plan import Assignment, ClassPlan, Plan
from gpuplan.planner.frontier.replay.demand import demand_law
from gpuplan.planner.frontier.replay.plans import replay_plan, replay_types
from gpuplan.planner.registry import BASELINES
from gpuplan.planner.speedup import t4


def arrivals_of(submit_s, work_h, job_class=None):
    size = len(submit_s)
    return ClassArrivals(
        submit_s=np.array(submit_s, float),
        job_class=np.zeros(size, np.int64) if job_class is None else np.array(job_class),
        work_h=np.array(work_h, float),
        gpus=np.ones(size),
    )


def measured(**changes):
    """Two jobs on 2 GPUs each for one hour and half an hour, half an hour apart."""
    parts = {
        "arrivals": arrivals_of([0, 1800], [1.5, 0.75]),
        "horizon_h": 2.0,
        "jct_s": np.array([3600.0, 1800.0]),
        "jqt_s": np.array([0.0, 60.0]),
        "rescales": np.array([1, 2]),
        "held_gpu_h": 3.0,
        "billed_gpu_h": 4.0,
        "time_s": np.array([0.0, 1800.0, 3600.0, 5400.0]),
        "gpus": np.array([2, 4, 2, 0]),
    } | changes
    return PlanReplay(**parts)


def test_numbers_of_a_replay_by_hand():
    replay = measured(demand_s=np.array([10.0, 0.0, 70.0, 0.0, 20.0]))
    found = fields_of(replay.results())
    assert found["jobs"] == 2 and found["mean_jct_s"] == 2700 and found["median_jct_s"] == 2700
    assert found["p95_jct_s"] == pytest.approx(1800 + 0.95 * 1800)
    assert (found["mean_jqt_s"], found["rescales_per_job"]) == (30, 1.5)
    assert found["rented_gpu_h"] == 2 * 0.5 + 4 * 0.5 + 2 * 0.5
    assert found["billed_gpu_h"] == found["rented_gpu_h"]
    assert (found["held_gpus"], found["rented_gpus"], found["peak_gpus"]) == (1.5, 2.0, 4)
    assert found["efficiency"] == 2.25 / 4
    assert [replay.share_above(gpus) for gpus in (0, 1.5, 2, 4)] == [0.9, 0.9, 0.2, 0]
    assert measured().share_above(2) is None
    assert replay.share_above(-3) == 1 and replay.share_above(2e6) is None
    assert replay.to_frame().height == 2 and replay.timeline().height == 4


def test_a_replay_is_checked():
    with pytest.raises(ValueError, match="jqt_s"):
        measured(jqt_s=np.zeros(3))
    with pytest.raises(ValueError, match="end with 0"):
        measured(gpus=np.array([2, 4, 2, 1]))
    with pytest.raises(ValueError, match="rented"):
        measured(held_gpu_h=4.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_gpus": 0},
        {"provision_s": -1},
        {"release_s": float("inf")},
        {"billing_s": 0},
        {"billed_from": "now"},
        {"overflow": "drop"},
        {"node_gpus": 8, "max_gpus": 4},
    ],
)
def test_a_cluster_is_checked(wrong):
    with pytest.raises(UsageError, match="--"):
        RentedCluster(**wrong)


def test_arrivals_are_checked():
    with pytest.raises(ValueError, match="ascend"):
        arrivals_of([1, 0], [1, 1])
    with pytest.raises(ValueError, match="shape"):
        arrivals_of([0, 1], [1, 1, 1])
    with pytest.raises(ValueError, match="at least one"):
        arrivals_of([], [])
    with pytest.raises(ValueError, match="at least 0"):
        arrivals_of([0], [-1])


def two_epochs(name="a", **changes):
    """100 s of work, half of it in each epoch, at s(k) = k; a start or a change takes 10 s."""
    parts = {
        "rate_per_h": 1.0,
        "work_h": np.array([50, 50]) / 3600,
        "widths": np.array([1.0, 2.0, 4.0]),
        "speedup": np.array([[1.0, 2.0, 4.0]] * 2),
        "rescale_h": 10 / 3600,
    } | changes
    return JobClass(name, **parts)


def plan_for(job_class, *widths):
    """A plan of (epoch, width, share, rounded); what it costs does not matter here."""
    rows = tuple(Assignment(job_class.name, *row) for row in widths)
    return Plan(1.0, 1.0, 0.0, [ClassPlan(job_class.name, 1.0, 1.0, 1, 1, 1, 1, rows)])


AT_ONCE = RentedCluster(provision_s=0, release_s=0)


def test_a_plan_is_followed_epoch_by_epoch():
    workload = workload_of_jobs([two_epochs()], [0, 1000], [0, 0], np.array([100, 200]) / 3600, 1)
    plan = plan_for(workload.classes[0], (0, 4.0, 1.0, True), (1, 1.0, 1.0, True))
    replay = replay_plan(workload, plan, AT_ONCE)
    # 10 s to start and 12.5 s on 4 GPUs, then 10 s to change and 50 s on one; twice the work next.
    assert replay.jct_s.tolist() == [82.5, 145.0]
    assert replay.rescales.tolist() == [2, 2] and not replay.jqt_s.any()
    assert replay.held_gpu_h == pytest.approx((4 * (22.5 + 35) + 60 + 110) / 3600)
    assert replay.rented_gpu_h == pytest.approx(replay.held_gpu_h)
    assert replay.time_s.tolist() == [0, 22.5, 82.5, 1000, 1035, 1145]
    assert replay.gpus.tolist() == [4, 1, 0, 4, 1, 0]
    assert replay.share_above(0) == pytest.approx(227.5 / 3600)
    assert replay.share_above(1) == pytest.approx(57.5 / 3600)


def test_a_split_class_is_split_evenly_over_time():
    workload = workload_of_jobs([two_epochs()], range(10), [0] * 10, [100 / 3600] * 10, 1)
    plan = plan_for(
        workload.classes[0], (0, 1.0, 0.7, True), (0, 2.0, 0.3, False), (1, 1.0, 1.0, True)
    )
    replay = replay_plan(workload, plan, AT_ONCE)
    # floor((m + 1) 0.3) > floor(m 0.3) for m = 3, 6, 9.
    assert np.flatnonzero(replay.rescales == 2).tolist() == [3, 6, 9]
    assert (replay_plan(workload, plan, AT_ONCE, rounded=True).rescales == 1).all()


def test_widths_between_candidates_and_beyond():
    job_class = two_epochs(rescale_h=0.0, speedup=np.array([[1.0, 1.5, 2.0]] * 2))
    workload = workload_of_jobs([job_class], range(3), [0] * 3, [60 / 3600] * 3, 1)
    paths = [WidthPath(0, (k, k)) for k in (3.0, 64.0, 2.5)]
    replay = replay_paths(workload, paths, np.arange(3), AT_ONCE)
    assert replay.jct_s.tolist() == pytest.approx([60 / 1.75, 30, 60 / 1.75])
    assert replay.peak_gpus == 3 + 64 + 3  # a fraction of a GPU holds a whole one
    narrow = two_epochs(widths=np.array([2.0, 4, 8]), rescale_h=0.0)
    workload = workload_of_jobs([narrow], [0], [0], [60 / 3600], 1)
    alone = replay_paths(workload, [WidthPath(0, (1.0, 1.0))], np.zeros(1, int), AT_ONCE)
    assert alone.jct_s.tolist() == [120]  # half of s(2) = 1


def test_a_limit_below_a_width():
    workload = workload_of_jobs([two_epochs()], [0], [0], [100 / 3600], 1)
    plan = plan_for(workload.classes[0], (0, 4.0, 1.0, True), (1, 4.0, 1.0, True))
    with pytest.raises(InfeasibleError, match=r"'a' get 4 GPUs each, but at most 3 .*\n.*squeeze"):
        replay_plan(workload, plan, RentedCluster(max_gpus=3))
    squeeze = RentedCluster(provision_s=0, release_s=0, max_gpus=3, overflow="squeeze")
    squeezed = replay_plan(workload, plan, squeeze)
    assert squeezed.jct_s.tolist() == [10 + 50] and squeezed.peak_gpus == 2
    wide = two_epochs(widths=np.array([4.0, 8, 16]))
    with pytest.raises(InfeasibleError, match="at most 3"):
        replay_plan(workload_of_jobs([wide], [0], [0], [1], 1), plan, squeeze)


def test_the_first_job_in_line_starts_on_what_is_left_while_its_nodes_come():
    # On nodes of 4 the first job holds 3 GPUs from 90 s on; 1 is left when the second comes.
    job_class = two_epochs(widths=np.array([1.0, 3.0]), speedup=np.array([[1.0, 3.0]] * 2))
    workload = workload_of_jobs([job_class], [0, 100], [0, 0], np.array([600, 300]) / 3600, 1)
    plan = plan_for(job_class, (0, 3.0, 1.0, True), (1, 3.0, 1.0, True))
    cluster = RentedCluster(node_gpus=4)
    assert cluster.overflow == "queue"
    narrow = replay_plan(workload, plan, cluster)
    # Start to 110, 80 s on one GPU, then at 190 a restart and the other 220 s on 3.
    assert narrow.jqt_s.tolist() == [90, 0] and narrow.rescales.tolist() == [1, 2]
    assert narrow.jct_s.tolist() == pytest.approx([90 + 10 + 200, 90 + 10 + 220 / 3])
    whole = replay_plan(workload, plan, replace(cluster, overflow="whole"))
    assert whole.jqt_s.tolist() == [90, 90] and whole.rescales.tolist() == [1, 1]
    assert whole.jct_s.tolist() == pytest.approx([300, 90 + 10 + 100])
    # Recorded jobs and those of one width do not resize.
    fixed = BASELINES["fixed-width"].run(workload, cluster, 3.0)
    assert fixed.jct_s.tolist() == whole.jct_s.tolist()
    squeezed = BASELINES["fixed-width"].run(workload, replace(cluster, overflow="squeeze"), 3.0)
    assert squeezed.jct_s.tolist() == narrow.jct_s.tolist()


def test_what_cannot_be_replayed_says_so():
    workload = workload_of_jobs([two_epochs()], [0], [0], [1], 1)
    plan = plan_for(workload.classes[0], (0, 4.0, 1.0, True), (1, 4.0, 1.0, True))
    with pytest.raises(ValueError, match="no jobs"):
        replay_plan(replace(workload, arrivals=None), plan)
    with pytest.raises(ValueError, match="each epoch"):
        replay_paths(
            workload_of_jobs([two_epochs()], [0], [0], [1], 1), [WidthPath(0, (1.0,))], np.zeros(1)
        )


def t4_workload(jobs, names, horizon_h, *, rescale):
    """Jobs of the measured T4 profile, each with the mean work of its class."""
    profiles = {name: t4.CLASSES[name] for name in sorted(set(names))}
    classes = []
    for name, profile in profiles.items():
        widths = profile.epochs[0].candidates(None)
        rate = names.count(name) / horizon_h
        start_h = profile.rescale_s / 3600 if rescale else 0.0
        speedup = profile.epochs[0].at(widths)[None]
        classes.append(JobClass(name, rate, np.array([profile.work_h]), widths, speedup, start_h))
    number = {name: i for i, name in enumerate(profiles)}
    work_h = [profiles[name].work_h for name in names]
    return workload_of_jobs(classes, jobs, [number[n] for n in names], work_h, horizon_h)


def newtrace(shared, *, rescale):
    jobs = pl.read_csv(shared / "data/sia-workloads/newtrace/workload-1.csv").sort("time")
    return t4_workload(jobs["time"], jobs["application"].to_list(), 48, rescale=rescale)


def test_reference_replay(shared):
    free = newtrace(shared, rescale=False)
    frontier = solve_frontier(free.classes)
    rows = pl.read_csv(shared / "golden/boa/boa_replay_class.csv")
    assert rows.height == 10
    for row in rows.iter_rows(named=True):
        plan = frontier.at_budget(row["mult"] * frontier.load_gpus)
        workload = newtrace(shared, rescale=bool(row["rescale"]))
        replay = replay_plan(workload, plan, AT_ONCE, rounded=True)
        found = fields_of(replay.results())
        whole = replay_plan(workload, plan, replace(AT_ONCE, overflow="whole"), rounded=True)
        assert whole.jct_s.tolist() == replay.jct_s.tolist()
        for key, reference in (
            ("mean_jct_s", "avg_jct_s"),
            ("median_jct_s", "p50"),
            ("p95_jct_s", "p95"),
            ("p99_jct_s", "p99"),
            ("rented_gpu_h", "gpu_h"),
            ("rented_gpus", "gpu_h_per_h"),
        ):
            assert found[key] == pytest.approx(row[reference], rel=1e-5)
        assert found["peak_gpus"] == row["peak_gpus"]
        assert replay.time_s[-1] / 3600 == pytest.approx(row["end_h"], rel=1e-6)


def test_the_replay_keeps_the_budget(shared):
    workload = newtrace(shared, rescale=True)
    frontier = solve_frontier(workload.classes)
    for multiple in (1.0, 1.05, 1.1, 1.2, 1.5, 2, 2.25, 2.5, 3, 4):
        plan = frontier.at_budget(multiple * frontier.load_gpus)
        replay = replay_plan(workload, plan, AT_ONCE)
        assert replay.rented_gpus == pytest.approx(plan.used, rel=0.03)
        assert replay.mean_jct_s == pytest.approx(plan.mean_jct_s, rel=0.03)
        delayed = replay_plan(workload, plan)  # 90 s to provision, 30 s idle before a return
        assert delayed.held_gpus == pytest.approx(plan.used, rel=0.03)
        assert delayed.held_gpus < delayed.rented_gpus < 1.02 * plan.used
        assert replay.mean_jct_s < delayed.mean_jct_s < replay.mean_jct_s + 91


def test_replay_of_jobs_that_the_test_makes():
    # Jobs have the mean work of their class and GPUs come at once: replay and plan are one, but
    # for the share of the class that is split.
    rng = np.random.default_rng(1)
    names = rng.choice(["bert", "cifar10", "yolov3"], 300).tolist()
    workload = t4_workload(np.sort(rng.uniform(0, 86400, 300)), names, 24, rescale=True)
    frontier = solve_frontier(workload.classes)
    for vertex in range(frontier.budgets.size):
        plan = frontier.at_budget(float(frontier.budgets[vertex]))
        replay = replay_plan(workload, plan, AT_ONCE)
        assert replay.mean_jct_s == pytest.approx(plan.mean_jct_s, rel=1e-6)
        assert replay.rented_gpus == pytest.approx(plan.used, rel=1e-6)
        assert replay.efficiency == pytest.approx(plan.utilization, rel=1e-6)


def typed():
    """A class on two types: on B every width is 3 times as fast."""
    return two_epochs(
        widths=np.array([1.0, 2, 4, 1, 2]),
        speedup=np.array([[1.0, 2, 4, 3, 6]] * 2),
        cost_per_h=np.array([1.0, 2, 4, 5, 10]),
        gpu_types=("A", "A", "A", "B", "B"),
    )


def test_each_gpu_type_has_a_cluster_of_its_own():
    workload = workload_of_jobs([typed()], [0, 10, 20, 30], [0] * 4, [120 / 3600] * 4, 1)
    plan = plan_for(
        workload.classes[0],
        *((epoch, 2.0, 0.5, True, "A") for epoch in (0, 1)),
        *((epoch, 2.0, 0.5, False, "B") for epoch in (0, 1)),
    )
    with pytest.raises(UsageError, match="rents A, B"):
        replay_plan(workload, plan)
    found = replay_types(workload, plan, {"A": AT_ONCE, "B": replace(AT_ONCE, node_gpus=4)})
    assert list(found) == ["A", "B"]
    assert found["A"].jct_s.tolist() == [70, 70] and found["A"].peak_gpus == 4
    assert found["B"].jct_s.tolist() == [30, 30] and found["B"].peak_gpus == 4
    assert found["B"].arrivals.submit_s.tolist() == [10, 30]
    assert found["B"].rented_gpu_h == pytest.approx(4 * 50 / 3600)
    # A limit of one type says nothing of the other.
    limited = replace(AT_ONCE, max_gpus=1)
    with pytest.raises(InfeasibleError, match="at most 1"):
        replay_types(workload, plan, {"B": limited})
    alone = replay_types(workload, plan, {"A": AT_ONCE, "B": limited}, rounded=True)
    assert list(alone) == ["A"] and alone["A"].arrivals.size == 4
    assert replay_plan(workload, plan, AT_ONCE, rounded=True).jct_s.tolist() == [70] * 4
    with pytest.raises(ValueError, match="GPU type None"):
        replay_paths(workload, [WidthPath(0, (2.0, 2.0))], np.zeros(4, int))
    moving = plan_for(workload.classes[0], (0, 2.0, 1.0, True, "A"), (1, 2.0, 1.0, True, "B"))
    with pytest.raises(UsageError, match="change from one GPU type to another"):
        replay_types(workload, moving, {})


def test_replay_of_a_plan_in_dollars():
    # As for one type: at a vertex of the frontier, plan and replay are one.
    rng = np.random.default_rng(2)
    submit_s = np.sort(rng.uniform(0, 36000, 200))
    rows = replace(typed(), work_h=np.array([2.0]), speedup=np.array([[1.0, 1.7, 2.5, 3, 5]]))
    classes = [replace(rows, rate_per_h=20.0, rescale_h=0.02)]
    workload = workload_of_jobs(classes, submit_s, [0] * 200, [2.0] * 200, 10)
    frontier = solve_frontier(classes)
    for budget in frontier.budgets.tolist():
        plan = frontier.at_budget(budget)
        found = replay_types(workload, plan, dict.fromkeys("AB", AT_ONCE))
        usd_per_h = sum({"A": 1, "B": 5}[t] * replay.rented_gpus for t, replay in found.items())
        laws = {t: demand_law(workload, plan, gpu_type=t) for t in found}
        for gpu_type, replay in found.items():
            assert replay.rented_gpus == pytest.approx(laws[gpu_type].mean_gpus, rel=1e-6)
        assert usd_per_h == pytest.approx(plan.used, rel=1e-6)
        jct_s = np.concatenate([replay.jct_s for replay in found.values()])
        assert jct_s.mean() == pytest.approx(plan.mean_jct_s, rel=1e-6)


def test_plans_by_epoch_keep_the_budget_too(shared):
    # The measured epochs of newTrace's applications: up to 100 a job, and widths that change.
    jobs = pl.read_csv(shared / "data/sia-workloads/newtrace/workload-1.csv").sort("time")
    curves = pl.read_csv(shared / "data/boa-profiles/speedup_epochs_aws.csv.gz")
    names = jobs["application"].unique().sort().to_list()
    classes = []
    for name in names:
        parts = curves.filter(app=name).sort("epoch", "num_gpus").partition_by("epoch")
        classes.append(
            JobClass(
                name,
                rate_per_h=jobs.filter(application=name).height / 48,
                work_h=np.array([part["work_hours_1gpu_calibrated"][0] for part in parts]),
                widths=parts[0]["num_gpus"].to_numpy().astype(float),
                speedup=np.stack([part["speedup"].to_numpy() for part in parts]),
                rescale_h=t4.CLASSES[name].rescale_s / 3600,
            )
        )
    number = [names.index(name) for name in jobs["application"]]
    work_h = [float(classes[i].work_h.sum()) for i in number]
    workload = workload_of_jobs(classes, jobs["time"], number, work_h, 48)
    frontier = solve_frontier(classes)
    for multiple in (1.05, 1.2, 1.5, 2, 3, 4):
        plan = frontier.at_budget(multiple * frontier.load_gpus)
        replay = replay_plan(workload, plan, AT_ONCE)
        assert replay.rented_gpus == pytest.approx(plan.used, rel=0.03)
        assert replay.mean_jct_s == pytest.approx(plan.mean_jct_s, rel=0.03)
        delayed = replay_plan(workload, plan)  # late GPUs hold fewer of them, for longer
        assert delayed.held_gpus == pytest.approx(plan.used, rel=0.03)
        assert delayed.rented_gpus < 1.03 * plan.used
