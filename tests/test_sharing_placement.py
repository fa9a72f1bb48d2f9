"""Placement on shared GPUs: cases by hand, laws, and agreement with a slow twin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_sharing_parts import TwinFunction, TwinInstance, TwinPlacement, TwinRules
from support_sharing_reference import ReferenceTwin

from gpuplan.analysis.user_tables.sharing_instances import KINDS
from gpuplan.planner.sharing.placement_study import PlacementRequest, study_placement
from gpuplan.simkit.sharing.fleet import INFERENCE, LLM, TRAINING
from gpuplan.simkit.sharing.placement import Instances, place_instances
from gpuplan.simkit.sharing.policies import PLACEMENT_POLICIES, PlacementSettings, charges


def place(rows, ends=(), *, policy="dilu", nodes=2, node_gpus=4, **changes):
    """Place rows (kind, GPUs, request, limit, memory, function), and end some of them after."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[4] = columns[4].astype(float)
    events = [(at, True) for at in range(len(rows))] + [(at, False) for at in ends]
    of, starts = (np.array(column) for column in zip(*events, strict=True))
    return place_instances(
        Instances(*columns),
        of,
        starts,
        nodes=nodes,
        node_gpus=node_gpus,
        policy=policy,
        settings=PlacementSettings(**changes),
    )


def test_an_instance_goes_to_the_gpu_that_it_fills_best():
    # GPU 0 holds 0.5 and 10 GB, GPU 1 holds 0.6 and 30 GB; 0.4 and 10 GB fit both, better GPU 1.
    rows = [
        (INFERENCE, 1, 0.5, 0.9, 10, 0),
        (INFERENCE, 1, 0.6, 0.9, 30, 1),
        (INFERENCE, 1, 0.4, 0.6, 10, 2),
    ]
    run = place(rows)
    assert run.gpu_of[:, 0].tolist() == [0, 1, 1]
    assert run.active_gpus.tolist() == [1, 2, 2]
    np.testing.assert_allclose(run.sm_free_share, [0.5, 0.45, 0.25])
    np.testing.assert_allclose(run.memory_free_share, [0.75, 0.5, 0.375])


def test_equal_scores_go_to_the_lower_gpu_whatever_the_sums_round_to():
    # GPU 0 holds 0.3, GPU 1 holds 0.1 and 0.2, which add up to a little more than 0.3 as floats.
    rows = [
        (INFERENCE, 1, 0.3, 1.0, 2, 0),
        (INFERENCE, 1, 0.1, 0.6, 1, 1),
        (INFERENCE, 1, 0.2, 0.6, 1, 2),
        (INFERENCE, 1, 0.3, 0.3, 1, 3),
    ]
    assert place(rows).gpu_of[:, 0].tolist() == [0, 1, 1, 0]
    assert place(rows, policy="infless-r").gpu_of[3, 0] == 0
    assert place(rows, reference=True).gpu_of[3, 0] == 1  # as the authors' program has it


def test_equal_memory_left_splits_from_the_lower_gpu_whatever_the_sums_round_to():
    # Both GPUs hold 0.3 GB, GPU 0 as 0.1 and 0.2, which add up to a little more as floats.
    rows = [
        (INFERENCE, 1, 0.2, 0.6, 0.1, 0),
        (INFERENCE, 1, 0.2, 1.0, 0.3, 1),
        (INFERENCE, 1, 0.1, 0.6, 0.2, 2),
        (LLM, 1, 0.2, 0.2, 79, 3),
    ]
    run = place(rows)
    assert run.gpu_of[:3, 0].tolist() == [0, 1, 0]
    assert run.gpu_of[3, :2].tolist() == [0, 1]


def test_limits_bound_what_requests_allow():
    rows = [(INFERENCE, 1, 0.3, 0.8, 1, at) for at in range(3)]
    assert place(rows, gamma=1.5).active_gpus[-1] == 3  # 0.8 + 0.8 is above 1.5
    assert place(rows, gamma=1.6).active_gpus[-1] == 2
    assert place(rows, policy="infless-r", gamma=1.5).active_gpus[-1] == 1
    assert place(rows, policy="infless-l").active_gpus[-1] == 3
    assert place(rows, policy="exclusive").active_gpus[-1] == 3


def test_a_large_model_is_split_over_the_gpus_with_most_memory_left():
    rows = [
        (INFERENCE, 1, 0.5, 0.8, 30, 0),
        (INFERENCE, 1, 0.6, 0.8, 20, 1),
        (LLM, 1, 0.4, 0.6, 28, 2),
    ]
    run = place(rows)
    assert run.active_gpus.tolist() == [1, 2, 2]
    assert run.gpu_of[2, :2].tolist() == [1, 0]  # 20 GB on GPU 1, 8 GB on GPU 0
    assert place(rows, split=False).active_gpus.tolist() == [1, 2, 3]


def test_a_model_larger_than_a_gpu_takes_free_gpus_too():
    run = place([(LLM, 1, 0.4, 0.6, 100, 0)])
    assert run.failed_event is None and run.active_gpus.tolist() == [3]


def test_functions_gather_on_the_gangs_they_share():
    # The gang holds GPUs 0 and 1; instance 1 of function 7 goes to GPU 0. GPU 2 would be filled
    # better by the next instance of function 7, but GPU 1 is beside the same gang.
    rows = [
        (TRAINING, 2, 0.5, 0.7, 5, 0),
        (INFERENCE, 1, 0.3, 0.5, 5, 7),
        (INFERENCE, 1, 0.6, 0.9, 35, 8),
        (INFERENCE, 1, 0.3, 0.5, 5, 7),
    ]
    assert place(rows).gpu_of[:, 0].tolist() == [0, 0, 2, 1]
    assert place(rows, affinity=False).gpu_of[:, 0].tolist() == [0, 0, 2, 2]


def test_a_gang_stays_in_one_node_and_prefers_active_gpus():
    rows = [
        (INFERENCE, 1, 0.4, 0.6, 1, 0),
        (TRAINING, 4, 0.8, 0.9, 1, 1),
        (TRAINING, 4, 0.2, 0.3, 1, 2),
        (TRAINING, 4, 0.9, 0.9, 1, 3),
    ]
    run = place(rows)
    assert run.gpu_of[1].tolist() == [4, 5, 6, 7]
    assert run.gpu_of[2].tolist() == [4, 5, 6, 7]
    assert run.failed_event == 3  # GPU 0 is in use, so no node has four


def test_what_ends_leaves_no_trace():
    rows = [(INFERENCE, 1, 0.3, 0.5, 5, 0), (TRAINING, 2, 0.7, 0.9, 7, 1)]
    run = place(rows, ends=(0, 1))
    assert run.active_gpus.tolist() == [1, 2, 2, 0]


def test_mistakes_are_refused():
    rows = [(INFERENCE, 1, 0.3, 0.5, 5, 0)]
    with pytest.raises(ValueError, match="policy must be one of"):
        place(rows, policy="round-robin")
    with pytest.raises(ValueError, match="starts or ends twice"):
        place(rows, ends=(0, 0))
    with pytest.raises(ValueError, match="0 < request <= limit <= 1"):
        place([(INFERENCE, 1, 0.6, 0.5, 5, 0)])


share = st.integers(1, 20).map(lambda twentieth: twentieth / 20)
instance = st.tuples(
    st.sampled_from([INFERENCE, LLM, TRAINING]),
    st.integers(1, 3),
    share,
    share,
    st.integers(0, 40),
    st.integers(0, 3),
)


def as_row(drawn):
    kind, gpus, one, other, memory, function = drawn
    request, limit = sorted((one, other))
    workers = gpus if kind == TRAINING else 1
    name = 3 * function + (0, 1, 2)[kind]  # a function has one kind
    return (kind, workers, request, limit, memory, name)


@settings(max_examples=30)
@given(st.lists(instance, min_size=1, max_size=14), st.sampled_from(PLACEMENT_POLICIES))
def test_no_gpu_is_overbooked_and_no_gang_is_torn(drawn, policy):
    rows = [as_row(one) for one in drawn]
    run = place(rows, policy=policy, nodes=20)
    assert run.failed_event is None
    sums = np.zeros((3, 80))
    for (kind, gpus, request, limit, memory, _), parts in zip(rows, run.gpu_of, strict=True):
        if kind == TRAINING:
            held = parts[:gpus]
            assert len(set(held.tolist())) == gpus
            if policy != "exclusive":
                assert len(set((held // 4).tolist())) == 1
            request = limit if policy in ("infless-l", "fast-gs") else request
            sums[:, held] += np.array([[request], [limit], [memory]])
        elif policy != "dilu":
            request = limit if policy in ("infless-l", "fast-gs") else request
            sums[:, parts[0]] += np.array([request, limit, memory])
    assert (sums[0] <= 1 + 1e-6).all() and (sums[2] <= 40 + 1e-6).all()


@settings(max_examples=30)
@given(st.lists(instance, min_size=1, max_size=14), st.booleans())
def test_the_twin_agrees(drawn, affinity):
    rows = [as_row(one) for one in drawn]
    twin = TwinPlacement(TwinRules(gpus=80, affinity=affinity))
    run = place(rows, nodes=20, affinity=affinity)
    for at, (kind, gpus, request, limit, memory, name) in enumerate(rows):
        one = TwinFunction(str(name), None, request, limit, 1, memory=memory, llm=kind == LLM)
        one = replace(one, workers=gpus if kind == TRAINING else 0)
        parts = twin.choose(one)
        twin.add(TwinInstance(one, at, 0.0, 0.0), parts)
        assert run.gpu_of[at, : len(parts)].tolist() == [gpu for gpu, _ in parts]
    assert run.active_gpus[-1] == sum(bool(on) for on in twin.on.values())


@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        ("exclusive", 5),
        pytest.param("infless-l", 5, marks=pytest.mark.slow),
        ("infless-r", 5),
        ("dilu", 10),
    ],
)
def test_the_ties_of_the_authors_program_hold_at_3200_instances(monkeypatch, policy, seed):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1])
    reproduce = pytest.importorskip("benchmarks.reproduce_dilu", reason="needs the repository")
    instances = reproduce.many_instances(seed=seed)
    events = []
    for at, one in enumerate(instances):
        request, limit = charges(policy, one.request, one.limit)
        ask = (request, limit, one.memory_gb)
        events.append((one.start_s, 1, at, one, ask))
        if one.end_s is not None:
            events.append((one.end_s, 0, at, one, ask))
    twin, active = ReferenceTwin(policy), []
    for _, starts, at, one, ask in sorted(events, key=lambda event: event[:3]):
        if starts:
            twin.start(at, KINDS.index(one.kind), one.gpus, ask)
        else:
            twin.end(at, ask)
        active.append(len(twin.active))
    request = PlacementRequest(instances, (policy,), 1000, 4, reproduce.REFERENCE)
    (found,) = study_placement(request).policies
    assert found.run.active_gpus.tolist() == active
    for at in twin.parts:
        gpus = [gpu for gpu, _ in twin.parts[at]]
        assert sorted(found.run.gpu_of[at, : len(gpus)].tolist()) == sorted(gpus)


def test_a_gang_takes_the_gpus_of_a_node_that_are_free_for_longest():
    # All four GPUs of a node are taken and freed, GPU 3 first. A gang of two then takes 3 and 2.
    rows = [(INFERENCE, 1, 0.9, 1.0, 1, at) for at in range(4)] + [(TRAINING, 2, 0.5, 0.5, 1, 4)]
    ends = [(3, False), (2, False), (1, False), (0, False)]
    events = [(at, True) for at in range(4)] + ends + [(4, True)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[4] = columns[4].astype(float)
    of, starts = (np.array(column) for column in zip(*events, strict=True))
    gpus = [
        place_instances(
            Instances(*columns), of, starts, nodes=1, node_gpus=4, policy="infless-r",
            settings=PlacementSettings(reference=reference),
        ).gpu_of[4].tolist()
        for reference in (True, False)
    ]  # fmt: skip
    assert gpus == [[3, 2], [0, 1]]
