"""Invoices and logs of a made-up company, as tables."""

import csv
import gzip
import io

FOCUS = {
    "BillingAccountId": "a-1",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-01-01T00:00:00Z",
    "BillingPeriodEnd": "2026-02-01T00:00:00Z",
    "ChargePeriodStart": "2026-01-05T00:00:00Z",
    "ChargePeriodEnd": "2026-01-06T00:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeDescription": "",
    "BilledCost": "0",
    "EffectiveCost": "0",
    "ContractedUnitPrice": "",
    "PricingQuantity": "",
    "PricingUnit": "GPU-Hours",
    "PricingCategory": "Standard",
    "CommitmentDiscountId": "",
    "CommitmentDiscountStatus": "",
    "CommitmentDiscountQuantity": "",
    "ServiceName": "GPU Cloud",
    "SkuId": "",
    "ResourceId": "",
}
"""Column of FOCUS -> its cell where a row says nothing else."""


def day(number, **cells):
    """Return a row of a day of January 2026."""
    return {
        "ChargePeriodStart": f"2026-01-{number:02}T00:00:00Z",
        "ChargePeriodEnd": f"2026-01-{number + 1:02}T00:00:00Z",
        **cells,
    }


def usage(number, sku, hours, usd, **cells):
    """Return GPU-hours of a day at their dollars, billed when they are used."""
    costs = {"BilledCost": usd, "EffectiveCost": usd}
    return day(number, SkuId=sku, PricingQuantity=hours, **{**costs, **cells})


def focus_text(rows, *, separator=",", columns=None, drop=()):
    """Return rows as the text of a FOCUS file."""
    names = [name for name in columns or FOCUS if name not in drop]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, delimiter=separator, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({**FOCUS, **row} for row in rows)
    return out.getvalue()


def write_focus(path, rows, **form):
    """Write rows as a FOCUS file, packed where its name says so."""
    data = focus_text(rows, **form).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_log(path, jobs):
    """Write jobs as a log: group, start, end, GPUs and GPU type of each."""
    lines = ["job_id,group,submit_time,start_time,end_time,num_gpus,gpu_type"]
    for number, (group, start, end, gpus, gpu_type) in enumerate(jobs):
        lines.append(f"j{number},{group},{start},{start},{end},{gpus},{gpu_type}")
    path.write_text("\n".join(lines) + "\n")
    return path
