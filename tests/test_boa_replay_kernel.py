"""Fixed widths on rented nodes: schedules worked by hand, a slow twin, laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_boa_replay import paths_of, rules_of, twin

from gpuplan.simkit.elastic.kernel import NARROW, SQUEEZE, WHOLE
from gpuplan.simkit.elastic.simulator import NO_LIMIT, run_widths
from gpuplan.simkit.renting.billing import billed_gpu_us


def run(submit, path_of, work, paths, **changes):
    return run_widths(
        np.array(submit, np.int64),
        np.array(path_of, np.int64),
        np.array(work, float),
        paths,
        rules_of(**changes),
    )


def line(found):
    return list(zip(found.time_us.tolist(), found.gpus.tolist(), strict=True))


@pytest.mark.kernels
def test_a_job_waits_for_its_node_and_the_node_stays_a_while():
    # 100 us of work on 2 GPUs at twice the speed, a start of 10: it holds 2 GPUs from 90 to 150.
    path = paths_of(([2], [0], [[0.5]], 10))
    delays = {"node_gpus": 4, "provision_us": 90, "release_us": 60}
    found = run([0], [0], [100], path, **delays, horizon_us=500)
    assert (found.start_us.tolist(), found.finish_us.tolist()) == ([90], [150])
    assert (found.rescales.tolist(), found.held_gpu_us.tolist()) == ([1], [120])
    assert line(found) == [(90, 4), (210, 0)]
    assert billed_gpu_us(found.lease_us, found.lease_gpus, 100) == 4 * 200  # 120 us in units of 100
    assert found.level_us[:3].tolist() == [350, 0, 150] and found.level_us.sum() == 500
    found = run([0], [0], [100], path, **delays, from_request=True)
    assert line(found) == [(0, 4), (210, 0)]
    assert billed_gpu_us(found.lease_us, found.lease_gpus, 100) == 4 * 300


@pytest.mark.kernels
def test_an_idle_node_serves_the_next_job():
    path = paths_of(([2], [0], [[0.5]], 0))
    found = run([0, 100], [0, 0], [100, 100], path, provision_us=30, release_us=40)
    # The first runs from 30 to 80. Its GPUs are idle for 20 when the second comes, till 150.
    assert found.start_us.tolist() == [30, 100]
    assert line(found) == [(30, 2), (190, 0)]


@pytest.mark.kernels
def test_a_job_goes_on_at_its_old_width_until_the_gpus_to_grow_are_there():
    # Half of 100 us of work on 1 GPU, half on 4 at four times the speed; a change takes 5.
    path = paths_of(([1, 4], [0, 1], [[0.5, 0.125], [0.5, 0.125]], 5))
    found = run([0], [0], [100], path, provision_us=20)
    # Start at 20, pause to 25, half done at 75; 3 nodes are there at 95, when 30 of 50 are left:
    # 7.5 us on 4 GPUs, rounded to 8, after a pause of 5.
    assert found.finish_us.tolist() == [95 + 5 + 8]
    assert found.held_gpu_us.tolist() == [1 * 75 + 4 * 13]
    assert found.rescales.tolist() == [2]
    assert line(found) == [(20, 1), (95, 4), (108, 0)]


@pytest.mark.kernels
def test_growing_too_late_is_not_growing():
    path = paths_of(([1, 4], [0, 1], [[0.5, 0.125], [0.5, 0.125]], 5))
    found = run([0], [0], [100], path, provision_us=60)
    assert found.finish_us.tolist() == [60 + 5 + 100] and found.rescales.tolist() == [1]
    # The 3 nodes are there at 175, when nobody wants them: they are returned at once, or later.
    assert line(found) == [(60, 1), (165, 0)]
    found = run([0], [0], [100], path, provision_us=60, release_us=30)
    assert line(found) == [(60, 1), (175, 4), (195, 3), (205, 0)]


@pytest.mark.kernels
def test_shrinking_frees_gpus_at_once():
    path = paths_of(([1, 4], [1, 0], [[0.5, 0.125], [0.5, 0.125]], 5))
    found = run([0], [0], [80], path)
    assert found.finish_us.tolist() == [5 + 10 + 5 + 40]
    assert line(found) == [(0, 4), (15, 1), (60, 0)]
    assert found.held_gpu_us.tolist() == [4 * 15 + 45]


LIMITED = paths_of(([1, 2, 3], [2], [[1.0, 0.5, 0.25]], 0), ([1], [0], [[1.0]], 0))


@pytest.mark.kernels
def test_at_the_limit_the_head_of_the_queue_blocks():
    found = run([0, 1, 2], [0, 0, 1], [40, 40, 40], LIMITED, max_nodes=4)
    # 3 of 4 GPUs till 10; the second wants 3; the third would fit, but does not pass.
    assert found.start_us.tolist() == [0, 10, 10]
    assert found.finish_us.tolist() == [10, 20, 50]
    assert max(found.gpus) == 4


@pytest.mark.kernels
def test_at_the_limit_a_squeezed_job_runs_on_what_is_left():
    # The first holds 3; 1 is left for the second, at the speed of 1; the third waits for the first.
    squeezed = {"max_nodes": 4, "start": SQUEEZE}
    found = run([0, 1, 2], [0, 0, 1], [40, 40, 40], LIMITED, **squeezed)
    assert found.start_us.tolist() == [0, 1, 10]
    assert found.finish_us.tolist() == [10, 41, 50]
    # Without the first, a path wider than the limit can run as well.
    assert run([0], [0], [40], LIMITED, max_nodes=2, start=SQUEEZE).finish_us.tolist() == [20]
    with pytest.raises(ValueError, match=r"within 1\.\.2 GPUs, got 3"):
        run([0], [0], [40], LIMITED, max_nodes=2)


WIDENS = paths_of(([1, 2, 4], [2], [[1.0, 0.5, 0.25]], 5), ([1], [0], [[1.0]], 5))


@pytest.mark.kernels
def test_while_nodes_come_the_first_job_in_line_runs_on_what_is_left():
    # The first job holds 4 GPUs of its own from 60 to 85 (start 5, 80 us of work on 4 GPUs) and
    # leaves them. The second comes at 90, wants 4 and finds 3: the third has taken one.
    rules = {"provision_us": 60, "release_us": 100}
    arrays = [0, 88, 90, 91], [0, 1, 0, 0], [80, 400, 160, 160], WIDENS
    found = run(*arrays, **rules, start=NARROW)
    # It starts on 2, the widest width within 3, works from 95 to 150 (half of 55 us a us: 110 of
    # 160), and then restarts on 4: 5 us, and 50 us of work in 12.5, rounded to 13.
    assert found.start_us.tolist() == [60, 88, 90, 151]
    assert found.finish_us[2] == 150 + 5 + 13
    assert found.rescales.tolist() == [1, 1, 2, 1]
    assert found.held_gpu_us[2] == 2 * 60 + 4 * 18
    # The fourth waits: what is left is for one job only.
    whole = run(*arrays, **rules, start=WHOLE)
    assert whole.start_us.tolist() == [60, 88, 150, 151]
    assert whole.finish_us[2] == 150 + 5 + 40 and whole.rescales.tolist() == [1, 1, 1, 1]
    assert found.gpus.max() == whole.gpus.max() == 9  # the same nodes are rented


@pytest.mark.kernels
def test_a_restart_ends_the_start_that_it_interrupts():
    # The job starts on 1 GPU at 10 and would need 30 us; 3 more come at 20. What is left of that
    # start is not paid: 30 us for the new one, then all the work on 4 GPUs.
    paths = paths_of(([1, 4], [1], [[1.0, 0.25]], 30), ([1], [0], [[1.0]], 0))
    rules = {"provision_us": 10, "release_us": 50, "start": NARROW}
    found = run([0, 20], [1, 0], [5, 40], paths, **rules)
    assert found.start_us.tolist() == [10, 20]
    assert found.finish_us.tolist() == [15, 30 + 30 + 10] and found.rescales.tolist() == [1, 2]
    waits = run([0, 20], [1, 0], [5, 40], paths, **rules | {"start": WHOLE})
    assert waits.finish_us.tolist() == [15, 70]


def test_bad_arrays_are_refused():
    for submit, path_of, work, problem in (
        ([1, 0], [0, 0], [1, 1], "ascend"),
        ([0], [0, 0], [1], "shape"),
        ([0], [2], [1], "path_of"),
        ([0], [0], [-1], "work_us"),
        ([0], [0], [1e30], "36,000 years"),
    ):
        with pytest.raises(ValueError, match=problem):
            run(submit, path_of, work, LIMITED)


@st.composite
def instances(draw, least=0):
    """A few jobs in a small cluster; whole numbers, so that many events coincide.

    ``least`` is the least work; from 1 on every epoch takes time too.
    """
    slowness = [0.0, 0.25, 0.5, 1.0] if least == 0 else [0.25, 0.5, 1.0]
    paths = []
    for _ in range(draw(st.integers(1, 3))):
        widths = sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3)))
        epochs = draw(st.integers(1, 4))
        aims = [draw(st.integers(0, len(widths) - 1)) for _ in range(epochs)]
        slow = [draw(st.sampled_from(slowness)) for _ in range(epochs)]
        gain = draw(st.sampled_from([0.5, 1.0]))
        times = [[s / w**gain for w in widths] for s in slow]
        paths.append((widths, aims, times, draw(st.integers(0, 6))))
    count = draw(st.integers(1, 12))
    submit = sorted(draw(st.lists(st.integers(0, 40), min_size=count, max_size=count)))
    path_of = draw(st.lists(st.integers(0, len(paths) - 1), min_size=count, max_size=count))
    work = draw(st.lists(st.integers(least, 40 + least), min_size=count, max_size=count))
    node_gpus = draw(st.integers(1, 4))
    rules = {
        "node_gpus": node_gpus,
        "provision_us": draw(st.integers(0, 12)),
        "release_us": draw(st.integers(0, 12)),
        "from_request": draw(st.booleans()),
        "max_nodes": draw(st.one_of(st.just(NO_LIMIT), st.integers(6 // node_gpus + 1, 8))),
        "start": draw(st.sampled_from([WHOLE, NARROW, SQUEEZE])),
        "horizon_us": draw(st.integers(1, 60)),
    }
    return submit, path_of, work, paths_of(*paths), rules, draw(st.integers(1, 20))


@settings(max_examples=50)
@given(instances())
def test_kernel_and_twin_agree(instance):
    agree(*instance)


@pytest.mark.slow
@settings(max_examples=800)
@given(instances(least=40))
def test_kernel_and_twin_agree_in_many_more_cases(instance):
    # In epochs of less than a microsecond the two may count changes of width differently.
    agree(*instance)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(4))
def test_kernel_and_twin_agree_on_hundreds_of_jobs(seed):
    # Enough of everything that all tables grow: queue, orders, leases, idle nodes, levels.
    rng = np.random.default_rng(seed)
    count = 300
    widths = [[1, 2, 5, 9], [3, 8], [16]]
    aims = [[0, 2, 3, 1], [0, 1], [0]]
    paths = paths_of(
        *(
            (w, a, [[1 / len(a) / k**0.7 for k in w]] * len(a), int(rng.integers(0, 50)))
            for w, a in zip(widths, aims, strict=True)
        )
    )
    rules = {
        "node_gpus": (1, 4)[seed % 2],
        "provision_us": 90,
        "release_us": int(rng.integers(0, 300)),
        "max_nodes": (NO_LIMIT, 20)[seed // 2],
        "start": (NARROW, NARROW, WHOLE, SQUEEZE)[seed],
        "horizon_us": 9000,
    }
    submit = np.sort(rng.integers(0, 10_000, count)).tolist()
    path_of = rng.integers(0, 3, count).tolist()
    work = rng.exponential(1500, count).tolist()
    agree(submit, path_of, work, paths, rules, 60)


def agree(submit, path_of, work, paths, rules, billing_us):
    found = run(submit, path_of, work, paths, **rules)
    jobs, rented, levels, bill = twin(submit, path_of, work, paths, rules_of(**rules), billing_us)
    assert found.start_us.tolist() == [job.start for job in jobs]
    assert found.finish_us.tolist() == [job.finish for job in jobs]
    assert found.rescales.tolist() == [job.rescales for job in jobs]
    assert found.held_gpu_us.tolist() == [job.held for job in jobs]
    changed, before = [], 0
    for time, gpus in sorted(rented.items()):
        if gpus != before:
            changed.append((time, gpus))
        before = gpus
    assert line(found) == changed
    assert billed_gpu_us(found.lease_us, found.lease_gpus, billing_us) == bill
    for level, time in enumerate(found.level_us.tolist()):
        extra = max(0, rules["horizon_us"] - max(rented)) if level == 0 else 0
        assert time == levels.get(level, 0) + extra


@settings(max_examples=80)
@given(instances())
def test_laws_of_every_replay(instance):
    submit, path_of, work, paths, rules, billing_us = instance
    found = run(submit, path_of, work, paths, **rules)
    rented = int(np.dot(found.gpus[:-1], np.diff(found.time_us)))
    assert found.held_gpu_us.sum() <= rented  # nobody computes on GPUs that are not rented
    assert rented <= billed_gpu_us(found.lease_us, found.lease_gpus, billing_us)
    assert (found.gpus % rules["node_gpus"] == 0).all()
    assert found.gpus.max(initial=0) <= rules["max_nodes"] * rules["node_gpus"]
    assert (found.start_us >= submit).all() and (found.finish_us >= found.start_us).all()
    assert found.level_us.sum() == rules["horizon_us"]
    if rules["max_nodes"] == NO_LIMIT:
        at_once = run(submit, path_of, work, paths, horizon_us=10**6)
        used = np.dot(at_once.gpus[:-1], np.diff(at_once.time_us))
        assert at_once.held_gpu_us.sum() == used  # GPUs without delay: what is rented is held,
        assert at_once.start_us.tolist() == submit  # nobody waits, and Little's law is exact
        assert np.dot(at_once.level_us, np.arange(at_once.level_us.size)) == used
