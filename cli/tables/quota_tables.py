"""Tables of what the queues of a site of Kueue do with their quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table, table

if TYPE_CHECKING:
    from gpuplan.planner.site.change_effects import WhatIfResults


def quota_tables(whatif: WhatIfResults) -> Iterator[Table]:
    """Yield what queues of Kueue do with their quotas, who lends, and who evicts whom."""
    if not isinstance(whatif.queues, tuple):
        return
    several = len(whatif.changes) > 1
    case = Column(
        "case",
        "rules",
        read=lambda row: row.case if several or row.case == "today" else "with the change",
    )
    yield table(
        "Quotas in a replay, GPU-hours in the time of the log",
        whatif.queues,
        case,
        {
            "queue": "queue",
            "nominal_gpus": "quota (GPUs)",
            "within_gpu_h": "within",
            "above_gpu_h": "above",
            "lent_gpu_h": "lent",
            "idle_gpu_h": "idle that others could use",
            "preemptions_caused": "evicts",
            "preemptions_suffered": "evicted",
            "lost_gpu_h": "work lost",
        },
        most=30,
    )
    if isinstance(whatif.loans, tuple) and whatif.loans:
        yield table(
            "Who borrows from whom",
            whatif.loans,
            case,
            {"borrower": "borrower", "lender": "lender", "gpu_h": "GPU-hours"},
            most=20,
        )
    if isinstance(whatif.evictions, tuple) and whatif.evictions:
        yield table(
            "Who evicts whom",
            whatif.evictions,
            case,
            {"by": "by", "of": "of", "count": "times"},
            most=20,
        )
