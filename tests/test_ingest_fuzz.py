"""Damaged logs of every format: an error of ours or a whole account, and never half an output."""

import gzip
import io
import json
import random
import zipfile

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_ingest import LOGS, ingest_text

from gpuplan.analysis.base.errors import GpuplanError

SEPARATORS = (b",", b"\t", b"|", b" ", b":", b";")
GARBAGE = (
    b"", b"x", b"-5", b"0", b"nan", b"inf", b'"', b"9" * 30, b"\xff", b"{", b"[]", b"1e400", b"\0",
    b"\xc3", b"None", b"Unknown", b"2017-03-12 02:30:00", b"9999-12-31 23:59:59", b"-1e18", b"'",
    b"2017-10-05T09:00:00+99:99", b"1.5", b"\xef\xbb\xbf", b"\r", b"%s", b"2020-02-30", b"/", b"=",
)  # fmt: skip
VALUES = (
    None, True, -1, 0, 1e308, 10**30, 1.5, "", "x", "None", "\ud800", [], [None], [[1]], {},
    {"x": []}, "2017-10-05 09:00:00", "\0", "NaN",
)  # fmt: skip
ONE_ROW_PER_LINE = ("seren", "kalos", "philly_csv", "helios", "sia", "openb", "tiresias")
"""Logs without quotes, steps, comments or parts, whose lines can be counted."""


def damage_text(data: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, swap, cut or garble cells, lines and bytes."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(9):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        case 2:
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        case 3 | 4 | 5:
            found = [one for one in SEPARATORS if one in lines[at]] or [b","]
            separator = rng.choice(found)
            cells = lines[at].split(separator)
            if rng.random() < 0.2:
                rng.shuffle(cells)
            else:
                cells[rng.randrange(len(cells))] = rng.choice(GARBAGE)
            lines[at] = separator.join(cells)
        case 6:
            rng.shuffle(lines)
        case _:
            return damage_bytes(data, rng)
    return b"\n".join(lines)


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    spot = rng.randint(0, len(data))
    middle = bytes([rng.randrange(256)]) * rng.randint(0, 2)
    return data[:spot] + middle + data[spot + rng.randint(0, 3) :]


def damage_json(data: bytes, rng: random.Random) -> bytes:
    """Replace, drop or repeat a value of one record."""
    try:
        is_array = data.lstrip()[:1] == b"["
        records = json.loads(data) if is_array else [json.loads(x) for x in data.splitlines() if x]
    except ValueError:  # damaged before
        return damage_bytes(data, rng)
    spots: list[tuple[object, object]] = []

    def walk(node: object) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in list(items):
            spots.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(records)
    if spots:
        node, key = rng.choice(spots)
        match rng.randrange(4):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node.append(node[key])
            case _:
                node[key] = rng.choice(VALUES)
    if is_array:
        return json.dumps(records).encode()
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def pack(data: bytes, rng: random.Random) -> bytes:
    """Compress it, and damage that too, or do not."""
    match rng.randrange(8):
        case 0:
            return gzip.compress(data)
        case 1:
            return damage_bytes(gzip.compress(data), rng)
        case 2:
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("log", data)
            packed = stream.getvalue()
            return damage_bytes(packed, rng) if rng.random() < 0.5 else packed
        case _:
            return data


def check(folder, data: bytes, name: str, source_format: str | None):
    """Ingest bytes; check the account of what comes out, or that only rejected rows do."""
    try:
        jobs, result, rejected = ingest_text(folder, data, name, source_format=source_format)
    except GpuplanError as error:
        assert error.exit_code == 3
        assert str(folder / name) in str(error)
        aside = folder / "trace.rejects.parquet"
        assert aside.exists() == (str(aside) in str(error))
        aside.unlink(missing_ok=True)
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_bytes() == data
        return None
    assert (folder / name).read_bytes() == data
    provenance = result.provenance
    refused = 0 if rejected is None else rejected.height
    assert provenance.rows_kept == jobs.height > 0
    assert provenance.rows_read == jobs.height + refused
    assert sum(provenance.rows_rejected.values()) == refused
    written = {"trace.parquet", name} | ({"trace.rejects.parquet"} if refused else set())
    assert {path.name for path in folder.iterdir()} == written
    assert jobs["job_id"].n_unique() == jobs.height
    assert jobs["submit_time"].null_count() == jobs["num_gpus"].null_count() == 0
    assert (jobs["duration_s"].drop_nulls() >= 0).all()
    assert (jobs["num_gpus"] >= 0).all()
    assert (
        jobs.select(pl.col("duration_s", "num_gpus", "queue_s").is_finite().all()).row(0)
        == (True,) * 3
    )
    if rejected is not None:
        assert rejected.select("file", "row", "reason", "raw").null_count().sum_horizontal()[0] == 0
    return provenance


def rows_in(data: bytes) -> int:
    return sum(bool(line.strip()) for line in data.split(b"\n"))


@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("log", LOGS)
@given(seed=st.integers(0, 2**32 - 1))
def test_damage_never_breaks_the_account(tmp_path_factory, log, seed):
    name, file, text = LOGS[log]
    rng = random.Random(seed)
    whole = data = text.encode() if isinstance(text, str) else text
    is_json = data.lstrip()[:1] in b"[{"
    for _ in range(rng.randint(1, 4)):
        data = damage_json(data, rng) if is_json and rng.random() < 0.6 else damage_text(data, rng)
    packed = pack(data, rng)
    forced = name if rng.random() < 0.7 else None
    provenance = check(tmp_path_factory.mktemp("fuzz"), packed, file, forced)
    if provenance is None or packed != data or b'"' in data or log not in ONE_ROW_PER_LINE:
        return
    header = rows_in(whole) - LOGS_ROWS[log]
    assert provenance.rows_read == rows_in(data) - header


LOGS_ROWS = {log: rows_in(LOGS[log][2].encode()) - 1 for log in ONE_ROW_PER_LINE if log in LOGS}
"""Rows of the whole logs, which have a header each."""


def test_the_logs_are_whole(tmp_path):
    """Every format has a log here, so that its damage is tried."""
    from gpuplan.analysis.log_formats.registry import FORMATS

    assert set(FORMATS) - {name for name, _, _ in LOGS.values()} == {"csv"}


@pytest.fixture(scope="module")
def parquet(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    return ingest_text(folder, LOGS["seren"][2])[1].output.read_bytes()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_parquet_files(tmp_path_factory, parquet, seed):
    rng = random.Random(seed)
    data = parquet
    for _ in range(rng.randint(1, 3)):
        data = damage_bytes(data, rng) if rng.random() < 0.6 else data[: rng.randint(4, len(data))]
    check(tmp_path_factory.mktemp("fuzz"), data, "log.parquet", None)
