"""Predicates of any length are evaluated in bounded time, or refused."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.predicate import (
    MOST_DEPTH,
    MOST_TERMS,
    PredicateTooLarge,
    read_predicate,
)
from gpuplan.analysis.trace import Selection, read_trace

ROWS = pl.DataFrame(
    {
        "num_gpus": [float(i) for i in range(40)],
        "state": ["a AND b" if i % 3 else None for i in range(40)],
        "user": ["it's" if i % 5 else "x OR y" for i in range(40)],
    }
)


def kept(text: str) -> list[float]:
    return ROWS.filter(read_predicate(text).whole)["num_gpus"].to_list()


def repeated(text: str, times: int, joint: str) -> str:
    return joint.join([text] * times)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" AND ".join(f"num_gpus <> {i}" for i in range(1500)), []),
        (" or ".join(f"num_gpus = {i}" for i in range(1500)), list(range(40))),
        (repeated("num_gpus BETWEEN 3 AND 5", 500, " AND "), [3, 4, 5]),
        (repeated("(num_gpus < 2 OR NOT (num_gpus < 38))", 400, " AND "), [0, 1, 38, 39]),
        (repeated("state = 'a AND b' AND num_gpus < 4", 300, " OR "), [1, 2]),
        (repeated("num_gpus IN (1,2, -3)", 30, " AND "), [1, 2]),
        (f"num_gpus NOT IN ({','.join(str(1 - i) for i in range(50_000))})", list(range(2, 40))),
        (repeated("CASE WHEN num_gpus > 1 AND num_gpus < 4 THEN true ELSE false END", 20, " AND "),
         [2, 3]),
        ("num_gpus < 1 -- AND " + "num_gpus", [0]),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_long_predicate_keeps_the_rows_that_it_says(text, expected):
    assert kept(text) == expected


TERMS = st.sampled_from(
    [
        "num_gpus > 7",
        "state IS NULL",
        "state = 'a AND b'",
        "\"user\" <> 'x OR y'",
        "num_gpus BETWEEN 4 AND 30",
        "num_gpus IN (1, 2, -3, 20)",
        "NOT num_gpus = 9",
    ]
)


@given(
    st.recursive(
        TERMS,
        lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]}) {parts[1]} NOT ({parts[2]})"
        ),
        max_leaves=12,
    )
)
def test_a_split_predicate_is_that_of_polars(text):
    from gpuplan.analysis import predicate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicate, "MOST_TERMS_WHOLE", 0)
        found = ROWS.select(read_predicate(text).whole.alias("keep"))
    assert found.equals(ROWS.select(pl.sql_expr(text).alias("keep")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (repeated("num_gpus > 1", MOST_TERMS + 1, " AND "), "2,001 terms joined by AND and OR"),
        ("(" * (MOST_DEPTH + 1) + "num_gpus > 1" + ")" * (MOST_DEPTH + 1), "41 nested parentheses"),
        ("num_gpus" + " + 1" * 400 + " > 1", "in one term; at most 150"),
        ("CASE " * 30_000, "nested parentheses"),
        ("NOT " * 30_000 + "num_gpus > 1", "at most 10,000"),
        ("num_gpus > 1 /* " + "AND num_gpus " * 1000 + "*/", "beside a comment"),
        (f"num_gpus IN ({'1,' * 600_000}1)", "letters"),
    ],
    ids=["terms", "depth", "operators", "case", "not", "comment", "letters"],
)
def test_a_predicate_that_would_take_too_long_is_refused(text, says):
    with pytest.raises(PredicateTooLarge, match=says):
        read_predicate(text)


@pytest.fixture
def ten(tmp_path):
    jobs = {"submit_time": range(10), "num_gpus": range(10)}
    path = tmp_path / "ten.parquet"
    pl.DataFrame(jobs).with_columns(
        pl.col("submit_time").cast(pl.Datetime("us", "UTC")), duration_s=pl.lit(1.0)
    ).write_parquet(path)
    return path


def test_the_command_line_refuses_it_with_the_limit_and_the_way_out(gpuplan, ten):
    code, out, told = gpuplan(
        "characterize", ten, "--where", repeated("num_gpus > 1", 3000, " OR ")
    )
    assert (code, out) == (2, "")
    assert "3,000 terms joined by AND and OR; at most 2,000" in told
    assert "num_gpus IN (1, 2, 4)" in told and len(told) < 400


@pytest.mark.parametrize("text", ["num_gpus", "num_gpus + 1", "1"])
def test_a_term_that_is_no_truth_is_refused_in_a_chain_too(ten, text):
    chain = repeated("num_gpus > 1", 30, " AND ")
    for where in (f"{chain} AND {text}", f"{text} OR {chain}", f"NOT ({chain} AND {text})"):
        with pytest.raises(UsageError):
            read_trace(ten, Selection(where=where))


@pytest.mark.parametrize("text", ["num_gpus > 1 AND", "AND num_gpus", "(num_gpus > 1", "'", ""])
def test_what_is_no_predicate_is_refused_in_a_chain_too(ten, text):
    chain = repeated("num_gpus > 1", 30, " AND ")
    for where in (text, f"{chain} AND {text}"):
        with pytest.raises(UsageError, match="--where"):
            read_trace(ten, Selection(where=where))
