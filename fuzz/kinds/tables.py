"""Damaged canonical traces: hostile cells, other types, columns lost, bytes flipped."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import traces as valid_traces
from fuzz.mutate import mutate_bytes
from fuzz.values import TEXTS

FLOATS = (
    *(float("nan"), float("inf"), float("-inf"), -1.0, -0.0, 0.0, 1e300, 1e-300, 5e-324, 9e18),
    *(1e7, 1e8, 3.15e9, 3.2e9, 1e12, 0.001, 1e-9, 0.5, 1.5, 64.0, None),
)
INTEGERS = (-(2**31), -1, 0, 1, 2**31 - 1, None)
INSTANTS = (
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    *(datetime(1969, 12, 31, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC), None),
    *(datetime(2262, 5, 1, tzinfo=UTC), datetime(1677, 1, 1, tzinfo=UTC)),
    *(datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
)
LINES: tuple[tuple[str, ...], ...] = (
    ("characterize", "t.parquet"),
    ("characterize", "t.parquet", "--fits"),
    ("characterize", "t.parquet", "lab.parquet"),
    ("characterize", "t.parquet", "--prices", "builtin", "--gpu", "L4"),
    ("characterize", "t.parquet", "--ci", "90", "--resamples", "40"),
    ("pareto", "t.parquet"),
    ("pareto", "t.parquet", "--no-replay", "--class-by", "user"),
    ("pareto", "t.parquet", "--baseline", "all"),
    ("pareto", "t.parquet", "--method", "paper"),
    ("sweep", "t.parquet", "--resamples", "40", "--threshold", "60,600"),
    ("simulate", "t.parquet"),
    ("simulate", "t.parquet", "--policy", "edf", "--gpus", "16"),
    ("simulate", "t.parquet", "--policy", "gittins"),
    ("simulate", "t.parquet", "--policy", "hpa", "--include-running"),
    ("compare", "t.parquet"),
    ("compare", "t.parquet", "--policy", "fifo", "--policy", "2d-las"),
    ("synth", "--like", "t.parquet", "--jobs", "5", "-o", "out.parquet"),
    ("ingest", "t.parquet", "-o", "out.parquet", "--max-rejects", "100%"),
    ("report", "t.parquet", "-o", "made", "--formats", "md,json", "--study", "characterize"),
)


def traces(rng: Random) -> Draft:
    """Draft a run of a command on a damaged trace."""
    line = rng.choices(LINES, [0.1 if one[0] == "report" else 1 for one in LINES])[0]
    data = valid_traces()[rng.choice(("lab", "rich", "rich", "bare", "one", "same")) + ".parquet"]
    files = {"t.parquet": data, "lab.parquet": valid_traces()["lab.parquet"]}
    case = Case("traces", line[0], list(line), files)
    case.written |= {"made", "out.parquet", "out.rejects.parquet"}
    if line[0] == "ingest":
        case.account = "jobs"

    def step(case: Case, rng: Random) -> str:
        case.files["t.parquet"], what = damage_parquet(case.files["t.parquet"], rng)
        return what

    steps: list[Step] = [step] * rng.choice((0, 1, 1, 2, 3, 5))

    def finish(case: Case, rng: Random) -> None:
        if rng.random() < 0.4:
            case.arguments += ["--output-format", rng.choice(("json", "json", "csv", "md"))]

    if line[0] != "report":
        return Draft(case, steps, finish)
    return Draft(case, steps)


def damage_parquet(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return a Parquet file with a hostile cell, another type, or damaged bytes."""
    import polars as pl

    if rng.random() < 0.15:
        return mutate_bytes(data, rng)
    try:
        metadata = pl.read_parquet_metadata(io.BytesIO(data))
        _check_pages(data)
        table = pl.read_parquet(io.BytesIO(data))
    except BaseException:  # damaged before; some damage makes polars panic
        return mutate_bytes(data, rng)
    kept = {key: text for key, text in metadata.items() if key != "ARROW:schema"}
    try:
        table, what = _damaged(table, rng)
    except BaseException:  # a type that values cannot have; some values make polars panic
        return mutate_bytes(data, rng)
    if rng.random() < 0.05:
        value = rng.choice(("", "x", "[]", "{}", "null", '{"rows_read":-1}', '{"notes":1}'))
        kept, what = {"gpuplan": value}, f"metadata {value!r}"
    stream = io.BytesIO()
    try:
        table.write_parquet(stream, metadata=kept)
    except BaseException:
        return mutate_bytes(data, rng)
    return stream.getvalue(), what


def _check_pages(data: bytes) -> None:
    """Raise where the process would die of reading a damaged file."""
    from gpuplan.analysis.storage.parquet_pages import check_pages

    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        check_pages(Path(file.name))


def _damaged(table: Any, rng: Random) -> tuple[Any, str]:
    import polars as pl

    name = rng.choice(table.columns) if table.columns else None
    if name is None:
        return table.with_columns(pl.lit(1).alias("x")), "add a column"
    roll = rng.random()
    if roll < 0.7 and table.height:
        column = table[name]
        value = _value(column.dtype, rng)
        values = column.to_list()
        times = rng.choice((1, 1, 1, table.height))
        whole = times == table.height and rng.random() < 0.5
        row = 0 if whole else rng.randrange(table.height)
        values[row : row + times] = [value] * len(values[row : row + times])
        try:
            changed = pl.Series(name, values, dtype=column.dtype, strict=False)
        except BaseException:  # a value that polars cannot hold
            return table.clear(), "drop all rows"
        return table.with_columns(changed), f"{name}[{row}] = {str(value)[:30]!r}"
    if roll < 0.78:
        kind = rng.choice((pl.String, pl.Int8, pl.UInt64, pl.Float32, pl.Boolean, pl.Null, pl.Date))
        return table.with_columns(pl.col(name).cast(kind, strict=False)), f"{name} as {kind}"
    if roll < 0.84:
        return table.drop(name), f"drop {name}"
    if roll < 0.88:
        new = rng.choice(("", " ", "x", "job_id ", "\x1b[31m", "JOB_ID"))
        return table.rename({name: new}), f"call {name} {new!r}"
    if roll < 0.92:
        return table.with_columns(pl.lit([[1]]).alias("x")), "add a nested column"
    if roll < 0.95:
        return table.clear(), "drop all rows"
    if roll < 0.98:
        return pl.concat([table, table]), "repeat all rows"
    return table.sample(fraction=1, shuffle=True, seed=rng.randrange(1 << 30)), "shuffle"


def _value(kind: Any, rng: Random) -> Any:
    import polars as pl

    if kind in (pl.Float64, pl.Float32):
        return rng.choice(FLOATS)
    if kind.is_integer():
        return rng.choice(INTEGERS)
    if kind.is_temporal():
        return rng.choice(INSTANTS)
    if kind == pl.Boolean:
        return rng.choice((True, False, None))
    if isinstance(kind, pl.Enum):
        return rng.choice((*kind.categories.to_list(), None))
    return rng.choice((*TEXTS, "\0", None))
