"""Spot GPUs of a plan against a record of when they were there: by hand, and as options."""

import json

import pytest
from support_plan import DAY, HOUR, document_of, jobs_from, market, program_of, refusal_of
from support_prices import book, frame
from support_traces import ORIGIN, write_trace

from gpuplan.analysis.base.errors import InputError
from gpuplan.planner.plan.confirmation import prove, slower_classes
from gpuplan.planner.plan.decision import decide
from gpuplan.planner.plan.plan_file import read_plan
from gpuplan.planner.plan.program import PlanLimits
from gpuplan.planner.plan.replay import RentingTerms
from gpuplan.planner.plan.routes import RouteSettings
from gpuplan.planner.plan.spot_record import joined, losses_per_s, spot_record

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
BEGIN_US = round(ORIGIN.timestamp() * 1e6)
AT_ONCE = RentingTerms(provision_s=0.0, release_s=0.0, billing_s=1e-6)


def counts(*levels, begin=0, gpu="A100", region="z"):
    """Return hourly counts of spot GPUs without prices."""
    return [
        (begin + hour, "aws", gpu, region, "spot", None, level) for hour, level in enumerate(levels)
    ]


def test_a_record_of_the_dates_of_the_log_is_taken_as_it_is():
    table = book(counts(0, 1, 1, 0, 0, 2, 1, 0, begin=-2))
    record = spot_record(table, "A100", BEGIN_US, 4 * HOUR, 100 * HOUR)
    # The count at hour 1 is 0, as is that at 2; that at 5 is 0 and holds until 6.
    assert record.gone_s == ((1 * HOUR, 3 * HOUR), (5 * HOUR, 6 * HOUR))
    assert (record.losses, record.available_s, record.known_s) == (2, 4 * HOUR, 8 * HOUR)
    assert losses_per_s([record]) == 2 / (4 * HOUR)
    assert not record.repeats and "of the dates of the log" in record.text


def test_a_record_of_other_dates_repeats_from_the_first_submission():
    table = book(counts(1, 1, 0, begin=-100))
    record = spot_record(table, "", BEGIN_US, 4 * HOUR, 7 * HOUR)
    gone = [(2, 3), (5, 6), (8, 9)]
    assert record.gone_s == tuple((begin * HOUR, end * HOUR) for begin, end in gone)
    assert record.repeats and "repeated from the first submission" in record.text
    assert "aws A100 z" in record.text and "67% of the time, lost 1 time" in record.text


def test_a_record_far_too_short_for_the_log_is_refused():
    table = book(counts(1, 1, 0, begin=-100))
    with pytest.raises(InputError, match=r"availability of 3 h, .* repeat 1,000,000,000 times"):
        spot_record(table, "", BEGIN_US, 4 * HOUR, 3e9 * HOUR)


def test_stretches_that_touch_are_one():
    assert joined([(5, 6), (0, 2), (2, 3), (1, 2)]) == ((0.0, 3.0), (5.0, 6.0))


@pytest.mark.parametrize(
    ("rows", "gpu", "text"),
    [
        (counts(1, 0, gpu="T4"), "A100", "no availability of spot GPUs of type A100, but aws T4 z"),
        ([(0, "aws", "A100", "z", "spot", 1.0)], "A100", "but none of spot GPUs"),
        (counts(1) + counts(1, region="y"), "A100", "aws A100 y, aws A100 z"),
    ],
)
def test_a_record_of_no_place_or_several_is_refused(rows, gpu, text):
    with pytest.raises(InputError, match=text):
        spot_record(book(rows), gpu, BEGIN_US, HOUR, HOUR)


def test_jobs_wait_and_restart_as_the_record_has_it():
    """By hand: GPUs are there 2 of 3 h; 90 s are paid to restart."""
    jobs = jobs_from([0, 2.5 * HOUR, 8 * DAY], [HOUR, HOUR, 2 * HOUR], [1, 1, 1], spot="true")
    table = book(counts(1, 1, 0, begin=-100))
    record = spot_record(table, "", BEGIN_US, jobs.window_s, jobs.window_s + DAY)
    markets = market(None, 1.29, spot_usd=0.01, spot_record=record)
    settings = RouteSettings(hazard_per_s=1e-12)
    program = program_of(jobs, markets, settings=settings, limits=PlanLimits(slower=1.1))
    decision = decide(program, AT_ONCE)
    # The third job begins with a round of the record, and ends as the GPUs go.
    assert decision.run.wait_s.tolist() == [0, HOUR / 2, 0]
    assert decision.run.time_s == pytest.approx([HOUR, 1.5 * HOUR, 2 * HOUR])
    assert slower_classes(decision) == ("all, 1 GPU",)
    proof = prove(program, None, AT_ONCE, 0.0)
    assert [row.name for row in proof.spot_replays] == ["no spot GPUs for 6 h"]


def test_a_class_that_outages_push_over_its_bound_is_named():
    jobs = jobs_from([0], [5 * HOUR], [1], spot="true")
    record = spot_record(
        book(counts(1, 1, 0, 0, begin=-100)), "", BEGIN_US, jobs.window_s, jobs.window_s + DAY
    )
    markets = market(None, 1.29, spot_usd=0.01, spot_record=record)
    settings = RouteSettings(hazard_per_s=1 / (1000 * HOUR))
    decision = decide(
        program_of(jobs, markets, settings=settings, limits=PlanLimits(slower=1.1)), AT_ONCE
    )
    assert decision.run.wait_s.tolist() == [0] and decision.run.time_s[0] > 8 * HOUR
    assert slower_classes(decision) == ("all, 1 GPU",)


def test_the_option_says_how_often_they_are_lost_and_is_kept(gpuplan, tmp_path):
    submit = [DAY * day + s for day in range(20) for s in (0, 0, 3 * HOUR)]
    trace = write_trace(tmp_path / "t.parquet", submit, [4 * HOUR, HOUR, HOUR] * 20)
    table = tmp_path / "spot.parquet"
    frame(counts(*[1] * 46, 0, 0)).write_parquet(table)
    spot = ("--spot", "true", "--spot-price", "0.1", "--spot-availability", table)
    words = ("--on-demand", "1.29", *spot, "--output-format", "json")
    code, out, err = gpuplan("plan", trace, *words, "-o", tmp_path / "plan.toml")
    assert code == 0, err
    document = json.loads(out)
    assert document["parameters"]["spot_losses_per_s"] == pytest.approx(1 / (46 * HOUR))
    assert document["inputs"][1]["path"] == str(table)
    assert [row["name"] for row in document["results"]["spot_replays"]] == ["no spot GPUs for 6 h"]
    assert any("lost 1 time" in text for text in document["warnings"])
    assert read_plan(tmp_path / "plan.toml").options.spot_availability == str(table)
    kept = document_of(gpuplan, trace, "--keep", tmp_path / "plan.toml")
    assert kept["parameters"]["spot_availability"] == str(table)


def test_mistakes_of_the_option_are_refused(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0, 9 * DAY], [HOUR, HOUR])
    record = ("--spot-availability", tmp_path / "spot.parquet")
    assert f"{record[0]}: needs --spot CONDITION" in refusal_of(gpuplan, 2, trace, *record)
    spot = ("--spot", "true", "--spot-price", "0.1", "--on-demand", "1")
    assert "no.parquet" in refusal_of(
        gpuplan, 3, trace, *spot, "--spot-availability", tmp_path / "no.parquet"
    )
    (tmp_path / "spot.json").write_text("{}")
    assert "gpuplan prices" in refusal_of(
        gpuplan, 3, trace, *spot, "--spot-availability", tmp_path / "spot.json"
    )
