"""Errors stay readable whatever they quote, and tell the next step."""

from __future__ import annotations

import pickle
import re

import pytest
from support_prices import book

from gpuplan.analysis.base.errors import MOST_OF_A_LINE, InputError, UsageError, brief, shortened
from gpuplan.analysis.prices.view import market
from gpuplan.planner.money.listed_price import median_price
from gpuplan.planner.runs.settings import SettingError

LONG = "x" * 70_000
QUOTED_LONG = "... (70,000 characters) ..."


def test_a_long_value_loses_its_middle_and_tells_its_length():
    text = "a" * 100 + "b" * 100
    cut = f"{'a' * 30}... (200 characters) ...{'b' * 10}"
    assert shortened(text, 40) == shortened(cut, 40) == cut
    assert shortened("a" * 60, 40) == "a" * 60  # to tell the length would take as much


@pytest.mark.parametrize(
    "error",
    [
        UsageError(f"--gpu '{LONG}': no such GPU"),
        UsageError(f'--gpu "{LONG}": no such GPU'),
        UsageError(f"--gpu {LONG} is no GPU"),
        InputError("t.csv", f"found '{LONG}'", row=3, column="a", expected="a number"),
        InputError("t.csv", "found 'x'", column=LONG),
        SettingError(["gpu"], f"no such GPU '{LONG}'", "set another"),
    ],
)
def test_every_error_shortens_what_it_quotes(error):
    message = str(error)
    assert QUOTED_LONG in message and len(message) < 600
    assert str(pickle.loads(pickle.dumps(UsageError(message)))) == message


def test_a_long_list_is_cut_and_its_next_step_stays():
    error = InputError("t.csv", ", ".join(f"c{i}" for i in range(9_000)), hint="check it")
    line, hint = str(error).split("\n")
    assert len(line) < MOST_OF_A_LINE + 50 and hint == "  next: check it"


def test_what_is_short_stays_as_it_is():
    text = "Gavel's own " + "word " * 60 + "of the log's jobs\n  next: 'quoted' and \"quoted\""
    assert brief(text) == text


def test_many_open_quotes_take_no_time():
    assert len(brief("'a " * 30_000)) < MOST_OF_A_LINE + 50


def test_a_line_break_in_the_name_of_a_file_makes_no_line():
    assert str(InputError("a\r\n::error::b\u2028.csv", "no such file")).splitlines() == [
        "a??::error::b?.csv: no such file"
    ]


@pytest.mark.parametrize("text", [f"a,{LONG}\n1,2\n", f"{LONG}\n1\n", f"a,b\n1,{LONG}\n"])
@pytest.mark.parametrize("more", [(), ("--map", "submit_time=a", "--map", "num_gpus=c")])
def test_a_log_with_long_headers_and_cells_is_refused_in_few_words(gpuplan, tmp_path, text, more):
    log = tmp_path / "log.csv"
    log.write_text(text)
    for arguments in (
        ("ingest", log, "-o", tmp_path / "t.parquet", *more),
        ("prices", log, "-o", tmp_path / "p.parquet"),
        ("ingest", log, "-o", tmp_path / "t.parquet", "--map", f"submit_time={LONG}"),
        ("characterize", log, "--where", LONG),
        ("pareto", log, "--budget", LONG),
        ("simulate", log, "--policy", LONG),
        ("pareto", log, "--speedup", f"table:{log}"),
        (LONG,),
        ("diff", log, log, f"--{LONG}"),
        ("report", log, "-o", tmp_path / "r", "--set", LONG),
    ):
        code, _, err = gpuplan(*arguments)
        assert code in (2, 3), (arguments[0][:20], err[:300])
        assert len(err) < 3000, (arguments[0][:20], len(err))


def test_availability_without_prices_has_a_next_step():
    rows = [(h, "aws", "L4", "z", "spot", None, n) for h, n in enumerate((1, 0, 2))]
    offers = market(book(rows)).offers
    with pytest.raises(UsageError) as error:
        median_price(offers, "L4", table="p.parquet")
    message = str(error.value)
    assert message.startswith("--gpu L4: p.parquet has availability without prices\n")
    assert re.search(r"next: give a table with prices, --prices builtin, .*--price$", message)
