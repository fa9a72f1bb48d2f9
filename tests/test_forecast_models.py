"""Hourly demand and its models, worked by hand; what they say of series with a known law."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import EPOCH
from gpuplan.analysis.forecast.demand import (
    DemandSeries,
    demand_of_jobs,
    is_series,
    read_series,
)
from gpuplan.analysis.forecast.forecast import forecast, pinball, score
from gpuplan.analysis.forecast.models import MODELS, Forecasts, Split, forecasts_of, targets
from gpuplan.analysis.user_tables.holidays import read_holidays

HOUR = 3600 * 10**6


def test_the_demand_of_an_hour_is_its_peak():
    # Group a: 2 GPUs from 0:30 to 1:30, 1 GPU from 1:00 to 2:00, 4 GPUs from 2:00 to 2:00:01.
    submit = np.array([HOUR // 2, HOUR, HOUR, 2 * HOUR])
    duration = np.array([HOUR, HOUR, 3 * HOUR, 10**6])
    names = pl.Series(["a", "a", None, "a"])
    found = demand_of_jobs(
        submit, duration, np.array([2.0, 1.0, 0.5, 4.0]), names,
        has_calendar=False, until_hour=4, most=9,
    )  # fmt: skip
    assert found.names == ("a", "(none)")
    assert found.gpus.tolist() == [[2, 3, 4, 0], [0, 0.5, 0.5, 0.5]]
    one = demand_of_jobs(
        submit, duration, np.array([2.0, 1.0, 0.5, 4.0]), names,
        has_calendar=False, until_hour=4, most=1,
    )  # fmt: skip
    assert one.names == ("(others)",)
    assert one.gpus.tolist() == [[2, 3.5, 4.5, 0.5]]


def test_what_ends_at_the_hour_is_no_demand_of_the_next():
    found = demand_of_jobs(
        np.array([0, HOUR]), np.array([HOUR, HOUR]), np.array([3.0, 1.0]), pl.Series(["a", "a"]),
        has_calendar=False, until_hour=3, most=9,
    )  # fmt: skip
    assert found.gpus.tolist() == [[3, 1, 0]]


def demand_of(values, first=0):
    values = np.atleast_2d(np.asarray(values, float))
    return DemandSeries(tuple("abcdef"[: len(values)]), values, first, False)


def test_simple_models_say_what_they_are():
    series = np.arange(400.0)[None]
    split = Split.of(400, 3)
    assert (split.train, split.valid) == (240, 320)
    last, day, week, peak = (
        forecasts_of(name, series, 0, split).mean[:, 0, 0]
        for name in ("last-value", "seasonal-24h", "seasonal-168h", "last-week-peak")
    )
    assert last.tolist() == [239, 239, 239]
    assert day.tolist() == [216, 217, 218]
    assert week.tolist() == [72, 73, 74]
    assert peak.tolist() == [239, 239, 239]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_sees_nothing_of_the_hours_it_forecasts(name):
    rng = np.random.default_rng(0)
    series = rng.uniform(0, 50, (2, 500))
    changed = series.copy()
    changed[:, 450:] += 100
    split = Split.of(500, 4)
    one, other = (forecasts_of(name, each, 0, split) for each in (series, changed))
    known = range(split.valid, 451)  # the last of these is issued at 450, from hours before
    for before, after in zip(one.at(known), other.at(known), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-9)


def test_targets_are_the_hours_from_the_issue_on():
    series = np.arange(10.0)[None]
    assert targets(series, range(4, 6), 3)[:, 0].tolist() == [[4, 5], [5, 6], [6, 7]]


def test_pinball_worked_by_hand():
    assert pinball(np.array([10.0, -10.0]), 0.9) == pytest.approx((9 + 1) / 2)


def test_scores_worked_by_hand():
    # The last value misses a ramp of 2 by 2 and 4 at the two steps.
    found = forecast(demand_of(2 * np.arange(100.0)), 2, "last-value")
    own = found.scores[0][0]
    assert own.name == "last-value"
    assert own.mae == pytest.approx(3) and own.mse == pytest.approx(10)
    assert own.rmse == pytest.approx(10**0.5)
    assert own.coverage_90 == 1  # the residuals are the same in validation
    assert found.bounds[1, :, 0].tolist() == pytest.approx([200, 202])


def test_the_last_value_is_chosen_where_nothing_beats_it():
    rng = np.random.default_rng(3)
    walk = np.abs(200 + rng.normal(0, 1, 24 * 40).cumsum())
    spikes = 20.0 * (np.arange(24 * 40) % 24 == 5) + rng.uniform(0, 1, 24 * 40)
    found = forecast(demand_of([walk, spikes]), 4)
    mae = [{one.name: one.validation_mae for one in own} for own in found.scores]
    for own, chosen in zip(mae, found.chosen, strict=True):
        assert chosen == min(own, key=own.get)
    assert found.chosen[1] != "last-value"


def test_bounds_cover_what_they_promise():
    rng = np.random.default_rng(1)
    at = np.arange(24 * 7 * 12)
    day = 60 + 25 * np.sin(2 * np.pi * at / 24)
    found = forecast(demand_of([day + rng.normal(0, 4, at.size) for _ in range(3)]), 4)
    for own in found.scores:
        score = {one.name: one for one in own}["orglinear"]
        assert 0.85 < score.coverage_90 < 0.95 < score.coverage_95 + 0.04
        assert score.mae < {one.name: one for one in own}["seasonal-24h"].mae


def test_the_bound_of_a_pool_adds_errors_in_squares():
    found = forecast(demand_of(np.random.default_rng(2).uniform(5, 9, (2, 200))), 2, "last-value")
    mean, p90 = found.mean[0], found.bounds[1, 0]
    expected = mean.sum() + np.hypot(*(p90 - mean))
    assert found.pool_bound(0.9, 1, [0, 1]) == pytest.approx(expected)
    assert found.pool_bound(0.9, 2, [0, 1]) >= found.pool_bound(0.9, 1, [0, 1])
    assert found.pool_bound(0.9, 1, [0]) == pytest.approx(p90[0])


def test_a_table_of_demand_is_read(tmp_path):
    path = tmp_path / "demand.csv"
    path.write_text(
        "time,a,b\n2026-01-05T00:00,1,-3e-12\n2026-01-05T00:30,4,2\n2026-01-05T01:00,0,1\n"
    )
    assert is_series(path)
    found = read_series(path)
    assert found.has_calendar and found.hour_of_week == 0  # a Monday
    assert found.names == ("a", "b") and found.gpus.tolist() == [[4, 0], [2, 1]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hour,a\n0,1\n2,1\n", "demand.csv:3: column 'hour': found '2' after '0'"),
        ("hour,a\n0,1\n1,\n", "demand.csv:3: column 'a': an empty cell"),
        ("hour,a\n0,1\n1,nan\n", "demand.csv:3: column 'a': found 'nan'"),
        ("hour,a\n0,-1\n", "demand.csv:2: column 'a': found '-1'"),
        ("hour,a\nx,1\n", "demand.csv:2: column 'hour': found 'x'"),
        (
            "time,by,a\n2026-01-02,x,1\n2026-01-01,y,2\n",
            "demand.csv:2: column 'by': found 'x'; exp",
        ),
        ("hour,a\n", "0 rows"),
    ],
)
def test_a_bad_cell_of_a_table_is_named(tmp_path, text, told):
    path = tmp_path / "demand.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_series(path)
    assert told in str(error.value)


def test_a_job_log_that_begins_with_a_time_is_no_table_of_demand(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 06:13:03,9,1,9,a\n")
    assert not is_series(path)


def test_holidays_help_where_demand_falls_on_them():
    rng = np.random.default_rng(8)
    epoch_day, at = 20_454, np.arange(24 * 45)  # from 2026-01-01
    free_days = [2, 6, 11, 13, 18, 22, 28, 33, 36, 41, 43]
    holidays = [EPOCH.date() + timedelta(epoch_day + day) for day in free_days]
    free = np.isin(at // 24, free_days)
    series = (np.where(free, 25.0, 80.0) + rng.normal(0, 1, at.size))[None]
    demand = DemandSeries(("a",), series, 24 * epoch_day, True)
    split = Split.of(at.size, 4)
    mask = demand.holiday_hours(holidays, 4)
    assert mask[: at.size].tolist() == free.tolist() and mask.size == at.size + 4
    errors = []
    for is_holiday in (None, mask):
        found = forecasts_of("orglinear", series, 0, split, is_holiday=is_holiday)
        mean, _ = found.at(split.test)
        errors.append(np.abs(targets(series, split.test, 4) - mean).mean())
    assert errors[1] < 0.8 * errors[0], errors
    with pytest.raises(ValueError, match="need hours with dates"):
        forecast(DemandSeries(("a",), series, 0, False), 4, holidays=holidays)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("date,name\n2026-12-25,Christmas\n# a note\n\n2026-01-01,New Year\n", 2),
        ("2026-12-25\n2026-12-25\n", 1),
        ("2026-12-25\nsoon\n", "holidays.csv:2: found 'soon'; expected a date such as 2026"),
        ("2026-02-30\n", "found '2026-02-30'"),
        ("date\n", "has no dates"),
    ],
)
def test_a_file_of_holidays_is_read(tmp_path, text, dates):
    path = tmp_path / "holidays.csv"
    path.write_text(text)
    if isinstance(dates, int):
        assert len(read_holidays(str(path))) == dates
        return
    with pytest.raises(InputError) as error:
        read_holidays(str(path))
    assert dates in str(error.value)


def test_a_demand_at_its_bound_is_covered_however_sums_are_rounded():
    demand = np.full((1, 10), 0.3)
    bounds = np.full((3, 1, 1, 10), np.nextafter(0.3, 0))
    bounds[2] -= 1e-3  # of 95%: below demand, not by rounding
    forecasts = Forecasts("last-value", 0, np.full((1, 1, 10), 0.3), bounds)
    (scored,) = score(forecasts, demand, range(0, 5), range(5, 10))
    assert (scored.coverage_90, scored.coverage_95) == (1.0, 0.0)
