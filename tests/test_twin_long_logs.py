"""Long logs: the last weeks are replayed, replays say how far they are and can be interrupted."""

import json
import signal
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.planner.twin.infer import plateau
from gpuplan.planner.twin.workload import WEEK_S, recent
from gpuplan.simkit import watch
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteCluster,
    SiteJob,
    SiteNode,
    SitePartition,
)

pytestmark = pytest.mark.compiled
SITE = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
LOG, CONF = SITE / "sacct.txt", SITE / "slurm.conf"
ONE = SiteCluster((SiteNode("n", 8),), (SitePartition("p", ("n",)),))


def log_of(submit):
    return SiteLog(pl.DataFrame({"submit": submit}), Path("log"), "", "slurm")


def test_whole_weeks_are_kept_that_hold_few_enough_jobs():
    hourly = np.arange(0, 5 * WEEK_S, 3600)
    kept = recent(log_of(hourly), 400)  # 168 jobs a week
    assert kept.jobs.height == 336
    assert kept.jobs["submit"].to_list() == hourly[-336:].tolist()
    assert "last 14 days are replayed: 336 of 840" in kept.notes[0]
    assert recent(log_of(hourly), 840).jobs.height == 840


def test_less_than_a_week_is_kept_where_it_has_more_jobs():
    kept = recent(log_of(np.arange(0, 5 * WEEK_S, 3600)), 100)
    assert kept.jobs.height == 99
    assert recent(log_of(np.zeros(50, np.int64)), 20).jobs.height == 20


@pytest.fixture
def few(monkeypatch):
    """A bound of 300 jobs, which the sample exceeds."""
    for study in ("studies.calibrate", "site.pairs"):
        monkeypatch.setattr(f"gpuplan.planner.{study}.recent", partial(recent, most=300))


def test_calibrate_and_whatif_replay_the_last_weeks_and_say_so(gpuplan, few, tmp_path):
    twin = tmp_path / "twin.toml"
    code, out, err = gpuplan("calibrate", LOG, "--slurm-conf", CONF, "-o", twin)
    assert code == 0, err
    whole = read_site_log(LOG).jobs.height
    assert f"--all-jobs takes all {whole}" in " ".join(out.split())
    assert "days are replayed: 2" in err and "all_jobs" not in twin.read_text()
    ask = ("whatif", LOG, "--twin", twin, "--add-nodes=a100=1", "--output-format=json")
    assert "days are replayed: 2" in gpuplan(*ask)[2]
    code, out, err = gpuplan(
        "calibrate", LOG, "--slurm-conf", CONF, "--all-jobs", "--output-format=json", "-o", twin
    )
    assert code == 0 and "days are replayed" not in err
    found = json.loads(out)
    assert found["results"]["earlier_jobs"] == 0 and found["parameters"]["all_jobs"]
    assert "days are replayed" not in gpuplan(*ask)[2]


def test_the_counts_of_the_whole_log_stay(gpuplan, few):
    found = json.loads(gpuplan("calibrate", LOG, "--slurm-conf", CONF, "--output-format=json")[1])
    rows = found["inputs"][0]["rows"]
    assert rows == read_site_log(LOG).jobs.height
    assert 0 < found["results"]["replayed_jobs"] <= rows - found["results"]["earlier_jobs"] < 300


def test_a_level_says_how_far_it_is_and_how_long_the_rest_takes(monkeypatch, library_log):
    now = iter(range(0, 1000, 30))
    monkeypatch.setattr(watch.time, "monotonic", lambda: float(next(now)))
    line = watch.ReplayPace()
    for done in (10, 10, 40, 100):
        line.say(done, 100, "jobs replayed (level bf)")
    assert list(dict.fromkeys(library_log.messages)) == [
        "40 of 100 jobs replayed (level bf) after 60 s, about 120 s left",
        "100 of 100 jobs replayed (level bf) after 90 s, about 0 s left",
    ]


def many(count):
    rng = np.random.default_rng(0)
    run = rng.integers(100, 4000, count)
    return SiteJobs.of(
        SiteJob(i, 50 * i, 1, int(rng.integers(1, 9)), int(run[i]) + 100, int(run[i]))
        for i in range(count)
    )


def test_a_replay_shows_its_progress_in_slices():
    shares = []
    replay_site(ONE, many(2000), SchedulerConfig(backfill="easy"), shares.append)
    assert len(shares) > 5
    assert shares == sorted(shares) and shares[-1] == 1.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_a_signal_ends_a_replay_that_takes_long():
    jobs, config = many(40_000), SchedulerConfig(backfill="conservative")
    replay_site(ONE, many(10), config)  # compiled now

    def stop(number, frame):
        raise KeyboardInterrupt

    shares = []
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            replay_site(ONE, jobs, config, shares.append)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert shares[-1] < 1.0


def test_rows_that_cannot_be_read_are_named_once(gpuplan, tmp_path):
    log = tmp_path / "sacct.txt"
    log.write_text(LOG.read_text() + "a|b\nx|y|z\n")
    _, out, err = gpuplan("calibrate", log, "--slurm-conf", CONF, "--output-format=json")
    assert "2 rows that cannot be read left out" in err
    assert json.loads(out)["results"]["left_out"]["that cannot be read"] == 2


def test_the_help_shows_the_options_of_its_example(gpuplan):
    shown, _, example = gpuplan("calibrate", "--help")[1].partition("\nExample:")
    words = example.partition("\nAll ")[0].split()
    assert {"--slurm-conf", "-o"} <= set(words)
    assert all(word in shown for word in words if word.startswith("-"))


def test_a_cap_of_a_user_is_inferred_from_many_waiting_jobs_in_little_time():
    # One user runs 4 GPUs at a time although a fifth is free: met whenever a job waits.
    count = 3000
    rows = {"submit": [0] * count, "eligible": [None] * count, "user": ["u"] * count,
            "start": [i // 4 * 10 for i in range(count)], "gpus": [1] * count}  # fmt: skip
    rows["stop"] = [start + 10 for start in rows["start"]]
    other = {"submit": 0, "eligible": None, "user": "v", "start": 0, "gpus": 1, "stop": 5}
    table = pl.DataFrame({k: [*v, other[k]] for k, v in rows.items()},
                         schema_overrides={"eligible": pl.Int64})  # fmt: skip
    cap, hits = plateau(table)
    assert cap == 4 and hits >= 700
