"""``gpuplan waste``: by hand, and against a site whose truth is known."""

import csv
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
import support_jobstats
from support_sitelab import DUMPS, SITELAB, calibrated
from support_traces import START, write_trace
from support_waste import answer, use

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.twin.workload import JITTER_S
from gpuplan.planner.waste.remedies import (
    ALL,
    END,
    LIMITS,
    SHRINK,
    JobWaste,
    site_change,
)
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.site import SiteJob

pytestmark = pytest.mark.compiled
HOUR = 3600.0


@pytest.fixture
def lab(tmp_path):
    """Ten hours: 40 GPU-hours idle, 20 of 40 partly, 10 low, 70 used; 10 failed, 30 more unseen."""
    return write_trace(
        tmp_path / "t.parquet", [0] * 6, [10 * HOUR] * 6, [4.0, 4.0, 1.0, 1.0, 3.0, 7.0],
        user=["ann", "bob", "ann", "bob", "cid", "cid"], group=["x", "x", "y", "y", "y", None],
        queue_s=[0.0] * 6, **use([0.0, 45.0, 5.0, 80.0, None, 90.0], [4.0, 2.0, 0, 0, None, 0]),
        state=pl.Series(["completed"] * 3 + ["failed", "failed", "completed"]),
        job_id=[f"j{i}" for i in range(6)],
    )  # fmt: skip


def test_every_gpu_hour_is_in_one_kind_and_unknown_is_not_idle(gpuplan, lab):
    results = answer(gpuplan, str(lab), "--price", "2", "--no-replay")
    hours = {kind["name"]: kind["gpu_h"] for kind in results["kinds"]}
    assert hours == pytest.approx({
        "idle": 40, "idle_ends": 0, "partly_idle": 20, "low_utilization": 10, "failed": 40,
        "unknown": 0,
    })  # fmt: skip
    assert results["idle_gpu_h"] == pytest.approx(60)
    assert results["gpu_h"] == pytest.approx(200)
    assert results["unknown_gpu_h"] == pytest.approx(30)
    assert results["share"] == results["idle_gpu_h_share"] == pytest.approx(60 / 170)
    assert results["known_share"] == pytest.approx(170 / 200)
    months = 10 / MONTH_H
    assert results["usd_per_month"] == pytest.approx(60 * 2 / months)
    assert results["idle_gpu_h_per_month"] == pytest.approx(60 / months)
    users = {row["name"]: row for row in results["users"]}
    assert [row["name"] for row in results["users"]] == ["ann", "bob", "cid"]
    assert (users["ann"]["idle_gpu_h"], users["bob"]["idle_gpu_h"]) == (40, 20)
    assert users["cid"]["share"] == 0
    assert (users["cid"]["failed_gpu_h"], users["cid"]["unknown_gpu_h"]) == (30, 0)
    groups = {row["name"]: row["idle_gpu_h"] for row in results["groups"]}
    assert groups == {"x": 60, "y": 0, "(none)": 0}
    assert results["partitions"] == []
    usd = sum(row["usd_per_month"] for row in results["users"])
    assert usd == pytest.approx(results["usd_per_month"])
    assert results["counterfactual"] is None


def test_dollars_follow_the_type_and_the_pools(gpuplan, tmp_path):
    """A100 are owned at 1 dollar up to 4 of them, and 3 dollars above: 2 dollars in the mean."""
    path = write_trace(
        tmp_path / "t.parquet", [0, 0, 0], [10 * HOUR] * 3, [4.0, 4.0, 2.0],
        gpu_type=["A100", "A100", "T4"], **use([0.0, 90.0, 0.0], [4.0, 0.0, 2.0]),
    )  # fmt: skip
    words = ["--owned", "A100=4@1", "--on-demand", "A100=3", "--price", "T4=0.5", "--no-replay"]
    results = answer(gpuplan, str(path), *words)
    assert results["usd_per_month"] == pytest.approx((40 * 2 + 20 * 0.5) / 10 * MONTH_H, rel=1e-6)
    assert results["users"] == []
    assert "no price" in answer(gpuplan, str(path), "--price", "A100=2", code=2)


def test_a_log_without_use_says_that_nothing_is_known(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 0], [HOUR, HOUR])
    code, out, err = gpuplan("waste", path)
    assert code == 0
    assert out.startswith("Nothing is known of what GPUs did")
    assert "--metrics FILE" in err
    results = answer(gpuplan, str(path))
    assert results["share"] is None
    assert results["idle_gpu_h"] == 0
    assert results["unknown_gpu_h"] == 2


@pytest.mark.parametrize(
    ("states", "jobs", "share"),
    [
        (["unknown"] * 3, 0, None),
        (["completed"] * 3, 0, 0.0),
        (["completed", "failed", "unknown"], 1, 0.25),
    ],
)
def test_failed_work_is_not_known_without_states(gpuplan, tmp_path, states, jobs, share):
    path = write_trace(
        tmp_path / "t.parquet", [0] * 3, [HOUR] * 3, [2.0, 1.0, 1.0],
        state=pl.Series(states), user=["ann"] * 3,
    )  # fmt: skip
    results = answer(gpuplan, str(path))
    (failed,) = (kind for kind in results["kinds"] if kind["name"] == "failed")
    assert (failed["jobs"], failed["share"]) == (jobs, share)
    assert [row["failed_gpu_h"] for row in results["users"]] == [None if share is None else jobs]
    code, out, err = gpuplan("waste", path)
    assert code == 0, err
    text = " ".join(out.split())
    assert ("not known (the log has no states)" in text) == (share is None)
    assert ("no state of 1 job (1 GPU-hours)" in err) == (share == 0.25)


def test_the_clock_tells_waste_that_others_wait_for_from_the_rest(gpuplan, tmp_path):
    """2 A100 idle for 10 h; a job waits for A100 from hour 4 to 7, others for T4 all along."""
    path = write_trace(
        tmp_path / "t.parquet", [0, 4 * HOUR, 5 * HOUR, 0], [10 * HOUR, HOUR, HOUR, HOUR],
        [2.0, 2.0, 1.0, 1.0], gpu_type=["A100", "A100", "A100", "T4"],
        queue_s=[0.0, 3 * HOUR, 1.5 * HOUR, 9 * HOUR],
        **use([0.0, 90.0, 90.0, 90.0], [2.0, 0.0, 0.0, 0.0]),
    )  # fmt: skip
    clock = answer(gpuplan, str(path), "--no-replay")["clock"]
    assert clock["waited_gpu_h"] == pytest.approx(6)
    assert clock["free_gpu_h"] == pytest.approx(14)
    assert clock["waited_share"] == pytest.approx(0.3)
    by_hour = [[row[f"{name}_gpu_h"] for row in clock["hours"]] for name in ("waited", "free")]
    assert by_hour[0] == pytest.approx([0] * 4 + [2] * 3 + [0] * 17)
    assert by_hour[1] == pytest.approx([2] * 4 + [0] * 3 + [2] * 3 + [0] * 14)
    sums = [sum(row[name] for row in clock["timeline"]) for name in ("waited_gpu_h", "free_gpu_h")]
    assert sums == pytest.approx([6, 14])
    no_waits = write_trace(tmp_path / "u.parquet", [0], [HOUR], **use([0.0], [1.0]))
    assert answer(gpuplan, str(no_waits), "--no-replay")["clock"] is None


def crowd(path, jobs=40, idle="all", **columns):
    """Every 10 h a job holds all 4 GPUs for 8 h in vain, and another waits for them for 7 h."""
    times = np.repeat(np.arange(jobs) * 10, 2) * HOUR + np.tile([0, HOUR], jobs)
    runs = [8 * HOUR, HOUR] * jobs
    cases = {"all": ([0.0, 90.0], [4.0, 0.0]), "half": ([40.0, 90.0], [2.0, 0.0])}
    cases["either"] = tuple(a + b for a, b in zip(*cases.values(), strict=True))
    util, unused = (shares * (2 * jobs // len(shares)) for shares in cases[idle])
    return write_trace(
        path, times, runs, [4.0, 2.0] * jobs, queue_s=[0.0, 7 * HOUR] * jobs,
        user=["idler", "worker"] * jobs, **use(util, unused), **columns,
    )  # fmt: skip


def test_waits_without_idle_jobs_by_hand(gpuplan, tmp_path):
    """Ended after 2 h, an idle job lets the next one start after 1 h instead of 7."""
    path = crowd(tmp_path / "t.parquet")
    found = answer(gpuplan, str(path), "--cluster", "4", "--price", "2")["counterfactual"]
    assert found["fidelity"]["verdict"] == "agrees"
    assert (found["rules"], found["jobs"], found["pairs"]) == ("first-fit", 80, 6)
    assert found["today_p95_wait_s"] == 7 * HOUR
    assert found["p95_wait_s"] == pytest.approx(HOUR, abs=2 * JITTER_S)
    assert found["p95_effect_s"] == pytest.approx(-6 * HOUR, abs=2 * JITTER_S)
    assert found["effect_s"] == pytest.approx(-3 * HOUR, abs=JITTER_S)
    assert found["verdict"] == found["mean_verdict"] == "shorter"
    assert 0 < found["error_s"] < 6 * HOUR
    months = 391 / MONTH_H
    assert found["wait_h_saved_per_month"] == pytest.approx(3 * 80 / months, rel=0.01)
    names = {row["name"]: row for row in found["remedies"]}
    assert list(names) == [END, ALL]
    assert names[END]["changed_jobs"] == 40
    # Two or three GPUs cannot hold the idle job of 4: none can go.
    assert [row["freed_gpus"] for row in found["freed"]] == [0]
    slower = answer(gpuplan, str(path), "--cluster", "4", "--end-idle-after", "4h")
    after = slower["counterfactual"]
    assert after["p95_wait_s"] == pytest.approx(3 * HOUR, abs=2 * JITTER_S)


def test_partly_idle_jobs_are_shrunk_and_their_gpus_can_go(gpuplan, tmp_path):
    """On the 2 GPUs that it uses, the first job leaves room for the second at once."""
    path = crowd(tmp_path / "t.parquet", idle="half")
    results = answer(gpuplan, str(path), "--cluster", "4", "--price", "2")
    found = results["counterfactual"]
    assert found["p95_wait_s"] == pytest.approx(0, abs=2 * JITTER_S)
    assert [row["name"] for row in found["remedies"]] == [SHRINK, ALL]
    (freed,) = found["freed"]
    assert (freed["gpus"], freed["enough_gpus"]) == (4, 4)
    assert freed["freed_gpus"] == 2  # on 2 GPUs the second job waits as it does today
    assert freed["usd_per_month"] == pytest.approx(2 * 2 * MONTH_H)
    # Of the two GPUs that can go, those owned would cost the same.
    typed = crowd(tmp_path / "typed.parquet", idle="half", gpu_type=["T4"] * 80)
    for owned, paid in ((3, 1), (4, 0), (2, 2)):
        words = ("--cluster", "4", "--price", "2", "--owned", f"T4={owned}@0.5")
        (freed,) = answer(gpuplan, str(typed), *words)["counterfactual"]["freed"]
        assert freed["freed_gpus"] == 2
        assert freed["usd_per_month"] == pytest.approx(paid * 2 * MONTH_H)
    text = " ".join(gpuplan("waste", path, "--cluster", "4", "--price", "2")[1].split())
    assert "Shrinking jobs to the GPUs they use cuts the P95 wait from 7 h to" in text
    assert "2 of 4 GPUs fewer" in text


def test_ending_idle_jobs_alone_is_told_beside_all_remedies(gpuplan, tmp_path):
    """Every other first job idles, the rest use half of their GPUs: ending is half of the effect.

    Of the waits of 7 h every other one becomes 1 h, so the mean falls from 3.5 h to 2 h.
    """
    path = crowd(tmp_path / "t.parquet", idle="either")
    found = answer(gpuplan, str(path), "--cluster", "4")["counterfactual"]
    assert [row["name"] for row in found["remedies"]] == [END, SHRINK, ALL]
    out = " ".join(gpuplan("waste", path, "--cluster", "4")[1].split())
    assert "Ending idle jobs after 2 h and shrinking jobs to the GPUs they use cut" in out
    assert (
        "Ending idle jobs after 2 h alone (20 jobs that never used a GPU) cuts the mean wait to 2 h"
        in out
    )


def test_who_has_most_of_it_is_named(gpuplan, tmp_path):
    """Five users with 5, 4, 3, 2 and 1 idle hours, and no user of one."""
    hours = [5.0, 4.0, 3.0, 2.0, 1.0, 1.0]
    path = write_trace(
        tmp_path / "t.parquet", [0] * 6, [each * HOUR for each in hours], [1.0] * 6,
        user=["eve", "dan", "cid", "bob", "ann", None], **use([0.0] * 6, [1.0] * 6),
    )  # fmt: skip
    out = " ".join(gpuplan("waste", path, "--no-replay")[1].split())
    assert "do nothing. eve, dan and cid account for 75%." in out


def test_a_replay_that_is_not_the_log_says_nothing_of_waits(gpuplan, tmp_path):
    path = crowd(tmp_path / "t.parquet")
    found = answer(gpuplan, str(path), "--cluster", "64")["counterfactual"]
    assert found["verdict"] == found["mean_verdict"] == "unknown"
    assert found["wait_h_saved_per_month"] is None
    assert found["freed"] == []
    _, out, err = gpuplan("waste", path, "--cluster", "64")
    first = " ".join(out.split("\n\n")[0].split())
    assert "P95 wait from" not in first
    assert "not known: a replay under first-fit is not what the log recorded" in first
    assert "gpuplan waste LOG --twin twin.toml" in " ".join(err.split())


def test_gates_read_the_share(gpuplan, lab):
    assert gpuplan("waste", lab, "--no-replay", "--fail-if", "idle_gpu_h_share > 40%")[0] == 0
    assert gpuplan("waste", lab, "--no-replay", "--fail-if", "idle_gpu_h_share > 30%")[0] != 0


def test_jobs_of_a_site_without_waste():
    """An idle job ends after 2 h, 3 nodes of 4 GPUs become 2, and limits stay."""
    jobs = SiteJobs.of([
        SiteJob(0, 0, 1, 4, 40_000, 36_000, partition="p"),
        SiteJob(1, 0, 3, 4, 40_000, 36_000, partition="p"),
        SiteJob(2, 0, 1, 8, 40_000, 1_000, partition="p"),
        SiteJob(3, 0, 1, 8, 40_000, 36_000, partition="p", pinned=0),
    ])  # fmt: skip
    waste = JobWaste(
        run_s=np.array([36_000.0, 36_000.0, 1_000.0, 36_000.0]),
        cut_s=np.array([28_800.0, 0, 0, 28_800.0]),
        idle_gpus=np.array([0, 5, 2, 2]),
        loose=np.array([False, False, True, False]),
    )
    rows = np.arange(4)
    changed = site_change(waste, rows, ALL).jobs(jobs)
    assert changed.runtime.tolist() == [7_200, 36_000, 1_000, 36_000]
    assert changed.nodes.tolist() == [1, 2, 1, 1]
    assert changed.gpus.tolist() == [4, 4, 6, 8]  # 7 of 12 GPUs are 2 nodes of 4
    assert changed.limit.tolist() == jobs.limit.tolist()
    limited = site_change(waste, rows, LIMITS).jobs(jobs)
    assert limited.limit.tolist() == [40_000, 40_000, 3_000, 40_000]
    ended = site_change(waste, rows, END).jobs(jobs)
    assert ended.total_gpus.tolist() == jobs.total_gpus.tolist()
    unknown = np.array([-1, 1, -1, -1])
    assert site_change(waste, unknown, ALL).jobs(jobs).runtime[0] == 36_000
    assert [waste.jobs_of(name) for name in (END, SHRINK, LIMITS, ALL)] == [2, 3, 1, 4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--end-idle-after", "10s"], "--end-idle-after 10 s: must be at least 60 s"),
        (["--policy", "allpass"], "it rents its GPUs"),
        (["--twin", "t.toml", "--policy", "easy"], "--policy: not with --twin"),
        (["--usd-per-kwh", "0.2"], "--usd-per-kwh: power is in series"),
        (["--gpu-memory", "A100"], "expected TYPE=GB"),
    ],
)
def test_options_that_do_not_fit(gpuplan, lab, words, told):
    assert told in answer(gpuplan, str(lab), *words, code=2)


def test_a_text_per_user_all_or_none(gpuplan, lab, tmp_path):
    folder = tmp_path / "mail"
    code, _, err = gpuplan("waste", lab, "--no-replay", "--price", "2", "--mail", folder)
    assert code == 0
    assert "wrote 2 texts" in err
    assert sorted(path.name for path in folder.iterdir()) == ["ann.txt", "bob.txt"]
    text = (folder / "ann.txt").read_text()
    assert text.startswith("Subject: Your GPU jobs: 40 GPU-hours did nothing")
    assert "Hello ann," in text
    assert "held 50 GPU-hours" in text
    assert "$80.00" in text
    assert "job j0: 4 GPUs, 40.0 of 40.0 GPU-hours; no GPU was ever used" in text
    assert "j2" not in text
    assert "as many GPUs as the program uses" in (folder / "bob.txt").read_text()
    before = sorted(tmp_path.iterdir())
    code, _, err = gpuplan("waste", lab, "--no-replay", "--mail", folder)
    assert code != 0
    assert "exists already" in err
    assert gpuplan("waste", lab, "--mail", tmp_path / "no" / "mail")[0] != 0
    assert sorted(tmp_path.iterdir()) == before


def test_hostile_names_become_files_in_the_folder(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [0, 0, 0], [10 * HOUR] * 3, user=["../a/b", "..", "x\ny"],
        **use([0.0] * 3, [1.0] * 3),
    )  # fmt: skip
    folder = tmp_path / "mail"
    assert gpuplan("waste", path, "--no-replay", "--mail", folder)[0] == 0
    assert len(list(folder.iterdir())) == 3
    assert not (tmp_path / "a").exists()
    assert all("\nHello " in each.read_text() for each in folder.iterdir())


def test_parquet_has_a_row_per_job(gpuplan, lab, tmp_path):
    out = tmp_path / "w.parquet"
    assert gpuplan("waste", lab, "--no-replay", "-o", out)[0] == 0
    rows = pl.read_parquet(out)
    assert rows["job_id"].to_list() == [f"j{i}" for i in range(6)]
    parts = [name for name in rows.columns if name.endswith("_gpu_h") and name not in (
        "held_gpu_h", "failed_unknown_gpu_h", "beyond_limit_gpu_h")]  # fmt: skip
    assert rows.select(pl.sum_horizontal(parts)).to_series().to_list() == pytest.approx(
        rows["held_gpu_h"].to_list()
    )


@pytest.fixture(scope="module")
def truth():
    if not SITELAB.is_dir():
        pytest.skip("the site with known truth is not there: ../shared/data/sitelab")
    with (SITELAB / "truth" / "waste.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


JOBSTATS = DUMPS / "sacct_jobstats.txt.gz"
ZONE = ("--time-zone", "America/New_York")


def test_gpus_never_used_agree_with_the_truth(gpuplan, truth, tmp_path):
    """Of the jobs of which anything is known: within 1%, and the worst users in their order."""
    out = tmp_path / "w.parquet"
    assert gpuplan("waste", JOBSTATS, *ZONE, "--no-replay", "-o", out)[0] == 0
    jobs = pl.read_parquet(out)
    results = answer(gpuplan, str(JOBSTATS), *ZONE, "--no-replay")
    known = set(jobs.filter(pl.col("unknown_gpu_h") < 0.01 * pl.col("held_gpu_h"))["job_id"])
    true: dict[str, float] = {}
    for row in truth:
        if row["job"] in known:
            hours = float(row["gpu_hours_on_unused_gpus"])
            true[row["user"]] = true.get(row["user"], 0.0) + hours
    kinds = {kind["name"]: kind["gpu_h"] for kind in results["kinds"]}
    assert kinds["idle"] + kinds["partly_idle"] == pytest.approx(sum(true.values()), rel=0.01)
    worst = sorted(true, key=lambda name: -true[name])[:10]
    assert [row["name"] for row in results["users"][:10]] == worst
    ids = {row["job"] for row in truth}
    idle = jobs.filter(pl.col("idle_gpu_h") + pl.col("partly_idle_gpu_h") > 1)
    assert set(idle["job_id"]) <= ids


@pytest.mark.slow
def test_waits_of_a_site_without_its_waste(gpuplan, tmp_path, truth):
    _, twin = calibrated(tmp_path)
    words = [str(JOBSTATS), *ZONE, "--twin", str(twin), "--price", "1.29"]
    found = answer(gpuplan, *words)["counterfactual"]
    assert found["fidelity"]["verdict"] == "agrees"
    assert found["verdict"] == "shorter"
    parts = {row["name"]: row for row in found["remedies"]}
    assert parts[ALL]["p95_effect_s"] < parts[SHRINK]["p95_effect_s"] < 0
    assert 0 < sum(row["freed_gpus"] for row in found["freed"])
    assert all(row["freed_gpus"] < row["gpus"] / 4 for row in found["freed"])


def test_a_running_job_counts_to_the_end_of_the_log(gpuplan, tmp_path):
    ended = (START + timedelta(hours=8)).isoformat()
    path = write_trace(
        tmp_path / "t.parquet", [0], [8 * HOUR], [2.0], state=["running"], **use([0.0], [2.0])
    )
    results = answer(gpuplan, str(path), "--no-replay", "--as-of", ended[:19])
    assert results["idle_gpu_h"] == pytest.approx(16)


def test_summaries_that_cannot_be_read_are_counted(gpuplan, tmp_path):
    half = support_jobstats.summary([0.0])
    rows = [
        f"{job}|ann|COMPLETED|2026-03-02T10:00:00|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|"
        f"gres/gpu=1|{half[: len(half) // 2]}"
        for job in (1, 2)
    ]
    log = tmp_path / "sacct.txt"
    columns = "JobID|User|State|Submit|Start|End|ElapsedRaw|AllocTRES|AdminComment"
    log.write_text("\n".join([columns, *rows]) + "\n")
    code, out, err = gpuplan("waste", str(log), "--no-replay")
    assert code == 0 and out.startswith("Nothing is known of what GPUs did")
    assert "summaries of jobstats that cannot be read (utilization unknown): 2" in err


def test_what_is_not_known_is_neither_ended_nor_shrunk(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [0, HOUR] * 12, [8 * HOUR, HOUR] * 12, [4.0, 2.0] * 12,
        queue_s=[0.0] * 24, **use([None] * 24, [None] * 24),
    )  # fmt: skip
    results = answer(gpuplan, str(path))
    assert results["idle_gpu_h"] == 0
    assert results["counterfactual"] is None
    assert all(row["idle_jobs"] == 0 for row in results["users"])
