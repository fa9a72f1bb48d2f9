"""Damaged price lists of every format: each row is accounted for, or an error of ours is raised."""

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import SKYPILOT, WHOLE, at, ingest_text

from gpuplan.analysis.base.errors import GpuplanError
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.price_formats.format import PriceChoices


def counted(name, text):
    """Return how many prices a file tells, kept or not, by other means than ingest's.

    None where that depends on how damaged quotes or brackets are read.
    """
    lines = [line for line in text.split(b"\n") if line.strip()]
    if name.endswith(".jsonl"):
        return sum(map(offers_in, lines))
    if name.endswith(".json"):
        try:
            document = json.loads(text.decode("utf-8", "replace"))
        except ValueError:
            return None
        return len(document["SpotPriceHistory" if name == "h.json" else "data"])
    if b'"' in text:
        return None
    if name == "vms.csv":
        return sum(map(prices_in, lines[1:]))
    return len(lines) - name.endswith(".csv")


def offers_in(line):
    try:
        return len(json.loads(line.decode())["by_provider"]) or 1
    except (ValueError, TypeError, KeyError):
        return 1


def prices_in(line):
    """A line of a catalogue is an on-demand and a spot price, or one row that cannot be read."""
    cells = line.split(b",")
    try:
        line.decode()
        has_gpus = 0 < float(cells[2]) < float("inf")
    except (ValueError, IndexError):
        has_gpus = False
    return 2 if len(cells) == SKYPILOT.count(",") + 1 and (has_gpus or not cells[1]) else 1


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_whole_files_are_counted_whole(tmp_path, name):
    result = ingest_text(tmp_path, WHOLE[name], name, choices=PriceChoices(as_of=at(0)))
    assert result.provenance.rows_read == counted(name, WHOLE[name].encode()) > 0
    assert result.provenance.rows_kept == result.provenance.rows_read


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(WHOLE)),
    where=st.floats(0, 1),
    cut=st.integers(0, 40),
    put=st.binary(max_size=6) | st.sampled_from([b'"', b",", b"\n", b"\r\n", b"null", b"1e999"]),
)
def test_damaged_files_lose_no_row_and_raise_no_bug(tmp_path_factory, name, where, cut, put):
    folder = tmp_path_factory.mktemp("fuzz")
    whole = WHOLE[name].encode()
    place = int(where * len(whole))
    text = whole[:place] + put + whole[place + cut :]
    try:
        result = ingest_text(folder, text, name, limit=Limit.of("100%"),
                             choices=PriceChoices(as_of=at(0)))  # fmt: skip
    except GpuplanError:
        assert list(folder.glob("out*")) == []
        return
    provenance = result.provenance
    parts = (
        provenance.rows_kept,
        *provenance.rows_skipped.values(),
        *provenance.rows_rejected.values(),
    )
    assert provenance.rows_read == sum(parts)
    assert counted(name, text) in (None, provenance.rows_read)
    assert result.prices.height == provenance.rows_kept == pl.read_parquet(result.output).height
    aside = 0 if result.rejects_file is None else pl.read_parquet(result.rejects_file).height
    assert aside == sum(provenance.rows_rejected.values())
