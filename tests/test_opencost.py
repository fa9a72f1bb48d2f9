"""Allocations of OpenCost beside a log: GPUs, idle ones, and the rest; worked by hand."""

import json
from decimal import Decimal

import pytest
from support_invoices import write_log

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.invoices.read import read_invoice


def allocation(day, name="p1", *, hours=96.0, gpus=200.0, total=230.5, node="gpu-1", **more):
    """Return an allocation of a day of January 2026."""
    start, end = (f"2026-01-{number:02}T00:00:00Z" for number in (day, day + 1))
    return {
        "name": name,
        "properties": {"node": node, "pod": name, "namespace": "team-a",
                       "labels": more.pop("labels", None)},
        "window": {"start": start, "end": end}, "start": start, "end": end,
        "minutes": 1440, "gpuCount": 4, "gpuHours": hours, "gpuCost": gpus, "totalCost": total,
        **more,
    }  # fmt: skip


def idle(day):
    return allocation(day, "__idle__", hours=None, gpus=50.0, total=60.0, node="", gpuCount=None)


def write(path, *steps, code=200, **more):
    data = [{each["name"]: each for each in step} for step in steps]
    path.write_text(json.dumps({"code": code, "data": data, **more}, indent=1))
    return path


def test_an_allocation_is_a_charge_for_gpus_and_one_for_the_rest(tmp_path):
    cpu = allocation(6, "cpu", hours=0.0, gpus=0.0, total=7.25)
    path = write(tmp_path / "o.json", [allocation(5), idle(5)], [allocation(6), cpu])
    invoice = read_invoice([path])
    rows = invoice.charges.select("kind", "effective", "quantity", "unit").rows()
    assert rows == [
        ("usage", Decimal(200), Decimal(96), "GPU-Hours"),
        ("usage", Decimal("30.5"), None, "allocation"),
        ("unused_capacity", Decimal(50), Decimal(0), "GPU-Hours"),
        ("usage", Decimal(10), None, "allocation"),
        ("usage", Decimal(200), Decimal(96), "GPU-Hours"),
        ("usage", Decimal("30.5"), None, "allocation"),
        ("usage", Decimal("7.25"), None, "allocation"),
    ]
    assert invoice.formats == ("opencost",) and not invoice.warnings
    assert invoice.charges["month"].unique().to_list() == ["2026-01"]


def test_missing_numbers_and_adjustments(tmp_path):
    no_hours = allocation(5, "a", hours=None, gpus=1e-05, total=None, gpuCostAdjustment=2.0)
    path = write(tmp_path / "o.json", [no_hours], [])
    row = read_invoice([path]).charges.row(0, named=True)
    assert (row["quantity"], row["effective"]) == (96, Decimal("2.00001"))  # 4 GPUs for a day


def test_dollars_without_hours_are_no_rate_of_gpu_hours(tmp_path):
    unknown = allocation(5, "a", hours=None, gpus=50.0, total=50.0, gpuCount=None)
    invoice = read_invoice([write(tmp_path / "o.json", [unknown, allocation(5)])])
    rows = invoice.charges.select("service", "effective", "quantity", "sku").rows()
    assert rows[0] == ("GPUs, hours unknown", Decimal(50), None, None)
    assert rows[1] == ("GPUs", Decimal(200), Decimal(96), "gpu-1")


def test_corrections_and_idle_costs_may_be_negative(tmp_path):
    below = allocation(5, "__idle__", hours=None, gpus=-5.0, total=-6.0, gpuCount=None)
    corrected = allocation(5, gpuCostAdjustment=-20.0)
    invoice = read_invoice([write(tmp_path / "o.json", [corrected, below])])
    assert invoice.charges["effective"].sum() == Decimal("230.5") - 6


def test_steps_without_allocations_are_told(tmp_path):
    path = tmp_path / "o.json"
    steps = [None, {"p1": allocation(6)}, {}, {"p1": allocation(8)}]
    path.write_text(json.dumps({"code": 200, "data": steps}))
    assert read_invoice([path]).warnings == (
        f"{path}: 2 of 4 steps have no allocations (first step 1): nothing is billed for that time",
    )


@pytest.fixture
def bill(gpuplan, tmp_path):
    """Return what a bill says of an invoice beside a log of 4 H100 for 44 hours."""

    def made(path, *options):
        job = ("team-a", "2026-01-05T00:00:00Z", "2026-01-06T20:00:00Z", 4, "H100")
        log = write_log(tmp_path / "jobs.csv", [job])
        code, out, err = gpuplan(
            "bill", log, "--invoice", path, "--output-format", "json", *options
        )
        assert code == 0, err
        return json.loads(out)["results"]["invoice"]

    return made


def test_the_log_explains_what_its_jobs_held(bill, tmp_path):
    cpu = allocation(6, "cpu", hours=0.0, gpus=0.0, total=7.25)
    path = write(tmp_path / "o.json", [allocation(5), idle(5)], [allocation(6), idle(6), cpu])
    found = bill(path)
    lines = {line["kind"]: line for line in found["lines"] if line["kind"] != "invoice"}
    # On 6 January 96 GPU-hours are billed and 80 are in the log: 200 * 80 / 96 is explained.
    assert lines["log"]["effective_usd"] == round(200 + 200 * 80 / 96, 2)
    assert lines["not_in_log"]["effective_usd"] == round(200 * 16 / 96, 2)
    assert lines["unused_capacity"]["effective_usd"] == pytest.approx(100)
    total = sum(line["effective_usd"] for line in lines.values())
    assert total == pytest.approx(2 * 230.5 + 2 * 60 + 7.25)


def words_of(gpuplan, *arguments):
    code, out, err = gpuplan("bill", *arguments)
    assert code == 0, err
    return " ".join(out.split("\n\n")[0].split()), out


def test_the_answer_compares_opencost_and_the_log(gpuplan, tmp_path):
    job = ("team-a", "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z", 6, "H100")
    log = write_log(tmp_path / "jobs.csv", [job])
    path = write(tmp_path / "o.json", [allocation(5), idle(5)])
    answer, out = words_of(gpuplan, log, "--price", "H100=2.5", "--invoice", path)
    # 6 GPUs for 24 h are 144 GPU-hours, 360 dollars.
    assert answer.startswith(
        "OpenCost: $200 for 96 GPU-hours of pods; your log: $360 for 144. "
        "The log has 48 more ($160 more). "
        "January 2026: $290 of charges in all"
    )
    assert "is idle" in answer and "idle (OpenCost)" in out
    assert "reservation" not in out and "commitment" not in out


def test_jobs_still_running_are_told_beside_the_difference(gpuplan, tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text(
        "job_id,submit_time,start_time,end_time,num_gpus,gpu_type,user,state\n"
        "1,2026-01-05T00:00:00Z,2026-01-05T00:00:00Z,2026-01-06T00:00:00Z,4,H100,a,COMPLETED\n"
        "2,2026-01-05T00:00:00Z,2026-01-05T00:00:00Z,,2,H100,a,RUNNING\n"
    )
    columns = ("submit_time", "start_time", "end_time", "num_gpus", "gpu_type", "user", "state")
    maps = [part for name in columns for part in ("--map", f"{name}={name}")]
    path = write(tmp_path / "o.json", [allocation(5)])
    answer, _ = words_of(gpuplan, log, *maps, "--price", "H100=2.5", "--invoice", path)
    assert "The log has 48 more" in answer
    assert "jobs still running hold 48 GPU-hours of it so far." in answer


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ({"labels": {"nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"}}, ()),
        ({"labels": {"node.kubernetes.io/instance-type": "p4de.24xlarge"}}, ()),
        ({"node": "pool-a100-80gb-3"}, ()),
        ({"node": "n7"}, ("--sku", "n7=A100-80GB")),
    ],
)
def test_what_tells_the_gpu_type(bill, tmp_path, where, options):
    path = write(tmp_path / "o.json", [allocation(5, **where)])
    found = bill(path, "--price", "H100=2", *options)
    row = next(row for row in found["gpu_types"] if row["billed_gpu_h"])
    assert row["gpu_type"].startswith("A100") and row["log_gpu_h"] == 0  # the log has H100 alone
    assert row["billed_gpu_h"] == 96


@pytest.mark.parametrize(
    "node",
    ["ip-10-0-12-34.ec2.internal", "ip-10-0-4-0.ec2.internal", "gke-prod-a2-pool-1f2e", "h1-00"],
)
def test_the_name_of_a_node_is_read_by_whole_parts(bill, tmp_path, node):
    path = write(tmp_path / "o.json", [allocation(5, node=node)])
    rows = bill(path, "--price", "H100=2")["gpu_types"]
    assert [row["gpu_type"] for row in rows if row["billed_gpu_h"]] == ["H100"]  # the log has one


def test_other_types_with_as_many_hours_are_a_difference(gpuplan, tmp_path):
    job = ("team-a", "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z", 4, "H100")
    log = write_log(tmp_path / "jobs.csv", [job])
    path = write(tmp_path / "o.json", [allocation(5, node="pool-a100-80gb")])
    answer, _ = words_of(gpuplan, log, "--price", "H100=2.5", "--invoice", path)
    assert "as many hours, but of other GPUs: A100-80GB by OpenCost, H100 in the log" in answer
    assert "no real difference" not in answer


def written(*, repeated=False, **cells):
    """Return an answer with an allocation, in two steps where it is repeated."""
    row = allocation(5, **{key: cells.pop(key) for key in ("hours", "gpus") if key in cells})
    return json.dumps({"code": 200, "data": [{"p1": {**row, **cells}}] * (1 + repeated)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"code": 500, "message": "boom", "data": [{"a": {"gpuCost": 1}}]}', "failed: 500 boom"),
        ('{"code": 200, "data": [{"a": {"gpuCost": "x", "totalCost": 1}}]}', "cannot be read"),
        ('{"code": 200, "data": [{"a": {"gpuCost": 1, "totalCost": 2}}]}', "window.start.*empty"),
        ('{"code": 200, "data": [{"a": {"gpuCost": 1, "totalCost"', "cannot be read"),
        ('{"code": 500, "message": "bo\\"om", "data": null}', "failed: 500 bo"),
        ('{"code":500,"data":null,"message":"boom"}', "failed: 500 boom"),
        ('{"code": 200, "data": []}', "no allocations in that window"),
        ('{"code": 200, "status": "success", "data": [null, {}, { }]}', "no allocations in"),
        (written(gpus="NaN"), "'gpuCost': allocation 'p1': found nan"),
        (written(hours="-Infinity"), "'gpuHours': allocation 'p1': found -inf"),
        (written(hours=-8.0), "'gpuHours': allocation 'p1': found -8; expected a number of at"),
        (written(gpus=-1.0), "'gpuCost': allocation 'p1': found -1"),
        (written(minutes=-60), "'minutes': allocation 'p1': found -60"),
        (written(repeated=True), "'p1' is there twice for 2026-01-05T00:00:00Z to 2026-01-06"),
        ("Date,Namespace,Pod,Container,GPUs,GPUCost,TotalCost\n2026-01-05,n,p,c,8,20,21\n",
         "no GPU-hours.*\n  next: curl .*--invoice"),
    ],
)  # fmt: skip
def test_answers_that_are_no_bill_are_refused(tmp_path, text, said):
    path = tmp_path / "o.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_invoice([path])


def test_an_empty_answer_is_no_log(gpuplan, tmp_path):
    path = tmp_path / "o.json"
    path.write_text('{"code": 200, "data": []}')
    code, _, err = gpuplan("ingest", path, "-o", tmp_path / "t.parquet")
    assert code == 3 and "is an answer of OpenCost without allocations" in err


def test_hours_of_the_log_outside_of_the_invoice_are_told_apart(gpuplan, tmp_path):
    """The log holds 4 GPUs from 5 to 7 January, OpenCost has the 6th: 96 of 288 hours."""
    path = write(tmp_path / "o.json", [allocation(6)])
    days = [(f"2026-01-0{day}T00:00:00Z", f"2026-01-0{day + 1}T00:00:00Z") for day in (5, 6, 7)]
    log = write_log(tmp_path / "log.csv", [("a", *day, 4, "H100") for day in days])
    words = ("bill", log, "--price", "H100=2", "--invoice", path)
    code, out, err = gpuplan(*words)
    said = " ".join(out.split())
    assert code == 0, err
    assert "your log: 96 in the time of the invoice, 2026-01-06 (in all 288): no real diff" in said
    assert "Invoice by month, 2026-01-06" in said and "in these months" not in said
    code, out, _ = gpuplan(*words, "--output-format", "json")
    invoice = json.loads(out)["results"]["invoice"]
    assert (invoice["begin"], invoice["log_gpu_h"]) == ("2026-01-06T00:00:00Z", 96)
