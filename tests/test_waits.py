"""Why jobs wait: logs worked out by hand, laws, and agreement with a site whose truth is known."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.history.reasons import group_of, limit_name, reason_groups
from gpuplan.analysis.history.steps import StepFunction, time_without_room
from gpuplan.analysis.waits.pools import StatedCluster, pools_of
from gpuplan.analysis.waits.spells import NO_ROOM, ROOM, decomposed_spells, first_waits
from gpuplan.analysis.waits.summary import WaitAnalysis
from gpuplan.cli.formats.waits_text import waits_text

SITELAB = Path(__file__).resolve().parents[2] / "shared" / "data" / "sitelab"
BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
HOUR = 3600


def log(*rows, **columns):
    """Return a log of (submitted, wait, run, GPUs) in hours, and more columns."""
    submit, wait, run, gpus = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "job_id": [str(number) for number in range(len(rows))],
            "user": "ann",
            "group": "vision",
            "submit_time": [BEGIN + timedelta(hours=hours) for hours in submit],
            "queue_s": [None if hours is None else hours * HOUR for hours in wait],
            "duration_s": [None if hours is None else hours * HOUR for hours in run],
            "num_gpus": [float(count) for count in gpus],
            "gpu_type": "A100",
            "state": ["not_started" if hours is None else "completed" for hours in wait],
            **columns,
        },
        schema_overrides={"queue_s": pl.Float64, "duration_s": pl.Float64},
        strict=False,
    )


def summary(jobs, cluster=None, **settings):
    return WaitAnalysis.of(first_waits(jobs), pools_of(jobs, cluster), **settings).summary()


def hours(rows):
    return {row.name: pytest.approx(row.wait_h) for row in rows}


# 8 GPUs at the peak: the first job has all of them from 0 to 10. The second (4 GPUs, at 1) starts
# at 10. The third (4 GPUs, at 2) could start at 10 too, and starts at 15: 8 h without room, 5 with.
THREE = ((0, 0, 10, 8), (1, 9, 5, 4), (2, 13, 1, 4))


def test_without_reasons_a_wait_is_split_by_the_free_gpus():
    found = summary(log(*THREE))
    assert found.basis == "free GPUs"
    assert hours(found.reasons) == {NO_ROOM: 17, ROOM: 5}
    assert [row.jobs for row in found.reasons] == [2, 1]
    assert found.full_cluster_share == pytest.approx(17 / 22)
    assert (found.jobs, found.waited_jobs, found.wait_h) == (3, 2, pytest.approx(22))
    (use,) = found.gpu_types
    assert (use.gpus, use.source, use.peak_gpus) == (8, "peak held", 8)


def test_the_hours_of_a_full_cluster_and_its_queue_count_while_jobs_arrive():
    # Over 95% of 8 GPUs are held from 0 to 10; jobs arrive from 0 to 2, so 2 hours count. In them
    # the second job waits 1 h for 4 GPUs, and the third not yet.
    (use,) = summary(log(*THREE)).gpu_types
    assert (use.full_h, use.full_share) == (pytest.approx(2), pytest.approx(1))
    assert use.queue_gpu_h == pytest.approx(4)


def test_a_stated_cluster_changes_what_is_free():
    # With 12 GPUs both jobs have room from the start.
    found = summary(log(*THREE), StatedCluster("--cluster", {"A100": 12}))
    assert found.full_cluster_share == 0
    assert hours(found.reasons) == {ROOM: 22}


def test_gpus_of_another_type_are_not_free():
    # 8 free V100 do not help the second job.
    other = [*THREE, (0, 0, 1, 8)]
    jobs = log(*other, gpu_type=["A100", "A100", "A100", "V100"])
    assert summary(jobs).full_cluster_share == pytest.approx(17 / 22)
    assert summary(log(*other)).full_cluster_share == pytest.approx((0 + 0) / 22)


def test_a_partition_with_some_of_the_nodes_has_only_their_gpus():
    # n1 and n2 have 4 GPUs each. Partition small has n1 alone, which is held to 10: its job waits
    # for free GPUs to 10, though n2 is free from 5 on.
    jobs = log(
        (0, 0, 10, 4), (0, 0, 5, 4), (0, 0, 0.5, 4), (1, 9, 1, 4),
        partition=["all", "all", "small", "small"], node_list=["n1", "n2", "n1", "n1"],
    )  # fmt: skip
    jobs = jobs.with_columns(
        submit_time=pl.Series(
            [BEGIN, BEGIN, BEGIN - timedelta(hours=1), BEGIN + timedelta(hours=1)]
        )
    ).sort("submit_time")
    pools = pools_of(jobs)
    assert pools.types["A100"].size == 8_000_000
    assert pools.of_partition["A100", "small"].size == 4_000_000
    assert summary(jobs).full_cluster_share == pytest.approx(1)
    assert summary(jobs.drop("node_list")).full_cluster_share == pytest.approx(4 / 9)


def test_host_lists_are_expanded_and_node_sizes_add_up():
    jobs = log((0, 0, 10, 16), (0, 0, 10, 4), node_list=["g[01-02]", "g03"])
    pool = pools_of(jobs).types["A100"]
    assert (pool.size, pool.source) == (20_000_000, "nodes in the log")


def test_an_hour_that_comes_twice_makes_no_node_larger():
    # Each job has the whole node for a day. The clocks go back after 50 days: in local times the
    # 51st starts an hour before the 50th ends.
    rows = [(24 * day - (day >= 50), 0, 24, 4) for day in range(100)]
    jobs = log(*rows, node_list=["n1"] * 100)
    pool = pools_of(jobs).types["A100"]
    assert (pool.size, pool.held.peak) == (4_000_000, 8_000_000)


@pytest.mark.parametrize("most", [1_000_000, 50, 1])
def test_fewer_instants_of_jobs_on_many_nodes_count_the_same_gpus(monkeypatch, most):
    # Two jobs share 20 nodes all the time, 2 GPUs of each: 2 x 20 nodes at 256 instants.
    monkeypatch.setattr("gpuplan.analysis.waits.pools.MOST_HELD", most)
    jobs = log((0, 0, 10, 40), (0, 0, 10, 40), node_list=["g[01-20]", "g[01-20]"])
    pool = pools_of(jobs).types["A100"]
    assert (pool.size, pool.source) == (80_000_000, "nodes in the log")


def test_runs_of_a_requeued_job_hold_gpus_only_while_they_run():
    run = {"gpus": 8.0, "node_list": None}
    at = lambda hours: BEGIN + timedelta(hours=hours)  # noqa: E731
    runs = [{"start": at(0), "end": at(2), **run}, {"start": at(8), "end": at(10), **run}]
    jobs = log((0, 0, 4, 8), (1, 9, 1, 8)).with_columns(runs=pl.Series([runs, None]))
    # 8 GPUs are held from 0 to 2 and from 8 to 10: 1 + 2 of the 9 h that the second job waits.
    assert summary(jobs).full_cluster_share == pytest.approx(3 / 9)


def test_recorded_reasons_are_grouped_and_kept():
    reasons = [None, "QOSMaxGRESPerUser", "AssocGrpGRES", "Dependency", "JobArrayTaskLimit"]
    jobs = log(
        (0, 1, 1, 1), (0, 4, 1, 1), (0, 2, 1, 1), (0, 8, 1, 1), (0, 16, 1, 1),
        reason=reasons, qos=["a", "a", "a", "b", "b"], account=["x", "x", "y", "y", "y"],
    )  # fmt: skip
    limits = {("QOSMaxGRESPerUser", "a"): 32, ("AssocGrpGRES", "y"): 64}
    found = summary(jobs, limit_of=lambda reason, of: limits.get((reason, of)))
    assert found.basis == "recorded reasons"
    assert hours(found.reasons) == {
        "array limit": 16, "dependency": 8, "own limits": 6, "priority or resources": 1,
    }  # fmt: skip
    own = next(row for row in found.reasons if row.name == "own limits")
    assert hours(own.slurm_reasons) == {"QOSMaxGRESPerUser": 4, "AssocGrpGRES": 2}
    assert [(part.limits[0].of, part.limits[0].gpus) for part in own.slurm_reasons] == [
        ("a", 32), ("y", 64),
    ]  # fmt: skip
    assert sum(row.share for row in found.reasons) == pytest.approx(1)


def test_a_sum_over_accounts_is_not_put_on_the_largest():
    jobs = log(
        (0, 1, 1, 1), (0, 3, 1, 1), (0, 4, 1, 1),
        reason=["AssocGrpGRES", "AssocGrpGRES", "Priority"], account=["x", "y", "y"],
    )  # fmt: skip
    found = summary(jobs, limit_of=lambda _, of: {"x": 8, "y": 40}[of])
    assert (
        "your account GPU limit (AssocGrpGRES, sum of 2 limits; the largest, 40 GPUs in y: 38%)"
    ) in waits_text(found)
    assert "(AssocGrpGRES, 8 GPUs)" in waits_text(summary(jobs.head(1), limit_of=lambda *_: 8))


def test_groups_tell_who_waits():
    jobs = log(
        (0, 1, 1, 1), (0, 3, 1, 1), (1, 4, 1, 20),
        account=["x", "x", "y"], reason=["None", "Dependency", "Dependency"],
    )  # fmt: skip
    analysis = WaitAnalysis.of(first_waits(jobs), pools_of(jobs))
    of_account = {row.name: row for row in analysis.groups() if row.by == "account"}
    assert of_account["x"].mean_wait_s == 2 * HOUR
    assert of_account["x"].share == pytest.approx(0.5)
    assert of_account["x"].reasons == {"dependency": 3, "priority or resources": 1}
    assert [row.name for row in analysis.groups() if row.by == "size"] == ["1 GPU", "over 16 GPUs"]


def test_time_before_a_job_is_eligible_is_not_for_free_gpus():
    # The third job may start from 6 on: 4 h without room, 5 with, 4 h not eligible.
    eligible = [BEGIN + timedelta(hours=hours) for hours in (0, 1, 6)]
    found = summary(log(*THREE, eligible_time=eligible))
    assert hours(found.reasons) == {NO_ROOM: 13, ROOM: 5, "not eligible yet": 4}
    assert found.mean_eligible_wait_s == pytest.approx((9 + 9) / 3 * HOUR)


def test_jobs_that_never_started_are_counted_apart():
    found = summary(log((0, 1, 1, 1), (0, None, None, 1), (0, 5, 1, 0)))
    assert (found.jobs, found.never_started, found.wait_h) == (1, 1, pytest.approx(1))


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("QOSMaxJobsPerUserLimit", "limits"), ("AssocMaxJobsLimit", "limits"),
        ("PartitionTimeLimit", "partition"), ("None", "queue"), ("Priority", "queue"),
        ("Resources", "queue"), ("DependencyNeverSatisfied", "dependency"),
        ("JobArrayTaskLimit", "array"), ("JobHeldUser", "held"), ("BeginTime", "begin"),
        ("Reservation", "reservation"), ("ReqNodeNotAvail, Reserved now", "reservation"),
        ("ReqNodeNotAvail", "queue"), ("SomethingNew", "unknown"),
    ],
)  # fmt: skip
def test_reasons_have_a_group(reason, group):
    assert group_of(reason).key == group


def test_every_named_limit_is_a_limit():
    assert limit_name("QOSMaxGRESPerUser") == "per-user GPU limit"
    assert limit_name("QOSOfNoName") is None
    assert len({group.title for group in reason_groups().values()}) == len(reason_groups())


jobs_of_logs = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(0, 20), st.integers(1, 8)),
    min_size=1,
    max_size=12,
)


@given(jobs_of_logs, st.integers(1, 20))
def test_time_without_room_is_that_of_a_clock(rows, size):
    submit, wait, run, gpus = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    start = submit + wait
    held = StepFunction.of(start, start + run, gpus)
    found = time_without_room(held, size, gpus, submit, start)
    for job in range(submit.size):
        need = min(gpus[job], size)
        blocked = sum(
            size - gpus[(start <= now) & (now < start + run)].sum() < need
            for now in range(submit[job], start[job])
        )
        assert found[job] == blocked


@given(jobs_of_logs, st.lists(st.integers(0, 60), max_size=6), st.booleans())
def test_the_parts_of_a_wait_add_up_to_it(rows, cuts, has_reasons):
    jobs = log(*sorted(rows))
    if has_reasons:
        reasons = ["None", "QOSGrpGRES", "Dependency"]
        jobs = jobs.with_columns(reason=pl.Series([reasons[i % 3] for i in range(len(rows))]))
    waits = first_waits(jobs)
    pools = pools_of(jobs)
    edges = np.unique(np.array(cuts, np.int64)) * HOUR * 1_000_000 + int(BEGIN.timestamp() * 1e6)
    spells = decomposed_spells(waits, pools, edges)
    total = np.bincount(spells.job, spells.lasting, waits.wait.size)
    assert total.tolist() == waits.wait.tolist()
    analysis = WaitAnalysis.of(waits, pools)
    found = analysis.summary()
    assert sum(row.wait_h for row in found.reasons) == pytest.approx(found.wait_h)
    assert found.full_cluster_wait_h + found.free_wait_h == pytest.approx(found.wait_h)
    assert sum(row.wait_h for row in found.while_free) == pytest.approx(found.free_wait_h, abs=1e-6)
    over_time = sum(sum(row.wait_h.values()) for row in analysis.timeline())
    assert over_time == pytest.approx(found.wait_h, abs=1e-6)
    for by in ("account", "size"):
        of_groups = [row.wait_h for row in analysis.groups() if row.by == by]
        assert sum(of_groups) == pytest.approx(found.wait_h)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "log.parquet"
    reasons = ["None", "QOSMaxGRESPerUser", "None"]
    log(*THREE, reason=reasons, qos=["normal"] * 3).write_parquet(path)
    return path


def test_the_command_says_why_first(gpuplan, trace):
    code, out, _ = gpuplan("waits", str(trace))
    assert code == 0
    said = " ".join(out.split())
    assert said.startswith("A job waits 7.33 h on average from submission to start")
    why = "By the last reason that Slurm kept of each job, 59% of the wait is the queue (priority"
    assert why in said
    assert "41% your per-user GPU limit (QOSMaxGRESPerUser)" in said
    assert "too small? In part: 36% of the wait had too few free GPUs and no other hold" in said
    assert "limits, arrays or dependencies held 41%; 23% had enough GPUs free" in said
    assert "assumed to be the 8 GPUs held at the peak" in said


def test_the_type_that_most_of_the_wait_is_for_is_named_not_the_fullest():
    # 4 H100 are held nearly all the time and nobody waits for them; four jobs wait for 2 A100.
    waiting = [(hour, 6, 1, 2) for hour in (1, 2, 3, 4)]
    jobs = log((0, 0, 40, 4), (0, 0, 7, 2), *waiting, (39, 0, 1, 1),
               gpu_type=["H100", "A100", *["A100"] * 4, "A100"])  # fmt: skip
    found = summary(jobs)
    assert {use.gpu_type: use.wait_h for use in found.gpu_types} == {"H100": 0, "A100": 24}
    full = {use.gpu_type: use.full_share for use in found.gpu_types}
    assert full["H100"] > full["A100"] > 0.01
    text = waits_text(found)
    assert "100% of the wait is for the" in text and "A100, which were over 95% held" in text
    assert "H100" not in text


def test_peaks_of_types_are_not_called_one_peak():
    # 4 H100 are held from 0 to 5, 4 A100 from 10 to 15: never 8 at once.
    jobs = log((0, 0, 5, 4), (1, 5, 1, 4), (10, 0, 5, 4), (11, 5, 1, 4),
               gpu_type=["H100", "H100", "A100", "A100"])  # fmt: skip
    text = waits_text(summary(jobs))
    assert "8 together; they were not all held at the same time" in text
    assert "GPUs held at the peak" not in text


def test_times_are_local_where_the_zone_is_known(gpuplan, tmp_path):
    lines = ["JobID|User|State|Submit|Eligible|Start|End|ElapsedRaw|ReqTRES|AllocTRES|Partition"]
    lines += [
        f"{i}|ann|COMPLETED|2026-01-05T{i:02}:00:00|2026-01-05T{i:02}:00:00|2026-01-05T{i + 3:02}"
        f":00:00|2026-01-05T{i + 4:02}:00:00|3600|gres/gpu=1|gres/gpu=1|gpu"
        for i in range(1, 9)
    ]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(lines) + "\n")
    zone = ("--time-zone", "America/New_York")
    code, out, err = gpuplan("waits", path, *zone, "--full")
    assert code == 0, err
    assert "from (America/New_York)" in out and "2026-01-05T01:00:00" in out
    _, out, _ = gpuplan("characterize", path, *zone)
    assert "2026-01-05 01:00 to 2026-01-05 08:00 America/New_York" in out
    assert json.loads(gpuplan("waits", path, *zone, "--output-format", "json")[1])["results"][
        "timeline"
    ][0]["start"].startswith("2026-01-05T06:00")  # JSON keeps UTC


def test_one_note_says_what_is_counted(gpuplan, tmp_path):
    path = tmp_path / "t.parquet"
    log((0, 0, 10, 8), (1, 9, 5, 4), (2, None, None, 4)).write_parquet(path)
    _, _, err = gpuplan("waits", str(path))
    said = " ".join(err.split())
    assert "to the first start, of the 2 jobs with GPUs that started; 1 never did" in said
    assert said.count("never") == 1


def test_characterize_begins_with_the_waits(gpuplan, trace):
    waits = json.loads(gpuplan("waits", str(trace), "--output-format", "json")[1])["results"]
    code, out, _ = gpuplan("characterize", str(trace), "--output-format", "json")
    assert code == 0
    shown = json.loads(out)["results"]["waits"]
    assert shown == {key: value for key, value in waits.items() if key in shown}
    text = gpuplan("characterize", str(trace))[1]
    assert text.startswith("A job waits 7.33 h on average")
    waits, _, today = " ".join(text.split()).partition(" Today: ")
    assert today and "too small? In part: 36% of the wait" in waits
    assert "limits, arrays or dependencies held" not in waits  # that is for gpuplan waits


def test_selected_jobs_wait_for_the_gpus_that_all_jobs_hold(gpuplan, trace):
    out = gpuplan("waits", str(trace), "--where", "num_gpus = 4", "--output-format", "json")[1]
    found = json.loads(out)["results"]
    assert found["full_cluster_share"] == pytest.approx(17 / 22)
    assert found["gpu_types"][0]["gpus"] == 8


def test_more_gpus_held_than_there_are_is_said(gpuplan, trace):
    _, _, err = gpuplan("waits", str(trace), "--cluster", "A100=4")
    assert "jobs held up to 8 A100 GPUs at once, more than the 4 of --cluster" in err


def test_short_waits_are_no_problem_to_explain(gpuplan, tmp_path):
    path = tmp_path / "short.parquet"
    log((0, 0, 1, 1), (1, 0.01, 1, 1)).write_parquet(path)
    assert gpuplan("waits", str(path))[1].startswith("Jobs hardly wait: 18 s on average")


def test_what_cannot_be_told_is_said(gpuplan, tmp_path, trace):
    path = tmp_path / "none.parquet"
    log((0, None, None, 1), (0, 5, 1, 0)).write_parquet(path)
    code, _, err = gpuplan("waits", str(path))
    assert code == 3 and "records no wait of a job with GPUs" in err
    code, _, err = gpuplan("waits", str(trace), "--real")
    assert code == 2 and "needs --twin" in err


@pytest.mark.skipif(not SITELAB.is_dir(), reason="needs ../shared/data/sitelab")
def test_logged_reasons_of_the_known_site_are_the_true_ones(gpuplan):
    dump = SITELAB / "dumps" / "sacct.txt.gz"
    code, out, err = gpuplan("waits", str(dump), "--output-format", "json")
    assert code == 0, err
    truth = true_shares("wait_h_logged")
    assert_close(json.loads(out)["results"], truth, 0.01)


def true_shares(column):
    table = pl.read_csv(SITELAB / "truth" / "wait_reasons.csv").filter(pl.col("by") == "all")
    total = table[column].sum()
    return {
        reason: value / total
        for reason, value in table.select("reason", column).iter_rows()
        if value
    }


def assert_close(results, truth, tolerance):
    shares = {
        part["name"]: part["share"] for row in results["reasons"] for part in row["slurm_reasons"]
    }
    for reason, share in truth.items():
        assert shares[reason] == pytest.approx(share, abs=tolerance), reason


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not SITELAB.is_dir(), reason="needs ../shared/data/sitelab")
def test_the_rules_that_held_on_the_known_site_are_the_true_ones(gpuplan, tmp_path):
    dumps, twin, zone = SITELAB / "dumps", tmp_path / "twin.toml", "America/New_York"
    files = [word for name in ("qos", "assoc", "events")
             for word in ("--sacctmgr", str(dumps / f"{name}.txt"))]  # fmt: skip
    code, _, err = gpuplan(
        "calibrate", str(dumps / "sacct.txt.gz"), "--slurm-conf", str(dumps / "slurm.conf"), *files,
        "--sshare", str(dumps / "sshare.txt"), "--time-zone", zone, "-o", str(twin),
    )  # fmt: skip
    assert code == 0, err
    code, out, err = gpuplan(
        "waits", str(dumps / "sacct.txt.gz"), "--time-zone", zone, "--twin", str(twin), "--real",
        "--output-format", "json",
    )  # fmt: skip
    assert code == 0, err
    assert_close(json.loads(out)["results"], true_shares("wait_h_real"), 0.02)


def test_jobs_that_never_started_are_part_of_a_short_answer(gpuplan, tmp_path):
    def shown(never):
        rows = [f"{i},{i * 10},{i * 10 + 2},{i * 10 + 5},1" for i in range(90)]
        rows += [f"n{i},{i},,,1" for i in range(never)]
        log = tmp_path / f"{never}.csv"
        log.write_text("\n".join(["job_id,submit,start,end,gpus", *rows]) + "\n")
        pairs = ("job_id=job_id", "submit_time=submit", "start_time=start", "end_time=end",
                 "num_gpus=gpus")  # fmt: skip
        words = [word for pair in pairs for word in ("--map", pair)]
        code, out, _ = gpuplan("waits", log, *words)
        assert code == 0
        return " ".join(out.split())

    text = shown(10)
    assert text.startswith("Jobs that started hardly waited: 2 s on average")
    assert "10 more jobs never started: 10% of all." in text
    assert shown(0).startswith("Jobs hardly wait: 2 s on average")
