"""Predicates of any length are evaluated in bounded time, or refused."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.predicate import (
    MOST_DEPTH,
    MOST_LEVELS,
    MOST_TERMS,
    PredicateTooLarge,
    read_predicate,
)
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

ROWS = pl.DataFrame(
    {
        "num_gpus": [float(i) for i in range(40)],
        "state": ["a AND b" if i % 3 else None for i in range(40)],
        "user": ["it's" if i % 5 else "x OR y" for i in range(40)],
    }
)


def kept(text: str) -> list[float]:
    return ROWS.filter(read_predicate(text).expression)["num_gpus"].to_list()


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
        max_leaves=6,
    )
)
def test_a_split_predicate_is_that_of_polars(text):
    from gpuplan.analysis.job_table import predicate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicate, "MOST_TERMS_WHOLE", 0)
        found = ROWS.select(read_predicate(text).expression.alias("keep"))
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


def nested(opens: str, inside: str, closes: str, times: int) -> str:
    return opens * times + inside + closes * times


NESTED = {
    "nullif": nested("nullif(", "num_gpus", ",1)", 18) + "=1",
    "quoted": nested('"nullif"(', "num_gpus", ",1)", 18) + "=1",
    "left": nested("left(", "state", ",num_gpus::int)", 18) + "='a'",
    "between": nested("(", "num_gpus", " between 0 and 1)::int", 18) + "=1",
    "in": nested("(", "num_gpus", " in (1,2,3,num_gpus))::int", 18) + "=1",
    "wide in": nested("(", "1", f" in ({'1,' * 99}num_gpus))::int", 3) + "=1",
    "in a row": "num_gpus" + " in (1,2,3,num_gpus)" * 8,
    "between in a row": "num_gpus" + " between 0 and 1" * 18,
    "case": nested("(case ", "num_gpus", " when 1 then 2 when 3 then 4 when 5 then 6 end)", 12)
    + "=1",
    "wide case": nested("(case ", "num_gpus", " when 1 then 2" * 12 + " end)", 5) + "=1",
    "(not": nested("(not ", "num_gpus=1", ")", 39),
    "not(": nested("not(", "num_gpus=1", ")", 39),
    "not": "not " * 39 + "num_gpus=1",
    "unclosed": "(not " * 39,
    "one too many": nested("not(", "num_gpus=1", ")", MOST_LEVELS + 1),
    "in a chain": repeated("num_gpus = 1", 30, " or ") + " or " + "not " * 39 + "num_gpus=1",
    "comment": "nullif(/*)*/" * 18 + "num_gpus" + ",1)" * 18 + "=1",
    "string": r"e'\'' = state and " + nested("nullif(", "num_gpus", ",1)", 18) + "=1",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_nesting_that_multiplies_is_refused_before_polars_reads_it(text, monkeypatch):
    read = []
    monkeypatch.setattr(pl, "sql_expr", read.append)
    with pytest.raises(PredicateTooLarge, match=r"has .* at most .* are allowed"):
        read_predicate(text)
    assert read == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (nested("(", "num_gpus = 3", ")", MOST_DEPTH), [3]),
        (nested("not (", "num_gpus = 3", ")", MOST_LEVELS), [3]),
        (nested("nullif(", "num_gpus", ",1)", MOST_LEVELS) + " = 3", [3]),
        ("not not num_gpus = 3 and not (num_gpus between 4 and 5)", [3]),
        (repeated("not (not (not num_gpus = 3))", 14, " and "), [*range(3), *range(4, 40)]),
        ("num_gpus in (" + "1," * 2000 + "num_gpus) and num_gpus < 2", [0, 1]),
        ("upper(substr(coalesce(state, 'x'), 1, 1)) in ('A') and num_gpus < 3", [1, 2]),
    ],
    ids=["parentheses", "not", "functions", "between", "chain", "wide", "text"],
)
def test_what_is_nested_up_to_the_limits_is_evaluated(text, expected):
    assert kept(text) == expected


def test_the_command_line_says_how_to_nest_less(gpuplan, ten):
    code, out, err = gpuplan("characterize", ten, "--where", NESTED["nullif"])
    assert (code, out) == (2, "")
    err = " ".join(err.split())
    assert "18 functions, CASE, BETWEEN, IN or NOT inside each other; at most 8" in err
    assert "next: use fewer" in err and "join conditions by AND" in err


@pytest.fixture
def ten(tmp_path):
    jobs = {"submit_time": range(10), "num_gpus": range(10)}
    path = tmp_path / "ten.parquet"
    pl.DataFrame(jobs).with_columns(
        pl.col("submit_time").cast(pl.Datetime("us", "UTC")), duration_s=pl.lit(1.0)
    ).write_parquet(path)
    return path


def test_the_command_line_refuses_it_with_the_limit_and_the_way_out(gpuplan, ten):
    code, out, err = gpuplan("characterize", ten, "--where", repeated("num_gpus > 1", 3000, " OR "))
    assert (code, out) == (2, "")
    assert "3,000 terms joined by AND and OR; at most 2,000" in err
    assert "num_gpus IN (1, 2, 4)" in err and len(err) < 400


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


@pytest.mark.parametrize("text", ["sum(num_gpus) > 99", "MIN(num_gpus) > 1 AND MAX (num_gpus) > 2"])
def test_what_is_of_all_jobs_is_no_condition_of_one(ten, text):
    with pytest.raises(UsageError, match="is of all jobs together, not of each"):
        read_trace(ten, Selection(where=text))


def test_a_job_compares_with_all_jobs(ten):
    assert read_trace(ten, Selection(where="num_gpus >= MAX(num_gpus)")).jobs.height >= 1


def test_text_without_quotes_is_told_how_to_be_text(gpuplan, tmp_path):
    log = write_trace(tmp_path / "t.parquet", [0, 1], [60.0, 60.0], gpu_type=["A100", "T4"])
    code, _, err = gpuplan("characterize", log, "--where", "gpu_type=A100")
    assert code == 2 and "no column 'A100'; text has quotes: gpu_type='A100'" in err
