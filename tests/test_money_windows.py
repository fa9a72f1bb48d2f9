"""Dollars of months that a log has a part of, of pools that end, and of prices of another time."""

from datetime import UTC, datetime

import polars as pl
import pytest
from support_answers import document
from support_traces import write_trace

from gpuplan.analysis.price_formats.schema import PRICE

HOUR = 3600.0
DAY = 24 * HOUR
OWNED = ("--owned", "A100=8@0.5", "--on-demand", "A100=2")
TERMS = """
[[commitment]]
gpu_type = "A100"
gpus = 4
usd_per_gpu_h = 1.00
until = 2024-03-11

[[owned]]
gpu_type = "A100"
gpus = 2
usd_per_gpu_h = 0.50

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 3.00
"""


@pytest.fixture
def said(gpuplan):
    def run(*words):
        code, out, err = gpuplan(*words)
        assert code == 0, err
        return " ".join(out.split()), " ".join(err.split())

    return run


def log(path, *rows):
    """Write a log of (group, first day from 1 March 2024, last day, GPUs) on A100s."""
    group, begin, end, gpus = zip(*rows, strict=True)
    return write_trace(
        path,
        [day * DAY for day in begin],
        [(last - first) * DAY for first, last in zip(begin, end, strict=True)],
        list(map(float, gpus)),
        group=list(group),
        gpu_type=["A100"] * len(rows),
    )


def test_idle_gpus_of_a_log_of_two_hours_are_no_more_than_are_owned(gpuplan, said, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [10 * HOUR], [2 * HOUR], [6.0], group=["g"], gpu_type=["A100"]
    )
    results = document(gpuplan, "bill", path, *OWNED)["results"]
    used, idle = results["groups"]
    # 6 of 8 GPUs are in use while the log lasts; they are paid for all day: 192 h, 12 used.
    assert (used["mean_gpus"], idle["mean_gpus"], results["mean_cluster_gpus"]) == (6, 2, 8)
    assert results["idle_share"] == results["idle_usd_share"] == 0.25
    assert (idle["gpu_h"], results["usd"], results["idle_usd"]) == (180, 96, 90)
    text, _ = said("bill", path, *OWNED)
    assert "25.0% of it is idle ($730): the 8 GPUs are idle 25.0% of their hours" in text
    assert "of the log in March 2024 it is $96.00, $90.00 of it idle" in text


def test_a_month_that_the_log_has_a_part_of_is_said(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 36, 2))  # to 6 April
    price = ("--price", "1")
    text, _ = said("bill", path, *price, "--months", "2024-04")
    assert "In April 2024 (5 of 30 days): $240" in text
    text, _ = said("bill", path, *price, "--months", "2024-03")
    assert "In March 2024: $1,488" in text
    text, _ = said("bill", path, *price, "--months", "2024-03,2024-04")
    assert "2024-04 (5 of 30 days) cost $240.00, $1,248.00 less than 2024-03 (-83.9%)" in text
    assert "days billed -$1,248.00" in text and "days in the month" not in text


def test_pools_that_end_count_while_they_last(said, tmp_path):
    path, book = log(tmp_path / "t.parquet", ("a", 0, 20, 1)), tmp_path / "book.toml"
    book.write_text(TERMS)
    text, _ = said("bill", path, "--contracts", book, "--by", "group")
    # 2 owned for 20 days and 4 committed for 10: 4 GPUs in the mean, 1 in use.
    assert "for 4 GPUs owned or committed on average (2 at the end)" in text
    assert "these GPUs are idle 75.0% of their hours" in text
    text, _ = said("bill", path, "--contracts", book, "--from", "2024-03-02", "--to", "2024-03-04")
    assert "for 6 GPUs." in text and "the 6 GPUs are idle 83.3% of their hours" in text


def test_a_bill_by_two_columns_shows_both(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4), ("b", 0, 5, 2))
    text, _ = said("bill", path, "--price", "1", "--by", "group,type", "--months", "2024-03")
    assert "Bill by group and type in March 2024" in text
    assert "a A100 $960.00 80.0% 960 b A100 $240.00 20.0% 240 total - $1,200.00" in text


def test_a_part_of_the_jobs_is_no_whole_bill(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4), ("b", 0, 10, 4))
    part = ("--where", "\"group\" = 'a'")
    _, err = said("bill", path, *OWNED, *part)
    assert "no other job uses them here: the part of these jobs in the bill of all is their" in err
    shared = "are taken to have all A100 owned or committed to themselves"
    for words in (("size", path, "--commit", "A100=1", *OWNED),):
        assert shared in said(*words, *part)[1]
        assert shared not in said(*words)[1]
    plan = ("plan", path, "--commit", "A100=1", *OWNED)
    assert shared in said(*plan, *part)[1]


def test_a_commitment_from_a_log_of_hours_is_doubted(said, tmp_path):
    words = ("--commit", "1.2", "--on-demand", "2")
    short = write_trace(tmp_path / "s.parquet", [0], [2 * HOUR], [8.0])
    text, err = said("size", short, *words)
    assert "the log covers 2 h, and a commitment lasts months or years" in err
    assert "commit to 8 GPUs and rent none" in text
    _, err = said("size", log(tmp_path / "l.parquet", ("a", 0, 8, 2)), *words)
    assert "a commitment lasts" not in err


def table_of(path, *times):
    """Write a price table of A100s: $1 more at each time."""
    pl.DataFrame(
        {
            "timestamp": [datetime.fromisoformat(time).replace(tzinfo=UTC) for time in times],
            "provider": ["c"] * len(times),
            "gpu_type": ["A100"] * len(times),
            "kind": ["on_demand"] * len(times),
            PRICE: [1.0 + place for place in range(len(times))],
        }
    ).write_parquet(path)
    return path


@pytest.mark.parametrize("command", ["bill", "characterize"])
def test_prices_of_another_time_than_the_log_are_said(said, tmp_path, command):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4))

    def warned(*times):
        table = table_of(tmp_path / "p.parquet", *times)
        return said(command, path, "--prices", table)[1]

    later = warned("2025-03-01", "2025-03-02")
    assert "begin on 2025-03-01; the jobs ran from 2024-03-01 to 2024-03-11, and pay the" in later
    amid = warned("2024-03-05", "2024-03-06")
    assert "begin on 2024-03-05; what ran before, from 2024-03-01, pays the first ones" in amid
    assert "A100 in" in (old := warned("2019-03-01", "2019-03-02"))
    assert "end on 2019-03-02; the jobs ran from" in old
    near = warned("2024-02-12", "2024-02-13")
    assert "the jobs ran" not in near and "what ran before" not in near


def test_samples_of_one_type_go_stale_while_those_of_another_go_on(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4))
    of_a100 = table_of(tmp_path / "p.parquet", "2024-01-01")
    later = pl.read_parquet(table_of(tmp_path / "q.parquet", "2024-03-05"))
    both = pl.concat([pl.read_parquet(of_a100), later.with_columns(gpu_type=pl.lit("H100"))])
    both.write_parquet(of_a100)
    err = said("bill", path, "--prices", of_a100)[1]
    said_of = "end on 2024-01-01; the jobs ran from 2024-03-01 to 2024-03-11, and later runs are"
    assert "price samples of A100 in" in err and said_of in err
    # Samples that begin within the log, and end long before its end, are warned of twice.
    longer = log(tmp_path / "l.parquet", ("a", 0, 90, 4))
    err = said("bill", longer, "--prices", table_of(tmp_path / "s.parquet", "2024-03-05"))[1]
    assert "what ran before, from 2024-03-01, pays the first ones" in err
    assert "price samples of A100 in" in err and "end on 2024-03-05" in err


def test_prices_of_another_kind_or_of_a_similar_gpu_keep_no_price_fresh(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4))
    old = pl.read_parquet(table_of(tmp_path / "old.parquet", "2024-01-01"))
    new = pl.read_parquet(table_of(tmp_path / "new.parquet", "2024-03-05"))
    for other in ({"kind": "spot"}, {"gpu_type": "A100-SXM4-40GB-MIG"}):
        rows = new.with_columns(**{name: pl.lit(value) for name, value in other.items()})
        table = tmp_path / "p.parquet"
        pl.concat([old, rows]).write_parquet(table)
        assert "price samples of A100 in" in said("bill", path, "--prices", table)[1]


def test_builtin_prices_are_of_one_day(said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 10, 4))
    _, err = said("bill", path, "--prices", "builtin", "--gpu", "A100-80GB")
    assert "the built-in prices are from 2025-10-25; the jobs ran from 2024-03-01 to" in err


def test_a_forecast_below_what_is_billed_already_is_called_so(gpuplan, said, tmp_path):
    path = log(tmp_path / "t.parquet", ("a", 0, 31, 1), ("a", 31, 36, 20))
    text, _ = said("forecast", path, "--spend", "--price", "1")
    assert "2024-04 has already cost $2,400, more than the $720.00" in text
    assert "will cost" not in text and "is billed already" not in text
    more = log(tmp_path / "m.parquet", ("a", 0, 31, 1), ("a", 31, 36, 1))
    text, _ = said("forecast", more, "--spend", "--price", "1")
    assert "2024-04 will cost about $720.00" in text and "$120 of 2024-04 is billed" in text


def test_a_forecast_until_a_day_knows_nothing_later(gpuplan, tmp_path):
    # A job of 80 days is submitted before April ends: May and June are not whole months of the log.
    rows = (("a", 0, 61, 4), ("b", 40, 120, 1), ("a", 61, 110, 4))
    path = log(tmp_path / "t.parquet", *rows)
    words = ("--spend", "--price", "1", "--until", "2024-05-01")
    results = document(gpuplan, "forecast", path, *words)["results"]
    assert [month["name"] for month in results["history"]] == ["2024-03", "2024-04"]
    assert results["whole_months"] == 2
    (first, *_) = results["totals"]
    # April has 30 days of 4 GPUs and 21 of 1; May is 31 such days.
    april = 24 * (30 * 4 + 21)
    assert first["month"] == "2024-05" and first["usd"] == pytest.approx(april * 31 / 30, abs=0.01)
    assert first["so_far_usd"] is None


def test_one_past_forecast_is_called_few(said, tmp_path):
    rows = tuple(("a", begin, end, 2) for begin, end in ((0, 31), (31, 61), (61, 92), (92, 122)))
    text, _ = said("forecast", log(tmp_path / "t.parquet", *rows), "--spend", "--price", "1")
    assert "in 1 past forecast" in text and "So few tell little of its error" in text
