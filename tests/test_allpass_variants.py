"""Policies made of Allpass: one tier, one threshold, Kubernetes' autoscaler."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support_traces import lab_trace, write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.policies.allpass_policies import VARIANTS
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of


def replay(jobs, policy, **settings):
    return POLICIES[policy].run(jobs, settings, np.random.default_rng(7))


def jobs_in(path):
    read = read_trace(path, Selection(), columns=COLUMNS)
    return jobs_of(read, np.random.default_rng(0), (2.0, 2.0))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return jobs_in(lab_trace(tmp_path_factory.mktemp("lab") / "lab.parquet"))


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("policy", "settings", "as_allpass"),
    [
        ("fixed-threshold", {"threshold_s": 60.0}, {"controller": "fixed", "threshold_s": 60.0}),
        ("serverless-only", {}, {"controller": "fixed", "threshold_s": np.inf}),
    ],
)
def test_what_is_allpass_with_one_threshold_gives_its_schedule(lab, policy, settings, as_allpass):
    found, expected = replay(lab, policy, **settings), replay(lab, "allpass", **as_allpass)
    assert found.frame.equals(expected.frame)
    assert found.results == {key: expected.results[key] for key in found.results}
    assert found.policy == policy


@pytest.mark.kernels
@pytest.mark.parametrize("policy", VARIANTS)
def test_settings_and_results_are_of_the_policy(lab, policy):
    known = POLICIES[policy]
    found = replay(lab, policy)
    shown = {key for key in found.settings if key != "marketplace_usd_per_gpu_h"}
    assert shown <= known.settings.keys() == known.defaults().keys()
    assert all(found.settings[key] == known.defaults()[key] for key in shown)
    assert not set(VARIANTS[policy].fixed) & known.settings.keys() - {"threshold_s"}
    assert found.results["cost_usd"] == pytest.approx(found.frame["cost_usd"].sum())
    assert found.results["gpu_h"] == pytest.approx(found.frame["gpu_s"].sum() / 3600)
    assert 0 < found.results["utilization"] <= 1
    parts = [f"mean_{part}_s" for part in ("service", "startup", "queue", "demotion")]
    assert found.results["mean_jct_s"] == pytest.approx(
        sum(found.results.get(part, 0) for part in parts)
    )


@pytest.mark.kernels
def test_workers_start_alike_whatever_containers_do(lab):
    rented = [
        replay(lab, policy, **settings).run.rentals
        for policy, settings in (("hpa", {}), ("fixed-threshold", {"serverless_startup_s": 9.0}))
    ]
    first, other = ((r.ready_us - r.request_us)[r.offer >= 0][:20] for r in rented)
    assert first.tolist() == other.tolist()


@pytest.mark.kernels
def test_serverful_only_worked_by_hand(tmp_path):
    # Both wait at the tick at 60: a worker for each, ready at 90. Job 0: 90-190 on the cheaper one,
    # which goes at the next tick, 240. Job 1: 90-690.
    jobs = jobs_in(write_trace(tmp_path / "t.parquet", [0, 10], [100.0, 600.0], [1.0, 1.0]))
    soon = {"marketplace_startup_s": 30.0, "marketplace_startup_sd_s": 0.0}
    found = replay(jobs, "serverful-only", **soon)
    assert found.frame["start_s"].to_list() == [90, 90]
    assert found.frame["finish_s"].to_list() == [190, 690]
    assert found.frame["jqt_s"].to_list() == [90, 80]
    first, second = found.settings["marketplace_usd_per_gpu_h"][:2]
    assert found.results["cost_usd"] == pytest.approx((first * 180 + second * 630) / 3600)
    assert found.results["utilization"] == pytest.approx(700 / 810)
    assert "finished_serverless_share" not in found.results
    # Both are due at twice their length, 200 and 1210: within the window, for which one worker is
    # enough for the little work. Job 0: 90-190. Job 1 is first at 190: 190-790.
    found = replay(jobs, "serverful-only", scale_out="window", **soon)
    assert found.frame["start_s"].to_list() == [90, 190]
    assert found.frame["finish_s"].to_list() == [190, 790]
    assert found.frame["jqt_s"].to_list() == [90, 180]
    assert found.results["cost_usd"] == pytest.approx(first * 730 / 3600)
    assert found.results["utilization"] == pytest.approx(700 / 730)


@pytest.mark.kernels
def test_hpa_pays_the_cheapest_offers_first_then_the_conventional_cloud(tmp_path):
    jobs = jobs_in(write_trace(tmp_path / "t.parquet", [0], [3600.0], [3.0]))
    found = replay(jobs, "hpa", marketplace_offers=2, stabilization_s=0.0, target_utilization=1.0)
    assert found.run.rentals.offer.tolist() == [0, 1, -1]
    assert found.results["cost_conventional_usd"] > 0
    assert found.settings["tick_s"] == 15


@pytest.mark.parametrize("policy", ["hpa", "serverful-only"])
def test_a_job_wider_than_the_capacity_has_nowhere_to_go(lab, policy):
    with pytest.raises(UsageError, match=r"widest job takes 4 GPUs(.|\n)*allow at least 4"):
        replay(lab, policy, capacity=3)


def test_the_page_names_every_policy_and_what_only_they_have():
    page = (Path(__file__).parents[1] / "docs" / "compare.md").read_text(encoding="utf-8")
    own = {name for known in VARIANTS.values() for name in known.added}
    assert [name for name in (*VARIANTS, *own) if f"`{name}`" not in page] == []


@pytest.mark.kernels
def test_from_the_command_line(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 10], [100.0, 600.0], [1.0, 2.0])
    for policy in VARIANTS:
        made = tmp_path / f"{policy}.parquet"
        code, out, err = gpuplan(
            *("simulate", path, "--policy", policy, "--output-format", "json", "-o", made),
            *("--plot", tmp_path / "t.svg"),
        )
        assert code == 0, err
        assert json.loads(out)["results"]["policy"] == policy
        assert pl.read_parquet(made).height == 2
    code, _, err = gpuplan("simulate", path, "--policy", "hpa", "--set", "threshold_s=60")
    assert code == 2
    assert "no setting 'threshold_s'" in err
    code, _, err = gpuplan("simulate", path, "--policy", "hpa", "--set", "target_utilization=1.2")
    assert code == 2
    assert "target_utilization must be above 0" in err
