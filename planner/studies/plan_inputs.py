"""What a plan reads: the jobs of a log, the markets of each GPU type at its end, an older plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import MICROS, MONTH_H, time_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.prices.contracts import ALWAYS_US, COMMITTED, FOREVER_US, OWNED
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill_today import at_book
from gpuplan.planner.money.commitment_book import CommitmentBook, check_names
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.money.renting_settings import RENTED
from gpuplan.planner.plan.jobs import COLUMNS, PlannedJobs
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.plan_file import WRITE, PlanCommitment, PlanFile
from gpuplan.planner.plan.replay import LASTS_AT_MOST
from gpuplan.planner.plan.spot_record import SpotRecord, spot_record
from gpuplan.planner.plan.today import CommittedToday
from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.planner.site.log_replay import COLUMNS as REPLAYED
from gpuplan.planner.site.log_replay import WHERE_KNOWN
from gpuplan.simkit.cluster_shape import ClusterShape

FILE_OPTIONS = ("spot", "defer", "by", "speedup", "cluster", "spot_availability", "budget")


def plan_trace(request: PurchaseRequest) -> Trace:
    """Return the trace with the columns that the plan and its conditions read."""
    conditions = " ".join(filter(None, (request.spot, request.defer and request.defer[0])))
    words = {word.lower() for word in re.findall(r"\w+", conditions)}
    named = [name for name in CANONICAL if name in words]
    by = [] if request.by not in CANONICAL else [request.by]
    columns = dict.fromkeys([*COLUMNS, *REPLAYED, "user", *named, *by])
    trace = read_trace(request.trace, request.jobs, columns=list(columns), optional=WHERE_KNOWN)
    return trace.submitted()


def todays_bill(request: PurchaseRequest, trace: Trace, now: Today | None) -> Today | None:
    """Return what a log shows with its bill under the price book of a request.

    None where no book is given, or prices of the plan are typed beside it.
    """
    commitment = request.commitment
    is_typed = commitment.on_demand or any(price.gpus for price in commitment.commit)
    if is_typed or not request.prices.is_given:
        return None
    prices = Prices.read(request.prices, request.jobs.log.time_zone)
    if request.jobs.where is not None:  # contracts of other types are not of this part
        prices = prices.of_types(trace.jobs["gpu_type"].cast(pl.String).unique().sort().to_list())
    try:
        return at_book(trace, now, prices)
    except UsageError:  # only GPUs that are owned or committed to have a price
        return None


def markets_of(
    request: PurchaseRequest, jobs: PlannedJobs
) -> tuple[Prices, dict[str, GpuMarkets], tuple[CommittedToday, ...]]:
    """Return the price book, the markets of each GPU type at the end of the log, and what is
    committed to there.
    """
    zone = request.jobs.log.time_zone
    end_us = jobs.begin_us + round(jobs.window_s * MICROS)
    gpu, commitment = request.prices.gpu, request.commitment
    prices = Prices.read(request.prices, zone).at(end_us - 1)
    if not request.has_price:
        usual = float(RENTED["conventional_usd_per_gpu_h"].default)
        prices = Prices({"": usual}, option="assumed", gpu=gpu, book=prices.book)
    types = jobs.gpu_type.unique().sort().to_list()
    prices.check_provider([name or None for name in types])
    if request.jobs.where is not None:  # contracts of other types are not of this part
        prices = prices.of_types([name or None for name in types])
    book = CommitmentBook(
        prices=commitment.commit,
        on_demand=Prices.read(PriceRequest(commitment.on_demand, gpu=gpu, option="--on-demand")),
        book=prices.book,
        end_us=end_us,
        gpu=gpu,
        list_prices=prices,
    )
    spot = Prices(request.spot_price, gpu=gpu, option="--spot-price")
    serverless = Prices(request.serverless, gpu=gpu, option="--serverless")
    if request.upkeep.keep is None:  # a longer log need not have all types of its plan
        _check_names(request, types)
    book.check_pools([name or None for name in types])
    shapes = shapes_of(request.shape(), types)
    records = _spot_records(request, jobs, types)
    markets, committed_today = {}, []
    for gpu_type in types:
        log_type = gpu_type or None
        committed, until = book.today(log_type)
        gpus = sum(count for count, _ in committed)
        usd_per_h = float(sum(count * usd for count, usd in committed))
        if gpus:
            usd_per_month = usd_per_h * MONTH_H
            committed_today.append(
                CommittedToday(gpu_type, gpus, usd_per_month, until, _terms(book, log_type))
            )
        rented = book.on_demand_price(log_type, must=False)
        owned = [pool.gpus for pool in book.pools(log_type) if pool.market == OWNED]
        cap, node = shapes[gpu_type]
        markets[gpu_type] = GpuMarkets(
            commit_usd={offer.name: float(offer.usd_per_gpu_h) for offer in book.offers(log_type)},
            on_demand_usd=None if rented is None else rented.usd_per_gpu_h,
            spot_usd=spot.usd(log_type),
            serverless_usd=serverless.usd(log_type),
            owned=float(sum(owned)),
            cap=cap,
            node=node,
            today=float(gpus),
            today_usd=usd_per_h / gpus if gpus else 0.0,
            spot_record=records.get(gpu_type) if spot.usd(log_type) is not None else None,
        )
    return prices, markets, tuple(committed_today)


def _terms(book: CommitmentBook, gpu_type: str | None) -> tuple[PlanCommitment, ...]:
    """Return the commitments of the price book of a type in force at the end of the log."""
    if any(price.gpus for price in book.prices):
        return ()  # those typed stand in for them, and say no date
    return tuple(
        PlanCommitment(
            gpu_type=gpu_type or "",
            gpus=float(pool.gpus),
            usd_per_gpu_h=float(pool.usd_per_gpu_h),
            begin=None if pool.from_us == ALWAYS_US else time_of(pool.from_us),
            until=None if pool.until_us == FOREVER_US else time_of(pool.until_us),
        )
        for pool in book.pools(gpu_type)
        if pool.market == COMMITTED
    )


def _spot_records(
    request: PurchaseRequest, jobs: PlannedJobs, types: Sequence[str]
) -> dict[str, SpotRecord]:
    """Return when spot GPUs of each type that has a price were there; none without a record."""
    if request.spot_availability is None:
        return {}
    table = read_prices(request.spot_availability)
    spot = Prices(request.spot_price, gpu=request.prices.gpu, option="--spot-price")
    longest_s = float(jobs.run_s[jobs.is_spot].max(initial=0.0))
    until_s = jobs.window_s + LASTS_AT_MOST * longest_s
    return {
        gpu_type: spot_record(
            table, gpu_type or request.prices.gpu or "", jobs.begin_us, jobs.window_s, until_s
        )
        for gpu_type in types
        if spot.usd(gpu_type or None) is not None
    }


def _check_names(request: PurchaseRequest, types: Sequence[str]) -> None:
    """Refuse a price of a GPU type that the log does not have. Raises `UsageError`."""
    check_names(
        {
            "--commit": [price.gpu_type for price in request.commitment.commit],
            "--on-demand": list(request.commitment.on_demand),
            "--spot-price": list(request.spot_price),
            "--serverless": list(request.serverless),
            "--owned": [pool.gpu_type for pool in request.prices.owned],
        },
        [name or None for name in types],
        request.prices.gpu,
    )


def shapes_of(
    shape: ClusterShape | None, types: Sequence[str]
) -> dict[str, tuple[float | None, int | None]]:
    """Return the cap and the GPUs per node of each type. Raises `UsageError`."""
    if shape is None:
        return {gpu_type: (None, None) for gpu_type in types}
    if not shape.gpu_types:
        pool = shape.pool
        if pool.gpus is not None and len(types) > 1:
            raise UsageError(
                f"--cluster {shape}: the log has several GPU types\n"
                f"  next: --cluster {','.join(f'{name}=N' for name in types)}"
            )
        return {gpu_type: (pool.gpus, pool.gpus_per_node) for gpu_type in types}
    means = match_types(shape.gpu_types, types, "--cluster", one_type_each=True)
    pools = {pool.gpu_type: pool for pool in shape.pools}
    return {
        gpu_type: (0, None) if name is None else (pools[name].gpus, pools[name].gpus_per_node)
        for gpu_type, name in means.items()
        if gpu_type is not None
    }


def check_same_types(plan: PlanFile, path: Path, types: Sequence[str]) -> None:
    """Refuse a plan of GPU types of which a log has none. Raises `InputError`."""
    of_plan = [each.name for each in plan.types]
    if set(of_plan) & set(types):
        return
    named, of_log = (listed(list(filter(None, names)), 6) for names in (of_plan, types))
    raise InputError(
        path,
        f"the plan is of {named or 'GPUs without a type'}, and this log names "
        f"{of_log or 'no GPU types'}",
        hint="a plan of this log: gpuplan plan LOG ... -o plan.toml",
    )


def of_file(error: UsageError, typed: PurchaseRequest, path: Path) -> Exception:
    """Return what to raise where an option cannot be used that only the plan has."""
    text = str(error).partition("\n")[0]
    defaults = PurchaseRequest(typed.trace)
    is_typed = {name: getattr(typed, name) != getattr(defaults, name) for name in FILE_OPTIONS}
    is_typed["where"] = typed.jobs.where is not None
    for name, was_typed in is_typed.items():
        flag = f"--{name.replace('_', '-')}"
        if not was_typed and re.match(rf"{flag}(?![\w-])", text):
            return InputError(path, f"options.{name}{text.removeprefix(flag)}", hint=WRITE)
    return error
