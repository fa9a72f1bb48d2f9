"""Units at the command line: what is read, what is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_ends,
    show_number,
    show_price,
    show_share,
    show_usd,
    tick_usd,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("45m", 2700),
        ("45 min", 2700),
        (" 1.5H ", 5400),
        ("2d", 172800),
        (".5h", 1800),
        ("0", 0),
        ("3.", 3),
        ("1e3", 1000),
        ("2.5e-1h", 900),
    ],
)
def test_durations_are_read(text, seconds):
    assert parse_duration(text, "--horizon") == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1h30m", "1e3e", "soon", "1 000", "nan"])
def test_what_is_no_duration_is_refused_and_names_the_option(text):
    with pytest.raises(UsageError, match=r"^--horizon .*expected a duration such as 90s"):
        parse_duration(text, "--horizon")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (32, "32 s"),
        (119, "119 s"),
        (120, "2 min"),
        (740, "12.3 min"),
        (7200, "2 h"),
        (7560, "2.1 h"),
        (172799, "48 h"),
        (172800, "2 d"),
        (9175336, "106 d"),
        (-90, "-90 s"),
    ],
)
def test_durations_are_written_in_the_unit_a_person_would_choose(seconds, text):
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567.8, "1,234,568"), (100, "100"), (99.96, "100"), (3.14159, "3.14"),
     (12, "12"), (0.04567, "0.0457"), (-2.5, "-2.5")],
)  # fmt: skip
def test_numbers(value, text):
    assert show_number(value) == text


def test_counts_shares_and_money():
    assert show_count(55009) == "55,009"
    assert show_share(0.93267) == "93.3%"
    assert [show_usd(v) for v in (0, 3.456, 999.5, 1234.5, -5, -12345.6)] == [
        "$0.00", "$3.46", "$999.50", "$1,234", "-$5.00", "-$12,346",
    ]  # fmt: skip


def test_dollars_on_an_axis_have_no_powers_of_ten():
    assert [tick_usd(v) for v in (0, 0.5, 250, 1500, 999_999, 1e6, 2.5e6)] == [
        "$0", "$0.5", "$250", "$1,500", "$999,999", "$1M", "$2.5M",
    ]  # fmt: skip


def test_intervals_with_both_ends_with_one_and_with_none():
    assert show_ends(9540, 15120, show_duration) == "2.65 to 4.2 h"
    assert show_ends(0.2, 0.345, show_share) == "20.0 to 34.5%"
    assert show_ends(41, None, show_number) == "at least 41"
    assert show_ends(None, None, show_number) == ""


@given(st.floats(1e-3, 1e9))
def test_a_shown_duration_reads_back_within_its_three_digits(seconds):
    text = show_duration(seconds).replace(",", "")
    assert parse_duration(text, "x") == pytest.approx(seconds, rel=6e-3)


def test_prices_have_cents_and_large_amounts_a_unit():
    assert [show_price(usd) for usd in (2, 2.4, 1.29, 0.5, 0.00125)] == [
        "$2", "$2.40", "$1.29", "$0.50", "$0.00125"
    ]  # fmt: skip
    assert [show_about_usd(usd) for usd in (452_326, 999_600, 1_025_398, 3.53e9)] == [
        "$452,000", "$1M", "$1.03M", "$3.53B"
    ]  # fmt: skip
