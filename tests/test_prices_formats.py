"""Price lists of every format, their quirks and units, on rows worked out by hand."""

import gzip
import json
from datetime import UTC, datetime

import polars as pl
import pytest
from support_prices import (
    HEADER,
    SKYPILOT,
    VAST,
    at,
    aws_history,
    aws_record,
    ingest_text,
    prime_line,
    rows,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.price_formats.aws import aws_instances
from gpuplan.analysis.price_formats.format import PriceChoices
from gpuplan.analysis.price_formats.schema import METADATA_KEY, PRICE, PRICES, PriceProvenance
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.prices.view import market


def test_canonical_csv(tmp_path):
    text = f"\ufeff{HEADER}\r\n" + "\r\n".join(
        (
            "2026-01-05T07:30:00Z,cloud,H100_80GB_SXM5,eu-1,spot,1.12,14",
            "2026-01-05T09:00:00+02:00,cloud,NVIDIA H100 80GB HBM3,,on-demand,2.35,",
            "2026-01-05T07:30:00,cloud,thing,eu-1,On_Demand,3,",
            "",
        )
    )
    result = ingest_text(tmp_path, text)
    assert result.prices.schema == pl.Schema(PRICES)
    assert rows(result) == [
        (at(7), "cloud", "H100-80GB", None, "on_demand", 2.35, None, None),
        (at(7, 30), "cloud", "H100-80GB", "eu-1", "spot", 1.12, 14, None),
        (at(7, 30), "cloud", "thing", "eu-1", "on_demand", 3.0, None, None),
    ]
    assert any("not in the table of names" in n and "thing" in n for n in result.provenance.notes)


def test_aws_prices_are_per_instance_and_change(tmp_path):
    # g2.8xlarge has 4 GPUs, p3.2xlarge one; newest first, as Amazon gives them.
    text = aws_history(
        aws_record("2016-04-25T12:45:29.000Z", "1.590100"),
        aws_record("2016-04-25T12:40:12+00:00", "1.211000"),
        aws_record("2016-04-25T12:00:00.000Z", "0.918000", "p3.2xlarge"),
        aws_record("2016-04-25T12:00:00.000Z", "9.9", product="Windows"),
        aws_record("2016-04-25T12:00:00.000Z", "0.05", "m5.large"),
    )
    result = ingest_text(tmp_path, gzip.compress(text.encode()), "history.json.gz")
    assert rows(result, "gpu_type", "region", PRICE) == [
        ("V100-16GB", "us-east-1a", 0.918),
        ("K520", "us-east-1a", 1.211 / 4),
        ("K520", "us-east-1a", 1.5901 / 4),
    ]
    provenance = result.provenance
    assert (
        provenance.sources[0].sampling == "change" and provenance.sources[0].source_format == "aws"
    )
    assert provenance.rows_skipped == {
        "prices of another system than Linux": 1,
        "prices of instance types not in the GPU table": 1,
    }
    assert (provenance.rows_read, provenance.rows_kept) == (5, 3)
    assert any("m5.large" in note for note in provenance.notes)
    stored = pl.read_parquet_metadata(result.output)[METADATA_KEY]
    assert PriceProvenance.from_json(stored) == provenance


def test_instance_types_of_one_gpu_and_zone_are_series_of_their_own(tmp_path):
    # A GPU of g4dn.xlarge costs 0.2, one of g4dn.12xlarge (4 GPUs) 0.4 and from hour 5 on 0.1.
    text = aws_history(
        aws_record("2026-01-05T00:00:00Z", "0.2", "g4dn.xlarge"),
        aws_record("2026-01-05T01:00:00Z", "1.6", "g4dn.12xlarge"),
        aws_record("2026-01-05T05:00:00Z", "0.4", "g4dn.12xlarge"),
        aws_record("2026-01-05T09:00:00Z", "0.2", "g4dn.xlarge"),
    )
    table = read_prices(ingest_text(tmp_path, text, "history.json").output)
    (hourly,) = hourly_prices(table)
    assert hourly.lowest.tolist() == pytest.approx([0.2] * 5 + [0.1] * 4)
    assert hourly.typical.tolist() == pytest.approx([0.2] + [0.3] * 4 + [0.15] * 4)
    (offer,) = market(table).offers
    assert offer.regions == 1
    assert offer.mean_usd_per_gpu_h == pytest.approx((9 * 0.2 + 4 * 0.4 + 4 * 0.1) / (9 + 4 + 4))
    assert (
        offer.least_usd_per_gpu_h,
        offer.median_usd_per_gpu_h,
        offer.most_usd_per_gpu_h,
    ) == pytest.approx((0.1, 0.2, 0.4))


def test_aws_records_in_other_wrappings(tmp_path):
    record = aws_record("2016-04-25T12:45:29.000Z", "1.6")
    for name, text in (
        ("array.json", json.dumps([record])),
        ("lines.jsonl", json.dumps(record) + "\n"),
    ):
        assert rows(ingest_text(tmp_path, text, name), PRICE) == [(0.4,)]


def test_aws_systems(tmp_path):
    untold = aws_record("2016-04-25T12:00:00.000Z", "9.9")
    del untold["ProductDescription"]
    text = aws_history(
        aws_record("2016-04-25T12:45:29.000Z", "1.6", product="Linux/UNIX (Amazon VPC)"),
        aws_record("2016-04-25T12:45:29.000Z", "9.9", product="Windows (Amazon VPC)"),
        untold,
    )
    result = ingest_text(tmp_path, text, "history.json")
    assert rows(result, PRICE) == [(0.4,)]
    assert result.provenance.rows_skipped == {
        "prices of another system than Linux": 1,
        "prices without a system (ProductDescription)": 1,
    }


def test_aws_archive_without_a_header(tmp_path):
    text = (
        "use1-az2\tp4d.24xlarge\tLinux/UNIX\t11.572400\t2026-01-01T00:00:00Z\n"
        "use1-az2\tp4d.24xlarge\tSUSE Linux\t12.0\t2026-01-01T00:00:00Z\n"
        "use1-az2\tc5.large\tLinux/UNIX\t0.03\t2026-01-01T00:00:00Z\n"
    )
    result = ingest_text(tmp_path, text, "2026-01.tsv")
    assert result.provenance.sources[0].source_format == "aws-tsv"
    assert rows(result, "gpu_type", "region", "kind", PRICE) == [
        ("A100-40GB", "use1-az2", "spot", 11.5724 / 8)
    ]


def test_the_instances_of_the_format_notes():
    for kind, gpus in {
        **{"p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8, "p4d.24xlarge": 8},
        **{"p4de.24xlarge": 8, "p5.48xlarge": 8, "g4dn.xlarge": 1, "g4dn.16xlarge": 1},
        **{"g4dn.12xlarge": 4, "g5.xlarge": 1, "g5.12xlarge": 4, "g5.24xlarge": 4},
        **{"g5.48xlarge": 8, "g6.16xlarge": 1, "g6.12xlarge": 4, "g6.48xlarge": 8},
        **{"p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16, "g2.2xlarge": 1, "g2.8xlarge": 4},
    }.items():
        assert aws_instances()[kind][1] == gpus


def test_prime_takes_the_cheapest_offer_of_each_provider(tmp_path):
    text = "\n".join(
        (
            prime_line(
                "2025-10-19T21:01:58.727366+00:00",
                {
                    "runpod": {"count": 4, "min": 2.69, "avg": 2.7},
                    "nebius": {"count": 1, "min": 2.12},
                },
            ),
            prime_line(
                "2025-10-19T21:32:00.000000+00:00",
                {"runpod": {"count": 3, "min": 2.70}},
                socket=None,
            ),
            prime_line("2025-10-19T22:00:00+00:00", {}),
            '{"timestamp": "2025-10-19T22:30:00+00:00", "gpu_type": "H100_80GB", "by_provider": 3}',
            '{"timestamp": broken',
            "",
        )
    )
    result = ingest_text(tmp_path, text, "H100.jsonl", limit=Limit.of("2"))
    assert rows(result, "provider", "gpu_type", "kind", PRICE, "available") == [
        ("nebius", "H100-80GB", "marketplace", 2.12, 1),
        ("runpod", "H100-80GB", "marketplace", 2.69, 4),
        ("runpod", "H100-80GB", "marketplace", 2.70, 3),
    ]
    assert result.provenance.sources[0].sampling == "snapshot"
    assert pl.read_parquet(result.rejects_file)["row"].to_list() == [4, 5]


def test_prime_snapshots_without_an_offer_are_counted(tmp_path):
    offers = ({}, {"runpod": {"count": 4, "min": 2.69}}, {})
    times = (f"2025-10-19T2{hour}:00:00+00:00" for hour in range(3))
    lines = map(prime_line, times, offers)
    provenance = ingest_text(tmp_path, "\n".join(lines), "H100.jsonl").provenance
    assert (provenance.rows_read, provenance.rows_kept) == (3, 1)
    assert provenance.rows_skipped == {"snapshots without an offer": 2}


def test_vast_offers_are_priced_per_gpu(tmp_path):
    text = "\n".join(
        (
            VAST,
            '2026-01-21T14:15:44.387Z,29496002,208874,40406,0.284,0.280,1,32607,"California, US"',
            '2026-01-21T14:15:44.387Z,29332107,155381,43567,2.400,0.307,8,32607,"Paris, FR"',
        )
    )
    with pytest.raises(InputError, match="--gpu"):
        ingest_text(tmp_path, text, "2026-01-21-asks.csv")
    chosen = PriceChoices(gpu="RTX 5090")
    asks = ingest_text(tmp_path, text, "2026-01-21-asks.csv", choices=chosen)
    assert rows(asks, "provider", "gpu_type", "region", "kind", PRICE, "available") == [
        ("vast.ai", "RTX5090", "FR", "marketplace", 0.3, 8),
        ("vast.ai", "RTX5090", "US", "marketplace", 0.284, 1),
    ]
    bids = ingest_text(tmp_path, text, "2026-01-21-bids.csv", choices=chosen)
    assert set(bids.prices["kind"]) == {"spot"}


def test_vast_memory_tells_variants_apart(tmp_path):
    head = VAST.replace("id,host_id", "gpu_name,host_id")
    line = "2026-01-21T14:15:44Z,A100 SXM4,1,2,1.0,0.5,1,{ram},"
    text = "\n".join((head, *(line.format(ram=ram) for ram in (81920, 40960, 80, ""))))
    result = ingest_text(tmp_path, text, "asks.csv")
    assert sorted(result.prices["gpu_type"]) == ["A100", "A100-40GB", "A100-80GB", "A100-80GB"]
    broken = text.replace(",1.0,0.5,1,", ",1.0,0.5,0,")
    with pytest.raises(InputError, match="num_gpus"):
        ingest_text(tmp_path, broken, "asks.csv")


def test_skypilot_catalogue(tmp_path):
    info = "\"{'Gpus': [{'Name': 'A100', 'Count': 8, 'MemoryInfo': {'SizeInMiB': 81920}}]}\""
    text = "\n".join(
        (
            SKYPILOT,
            "p4d.24xlarge,A100,8.0,96.0,1152.0,21.96,us-east-1,,8.0",
            f"nd96,A100,8.0,96,1900,29.36,eastus,{info},99999999",
            "frac,A10,0.5,18,220,0.80,eastus,,",
            "m5.large,,,2,8,0.096,us-east-1,,0.03",
            "v3,tpu-v3-8,1,,,8.8,us-central1,,2.6",
            "vast,RTX4090,1,4,8,0.4,any,,0",
        )
    )
    name = "catalogs/v7/azure/vms.csv"
    with pytest.raises(InputError, match="--as-of 2026-01-05"):
        ingest_text(tmp_path, text, name)
    result = ingest_text(tmp_path, text, name, choices=PriceChoices(as_of=at(0)))
    found = sorted(rows(result, "timestamp", "provider", "gpu_type", "kind", PRICE), key=str)
    assert found == sorted(
        [
            (at(0), "azure", "A100-40GB", "on_demand", 21.96 / 8),  # the catalogue's A100 is 40 GB
            (at(0), "azure", "A100-40GB", "spot", 1.0),
            (at(0), "azure", "A100-80GB", "on_demand", 29.36 / 8),
            (at(0), "azure", "A10", "on_demand", 1.6),
            (at(0), "azure", "RTX4090", "on_demand", 0.4),
        ],
        key=str,
    )
    provenance = result.provenance
    assert provenance.rows_skipped == {
        "offers that do not exist": 3,
        "prices of machines without a GPU": 4,
    }
    assert provenance.rows_read == provenance.rows_kept + 7 == 12
    dated = ingest_text(tmp_path, text, "2026-01-04/gcp.csv")
    assert set(dated.prices["provider"]) == {"gcp"}
    assert dated.prices["timestamp"][0] == datetime(2026, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize("count", ["0", "-1", "", "some", "inf"])
def test_a_machine_without_a_number_of_gpus_is_told_once(tmp_path, count):
    text = f"{SKYPILOT}\np5,H100,{count},2,3,80,r,,\np5,H100,8,2,3,80,r,,40\n"
    choices = PriceChoices(as_of=at(0))
    result = ingest_text(tmp_path, text, "aws.csv", choices=choices, limit=Limit.of("1"))
    assert (result.provenance.rows_read, result.provenance.rows_kept) == (3, 2)
    aside = pl.read_parquet(result.rejects_file)
    reason = "unreadable" if count else "missing"
    assert aside.select("row", "column", "found", "reason").rows() == [
        (2, "AcceleratorCount", count or None, reason)
    ]
    assert aside["raw"].to_list() == [f"p5,H100,{count},2,3,80,r,,"]


def test_the_usual_memory_of_a_catalogue_name(tmp_path):
    text = f"{SKYPILOT}\na3-megagpu-8g,H100-MEGA,8,2,3,80,r,,\ngh,GH200,1,2,3,3,r,,\n"
    result = ingest_text(tmp_path, text, "gcp.csv", choices=PriceChoices(as_of=at(0)))
    assert sorted(result.prices["gpu_type"]) == ["GH200", "H100-80GB"]


def test_spot_availability_with_prices(tmp_path):
    document = {"metadata": {"gap_seconds": 600}, "data": [0, 1, 2], "prices": [8.0, 8.8, 9.6]}
    name = "aws-10-26-2022/us-west-2a_v100_8.json"
    result = ingest_text(tmp_path, json.dumps(document), name)
    start = datetime(2022, 10, 26, tzinfo=UTC)
    assert rows(result) == [
        (start, "aws", "V100", "us-west-2a", "spot", 1.0, 0, "v100_8"),
        (start.replace(minute=10), "aws", "V100", "us-west-2a", "spot", 1.1, 1, "v100_8"),
        (
            start.replace(minute=20),
            "aws",
            "V100",
            "us-west-2a",
            "spot",
            pytest.approx(1.2),
            2,
            "v100_8",
        ),
    ]
    assert result.provenance.change_series == ()
    for prices in ([8.0], "8.0"):
        short = json.dumps(document | {"prices": prices})
        with pytest.raises(InputError, match=r"3 ticks and .*a price per tick, or no prices"):
            ingest_text(tmp_path, short, name)
    with pytest.raises(InputError, match="which GPU"):
        ingest_text(tmp_path, json.dumps(document), "us-west-2a_v100_8.json")


def test_machines_without_a_gpu_beside_others(tmp_path):
    document = {"metadata": {"gap_seconds": 600}, "data": [0, 1]}
    for machine in ("intel_64", "v100_1"):
        folder = availability_folder(tmp_path, document, f"us-west-2a_{machine}.json")
    provenance = ingest_prices([folder], tmp_path / "out.parquet").provenance
    assert provenance.rows_skipped == {"counts of a machine without a known GPU (intel_64)": 2}
    assert (provenance.rows_read, provenance.rows_kept) == (4, 2)
    with pytest.raises(InputError, match=r"no usable price \(2 counts of a machine without"):
        ingest_prices([folder / "us-west-2a_intel_64.json"], tmp_path / "alone.parquet")


def availability_folder(tmp_path, document, name):
    """Write an availability file into a folder with a date; returns the folder."""
    folder = tmp_path / "aws-10-26-2022"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(document))
    return folder
