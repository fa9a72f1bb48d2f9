"""Services on the pool of a plan, and the revenue of its idle GPUs; mistakes in both."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_plan import BOTH, HOUR, document_of, jobs_from, market, plan_of, refusal_of, texts_of
from support_traces import write_trace

from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.growth import plan_growths
from gpuplan.planner.plan.jobs import ServiceLoad, TimeBins
from gpuplan.planner.plan.lending import lending_of
from gpuplan.planner.plan.levers import rented_usd_per_h
from gpuplan.planner.plan.program import cost_of
from gpuplan.planner.plan.replay import RentingTerms, replay_plan

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.compiled,
    pytest.mark.usefixtures("few_resamples"),
]


@pytest.fixture
def answer(gpuplan):
    return partial(document_of, gpuplan)


@pytest.fixture
def functions(gpuplan, tmp_path):
    table = tmp_path / "model.csv"
    rows = []
    for batch in (1, 2, 4, 8):
        for percent in range(10, 101, 10):
            time_s = 0.004 * (1 + batch / 4) * 100 / percent
            rows.append(f"{batch},{percent},{time_s:.9f},{batch / time_s:.9f}")
    table.write_text("\n".join(rows) + "\n")
    out = tmp_path / "functions.toml"
    assert gpuplan("profile", table, "--slo", "60ms", "-o", out)[0] == 0
    return out


@pytest.fixture
def trace(tmp_path):
    """Two A100 all day, for ten days; 6 GPUs of another type in the night."""
    submit = [86400.0 * day + s for day in range(10) for s in (0, 12 * HOUR)]
    return write_trace(
        tmp_path / "t.parquet", submit, [24 * HOUR, 12 * HOUR] * 10, [2.0, 6.0] * 10,
        gpu_type=["A100", "T4"] * 10,
    )  # fmt: skip


steps = st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 9)), min_size=1, max_size=6)


@given(steps, st.integers(1, 40), st.floats(1, 500))
@settings(max_examples=30, deadline=None)
def test_a_load_that_repeats_is_exact_in_every_bin(drawn, count, window):
    lengths, gpus = (np.array(column, float) for column in zip(*drawn, strict=True))
    time_s = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    horizon = float(lengths.sum())
    means = ServiceLoad(time_s, gpus, horizon).means(TimeBins(window, count))
    fine = (np.arange(20 * count * 20) + 0.5) * window / (20 * count * 20)
    at = np.searchsorted(time_s, fine % horizon, side="right") - 1
    sampled = gpus[at].reshape(count, -1).mean(axis=1)
    np.testing.assert_allclose(means, sampled, atol=9 * (len(drawn) + window / horizon) * 2 / 400)


def test_services_are_demand_that_costs_what_its_gpus_cost():
    # 2 GPUs of jobs all the time, and services on 1 GPU in every other hour of four.
    jobs = jobs_from([0], [4 * HOUR], [2])
    services = {"": ServiceLoad(np.array([0.0, HOUR]), np.array([1.0, 0.0]), 2 * HOUR)}
    plan = plan_of(jobs, market(0.9, 1.29), services=services)
    assert plan.whole_nodes.committed.tolist() == [2.0]  # the third is busy half of the time
    assert plan.whole_nodes.usd_per_h == pytest.approx(2 * 0.9 + 1.29 / 2)
    assert cost_of(plan.program, plan.whole_nodes) == pytest.approx(plan.whole_nodes.usd_per_h)
    assert rented_usd_per_h(plan.program, plan.program.weights) == pytest.approx(2.5 * 1.29)
    cheap = plan_of(jobs, market(0.4, 1.29), services=services)
    assert cheap.whole_nodes.committed.tolist() == [3.0]


@given(steps, st.integers(1, 40), st.floats(1, 500))
@settings(max_examples=30, deadline=None)
def test_intervals_add_up_to_whole_gpus_in_every_bin(drawn, count, window):
    lengths, gpus = (np.array(column, float) for column in zip(*drawn, strict=True))
    time_s = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    load, bins = ServiceLoad(time_s, gpus, float(lengths.sum())), TimeBins(window, count)
    begin, end, held = load.intervals(bins)
    means = bins.means(begin, end, held.astype(float)) if begin.size else np.zeros(count)
    np.testing.assert_allclose(means, np.ceil(load.means(bins) - 1e-9), atol=1e-6)
    assert (np.diff(begin) >= 0).all() and (end > begin).all() and (held > 0).all()


def test_services_hold_their_gpus_in_the_replay_too():
    jobs = jobs_from([0], [4 * HOUR], [2])
    services = {"": ServiceLoad(np.array([0.0, HOUR]), np.array([1.0, 0.0]), 2 * HOUR)}
    plan = plan_of(jobs, market(0.9, 1.29), services=services)
    columns = plan.program.columns
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    terms = RentingTerms(provision_s=0.0, release_s=0.0)
    run = replay_plan(columns, assigned, plan.whole_nodes.committed, terms)
    assert run.usd_per_month() == pytest.approx((2 * 0.9 + 1.29 / 2) * 730.5)
    assert (run.wait_s.tolist(), run.time_s.tolist()) == ([0.0], [4 * HOUR])
    late = replay_plan(columns, assigned, plan.whole_nodes.committed, terms, caps={"": 2.0})
    assert late.wait_s.tolist() == [HOUR]  # services come first at one instant; then both fit


def test_the_cheapest_point_of_share_is_on_the_pool(trace, functions, answer, gpuplan):
    words = ("--services", f"A100={functions}", "--load", "poisson:60")
    document = answer(trace, *BOTH, *words)
    services, results = document["results"]["services"], document["results"]
    assert (services["gpu_type"], services["mean_gpus"]) == ("A100", 1.0)
    assert services["worst_violation_rate"] <= 0.01 and services["points"] > 5
    assert services["usd_per_month"] == pytest.approx(0.9 * 730.5)
    alone = answer(trace, *BOTH)["results"]
    for key in ("usd_per_month", "program_usd_per_month"):
        assert results[key] - alone[key] == pytest.approx(services["usd_per_month"])
    a100 = [row for row in results["markets"] if row["gpu_type"] == "A100"]
    assert a100[0]["gpus"] == 3 and a100[0]["mean_gpus"] == pytest.approx(3.0)
    assert results["mean_time_s"] == alone["mean_time_s"]
    assert any(file["path"] == str(functions) for file in document["inputs"])
    out = gpuplan("plan", trace, *BOTH, *words)[1]
    assert "Services on the pool" in out
    share = ("share", "--functions", functions, "--load", "poisson:60", "--cluster", "1000x8")
    points = json.loads(gpuplan(*share, "--output-format", "json")[1])["results"]["frontier"]
    well = [point for point in points if point["worst_violation_rate"] <= 0.01]
    assert services["mean_gpus"] == pytest.approx(min(point["mean_gpus"] for point in well))


def test_growth_is_of_jobs_alone(trace, functions, gpuplan):
    words = ("--services", f"A100={functions}", "--load", "poisson:60", "--growth", "100%")
    _, err = texts_of(gpuplan, trace, *BOTH, *words)
    assert "the growth of demand is of jobs; services hold what they do" in err
    jobs = jobs_from([0.0], [4 * HOUR], [2])
    services = {"": ServiceLoad(np.array([0.0]), np.array([1.0]), HOUR)}
    plan = plan_of(jobs, market(0.9, 1.29), services=services)
    (doubled,) = plan_growths(plan, (1.0,))
    assert [row.gpus for row in doubled.best_committed] == [2 * 2 + 1]


def test_services_stay_in_a_plan_that_is_kept(trace, functions, answer, tmp_path):
    file = tmp_path / "plan.toml"
    words = ("--services", f"A100={functions}", "--load", "poisson:60", "--lend", "0.4")
    first = answer(trace, *BOTH, *words, "-o", file)["results"]
    again = answer(trace, "--keep", file)["results"]
    assert again["services"] == pytest.approx(first["services"])
    assert again["lending"]["usd_per_month"] == first["lending"]["usd_per_month"]
    assert again["usd_per_month"] == pytest.approx(first["usd_per_month"])


def test_services_that_are_late_at_every_point_are_said_to_be(trace, functions, gpuplan):
    words = ("--services", f"A100={functions}", "--load", "bursty:150:9", "--output-format", "json")
    code, out, err = gpuplan("plan", trace, *BOTH, *words)
    assert code == 0
    late = json.loads(out)["results"]["services"]["worst_violation_rate"]
    assert late > 0.01 and f"{late:.1%} of the requests" in " ".join(err.split())


def test_idle_gpus_that_never_change_are_lent():
    # 2 of 5 owned GPUs are used for 240 hours; nothing is known in the first hours.
    jobs = jobs_from([HOUR * h for h in range(240)], [HOUR] * 240, [2] * 240)
    lending = lending_of(plan_of(jobs, market(0.9, 1.29, owned=5)), 0.4)
    (each,) = lending.types
    assert (each.pool_gpus, each.idle_gpus) == (5.0, 3.0)
    assert each.known_gpus == pytest.approx(3.0)
    assert 3.0 * 230 / 240 < each.lent_gpus < 3.0
    assert lending.usd_per_month == pytest.approx(each.lent_gpus * 0.4 * 730.5)


def test_the_quota_is_below_what_is_idle_where_demand_cannot_be_foreseen():
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(0, 300 * 3600, 400)).astype(float)
    submit -= submit[0]
    jobs = jobs_from(submit, rng.exponential(7000, 400).round() + 1, rng.choice([1, 2, 4], 400))
    plan = plan_of(jobs, market(0.4, 1.29))
    lending = lending_of(plan, 0.4)
    (each,) = lending.types
    assert 0 < each.lent_gpus < each.known_gpus <= each.idle_gpus
    assert each.pool_gpus == plan.whole_nodes.committed[0]
    assert lending_of(plan, 0.0).usd_per_month == 0


def test_lending_over_decades_is_refused(tmp_path, gpuplan):
    log = tmp_path / "log.csv"
    rows = ("2024-01-01 00:00:00,3600,1,A100", "2024-01-01 01:00:00,3150000000,1,A100")
    log.write_text("\n".join(("submit_time,duration_s,num_gpus,gpu_type", *rows)) + "\n")
    words = ("plan", log, "--commit", "0.9", "--on-demand", "1.29")
    assert gpuplan(*words)[0] == 0
    code, _, err = gpuplan(*words, "--lend", "0.3")
    assert code == 2 and "at most 100,000; it has 875,00" in err


def test_revenue_stands_beside_the_bill(trace, answer, gpuplan):
    words = (*BOTH, "--owned", "T4=6")
    alone, lent = (
        answer(trace, *words)["results"],
        answer(trace, *words, "--lend", "0.4")["results"],
    )
    assert lent["usd_per_month"] == alone["usd_per_month"]
    assert lent["markets"] == alone["markets"] and alone["lending"] is None
    idle = {each["name"]: each["idle_gpus"] for each in lent["lending"]["types"]}
    assert idle == {"A100": 0.0, "T4": pytest.approx(3.0)}
    out = " ".join(gpuplan("plan", trace, *words, "--lend", "0.4")[1].split())
    assert "could bring up to $" in out and "which is not in the bill" in out


def test_mistakes_are_refused(trace, functions, gpuplan, tmp_path):
    def refused(code, *words):
        return refusal_of(gpuplan, code, trace, *BOTH, *words)

    load = ("--load", "poisson:60")
    err = refused(2, "--services", functions, *load)
    assert "the GPU types A100, T4" in err and "--services T4=functions.toml" in err
    assert "no job of the log is on H100" in refused(2, "--services", f"H100={functions}", *load)
    assert "--load: needs --services" in refused(2, *load)
    assert "--load" in refused(2, "--services", f"A100={functions}")
    assert "expected [TYPE=]functions.toml" in refused(2, "--services", "A100=", *load)
    assert "none.toml" in refused(3, "--services", f"A100={tmp_path / 'none.toml'}", *load)
    assert "poisson" in refused(2, "--services", f"A100={functions}", "--load", "poisson:often")
    (tmp_path / "bad.toml").write_text("[[functions]]\nname = 3\n")
    assert "bad.toml" in refused(3, "--services", f"A100={tmp_path / 'bad.toml'}", *load)
    assert "lend" in refused(2, "--lend", "-1")
    assert "lend" in refused(2, "--lend", "much")


def test_services_of_a_type_that_the_log_has_only_at_its_end(gpuplan, tmp_path, functions):
    trace = write_trace(
        tmp_path / "late.parquet", [86400.0 * day for day in range(40)], [36000.0] * 40, [2.0] * 40,
        gpu_type=["A100"] * 35 + ["L4"] * 5,
    )  # fmt: skip
    words = ("--services", f"L4={functions}", "--load", "poisson:60")
    code, out, err = gpuplan("plan", trace, "--on-demand", "2", "--commit", "0.5", *words)
    assert code == 0, err
    assert "confirmed" in out
