"""``gpuplan plan``: from a log and prices to what to buy, in words and in JSON, and mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
from support_plan import BOTH, HOUR, headline_of, refusal_of, results_of
from support_traces import write_trace

from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.planner.studies.plan import plan

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]


@pytest.fixture
def steps(tmp_path):
    """GPUs in use by hour of a day: 3, 2, 2, 4 six times; classes a and b."""
    submit = [4 * HOUR * day + s for day in range(6) for s in (0, 0, 3 * HOUR)]
    return write_trace(
        tmp_path / "steps.parquet",
        submit,
        [4 * HOUR, HOUR, HOUR] * 6,
        [2.0, 1.0, 2.0] * 6,
        job_class=["a", "b", "b"] * 6,
        gpu_type=["A100"] * 18,
    )


def market(results, name):
    return next(row for row in results["markets"] if row["name"] == name)


def test_the_smallest_plan_commits_as_size_does(gpuplan, steps):
    results = results_of(gpuplan, steps, *BOTH)
    assert results["confirmed"] is False and results["holdout"] is None
    assert market(results, "committed")["gpus"] == 2
    assert market(results, "on_demand")["peak_gpus"] == 2
    assert results["usd_per_month"] == pytest.approx(730.5 * (2 * 0.9 + 1.29 * 3 / 4))
    assert results["program_usd_per_month"] == pytest.approx(results["usd_per_month"])
    code, out, _ = gpuplan("size", steps, *BOTH, "--output-format", "json")
    size = json.loads(out)["results"]["commitment"]
    assert code == 0 and size["committed_gpus"] == 2
    assert size["usd_per_month"] == pytest.approx(results["usd_per_month"])
    (lever,) = results["levers"]
    assert lever["without_usd_per_month"] == pytest.approx(730.5 * 1.29 * 11 / 4)
    assert [row["name"] for row in results["classes"]] == ["a", "b", "b"]


def test_the_answer_leads_with_what_it_is_not(gpuplan, steps):
    code, out, err = gpuplan("plan", steps, *BOTH)
    assert code == 0
    headline = " ".join(out.split("\n\n")[0].split())
    assert headline.startswith(
        "Not confirmed (the log has jobs of one week only, so there is no later week to try the "
        "plan on): commit to 2 A100 and rent the rest for $2,020 a month, 22.0% less than all on "
        "demand as recorded ("
    )
    assert headline.endswith(
        "blocks of 72 min). Mean time 2.02 h per job, today 2 h. Without waits no class takes "
        "longer than today."
    )
    assert "left out" not in err
    assert "Where jobs run" in gpuplan("plan", steps, *BOTH, "--full")[1]


def test_a_plan_says_how_much_of_it_is_of_jobs_still_running(gpuplan):
    log = Path(__file__).parents[1] / "sample_traces/kueue/workloads.json"
    err = " ".join(gpuplan("plan", log)[2].split())
    assert (
        "3 jobs still running: in the plan and in today's time with the 1,043 GPU-hours so far "
        "(16.4% of all)" in err
    )


def test_every_lever_is_used_and_worth_something(gpuplan, steps):
    words = (
        *("--spot", "job_class = 'b'", "--spot-price", "0.5", "--spot-max", "20%"),
        *("--serverless", "1.2", "--speedup", "power:0.7", "--slower", "2x"),
    )
    results = results_of(gpuplan, steps, *BOTH, *words)
    names = [lever["name"] for lever in results["levers"]]
    assert names == ["commitment", "widths", "spot", "serverless"]
    for lever in results["levers"]:
        assert lever["without_usd_per_month"] >= results["program_usd_per_month"] * (1 - 1e-9)
    assert results["saving_share"] > 0.1
    _, out, err = gpuplan("plan", steps, *BOTH, *words)
    assert "an assumed speedup" in err
    gpus = {row["name"]: row["mean_gpus"] for row in results["markets"]}
    share = f", with {gpus['spot'] / sum(gpus.values()):.1%} of the GPU-hours on spot (each node"
    assert f"{share} lost every 12 h on average, assumed), for" in " ".join(out.split())
    out = gpuplan("plan", steps, *BOTH, *words, "--spot-hazard", "2/36h")[1]
    assert "on spot (each node lost every 18 h on average), for" in " ".join(out.split())
    shares = [route["share"] for row in results["classes"] for route in row["routes"]]
    assert sum(shares) == pytest.approx(len(results["classes"]))


def test_what_was_offered_and_does_not_pay_is_said(gpuplan, steps):
    spot, containers = ("--spot", "true", "--spot-price", "2"), ("--serverless", "3")
    assert ". Spot GPUs do not pay. " in headline_of(gpuplan, steps, *BOTH, *spot)
    both = headline_of(gpuplan, steps, *BOTH, *spot, *containers)
    assert ". Neither spot GPUs nor containers pay. " in both
    # No job may go there, so the price decides nothing.
    assert "pay" not in headline_of(gpuplan, steps, *BOTH, *spot, "--spot-max", "0%")
    assert "pay" not in headline_of(gpuplan, steps, *BOTH)


def test_deferred_jobs_fill_idle_gpus(gpuplan, steps):
    results = results_of(gpuplan, steps, *BOTH, "--defer", "num_gpus = 1:3h")
    assert (results["jobs"], results["deferred_jobs"]) == (18, 6)
    assert results["usd_per_month"] < results_of(gpuplan, steps, *BOTH)["usd_per_month"] * 1.0001
    assert results["levers"][-1]["name"] == "deferral"


def test_owned_gpus_nodes_and_contracts(gpuplan, steps, tmp_path):
    owned = results_of(gpuplan, steps, *BOTH, "--owned", "A100=1")
    assert (market(owned, "owned")["gpus"], market(owned, "committed")["gpus"]) == (1, 1)
    nodes = results_of(gpuplan, steps, *BOTH, "--cluster", "x4")
    assert [row["name"] for row in nodes["markets"]] == ["on_demand"]  # 0 nodes, not 4 GPUs
    cheap = ("--commit", "0.1", "--on-demand", "1.29")
    capped = results_of(gpuplan, steps, *cheap, "--cluster", "A100=3")
    assert market(capped, "committed")["gpus"] == 3
    assert "a job holds 2 GPUs, but at most 1 can be had" in refusal_of(
        gpuplan, 4, steps, *BOTH, "--cluster", "A100=1"
    )
    book = tmp_path / "book.toml"
    book.write_text('[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.29\n')
    priced = results_of(gpuplan, steps, "--commit", "0.9:1y,0.8:3y", "--contracts", str(book))
    assert market(priced, "committed")["usd_per_month"] == pytest.approx(2 * 0.8 * 730.5)


def test_a_target_and_a_budget(gpuplan, steps):
    law = ("--speedup", "power:0.9", "--slower", "none")
    now = results_of(gpuplan, steps, *BOTH, *law, "--target", "mean_jct <= now")
    (target,) = now["targets"]
    assert target["limit_s"] == now["today"]["mean_time_s"] == pytest.approx(2 * HOUR)
    fast = results_of(gpuplan, steps, *BOTH, *law, "--budget", "$3000/month")
    assert fast["program_usd_per_month"] == pytest.approx(3000, rel=0.05)
    assert fast["mean_time_s"] < now["mean_time_s"]
    assert fast["levers"] == [] and fast["saving_share"] is None


def test_without_prices_one_is_assumed(gpuplan, steps):
    code, out, err = gpuplan("plan", steps)
    assert code == 0 and "commit to no GPU" in out
    assert "an assumed $" in err


def test_mistakes_are_refused_with_what_can_be_done(gpuplan, steps):
    def refused(code, *words):
        return refusal_of(gpuplan, code, steps, *BOTH, *words)

    assert "spot GPUs need both" in refused(2, "--spot", "num_gpus = 1")
    assert "spot GPUs need both" in refused(2, "--spot-price", "0.5")
    assert "--spot-max: needs" in refused(2, "--spot-max", "30%")
    nothing = ("--spot", "num_gpus > 99", "--spot-price", "1")
    assert "matches none of the 18 jobs" in refused(2, *nothing)
    assert "expected CONDITION:WITHIN" in refused(2, "--defer", "num_gpus = 1")
    assert "p99_wait" in refused(2, "--target", "p94_wait <= 1h")
    assert "only mean_jct can be compared with now" in refused(2, "--target", "p95_wait <= now")
    assert "--holdout 90%" in refused(2, "--holdout", "90%")
    assert "give one of them" in refused(
        2, "--target", "mean_jct <= now", "--budget", "$1000/month"
    )
    assert "expected losses of a node" in refused(2, "--spot-hazard", "often")
    assert "dollars per hour" in refused(2, "--budget", "1.2x")
    assert "one budget" in refused(2, "--budget", "$1000/month,$2000/month")
    assert "mean_jct <= 2.01h" in refused(4, "--target", "mean_jct <= 1h")
    assert "--budget '$2022/month'" in refused(4, "--budget", "$100/month")


def test_the_study_answers_as_the_command_does(gpuplan, steps):
    request = PurchaseRequest(steps, slower=None)
    results = plan(request).results
    assert results.usd_per_month == results_of(gpuplan, steps, "--slower", "none")["usd_per_month"]


def test_a_plan_is_a_study_of_a_scenario(gpuplan, steps, tmp_path):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        f"[workload]\ntrace = '{steps}'\n\n[study.plan]\ncommit = '0.9'\non_demand = 1.29\n"
        "slower = '1.25x'\n\n[output]\ndir = 'out'\nformats = ['json']\n"
    )
    code, out, err = gpuplan("run", scenario)
    assert code == 0, err
    assert "commit to 2 A100" in " ".join(out.split())


def test_a_log_without_waits_is_planned_from_its_run_times(gpuplan, tmp_path):
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 30 * 86400, 300)).astype(float)
    path = write_trace(tmp_path / "t.parquet", submit, rng.exponential(9000, 300).round())
    results = results_of(gpuplan, path, *BOTH)
    assert results["today"]["jobs_without_wait"] == 300
    assert results["classes"][0]["name"] == "all"


def test_levers_that_are_not_named_are_not_used(gpuplan, tmp_path):
    hours = [3600.0 * h for h in range(40)]
    path = write_trace(
        tmp_path / "t.parquet", [*hours, *hours], [3600.0] * 80, [4.0] * 40 + [1.0] * 40
    )
    prices = ("--commit", "0.9", "--on-demand", "1.29", "--spot", "num_gpus = 1")
    words = (*prices, "--spot-price", "0.3", "--serverless", "0.2")

    def levers(*more):
        results = results_of(gpuplan, path, *words, *more)
        return [lever["name"] for lever in results["levers"]], results["usd_per_month"]

    plan = tmp_path / "plan.toml"
    assert levers()[0] == ["commitment", "spot", "serverless"]
    names, usd = levers("--levers", "commitment", "-o", plan)
    assert names == ["commitment"] and usd == pytest.approx(5 * 0.9 * 730.5)
    names, usd = levers("--levers", "none")
    assert not names and usd == pytest.approx(5 * 1.29 * 730.5)
    assert levers("--levers", "spot,commitment")[0] == ["commitment", "spot"]
    code, out, _ = gpuplan("plan", path, "--keep", plan, "--output-format", "json")
    assert code == 0
    assert [lever["name"] for lever in json.loads(out)["results"]["levers"]] == ["commitment"]
    code, _, err = gpuplan("plan", path, *prices, "--spot-price", "1", "--levers", "widths")
    assert code == 2 and "--levers widths: needs --speedup" in err
    code, _, err = gpuplan("plan", path, *words, "--levers", "hope")
    assert code == 2 and "'hope', expected some of commitment, widths" in " ".join(err.split())
    code, _, err = gpuplan("plan", path, "--commit", "0.9", "--levers", "none")
    assert code == 2 and "no price to commit to it and none on demand" in " ".join(err.split())
