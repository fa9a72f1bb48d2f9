"""Laws of the twin, on random sites and jobs; and its agreement with a plain replay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_twin import POOL, configs, counted_schedule, exact, schedule, site_jobs, sites, uses
from support_twin_oracle import simulate

from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import SchedulerConfig, SiteJob

pytestmark = pytest.mark.compiled
ONE_NODE = site_jobs(parts=("p",), nodes=1, gpus=8, plain=True)


def agree(site, jobs, config):
    plain = simulate(site, jobs, config)
    start, end, nodes, reasons = schedule(site, jobs, config)
    assert start == plain.start
    assert end == plain.end
    assert nodes == plain.nodes
    assert reasons == plain.rejected
    usage = replay_site(site, SiteJobs.of(jobs), config).usage
    for key, value in plain.usage.items():
        assert usage[key or ("", "")] == pytest.approx(value, rel=1e-9)


@given(sites(), site_jobs(), configs())
@settings(max_examples=50)
def test_kernel_and_plain_replay_agree_on_everything(site, jobs, config):
    agree(site, jobs, config)


@pytest.mark.slow
@given(sites(), site_jobs(most=40), configs())
@settings(max_examples=800)
def test_kernel_and_plain_replay_agree_on_many_more(site, jobs, config):
    agree(site, jobs, config)


@given(sites(), site_jobs(), configs())
@settings(max_examples=40)
def test_no_node_is_overbooked_and_every_job_gets_its_shape(site, jobs, config):
    start, _, nodes, reasons = schedule(site, jobs, config)
    by_id = {job.id: job for job in jobs}
    parts = {part.name: part for part in site.partitions}
    assert start.keys() | reasons.keys() == by_id.keys()
    for job_id, chosen in nodes.items():
        job = by_id[job_id]
        assert len(set(chosen)) == len(chosen) == job.nodes
        assert start[job_id] >= (job.ready if job.pinned is None else job.pinned)
        for node in chosen:
            assert site.nodes[node].name in parts[job.partition].nodes
            assert job.gpu_type in ("", site.nodes[node].gpu_type)
    for _, use in uses(jobs, start, nodes):
        for node, gpus in use.items():
            assert gpus <= site.nodes[node].gpus


@given(sites(), site_jobs(), configs())
@settings(max_examples=40)
def test_no_job_starts_on_a_node_that_is_down(site, jobs, config):
    start, _, nodes, _ = schedule(site, jobs, config)
    pinned = {job.id for job in jobs if job.pinned is not None}
    for job_id, chosen in nodes.items():
        for event in site.events if config.events and job_id not in pinned else ():
            names = {site.nodes[node].name for node in chosen}
            assert event.node not in names or not event.start <= start[job_id] < event.end


@given(ONE_NODE, st.booleans())
@settings(max_examples=50)
def test_on_one_node_easy_and_conservative_equal_plans_by_counts(jobs, conservative):
    policy = SchedulerConfig(backfill="conservative" if conservative else "easy")
    assert schedule(POOL, jobs, policy)[0] == counted_schedule(jobs, 8, conservative)


@given(ONE_NODE)
@settings(max_examples=50)
def test_with_exact_limits_promises_are_kept_and_conservative_is_never_later_than_fifo(jobs):
    jobs = exact(jobs)
    plain = simulate(POOL, jobs, SchedulerConfig(backfill="conservative"))
    start = schedule(POOL, jobs, SchedulerConfig(backfill="conservative"))[0]
    fifo = schedule(POOL, jobs, SchedulerConfig())[0]
    for job_id, promise in plain.promises.items():
        assert start[job_id] == promise
    assert all(start[job_id] <= fifo[job_id] for job_id in fifo)
    easy = simulate(POOL, jobs, SchedulerConfig(backfill="easy"))
    found = schedule(POOL, jobs, SchedulerConfig(backfill="easy"))[0]
    assert all(found[job_id] <= promise for job_id, promise in easy.promises.items())


@given(ONE_NODE)
@settings(max_examples=40)
def test_without_decay_the_usage_of_the_root_is_the_gpu_time_that_ran(jobs):
    config = SchedulerConfig(order="multifactor", half_life=0, calc_period=1, w_fairshare=1)
    run = replay_site(POOL, SiteJobs.of(jobs), config)
    last = max(int(end) for end in run.end)  # no tick after the last instant
    ran = sum(
        job.gpus * (min(last, int(run.end[i])) - int(run.start[i])) for i, job in enumerate(jobs)
    )
    assert run.usage["", ""] == ran


def test_shuffled_ties_are_another_schedule_of_the_same_rules():
    jobs = SiteJobs.of(exact_line())
    one, other = (
        replay_site(POOL, jobs, SchedulerConfig(backfill="easy", tie_seed=seed)) for seed in (0, 5)
    )
    again = replay_site(POOL, jobs, SchedulerConfig(backfill="easy", tie_seed=5))
    assert one.start.tolist() == sorted(one.start.tolist())
    assert other.start.tolist() != one.start.tolist()
    assert again.start.tolist() == other.start.tolist()


def exact_line():
    """Ten equal jobs submitted at once, one of which runs at a time."""
    return [SiteJob(i, 0, 1, 8, 10, 10) for i in range(10)]
