"""Baselines on workloads of the planner: recorded, fixed width, equal share, Pollux."""

import numpy as np
import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.policies.rounds.decided import cluster_sizes
from gpuplan.planner.policies.rounds.replay import billed_gpu_h, replay_rounds, rounds_jobs
from gpuplan.planner.policies.widths.policies import widths
from gpuplan.planner.registry import BASELINES, POLICIES, find_baseline
from gpuplan.simkit.rounds.simulator import RoundsPolicy

AT_ONCE = RentedCluster(provision_s=0, release_s=0)


def workload(submit_s, job_class, work_h, classes, gpus=None, horizon_h=1.0):
    return ClassWorkload(
        classes=tuple(classes),
        horizon_h=horizon_h,
        jobs=len(submit_s),
        rescale_origin="option",
        notes=(),
        arrivals=ClassArrivals(
            submit_s=np.array(submit_s, float),
            job_class=np.array(job_class, np.int64),
            work_h=np.array(work_h, float),
            gpus=np.array(gpus or [1] * len(submit_s), float),
        ),
    )


def power_class(name, *, rate=1.0, work_h=1.0, widest=8, alpha=0.5, rescale_h=0.0):
    grid = np.arange(1.0, widest + 1)
    return JobClass(name, rate, np.array([work_h]), grid, grid[None] ** alpha, rescale_h)


def busy(seed, hours=30.0, per_h=12.0, rescale_h=0.01):
    """Two classes, bursts: arrivals four times as frequent in half of the hours."""
    rng = np.random.default_rng(seed)
    classes = [
        power_class("short", rate=per_h * 0.8, work_h=0.3, alpha=0.85, rescale_h=rescale_h),
        power_class("long", rate=per_h * 0.2, work_h=3.0, alpha=0.7, rescale_h=rescale_h),
    ]
    count = int(per_h * hours)
    hour = rng.choice(int(hours), count, p=np.tile([1.6, 0.4], int(hours) // 2) / hours)
    group = (rng.random(count) < 0.2).astype(np.int64)
    work = np.array([0.3, 3.0])[group]
    submit = np.sort(hour + rng.random(count)) * 3600
    return workload(submit, group, work, classes, horizon_h=hours)


def test_recorded_and_fixed_width_by_hand():
    # s = sqrt(k): an hour of work takes 1800 s on 4 GPUs, 2700 s of work 2700 s on one.
    jobs = workload([0, 10], [0, 0], [1.0, 0.75], [power_class("a")], gpus=[4, 1])
    run = BASELINES["recorded"].run(jobs, AT_ONCE, 0.0)
    assert run.jct_s.tolist() == [1800, 2700]
    assert run.held_gpu_h == pytest.approx(2 + 0.75)
    run = BASELINES["fixed-width"].run(jobs, AT_ONCE, 4.0)
    assert run.jct_s.tolist() == [1800, 1350]
    narrow = workload([0], [0], [1.0], [power_class("a", widest=2)])
    run = BASELINES["fixed-width"].run(narrow, AT_ONCE, 8.0)  # the nearest it may have
    assert run.jct_s[0] == pytest.approx(3600 / 2**0.5, abs=1e-5)


def test_equal_share_and_pollux_by_hand():
    # Two like jobs on 8 GPUs have 4 each from the first round on, without pauses: 1800 s.
    jobs = workload([0, 0], [0, 0], [1.0, 1.0], [power_class("a")])
    for name in ("equal", "pollux"):
        run = BASELINES[name].run(jobs, RentedCluster(node_gpus=4), 9.0)  # two whole nodes
        assert run.jct_s.tolist() == [1800, 1800]
        assert run.peak_gpus == 8
        assert run.rented_gpu_h == run.billed_gpu_h == pytest.approx(4)
        assert run.efficiency == pytest.approx(0.5)


def test_autoscaling_by_hand():
    # The efficiency of sqrt(k) is 0.5 at 4 GPUs. Ready after 90 s, so from the round of 120 s on:
    # 1800 s, to 1920 s, which is a round. Billed from request or from ready.
    jobs = workload([0], [0], [1.0], [power_class("a")])
    run = BASELINES["pollux-autoscaling"].run(jobs, RentedCluster(), 0.5)
    assert run.jct_s.tolist() == [1920] and run.jqt_s.tolist() == [120]
    assert run.gpus.tolist() == [4, 0] and run.time_s[0] == 0
    rented_s = float(run.time_s[1])
    assert 1920 <= rented_s <= 1980
    assert run.billed_gpu_h * 3600 == pytest.approx(4 * (rented_s - 90))
    run = BASELINES["pollux-autoscaling"].run(jobs, RentedCluster(billed_from="request"), 0.5)
    assert run.billed_gpu_h == pytest.approx(run.rented_gpu_h)


def test_the_autoscaler_acts_on_a_tenth_and_not_on_a_thirtieth():
    # Half the work at sqrt(k), then at f sqrt(k): at the 4 GPUs of efficiency 0.5 it becomes f / 2.
    # At f = 1.2 that is 0.1 off, and 6 GPUs have 1.2 / sqrt(6) = 0.490; f = 1.06 is let be.
    grid = np.arange(1.0, 9)
    for factor, sizes in ((1.2, [4, 6, 0]), (1.06, [4, 0])):
        speedup = np.stack([grid**0.5, factor * grid**0.5])
        kind = JobClass("a", 1.0, np.array([0.5, 0.5]), grid, speedup)
        run = BASELINES["pollux-autoscaling"].run(workload([0], [0], [1.0], [kind]), AT_ONCE, 0.5)
        assert run.gpus.tolist() == sizes


def test_bills_by_hand():
    # 4 GPUs from 0 to 100 s, 2 more from 30 to 50 s; billed in minutes: 4 x 120 + 2 x 60.
    time_us, gpus = np.array([0, 30, 50, 100]) * 1_000_000, np.array([4, 6, 4, 0])
    minutes = RentedCluster(billing_s=60, billed_from="request")
    assert billed_gpu_h(time_us, gpus, minutes, waits=0) * 3600 == pytest.approx(600)
    seconds = RentedCluster(billed_from="ready")
    assert billed_gpu_h(time_us, gpus, seconds, waits=25) * 3600 == pytest.approx(4 * 75)


@pytest.mark.parametrize("seed", range(3))
def test_every_baseline_does_all_the_work(seed):
    jobs = busy(seed)
    for name, kind in BASELINES.items():
        assert POLICIES[name].about and POLICIES[name].source
        for knob in kind.knobs(jobs)[-2:]:
            run = kind.run(jobs, RentedCluster(), knob)
            assert run.results().jobs == jobs.jobs, name
            assert (run.jct_s >= run.jqt_s).all()
            # Sublinear: work in GPU-hours at least, one pause a job at least.
            assert run.held_gpu_h >= jobs.arrivals.work_h.sum() + 0.01 * jobs.jobs - 1e-6
            assert run.rented_gpu_h >= run.held_gpu_h
            assert (run.rescales >= 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_more_gpus_or_less_efficiency_end_jobs_sooner(seed):
    jobs = busy(seed)
    for name in ("pollux", "equal"):
        found = [
            BASELINES[name].run(jobs, RentedCluster(), g).mean_jct_s for g in cluster_sizes(jobs)
        ]
        assert found == sorted(found, reverse=True)
    runs = [BASELINES["pollux-autoscaling"].run(jobs, RentedCluster(), t) for t in (0.9, 0.7, 0.5)]
    assert [r.mean_jct_s for r in runs] == sorted((r.mean_jct_s for r in runs), reverse=True)
    assert [r.rented_gpus for r in runs] == sorted(r.rented_gpus for r in runs)


@pytest.mark.parametrize("seed", range(3))
def test_the_plan_beats_pollux_with_autoscaling_at_equal_gpu_hours(seed):
    jobs = busy(seed)
    frontier = solve_frontier(jobs.classes)
    for target in (0.8, 0.6):
        theirs = BASELINES["pollux-autoscaling"].run(jobs, RentedCluster(), target)
        budget, ours = theirs.rented_gpus, None
        for _ in range(20):  # lower the budget until as much is rented, idle nodes included
            ours = replay_plan(jobs, frontier.at_budget(budget), RentedCluster())
            if ours.rented_gpus <= theirs.rented_gpus:
                break
            budget *= theirs.rented_gpus / ours.rented_gpus
        assert ours.rented_gpus <= theirs.rented_gpus * 1.001
        assert ours.mean_jct_s < theirs.mean_jct_s


def test_a_wrong_belief_is_told_from_the_truth():
    jobs = busy(0)
    linear = [
        JobClass(c.name, c.rate_per_h, c.work_h, c.widths, c.widths[None], c.rescale_h)
        for c in jobs.classes
    ]
    policy = RoundsPolicy("pollux", max_gpus=1 << 20, target=0.7)
    right = replay_rounds(jobs, AT_ONCE, policy)
    wrong = replay_rounds(jobs, AT_ONCE, policy, believed=linear)
    assert wrong.efficiency < right.efficiency  # it thinks that GPUs are of more use than they are
    assert rounds_jobs(jobs).belief is None


def test_users_mistakes_are_errors():
    jobs = workload([0], [0], [1.0], [power_class("a")])
    with pytest.raises(UsageError, match="did you mean pollux"):
        find_baseline("polux")
    with pytest.raises(UsageError, match="expected one of recorded"):
        find_baseline("xyz")
    with pytest.raises(UsageError, match="above 0"):
        BASELINES["pollux-autoscaling"].run(jobs, RentedCluster(), 0.0)
    pairs = JobClass("a", 1.0, np.ones(1), np.array([2.0]), np.array([[2.0]]))
    needs_two = workload([0], [0], [1.0], [pairs])
    with pytest.raises(InfeasibleError, match="need 2 GPUs at least, and a cluster of 1"):
        BASELINES["pollux"].run(needs_two, RentedCluster(), 1.0)
    parts = JobClass("a", 1.0, np.ones(1), np.array([1.5]), np.array([[1.2]]))
    with pytest.raises(UsageError, match="no width of whole GPUs"):
        BASELINES["equal"].run(workload([0], [0], [1.0], [parts]), RentedCluster(), 4.0)
    two_types = JobClass(
        "a", 1.0, np.ones(1), np.ones(2), np.ones((1, 2)), gpu_types=("T4", "A100")
    )
    with pytest.raises(UsageError, match="several GPU types"):
        BASELINES["equal"].run(workload([0], [0], [1.0], [two_types]), RentedCluster(), 4.0)
    with pytest.raises(ValueError, match="no jobs"):
        rounds_jobs(ClassWorkload((pairs,), 1.0, 0, "option", ()))
    assert widths(needs_two) == (1.0, 2.0)
    assert min(cluster_sizes(needs_two)) == 2.0


def test_no_cluster_is_larger_than_what_can_be_rented():
    jobs = busy(0)
    small = RentedCluster(node_gpus=4, max_gpus=21)
    assert BASELINES["pollux"].run(jobs, small, 1000.0).peak_gpus == 20
    assert BASELINES["pollux-autoscaling"].run(jobs, small, 0.3).peak_gpus <= 20


def test_pauses_of_days_are_refused_where_the_cluster_scales_each_minute(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0, 600], [3600.0, 600.0])
    words = ("pareto", trace, "--speedup", "power:1", "--rescale", "2d", "--baseline")
    code, _, err = gpuplan(*words, "pollux-autoscaling")
    assert code == 2 and "a start or resize takes 172800 s; at most 21600 s" in err
    assert "pollux-autoscaling decides" not in gpuplan(*words, "pollux")[2]
