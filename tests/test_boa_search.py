"""The plan that does best within so many GPUs: no worse than a dense grid of budgets finds."""

import numpy as np
import pytest
from support_pareto import write_newtrace

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.baselines import compare_baselines
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.frontier.replay.search import BudgetSearch, objective_s
from gpuplan.planner.frontier.study import PlanRequest, study_frontier
from gpuplan.planner.speedup.registry import load_speedup


def study(path, speedup, cluster, **choices):
    read = read_trace(path, columns=COLUMNS)
    choices = {"unmeasured_rescale_s": 0.0} | choices
    return study_frontier(
        read, load_speedup(speedup), ClassOptions(**choices), PlanRequest(cluster=cluster)
    )


def tries_of(found, at_budget=None):
    frontier = found.frontier
    low, high = frontier.min_budget, frontier.saturation_budget
    return BudgetSearch(found.workload, at_budget or frontier.at_budget, low, high, found.cluster)


def densely(found, count=500):
    """Return GPUs rented and mean completion times over evenly spaced budgets."""
    low, high = found.frontier.min_budget, found.frontier.saturation_budget
    replays = [
        replay_plan(found.workload, found.frontier.at_budget(budget), found.cluster)
        for budget in np.linspace(low, high, count).tolist()
    ]
    return [(replay.rented_gpus, replay.mean_jct_s) for replay in replays]


def check(found, gpus, worse=1.03):
    """A dense grid finds nothing much better, over all GPUs."""
    tries, dense = tries_of(found), densely(found)
    for most in gpus:
        best = tries.best_within(most)
        assert best.rented_gpus <= most
        assert best.weighted_mean_jct_s <= worse * min(
            jct for rented, jct in dense if rented <= most
        )
    return tries


def test_gpus_that_grow_faster_than_the_budget(seren):
    # Idle nodes: the saturating budget of 6.7 GPUs rents 9.8.
    tries = check(study(seren, "power:0.75", RentedCluster()), (2.6, 3.5, 5.2, 6.421, 9.0))
    best = tries.best_within(6.421)
    assert best.rented_gpus > 6.3 and best.weighted_mean_jct_s < 312


@pytest.mark.slow
def test_more_budget_may_rent_fewer_gpus(seren):
    # Nodes of 8 for classes by user: 2.53 GPUs rent 7.8, 3.84 rent 4.24.
    found = study(seren, "power:0.8", RentedCluster(node_gpus=8, release_s=60.0), class_by="user")
    tries = check(found, (4.3, 4.422, 5.01, 6.0, 8.0))
    assert tries.best_within(4.1) is None
    fixed = compare_baselines(found, ["fixed-width"]).points
    assert [point.replay.rented_gpus > 4.3 for point in fixed].count(True) >= 1
    for point in fixed:
        assert (point.planned is not None) == (point.replay.rented_gpus > 4.2388)


def test_under_a_limit_a_smaller_plan_may_be_the_quicker(gpuplan, shared, tmp_path):
    trace = tmp_path / "nt.parquet"
    log = shared / "data/sia-workloads/newtrace/workload-1.csv"
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    cluster = RentedCluster(node_gpus=4, max_gpus=200, overflow="squeeze")
    # Where a queue builds up, plans next to each other differ by several percent.
    tries = check(study(trace, "profile:t4", cluster), (110.0, 140.0, 167.5, 300.0), worse=1.06)
    assert tries.best_within(167.5).weighted_mean_jct_s < 56 * 60


def test_what_may_be_tried(tmp_path):
    found = study(write_newtrace(tmp_path), "profile:t4", RentedCluster(billing_s=3600.0))
    tries = tries_of(found)
    for gpus in (120.0, 200.0, 280.0):
        best = tries.best_within(gpus)
        assert 0.98 * gpus <= best.rented_gpus <= gpus
        replay = tries.replay(best)
        assert (replay.rented_gpus, replay.mean_jct_s) == (
            best.rented_gpus,
            best.weighted_mean_jct_s,
        )
        assert tries.best_within(gpus, up_to=100.0).budget_gpus <= 100
    assert tries.best_within(20.0) is None
    billed = tries.best_within(280.0, billed=True)
    assert billed.billed_gpus <= 280 < best.billed_gpus

    def only_some(gpus):
        if gpus < 150:
            raise InfeasibleError("needs more")
        return found.frontier.at_budget(gpus)

    assert tries_of(found, only_some).best_within(200.0).budget_gpus >= 150
    assert tries_of(found, only_some).best_within(1e6, up_to=140.0) is None


def test_weights_count_in_what_is_best(tmp_path):
    found = study(write_newtrace(tmp_path), "profile:t4", RentedCluster(), weights={"bert": 3.0})
    best = tries_of(found).best_within(200.0)
    replay = tries_of(found).replay(best)
    bert = replay.arrivals.job_class == [c.name for c in found.workload.classes].index("bert")
    weighted = (3 * replay.jct_s[bert].sum() + replay.jct_s[~bert].sum()) / (
        3 * bert.sum() + (~bert).sum()
    )
    assert (
        best.weighted_mean_jct_s == objective_s(found.workload, replay) == pytest.approx(weighted)
    )
