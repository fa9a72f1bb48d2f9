"""What a plan has beside the jobs: services on the pool, and the revenue of idle GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_duration,
    show_price,
    show_share,
)

if TYPE_CHECKING:
    from gpuplan.planner.plan.lending import PlanLending
    from gpuplan.planner.studies.plan_services import PlannedServices


def services_table(services: PlannedServices) -> Table:
    """Return what the services hold and cost."""
    return table(
        f"Services on the pool: the load of {show_duration(services.horizon_s)} repeats",
        (services,),
        {"policy": "policy", "gpu_type": "GPU" if services.gpu_type else "", "gamma": "gamma"},
        Column("capacity_factor", "registered capacity", show_share),
        {"mean_gpus": "GPUs, mean", "peak_gpus": "peak", "whole_gpus": "with whole GPUs"},
        Column("worst_violation_rate", "late, worst service", show_share),
        {"usd_per_month": "$/month"},
    )


def lending_table(lending: PlanLending) -> Table:
    """Return what can be lent of the idle GPUs."""
    price = show_price(lending.usd_per_gpu_h)
    return table(
        f"Idle GPUs to lend at {price} per GPU-hour: no part of the bill",
        lending.types,
        {
            "name": "GPU" if any(each.name for each in lending.types) else "",
            "pool_gpus": "owned, committed",
            "idle_gpus": "idle, mean",
            "lent_gpus": "lent under the quota",
            "known_gpus": "if the next hour were known",
            "usd_per_month": "$/month",
        },
    )


def lending_headline(lending: PlanLending) -> str:
    """Return the revenue, beside the bill."""
    if not lending.types:
        return "No GPU is owned or committed to, so there is none to lend."
    if not lending.usd_per_month:
        return "Idle GPUs are too few, or too hard to foresee, to be lent."
    return (
        f"Lending idle GPUs could bring up to {show_about_usd(lending.usd_per_month)} a month, "
        "which is not in the bill."
    )
