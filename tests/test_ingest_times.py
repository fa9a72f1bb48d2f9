"""Times as logs write them, into UTC."""

from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.reading import times
from gpuplan.analysis.reading.times import are_skipped, check_zone, read_moments, seconds


def read(*cells, zone=None):
    return read_moments(pl.Series(cells, dtype=pl.String), zone).to_list()


def test_offsets_and_layouts_may_mix_in_a_column():
    found = read(
        "2023-04-02 10:00:00+08:00",
        None,
        "2023-04-02 10:00:00-0330",
        "2023-04-02T10:00:00.125Z",
        "2023/04/02 10:00:00 UTC",
        "soon",
        "2023-13-02 10:00:00+08:00",
        "2023-04-02 10:00:01+08:00",
    )
    assert found == [
        datetime(2023, 4, 2, 2, tzinfo=UTC),
        None,
        datetime(2023, 4, 2, 13, 30, tzinfo=UTC),
        datetime(2023, 4, 2, 10, 0, 0, 125_000, tzinfo=UTC),
        datetime(2023, 4, 2, 10, tzinfo=UTC),
        None,
        None,
        datetime(2023, 4, 2, 2, 0, 1, tzinfo=UTC),
    ]


def test_offsets_of_each_cell_are_read_in_one_pass(monkeypatch):
    hours = [hour for hour in range(-11, 13) for _ in range(9)]
    cells = [f"2023-04-02T10:00:00.{i}{hour:+03}:30" for i, hour in enumerate(hours)]
    passes = []
    naive = times._naive
    monkeypatch.setattr(times, "_naive", lambda *given: passes.append(given[1]) or naive(*given))
    assert read(*cells) == [datetime.fromisoformat(cell) for cell in cells]
    assert passes == ["%Y-%m-%dT%H:%M:%S%.f"]


def test_an_offset_that_changes_once_in_a_long_column():
    cells = ["2023-04-02 10:00:00+02:00"] * 999 + ["2023-10-30 10:00:00+01:00"]
    assert read(*cells)[-2:] == [
        datetime(2023, 4, 2, 8, tzinfo=UTC),
        datetime(2023, 10, 30, 9, tzinfo=UTC),
    ]


def test_a_time_without_an_offset_needs_a_zone():
    assert read("2023-04-02 10:00:00") == [None]
    assert read("2023-04-02", "2023-07-02 10:00", zone="Europe/Berlin") == [
        datetime(2023, 4, 1, 22, tzinfo=UTC),
        datetime(2023, 7, 2, 8, tzinfo=UTC),
    ]


@pytest.mark.parametrize("cells", [[], [None], ["x", None], [""]])
def test_columns_without_a_time(cells):
    assert read(*cells, zone="UTC") == [None] * len(cells)


def test_clock_changes():
    zone = "Europe/Berlin"
    assert read("2026-10-25 02:30:00", zone=zone) == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]
    assert read("2026-03-29 02:30:00", zone=zone) == [None]
    cells = pl.Series(["2026-03-29 02:30:00", "2026-03-29 03:30:00", "soon"])
    assert are_skipped(cells, zone).to_list() == [True, False, False]


OFFSETS = st.integers(-14 * 4, 14 * 4).map(lambda quarters: timedelta(minutes=15 * quarters))
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(MOMENTS, OFFSETS, st.sampled_from("T ")), min_size=1, max_size=20))
def test_what_python_writes_is_read_back(drawn):
    cells = [
        moment.astimezone(timezone(offset)).isoformat(sep=separator)
        for moment, offset, separator in drawn
    ]
    assert read(*cells) == [moment for moment, _, _ in drawn]


def test_seconds():
    cells = pl.DataFrame({"t": ["1.5", "-5", "1767225600", "nan", "inf", "1e300", "x", None]})
    assert cells.select(seconds("t"))["t"].to_list() == [
        datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        *[None] * 5,
    ]
    millis = pl.DataFrame({"t": ["1767225600000"]}).select(seconds("t", "ms"))
    assert millis["t"].to_list() == [datetime(2026, 1, 1, tzinfo=UTC)]


def test_zones():
    assert check_zone("Asia/Shanghai") == "Asia/Shanghai"
    with pytest.raises(UsageError, match="--time-zone Nowhere"):
        check_zone("Nowhere")
