"""From shares to jobs: by largest remainder, and what the jobs then hold, exact in time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_plan import HOUR, jobs_from, market, plan_of

from gpuplan.planner.plan.assignment import assigned_jobs, shares_of
from gpuplan.planner.plan.market_use import market_uses
from gpuplan.planner.plan.program import PlanLimits
from gpuplan.simkit.apportion import apportion

pytestmark = pytest.mark.kernels


def test_jobs_are_given_out_by_largest_remainder():
    assert apportion(np.array([0.5, 0.5]), 4).tolist() == [0, 1, 0, 1]
    # Before job k the remainders are .6 .3 .1, then .2 .6 .2, .8 -.1 .3, .4 .2 .4 and 0 .5 .5.
    assert apportion(np.array([0.6, 0.3, 0.1]), 5).tolist() == [0, 1, 0, 0, 1]
    assert apportion(np.array([0.0, 1.0]), 3).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="at least 0"):
        apportion(np.array([-0.5, 1.5]), 3)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 200))
@settings(max_examples=30, deadline=None)
def test_every_beginning_has_about_the_shares(parts, jobs):
    share = np.array(parts) / sum(parts)
    route = apportion(share, jobs)
    counts = np.cumsum(route[:, None] == np.arange(share.size), axis=0)
    apart = counts - share * np.arange(1, jobs + 1)[:, None]
    assert apart.max() < 1 and apart.min() > -(share.size - 1) - 1e-9
    if share.size == 2:
        assert abs(apart).max() <= 0.5 + 1e-9


def test_tiny_shares_are_none():
    columns = plan_of(jobs_from([0], [HOUR], [1]), market(on_demand=1.0, serverless_usd=3.0))
    columns = columns.program.columns
    share = np.zeros(columns.class_of.size)
    share[0], share[1] = 1 - 5e-7, 5e-7
    assert shares_of(columns, share).tolist() == [1.0] + [0.0] * (share.size - 1)


def test_what_jobs_hold_is_exact_in_time():
    # 90 s of one GPU, then 30 s of three more within the second minute: bins see a peak of 2.
    jobs = jobs_from([0, 90], [120, 30], [1, 3])
    plan = plan_of(jobs, market(0.5, 1.0))
    assigned = assigned_jobs(plan.program.columns, plan.whole_nodes.share)
    committed, rented = market_uses(plan, assigned)
    assert (committed.name, committed.gpus, committed.mean_gpus) == ("committed", 1.0, 1.0)
    assert committed.usd_per_month == 0.5 * 730.5
    assert (rented.peak_gpus, rented.peak_s) == (3.0, 90.0)
    assert rented.mean_gpus == pytest.approx(0.75) == pytest.approx(rented.usd_per_month / 730.5)


def test_markets_of_jobs_on_spot_and_in_containers():
    jobs = jobs_from(
        [0, 0, 0, 0], [HOUR, HOUR, 30, 4 * HOUR], [4, 4, 1, 1],
        gpu_type=["A", "A", "B", "B"], job_class=["a", "a", "b", "c"], spot="gpu_type = 'A'",
    )  # fmt: skip
    prices = {
        "A": market(on_demand=2.0, spot_usd=0.5),
        "B": market(on_demand=2.0, serverless_usd=1.9, owned=1),
    }
    plan = plan_of(jobs, prices, limits=PlanLimits(spot_max=0.2))
    columns = plan.program.columns
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    # 20% of 12 GPU-hours are 30% of class a: its first job runs on demand, its second on spot.
    names = [columns.routes[i].name for i in assigned.column]
    assert names == ["base", "spot", "serverless 60", "base"]
    uses = {(use.gpu_type, use.name): use for use in market_uses(plan, assigned)}
    assert set(uses) == {
        ("A", "on_demand"), ("A", "spot"), ("B", "owned"), ("B", "on_demand"), ("B", "serverless"),
    }  # fmt: skip
    owned = uses["B", "owned"]
    assert (owned.usd_per_month, owned.mean_gpus) == (0, pytest.approx(1.0))
    assert uses["A", "on_demand"].mean_gpus == pytest.approx(1.0)
    spot = uses["A", "spot"]
    assert spot.mean_gpus == pytest.approx(assigned.time_s[1] / HOUR)  # 4 GPUs, in 4 hours
    assert spot.peak_gpus == 4.0
    assert spot.usd_per_month == pytest.approx(0.5 * 730.5 * spot.mean_gpus)
    assert uses["B", "serverless"].usd_per_month == pytest.approx(1.9 * 730.5 * 30 / 4 / HOUR)
    assert uses["B", "on_demand"].usd_per_month == 0


def test_dollars_of_a_plan_without_a_split_are_those_of_its_shares():
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 600, 80)) * 60.0
    submit -= submit[0]
    jobs = jobs_from(submit, rng.integers(1, 90, 80) * 60.0, rng.choice([1, 2, 8], 80))
    plan = plan_of(jobs, market(0.9, 1.29))
    columns = plan.program.columns
    uses = market_uses(plan, assigned_jobs(columns, plan.whole_nodes.share))
    assert sum(use.usd_per_month for use in uses) == pytest.approx(
        plan.whole_nodes.usd_per_h * 730.5
    )


def test_deferred_jobs_have_no_route_and_their_work_counts():
    jobs = jobs_from(
        [0, 0], [2 * HOUR, HOUR], [2, 2], job_class=["a", "later"], defer="job_class = 'later'"
    )
    plan = plan_of(jobs, market(on_demand=1.0), within_s=HOUR)
    assigned = assigned_jobs(plan.program.columns, plan.whole_nodes.share)
    assert assigned.column.tolist() == [0, -1]
    (rented,) = market_uses(plan, assigned)
    assert rented.mean_gpus == pytest.approx(3.0)
