"""How price lists become one table: bad rows, several sources, what cannot be used."""

import json

import polars as pl
import pytest
from support_prices import HEADER, SKYPILOT, at, aws_history, aws_record, ingest_text, rows

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.price_formats.format import PriceChoices
from gpuplan.analysis.price_formats.schema import PRICE, PriceProvenance
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.prices.price_table import read_prices


def test_bad_rows_are_kept_aside_with_their_place(tmp_path):
    good = "2026-01-05T07:00:00Z,c,L4,,spot,0.3,"
    bad = [
        ("soon,c,L4,,spot,0.3,", "timestamp", "unreadable"),
        ("9026-01-05T07:00:00Z,c,L4,,spot,0.3,", "timestamp", "bad_time"),
        ("2026-01-05T07:00:00Z,c,L4,,rented,0.3,", "kind", "unreadable"),
        ("2026-01-05T07:00:00Z,c,L4,,spot,free,", PRICE, "unreadable"),
        ("2026-01-05T07:00:00Z,c,L4,,spot,0,", PRICE, "bad_price"),
        ("2026-01-05T07:00:00Z,c,L4,,spot,99999999,", PRICE, "bad_price"),
        ("2026-01-05T07:00:00Z,c,L4,,spot,nan,", PRICE, "unreadable"),
        ("2026-01-05T07:00:00Z,,L4,,spot,0.3,", "provider", "missing"),
        ("2026-01-05T07:00:00Z,c,L4,,spot,0.3,-1", "available", "unreadable"),
        ("2026-01-05T07:00:00Z,c,L4", None, "wrong_number_of_fields"),
    ]
    text = "\n".join([HEADER, good, *(line for line, *_ in bad), ""])
    result = ingest_text(tmp_path, text, limit=Limit.of("100%"))
    provenance = result.provenance
    assert (provenance.rows_read, provenance.rows_kept, sum(provenance.rows_rejected.values())) == (
        11,
        1,
        10,
    )
    aside = pl.read_parquet(result.rejects_file)
    assert aside["row"].to_list() == list(range(3, 13))
    assert aside["column"].to_list() == [column for _, column, _ in bad]
    assert aside["reason"].to_list() == [reason for *_, reason in bad]
    assert aside["raw"].to_list() == [line for line, *_ in bad]
    (tmp_path / "out.parquet").unlink()
    with pytest.raises(InputError, match=r"p.csv:3: column 'timestamp': found 'soon'"):
        ingest_text(tmp_path, text)
    assert not (tmp_path / "out.parquet").exists()


def test_a_table_ingested_again_is_the_same(tmp_path):
    first = ingest_text(tmp_path, f"{HEADER}\n2026-01-05T07:00:00Z,aws,L4,,spot,0.3,5\n")
    again = ingest_prices([first.output], tmp_path / "again.parquet")
    assert again.prices.equals(first.prices)
    assert again.provenance.change_series == first.provenance.change_series != ()


def test_tables_of_before_instance_types_are_read(tmp_path):
    old = json.dumps({"change_series": [["aws", "K520", "spot", "z"]], "sources": []})
    assert PriceProvenance.from_json(old).change_series == (("aws", "K520", "spot", "z", None),)


def test_sources_of_several_formats_in_one_table(tmp_path):
    csv, history = tmp_path / "a.csv", tmp_path / "b.json"
    csv.write_text(f"{HEADER}\n2016-04-25T12:00:00Z,cloud,K520,,spot,0.3,5\n")
    history.write_text(aws_history(aws_record("2016-04-25T11:00:00.000Z", "1.6")))
    result = ingest_prices([csv, history], tmp_path / "out.parquet")
    assert [source.sampling for source in result.provenance.sources] == ["snapshot", "change"]
    assert result.provenance.change_series == (("aws", "K520", "spot", "us-east-1a", "g2.8xlarge"),)
    assert result.prices["provider"].to_list() == ["aws", "cloud"]  # in order of time
    assert read_prices(result.output).prices["is_change"].to_list() == [True, False]


def test_a_folder_of_catalogues(tmp_path):
    for cloud, price in (("aws", 1.0), ("gcp", 2.0)):
        file = tmp_path / "catalogs" / cloud / "vms.csv"
        file.parent.mkdir(parents=True)
        file.write_text(f"{SKYPILOT}\ni,L4,1,2,3,{price},r,,\n")
    (tmp_path / "catalogs" / "notes.txt").write_text("not prices\n")
    out = tmp_path / "out.parquet"
    result = ingest_prices([tmp_path / "catalogs"], out, choices=PriceChoices(as_of=at(0)))
    assert rows(result, "provider", PRICE) == [("aws", 1.0), ("gcp", 2.0)]
    assert any("notes.txt" in note for note in result.provenance.notes)


def test_sampling_can_be_forced(tmp_path):
    text = f"{HEADER}\n2016-04-25T12:00:00Z,cloud,K520,,spot,0.3,5\n"
    forced = ingest_text(tmp_path, text, choices=PriceChoices(sampling="change"))
    assert forced.provenance.sources[0].sampling == "change"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "a,b\n1,2\n", "unrecognized price format"),
        ("a.csv", "", "is empty"),
        ("a.csv", HEADER.encode("utf-16"), r"is UTF-16 text.*\n.*iconv -f UTF-16LE"),
        ("a.csv", HEADER.encode("utf-16-be"), r"is UTF-16 text.*\n.*iconv -f UTF-16BE"),
        ("a.csv", "a,b\r1,2\r", r"has carriage returns as line ends.*\n.*tr"),
        ("a.csv", f"{HEADER}\n", "has no prices"),
        ("a.json", '{"SpotPriceHistory": []}', r"has no prices.*\n  next: fetch it again"),
        (
            "a.json",
            aws_history(aws_record("2016-04-25T12:00:00Z", "9", product="Windows")),
            r"no usable price \(1 prices of another system than Linux\).*\n  next: give a file",
        ),
        ("a.json", '{"SpotPriceHistory": [{"SpotPrice": "1", "InstanceType"', "the file was cut"),
        ("a.json", '{"metadata": {"gap_seconds": 3}, "data": [1}', "is not JSON"),
    ],
)
def test_sources_that_cannot_be_used(tmp_path, name, text, says):
    with pytest.raises(InputError, match=says):
        ingest_text(tmp_path, text, name)
    assert list(tmp_path.glob("out*")) == []


def test_unknown_format(tmp_path):
    with pytest.raises(UsageError, match=r"no such .* format; expected one of aws"):
        ingest_text(tmp_path, f"{HEADER}\n", source_format="nope")
