"""Price tables as they are read, their own and those of other tools."""

import polars as pl
import pytest
from support_prices import ORIGIN, book

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.price_formats.schema import METADATA_KEY, PRICE, PRICES, PriceProvenance
from gpuplan.analysis.prices.price_table import in_force, read_prices
from gpuplan.analysis.prices.view import read_market


def test_a_snapshot_holds_no_longer_than_three_usual_gaps():
    hours = [0, 1, 2, 3, 20, 21]  # the usual gap is an hour
    stretches = in_force(book([(h, "c", "L4", None, "marketplace", 1.0) for h in hours]))
    lasting = (stretches["end_us"] - stretches["start_us"]) / HOUR_US
    assert lasting.to_list() == [1, 1, 1, 3, 1, 1]


def write(path, frame, provenance=None):
    metadata = None if provenance is None else {METADATA_KEY: provenance.to_json()}
    frame.write_parquet(path, metadata=metadata)
    return path


def test_price_tables_of_other_tools(tmp_path):
    frame = pl.DataFrame(
        {
            "timestamp": [ORIGIN],
            "provider": ["c"],
            "gpu_type": ["a100-80"],
            "kind": ["On-Demand"],
            PRICE: [2],
        }
    )
    found = read_prices(write(tmp_path / "p.parquet", frame)).prices
    assert found.select(*PRICES).row(0) == (
        ORIGIN,
        "c",
        "A100-80GB",
        None,
        "on_demand",
        2.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": pl.lit("rent")}, "column 'kind': found 'rent'"),
        ({PRICE: pl.lit(-1.0)}, "found -1.0"),
        ({"timestamp": pl.lit("soon")}, "column 'timestamp'"),
        ({"provider": pl.lit(None, pl.String)}, "column 'provider'"),
    ],
)
def test_price_tables_that_cannot_be_used(tmp_path, change, says):
    frame = book([(0, "c", "L4", None, "spot", 1.0)]).prices.with_columns(**change)
    with pytest.raises(InputError, match=says):
        read_prices(write(tmp_path / "p.parquet", frame))
    with pytest.raises(InputError, match="no column kind"):
        read_prices(write(tmp_path / "p.parquet", frame.drop("kind")))


def test_what_is_no_price_table(tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="gpuplan prices"):
        read_prices(tmp_path / "p.csv")
    newer = PriceProvenance(schema_version=99)
    frame = book([(0, "c", "L4", None, "spot", 1.0)]).prices
    with pytest.raises(InputError, match="upgrade"):
        read_prices(write(tmp_path / "p.parquet", frame, newer))
    whole = (tmp_path / "p.parquet").read_bytes()
    (tmp_path / "p.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match="damaged"):
        read_prices(tmp_path / "p.parquet")
    with pytest.raises(InputError, match="no such file"):
        read_market("nowhere.parquet")
