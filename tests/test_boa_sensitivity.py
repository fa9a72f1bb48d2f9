"""Plans under wrong speedups and bursty arrivals: by hand, closed forms, laws, simulation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_boa import law_class, random_class
from support_boa_replay import workload_of_jobs

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.demand import demand_law
from gpuplan.planner.frontier.uncertainty.bursts import Mmpp2, burst_sensitivity, mmpp2_of
from gpuplan.planner.frontier.uncertainty.sensitivity import speedup_sensitivity

AT_ONCE = RentedCluster(provision_s=0, release_s=0)


def two_widths(name="a", rescale_h=0.0):
    """Two hours on one GPU; two GPUs are 1.6 times as fast."""
    k = np.array([1.0, 2.0])
    return JobClass(name, 1.0, np.array([2.0]), k, np.array([[1.0, 1.6]]), rescale_h)


def with_jobs(classes, gpus, horizon_h=50.0, seed=0):
    """As many jobs as the rates of the classes say, of mean size, recorded on some GPUs."""
    count = [round(c.rate_per_h * horizon_h) for c in classes]
    group = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(classes)), count))
    work_h = np.array([c.work_h.sum() for c in classes])[group]
    submit_s = np.arange(group.size) * 3600 * horizon_h / group.size
    one = workload_of_jobs(classes, submit_s, group, work_h, horizon_h)
    return replace(one, arrivals=replace(one.arrivals, gpus=np.full(group.size, float(gpus))))


def test_speedup_error_by_hand():
    # On 2 GPUs planned: 2/1.6 = 1.25 h. A gain of 0.6 that is 20% less makes s = 1.48.
    a = two_widths(rescale_h=0.5)
    plan = solve_frontier([a]).at_budget(100.0)
    found = speedup_sensitivity(with_jobs([a], gpus=1), plan, 0.2)
    less, more = found.rows[:2]
    assert (less.job_class, less.error, more.error) == (None, -0.2, 0.2)
    assert less.mean_jct_s == pytest.approx(3600 * (0.5 + 2 / 1.48))
    assert less.used_gpus == pytest.approx(2 * (0.5 + 2 / 1.48))
    assert more.mean_jct_s == pytest.approx(3600 * (0.5 + 2 / 1.72))
    assert found.worst_mean_jct_s == less.mean_jct_s and found.worst_used_gpus == less.used_gpus
    assert less.best_jct_s == pytest.approx(less.mean_jct_s)
    # Recorded on 2 GPUs: what took 1.25 h takes 1.25 h, whatever one GPU would have taken.
    measured = speedup_sensitivity(with_jobs([a], gpus=2), plan, 0.2)
    for row in measured.rows:
        assert row.mean_jct_s == pytest.approx(plan.mean_jct_s)
    # But planned on one GPU those jobs are 1.72 / 1.6 of the size if the gain is larger.
    narrow = solve_frontier([a]).at_budget(2.5)
    larger = speedup_sensitivity(with_jobs([a], gpus=2), narrow, 0.2).rows[1]
    assert larger.mean_jct_s == pytest.approx(3600 * (0.5 + 2 * 1.72 / 1.6))
    # Sizes of a profile were measured on one GPU.
    sized = replace(with_jobs([a], gpus=2), sized_by_profile=("a",))
    assert speedup_sensitivity(sized, plan, 0.2).rows[0].mean_jct_s == less.mean_jct_s
    assert found.all_less.mean_jct_s == less.mean_jct_s
    frame = found.to_frame()
    assert frame["job_class"].to_list() == [None, None, "a", "a"]
    assert frame["error"].to_list() == [-0.2, 0.2] * 2


def test_what_gains_nothing_from_gpus_cannot_err():
    k = np.array([1.0, 2.0])
    flat = JobClass("a", 1.0, np.array([2.0]), k, np.array([[1.0, 0.7]]), 0.1)
    plan = solve_frontier([flat]).at_budget(100.0)
    found = speedup_sensitivity(with_jobs([flat], gpus=2), plan, 0.9)
    assert [r.mean_jct_s for r in found.rows] == pytest.approx([plan.mean_jct_s] * 4)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.01, 0.9), st.integers(1, 9))
def test_laws_of_speedup_error(seed, error, gpus):
    rng = np.random.default_rng(seed)
    classes = [
        replace(random_class(rng, name, epochs=2, widths=5, rescale_h=0.1), rate_per_h=rate)
        for name, rate in (("a", 2.0), ("b", 1.0), ("c", 0.5))
    ]
    one = with_jobs(classes, gpus)
    frontier = solve_frontier(classes)
    budget = rng.uniform(1, 1.2) * frontier.min_budget
    plan = frontier.at_budget(budget)
    found = speedup_sensitivity(one, plan, error)
    none = speedup_sensitivity(one, plan, 1e-9)
    for row in none.rows:  # no error: the plan
        assert row.mean_jct_s == pytest.approx(plan.mean_jct_s, rel=1e-6)
        assert row.used_gpus == pytest.approx(plan.used, rel=1e-6)
    for row in found.rows:
        assert row.mean_jct_s <= found.worst_mean_jct_s * (1 + 1e-9)
        assert row.used_gpus <= found.worst_used_gpus * (1 + 1e-9)
    for row in found.rows[:2]:
        assert row.best_jct_s <= row.mean_jct_s * (1 + 1e-9)
    # What classes add one by one is what they add together.
    for sign, together in enumerate(found.rows[:2]):
        added = sum(row.mean_jct_s - plan.mean_jct_s for row in found.rows[2 + sign :: 2])
        assert added == pytest.approx(together.mean_jct_s - plan.mean_jct_s, abs=1e-6)
    assert found.worst_class.mean_jct_s == max(row.mean_jct_s for row in found.rows[2:])


def test_error_is_checked():
    a = two_widths()
    plan = solve_frontier([a]).at_budget(5.0)
    for error in (0, 1, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 1"):
            speedup_sensitivity(with_jobs([a], 1), plan, error)
    typed = [replace(a, gpu_types=("T4", "A100"))]
    with pytest.raises(UsageError, match="rents several"):
        speedup_sensitivity(with_jobs(typed, 1), solve_frontier(typed).at_budget(5.0))


def scv_by_matrices(p):
    """C^2 from the moments of a gap: k! times (phase at an arrival) (L - Q)^-k 1."""
    rates = np.diag([p.high, p.low])
    change = np.array([[-p.leave_high, p.leave_high], [p.leave_low, -p.leave_low]])
    at_arrival = np.array([p.high_share, 1 - p.high_share]) @ rates / p.rate_per_h
    inverse = np.linalg.inv(rates - change)
    first, second = (k * at_arrival @ np.linalg.matrix_power(inverse, k) @ [1, 1] for k in (1, 2))
    assert first == pytest.approx(1 / p.rate_per_h)
    return second / first**2 - 1


@settings(max_examples=30)
@given(*[st.floats(0.01, 50)] * 2, *[st.floats(0.01, 20)] * 2)
def test_closed_form_of_the_scv(low, more, leave_high, leave_low):
    process = Mmpp2(low + more, low, leave_high, leave_low)
    assert process.scv == pytest.approx(scv_by_matrices(process), rel=1e-7)


def test_scv_of_known_processes():
    assert Mmpp2(3.0, 3.0, 1.0, 2.0).scv == 1  # Poisson
    # No arrivals at the low rate, hyperexponential gaps: 1 + 2 a u / (u + v)^2 (Kuczura 1973).
    assert Mmpp2(4.0, 0.0, 1.0, 3.0).scv == pytest.approx(1 + 2 * 4 * 1 / 16)


@settings(max_examples=30)
@given(st.floats(0.01, 1e3), st.floats(1, 40), st.floats(0.02, 0.9), st.floats(1.0, 50))
def test_process_of_a_wanted_scv(rate, scv, share, spare):
    least_jobs = max((scv - 1) / (2 * (1 - share) ** 2), 0.1)
    process = mmpp2_of(rate, scv, spare * least_jobs / rate, share)
    assert process.scv == pytest.approx(scv, rel=1e-6)
    assert process.rate_per_h == pytest.approx(rate)
    assert process.high_share == pytest.approx(share)
    stays_h = 1 / process.leave_high + 1 / process.leave_low
    assert stays_h == pytest.approx(spare * least_jobs / rate)


def test_scv_out_of_reach():
    with pytest.raises(UsageError, match=r"at least 1, got 0\.5"):
        mmpp2_of(1.0, 0.5, 10.0)
    with pytest.raises(UsageError, match=r"17\.2 at most\n  next: a cycle of at least 11\.7 h"):
        mmpp2_of(1.0, 20.0, 10.0)
    at_most = mmpp2_of(1.0, 1 + 2 * 0.81 * 10, 10.0)
    assert at_most.low == pytest.approx(0, abs=1e-9)
    for wrong in ((1, 2, 1, 1), (0, 0, 1, 1), (1, 0, 0, 1)):
        with pytest.raises(ValueError, match="must"):
            Mmpp2(*wrong)


def test_drawn_arrivals_have_the_rate_and_the_scv():
    process = mmpp2_of(20.0, 5.0, 2.0)
    at_h = process.draw_h(200_000, np.random.default_rng(1))
    gaps = np.diff(at_h)
    assert at_h.size == 200_000 and (gaps >= 0).all() and at_h[0] >= 0
    assert 1 / gaps.mean() == pytest.approx(20, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(5, rel=0.05)


def mixed_workload():
    rng = np.random.default_rng(2)
    classes = [
        law_class("a", rate=8.0, work=(1.0, 0.5), alpha=(0.9, 0.6), widths=16, rescale_h=0.02),
        law_class("b", rate=2.0, work=(3.0,), alpha=0.5, widths=16, rescale_h=0.02),
    ]
    one = with_jobs(classes, 1)
    spread = rng.exponential(1.0, one.jobs)
    return replace(one, arrivals=replace(one.arrivals, work_h=one.arrivals.work_h * spread))


def test_bursts_move_peaks_and_not_completion_times():
    # With GPUs there at once a job runs as if alone: its time does not depend on the others'.
    one = mixed_workload()
    plan = solve_frontier(one.classes).at_budget(25.0)
    shares = []
    found = burst_sensitivity(
        one, plan, AT_ONCE, replicas=3, rng=np.random.default_rng(0), progress=shares.append
    )
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])
    assert [point.target_scv for point in found.points] == pytest.approx([1, 2, 5, 10, 20])
    first, last = found.points[0], found.points[-1]
    for point in found.points:
        assert point.mean_jct_s.value == pytest.approx(first.mean_jct_s.value, rel=1e-9)
        assert point.rented_gpus.value == pytest.approx(first.rented_gpus.value, rel=1e-9)
        assert point.peak_gpus.low <= point.peak_gpus.value <= point.peak_gpus.high
    assert 0.8 < first.scv.value < 1.3 and last.scv.value > 5
    assert last.peak_gpus.value > 1.5 * first.peak_gpus.value
    # The cap is exceeded 5% of the time by Poisson arrivals, and more by these.
    assert found.cap_gpus == demand_law(one, plan).quantile(0.95)
    assert first.above_cap_share.value == pytest.approx(0.05, abs=0.04)
    assert last.above_cap_share.value > first.above_cap_share.value
    assert found.to_frame()["peak_gpus"].to_list() == [p.peak_gpus.value for p in found.points]
    assert found.points[0].high_rate_per_h == pytest.approx(10)


def test_bursts_are_the_same_each_time():
    one = mixed_workload()
    plan = solve_frontier(one.classes).at_budget(25.0)

    def run(seed):
        rng = np.random.default_rng(seed)
        return burst_sensitivity(one, plan, scvs=(1.0, 8.0), replicas=2, cap_gpus=30, rng=rng)

    assert plain(run(0)) == plain(run(0)) != plain(run(1))
    assert run(0).cap_gpus == 30 and run(0).cluster == RentedCluster()
    few = replace(one, arrivals=one.arrivals.where(np.arange(one.jobs) < 12), jobs=12)
    found = burst_sensitivity(few, plan, replicas=1, rng=np.random.default_rng(0))
    assert found.cycle_h > one.horizon_h / 12  # so that so few jobs can have a C^2 of 20
    with pytest.raises(ValueError, match="no jobs"):
        burst_sensitivity(replace(one, arrivals=None), plan, rng=np.random.default_rng(0))


def test_a_limit_is_what_the_demand_of_bursts_is_compared_with():
    one = mixed_workload()
    plan = solve_frontier(one.classes).at_budget(25.0)

    def run(cluster):
        rng = np.random.default_rng(1)
        return burst_sensitivity(one, plan, cluster, scvs=(1.0, 8.0), replicas=2, rng=rng)

    limit = int(run(RentedCluster()).cap_gpus) // 2
    limited, free = run(RentedCluster(max_gpus=limit)), run(RentedCluster())
    assert limited.cap_gpus == limit < free.cap_gpus
    for ours, theirs in zip(limited.points, free.points, strict=True):
        assert ours.peak_gpus.value <= limit
        assert ours.above_cap_share.value > theirs.above_cap_share.value  # a lower bar
    again = burst_sensitivity(
        one, plan, RentedCluster(), scvs=(1.0, 8.0), replicas=2, cap_gpus=limit,
        rng=np.random.default_rng(1),
    )  # fmt: skip
    for ours, theirs in zip(limited.points, again.points, strict=True):
        assert ours.above_cap_share == theirs.above_cap_share  # what is asked for, without a queue
