"""The rows of a bill keep the rules of FOCUS 1.2, whatever is billed and however."""

import polars as pl
import pytest
from support_focus import broken, read_rows
from support_traces import write_trace

LOG = """job_id,user,group,submit_time,start_time,end_time,num_gpus,gpu_type,state
a,ann,vision,2026-01-05T00:00:00Z,2026-01-05T00:00:00Z,2026-01-09T12:30:07Z,6,A100-80GB,COMPLETED
b,bob,nlp,2026-01-06T03:00:00Z,2026-01-06T04:00:00Z,2026-02-03T00:00:00Z,4,A100-80GB,COMPLETED
c,cyd,,2026-01-20T00:00:00Z,2026-01-20T00:00:00Z,2026-01-20T07:00:01Z,2,H100-80GB,FAILED
d,ann,"vision, 2",2026-01-31T20:00:00Z,2026-01-31T22:10:00Z,2026-02-01T09:00:00Z,1,H100-80GB,FAILED
e,eve,nlp,2026-02-10T00:00:00Z,2026-02-10T00:00:00Z,2026-02-12T01:01:01Z,0.5,T4,COMPLETED
"""
BOOK = """
[[owned]]
gpu_type = "A100-80GB"
gpus = 4
usd_per_gpu_h = {owned}

[[commitment]]
gpu_type = "A100-80GB"
gpus = 3
usd_per_gpu_h = 1.013
from = 2026-01-07

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 1.77

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 1.93
from = 2026-01-08T06:00:00Z

[[price]]
gpu_type = "H100-80GB"
kind = "marketplace"
usd_per_gpu_h = 2.3333

[[price]]
gpu_type = "T4"
kind = "on_demand"
usd_per_gpu_h = 0.0
"""
WAYS = {
    "as it is": (),
    "months": ("--rows", "month"),
    "idle spread": ("--idle", "spread"),
    "by two": ("--by", "group,type", "--rows", "month"),
    "one month": ("--months", "2026-01"),
    "two months": ("--months", "2026-01,2026-02", "--rows", "month"),
    "a part": ("--from", "2026-01-06T12:00:00", "--to", "2026-02-01T08:30:00"),
    "elsewhere": ("--time-zone", "America/St_Johns"),
    "names": ("--account", "acct-1", "--issuer", "Acme", "--invoice-id", "INV-1"),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("focus")
    (folder / "jobs.csv").write_text(LOG)
    for name, rate in {"book": "0.3501", "free": "0.0"}.items():
        (folder / f"{name}.toml").write_text(BOOK.format(owned=rate))
    return folder / "jobs.csv"


def rows_of(gpuplan, log, out, *words):
    code, _, err = gpuplan("bill", log, *words, "-o", out, "-q")
    assert code == 0, err
    return read_rows(out)


@pytest.mark.parametrize("book", ["book", "free"])
@pytest.mark.parametrize("way", WAYS)
def test_rows_keep_the_rules(gpuplan, log, tmp_path, book, way):
    contracts = ("--contracts", log.with_name(f"{book}.toml"))
    rows = rows_of(gpuplan, log, tmp_path / "rows.csv", *contracts, *WAYS[way])
    assert broken(rows) == []
    assert set(rows["ChargeCategory"]) == {"Usage", "Purchase"}
    assert set(rows["CommitmentDiscountStatus"]) == {"Used", "Unused", None}
    assert {"Standard", "Committed", "Dynamic"} == set(rows["PricingCategory"])


def test_each_pool_is_used_and_unused_as_bought(gpuplan, log, tmp_path):
    owned = '[[owned]]\ngpu_type = "A100-80GB"\ngpus = {}\nusd_per_gpu_h = {}\n'
    book = tmp_path / "book.toml"
    pools = [(2, 0.5), (2, 0.5), (3, 0.7)]  # two equal ones, and one of another rate
    book.write_text("".join(owned.format(*pool) for pool in pools))
    words = ("--contracts", book, "--price", "A100=1.1,H100=2.2,T4=0.3")
    rows = rows_of(gpuplan, log, tmp_path / "rows.csv", *words)
    assert broken(rows) == []
    hours = {}
    for row in rows.filter(pl.col("CommitmentDiscountId").is_not_null()).to_dicts():
        is_bought = row["ChargeCategory"] == "Purchase"
        key = (row["CommitmentDiscountId"], row["SkuPriceId"], row["ContractedUnitPrice"])
        bought, used = hours.get(key, (0, 0))
        amount = float(row["PricingQuantity"])
        hours[key] = (bought + amount * is_bought, used + amount * (not is_bought))
    assert [float(rate) for _, _, rate in sorted(hours)] == [0.5, 0.7]
    assert len({ident for ident, _, _ in hours}) == len({sku for _, sku, _ in hours}) == 2
    for bought, used in hours.values():
        assert used == pytest.approx(bought, abs=1e-6)
    billed = sum(float(usd) for usd in rows["BilledCost"])
    assert billed == pytest.approx(sum(float(usd) for usd in rows["EffectiveCost"]), abs=1e-4)


def test_rows_without_a_pool_keep_the_rules(gpuplan, log, tmp_path):
    prices = ("--price", "A100=1.1,H100=2.2,T4=0.3", "--by", "user")
    rows = rows_of(gpuplan, log, tmp_path / "rows.csv", *prices)
    assert broken(rows) == [] and set(rows["ChargeCategory"]) == {"Usage"}


@pytest.mark.parametrize(
    "words",
    [
        ("--idle", "spread", "--invoice-id", "INV-1"),
        ("--rows", "month", "--by", "cost_center,gpu_type"),
    ],
)
def test_rows_of_the_company_keep_the_rules(gpuplan, shared, tmp_path, words):
    folder = shared / "data" / "company"
    if not folder.is_dir():
        pytest.skip("the company of known truth (../shared/data/company) is not here")
    contracts = ("--contracts", folder / "contracts.toml")
    log = folder / "jobs.csv.gz"
    assert broken(rows_of(gpuplan, log, tmp_path / "rows.csv", *contracts, *words)) == []


@pytest.fixture(scope="module")
def good(log):
    from gpuplan.cli.app.main import main

    out, book = log.with_name("rows.csv"), log.with_name("book.toml")
    assert main(["bill", str(log), "--contracts", str(book), "-o", str(out), "-q"]) == 0
    return read_rows(out)


FREE = {"InvoiceId", "ChargeClass"}
"""Columns that may have a value or none."""


def test_every_column_is_under_a_rule(good):
    for column in set(good.columns) - FREE:
        values = good[column]
        other = [None if text is not None else "x" for text in values]
        if column == "CommitmentDiscountStatus":
            other = [{"Used": "Unused", "Unused": "Used"}.get(text) for text in values]
        spoiled = good.with_columns(pl.Series(column, other, dtype=pl.String()))
        assert broken(spoiled), column


@pytest.mark.parametrize(
    ("rule", "where", "column", "value"),
    [
        ("BilledCost-C-decimal", "Usage", "BilledCost", "1e3"),
        ("ChargePeriodEnd-C-time", "Usage", "ChargePeriodEnd", "2026-01-09"),
        ("EffectiveCost-C-005-C", "Purchase", "EffectiveCost", "1.0"),
        ("DiscountHandling-A-009-C", "Used", "BilledCost", "1.0"),
        ("DiscountHandling-A-011-C", "Unused", "EffectiveCost", "0.0"),
        ("CommitmentDiscountQuantity-C-012-C", "Used", "CommitmentDiscountQuantity", "0.0"),
        ("CommitmentDiscountStatus-C-004-C", "Used", "CommitmentDiscountStatus", None),
        ("ConsumedQuantity-C-004-C", "Unused", "ConsumedQuantity", "1.0"),
        ("ConsumedQuantity-C-006-C", "Used", "ConsumedQuantity", None),
        ("PricingCategory-C-009-C", "Used", "PricingCategory", "Standard"),
        ("PricingCategory-C-007-M", "Purchase", "PricingCategory", "On-Demand"),
        ("ListCost-C-009-C", "Usage", "ListUnitPrice", "0.123"),
        ("ListUnitPrice-C-005-C", "Purchase", "ListUnitPrice", None),
        ("ListUnitPrice-C-non-negative", "Usage", "ListUnitPrice", "-1.0"),
        ("ResourceType-C-005-C", "Usage", "ResourceType", "GPU"),
        ("SkuPriceId-C-012-C", "Usage", "SkuPriceId", "one/for/all"),
        ("Tags-C-003-M", "Usage", "Tags", '{"group": null}'),
        ("SubAccountId-C-005-C", "Used", "SubAccountId", None),
        ("no empty rows", "Usage", "PricingQuantity", "0.0"),
    ],
)
def test_a_rule_finds_rows_that_break_it(good, rule, where, column, value):
    is_there = pl.any_horizontal(
        pl.col("ChargeCategory") == where,
        pl.col("CommitmentDiscountStatus").fill_null("") == where,
    )
    changed = {column: pl.lit(value)}
    if rule == "no empty rows":
        changed["ListCost"] = pl.lit("0.0")
    spoiled = good.with_columns(
        pl.when(is_there).then(text).otherwise(pl.col(name)).alias(name)
        for name, text in changed.items()
    )
    assert rule in {problem.rule for problem in broken(spoiled)}


def test_a_bill_of_decades_has_rows_of_months(gpuplan, tmp_path):
    """A wrong time makes a bill of a century: 36,500 days would be as many rows."""
    for years, is_by_day in ((19, True), (100, False)):
        path = write_trace(tmp_path / "log.parquet", [0.0], [years * 365 * 86_400.0])
        code, out, err = gpuplan("bill", path, "--price", "1", "--output-format", "csv")
        assert code == 0, err
        assert ("rows of .csv and .parquet are of months" in err) != is_by_day
        assert (len(out.splitlines()) > years * 365) == is_by_day
