"""Co-scaling of services and training: cases by hand, laws, and agreement with a slow twin."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support_sharing_parts import TwinCurve, TwinFunction, TwinRules
from support_sharing_twin import TwinSharing

from gpuplan.simkit.sharing.batches import count_calm
from gpuplan.simkit.sharing.coscaling import (
    absent_instances,
    function_table,
    idle_gpus,
    run_sharing,
)
from gpuplan.simkit.sharing.curves import exec_time, join_curves, saturation
from gpuplan.simkit.sharing.horizontal import EAGER, decide
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import (
    BY_LIMIT,
    BY_REQUEST,
    DILU_HORIZONTAL,
    DILU_VERTICAL,
    REFERENCE_VERTICAL,
    TOKENS,
    WHOLE,
    Profile,
    Service,
    SharingRules,
    TrainingJob,
)
from gpuplan.simkit.sharing.state import (
    FRESH,
    LAST_S,
    LEAST_S,
    NEVER,
    READY,
    STATUS,
    USED,
)
from gpuplan.simkit.sharing.vertical import issue_tokens

BATCHES, SHARES = (1, 4), (0.25, 0.5, 1.0)


def rows_of(base_s, flat=1.0):
    """Return (batch, share, latency): time falls with the share up to ``flat``."""
    return [(b, s, base_s * (1 + b) / min(s, flat)) for b in BATCHES for s in SHARES]


def profile_of(rows):
    batch, share, latency_s = (np.array(column) for column in zip(*rows, strict=True))
    return Profile(batch, share, latency_s)


def test_curves_interpolate_rates_over_the_share_and_times_over_the_batch():
    rows = [(1, 0.5, 0.02), (1, 1.0, 0.01), (4, 0.5, 0.08), (4, 1.0, 0.1)]
    curves = join_curves([tuple(np.array(column) for column in zip(*rows, strict=True))])
    assert exec_time(curves, 0, 1, 0.25) == pytest.approx(1 / 25)  # half the way to 50 a second
    assert exec_time(curves, 0, 1, 0.75) == pytest.approx(1 / 75)
    assert exec_time(curves, 0, 4, 1.0) == 0.08  # more share is never slower
    assert exec_time(curves, 0, 2, 0.5) == pytest.approx(0.04)
    assert exec_time(curves, 0, 9, 0.5) == 0.08
    assert exec_time(curves, 0, 1, 0.0) == np.inf
    assert saturation(curves, 0, 1) == 1.0 and saturation(curves, 0, 4) == 0.5


def test_a_request_alone_gets_its_request_and_no_more():
    rows = [(1, s, 0.01 / s) for s in (0.25, 0.5, 1.0)]
    service = Service("A", profile_of(rows), 0.5, 1.0, 1, 0.1, np.array([0.5, 0.5]), 1.0)
    run = run_sharing([service], [], horizon_s=2, rules=SharingRules(nodes=1))
    # 0.01 s on the whole GPU, 0.02 s on half; the second request waits for the first. With no other
    # instance the quota grows by 1.3 a period from the second period on, so it is quicker.
    first, second = run.services[0].finish_s - 0.5
    assert 0.01 < first < 0.02 and first < second < 0.03
    fixed = SharingRules(nodes=1, quotas=BY_REQUEST)
    held = run_sharing([service], [], horizon_s=2, rules=fixed)
    np.testing.assert_allclose(held.services[0].finish_s, [0.52, 0.54])
    assert held.gpu_s == 2.0


def test_training_alone_runs_at_its_limit_and_ends_when_its_work_is_done():
    rows = [(1, s, 0.01 / s) for s in (0.25, 0.5, 1.0)]
    job = TrainingJob("T", profile_of(rows), 0.25, 0.5, workers=2, start_s=1.0, work_s=2.0)
    run = run_sharing([], [job], horizon_s=10, rules=SharingRules(nodes=1))
    assert run.training_s.tolist() == [2.0]
    assert run.training_end_s[0] == pytest.approx(5.0, abs=0.006)
    assert run.active_gpus.tolist() == [0, 2, 0]


CALM_CASES = {  # batches of A and B that end before each period, CONTENTION, quotas of training
    "five in a row": ("AAAAA", "CCCCC", [0.2, 0.2, 0.2, 0.2, 0.26]),
    "and five more": ("AAAAAAAAAA", "CCCCCCCCCC", [0.2] * 4 + [0.26] * 5 + [0.338]),
    "of one service": ("ABABABABA", "CCCCCCCCC", [0.2] * 8 + [0.26]),
    "one step for two": ("XXXXX", "CCCCC", [0.2, 0.2, 0.2, 0.2, 0.26]),
    "a slow batch": ("AAAAaAAAAA", "CCCCCCCCCC", [0.2] * 9 + [0.26]),
    "lost in recovery": ("AAAAAAAAAA", "CCCCRCCCCC", [0.2] * 4 + [0.26] * 5 + [0.338]),
    "lost in emergency": ("AAAAAAAAAA", "CCCCECCCCC", [0.2] * 9 + [0.26]),
}


@pytest.mark.parametrize("case", CALM_CASES)
def test_contended_training_takes_a_step_after_five_calm_batches_of_a_service(case):
    ends, states, quotas = CALM_CASES[case]
    rows = [(1, s, 0.01 / s) for s in (0.25, 0.5, 1.0)]
    services = [Service(n, profile_of(rows), 0.3, 0.6, 1, 0.1, np.zeros(0)) for n in "AB"]
    job = TrainingJob("T", profile_of(rows), 0.2, 0.9)
    rules = REFERENCE_VERTICAL._replace(floor=1.0)
    functions, _ = function_table(services, [job], [1, 1], SharingRules())
    instances, gpus = absent_instances(functions, 3, 1), idle_gpus(1, 3)
    gpus.parts[0, :, 0], gpus.count[0] = (0, 1, 2), 3
    instances.numbers[:, STATUS], instances.numbers[2, USED] = READY, NEVER
    instances.quota[:, 0] = (0.3, 0.3, 0.2)
    found = []
    for period, (end, state) in enumerate(zip(ends, states, strict=True), 1):
        instances.numbers[:2, (USED, FRESH)] = (period, 0)
        instances.values[:2, (LAST_S, LEAST_S)] = 0.01
        for at, name in enumerate("AB"):
            if end.upper() in (name, "X"):
                instances.values[at, LAST_S] = 0.01 if end.isupper() else 0.013
                count_calm(at, instances, rules)
        if state == "E":  # B is slow
            instances.values[1, LAST_S] = 0.02
        if state == "R":  # B is idle, and the last to be looked at
            instances.numbers[1, USED] = -1000
        issue_tokens(0, period, functions, instances, gpus, rules)
        found.append(instances.quota[2, 0])
    assert found == pytest.approx(quotas)


def test_a_function_that_fits_nowhere_is_named():
    rows = [(1, s, 0.01 / s) for s in (0.5, 1.0)]
    job = TrainingJob("T", profile_of(rows), 0.9, 0.9, workers=4, memory_gb=30)
    service = Service("A", profile_of(rows), 0.5, 1.0, 1, 0.1, np.zeros(0), memory_gb=20)
    run = run_sharing([service], [job], horizon_s=1, rules=SharingRules(nodes=1))
    assert run.misfit == "A" and run.misfit_s == 0


def test_later_instances_go_to_the_other_workers_of_a_gang():
    # Four services before it make the ids of instances and of functions differ.
    rows = [(1, s, 0.01 / s) for s in (0.25, 0.5, 1.0)]
    job = TrainingJob("T", profile_of(rows), 0.3, 0.3, workers=2)
    rules = DILU_HORIZONTAL._replace(way=EAGER, keep_alive_s=9)
    requests = np.concatenate([np.arange(8) / 8, 1 + np.arange(24) / 24])
    names = ("B", "C", "D", "E")
    services = [Service(n, profile_of(rows), 0.2, 0.2, 1, 0.1, np.zeros(0)) for n in names]
    more = Service("A", profile_of(rows), 0.2, 0.2, 1, 0.1, requests, 0.0, False, 1.0, 0.5, 8.0)
    run = run_sharing(
        [more, *services], [job], horizon_s=4, rules=SharingRules(nodes=1, horizontal=rules),
        log=True,
    )  # fmt: skip
    where = {run.instance_names[int(row[3])]: int(row[1]) for row in run.log}
    assert where["A-1"] == 0  # beside the first worker, where the most is taken
    assert where["A-2"] == 1


def test_eager_scaling_follows_each_second_and_keeps_alive():
    rules = DILU_HORIZONTAL._replace(way=EAGER, keep_alive_s=2)
    requests = np.array([5.0, 25, 25, 5, 5, 5, 5, 5, 5])
    assert decide(requests, 10.0, rules).tolist() == [[2, 2], [3, 3], [6, 2]]


def test_lazy_scaling_waits_for_a_window():
    requests = np.concatenate([np.full(30, 15.0), np.full(80, 3.0)])
    assert decide(requests, 10.0, DILU_HORIZONTAL).tolist() == [[20, 2], [61, 1]]


def functions(drawn):
    """Return the same functions for the simulator and for its twin."""
    services, jobs, twins = [], [], []
    for at, (request, limit, base, gaps, llm, memory) in enumerate(drawn["services"]):
        rows = rows_of(base)
        arrivals = np.cumsum(gaps) / 64
        low, high = sorted((request / 10, limit / 10))
        name = f"S{at}"
        services.append(
            Service(
                name, profile_of(rows), low, high, 3, 0.2, arrivals, memory, llm, 1.0, 0.4, 40.0
            )
        )
        requests = np.bincount(arrivals.astype(int), minlength=4)[:4].astype(float)
        scaled = decide(requests, 40.0, drawn["horizontal"]).tolist()
        twins.append(
            TwinFunction(
                name,
                TwinCurve(rows),
                low,
                high,
                3,
                memory=memory,
                llm=llm,
                arrivals=tuple(arrivals),
                changes=tuple(map(tuple, scaled)),
                first=drawn["horizontal"].first,
                cold_s=0.4,
            )
        )
    for at, (request, limit, workers, start, work) in enumerate(drawn["jobs"]):
        rows = rows_of(0.01, flat=0.5)
        low, high = sorted((request / 10, limit / 10))
        job = TrainingJob(f"T{at}", profile_of(rows), low, high, workers, 8.0, start / 8, work)
        jobs.append(job)
        twins.append(
            TwinFunction(
                job.name,
                TwinCurve(rows),
                low,
                high,
                4,
                memory=8.0,
                workers=workers,
                start_s=start / 8,
                total_s=work or np.inf,
            )
        )
    return services, jobs, twins


service = st.tuples(
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([0.003, 0.007, 0.02]),
    st.lists(st.integers(0, 12), min_size=1, max_size=120),
    st.booleans(),
    st.sampled_from([2.0, 25.0]),
)
job = st.tuples(
    st.integers(1, 5),
    st.integers(3, 9),
    st.integers(1, 3),
    st.integers(0, 16),
    st.sampled_from([None, 0.5]),
)
scenario = st.fixed_dictionaries(
    {
        "services": st.lists(service, min_size=1, max_size=3),
        "jobs": st.lists(job, max_size=2),
        "horizontal": st.sampled_from(
            [
                DILU_HORIZONTAL._replace(out_samples=1, in_samples=1, window=2),
                DILU_HORIZONTAL._replace(way=EAGER, keep_alive_s=0, least=0, first=0),
            ]
        ),
        "calm": st.sampled_from([0, 2]),
        "quotas": st.sampled_from([TOKENS, TOKENS, BY_REQUEST, BY_LIMIT]),
        "floor": st.sampled_from([1.0, 0.25]),
    }
)


@settings(max_examples=15, phases=[Phase.generate])  # a failure takes long to shrink
@given(scenario)
def test_the_twin_agrees_period_by_period(drawn):
    services, jobs, twins = functions(drawn)
    vertical = DILU_VERTICAL._replace(floor=drawn["floor"], calm=drawn["calm"])
    rules = SharingRules(
        nodes=6, vertical=vertical, horizontal=drawn["horizontal"], quotas=drawn["quotas"]
    )
    run = run_sharing(services, jobs, horizon_s=4, rules=rules, log=True)
    static = drawn["quotas"] if drawn["quotas"] != TOKENS else ""
    twin_rules = TwinRules(gpus=24, floor=drawn["floor"], calm=drawn["calm"], static=static)
    twin = TwinSharing(twins, 4, twin_rules).run()
    for one, found in zip(services, run.services, strict=True):
        want = np.full(one.arrival_s.size, np.nan)
        for finish_s, number, _ in twin.served[one.name]:
            want[number] = finish_s
        np.testing.assert_allclose(found.finish_s, want, rtol=0, atol=1e-9)
    for one, done_s in zip(jobs, run.training_s, strict=True):
        if one.work_s is None:
            assert done_s == pytest.approx(twin.jobs[one.name].done_s, abs=1e-9)
    assert run.gpu_s == pytest.approx(twin.gpu_s, abs=0.006 * (1 + len(jobs)))
    assert len(run.log) == len(twin.log)
    for found, (period, gpu, _, one, quota, share) in zip(run.log, twin.log, strict=True):
        assert (found[0], found[1]) == (period, gpu)
        name = one.function.name if one.function.workers else f"{one.function.name}-{one.number}"
        assert run.instance_names[int(found[3])] == name
        assert found[4] == pytest.approx(quota, abs=1e-9)
        assert found[5] == pytest.approx(share, abs=1e-9)


@settings(max_examples=40)
@given(scenario)
def test_shares_quotas_and_requests_obey_their_bounds(drawn):
    services, jobs, _ = functions(drawn)
    rules = SharingRules(
        nodes=6, horizontal=drawn["horizontal"], quotas=drawn["quotas"],
        settings=PlacementSettings(gamma=2.0),
    )  # fmt: skip
    run = run_sharing(services, jobs, horizon_s=4, rules=rules, log=True)
    totals = {}
    bounds = {one.name: (one.request, one.limit) for one in (*services, *jobs)}
    for period, gpu, _, one, quota, share, used in run.log:
        totals[period, gpu] = totals.get((period, gpu), 0.0) + share
        low, high = bounds[run.instance_names[int(one)].split("-")[0]]
        assert low - 1e-12 <= quota <= high + 1e-12
        assert -1e-12 <= used <= share + 1e-12
    assert max(totals.values(), default=0.0) <= 1 + 1e-9
    for one, found in zip(services, run.services, strict=True):
        done = ~np.isnan(found.finish_s)
        assert found.finish_s.size == one.arrival_s.size
        assert (found.finish_s[done] > one.arrival_s[done]).all()
        if found.launched_s.size == 1:  # one instance serves in the order of arrivals
            assert (np.diff(found.finish_s[done]) >= 0).all()
            assert not (np.diff(done.astype(int)) > 0).any()


def test_a_log_changes_nothing_and_idle_periods_are_passed_over():
    rows = rows_of(0.002)
    arrivals = np.array([0.1, 40.0, 40.001, 90.0])
    service = Service("A", profile_of(rows), 0.3, 0.6, 3, 0.2, arrivals)
    job = TrainingJob("T", profile_of(rows), 0.4, 0.8, start_s=20.0, work_s=30.0)
    runs = [
        run_sharing([service], [job], horizon_s=100, rules=SharingRules(nodes=1), log=log)
        for log in (False, True)
    ]
    np.testing.assert_allclose(runs[0].services[0].finish_s, runs[1].services[0].finish_s)
    np.testing.assert_allclose(runs[0].training_end_s, runs[1].training_end_s)
    assert runs[0].gpu_s == runs[1].gpu_s


def test_whole_gpus_leave_services_and_training_apart():
    rows = rows_of(0.002)
    service = Service("A", profile_of(rows), 0.3, 0.6, 3, 0.2, np.array([0.5]))
    job = TrainingJob("T", profile_of(rows), 0.4, 0.8)
    rules = SharingRules(placement="exclusive", quotas=WHOLE, nodes=1)
    run = run_sharing([service], [job], horizon_s=2, rules=rules)
    assert run.active_gpus.tolist() == [2]
    assert run.training_s[0] == pytest.approx(2.0)
    assert run.services[0].finish_s[0] == pytest.approx(0.504)
