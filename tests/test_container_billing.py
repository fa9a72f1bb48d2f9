"""What a container is billed: in steps, and for a least time, by every policy that has them."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from gpuplan.planner.policies.allpass import measure
from gpuplan.planner.policies.allpass_policies import VARIANTS
from gpuplan.planner.policies.allpass_settings import SETTINGS
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

BY_MINUTE = {"serverless_billing_step_s": 60.0}
AN_HOUR = {"serverless_minimum_billing_s": 3600.0}
RULES = Allpass(
    controller="fixed",
    threshold_s=90.0,
    checkpoint_s=5.0,
    restore_s=0.0,
    serverless_price=3.6,
    serverless_startup=StartUp(7.0, 0.0),
)
"""$0.001 per second and GPU. Jobs of 30 and 120 s hold their containers for 30 and 90 + 5 s."""
WORK = Workload.from_seconds([0, 0], [30, 120], [2, 1], [60, 240], [0.5, 1.0])
JOBS = TraceJobs(WORK, pl.Series("job_id", ["a", "b"]), ())


@pytest.mark.parametrize(
    ("billing", "billed_s", "all_serverless_s"),
    [
        ({}, (30, 95), (30, 120)),  # start-ups are free
        (BY_MINUTE, (60, 120), (60, 120)),
        ({"serverless_minimum_billing_s": 90.0}, (90, 95), (90, 120)),
        (BY_MINUTE | {"serverless_minimum_billing_s": 90.0}, (90, 120), (90, 120)),
        (BY_MINUTE | AN_HOUR, (3600, 3600), (3600, 3600)),
        ({"serverless_billing_step_s": 1.0}, (30, 95), (30, 120)),  # whole steps stay
    ],
)
def test_containers_are_billed_in_steps_and_for_the_least_time(billing, billed_s, all_serverless_s):
    run = run_allpass(WORK, replace(RULES, **billing), np.random.default_rng(0))
    share = np.array([0.5, 1.0]) / 1000
    np.testing.assert_allclose(run.serverless_usd, share * billed_s, rtol=1e-12)
    results = measure(run)
    assert results["cost_serverless_usd"] == pytest.approx((share * billed_s).sum())
    assert results["cost_if_serverless_usd"] == pytest.approx((share * all_serverless_s).sum())
    plain = run_allpass(WORK, RULES, np.random.default_rng(0))
    assert measure(run)["utilization"] == measure(plain)["utilization"]  # of the time held
    np.testing.assert_array_equal(run.rental_usd, plain.rental_usd)


def test_every_policy_with_containers_has_them_and_no_other():
    for name in ("allpass", *VARIANTS):
        known = POLICIES[name].settings.keys() >= (BY_MINUTE | AN_HOUR).keys()
        assert known == (name in ("allpass", "fixed-threshold", "serverless-only")), name
    for name in BY_MINUTE | AN_HOUR:
        assert SETTINGS[name].default == 0


def test_serverless_alone_pays_them():
    found = POLICIES["serverless-only"].run(JOBS, AN_HOUR, np.random.default_rng(0))
    assert found.results["cost_usd"] == pytest.approx(1.5 * 2.10)
    assert found.settings["serverless_minimum_billing_s"] == 3600


def test_a_sweep_compares_with_everything_serverless_billed_alike():
    rules = replace(RULES, **BY_MINUTE)
    found = sweep(JOBS, rules, SweepGrid([90.0], price_ratios=[0.5, 1]), np.random.default_rng(0))
    assert found.reference.cost_usd == pytest.approx((0.5 * 60 + 120) / 1000)
    for point in found.points:
        if point.policy == "fixed":
            assert point.results["cost_serverless_usd"] == pytest.approx((0.5 * 60 + 120) / 1000)
            assert point.closed_form_cost_usd < point.cost_usd  # it knows no steps
