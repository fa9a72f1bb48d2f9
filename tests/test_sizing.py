"""Sizes against textbook queues, searches on any pattern."""

from dataclasses import replace
from math import factorial

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_traces import frame, in_memory

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.engine import Engine
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sizing import search
from gpuplan.planner.sizing.pools import PoolTerms, pools_of
from gpuplan.planner.sizing.search import Sizes, interval_of, smallest
from gpuplan.planner.sizing.sized_replay import ReplayTerms, SizedReplay, excess_of
from gpuplan.planner.sizing.targets import parse_target
from gpuplan.simkit.workload import Workload

ONE = Engine("threads", 1)
SURE = Resampling(90.0, 200, 0)


def jobs_of(submit_s, run_s, gpus=None):
    n = len(submit_s)
    work = Workload.from_seconds(submit_s, run_s, gpus or [1] * n, np.asarray(submit_s) + 1e6)
    return TraceJobs(work, pl.Series([str(i) for i in range(n)]), ())


def sizes_of(jobs, *targets, step=1, each=None, sure=None):
    terms = ReplayTerms(
        PolicySpec("size", "first-fit", {}),
        np.random.default_rng(0),
        each,
        tuple(map(parse_target, targets)),
        sure,
    )
    return Sizes(jobs, terms, step, ONE)


def test_a_size_worked_out_by_hand():
    # Four jobs of 100 s at once: on 2 GPUs two wait 100 s, on 1 they wait 0, 100, 200, 300 s.
    jobs = jobs_of([0, 0, 0, 0], [100.0] * 4)
    assert smallest(sizes_of(jobs, "mean_wait <= 50s")) == 2
    assert smallest(sizes_of(jobs, "mean_wait <= 49s")) == 3
    assert smallest(sizes_of(jobs, "max_wait <= 0s")) == 4
    assert smallest(sizes_of(jobs, "wait_over_60s <= 50%")) == 2
    assert smallest(sizes_of(jobs, "mean_slowdown <= 2.5")) == 1
    assert smallest(sizes_of(jobs, "mean_slowdown <= 1.5", "mean_wait <= 1h")) == 2
    assert smallest(sizes_of(jobs, "mean_wait <= 50s", step=3)) == 3


def test_a_cluster_names_the_gpus_of_a_log_without_types_and_growth_brings_jobs_closer():
    trace = in_memory(frame([0, 60], duration_s=[9.0, 9.0], num_gpus=[1.0, 1.0]))
    terms = PoolTerms(None, read_shape("A100=2x4", "--cluster"), 0.2, None, None, False, 0)
    (pool,), _ = pools_of(trace, terms)
    assert pool.shape is not None and (pool.shape.gpus, pool.gpus_per_node) == (8, 4)
    assert np.diff(pool.jobs.workload.submit_us).tolist() == [50_000_000]
    two = replace(terms, shape=read_shape("A100=4,T4=4", "--cluster"))
    with pytest.raises(UsageError, match="jobs on GPUs without a type"):
        pools_of(trace, two)


def erlang_c_wait(load: float, servers: int) -> float:
    """Return the mean wait of M/M/c in service times (Erlang, 1917)."""
    if load >= servers:
        return np.inf
    terms = [load**k / factorial(k) for k in range(servers)]
    last = load**servers / factorial(servers) / (1 - load / servers)
    return last / (sum(terms) + last) / (servers - load)


@pytest.mark.kernels
@pytest.mark.parametrize(("load", "limit_s"), [(6.0, 30.0), (14.0, 10.0)])
def test_mmc_gives_the_size_of_erlang_c_within_the_interval(load, limit_s):
    rng = np.random.default_rng(4)
    n, mean_s = 20_000, 100.0
    submit = np.cumsum(rng.exponential(mean_s / load, n))
    jobs = jobs_of(submit, rng.exponential(mean_s, n))
    textbook = next(c for c in range(1, 99) if erlang_c_wait(load, c) * mean_s <= limit_s)
    sizes = sizes_of(jobs, f"mean_wait <= {limit_s}s", sure=SURE)
    answer = smallest(sizes)
    ends = interval_of(sizes, answer)
    assert ends.low_gpus <= textbook <= ends.high_gpus
    assert ends.low_gpus <= answer <= ends.high_gpus
    assert abs(answer - textbook) <= 1


@pytest.mark.kernels
def test_md1_gives_the_size_of_pollaczek_and_khinchine():
    # Gangs of 8 on 8 to 15 GPUs are one server. Mean wait rho / (2 (1 - rho)) service times.
    rng = np.random.default_rng(7)
    n, rho, run_s = 20_000, 0.7, 60.0
    jobs = jobs_of(np.cumsum(rng.exponential(run_s / rho, n)), [run_s] * n, [8] * n)
    wait_s = rho / (2 * (1 - rho)) * run_s
    for limit_s, textbook in ((1.2 * wait_s, 8), (0.8 * wait_s, 16)):
        sizes = sizes_of(jobs, f"mean_wait <= {limit_s:.3f}s", step=8, sure=SURE)
        answer = smallest(sizes)
        ends = interval_of(sizes, answer)
        assert answer == textbook and ends.low_gpus <= textbook <= ends.high_gpus
    sized = sizes.at_size(8)
    low, high = sized.mean_wait_interval
    assert low <= wait_s <= high
    assert sized.p95_wait_interval[0] <= sized.waits["p95_wait_s"] <= sized.p95_wait_interval[1]


def fake(meets):
    """A replay that only knows whether the size meets the target."""
    return SizedReplay(
        0, dict.fromkeys(("mean_wait_s", "p95_wait_s"), 0.0), None, None, (0.0,), meets,
        met_share=float(meets), tail=0.05,
    )  # fmt: skip


@given(st.lists(st.booleans(), min_size=0, max_size=40), st.integers(1, 3), st.integers(1, 3))
def test_the_answer_meets_and_the_next_smaller_does_not_on_any_pattern(drawn, step, workers):
    pattern = [*drawn, True]  # where no job waits, the target is met
    jobs = jobs_of([0] * (step * len(pattern)), [1.0] * (step * len(pattern)))
    sizes = sizes_of(jobs, "mean_wait <= 1h", step=step)
    sizes.engine = Engine("threads", workers)

    def at(wanted):
        wanted = list(wanted)
        for gpus in wanted:
            assert gpus % step == 0 and step <= gpus <= step * len(pattern)
            sizes.replays[gpus] = replace(fake(pattern[gpus // step - 1]), gpus=gpus)
        return [sizes.replays[gpus] for gpus in wanted]

    sizes.at = at
    answer = smallest(sizes)
    assert pattern[answer // step - 1]
    assert answer == step or not pattern[answer // step - 2]
    below = pattern[max(0, answer // step - 1 - 1 - search.LOOK_BELOW) : answer // step - 1]
    assert not any(below)


def test_a_target_that_no_size_meets_is_infeasible():
    jobs = jobs_of([0, 0], [10.0, 10.0])
    with pytest.raises(InfeasibleError, match="where no job waits it is 1"):
        smallest(sizes_of(jobs, "mean_slowdown <= 0.5"))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 3), st.data())
def test_the_ends_of_the_interval_are_the_first_sizes_that_resamples_allow(shares, step, data):
    shares = [*sorted(shares), 1.0]
    n = step * len(shares)
    sizes = sizes_of(jobs_of([0] * n, [1.0] * n), "mean_wait <= 1h", step=step, sure=SURE)

    def at(wanted):
        wanted = list(wanted)
        for gpus in wanted:
            share = shares[gpus // step - 1]
            sizes.replays[gpus] = replace(fake(True), gpus=gpus, met_share=share)
        return [sizes.replays[gpus] for gpus in wanted]

    sizes.at = at
    low = next(i for i, share in enumerate(shares, 1) if share >= 0.05)
    high = next(i for i, share in enumerate(shares, 1) if share >= 0.95)
    answer = data.draw(st.integers(1, len(shares)))
    found = interval_of(sizes, answer * step)
    assert found.low_gpus == min(low, answer) * step
    assert found.high_gpus == max(high, answer) * step


def test_a_job_of_no_length_counts_for_no_target_of_slowdown():
    runs = np.array([True, False, True])
    slowdown = np.array([3.0, 1.5])
    wait_s = np.array([20.0, 9.0, 5.0])
    mean = parse_target("mean_slowdown <= 2")
    assert excess_of(mean, wait_s, slowdown, runs).tolist() == [1.0, 0.0, -0.5]
    of_wait = parse_target("mean_wait <= 10s")
    assert excess_of(of_wait, wait_s, slowdown, runs).tolist() == [10.0, -1.0, -5.0]
