"""What the answer of ``gpuplan plan`` says: which jobs its times are of, and how long it binds."""

import tomllib

import pytest
from support_plan import BOTH, DAY, HOUR, results_of, texts_of
from support_traces import write_trace

pytestmark = pytest.mark.kernels


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
        text, err = texts_of(gpuplan, days, *words)
        return text, results_of(gpuplan, days, *words), err

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


def test_the_term_of_a_commitment_is_said_with_what_the_other_one_costs(plan):
    terms = ("--commit", "0.9:1y,0.75:3y", "--on-demand", "1.29")
    text, results, err = plan(*terms)
    assert text.startswith("Commit to 2 GPUs for 3 years at $0.75 and rent")
    # two GPUs are always committed to: at 15 cents more an hour each for the 1 year
    assert "for 3 years at $0.75; for 1 year at $0.90 2 GPUs, $219.15 a month more" in text
    (part,) = [each for each in results["decisions"] if each["name"] == "committed"]
    assert part["term"] == "3y" and part["usd_per_gpu_h"] == 0.75
    (other,) = part["other_terms"]
    assert other["name"] == "1y"
    assert other["more_usd_per_month"] == pytest.approx(2 * 0.15 * 730.5)
    assert "a commitment of 3y is 55.2 times as long as the log (19.8 days)" in err


def test_a_price_without_a_term_has_none_in_the_answer(plan):
    text, results, err = plan(*BOTH)
    assert "Commit to 2 GPUs and rent" in text and "times as long as the log" not in err
    (part,) = [each for each in results["decisions"] if each["name"] == "committed"]
    assert part["other_terms"] == []
