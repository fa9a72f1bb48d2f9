"""Tables by ``--map``: expressions, JSON records, and columns kept by ``--keep``."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_ingest import ingest_text

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.reading.computed import number_text
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

HEADER = "id,created,ran,gpus,pods,kind,mem"
ROWS = (
    "007,2026-01-01T00:00:00,60,4,2,h100,80",
    "8,2026-01-01T01:00:00,70,0.5,1,a100,40",
    "9,2026-01-01T02:00:00,80,many,2,a100,none",
    "10,2026-01-01T03:00:00,90,,2,a100,16",
)
TABLE = "\n".join([HEADER, *ROWS, ""])
TIMES = {"submit_time": "created", "duration_s": "ran"}


def mapped(folder, text=TABLE, keep=(), **columns):
    return ingest_text(folder, text, columns={**TIMES, **columns}, keep=keep)


def test_gpus_are_the_product_of_two_columns(tmp_path):
    jobs, _, rejected = mapped(tmp_path, num_gpus="gpus * pods")
    assert jobs["num_gpus"].to_list() == [8, 0.5]
    assert rejected.select("row", "reason", "column", "found").rows() == [
        (4, "unreadable", "gpus * pods", "gpus=many pods=2"),
        (5, "missing", "gpus * pods", None),
    ]


@pytest.mark.parametrize(
    ("target", "expression", "expected"),
    [
        ("job_class", "kind || '-' || id", ["h100-007", "a100-8"]),
        ("job_class", "pods * 2", ["4", "2"]),
        ("user", "'lab'", ["lab", "lab"]),
        ("num_gpus", "CASE WHEN kind = 'h100' THEN 8 ELSE pods END", [8, 1]),
        ("num_gpus", "COALESCE(TRY_CAST(gpus AS DOUBLE), 1)", [4, 0.5]),
        ("num_workers", "pods + 1", [3, 2]),
        ("priority", "CASE WHEN gpus < 1 THEN 'spot' END", [None, "spot"]),
        ("queue_s", "ran / 2", [30, 35]),
    ],
)
def test_expressions(tmp_path, target, expression, expected):
    jobs, _, _ = mapped(tmp_path, **{"num_gpus": "pods", target: expression})
    assert jobs[target].to_list()[:2] == expected


def test_a_column_of_that_name_comes_first(tmp_path):
    text = 'created,ran,"a * b",a,b\n2026-01-01,60,3,10,10\n'
    assert mapped(tmp_path, text, num_gpus="a * b")[0]["num_gpus"].to_list() == [3]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("gpus * podz", r"no column 'podz'"),
        ("SUM(pods)", "one row at a time"),
        ("COUNT(*)", "one row at a time"),
        ("pods *", "unable to parse"),
        ("kind * 2", "arithmetic on dtypes"),
        ("CAST(kind AS INT)", "conversion from"),
        ("(" * 50 + "pods" + ")" * 50, "nested parentheses"),
    ],
)
def test_expressions_that_cannot_be_used(tmp_path, expression, problem):
    with pytest.raises(UsageError, match=f"(?s)--map num_gpus=.*{problem}"):
        mapped(tmp_path, num_gpus=expression)


@pytest.mark.parametrize("name", ["nope", "pods x", "GPU count"])
def test_a_missing_column_is_no_expression(tmp_path, name):
    with pytest.raises(InputError, match=f"no column '{name}'"):
        mapped(tmp_path, num_gpus=name)


def test_a_strict_cast_of_a_late_cell_is_an_error_of_the_input(tmp_path):
    text = "\n".join([HEADER, *[ROWS[0]] * 200, ROWS[2], ""])
    with pytest.raises(InputError, match="TRY_CAST"):
        mapped(tmp_path, text, num_gpus="CAST('1' || gpus AS INT)")


@given(st.lists(st.floats(allow_nan=False, width=64) | st.none()))
def test_numbers_as_text_are_read_back(values):
    cells = number_text(pl.Series(values, dtype=pl.Float64))
    assert cells.cast(pl.Float64).to_list() == values
    assert not any(cell.endswith(".0") for cell in cells.drop_nulls() if len(cell) < 16)


def records(*more):
    first = {"created": "2026-01-01T00:00:00Z", "ran": 60, "ask": {"gpus": 4, "pods": 2}}
    second = {"created": "2026-01-01T01:00:00Z", "ran": 7.5, "ask": {"gpus": 8}, "tags": ["a"]}
    return [first, second, *more]


@pytest.mark.parametrize("form", ["array", "lines"])
def test_json_records_are_a_table(tmp_path, form):
    odd = [7, {"created": "2026-01-01T02:00:00Z", "ask": 3}, {"\0row": 1, "\ud800": 2}]
    every = records(*odd)
    text = json.dumps(every) if form == "array" else "\n".join(map(json.dumps, every))
    jobs, _, rejected = mapped(tmp_path, text, num_gpus="ask.gpus", keep=("tags",))
    assert jobs.select("num_gpus", "duration_s", "tags").rows() == [
        (4, 60, None),
        (8, 7.5, '["a"]'),
    ]
    assert rejected["reason"].to_list() == ["unreadable", "missing", "missing"]
    jobs, _, _ = mapped(tmp_path, text, num_gpus='"ask.gpus" * COALESCE("ask.pods", 1)')
    assert jobs["num_gpus"].to_list() == [8, 8]


def test_half_a_character_in_json_is_no_text_in_expressions(tmp_path):
    first, second = records()
    text = json.dumps([first | {"team": "\ud800"}, second | {"team": "b"}])
    jobs, _, _ = mapped(tmp_path, text, num_gpus='"ask.gpus" * 2', group="UPPER(team)")
    assert jobs.select("num_gpus", "group").rows() == [(8, "?"), (16, "B")]


@pytest.mark.parametrize("text", ['{\n "jobs": [\n  {"a": 1}\n ]\n}', "[1, 2]", "[", "[]"])
def test_json_without_records(tmp_path, text):
    with pytest.raises(InputError, match="one array of objects, or one object per line"):
        mapped(tmp_path, text, num_gpus="gpus")


def test_unknown_json_gets_the_map_that_fits(tmp_path):
    text = '{"submitted": "2026-01-01", "runtime": 5, "gpus": 2}\n'
    with pytest.raises(InputError, match="--map submit_time=submitted --map duration_s=runtime"):
        ingest_text(tmp_path, text)


def test_columns_that_are_kept(tmp_path):
    jobs, result, _ = mapped(tmp_path, num_gpus="pods", keep=("kind", "mem"))
    assert jobs.schema["kind"] == pl.String and jobs.schema["mem"] == pl.Float64
    assert jobs["mem"].to_list() == [80, 40, None, 16]
    assert "cells of mem that are not numbers, left empty: 1" in result.provenance.notes
    where = Selection(where="kind = 'a100' AND mem > 20", spot="mem < 60")
    found = read_trace(result.output, where, columns=("priority", "mem", "kind")).jobs
    assert found.rows() == [(jobs["submit_time"][1], "spot", 40, "a100")]


def test_columns_of_joined_rows_are_kept_of_the_first(tmp_path):
    header = "JobID|User|State|Submit|Start|End|ElapsedRaw|AllocTRES|Partition|NodeList"
    row = "{}|u|COMPLETED|2026-01-05T0{}:00:00|2026-01-05T0{}:10:00|2026-01-05T0{}:30:00|1200"
    row += "|gres/gpu=1|{}|n"
    rows = [
        row.format(1, 1, 1, 1, "gold"),
        row.format(1, 2, 2, 2, "tin"),
        row.format(2, 3, 3, 3, "x"),
    ]
    jobs, _, _ = ingest_text(tmp_path, "\n".join([header, *rows, ""]), keep=("Partition",))
    assert dict(jobs.select("job_id", "Partition").rows()) == {"1": "gold", "2": "x"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [("mems", "did you mean mem"), ("user", "--map user=user"), ("source", "a trace has a column")],
)
def test_columns_that_cannot_be_kept(tmp_path, name, problem):
    with pytest.raises(UsageError, match=f"(?s){name}.*{problem}"):
        mapped(tmp_path, num_gpus="pods", keep=(name,))


def test_fewer_gpus_than_workers_are_warned_of(tmp_path):
    _, result, _ = mapped(tmp_path, num_gpus="1", num_workers="pods")
    assert any("3 of 4 jobs have fewer GPUs than workers" in one for one in result.warnings)
    _, result, _ = mapped(tmp_path, num_gpus="pods", num_workers="pods")
    assert not result.warnings


def test_commands_use_what_is_kept(gpuplan, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = tmp_path / "jobs.csv"
    log.write_text("\n".join([HEADER, *ROWS[:2], ""]))
    maps = ("--map", "num_gpus=gpus * pods", *(f"--map={a}={b}" for a, b in TIMES.items()))
    options = (log, *maps, "--keep", "mem", "--output-format", "json")
    code, out, err = gpuplan("bill", *options, "--by", "mem", "--price", 2)
    assert code == 0, err
    assert '"80"' in out and '"40"' in out
    code, out, err = gpuplan("characterize", *options, "--where", "mem = 80")
    assert code == 0 and json.loads(out)["results"]["jobs"] == 1
    code, _, err = gpuplan("bill", *options, "--by", "me", "--price", 2)
    assert code == 2 and "--by me: no column 'me' in the log (did you mean mem?)" in err
