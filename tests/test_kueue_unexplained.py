"""A site of Kueue whose rules explain none of its waits: answers say that they cannot tell."""

import json

import pytest
from support_kueue import cluster_queue, local_queue, replayed_dump, teams, workload, write_list

from gpuplan.planner.quota_twin.calibrate import explains_nothing
from gpuplan.planner.quota_twin.forecast import with_at_once
from gpuplan.planner.site.backtest import PastForecast, StartBacktest

pytestmark = pytest.mark.compiled

WAIT = 1800


def held_elsewhere(path, waits=lambda i: WAIT):
    """Write a dump of workloads that wait while all quota is free; returns the path."""
    site = [cluster_queue("team-a-cq", 64, None), local_queue("team-a", "team-a-cq")]
    jobs = [
        workload(f"j{i}", "team-a", 4000 * i, 4000 * i + waits(i), 4000 * i + waits(i) + 600)
        for i in range(60)
    ]
    return write_list(path, [*site, *jobs])


@pytest.mark.parametrize(
    ("mae_s", "replayed_s", "recorded_s", "expected"),
    [(1800.0, 0.0, 1800.0, True), (1620.0, 600.0, 1800.0, True), (1600.0, 600.0, 1800.0, False),
     (1700.0, 3000.0, 1800.0, False), (0.0, 1800.0, 1800.0, False), (50.0, 0.0, 50.0, False)],
)  # fmt: skip
def test_rules_explain_nothing_where_no_wait_at_all_is_as_good(
    mae_s, replayed_s, recorded_s, expected
):
    assert explains_nothing(mae_s, replayed_s, recorded_s) is expected


@pytest.fixture(scope="module")
def unexplained(tmp_path_factory):
    """A dump, and where its settings go."""
    folder = tmp_path_factory.mktemp("unexplained")
    return held_elsewhere(folder / "k.json"), folder / "twin.toml"


def told(gpuplan, *words):
    code, out, err = gpuplan(*words)
    assert code == 0, err
    return " ".join(out.split())


@pytest.mark.usefixtures("few_forecasts")
def test_every_answer_says_so_first(gpuplan, unexplained):
    dump, twin = unexplained
    text = told(gpuplan, "calibrate", dump, "-o", twin)
    assert text.startswith("The rules explain none of the recorded waits. Something other")
    for change in (("--set", "clusterqueue.team-a-cq.nominalQuota=32"), ("--scale-load", "2")):
        words = ("whatif", dump, "--twin", twin, *change)
        text = told(gpuplan, *words)
        assert text.startswith("Cannot tell: the rules of today explain none")
        assert "too small to tell" in text and "no wait changes" not in text
        results = json.loads(told(gpuplan, *words, "--output-format", "json"))["results"]
        whole = results["changes"][0]
        assert whole["effect_s"] == 0 and whole["error_s"] >= WAIT
    text = told(gpuplan, "eta", dump, "--twin", twin, "--gpus", "8")
    assert "would start at once (80%: now to 30 min). The rules explain none" in text


def test_a_site_whose_rules_explain_its_waits_is_not_in_doubt(gpuplan, tmp_path):
    dump, twin = replayed_dump(tmp_path / "k.json", teams(), n=150), tmp_path / "twin.toml"
    assert "explain none" not in told(gpuplan, "calibrate", dump, "-o", twin)
    options = ("--set", "clusterqueue.team-a-cq.nominalQuota=8")
    assert "Cannot tell" not in told(gpuplan, "whatif", dump, "--twin", twin, *options)


def past(wait_s, at_once):
    return PastForecast(wait_s, 0.0, 1.0, 0.0, None, 0.0, at_once)


def test_forecasts_of_a_start_at_once_are_counted_by_hand():
    tested = StartBacktest(40, 40, 0, 0.1, 0.8, 0.8, 1.0, None, 1.0)
    # 1 - 0.1 of 39 steps is step 36 from 0: 37 replays at once put the end of the interval there
    forecasts = [past(0, 37)] * 15 + [past(300, 40)] * 3 + [past(301, 40)] * 6 + [past(9000, 36)]
    counted = with_at_once(tested, forecasts)
    assert (counted.at_once_jobs, counted.at_once_share) == (24, 0.75)
    assert with_at_once(tested, forecasts[:19]) is tested  # too few to tell


def test_a_start_at_once_comes_with_how_often_that_held(gpuplan, tmp_path):
    path = held_elsewhere(tmp_path / "k.json", lambda i: WAIT if i % 2 else 0)
    dump = write_list(path, [*json.loads(path.read_text())["items"], *more_jobs()])
    twin = tmp_path / "twin.toml"
    told(gpuplan, "calibrate", dump, "-o", twin)
    words = ("eta", dump, "--twin", twin, "--gpus", "1", "--backtest", "--replays", "10")
    text = told(gpuplan, *words, "-o", tmp_path / "eta.json")
    document = json.loads((tmp_path / "eta.json").read_text())
    tested = document["results"]["backtest"]
    assert tested["at_once_jobs"] >= 20 and 0.3 <= tested["at_once_share"] <= 0.7
    assert f"of {tested['at_once_jobs']} forecast to start at once, within 5 min" in text


def more_jobs():
    return [
        workload(f"m{i}", "team-a", at, at + (i % 2) * WAIT, at + 4000)
        for i, at in enumerate(range(241_000, 600_000, 4000))
    ]
