"""A bound on run times over those recorded: by hand, against a linear program, and laws."""

from dataclasses import replace
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import support_boa as oracle

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.slower import least_slower
from gpuplan.planner.frontier.slowdown import RecordedRuns


def on_16(slower, **fields):
    # One job an hour, s(k) = sqrt(k) on 1 to 16 GPUs, recorded on 16: s = 4.
    recorded = {"recorded_speedup": np.array([4.0]), "slower": slower}
    return replace(oracle.law_class("a", widths=16), **recorded, **fields)


def test_a_bound_of_twice_the_run_takes_a_quarter_of_the_gpus():
    frontier = solve_frontier([on_16(2.0)])  # s >= 2 from 4 GPUs on
    # A job of an hour of work takes 4 / 2 = 2 GPU-hours on 4 GPUs, 16 / 4 on 16.
    assert (frontier.min_budget, frontier.saturation_budget) == (2, 4)
    (row,) = frontier.at_budget(2).widths
    assert (row.width, row.share, frontier.at_budget(2).mean_jct_s) == (4, 1, 1800)
    assert solve_frontier([on_16(1.0)]).min_budget == 4
    assert solve_frontier([on_16(float("inf"))]).min_budget == 1


def test_an_epoch_without_work_has_no_bound():
    job = replace(
        on_16(2.0),
        work_h=np.array([1.0, 0.0]),
        speedup=np.tile(on_16(2.0).speedup, (2, 1)),
        recorded_speedup=np.array([4.0, 1e9]),
    )
    assert solve_frontier([job]).min_budget == 2


def test_what_cannot_be_kept_is_said_with_the_nearest_bound():
    narrow = on_16(1.5, widths=np.arange(1.0, 5.0), speedup=np.sqrt(np.arange(1.0, 5.0))[None])
    with pytest.raises(
        InfeasibleError, match=r"(?s)'a' cannot keep within 1.5 times .* --slower 2x"
    ):
        solve_frontier([oracle.law_class("b"), narrow])
    solve_frontier([replace(narrow, slower=2.0)])
    frontier = solve_frontier([on_16(2.0)])
    with pytest.raises(InfeasibleError, match=r"within 2 times their recorded run: the least is 2"):
        frontier.at_budget(1.9)
    assert least_slower(2.0, lambda times: times >= 2.3301) == 2.34
    assert least_slower(1.0, lambda times: times >= 1.0) is not None
    assert least_slower(2.0, lambda times: False) is None


def bounded_class(rng, name, *, epochs, widths, rescale_h, types=1):
    """A class of arbitrary speedups on one or two GPU types, with a bound that it can keep."""
    job = oracle.random_class(
        rng, name, epochs=epochs, widths=widths, rescale_h=rescale_h,
        weight=float(rng.choice([1.0, 3.0])),
    )  # fmt: skip
    if types > 1:
        usd = [1.0, float(rng.uniform(0.3, 3.0))]
        faster = rng.uniform(0.5, 3.0, (epochs, 1))
        job = replace(
            job,
            widths=np.tile(job.widths, 2),
            speedup=np.concatenate([job.speedup, faster * job.speedup], axis=1),
            cost_per_h=np.concatenate([price * job.widths for price in usd]),
            gpu_types=("A",) * widths + ("B",) * widths,
        )
    recorded = job.speedup.max(axis=1) * rng.uniform(0.5, 1.5, epochs)
    least = float((recorded / job.speedup.max(axis=1)).max())
    return replace(job, recorded_speedup=recorded, slower=max(1.0, least) * rng.uniform(1.0, 2.0))


def optimum_s(classes, budget):
    """The least weighted mean over all mixes of allowed paths, by a linear program; and its dual.

    A path is allowed where no epoch runs longer than ``slower`` times its recorded run: written
    out, without the code under test.
    """
    points = []
    for job in classes:
        epochs, widths = job.speedup.shape
        allowed = [
            path
            for path in product(range(widths), repeat=epochs)
            if all(
                1 / job.speedup[j, v] <= job.slower / job.recorded_speedup[j] * (1 + 1e-9)
                for j, v in enumerate(path)
                if job.work_h[j] > 0
            )
        ]
        points.append(np.array([oracle.total_of(job, path) for path in allowed]))
    shares = [cp.Variable(len(p), nonneg=True) for p in points]
    rate = [c.rate_per_h for c in classes]
    within = sum(r * (p[:, 0] @ x) for r, p, x in zip(rate, points, shares, strict=True)) <= budget
    time = sum(
        c.rate_per_h * c.weight * (p[:, 1] @ x)
        for c, p, x in zip(classes, points, shares, strict=True)
    )
    problem = cp.Problem(cp.Minimize(time), [within, *(cp.sum(x) == 1 for x in shares)])
    problem.solve(solver=cp.HIGHS)
    assert problem.status == cp.OPTIMAL
    weights = sum(c.rate_per_h * c.weight for c in classes)
    return 3600 * problem.value / weights, float(within.dual_value)


@pytest.mark.slow
def test_random_bounds_against_the_linear_program_over_all_allowed_paths():
    rng = np.random.default_rng(26)
    bound = 0
    for case in range(60):
        classes = [
            bounded_class(
                rng, str(i), epochs=rng.integers(1, 4), widths=rng.integers(2, 5),
                rescale_h=[0.0, 0.05, 0.4][case % 3], types=1 + case % 2,
            )
            for i in range(rng.integers(1, 4))
        ]  # fmt: skip
        frontier = solve_frontier(classes)
        free = solve_frontier([replace(c, slower=float("inf")) for c in classes])
        low, high = frontier.min_budget, frontier.saturation_budget
        bound += low > free.min_budget * (1 + 1e-9)
        for share in (1e-6, 0.31, 0.77, 1.0):
            budget = low + share * (high - low) + 1e-9
            plan = frontier.at_budget(budget)
            least_s, dual = optimum_s(classes, budget)
            assert plan.objective_s == pytest.approx(least_s, rel=1e-6)
            if 0.1 < share < 0.9 and high > low * 1.001:  # within an edge: the price of the budget
                assert plan.multiplier == pytest.approx(dual, rel=1e-5)
            assert free.is_enough(budget)
            assert free.at_budget(budget).objective_s <= plan.objective_s * (1 + 1e-9)
            assert plan.rounded_used <= budget * (1 + 1e-9)  # no split to keep a mean
            for job, part in zip(classes, plan.classes, strict=True):
                for row in part.widths:
                    at = np.flatnonzero(job.widths == row.width)
                    if job.gpu_types:
                        at = [i for i in at if job.gpu_types[i] == row.gpu_type]
                    times = job.recorded_speedup[row.epoch] / job.speedup[row.epoch, at[0]]
                    assert times <= job.slower * (1 + 1e-9)
    assert bound > 20  # else this says nothing about bounds


def test_a_looser_bound_is_never_worse():
    rng = np.random.default_rng(27)
    for _ in range(20):
        job = bounded_class(rng, "a", epochs=2, widths=4, rescale_h=0.1)
        tight, loose = (solve_frontier([replace(job, slower=job.slower * f)]) for f in (1.0, 1.5))
        assert loose.min_budget <= tight.min_budget * (1 + 1e-12)
        for budget in np.linspace(tight.min_budget, 2 * tight.saturation_budget, 5):
            assert loose.mean_jct_at(budget) <= tight.mean_jct_at(budget) * (1 + 1e-9)


def test_longer_runs_as_worked_by_hand():
    # s(k) = sqrt(k). Planned on 4 GPUs: from 1 GPU half the run, from 4 the same, from 16 twice.
    job = oracle.law_class("a", widths=4)
    gpus, run_h = np.array([1.0, 4.0, 16.0, 16.0, 16.0]), np.array([8.0, 2.0, 1.0, np.nan, 0.0])
    arrivals = ClassArrivals(
        submit_s=np.arange(5.0),
        job_class=np.zeros(5, np.int64),
        work_h=np.nan_to_num(run_h) * np.sqrt(gpus),
        gpus=gpus,
        run_h=run_h,
    )
    recorded = RecordedRuns.of(arrivals)
    assert recorded is not None
    frontier = solve_frontier([job])
    slower = recorded.slowdown(frontier.classes, frontier.at_budget(frontier.saturation_budget))
    assert (slower.jobs, slower.gpu_h) == (4, 8 + 8 + 16)  # one has no recorded run
    assert slower.most_times == pytest.approx(2)
    assert [(r.times, r.gpu_h) for r in slower.longer] == [(1, 16), (1.25, 16), (1.5, 16), (2, 0)]
    assert slower.beyond(1.5).gpu_h_share == 0.5
    assert [(w.num_gpus, w.jobs, w.slower_gpu_h) for w in slower.num_gpus] == [
        (1, 1, 0), (4, 1, 0), (16, 2, 16),
    ]  # fmt: skip
    (row,) = slower.classes
    assert (row.job_class, row.jobs, row.much_slower_gpu_h) == ("a", 4, 16)
    # Half of the way to 1 GPU for all, a share of the jobs is on each width.
    plan = frontier.at_budget(1.5)
    halves = recorded.slowdown(frontier.classes, plan)
    split = {row.width: row.share for row in plan.widths}
    assert len(split) == 2 and 0 < halves.beyond(1.0).jobs <= 3
    assert RecordedRuns.of(replace(arrivals, run_h=None)) is None
    assert RecordedRuns.of(replace(arrivals, run_h=np.full(5, np.nan))) is None
    assert JobClass("b", 1.0, np.ones(1), np.ones(1), np.ones((1, 1))).least_slower() == 0
