"""When a job starts: what is known at an instant, what is drawn, and what follows."""

import csv
import gzip
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.squeue import is_squeue, read_queue
from gpuplan.planner.site.backtest import PastForecast, scored_jobs, tail_of
from gpuplan.planner.site.draws import CLASSES, LEAST_SAMPLE, Arrivals, run_times
from gpuplan.planner.site.eta import quantiles, start_times
from gpuplan.planner.site.instant import instant_of, task_ids
from gpuplan.planner.site.new_job import JobWish, alternatives, new_job
from gpuplan.planner.site.start_replays import Chains, Holds
from gpuplan.planner.site.start_tables import start_replays, with_usage
from gpuplan.planner.twin.settings import config_of, level_config, site_of
from tests.support.support_eta import (
    DAY,
    MONDAY,
    past_jobs,
    row,
    squeue_json,
    squeue_text,
    write_log,
    write_twin,
)

pytestmark = pytest.mark.compiled
AT = MONDAY + 28 * DAY


@pytest.fixture
def site(tmp_path):
    document, calibration = read_twin(write_twin(tmp_path / "twin.toml"))
    config = level_config(config_of(document), calibration.level)
    return site_of(document, [("lab", "ann"), ("lab", "bob")]), config


def tables_of(tmp_path, site, rows, wish, *, at=AT, queue=None):
    log = read_site_log(write_log(tmp_path / "log.txt", rows))
    instant = instant_of(log, at, queue)
    cluster, config = site
    job, _ = new_job(wish, cluster, instant.past)
    return start_replays(log, instant, cluster, config, [job]), instant


def wish(gpus=4, limit_s=3600, **names):
    return JobWish(gpus, None, limit_s, **({"user": "ann", "partition": "gpu"} | names))


def test_on_an_empty_cluster_a_job_starts_at_once(tmp_path, site):
    rows = [row("1", AT - 9000, AT - 9000, AT - 8000)]
    tables, _ = tables_of(tmp_path, site, rows, wish())
    waits = start_times(tables, 0, 20, 0)
    assert waits.tolist() == [0] * 20
    assert quantiles(waits, 0.1, 30) == [0, 0, 0]


def test_behind_jobs_that_always_run_to_their_limit_a_job_starts_when_they_end(tmp_path, site):
    # Both nodes are held by bob: n1 until AT + 1000, n2 until AT + 2000.
    begun = AT - 2600, AT - 1600
    rows = past_jobs(AT - 5 * DAY, days=2, user="bob") + [
        row(str(900 + i), begin - 100, begin, None, gpus=4, hosts=f"n{i + 1}", user="bob", now=AT)
        for i, begin in enumerate(begun)
    ]
    tables, instant = tables_of(tmp_path, site, rows, wish())
    assert instant.running["run_s"].to_list() == [2600, 1600]
    assert set(start_times(tables, 0, 20, 0).tolist()) == {1000}
    # Both nodes: the later end counts, and so do the requested limits.
    tables, _ = tables_of(tmp_path, site, rows, wish(8, qos="large"))
    assert set(start_times(tables, 0, 20, 0).tolist()) == {2000}
    assert tables.as_requested(0) == AT + 2000


def test_a_job_waits_for_its_users_limit(tmp_path, site):
    # ann holds 4 of her 6 GPUs until AT + 1000; the other node is free.
    rows = [
        *past_jobs(AT - 5 * DAY, days=2),
        row("900", AT - 2600, AT - 2600, None, gpus=4, hosts="n1", now=AT),
    ]
    tables, _ = tables_of(tmp_path, site, rows, wish())
    assert set(start_times(tables, 0, 10, 0).tolist()) == {1000}
    tables, _ = tables_of(tmp_path, site, rows, wish(user="bob", account="lab"))
    assert set(start_times(tables, 0, 10, 0).tolist()) == {0}


def test_nothing_that_happened_later_counts(tmp_path, site):
    def rows(later):
        known = [
            *past_jobs(AT - DAY, shares=(0.3, 0.8, 1.0)),
            row("900", AT - 9000, AT - 5000, AT + later, gpus=4, hosts="n1", limit=9 * 3600),
            row("901", AT - 8000, AT + later, AT + 2 * later, gpus=4, limit=7200, user="bob",
                hosts="n2", reason="Priority" if later > 500 else "Dependency"),
            row("902", AT - 7000, None if later > 500 else AT + 50, AT + later, gpus=2,
                limit=7200, state="CANCELLED" if later > 500 else "COMPLETED"),
            row("903", AT - 7000, AT + 9000, AT + 9500, eligible=AT + later, limit=7200),
        ]  # fmt: skip
        return known + [
            row(str(950 + i), AT + 60 * i + later, AT + 90 * i + later, AT + 7000 + later, gpus=4)
            for i in range(1, later // 100)
        ]

    answers = []
    for later in (300, 2500):
        tables, instant = tables_of(tmp_path, site, rows(later), wish(8, qos="large"))
        answers.append(start_times(tables, 0, 30, 0).tolist())
        assert instant.running["job_id"].to_list() == ["900"]
        assert instant.waiting["job_id"].to_list() == ["901", "902", "903"]
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 2  # something is drawn


def test_more_replays_keep_the_first_ones_and_a_seed_makes_others(tmp_path, site):
    rows = past_jobs(AT - DAY, shares=(0.3, 0.5, 0.7, 0.9))
    rows += [row(str(2000 + i), AT - 60, AT - 50, None, gpus=2, hosts=f"n{1 + i % 2}", now=AT)
             for i in range(3)]  # fmt: skip
    tables, _ = tables_of(tmp_path, site, rows, wish(8, qos="large"))
    few, many = start_times(tables, 0, 10, 3), start_times(tables, 0, 60, 3)
    assert many[:10].tolist() == few.tolist()
    assert many.tolist() == start_times(tables, 0, 60, 3).tolist()
    assert many.tolist() != start_times(tables, 0, 60, 4).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_run_times_are_those_of_a_plain_search_through_all_jobs(seed):
    rng = np.random.default_rng(seed)

    def jobs(count, **columns):
        texts = {
            "user": [None if u == "-" else u for u in rng.choice(["a", "b", "c", "-"], count)],
            "partition": rng.choice(["p", "q"], count).tolist(),
        }
        kinds = {"gpus": rng.choice([1, 8], count), "limit": rng.choice([600, 3600], count)}
        return pl.DataFrame({**texts, **kinds, **columns})

    finished = jobs(150, start=rng.integers(0, 9000, 150), run_s=rng.integers(1, 4000, 150)).filter(
        (pl.col("user") != "c") | pl.col("user").is_null()
    )
    unfinished = jobs(25, elapsed=rng.choice([0, 100, 700], 25))
    found = run_times(unfinished, finished, 10_000)
    sample = [
        row for row in finished.iter_rows(named=True) if row["start"] + row["limit"] <= 10_000
    ]
    for at, job in enumerate(unfinished.iter_rows(named=True)):
        least = job["elapsed"] / job["limit"]
        for names in CLASSES:
            alike = [row for row in sample if all(row[name] == job[name] for name in names)]
            shares = [min(row["run_s"] / row["limit"], 1) for row in alike]
            longer = [share for share in shares if share > least or not job["elapsed"]]
            if len(longer) >= LEAST_SAMPLE:
                runs = [max(round(share * job["limit"]), job["elapsed"] + 1) for share in longer]
                assert found.value[found.first[at] : found.first[at + 1]].tolist() == runs
                break
        else:
            assert found.first[at + 1] - found.first[at] == LEAST_SAMPLE


def test_run_times_are_those_of_the_closest_class_that_ran_as_long():
    finished = pl.DataFrame(
        {
            "user": ["ann"] * 20 + ["bob"] * 20, "partition": ["gpu"] * 40, "gpus": [1] * 40,
            "limit": [1000] * 40, "start": [0] * 40,
            "run_s": [100] * 10 + [900] * 10 + [500] * 20,
        }
    )  # fmt: skip
    unfinished = pl.DataFrame(
        {
            "user": ["ann", "ann", "bob", "eve"], "partition": ["gpu"] * 4, "gpus": [1] * 4,
            "limit": [1000, 1000, 4000, 1000], "elapsed": [0, 200, 0, 950],
        }
    )  # fmt: skip
    runs = run_times(unfinished, finished, 5000)
    drawn = np.array([runs.draw(np.random.default_rng(seed)) for seed in range(300)])
    assert set(drawn[:, 0]) == {100, 900}
    assert set(drawn[:, 1]) == {900}  # it ran for 200 s already
    assert set(drawn[:, 2]) == {2000}  # half its limit, as all of bob's
    assert drawn[:, 3].min() == 951 and drawn[:, 3].max() == 1000  # none ran as long


def test_a_job_without_a_limit_that_outlasted_all_runs_on_for_a_pareto_time():
    # After 1000 s it runs r seconds more with probability 1000 / (1000 + r).
    finished = pl.DataFrame(
        {"user": ["ann"] * 20, "partition": ["gpu"] * 20, "gpus": [1] * 20, "limit": [1000] * 20,
         "start": [0] * 20, "run_s": [100] * 20}
    )  # fmt: skip
    unfinished = finished[:2].select(
        "user", "partition", "gpus", "limit", elapsed=pl.Series([1000, 0])
    )
    runs = run_times(unfinished, finished, 5000, np.array([True, False]))
    rng = np.random.default_rng(0)
    drawn = np.array([runs.draw(rng) for _ in range(10_000)])
    assert set(drawn[:, 1]) == {100}  # one that waits runs as those of the past
    more = drawn[:, 0] - 1000
    assert more.min() >= 1
    for seconds, share in ((111, 0.9), (333, 0.75), (1000, 0.5), (3000, 0.25), (9000, 0.1)):
        assert (more > seconds).mean() == pytest.approx(share, abs=0.02)


def test_jobs_that_began_too_late_to_run_to_their_limit_do_not_count():
    # Of those that began at 4900 only the short ones have ended at 5000.
    finished = pl.DataFrame(
        {
            "user": ["ann"] * 40, "partition": ["gpu"] * 40, "gpus": [1] * 40,
            "limit": [1000] * 40, "start": [0] * 20 + [4900] * 20, "run_s": [800] * 20 + [50] * 20,
        }
    )  # fmt: skip
    unfinished = finished[:1].select("user", "partition", "gpus", "limit", elapsed=pl.lit(0))
    assert set(run_times(unfinished, finished, 5000).value.tolist()) == {800}


def test_arrivals_are_those_of_a_past_week_moved_by_whole_weeks():
    submit = np.sort(np.random.default_rng(0).integers(MONDAY, AT, 500))
    arrivals = Arrivals(submit, MONDAY, AT, 28)
    for seed in range(20):
        rows, shifts = arrivals.draw(np.random.default_rng(seed))
        assert (shifts % (7 * DAY) == 0).all()
        comes = submit[rows] + shifts
        assert (comes > AT).all() and (comes <= AT + 28 * DAY).all()
        assert (submit[rows] <= AT).all()
        assert len(set(shifts[(comes - AT) <= 7 * DAY].tolist())) == 1  # one week as a whole
        for day in range(28):  # no day is left out or comes twice
            of_day = (comes > AT + day * DAY) & (comes <= AT + (day + 1) * DAY)
            shift = set(shifts[of_day].tolist())
            begin = AT + day * DAY - shift.pop()
            assert not shift
            assert of_day.sum() == ((submit > begin) & (submit <= begin + DAY)).sum()
    few = Arrivals(submit, AT - 3600, AT, 28)
    assert few.draw(np.random.default_rng(0))[0].size == 0


def test_tasks_over_the_limit_of_their_array_start_when_others_end():
    # Two may run at once; one does until 150. Tasks of 100 s follow.
    ready, runtime = np.array([0, 90, 90, 90]), np.array([150, 100, 100, 100])
    chains = Chains(((np.array([0]), np.array([1, 2, 3]), 2),), np.array([0]), 100)
    chains.release(ready, runtime)
    assert ready.tolist() == [0, 90, 150, 200]


def test_a_held_job_is_let_go_after_a_hold_that_lasted_longer_than_this_one_did():
    holds = Holds(np.array([0, 1]), np.array([900, -(1 << 60)]), np.array([50, 150, 300]), 1000)
    seen = set()
    for seed in range(50):
        ready = np.zeros(2, np.int64)
        holds.release(ready, np.random.default_rng(seed))
        seen.add(int(ready[0]))
        assert ready[1] > 1 << 50  # its dependency can never be satisfied
    assert seen == {1050, 1200}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("12", ["12"]), ("12_3", ["12_3"]), ("12_[1-3]", ["12_1", "12_2", "12_3"]),
        ("12_[5,7-8%2]", ["12_5", "12_7", "12_8"]), ("12_[0-6:3%4]", ["12_0", "12_3", "12_6"]),
    ],
)  # fmt: skip
def test_packed_tasks_are_told_apart(text, ids):
    assert task_ids(text) == ids


def test_usage_is_that_of_a_replay_until_then(tmp_path, site):
    from gpuplan.planner.twin.workload import site_workload
    from gpuplan.simkit.twin.simulator import replay_site

    cluster, config = site
    config = replace(config, order="multifactor", w_fairshare=1000, half_life=5 * DAY)
    rows = [
        *past_jobs(AT, days=10, shares=(0.5,)),
        row("900", AT - DAY, AT - DAY, AT - DAY // 2, gpus=4, limit=DAY, user="bob", hosts="n2"),
    ]
    log = read_site_log(write_log(tmp_path / "log.txt", rows))
    jobs = site_workload(log, cluster, warmup_s=11 * DAY).jobs
    run = replay_site(cluster, jobs, config)
    instant = instant_of(log, int(run.end.max()))
    instant = replace(instant, first=int(jobs.submit.min()))
    ours = {a.user: a.usage for a in with_usage(cluster, instant, config).assocs if a.user}
    for user in ("ann", "bob"):
        assert ours[user] == pytest.approx(run.usage["lab", user], rel=0.01)


def test_the_queue_reads_the_same_from_squeue_as_text_as_json_and_from_sacct(tmp_path):
    jobs = [
        {"ident": "7", "user": "ann", "submit": AT - 900, "start": AT - 600, "limit": 7200,
         "nodes": 2, "gpus": 8, "hosts": "n[1-2]", "now": AT},
        {"ident": "8", "user": "bob", "submit": AT - 300, "start": None, "limit": 2 * DAY,
         "nodes": 1, "gpus": 2, "hosts": "", "now": AT},
    ]  # fmt: skip
    (tmp_path / "queue.txt").write_text(squeue_text(jobs))
    (tmp_path / "queue.json").write_text(squeue_json(jobs, AT))
    sacct = [row(end=None, reason="Priority", **job) for job in jobs]
    write_log(tmp_path / "sacct.txt", sacct)
    columns = ["job_id", "user", "account", "partition", "qos", "submit", "start", "run_s",
               "limit_s", "nodes", "gpus", "node_list"]  # fmt: skip
    states = []
    for name in ("queue.txt", "queue.json", "sacct.txt"):
        queue = read_queue(tmp_path / name)
        assert is_squeue(tmp_path / name) == (name != "sacct.txt")
        instant = instant_of(queue, None, queue)
        assert instant.at == AT
        states.append(
            [instant.running.select(columns).rows(), instant.waiting.select(columns).rows()]
        )
    assert states[0] == states[1] == states[2]
    assert len(states[0][0]) == len(states[0][1]) == 1


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 20, "1e300"])
def test_a_number_of_a_queue_beyond_64_bits_is_not_known(tmp_path, number):
    job = {"ident": "8", "user": "bob", "submit": AT - 300, "start": None, "limit": 7200,
           "nodes": 1, "gpus": 2, "hosts": "", "now": AT}  # fmt: skip
    written = squeue_json([job], AT)
    assert str(AT - 300) in written
    (tmp_path / "queue.json").write_text(written.replace(str(AT - 300), number))
    with pytest.raises((InputError, UsageError)):
        instant_of(read_queue(tmp_path / "queue.json"), None, None)


def test_a_queue_shows_what_a_log_of_yesterday_cannot(tmp_path, site):
    jobs = [
        {"ident": str(i), "user": "bob", "submit": AT - 900, "start": AT - 600, "limit": 3600,
         "nodes": 1, "gpus": 4, "hosts": f"n{i}", "now": AT}
        for i in (1, 2)
    ]  # fmt: skip
    (tmp_path / "queue.txt").write_text(squeue_text(jobs))
    queue = read_queue(tmp_path / "queue.txt")
    rows = past_jobs(AT - DAY, days=2, user="bob")
    tables, instant = tables_of(tmp_path, site, rows, wish(), at=None, queue=queue)
    assert instant.at == AT and instant.running.height == 2
    assert set(start_times(tables, 0, 10, 0).tolist()) == {3000}


def test_the_tail_is_the_largest_whose_intervals_hold_enough_starts():
    def forecast(share):
        return PastForecast(100.0, share, share, 100.0, None, 100.0)

    # 100 starts spread evenly over the replays: a tenth beyond either end holds 80 of them.
    even = [forecast(i / 100 + 0.005) for i in range(100)]
    assert tail_of(even) == pytest.approx(0.09)  # 80% of 100 more than it needs: 81
    assert sum(each.is_within(0.1) for each in even) == 80
    wide = [forecast(0.5)] * 10
    assert tail_of(wide) == 0.1
    assert tail_of([forecast(0.001)] * 10) == 0.0


def test_jobs_of_a_backtest_waited_and_had_started_and_are_of_every_size(tmp_path, site):
    rows = []
    for i in range(400):
        submit = MONDAY + i * 6000
        gpus = 1 if i % 10 else 4 if i % 20 else 8
        wait = 0 if i % 3 == 0 else 600
        rows.append(
            row(str(i + 1), submit, submit + wait, submit + wait + 1000, gpus=gpus,
                nodes=2 if gpus == 8 else 1, reason="Dependency" if i % 7 == 0 else "Priority")
        )  # fmt: skip
    instant = instant_of(read_site_log(write_log(tmp_path / "log.txt", rows)), None)
    chosen = scored_jobs(instant, *site, 30, 0)
    assert chosen.height == 30
    assert (chosen["start"] - chosen["submit"] == 600).all()
    assert (chosen["reason"] == "Priority").all()
    assert chosen["submit"].is_sorted()
    counts = dict(chosen["gpus"].value_counts().iter_rows())
    assert counts[1] < 25 and counts[4] > 3  # not as rare as in the log
    assert (chosen["submit"] < instant.at - 3 * DAY).all()


def test_what_could_start_sooner_asks_for_less_or_elsewhere(tmp_path, site):
    cluster, _ = site
    past = read_site_log(
        write_log(tmp_path / "log.txt", [*past_jobs(AT, days=2), row("999", AT - 900, AT - 900,
                                                                     AT - 800, qos="large")])
    ).jobs  # fmt: skip
    job, _ = new_job(JobWish(4, None, 8 * 3600, "ann", "lab", "gpu", "normal"), cluster, past)
    found = {other.change: other.job for other in alternatives(job, cluster, past)}
    assert list(found) == [
        "2 GPUs", "1 GPU", "limit of 4 h", "limit of 2 h",
        "partition short with a limit of 4 h", "QOS large",
    ]  # fmt: skip
    assert found["2 GPUs"].gpus == 2 and found["limit of 2 h"].limit_s == 7200
    short = found["partition short with a limit of 4 h"]
    assert (short.partition, short.limit_s) == ("short", 4 * 3600)


def test_what_a_user_does_not_say_is_as_in_the_log(tmp_path, site):
    cluster, _ = site
    past = read_site_log(
        write_log(tmp_path / "log.txt", [
            *past_jobs(AT, days=2),
            *(row(str(900 + i), AT - 900, AT - 800, AT - 700, user="bob", account="other",
                  partition="short", qos="large", gpus=2) for i in range(3)),
        ])
    ).jobs  # fmt: skip
    job, assumed = new_job(JobWish(2, None, 3600, "bob"), cluster, past)
    assert (job.account, job.partition, job.qos, job.nodes) == ("other", "short", "large", 1)
    assert len(assumed) == 2
    job, assumed = new_job(JobWish(8, None, 3600), cluster, past)
    assert (job.account, job.partition, job.nodes) == ("lab", "gpu", 2)
    assert any("--user" in text for text in assumed)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": "nobody"}, "--user nobody: no such user"),
        ({"account": "labb"}, "--account labb: no such account.*lab"),
        ({"partition": "gpus"}, "--partition gpus: no such partition.*gpu, short"),
        ({"qos": "fast"}, "--qos fast: no such QOS.*large, normal"),
        ({"gpus": 9}, "no partition can hold 9 GPUs.*gpu 8, short 4"),
        ({"gpus": 9, "partition": "gpu"}, "partition gpu has 8 GPUs"),
        ({"gpus": 5, "partition": "gpu"}, "5 on 2 nodes"),
        ({"gpus": 8, "nodes": 1, "partition": "gpu"}, "8 on 1 node: .*0 nodes of 8 GPUs"),
        ({"limit_s": 90 * 3600}, "no partition can hold 4 GPUs for 90 h"),
    ],
)  # fmt: skip
def test_a_job_that_the_site_does_not_know_is_refused_with_what_it_knows(
    tmp_path, site, fields, said
):
    past = read_site_log(write_log(tmp_path / "log.txt", past_jobs(AT, days=2))).jobs
    base = {"gpus": 4, "nodes": None, "limit_s": 3600}
    with pytest.raises(UsageError, match=said):
        new_job(JobWish(**(base | fields)), site[0], past)


def test_the_sitelab_queues_equal_what_the_log_tells_of_their_instants(shared):
    folder = shared / "data" / "sitelab"
    if not folder.is_dir():
        pytest.skip("no sitelab")
    log = read_site_log(folder / "dumps" / "sacct.txt.gz", "America/New_York")
    with (folder / "truth" / "eta.csv").open() as file:
        at = {row["instant"]: int(row["instant_epoch"]) for row in csv.DictReader(file)}
    for name, second in list(at.items())[::8]:
        path = folder / "dumps" / "queue_at" / f"{name.replace(':', '')}.txt.gz"
        assert gzip.open(path).readline().startswith(b"JobID")
        listed = instant_of(log, second, read_queue(path, "America/New_York"))
        told = instant_of(log, second)
        for kind in ("running", "waiting"):
            ids = [set(getattr(state, kind)["job_id"]) for state in (listed, told)]
            # An array's tasks that came to a start have numbers of their own in the log.
            assert len(ids[0] ^ ids[1]) <= 0.05 * len(ids[1]) + 1
        assert listed.at == told.at == second
