"""The spot simulator: a hand-worked eviction, agreement with a plain twin, laws, goldens."""

import importlib.util
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from support_spot_twin import SpotTwin, Task

from gpuplan.analysis.forecast.forecast import demand_bound
from gpuplan.simkit.spot.kernel import next_eta
from gpuplan.simkit.spot.parameters import SCHEDULERS, Rules, SpotScheduler
from gpuplan.simkit.spot.runs import kept_of
from gpuplan.simkit.spot.simulator import (
    RUN_ENDS,
    SpotWorkload,
    never_fits,
    simulate_spot,
    touched_nodes,
)
from gpuplan.simkit.spot.tasks import DURATION, SAVED, STATE

pytestmark = pytest.mark.kernels
SLOW_TO_COMPILE = pytest.mark.skipif(
    not numba.config.DISABLE_JIT,
    reason="half a minute of compilation; make test-slow runs it, as plain Python too",
)
POLICIES = {
    "gfs": "gfs", "gfs-pool": "gfs", "gfs-d": "gfs-d", "gfs-s": "gfs-s", "yarn-cs": "yarn-cs",
    "lyra": "lyra", "fgd": "fgd", "chronus": "chronus", "static": "static-quota",
    "first-fit": "first-fit",
}  # fmt: skip
"""Policy of the twin -> scheduler."""
HORIZON_S = 5 * 86400


def workload(tasks):
    columns = zip(*((t.submit, t.duration, t.hp, t.pods, t.g) for t in tasks), strict=True)
    kinds = (np.int64, np.int64, np.bool_, np.int64, np.int64)
    return SpotWorkload(*(np.array(c, k) for c, k in zip(columns, kinds, strict=True)))


def run(cards, tasks, scheduler, forecast=None):
    cards = np.array(cards, np.int64)
    lendable = np.array([float(cards.sum())])
    if forecast is not None:
        mean, deviation = (forecast[name].T[: scheduler.guarantee_h] for name in ("mu", "sigma"))
        bound = demand_bound(mean, forecast["z"] * deviation, scheduler.aggregate)
        lendable = np.maximum(0.0, cards.sum() - bound)
    return simulate_spot(
        cards, workload(tasks), scheduler, lendable_gpus=lendable, horizon_s=HORIZON_S
    )


def drawn(seed, blocking):
    """Return nodes, tasks and a forecast with fractions, gangs and contention."""
    rng = np.random.default_rng(seed)
    cards = rng.choice([2, 4, 8], rng.integers(2, 5)).tolist()
    most = max(cards)
    shapes = [(g, w) for g in (300, 500, 1000, 2000, 4000, 8000) for w in (1, 1, 2)
              if g <= 1000 * most]  # fmt: skip
    tasks, at = [], 0
    for rank in range(40):
        at += int(rng.integers(0, 900))
        g, pods = shapes[rng.integers(len(shapes))]
        per_node = sum(c * (1000 // g) if g < 1000 else c // (g // 1000) for c in cards)
        duration = int(rng.integers(60, 12000))
        tasks.append(Task(rank, bool(rng.random() < 0.5), min(pods, per_node), g, at, duration))
    tasks = [t for t in tasks if t.pods]
    for rank, task in enumerate(tasks):
        task.rank = rank
    forecast = {
        "mu": rng.uniform(0, sum(cards) / 2, (6, 2, 4)),
        "sigma": rng.uniform(0.1, 1.5, (6, 2, 4)),
        "z": 1.2815515655446004,
    }
    return cards, tasks, forecast


def agree(seed, policy, blocking, rules=None, twin_rules=None):
    cards, tasks, forecast = drawn(seed, blocking)
    scheduler = replace(
        SCHEDULERS[POLICIES[policy]], blocking=blocking,
        aggregate="pool" if policy == "gfs-pool" else "sum", **(rules or {}),
    )  # fmt: skip
    found = run(cards, tasks, scheduler, forecast)
    shown = {name: forecast[name].tolist() for name in ("mu", "sigma")} | {"z": forecast["z"]}
    twin = SpotTwin(
        cards, tasks, policy, shown, blocking=blocking, horizon_s=HORIZON_S, **(twin_rules or {})
    ).run()
    for task in twin.tasks:
        at = task.rank
        ours = (found.first_start_s[at], found.finish_s[at], found.evictions[at])
        assert ours == (task.first_start, task.finish, task.evictions), (seed, at)
        assert found.wait_s[at] == task.wait and found.wasted_milli_s[at] == task.wasted
        runs = [
            (found.run_start_s[i], found.run_stop_s[i], RUN_ENDS[found.run_end[i]])
            for i in np.flatnonzero(found.run_task == at)
        ]
        assert runs == [(begin, end, why) for begin, end, why, _ in task.runs]
    if twin.quota_rows:
        assert found.quota_milli.tolist() == [row[5] for row in twin.quota_rows]
        assert found.eta == pytest.approx([row[4] for row in twin.quota_rows], abs=1e-12)


@SLOW_TO_COMPILE
@pytest.mark.parametrize("policy", POLICIES)
def test_the_kernel_agrees_with_a_plain_twin(policy):
    for seed in range(2):
        agree(seed, policy, blocking=bool(seed % 2))


MILESTONES = (
    {"milestones": (0.25, 0.5, 0.9), "milestones_s": (600, 5000)},
    {"milestones": (0.25, 0.5, 0.9, 600, 5000)},
)
STEERING = (
    {"eta_falls_above": 1.0, "eta_rises_below": 0.9, "longest_wait_s": 60, "heat_limit": 97},
    {"falls_above": 1.0, "rises_below": 0.9, "theta_s": 60, "heat_limit": 97},
)


@SLOW_TO_COMPILE
@pytest.mark.parametrize(
    ("policy", "rules"), [("gfs", MILESTONES), ("lyra", MILESTONES), ("gfs-pool", STEERING)]
)
def test_the_kernel_agrees_with_a_plain_twin_under_other_rules(policy, rules):
    for seed in range(3):
        agree(seed, policy, False, *rules)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_kernel_agrees_with_a_plain_twin_on_many_workloads(policy):
    for seed in range(100, 130):
        agree(seed, policy, blocking=bool(seed % 2))


@SLOW_TO_COMPILE
def test_an_eviction_worked_by_hand():
    # Spot holds the only node of 2 GPUs. HP comes at 1000: the victim works on until 1030, HP runs
    # from 1030 to 1130, and the victim begins again with 40 s of restart; it had no checkpoint.
    tasks = [Task(0, False, 1, 2000, 0, 5000), Task(1, True, 1, 1000, 1000, 100)]
    found = run([2], tasks, SCHEDULERS["yarn-cs"])
    assert found.first_start_s.tolist() == [0, 1030]
    assert found.finish_s.tolist() == [1130 + 40 + 5000, 1130]
    assert found.evictions.tolist() == [1, 0]
    assert found.wait_s.tolist() == [100, 30]
    assert found.wasted_milli_s.tolist() == [2000 * (1030 + 40), 0]


@SLOW_TO_COMPILE
def test_random_victims_are_evicted_one_by_one_until_the_pod_fits():
    # Spot tasks of 6 and of 2 GPUs fill the only node; HP needs 4. The fewest victims are the task
    # of 6 alone. Of two evicted in random order until 4 GPUs are idle, the task of 2 goes as well
    # where its turn comes first, and is not spared when the task of 6 follows.
    tasks = [
        Task(0, False, 1, 6000, 0, 5000), Task(1, False, 1, 2000, 0, 5000),
        Task(2, True, 1, 4000, 1000, 100),
    ]  # fmt: skip
    rules = replace(SCHEDULERS["gfs-p"], quota="none")
    evicted = {}
    for seed in range(1, 7):
        found = simulate_spot(
            np.array([8]), workload(tasks), rules, lendable_gpus=np.array([8.0]),
            horizon_s=HORIZON_S, seed=seed,
        )  # fmt: skip
        evicted[seed] = found.evictions.tolist()
    first, both = [1, 0, 0], [1, 1, 0]
    assert {tuple(one) for one in evicted.values()} == {tuple(first), tuple(both)}
    fewest = replace(rules, victims="fewest")
    found = simulate_spot(
        np.array([8]), workload(tasks), fewest, lendable_gpus=np.array([8.0]), horizon_s=HORIZON_S
    )
    assert found.evictions.tolist() == first


@SLOW_TO_COMPILE
@pytest.mark.parametrize(("policy", "again"), [("gfs", 3900), ("gfs-s", 230), ("gfs-sp", 230)])
def test_packing_alone_keeps_no_node_free_of_spot(policy, again):
    # Six spot tasks of 1 GPU leave the only node of 8 at 130 s for an HP task, so its heat is 582
    # for an hour. GFS lets them back at the first tick after that; packing alone at once.
    tasks = [Task(rank, False, 1, 1000, 0, 10_000) for rank in range(6)]
    tasks.append(Task(6, True, 1, 8000, 100, 100))
    found = run([8], tasks, replace(SCHEDULERS[policy], eta_rule="fixed"))
    assert found.evictions.tolist() == [1] * 6 + [0]
    assert (found.first_start_s[6], found.finish_s[6]) == (130, 230)
    assert sorted(found.run_start_s[found.run_task < 6]) == [0] * 6 + [again] * 6
    if policy != "gfs-sp":  # the twin draws no random victims
        nothing = {"mu": [[[0.0]]], "sigma": [[[0.0]]], "z": 0.0}
        twin = SpotTwin([8], tasks, policy, nothing, eta_rule="fixed").run()
        assert [task.runs[1][0] for task in twin.tasks[:6]] == [again] * 6


@pytest.mark.parametrize(
    ("cards", "pods", "kept"),
    [
        ([8] * 6, 2, [8, 8, 8]),
        ([8] * 6 + [3], 2, [8, 8, 3]),
        ([8] * 3, 2, [8] * 3),
        ([4, 8, 8, 8, 8], 2, [4, 8, 8, 8, 8]),
    ],
)
def test_nodes_that_no_pod_comes_to_are_left_out(cards, pods, kept):
    assert touched_nodes(np.array(cards), pods).tolist() == kept


@SLOW_TO_COMPILE
@pytest.mark.parametrize("policy", ["gfs", "lyra", "fgd", "chronus", "static", "first-fit"])
def test_idle_nodes_that_are_left_out_change_nothing(policy, monkeypatch):
    rng = np.random.default_rng(5)
    tasks = [
        Task(rank, bool(rng.random() < 0.4), 1 + rank % 2, int(rng.choice([300, 1000, 2000])),
             100 * rank, int(rng.integers(500, 5000)))
        for rank in range(14)
    ]  # fmt: skip
    cards = [4] * 60 + [1]
    few = run(cards, tasks, SCHEDULERS[POLICIES[policy]])
    monkeypatch.setattr("gpuplan.simkit.spot.simulator.touched_nodes", lambda cards, pods: cards)
    every = run(cards, tasks, SCHEDULERS[POLICIES[policy]])
    for name in ("run_start_s", "run_stop_s", "quota_milli", "idle_milli", "hp_milli"):
        assert getattr(few, name).tolist() == getattr(every, name).tolist(), name


@SLOW_TO_COMPILE
def test_memory_follows_the_jobs_and_not_the_gpus():
    tasks = [Task(0, False, 1, 1, 0, 100), Task(1, True, 2, 8000, 10, 100)]
    tracemalloc.start()
    found = simulate_spot(
        np.full(1_250_000, 8), workload(tasks), SCHEDULERS["gfs"], horizon_s=1000,
        lendable_gpus=np.array([1e7]),
    )  # fmt: skip
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.finish_s.tolist() == [100, 110]
    assert found.idle_milli[0] == 10**10
    assert peak < 100 * 2**20


@SLOW_TO_COMPILE
def test_laws_hold_for_every_scheduler():
    for name, scheduler in SCHEDULERS.items():
        cards, tasks, forecast = drawn(7, blocking=False)
        found = run(cards, tasks, scheduler, forecast)
        done = found.finish_s >= 0
        size, hp = found.workload.size_milli, found.workload.hp
        assert (found.evictions[hp] == 0).all(), name  # HP is never evicted
        for task in np.flatnonzero(done):  # progress is conserved: what ran, less what was lost
            runs = np.flatnonzero(found.run_task == task)
            held = size[task] * (found.run_stop_s[runs] - found.run_start_s[runs]).sum()
            useful = size[task] * found.workload.duration_s[task]
            assert held == useful + found.wasted_milli_s[task], name
        times = np.unique(np.concatenate([found.run_start_s, found.run_stop_s]))
        for time in times:
            runs = (found.run_start_s <= time) & (time < found.run_stop_s)
            assert size[found.run_task[runs]].sum() <= 1000 * sum(cards), name


def placed_runs(found):
    """Yield task, start, stop (2^60 of one that goes on) and nodes of the pods of every run."""
    pods, at = found.workload.pods, 0
    ended = (found.run_task, found.run_start_s, found.run_stop_s)
    for task, begin, end in zip(*(one.tolist() for one in ended), strict=True):
        yield task, begin, end, found.run_nodes[at : at + pods[task]].tolist()
        at += pods[task]
    assert at == found.run_nodes.size
    at = 0
    for task, begin in zip(found.running.tolist(), found.running_since_s.tolist(), strict=True):
        yield task, begin, 1 << 60, found.running_nodes[at : at + pods[task]].tolist()
        at += pods[task]


@SLOW_TO_COMPILE
@pytest.mark.parametrize("name", SCHEDULERS)
def test_gangs_are_whole_on_nodes_that_have_the_cards(name):
    for seed in (7, 8):
        cards, tasks, forecast = drawn(seed, blocking=False)
        found = run(cards, tasks, SCHEDULERS[name], forecast)
        g = found.workload.pod_milli
        runs = list(placed_runs(found))
        assert all(0 <= node < len(cards) for *_, nodes in runs for node in nodes)
        for time in {begin for _, begin, *_ in runs}:
            held = [
                (node, int(g[task]))
                for task, begin, end, nodes in runs
                if begin <= time < end
                for node in nodes
            ]
            for node, most in enumerate(cards):
                here = sorted((milli for at, milli in held if at == node), reverse=True)
                free = [1000] * most  # whole cards first, then shares on the fullest card that fits
                for milli in here:
                    if milli >= 1000:
                        assert free.count(1000) >= milli // 1000
                        for _ in range(milli // 1000):
                            free.remove(1000)
                    else:
                        fits = [one for one in free if one >= milli]
                        assert fits, (name, seed, time, node, here)
                        free[free.index(min(fits))] -= milli


@SLOW_TO_COMPILE
@pytest.mark.parametrize("name", ["gfs", "gfs-e", "gfs-d", "gfs-s", "gfs-p", "static-quota"])
def test_spot_is_under_its_quota_at_every_start(name):
    checked = 0
    for seed in range(4):
        cards, tasks, forecast = drawn(seed, blocking=False)
        found = run(cards, tasks, SCHEDULERS[name], forecast)
        size, hp = found.workload.size_milli, found.workload.hp
        # Who works on in the grace period of an eviction holds blocked cards, not spot ones.
        ends = np.where(
            found.run_end == RUN_ENDS.index("evict"), found.run_stop_s - 30, found.run_stop_s
        )
        every = placed_runs(replace(found, run_stop_s=ends))
        spot = [one for one in every if not hp[one[0]]]
        limit = int(SCHEDULERS[name].quota_share * 1000 * sum(cards))
        for time in {begin for _, begin, *_ in spot}:
            used = sum(int(size[task]) for task, begin, end, _ in spot if begin <= time < end)
            tick = np.searchsorted(found.tick_s, time, side="right") - 1
            assert found.tick_s[tick] <= time
            quota = limit if name == "static-quota" else int(found.quota_milli[tick])
            assert used <= quota, (name, seed, time)
            checked += quota < 1000 * sum(cards)
    assert checked


@SLOW_TO_COMPILE
def test_two_equal_runs_are_equal():
    cards, tasks, forecast = drawn(3, blocking=False)
    first, second = (run(cards, tasks, SCHEDULERS["gfs-p"], forecast) for _ in range(2))
    assert (first.finish_s == second.finish_s).all()
    assert (first.run_nodes == second.run_nodes).all()


def test_tasks_that_never_fit_are_found():
    tasks = [
        Task(0, True, 1, 8000, 0, 1),
        Task(1, True, 3, 4000, 0, 1),
        Task(2, True, 9, 500, 0, 1),
    ]
    cards = np.array([4, 4], np.int64)
    assert never_fits(cards, workload(tasks)).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="does not fit into the empty pool"):
        simulate_spot(cards, workload(tasks), SCHEDULERS["first-fit"], horizon_s=10)


def test_limits_of_eta_out_of_order_are_refused():
    with pytest.raises(ValueError, match="eta_min must be at most eta_max, got 3 and 2"):
        SpotScheduler(eta_min=3.0)


def test_eta_steers_towards_the_target_that_is_set():
    usual, own = SpotScheduler(), SpotScheduler(eviction_target=0.3)
    for scheduler, target in ((usual, 0.1), (replace(usual, eta_rule="literal"), 0.9), (own, 0.3)):
        rules = Rules.of(scheduler, 8000, 0)
        assert rules.target == pytest.approx(target)
        assert getattr(next_eta, "py_func", next_eta)(1.0, 0.6, 0, rules) == pytest.approx(
            target / 0.6 if target < 0.4 else 1.0
        )


def test_eta_falls_and_rises_at_the_thresholds_that_are_set():
    rules = Rules.of(SpotScheduler(eta_falls_above=2.0, eta_rises_below=0.8), 8000, 0)
    eta = partial(getattr(next_eta, "py_func", next_eta), 1.0, rules=rules)
    assert eta(0.19, 9999) == 1.0  # below 2 x 0.1
    assert eta(0.25, 9999) == pytest.approx(0.1 / 0.25)
    assert eta(0.07, 9999) == pytest.approx(1.8 - 0.7)  # at 0.8 x 0.1 it is 1
    assert eta(0.07, 0) == 1.0


@pytest.mark.parametrize(
    ("useful", "saved", "kept"),
    [(249, 0, 0), (250, 0, 250), (499, 0, 300), (700, 250, 350), (100, 600, 0), (300, 600, 0)],
)
def test_milestones_keep_what_was_done_before_them(useful, saved, kept):
    # Of 1,000 s: at 250 s and 600 s, and after 300 s of work.
    rules, milestones = Rules.of(SpotScheduler(), 8000, 0), np.array([0.25, 0.6, 300.0])
    tasks = np.zeros((STATE + 1, 1), np.int64)
    tasks[DURATION], tasks[SAVED] = 1000, saved
    assert getattr(kept_of, "py_func", kept_of)(tasks, 0, useful, rules, milestones) == kept


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("submit_s", [5, 0], "order of submission"), ("pods", [0, 1], "at least 1"),
     ("pod_milli", [1500, 1000], "whole GPUs"), ("hp", [True], "must have shape")],
)  # fmt: skip
def test_workloads_that_cannot_be_are_refused(column, value, said):
    columns = {
        "submit_s": [0, 1], "duration_s": [1, 1], "hp": [True, False], "pods": [1, 1],
        "pod_milli": [1000, 1000],
    } | {column: value}  # fmt: skip
    with pytest.raises(ValueError, match=said):
        SpotWorkload(**{name: np.array(one) for name, one in columns.items()})


def test_the_bound_of_the_pool_is_below_the_sum_of_bounds():
    mean, excess = np.full((4, 2), 3.0), np.full((4, 2), 2.0)
    mean[3, 0] = 4  # series 0 in hour 4 alone
    assert demand_bound(mean, excess, "pool") == pytest.approx(7 + 2 * 2**0.5)
    assert demand_bound(mean, excess, "sum") == pytest.approx(11)
    assert demand_bound(mean, -excess, "pool") == 7  # a bound below its mean bounds nothing


def golden():
    spec = importlib.util.spec_from_file_location(
        "golden_gfs", Path(__file__).parent / "golden_gfs.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_golden_workloads(shared):
    for path in sorted((shared / "golden" / "gfs").glob("*.json")):
        assert golden().differences(path) == []
