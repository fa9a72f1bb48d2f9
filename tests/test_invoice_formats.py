"""Invoices of any form: separators, packings, times, nulls; and what a SKU says of its GPUs."""

import gzip
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_invoices import FOCUS, day, focus_text, usage, write_focus

from gpuplan.analysis.base.errors import GpuplanError, InputError
from gpuplan.analysis.invoices.gpu_skus import Sku, SkuGpus, gpus_of, unit_hours
from gpuplan.analysis.invoices.read import is_invoice_column, read_invoice
from gpuplan.analysis.invoices.registry import INVOICE_FORMATS

ROWS = [
    usage(5, "gpu.h100.od", "10.5", "21.000001"),
    day(
        5,
        SkuId="gpu.h100.od",
        BilledCost="0",
        EffectiveCost="9.25",
        PricingQuantity="",
        CommitmentDiscountStatus="Unused",
        CommitmentDiscountQuantity="5",
        CommitmentDiscountId="c-1",
    ),
    usage(6, "", "", "-1.5", ChargeClass="Correction"),
    usage(6, "", "", "3", ChargeCategory="Tax", ResourceId="r, 1"),
]


def sums(invoice):
    return invoice.charges["billed"].sum(), invoice.charges["effective"].sum()


@pytest.fixture
def plain(tmp_path):
    return read_invoice([write_focus(tmp_path / "plain.csv", ROWS)])


def test_the_charges_of_a_focus_file(plain):
    charges = plain.charges
    assert charges["kind"].to_list() == ["usage", "unused", "correction", "tax"]
    assert sums(plain) == (Decimal("22.500001"), Decimal("31.750001"))
    assert charges["month"].unique().to_list() == ["2026-01"]
    assert charges["quantity"].to_list()[:2] == [Decimal("10.5"), Decimal(5)]
    assert (plain.inputs[0].rows, plain.formats, plain.warnings) == (4, ("focus",), ())


@pytest.mark.parametrize("form", ["gz", "bom", "crlf", "blank", ";", "\t", "|", "snake", "order"])
def test_the_form_of_a_file_changes_nothing(tmp_path, plain, form):
    text = focus_text(ROWS, separator=form if len(form) == 1 else ",")
    columns = list(FOCUS)
    if form == "order":
        text = focus_text(ROWS, columns=columns[::-1])
    if form == "snake":
        header, _, rest = text.partition("\n")
        text = header.replace("BilledCost", "billed_cost").upper() + "\n" + rest
    if form == "crlf":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if form == "blank":
        text = text.replace("\r\n", "\r\n\r\n")
    data = text.encode("utf-8-sig" if form == "bom" else "utf-8")
    path = tmp_path / "invoice.csv"
    path.write_bytes(gzip.compress(data) if form == "gz" else data)
    same = read_invoice([path]).charges
    assert same.drop("\0row").equals(plain.charges.drop("\0row"))


@pytest.mark.parametrize("word", ["NULL", "null", " ", "nan"])
def test_words_for_nothing_are_nothing(tmp_path, plain, word):
    rows = [{**FOCUS, **row} for row in ROWS]
    rows = [{name: cell if cell != "" else word for name, cell in row.items()} for row in rows]
    charges = read_invoice([write_focus(tmp_path / "null.csv", rows)]).charges
    assert charges.equals(plain.charges)


def test_decimal_commas_of_a_file_with_semicolons(tmp_path, plain):
    amounts = ("BilledCost", "EffectiveCost", "PricingQuantity")
    rows = [
        {name: cell.replace(".", ",") if name in amounts else cell for name, cell in row.items()}
        for row in ROWS
    ]
    path = write_focus(tmp_path / "comma.csv", rows, separator=";")
    assert sums(read_invoice([path])) == sums(plain)
    with pytest.raises(InputError, match="column 'PricingQuantity': found '10,5'"):
        read_invoice([write_focus(tmp_path / "quoted.csv", rows)])  # a thousand, or a point?


def test_parquet_of_any_types(tmp_path, plain):
    frame = pl.read_csv(write_focus(tmp_path / "a.csv", ROWS), infer_schema=False)
    frame = frame.with_columns(
        pl.col("BilledCost", "EffectiveCost").cast(pl.Decimal(20, 8)),
        pl.col("PricingQuantity").cast(pl.Float64),
        pl.col("^.*Period.*$").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC"),
        Tags=pl.lit([{"key": "team", "value": "a"}]),
    )
    frame.write_parquet(tmp_path / "a.parquet")
    invoice = read_invoice([tmp_path / "a.parquet"])
    assert sums(invoice) == sums(plain)
    assert invoice.charges["begin_us"].equals(plain.charges["begin_us"])


@pytest.mark.parametrize(
    "written",
    [
        "2026-01-01",
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00+02:00",
        "2026-01-01T00:00:00-08:00",
        "2026-01-01T02:00:00+02:00",
        "2025-12-31T19:00:00-05:00",
    ],
)
def test_the_month_is_that_of_the_billing_period(tmp_path, written):
    row = usage(5, "h100", "1", "2", BillingPeriodStart=written)
    assert read_invoice([write_focus(tmp_path / "i.csv", [row])]).charges["month"][0] == "2026-01"


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("BilledCost", "twelve", "found 'twelve'; expected a number such as 12.345"),
        ("EffectiveCost", "1e400", "found '1e400'; expected a number such as 12.345"),
        ("ChargePeriodStart", "5/1/26", "found '5/1/26'; expected a time such as"),
        ("ChargePeriodStart", "", "is empty; expected a time such as"),
        ("ChargePeriodEnd", "2026-01-01T00:00:00Z", "expected a time after its begin"),
        ("ChargeCategory", "Uage", "found 'Uage'; expected one of Usage, Purchase, Tax"),
        ("CommitmentDiscountStatus", "perhaps", "expected one of Used, Unused"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(tmp_path, column, cell, problem):
    path = write_focus(tmp_path / "i.csv", [ROWS[0], {**ROWS[0], column: cell}])
    with pytest.raises(InputError) as error:
        read_invoice([path])
    assert f"{path}:3: column {column!r}: " in str(error.value)
    assert problem in str(error.value)


def test_files_that_are_no_invoice(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="unrecognized invoice; its columns are a, b"):
        read_invoice([path])
    write_focus(path, ROWS, drop=("EffectiveCost",))
    with pytest.raises(InputError, match="no column EffectiveCost"):
        read_invoice([path])
    write_focus(path, [])
    with pytest.raises(InputError, match="has no charges"):
        read_invoice([path])
    path.write_text(focus_text(ROWS) + "a-1,USD\n")
    with pytest.raises(InputError, match=r"x\.csv:6: found 2 fields; expected 21 fields"):
        read_invoice([path])
    write_focus(path, [ROWS[0], {**ROWS[0], "BillingCurrency": "EUR"}])
    with pytest.raises(InputError, match="has amounts in EUR and USD"):
        read_invoice([path])


def test_rows_that_two_exports_share_count_once(tmp_path):
    first = write_focus(tmp_path / "1.csv", ROWS)
    second = write_focus(tmp_path / "2.csv", [*ROWS[1:], usage(7, "h100", "1", "2")])
    invoice = read_invoice([first, second])
    assert invoice.charges.height == 5
    assert invoice.warnings == ("3 charges in more than one file: counted once",)
    folder = read_invoice([tmp_path])
    assert sums(folder) == sums(invoice)


def test_equal_rows_of_one_file_count_and_are_named(tmp_path):
    invoice = read_invoice([write_focus(tmp_path / "i.csv", [ROWS[0], ROWS[0]])])
    assert sums(invoice)[0] == Decimal("42.000002")
    assert "1 row equal to an earlier one (first in row 3), $21.00 billed" in invoice.warnings[0]


def test_a_header_that_is_repeated_is_no_charge(tmp_path, plain):
    path = tmp_path / "i.csv"
    text = focus_text(ROWS)
    path.write_text(text + text)
    assert sums(read_invoice([path])) == tuple(2 * usd for usd in sums(plain))


def test_a_cost_that_is_missing_is_nothing_and_is_told(tmp_path):
    rows = [ROWS[0], {**ROWS[0], "EffectiveCost": ""}]
    invoice = read_invoice([write_focus(tmp_path / "i.csv", rows)])
    assert sums(invoice) == (Decimal("42.000002"), Decimal("21.000001"))
    assert "1 charge without effective cost (first in row 3): counted as $0" in invoice.warnings[0]


def test_columns_of_any_table_are_named_by_map(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("date,item,hours,amount\n2026-01-05,gpu h100,10,25\n2026-01-06,disk,,5\n")
    columns = {"BilledCost": "amount", "ChargePeriodStart": "date", "SkuId": "item"}
    invoice = read_invoice([path], {**columns, "PricingQuantity": "hours"})
    assert sums(invoice) == (30, 30)
    assert invoice.charges["kind"].to_list() == ["usage", "usage"]
    length = invoice.charges["end_us"] - invoice.charges["begin_us"]
    assert length.to_list() == [86_400 * 10**6] * 2
    with pytest.raises(InputError, match="no column 'price'"):
        read_invoice([path], {**columns, "EffectiveCost": "price"})
    assert is_invoice_column("BilledCost")
    assert not is_invoice_column("submit_time")


CUR = {
    "bill_billing_period_start_date": "2026-01-01T00:00:00.000Z",
    "line_item_usage_start_date": "2026-01-05T00:00:00.000Z",
    "line_item_usage_end_date": "2026-01-05T01:00:00.000Z",
    "line_item_line_item_type": "Usage",
    "line_item_usage_type": "USE1-BoxUsage:p5.48xlarge",
    "line_item_usage_amount": "1",
    "line_item_unblended_cost": "55.04",
    "line_item_currency_code": "USD",
    "pricing_unit": "Hrs",
    "product": '{"product_name": "Amazon Elastic Compute Cloud"}',
    "savings_plan_savings_plan_a_r_n": "",
    "savings_plan_savings_plan_effective_cost": "",
    "savings_plan_total_commitment_to_date": "",
    "savings_plan_used_commitment": "",
    "reservation_reservation_a_r_n": "",
    "reservation_effective_cost": "",
    "reservation_unused_amortized_upfront_fee_for_billing_period": "",
    "reservation_unused_recurring_fee": "",
}
PLAN = {"savings_plan_savings_plan_a_r_n": "arn:sp/1"}
RESERVED = {"reservation_reservation_a_r_n": "arn:ri/1"}


def item(name, cost, **cells):
    return {"line_item_line_item_type": name, "line_item_unblended_cost": cost, **cells}


AMORTIZED = [  # row, effective cost, of what
    (item("Usage", "55.04"), "55.04"),
    (
        item(
            "SavingsPlanCoveredUsage",
            "55.04",
            **PLAN,
            savings_plan_savings_plan_effective_cost="30",
        ),
        "30",
    ),
    (item("SavingsPlanNegation", "-55.04", **PLAN), "0"),
    (
        item(
            "SavingsPlanRecurringFee",
            "40",
            **PLAN,
            line_item_usage_type="ComputeSP:1yrNoUpfront",
            savings_plan_total_commitment_to_date="40",
            savings_plan_used_commitment="30",
        ),
        "10",
    ),
    (item("DiscountedUsage", "0", **RESERVED, reservation_effective_cost="33"), "33"),
    (
        item(
            "RIFee",
            "70",
            **RESERVED,
            line_item_usage_type="HeavyUsage:p5.48xlarge",
            reservation_unused_amortized_upfront_fee_for_billing_period="4",
            reservation_unused_recurring_fee="33",
        ),
        "37",
    ),
    (item("Fee", "1000", **RESERVED), "0"),
    (item("SavingsPlanUpfrontFee", "500", **PLAN), "0"),
    (item("EdpDiscount", "-5"), "-5"),
    (item("Tax", "7", line_item_usage_type=""), "7"),
    (item("Credit", "-2"), "-2"),
    (item("Usage", "55.04", line_item_usage_type="UnusedBox:p5.48xlarge"), "55.04"),
]


@pytest.mark.parametrize("older", [False, True])
def test_the_amortized_cost_of_a_cost_and_usage_report(tmp_path, older):
    rows = [{**CUR, **row} for row, _ in AMORTIZED]
    if older:
        rows = [{older_name(name): cell for name, cell in row.items()} for row in rows]
    path = tmp_path / "cur.csv"
    pl.DataFrame(rows).write_csv(path)
    invoice = read_invoice([path])
    charges = invoice.charges
    assert invoice.formats == ("aws-cur",)
    effective = charges.group_by("\0row").agg(pl.col("effective").sum()).sort("\0row")
    assert effective["effective"].to_list() == [Decimal(usd) for _, usd in AMORTIZED]
    billed = sum(Decimal(row["line_item_unblended_cost"]) for row, _ in AMORTIZED)
    assert charges["billed"].sum() == billed
    unused = charges.filter(pl.col("kind") == "unused")
    assert unused["effective"].to_list() == [10, 37]
    assert unused["billed"].to_list() == [0, 0]
    assert charges.filter(kind="purchase")["billed"].to_list() == [40, 70, 1000, 500]
    assert charges.filter(kind="usage")["quantity"].sum() == 3  # not a negation, not a discount
    assert charges.filter(kind="unused_capacity").height == 1


def older_name(name):
    """Return ``lineItem/UsageType`` of ``line_item_usage_type``."""
    for group in ("line_item", "bill", "savings_plan", "reservation", "pricing"):
        if name.startswith(f"{group}_"):
            words = group.split("_")
            rest = name.removeprefix(f"{group}_").split("_")
            first = words[0] + "".join(word.capitalize() for word in words[1:])
            return f"{first}/{''.join(word.capitalize() for word in rest)}"
    return name


TYPES = ("A100-80GB", "H100", "T4", "L40S", "L4")


@pytest.mark.parametrize(
    ("cells", "gpu_type", "hours"),
    [
        ({"sku": "gpu.a100-80gb.on-demand"}, "A100-80GB", 1),
        ({"sku": "GPU_A100_80GB"}, "A100-80GB", 1),
        ({"sku": "gpu.a100.on-demand"}, "A100-80GB", 1),  # the only A100 of the log
        ({"sku": "l40s-hourly"}, "L40S", 1),
        ({"sku": "gpu.t4.on-demand"}, "T4", 1),
        ({"sku": "GpuT4Hour"}, "T4", 1),
        ({"sku": "nvidia-h200-141gb"}, "H200-141GB", 1),  # in no log, a known GPU
        ({"sku": "OnDemandT4"}, "T4", 1),
        ({"sku": "gpu_8x_a100_80gb_sxm4"}, "A100-80GB", 8),
        ({"sku": "2xL4-spot", "unit": "Hours"}, "L4", 2),
        ({"sku": "8x-h100", "unit": "GPU-Hours"}, "H100", 1),
        ({"sku": "XL4-cpu"}, None, 0),
        ({"sku": "JRTCKXETXF8T4XYZ"}, None, 0),  # T4 stands there by chance
        ({"sku": "vm-small-4"}, None, 0),  # no L4
        ({"sku": "obj-store-std", "unit": "GB"}, None, 0),
        ({"sku": "h100-snapshots", "unit": "GB-Months"}, None, 0),
        ({"sku": "h100-cache", "service_category": "Storage"}, None, 0),
        ({"sku": "gpu.h100", "unit": "Seconds"}, "H100", Fraction(1, 3600)),
        ({"sku": "gpu.h100", "unit": "100 Hours"}, "H100", 100),
        ({"texts": "USE1-BoxUsage:p5.48xlarge"}, "H100", 8),
        ({"texts": "$55 per On Demand Linux p5.48xlarge Instance Hour"}, "H100", 8),
        ({"texts": "BoxUsage:t4g.medium"}, None, 0),  # a processor, not the GPU T4G
        ({"sku": "BoxUsage:p4d.24xlarge"}, "A100-40GB", 8),  # not the GPU P4
        ({"texts": "Storage of bucket g5-checkpoints"}, None, 0),
        ({"texts": "Standard_ND96isr_H100_v5"}, "H100", 8),
        ({"texts": "Standard_NV6ads_A10_v5"}, "A10", Fraction(1, 6)),
        ({"texts": "Standard_A2_v2"}, None, 0),
        ({"texts": "a2-highgpu-4g in Iowa"}, "A100-40GB", 4),
        ({"texts": "Nvidia H100 80GB GPU running in Iowa"}, "H100", 1),
        ({"details": '{"InstanceType": "p5.48xlarge", "GpuCount": 8}'}, "H100", 8),
        ({"details": '{"InstanceType": "p5.48xlarge"}', "unit": "GPU-Hours"}, "H100", 1),
        ({"details": '{"product": [{"key": "instance_type", "value": "g6.12xlarge"}]}'}, "L4", 4),
        ({"details": '{"InstanceType": "p9.48xlarge", "GpuCount": 4}'}, "p9.48xlarge", 4),
        ({"details": "{not json"}, None, 0),
        ({"sku": "GX4-M"}, "RTX4090", 1),  # as the user says
    ],
)
def test_the_gpus_of_a_sku(cells, gpu_type, hours):
    sku = Sku(**{"sku": None, "service_category": None, "texts": "", "details": None,
                 "unit": None} | cells)  # fmt: skip
    gpus = gpus_of(sku, TYPES, {"gx4-m": "RTX4090"})
    assert (gpus and gpus.gpu_type, gpus.gpu_h if gpus else 0) == (gpu_type, hours)


@pytest.mark.parametrize(
    ("unit", "hours"),
    [("Hrs", 1), ("GPU-Hours", 1), ("instance-hours", 1), ("minutes", Fraction(1, 60)),
     ("Days", 24), ("24 hours", 24), (f"{'9' * 5000}h", None), (f"1{' ' * 9000}!", None),
     ("GB", None), ("GB-Hours", None), ("vCPU-Hours", None), ("Requests", None)],
)  # fmt: skip
def test_units_of_time(unit, hours):
    found = unit_hours(unit)
    assert (found and found[0]) == hours


@pytest.mark.parametrize("count", ['"1e99999999"', "1e308", '"8e"', "-8", "0", '"1/8"'])
def test_gpus_of_a_sku_that_no_machine_has_are_not_read(count):
    sku = Sku("gx4-m", None, "", f'{{"GpuCount": {count}}}', "Hours")
    gpus = gpus_of(sku, TYPES, {"gx4-m": "RTX4090"})
    assert gpus is not None and gpus.gpu_h == 1


AMOUNTS = st.decimals(-(10**9), 10**9, places=9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, st.sampled_from(list("ab;'\"\n|"))), min_size=1))
def test_no_amount_is_lost(tmp_path_factory, amounts):
    rows = [
        {"BilledCost": f"{billed:f}", "EffectiveCost": f"{effective:f}", "ResourceId": name * 3}
        for billed, effective, name in amounts
    ]
    path = tmp_path_factory.mktemp("law") / "i.csv"
    invoice = read_invoice([write_focus(path, rows)])
    assert invoice.charges.height == len(rows)
    assert sums(invoice) == tuple(sum(row[column] for row in amounts) for column in (0, 1))


@given(st.integers(0, 600), st.sampled_from([b"", b'"', b",", b"\n", b"1e999", b"\xff", b"-"]),
       st.integers(0, 30))  # fmt: skip
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, at, added, removed):
    data = focus_text(ROWS).encode()
    path = tmp_path_factory.mktemp("law") / "i.csv"
    path.write_bytes(data[:at] + added + data[at + removed :])
    with suppress(GpuplanError):
        assert read_invoice([path]).charges.height > 0


def test_every_format_is_recognized_by_its_own_columns():
    assert set(INVOICE_FORMATS) == {"aws-cur", "focus", "opencost"}
    for invoice_format in INVOICE_FORMATS.values():
        assert invoice_format.description
        for name in invoice_format.columns:
            assert invoice_format.as_named(name) == name


def test_a_map_of_parquet_names_the_instance(tmp_path):
    row = {name: cell or None for name, cell in CUR.items()} | {
        "line_item_usage_type": "Reservation",
        "line_item_unblended_cost": 55.04,
        "line_item_usage_amount": 1.0,
        "line_item_usage_start_date": datetime(2026, 1, 5, tzinfo=UTC),
        "product": [("instance_type", "p5.48xlarge"), ("region", "us-east-1")],
    }
    kinds = {"product": pa.map_(pa.string(), pa.string())}
    table = pa.table({name: pa.array([cell], kinds.get(name)) for name, cell in row.items()})
    pq.write_table(table, tmp_path / "cur.parquet")
    (charge,) = read_invoice([tmp_path / "cur.parquet"]).charges.rows(named=True)
    sku = Sku(charge["sku"], None, charge["texts"], charge["details"], charge["unit"])
    gpus = gpus_of(sku, TYPES, {})
    assert gpus == SkuGpus("H100", Fraction(8))
    assert charge["billed"] == Decimal("55.04")


def test_a_log_is_no_invoice_and_an_invoice_no_log(gpuplan, tmp_path):
    log, invoice = tmp_path / "jobs.csv", tmp_path / "invoice.csv"
    log.write_text(
        "job_id,submit_time,start_time,end_time,num_gpus,gpu_type\n"
        "1,2026-01-05T00:00:00,2026-01-05T00:00:00,2026-01-05T10:00:00,8,H100\n"
    )
    invoice.write_text(
        "BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,EffectiveCost\n"
        "2026-01-01T00:00:00Z,2026-01-05T00:00:00Z,2026-01-06T00:00:00Z,Usage,20,20\n"
    )
    with pytest.raises(InputError, match=r"jobs.csv: is a job log \(.*\), not an invoice"):
        read_invoice([log])
    code, _, err = gpuplan("waits", invoice)
    assert code == 3
    assert "invoice.csv: is an invoice (focus: " in err and "--invoice" in err


def test_use_with_hours_and_dollars_of_different_signs_is_told(tmp_path):
    rows = [ROWS[0], usage(5, "gpu.h100.od", "-10.5", "21.000001")]
    invoice = read_invoice([write_focus(tmp_path / "i.csv", rows)])
    assert sums(invoice)[0] == Decimal("42.000002")
    (warning,) = invoice.warnings
    assert (
        "1 charge of use with a quantity and a cost of different signs (first in row 3)" in warning
    )
