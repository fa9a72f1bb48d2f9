"""When a workload of Kueue has its quota: worked by hand, laws, and what is refused."""

import json
import re

import numpy as np
import pytest
from support_kueue import (
    BEGIN,
    cluster_queue,
    cohort,
    condition,
    local_queue,
    replayed_dump,
    teams,
    workload,
    write_list,
)

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.quota.kueue_site import read_quota_site
from gpuplan.analysis.quota.twin_text import quota_twin_text
from gpuplan.analysis.quota.workloads import read_kueue_log
from gpuplan.cli.commands.eta import show
from gpuplan.planner.quota.model import quota_model
from gpuplan.planner.quota_twin.forecast import outlasting_warnings
from gpuplan.planner.quota_twin.instant import quota_instant
from gpuplan.planner.quota_twin.start_replays import NewWorkload, quota_start_replays
from gpuplan.planner.requests.eta import EtaRequest
from gpuplan.planner.site.eta import start_times
from gpuplan.planner.studies.eta import eta
from gpuplan.simkit.quota.site import PodSet

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("few_forecasts")]

RUN = 1000
GPU = "nvidia.com/gpu"
AT0 = int(BEGIN.timestamp())
ALONE = [cluster_queue("team-a-cq", 8, None), local_queue("team-a", "team-a-cq")]


def past(count=20, team="team-a", gpus=1, run=RUN):
    """Return workloads of days ago that all ran the same time."""
    return [
        workload(f"past-{i}", team, i * 1100 - 40 * 86400, i * 1100 - 40 * 86400,
                 i * 1100 - 40 * 86400 + run, gpus=gpus)
        for i in range(count)
    ]  # fmt: skip


def asked(workloads, at, gpus, tmp_path, *, site=ALONE, queue="team-a-cq", priority=0, **more):
    """Return the waits of a new workload of one pod; ``at`` is seconds after `BEGIN`."""
    log = read_kueue_log(write_list(tmp_path / "k.json", [*workloads, *site]))
    model = quota_model(log.site)
    instant = quota_instant(log, log.site, model, AT0 + at)
    new = NewWorkload(model.number[queue], priority, (PodSet({GPU: gpus}),))
    tables = quota_start_replays(instant, model, more.get("level", "fair"), [new])
    return set(start_times(tables, 0, 10, 0).tolist()), tables


def test_a_running_workload_ends_after_the_time_such_workloads_run(tmp_path):
    # it holds all GPUs from 0 on and all of the past ran 1000 s: at 400 it has 600 s to go
    running = workload("now", "team-a", 0, 0, gpus=8)
    assert asked([*past(), running], 400, 4, tmp_path)[0] == {600}


def test_those_ahead_in_the_queue_come_first_and_smaller_ones_pass(tmp_path):
    running = workload("now", "team-a", 0, 0, gpus=8)
    ahead = workload("ahead", "team-a", 100, gpus=6)
    tail = workload("tail", "team-a", 200, 200, 201, gpus=1)  # the dump goes on for longer
    jobs = [*past(), running, ahead, tail]
    assert asked(jobs, 150, 4, tmp_path)[0] == {850 + RUN}
    assert asked(jobs, 150, 2, tmp_path)[0] == {850}
    strict = [cluster_queue("team-a-cq", 8, None, queueingStrategy="StrictFIFO"), ALONE[1]]
    assert asked(jobs, 150, 2, tmp_path, site=strict)[0] == {850}
    assert asked(jobs, 150, 4, tmp_path, priority=1)[0] == {850}  # before it


def test_quota_that_others_hold_comes_back_or_is_reclaimed(tmp_path):
    def site(**spec):
        return [
            cluster_queue("team-a-cq", 8, "all", **spec), cluster_queue("team-b-cq", 8, "all"),
            local_queue("team-a", "team-a-cq"), local_queue("team-b", "team-b-cq"), cohort("all"),
        ]  # fmt: skip

    borrower = workload("now", "team-b", 0, 0, gpus=16)
    jobs = [*past(), *past(team="team-b"), borrower]
    assert asked(jobs, 400, 8, tmp_path, site=site())[0] == {600}
    reclaims = site(preemption={"reclaimWithinCohort": "Any"})
    assert asked(jobs, 400, 8, tmp_path, site=reclaims)[0] == {30}  # seconds to stop
    assert asked(jobs, 400, 8, tmp_path, site=reclaims, level="borrowing")[0] == {600}


def test_running_workloads_stay_on_the_flavor_that_they_hold(tmp_path):
    # The first flavor is free, the second held: a replay that moved it would start both sooner.
    site = [cluster_queue("team-a-cq", None, None, flavors={"one": 4, "two": 4}), ALONE[1]]
    running = workload("now", "team-a", 0, 0, gpus=4, flavor="two")
    waits, tables = asked([*past(), running], 400, 4, tmp_path, site=site)
    assert waits == {0} and tables.unplaced == 0
    assert asked([*past(), running, workload("first", "team-a", 10, 10, gpus=4, flavor="one")],
                 400, 4, tmp_path, site=site)[0] == {600}  # fmt: skip


def test_running_workloads_above_the_quotas_are_left_out_and_counted(tmp_path):
    running = [workload(f"r{i}", "team-a", i, i, gpus=8) for i in range(2)]
    waits, tables = asked([*past(), *running], 400, 8, tmp_path)
    assert tables.unplaced == 1 and waits == {600}


def test_a_service_that_outlasted_all_that_ended_lasts_about_as_long_again(gpuplan, tmp_path):
    # A service has held 8 of 16 GPUs for 5 days; the 20 that ended ran 1000 s each.
    days = 86400
    site = [cluster_queue("team-a-cq", 16, None), ALONE[1]]
    service = workload("service", "team-a", 0, 0, gpus=8)
    tail = workload("tail", "team-a", 5 * days - 1000, 5 * days - 1000, 5 * days)
    dump = write_list(tmp_path / "k.json", [*past(), service, tail, *site])
    twin = tmp_path / "twin.toml"
    twin.write_text(quota_twin_text(read_quota_site(dump), {"level": "fair"}))

    def answer(gpus):
        code, out, err = gpuplan("eta", dump, "--twin", twin, "--gpus", gpus, "--replays", 100,
                                 "--output-format", "json")  # fmt: skip
        assert code == 0, err
        return json.loads(out)

    all_gpus = answer(16)
    assert 3 * days < all_gpus["results"]["p50_s"] < 8 * days
    # It ends within a day with probability 1 - 5 / (5 + 1); within seconds, hardly ever.
    assert 0.05 < all_gpus["results"]["within_24h"] < 0.3
    assert all_gpus["results"]["within_1h"] < 0.05
    said = (
        "1 running workload (8 GPUs) has run longer than any that ended; "
        "the forecast assumes that it lasts about as long again (median)"
    )
    assert said in str(all_gpus["warnings"])
    assert answer(8)["results"]["p50_s"] < 60  # the other 8 are free


def test_only_running_workloads_that_none_outlasted_are_warned_of(tmp_path):
    running = [workload(f"r{i}", "team-a", 0, 0, gpus=2 + i) for i in range(3)]
    last = workload("last", "team-a", 900, 900, gpus=1)  # it has run for a second
    for at, expected in ((901, ()), (1001, ((3, 9),))):
        log = read_kueue_log(write_list(tmp_path / "k.json", [*past(), *running, last, *ALONE]))
        instant = quota_instant(log, log.site, quota_model(log.site), AT0 + at)
        outlasting = instant.jobs.filter(instant.is_outlasting)
        told = outlasting_warnings(instant)
        assert [(outlasting.height, outlasting["gpus"].sum())] * len(told) == list(expected)
        assert all("3 running workloads (9 GPUs) have run" in text for text in told)


def test_nothing_later_is_known(tmp_path):
    path = replayed_dump(tmp_path / "k.json", teams(), n=200, level="borrowing")
    log = read_kueue_log(path)
    at = int(log.jobs["submit"][120])
    answers = []
    for workloads in (log.jobs, log.jobs.filter(log.jobs["submit"] <= at)):
        from dataclasses import replace

        known = replace(log, jobs=workloads)
        model = quota_model(log.site)
        instant = quota_instant(known, log.site, model, at)
        new = NewWorkload(0, 0, (PodSet({GPU: 8}),))
        answers.append(start_times(quota_start_replays(instant, model, "fair", [new]), 0, 20, 0))
    assert answers[0].tolist() == answers[1].tolist()
    assert (answers[0] >= 0).all()


def test_more_gpus_never_start_sooner_alone(tmp_path):
    path = replayed_dump(tmp_path / "k.json", ALONE + teams()[1:3] + teams()[4:], n=150, gap=900)
    log = read_kueue_log(path)
    model = quota_model(log.site)
    at = int(np.quantile(log.jobs["submit"].to_numpy(), 0.8))
    instant = quota_instant(log, log.site, model, at)
    queue = model.number["team-a-cq"]
    new = [NewWorkload(queue, 0, (PodSet({GPU: size}),)) for size in (1, 4, 8)]
    tables = quota_start_replays(instant, model, "quotas", new)
    waits = [start_times(tables, at, 20, 0) for at in range(3)]
    assert (waits[0] <= waits[1]).all() and (waits[1] <= waits[2]).all()


@pytest.fixture(scope="module")
def site_files(tmp_path_factory):
    """A dump, and the settings of its site."""
    folder = tmp_path_factory.mktemp("site")
    running = workload("now", "team-a", 180_000, 180_000, gpus=12)
    late = [workload(f"w{i}", "team-b", 180_100, gpus=8) for i in range(2)]
    late[0]["status"]["conditions"] = [condition("QuotaReserved", 180_100, "x", status="False")]
    dump = replayed_dump(folder / "k.json", teams(), extra=[running, *late], level="borrowing")
    twin = folder / "twin.toml"
    twin.write_text(quota_twin_text(read_quota_site(dump), {"level": "borrowing"}))
    return dump, twin


def test_the_answer(site_files, monkeypatch):
    monkeypatch.setattr("gpuplan.planner.studies.eta.QUICK_REPLAYS", 10)
    dump, twin = site_files
    answer = eta(EtaRequest(trace=dump, twin=twin, gpus=8, account="team-b", replays=20))
    results = answer.results
    assert (results.job.partition, results.job.account) == ("team-b-cq", "team-b")
    assert results.job.limit_s is None and results.as_requested_s is None
    assert (results.running_gpus, results.waiting_jobs, results.level) == (12, 2, "borrowing")
    assert results.p10_s <= results.p50_s <= results.p90_s
    assert results.backtest is not None and results.backtest.easy_pinball_s is None
    view = show(answer)
    assert "in queue team-b-cq" in view.headline and "partition" not in view.headline
    text = " ".join(answer.notes)
    assert "assumed queue team-b-cq" in text and "admission checks" in text
    assert "[calibration.eta]" in answer.twin_text()
    assert "8 GPUs in 1 pod" in str([table.rows for table in view.tables])


@pytest.mark.slow
def test_a_backtest_holds_about_what_it_says(site_files):
    dump, twin = site_files
    request = EtaRequest(trace=dump, twin=twin, gpus=8, replays=20, backtest=True)
    tested = eta(request).results.backtest
    assert tested.jobs >= 50 and 0.7 <= tested.coverage_80 <= 0.95
    assert tested.pinball_s < tested.mean_pinball_s  # better than the mean wait


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"user": "ana"}, "--user: .*--account"),
        ({"queue": "x"}, "--queue: .*newest one as LOG"),
        ({"account": "team-x"}, "--account team-x: no such namespace.*team-a"),
        ({"partition": "team-a"}, r"--partition team-a: no such .*did you mean team-a-cq"),
        ({"qos": "hig"}, "--qos hig: no workload .*expected a number or one of 0, 100"),
        ({"gpus": 48}, "never have its quota: queue .* can have at most 24 of default"),
        ({"gpus": 7, "nodes": 2}, "--gpus 7 on 2 pods: every pod"),
        ({"at": "2020-01-01"}, "--at must not lie before the dump begins"),
        ({"at": "2099-01-01"}, "--at must be at most 1 h after the dump was made"),
        ({"limit": "soon"}, "--limit"),
        ({"time_zone": "Europe/Berlin"}, "--time-zone Europe/Berlin: "),
    ],
)
def test_what_cannot_be_asked_is_refused(site_files, options, said):
    dump, twin = site_files
    with pytest.raises(UsageError, match=said):
        eta(EtaRequest(**{"trace": dump, "twin": twin, "gpus": 8, "replays": 10, **options}))


def test_other_logs_are_refused_with_what_to_give(site_files, tmp_path):
    from gpuplan.analysis.ingest.ingest import ingest

    dump, twin = site_files
    log = tmp_path / "jobs.csv"
    log.write_text("JobID|Submit\n1|2025-01-01T00:00:00\n")
    with pytest.raises(InputError, match=r"is no dump of Kueue.*\n  next: kubectl get"):
        eta(EtaRequest(trace=log, twin=twin, gpus=8))
    trace = tmp_path / "trace.parquet"
    ingest([dump], trace)
    with pytest.raises(InputError, match=rf"next: give {re.escape(str(dump))} in place of"):
        eta(EtaRequest(trace=trace, twin=twin, gpus=8))
