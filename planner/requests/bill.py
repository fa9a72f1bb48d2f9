"""What ``gpuplan bill`` is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.job_table.log_options import mapping_texts
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.declaration import COST, OF_BOOK, WORKLOAD, StudyRequest, study
from gpuplan.planner.requests.delays import DelayRequest
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.trace import TRACE

PEAK = "peak"
NO_LABELS = ("submit_time", "start_time", "end_time", "queue_s", "duration_s")
"""Columns that are of every job alone."""
MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
Pools = tuple[tuple[str | None, int], ...]
"""GPU type and GPUs of each pool of a cluster; None for GPUs of any type."""


def parse_skus(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return SKU -> GPU type of ``GX4-M=RTX4090``. Raises `UsageError` for a text that is none."""
    skus: dict[str, str] = {}
    for text in texts:
        sku, equals, name = (part.strip() for part in text.rpartition("="))
        if not (sku and equals and name):
            raise UsageError(f"{option} {text!r}: expected SKU=TYPE, such as GX4-M=RTX4090")
        if skus.setdefault(sku, gpu_name(name)) != gpu_name(name):
            raise UsageError(f"{option} {text!r}: {sku} is already {skus[sku]}")
    return skus


@dataclass(frozen=True, slots=True)
class FocusRequest:
    """How the rows of a bill are written as FOCUS."""

    PANEL: ClassVar[str] = "Rows as FOCUS"

    rows: Annotated[
        Literal["day", "month"],
        Opt(
            "What a row of a .csv or .parquet file covers: a day (UTC) or a month. Of a bill of "
            "over 20 years a month."
        ),
    ] = "day"
    account: Annotated[
        str | None,
        Opt("Billing account in the rows. Default: the name of the log."),
    ] = None
    issuer: Annotated[
        str | None, Opt("Who issues the invoice, in the rows. Default: own cluster.")
    ] = None
    invoice_id: Annotated[str | None, Opt("InvoiceId of the rows. Default: none.")] = None


@dataclass(frozen=True, slots=True)
class InvoiceRequest:
    """What an invoice is compared with the log by."""

    PANEL: ClassVar[str] = "Invoice"

    invoice: Annotated[
        tuple[Path, ...],
        Opt(
            "Invoice to compare with the log: FOCUS or AWS CUR 2.0, CSV or Parquet; a file or a "
            "folder. May be repeated. --map BilledCost=COLUMN reads other tables.",
            metavar="FILE",
            many=True,
            common=True,
        ),
    ] = ()
    sku: Annotated[
        Mapping[str, str],
        Opt(
            "GPU type of a SkuId that does not name it: GX4-M=RTX4090. May be repeated.",
            parse=parse_skus,
            write=mapping_texts,
            metavar="SKU=TYPE",
            many=True,
        ),
    ] = field(default_factory=dict)
    contracts_out: Annotated[
        Path | None,
        Opt(
            "Write the prices and commitments that the invoice shows as a price book (.toml).",
            key=None,
            metavar="FILE.toml",
            writes=True,
        ),
    ] = None


@study(
    "bill",
    title="What it costs a month, and who pays",
    picture="What each month cost, by who pays",
    example="gpuplan bill trace.parquet --contracts contracts.toml --by group,type",
    doing="billing",
    usual_for=OF_BOOK,
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "usd_per_month": (COST, "monthly bill"),
        "idle_usd_per_month": (COST, "idle part of the bill"),
    },
)
@dataclass(frozen=True, slots=True)
class BillRequest(StudyRequest):
    """Show what a log costs, who pays, and what changed.

    Attributes:
        jobs: which of its jobs.
        prices: what GPUs cost.
        delays: whether to show who makes whom wait.
        invoices: an invoice to compare with the log.
        focus: how its rows are written.
    """

    trace: Annotated[Path, TRACE]
    jobs: Annotated[Selection, Group(without=("spot",))] = field(default_factory=Selection)
    prices: Annotated[PriceRequest, Group(common=("contracts",))] = field(
        default_factory=PriceRequest
    )
    by: Annotated[
        str,
        Opt(
            "What to split the bill by: group, user, type, class, or a column of the log; two with "
            "a comma, such as group,type.",
            metavar="WHAT[,WHAT]",
            common=True,
            complete=("group", "user", "type", "class"),
        ),
    ] = "group"
    months: Annotated[
        str | None,
        Opt(
            "Bill this calendar month, or two and what changed between them: 2026-03,2026-04.",
            metavar="MONTH[,MONTH]",
            common=True,
            omitted=True,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs that you pay for, busy or not, at the price of their type: 64, 8x4, "
            "A100=8x4,T4=16, or peak for the most that jobs held at once. Default: only GPUs that "
            "jobs hold.",
            metavar="SHAPE|peak",
            common=True,
        ),
    ] = None
    idle: Annotated[
        Literal["apart", "spread"],
        Opt(
            "Who pays for idle GPUs: a row apart, or the jobs of the GPU type and month by their "
            "GPU-hours (spread).",
            metavar="WHO",
        ),
    ] = "apart"
    delays: DelayRequest = field(default_factory=DelayRequest)
    invoices: InvoiceRequest = field(default_factory=InvoiceRequest)
    focus: Annotated[FocusRequest, Group(in_json=False)] = field(default_factory=FocusRequest)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the bill is split by, one or two columns. Raises `UsageError`."""
        columns = tuple(name.strip() for name in self.by.split(","))
        if not all(columns) or len(columns) > 2 or len(set(columns)) < len(columns):
            raise UsageError(
                f"--by {self.by}: expected one column or two different ones, such as group,type"
            )
        measured = [name for name in columns if name in NO_LABELS]
        if measured:
            raise UsageError(
                f"--by {self.by}: {measured[0]} is measured of each job, and no label\n"
                "  next: --by group, user, type, class, or a column of labels"
            )
        return columns

    def month_names(self) -> tuple[str, ...]:
        """Return the months asked for, ``2026-03``. Raises `UsageError`."""
        if self.months is None:
            return ()
        names = tuple(name.strip() for name in self.months.split(","))
        are_months = all(MONTH.fullmatch(name) for name in names)
        if not are_months or len(names) > 2 or len(set(names)) < len(names):
            raise UsageError(
                f"--months {self.months}: expected one month or two different ones, such as "
                "2026-03,2026-04"
            )
        return names

    @property
    def is_peak(self) -> bool:
        """Whether the cluster is the most GPUs that jobs held at once."""
        return self.cluster is not None and self.cluster.strip().lower() == PEAK

    def pools(self) -> Pools | None:
        """Return the pools of the cluster; None without one. Raises `UsageError`."""
        if self.cluster is None or self.is_peak:
            return None
        pools: list[tuple[str | None, int]] = []
        for pool in read_shape(self.cluster, "--cluster").pools:
            if pool.gpus is None:
                raise UsageError(
                    f"--cluster {self.cluster}: a bill needs a number of GPUs, or peak"
                )
            pools.append((pool.gpu_type, pool.gpus))
        return tuple(pools)

    def check(self) -> None:
        """Check what can be checked before the trace is read. Raises `UsageError`."""
        self.pools()
        _ = self.columns, self.month_names()
        self.delays.check()
        if self.delays.delays and (self.months is not None or self.jobs.has_period):
            option = "months" if self.jobs.has_period is False else "from and --to"
            raise UsageError(
                f"--{option}: not with --delays, which replays the log from its start\n"
                "  next: choose jobs by submission with --since and --until"
            )
        if self.months is not None and self.jobs.has_period:
            raise UsageError("--months: not with --from or --to, which are a period too")
        prices = self.prices
        if not self.invoices.invoice:
            prices.check_given(self.trace)
        self._check_invoice()
        has_pools = (prices.contracts, prices.commit, prices.owned, self.cluster)
        if self.idle == "spread" and not any(has_pools):
            raise UsageError(
                "--idle spread: nothing is idle without GPUs that are paid for\n"
                "  next: --contracts, --owned, --commit or --cluster"
            )

    def _check_invoice(self) -> None:
        """Raise `UsageError` where options of an invoice do not fit together."""
        if not self.invoices.invoice:
            for name, value in (
                ("sku", self.invoices.sku),
                ("contracts-out", self.invoices.contracts_out),
            ):
                if value:
                    raise UsageError(f"--{name}: there is no invoice\n  next: add --invoice FILE")
        elif self.jobs.has_period:
            raise UsageError(
                "--invoice: not with --from or --to, as it is of whole months\n"
                "  next: choose its months with --months"
            )
