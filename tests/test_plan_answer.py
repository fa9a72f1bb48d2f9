"""What the answer of ``gpuplan plan`` says: which jobs its times are of, and how long it binds."""

import json
import tomllib

import pytest
from support_traces import write_trace

pytestmark = pytest.mark.kernels
HOUR, DAY = 3600.0, 86400.0
BOTH = ("--commit", "0.9", "--on-demand", "1.29")


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Each of 20 days 20 h on 2 GPUs, of one job, and 1 h on 1 GPU, of another."""
    return write_trace(
        tmp_path_factory.mktemp("days") / "t.parquet",
        [DAY * day + s for day in range(20) for s in (0, 0)],
        [20 * HOUR, HOUR] * 20,
        [2.0, 1.0] * 20,
        wait_s=[0.0] * 40,
    )


@pytest.fixture
def plan(gpuplan, days):
    """Return the text of an answer on one line, its results, and what is beside it."""

    def run(*words):
        code, text, err = gpuplan("plan", days, *words)
        assert code == 0, err
        code, out, _ = gpuplan("plan", days, *words, "--output-format", "json")
        return " ".join(text.split()), json.loads(out)["results"], err

    return run


def test_times_with_deferral_are_of_the_same_jobs_everywhere(plan):
    text, results, _ = plan(*BOTH, "--defer", "num_gpus<=1:2h")
    # the short jobs wait for 2 h, as the 2 committed GPUs are busy; the long ones are counted
    assert "per job of the 20 that are not deferred" in text
    assert "The 20 deferred wait" in text
    assert results["replay"]["deferred_wait_s"] == pytest.approx(2 * HOUR, abs=90)
    holdout = results["holdout"]
    lasting = 20 * HOUR
    times = [holdout[name]["mean_time_s"] for name in ("plan", "today", "one_lever")]
    assert times == pytest.approx([lasting] * 3, abs=90)
    assert results["today"]["mean_time_s"] == lasting
    assert "has not seen; times of jobs not deferred" in text
    assert "in which deferred jobs may stop and go on" in text


def test_without_deferral_no_jobs_are_told_apart(plan):
    text, results, _ = plan(*BOTH)
    assert "not deferred" not in text and results["replay"]["deferred_wait_s"] is None


def test_the_file_has_the_times_of_the_replay_beside_those_without_waits(gpuplan, days, tmp_path):
    path = tmp_path / "plan.toml"
    code, _, err = gpuplan("plan", days, "--on-demand", "1.29", "-o", path)
    assert code == 0, err
    totals = tomllib.loads(path.read_text())["results"]
    assert totals["mean_time_s"] == 10.5 * HOUR
    assert totals["replayed_mean_time_s"] == 10.5 * HOUR + 90
    assert totals["replayed_usd_per_month"] > totals["usd_per_month"]
