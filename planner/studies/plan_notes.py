"""What a plan rests on, and what in its prices and terms deserves a second look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S, MONTH_H
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.prices.contracts import COMMITTED, OWNED, PaidPool
from gpuplan.planner.money.commitment_texts import CommitPrice, months_of_term
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.confirmation import PlanProof
from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.simkit.plan.policies import FIFO, FIRST_FIT, SHORTEST

LONG_TERM = 10.0
"""Times as long as the log, a term is warned of."""
QUEUES = {
    FIRST_FIT: "the first in order of submission that fits starts",
    FIFO: "they start in order of submission, and none passes another",
    SHORTEST: "the one with the shortest recorded run time of those that fit starts",
}
"""Policies of the queue in words."""


def dear_spot(columns: RouteColumns) -> list[str]:
    """Return the GPU types whose spot GPUs cost as much as those on demand, which are not lost."""
    return [
        f"--spot-price {f'{name}=' if name else ''}{market.spot_usd:g} is not below the "
        f"{market.on_demand_usd:g} on demand, where no GPU is lost"
        for name, market in columns.market_of.items()
        if market.spot_usd is not None
        and market.on_demand_usd is not None
        and market.spot_usd >= market.on_demand_usd
    ]


def long_terms(proof: PlanProof, window_s: float) -> list[str]:
    """Return the terms of commitments that are over ten times as long as the log."""
    columns, committed = proof.bought.program.columns, proof.bought.whole_nodes.committed
    terms = {
        market.term
        for market, gpus in zip(columns.markets, committed, strict=True)
        if gpus > 0 and market.term
    }
    return [
        f"a commitment of {term} is {MONTH_H * HOUR_S * months / window_s:,.3g} times as long as "
        f"the log ({window_s / DAY_S:,.3g} days), which says nothing of demand after it"
        for term in sorted(terms)
        if (months := months_of_term(term, term, "--commit") or 0) * MONTH_H * HOUR_S
        > LONG_TERM * window_s
    ]


def plan_notes(request: PurchaseRequest, proof: PlanProof, prices: Prices) -> list[str]:
    """Return what a plan rests on."""
    bought = proof.bought
    columns = bought.program.columns
    jobs = columns.jobs
    notes = []
    if prices.option == "assumed":
        usd = prices.usd(None)
        notes.append(
            f"no price is given: GPUs are rented at an assumed ${usd:.2f} an hour; give "
            "--on-demand USD, --prices builtin or --contracts FILE.toml"
        )
    if jobs.left_out:
        notes.append(f"{counted(jobs.left_out, 'job')} left out: they did not run, or held no GPU")
    running, running_h = jobs.still_running
    if running:
        whole_s = float(jobs.gpu_s.sum())
        share = running_h * HOUR_S / whole_s if whole_s else 0.0
        notes.append(
            f"{counted(running, 'job')} still running: in the plan and in today's time with the "
            f"{running_h:,.0f} GPU-hours so far ({share:.1%} of all)"
        )
    lacking = int(np.isnan(jobs.wait_s).sum())
    if lacking:
        notes.append(
            f"{counted(lacking, 'job')} without a recorded wait count with their run time alone"
        )
    if columns.speedup is not None and columns.speedup.law is not None:
        notes.append(f"widths rest on an assumed speedup, --speedup {request.speedup}")
    if request.growth is not None and columns.services:
        notes.append("the growth of demand is of jobs; services hold what they do")
    if bought.program.least_committed is not None:
        notes.append(
            "to meet the target the plan commits to more GPUs than the cheapest plan would: a job "
            "that waits for no rented GPU starts at once"
        )
    if proof.decision is not None and proof.decision.tried:
        notes.append(f"under a cap jobs wait: {QUEUES[request.policy]} (--policy {request.policy})")
    return notes


def paid_notes(
    pools: Sequence[PaidPool],
    prices: Sequence[CommitPrice],
    end_us: int,
    budget_usd_per_h: float | None,
) -> list[str]:
    """Return what the dollars of a plan leave out: GPUs owned, or committed to today.

    Args:
        pools: of the price book.
        prices: of commitments; those with GPUs are in force.
        end_us: the end of the log, microseconds since 1970.
        budget_usd_per_h: of the plan; None without one.

    Raises:
        InfeasibleError: the budget is below what owned GPUs cost.
    """
    gpus = {OWNED: 0, COMMITTED: 0}
    usd = {OWNED: 0.0, COMMITTED: 0.0}
    paid = [
        (pool.market, pool.gpus, pool.usd_per_gpu_h)
        for pool in pools
        if pool.from_us < end_us <= pool.until_us and pool.market in gpus
    ]
    paid += [(COMMITTED, price.gpus, price.offer.usd_per_gpu_h) for price in prices if price.gpus]
    for market, count, usd_per_gpu_h in paid:
        gpus[market] += count
        usd[market] += float(usd_per_gpu_h) * count * MONTH_H
    owned, committed = (f"the {gpus[market]:,} GPUs" for market in (OWNED, COMMITTED))
    if budget_usd_per_h is not None and budget_usd_per_h * MONTH_H < usd[OWNED]:
        raise InfeasibleError(
            f"--budget ${budget_usd_per_h * MONTH_H:,.0f}/month: {owned} owned cost "
            f"${usd[OWNED]:,.0f} a month already\n"
            "  next: a budget above that, or --owned TYPE=GPUS without a rate if they are paid off"
        )
    notes = []
    if usd[OWNED]:
        notes.append(
            f"{owned} owned cost ${usd[OWNED]:,.0f} a month whatever the plan; its dollars leave "
            "that out"
        )
    if gpus[COMMITTED]:
        notes.append(
            f"{committed} committed to today (${usd[COMMITTED]:,.0f} a month) are planned anew, as "
            "if their terms had ended"
        )
    return notes
