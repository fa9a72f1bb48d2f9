"""Plans of gpuplan pareto replayed on their own arrivals, and beside baselines and methods."""

import re

import numpy as np
import pytest
from support_pareto import FREE, results

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.baselines import compare_baselines, names_of
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.budget import sweep
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.replay.plan_replay import planned_jct_s, rented_over_time
from gpuplan.planner.frontier.study import PlanRequest, study_frontier
from gpuplan.planner.speedup.registry import load_speedup

AT_ONCE = RentedCluster(provision_s=0, release_s=0)


def study(path, speedup="profile:t4", cluster=AT_ONCE, **choices):
    read = read_trace(path, columns=COLUMNS)
    choices = {"unmeasured_rescale_s": 0.0} | choices
    return study_frontier(
        read, load_speedup(speedup), ClassOptions(**choices), PlanRequest(cluster=cluster)
    )


def test_one_job_at_a_time_is_replayed_as_worked_by_hand(gpuplan, hours):
    # A job an hour on one GPU every half hour; at 4 GPUs s = 2, so it takes 30 min plus 90 s for
    # the nodes. The next comes as it ends or 90 s before, so 8 GPUs are rented at the peak.
    asked = (hours, *FREE, "--speedup", "power:0.5", "--budget", "4", "--release-delay", "0s")
    (point,) = results(gpuplan, *asked)["points"]
    replay = point["replay"]
    assert replay["planned_mean_jct_s"] == replay["planned_p95_jct_s"] == pytest.approx(1800)
    # A job finds the GPUs of the one before, which has them until 90 s after it came.
    assert 1800 <= replay["mean_jct_s"] <= 1890
    assert replay["peak_gpus"] in (4, 8)
    assert replay["held_gpu_h"] == pytest.approx(100 * 4 * 0.5)
    assert replay["planned_gpu_h"] == pytest.approx(4 * 50)
    assert replay["node_rounding_gpus"] == 0
    assert replay["above_max_gpus_share_law"] is None


def test_gpus_at_once_give_what_was_planned(newtrace):
    found = study(newtrace, horizon_s=172_800.0)
    for point in (*found.points, found.knee):
        trial = point.replayed
        planned_s = planned_jct_s(found.workload, point.plan)
        np.testing.assert_allclose(trial.replay.jct_s, planned_s, atol=1e-3)
        assert trial.planned_p95_jct_s == pytest.approx(trial.p95_jct_s, abs=1e-3)
        # Every job of a class has the same size here, so only the shares of a split are uneven.
        assert trial.replay.mean_jct_s == pytest.approx(point.plan.mean_jct_s, rel=2e-3)
        assert trial.replay.held_gpus == pytest.approx(point.plan.used, rel=2e-3)
        assert trial.demand_law.mean_gpus == pytest.approx(point.plan.used, rel=1e-9)


def test_progress_runs_once_over_frontiers_and_replays(newtrace):
    told = []
    read = read_trace(newtrace, columns=COLUMNS)
    request = PlanRequest(cluster=AT_ONCE)
    study_frontier(read, load_speedup("profile:t4"), None, request, progress=told.append)
    assert told == sorted(told) and told[-1] == 1
    assert len(told) == 5 + 8 + 1  # classes, budgets, knee


def test_whole_nodes_cost_gpus_and_save_no_time(newtrace):
    cluster = RentedCluster(node_gpus=8)
    found = study(newtrace, cluster=cluster)
    single = study(newtrace, cluster=RentedCluster())
    for eight, one in zip(found.points, single.points, strict=True):
        assert eight.replayed.node_rounding_gpus > 0
        assert eight.replayed.node_rounding_gpus == pytest.approx(
            eight.replayed.replay.rented_gpus - one.replayed.replay.rented_gpus
        )
        assert eight.replayed.replay.mean_jct_s <= one.replayed.replay.mean_jct_s


def test_a_limit_bounds_widths_and_rents_and_tells_the_demand_beyond(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.2x,2x", "--cluster", "x4")
    found = results(gpuplan, *asked, "--max-gpus", "42")
    assert found["max_gpus_per_job"] == 40  # whole nodes
    small, large = (point["replay"] for point in found["points"])
    for replay in (small, large):
        assert replay["peak_gpus"] <= 40
        assert replay["mean_jct_s"] > replay["planned_mean_jct_s"]
        assert 0.9 < replay["above_max_gpus_share_law"] <= 1
        assert 0.9 < replay["above_max_gpus_share_replayed"] <= 1
    _, out, err = gpuplan("pareto", "--full", *asked, "--max-gpus", "42")
    assert "plans use more on average: there the queue grows" in err
    assert "time above" in out and "planned," in out
    assert max(map(len, out.splitlines())) <= 100
    found = results(gpuplan, *asked, "--max-gpus", "4000")
    assert found["points"][0]["replay"]["above_max_gpus_share_law"] < 1e-9
    assert found["points"][0]["replay"]["above_max_gpus_share_replayed"] == 0


def test_limits_of_classes_stay_within_the_cluster(newtrace):
    found = study(newtrace, cluster=RentedCluster(max_gpus=24), limits={"bert": 30})
    assert found.frontier.widest == 24


def test_billing_by_the_hour_costs_more_than_renting(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "2x", "--price", "2")
    by_second = results(gpuplan, *asked)["points"][0]["replay"]
    by_hour = results(gpuplan, *asked, "--billing", "1h")["points"][0]["replay"]
    assert by_hour["rented_gpu_h"] == by_second["rented_gpu_h"]
    assert by_hour["billed_gpu_h"] > by_second["billed_gpu_h"]
    assert by_hour["billed_usd_per_month"] == pytest.approx(by_hour["billed_gpus"] * 2 * 730.5)


def test_promise_and_replay_stand_side_by_side(gpuplan, newtrace):
    asked = ("pareto", "--full", newtrace, "--speedup", "profile:t4", "--budget", "1.2x,2x")
    _, out, err = gpuplan(*asked)
    text = " ".join(out.split())
    assert "Replayed at recorded arrivals" in text and "at the peak" in text
    assert "in the replay, so the cloud" in err
    heads = next(i for i, line in enumerate(out.splitlines()) if "rented" in line)
    assert "replayed" in out.splitlines()[heads]
    _, out, _ = gpuplan(*asked, "--output-format", "csv")
    assert "replayed_p95_jct_s" in out.splitlines()[0]
    _, out, _ = gpuplan(*asked, "--no-replay")
    assert "Replayed" not in out
    found = results(gpuplan, *asked[1:], "--no-replay")
    assert found["cluster"] is None and "replay" not in found["knee"] and found["timeline"] == []
    code, _, err = gpuplan(*asked, "--no-replay", "--cluster", "x4")
    assert code == 2 and "--cluster" in err


def test_delays_that_cannot_be_counted_are_a_usage_error(gpuplan, newtrace):
    asked = ("pareto", "--full", newtrace, "--speedup", "profile:t4", "--provision-delay", "36500d")
    code, _, err = gpuplan(*asked)
    assert code == 2 and "next: shorter delays" in err, err


def test_the_time_line_keeps_gpu_hours_and_peak(newtrace):
    found = study(newtrace, cluster=RentedCluster())
    replay = found.knee.replayed.replay
    rows = rented_over_time({"": replay})
    width_h = rows[1].time_h - rows[0].time_h
    assert sum(row.mean_gpus for row in rows) * width_h == pytest.approx(replay.rented_gpu_h)
    assert max(row.peak_gpus for row in rows) == replay.peak_gpus
    assert all(row.mean_gpus <= row.peak_gpus + 1e-9 for row in rows)


def test_baselines_stand_beside_the_plan_that_rents_no_more(newtrace):
    found = study(newtrace, cluster=RentedCluster())
    compared = compare_baselines(found, names_of(["fixed-width", "recorded", "fixed"]))
    names = [(point.baseline, point.knob) for point in compared.points]
    assert names == [*(("fixed-width", width) for width in (1, 2, 4, 8)), ("recorded", None)]
    for point in compared.points:
        if point.planned is not None:
            assert point.planned.rented_gpus <= point.replay.rented_gpus
            assert point.planned.mean_jct_s <= 1.01 * point.replay.mean_jct_s
            assert point.jct_saving == pytest.approx(
                1 - point.planned.mean_jct_s / point.replay.mean_jct_s
            )
    results = compared.results()
    assert results[-1].knob is None and results[0].knob_is == "GPUs per job"


def test_all_baselines_in_the_command(gpuplan, newtrace, tmp_path):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "2x", "--sample", "100")
    picture = tmp_path / "all.svg"
    found = results(gpuplan, *asked, "--baseline", "all", "--plot", picture)
    names = {row["baseline"] for row in found["baselines"]}
    assert names == {"recorded", "fixed-width", "equal", "pollux", "pollux-autoscaling"}
    drawn = picture.read_text()
    assert all(f">{name}</text>" in drawn for name in names)
    code, out, _ = gpuplan(
        "pareto", "--full", *asked, "--baseline", "pollux", "--baseline", "recorded"
    )
    assert code == 0 and "plan saves" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    for wrong, said in (("polux", "did you mean pollux"), ("pollux", "remove --no-replay")):
        code, _, err = gpuplan("pareto", "--full", *asked, "--baseline", wrong, "--no-replay")
        assert code == 2 and said in err


def test_a_baseline_that_cannot_run_is_told(newtrace):
    # The jobs were recorded on four GPUs each.
    found = study(newtrace, cluster=RentedCluster(max_gpus=3))
    compared = compare_baselines(found, names_of(["fixed-width", "recorded"]))
    assert [(point.baseline, point.knob) for point in compared.points] == [
        ("fixed-width", 1),
        ("fixed-width", 2),
    ]
    assert "baseline recorded left out: " in compared.notes[0]


@pytest.mark.parametrize("method", ["convex", "paper"])
def test_other_methods_are_never_ahead(gpuplan, newtrace, method):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.1x,1.3x,2x", "--method", method)
    found = results(gpuplan, *asked)
    assert found["method"] == method
    for point in found["points"]:
        assert point["mean_jct_s"] >= point["optimal_mean_jct_s"] * (1 - 1e-9)
        assert point["used_gpus"] <= point["budget_gpus"] * (1 + 1e-9)
        assert point["replay"]["mean_jct_s"] > point["mean_jct_s"]
    _, out, err = gpuplan("pareto", "--full", *asked)
    assert f"by --method {method}, vs. the optimum" in out
    assert ("glue configurations" in err) == (method == "paper")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target-jct", "1h"], "needs --method exact"),
        (["--require", "bert <= 2h"], "does not support --require"),
        (["--gpu", "T4=1", "--gpu", "A=2", "--price", "T4=1", "--price", "A=2"], "one GPU type"),
    ],
)
def test_what_other_methods_cannot_do(gpuplan, newtrace, arguments, said):
    asked = (
        "pareto",
        "--full",
        newtrace,
        "--speedup",
        "profile:t4",
        "--method",
        "paper",
        *arguments,
    )
    code, _, err = gpuplan(*asked)
    assert (code, said in err) == (2, True), err


def test_a_method_that_needs_more_is_swept_from_where_it_can(newtrace):
    frontier = study(newtrace).frontier
    least = frontier.min_budget

    class Needs:
        def __init__(self, gpus):
            self.gpus = gpus

        def at_budget(self, gpus):
            if gpus < self.gpus:
                raise InfeasibleError("too few")
            return frontier.at_budget(gpus)

    every = [plan.budget for plan in sweep(frontier, frontier)]
    assert len(every) == 8 and every[0] == pytest.approx(least)
    assert [p.budget for p in sweep(Needs(1.1 * least), frontier)] == every[1:]


def test_a_budget_that_the_replay_exceeds_is_told_with_one_that_keeps_it(gpuplan, seren):
    asked = ("pareto", "--full", seren, "--speedup", "power:0.8", *FREE)
    code, _, err = gpuplan(*asked, "--price", "1", "--budget", "$2821/month,$4000/month")
    assert (
        code == 0
        and "(delays, idle nodes, the last jobs): billed $4," in err
        and "for $4,000 a month" not in err
    )
    said = re.findall(r"\$([\d,]+) a month for \$([\d,]+) \(\+(\d+)%; --budget (\S+)gpu", err)
    assert [asked_for for _, asked_for, _, _ in said] == ["4,000", "2,821"]  # the worst first
    for billed, asked_for, over, gpus in said:
        billed, asked_for = (float(usd.replace(",", "")) for usd in (billed, asked_for))
        assert 100 * (billed / asked_for - 1) == pytest.approx(float(over), abs=0.6)
        (point,) = results(gpuplan, *asked[1:], "--price", "1", "--budget", f"{gpus}gpu")["points"]
        kept = point["replay"]["billed_usd_per_month"]
        assert 0.95 * asked_for < kept <= asked_for + 1  # keeps it, and uses it
    code, _, err = gpuplan(*asked, "--budget", "1.5x")
    assert code == 0 and "GPUs rented" in err and "gpu keeps to it" in err
    _, _, err = gpuplan(*asked)  # a sweep: the worst alone, and no advice
    assert err.count(": GPUs rented ") == 1 and "keeps to it" not in err
    assert "more budgets" in err
    _, _, err = gpuplan(*asked, "--target-jct", "20m")
    assert ": GPUs rented " not in err
    _, _, err = gpuplan(*asked, "--cluster", "x64", "--budget", "1.1x")
    assert "no smaller budget keeps to it" in err


def shares(found, path=""):
    """Every value of a key that names a share, with its path."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from shares(value, f"{path}.{key}")
        elif str(key).split("_")[-1] == "share" and value is not None:
            yield f"{path}.{key}", value


@pytest.mark.usefixtures("few_resamples")
def test_every_share_is_one(gpuplan, newtrace):
    # No plan can use 10x the load: its replay rents less than the budget.
    asked = ("--speedup", "profile:t4", "--budget", "1.05x,10x", "--ci", "90")
    found = results(gpuplan, newtrace, *asked, "--baseline", "all")
    assert min(point["replay"]["spent_over_budget"] for point in found["points"]) < 1
    every = dict(shares(found))
    assert len(every) > 10
    assert {path: share for path, share in every.items() if not 0 <= share <= 1} == {}


def test_a_budget_that_is_kept_is_not_told(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.05x,1.2x")
    _, _, err = gpuplan("pareto", "--full", *asked)
    assert "cost more than their budgets" not in err
    for point in results(gpuplan, *asked)["points"]:
        assert 0.9 < point["replay"]["spent_over_budget"] < 1.03
        assert point["replay"]["inside_budget"] is None
    (point,) = results(gpuplan, *asked[:3], "--budget", "2x", "--release-delay", "5m")["points"]
    inside = point["replay"]["inside_budget"]
    assert inside["rented_gpus"] <= point["budget_gpus"] < point["replay"]["rented_gpus"] / 1.03
    assert inside["budget_gpus"] < point["budget_gpus"]


def test_a_run_that_outlasts_the_arrivals_has_no_average(gpuplan, hours):
    # 100 jobs of an hour, one each half hour, as if they all came within 10 h: 10 GPUs an hour of
    # arrivals, while 2 to 4 are ever rented.
    law = ("pareto", "--full", hours, *FREE, "--speedup", "power:0.8")
    asked = (*law, "--horizon", "10h", "--budget", "10gpu")
    code, out, err = gpuplan(*asked)
    text = " ".join(out.split())
    assert code == 0 and "GPUs counted over the hours of arrivals (the run lasts 5" in text
    assert "GPUs on average give" not in text and "peak at" not in err
    assert "over the hours of their arrivals, here 10; replayed" in err
    (replay,) = (point["replay"] for point in results(gpuplan, *asked[1:])["points"])
    assert replay["peak_over_rented"] is None and 50 < replay["lasts_h"] < 52
    assert replay["peak_gpus"] < replay["rented_gpus"]
    _, out, err = gpuplan(*law, "--budget", "3gpu")
    assert "GPUs on average give" in " ".join(out.split()) and "peak at" in err


def test_a_plan_that_a_limit_ruins_is_told(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.2x,2x")
    limited = (*asked, "--max-gpus", "120", "--provision-delay", "10m", "--release-delay", "30m")
    _, _, err = gpuplan("pareto", "--full", *limited)
    small, large = results(gpuplan, *limited)["points"]
    slow = [p["replay"]["mean_jct_s"] > 1.5 * p["mean_jct_s"] for p in (small, large)]
    assert any(slow) and f"{sum(slow)} of 2 plans take over 1.5 times as long" in err
    best = min((small, large), key=lambda point: point["replay"]["mean_jct_s"])
    assert f"of these budgets {show_gpus(best['budget_gpus'])} GPUs replay best" in err
    assert "the limit of 120 GPUs" in err
    _, _, err = gpuplan("pareto", "--full", *asked)
    assert "as long in the replay" not in err


def test_baselines_against_weights_and_clusters_that_stand_ready(gpuplan, newtrace):
    found = study(newtrace, cluster=RentedCluster(), weights={"bert": 3.0})
    compared = compare_baselines(found, names_of(["fixed-width", "pollux"]))
    weights = np.array([3.0 if c.name == "bert" else 1.0 for c in found.workload.classes])
    for point in compared.points:
        of_job = weights[point.replay.arrivals.job_class]
        mean_s = (of_job * point.replay.jct_s).sum() / of_job.sum()
        assert point.weighted_mean_jct_s == pytest.approx(mean_s) != point.replay.mean_jct_s
        if point.planned is not None:
            planned_s = point.planned_weighted_mean_jct_s
            assert point.jct_saving == pytest.approx(1 - planned_s / mean_s)
    assert compared.weighted and "weighted mean" in " ".join(compared.notes)
    assert "waits up to 90 s for its nodes" in compared.notes[-1]
    plain = compare_baselines(study(newtrace, cluster=AT_ONCE), ["fixed-width", "pollux"])
    assert not plain.notes and not plain.weighted
    assert all(p.weighted_mean_jct_s == pytest.approx(p.replay.mean_jct_s) for p in plain.points)
    asked = ("--speedup", "profile:t4", "--budget", "2x", "--baseline", "fixed-width")
    _, out, err = gpuplan("pareto", "--full", newtrace, *asked, "--weight", "bert=3")
    assert "baselines ignore it" in err and "weighted" in out
    assert max(map(len, out.splitlines())) <= 100


def test_of_several_budgets_the_nearest_to_the_knee_is_shown(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.1x,3x", "--sensitivity")
    found = results(gpuplan, *asked)
    low, high = found["points"]
    knee = found["knee"]["budget_gpus"]
    ratios = [max(p["budget_gpus"] / knee, knee / p["budget_gpus"]) for p in (low, high)]
    near = (low, high)[int(np.argmin(ratios))]
    assert found["sensitivity"]["bursts"]["planned_used_gpus"] == near["used_gpus"] != knee
    assert max(row["peak_gpus"] for row in found["timeline"]) == near["replay"]["peak_gpus"]
    _, out, _ = gpuplan("pareto", "--full", *asked)
    assert f"Over time (the budget, {show_gpus(near['budget_gpus'])}" in out
    swept = results(gpuplan, *asked[:3])  # without budgets, the knee
    peak = max(row["peak_gpus"] for row in swept["timeline"])
    assert peak == swept["knee"]["replay"]["peak_gpus"]
