"""Commitments of ``gpuplan size``: whose prices count, and the history that they are paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gpuplan.analysis.base.time_units import DAY_US, MICROS
from gpuplan.analysis.base.time_zones import zone_named
from gpuplan.analysis.base.words import length_words, listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED, same_gpu
from gpuplan.analysis.prices.contracts import COMMITTED, Contracts
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill_today import at_end, pools_usd_per_h, price_note
from gpuplan.planner.money.book_types import shared_pool_notes, unused_pools, with_options
from gpuplan.planner.money.commitment import CommitmentPlan
from gpuplan.planner.money.commitment_book import CommitmentBook, check_names
from gpuplan.planner.money.held_runs import months_of, months_without_dates
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import Price, PriceRequest
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.money.renting_settings import RENTED
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.studies.size_pool import ALL

SHORT_LOG_US = 7 * DAY_US
"""A shorter log has no whole week."""


@dataclass(frozen=True)
class SizePrices:
    """What GPU-hours cost at the end of a log: of clusters, and of commitments.

    Attributes:
        prices: of GPUs of a cluster.
        book: of commitments; None where none is asked for.
        has_dates: whether the log has them.
    """

    request: SizeRequest
    prices: Prices
    book: CommitmentBook | None
    has_dates: bool

    @property
    def is_priced(self) -> bool:
        """Whether GPUs of every type have a price of the price book."""
        return _is_priced(self.request)

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The files that were read."""
        return self.prices.inputs

    def of_cluster(self, gpu_type: str | None) -> Price | None:
        """Return what a GPU of a cluster costs: as given, else committed, else on demand.

        None where nothing gives it and no size is replayed. Raises `UsageError` otherwise.
        """
        if self.book is None or self.is_priced:
            return self.prices.of(gpu_type)
        if self.book.chosen([gpu_type], must=False):
            return self.book.committed_price(gpu_type)
        return self.book.on_demand_price(gpu_type, must=self.request.replays)

    def other_usd_per_h(self, gpu_types: Sequence[str | None]) -> float:
        """Return what GPUs owned and committed to of other types cost an hour."""
        return pools_usd_per_h(self.prices) - pools_usd_per_h(self.prices.of_types(gpu_types))

    def plans(self, pools: Sequence[JobPool]) -> list[CommitmentPlan | None]:
        """Return the plan of each pool that commitments are looked for on.

        Raises `UsageError` where no pool has a price, or one of them none on demand.
        """
        if self.book is None or not self.request.commits:
            return [None] * len(pools)
        types = [pool.gpu_type for pool in pools]
        chosen = self.book.chosen(types)
        self.book.check_pools(types)
        return [
            self._plan(self.book, pool, len(pools) == 1) if pool.gpu_type in chosen else None
            for pool in pools
        ]

    def _plan(self, book: CommitmentBook, pool: JobPool, is_one: bool) -> CommitmentPlan:
        assert pool.demand is not None  # a commitment was requested
        name = pool.gpu_type or (ALL if is_one else UNNAMED)
        return book.plan(pool.gpu_type, name, pool.demand, self._months(pool))

    def _months(self, pool: JobPool) -> list[tuple[str, int, int]]:
        """Return the whole months of the history: of the calendar, unless arrivals are scaled."""
        window = pool.begin_us, pool.begin_us + pool.window_us
        zone = zone_named(self.request.replay.jobs.log.time_zone)
        is_dated = self.has_dates and not self.request.grown
        months = months_of(window, zone) if is_dated else months_without_dates(window)
        edges = pairwise((months.edges_us - pool.begin_us).tolist())
        parts = zip(months.names, edges, months.is_partial, strict=True)
        return [(name, *edge) for name, edge, is_partial in parts if not is_partial]

    def notes(self, trace: Trace, pools: Sequence[JobPool]) -> list[str]:
        """Return what the prices and the commitments rest on that a reader should know."""
        gpu_types, jobs = [pool.gpu_type for pool in pools], self.request.replay.jobs
        notes = list(price_time_notes(trace, self.prices, gpu_types))
        if self.is_priced and self.prices.change_within(gpu_types, trace.arrays().window_us()):
            notes += price_note(self.prices, dict.fromkeys(gpu_types, 1.0), pays_pools=True)
        if self.book is None:
            return [*notes, *shared_pool_notes(self.prices.book, gpu_types, jobs)]
        notes += shared_pool_notes(self.book.book, gpu_types, jobs)
        window_us = max(pool.window_us for pool in pools)
        if window_us < SHORT_LOG_US:
            notes.append(
                f"the log covers {length_words(window_us / MICROS)}, and a commitment lasts months "
                "or years: what is cheapest on this log need not be in another week"
            )
        return notes

    def warnings(self, gpu_types: Sequence[str | None]) -> list[str]:
        """Return which of the owned GPUs are not used. Raises `UsageError` as `unused_pools`."""
        if self.book is None:
            return []
        return unused_pools(self.request.prices, self.book.book, gpu_types)

    def left_out(self, gpu_types: Sequence[str | None]) -> list[str]:
        """Return a sentence on the types that no commitment is looked for on."""
        if self.book is None or not self.request.commits:
            return []
        chosen = self.book.chosen(gpu_types, must=False)
        names = [name or UNNAMED for name in gpu_types if name not in chosen]
        if not names:
            return []
        if self.book.prices:
            why = f"--commit names no price of theirs; --commit {names[0]}=USD looks at one"
        else:
            why = f"{self.book.book.option} has no commitment on them at the end of the log"
        return [f"{listed(names, 6)}: not asked what to commit to, as {why}"]


def _is_priced(request: SizeRequest) -> bool:
    prices, commitment = request.prices, request.commitment
    of_all = prices.usd_per_gpu_h or prices.prices is not None or prices.contracts is not None
    of_today = commitment.in_force and commitment.on_demand
    return bool(of_all or of_today or (prices.owned and not request.commits))


def read_prices(request: SizeRequest) -> Prices:
    """Return the prices of GPUs of a cluster: those given, or the usual one.

    GPUs that ``--commit`` says are committed to today are in their book, in place of commitments of
    a file on these types.
    """
    prices, commitment = request.prices, request.commitment
    if not _is_priced(request):
        usual = float(RENTED["conventional_usd_per_gpu_h"].default)
        prices = replace(prices, usd_per_gpu_h={"": usual}, option="assumed")
    elif commitment.in_force and commitment.on_demand and not prices.usd_per_gpu_h:
        prices = replace(prices, usd_per_gpu_h=commitment.on_demand, option="--on-demand")
    read = Prices.read(prices, request.replay.jobs.log.time_zone)
    of_option = PriceRequest(commit=commitment.in_force, contracts=prices.contracts)
    return replace(read, book=with_options(without_commitments(read.book, request), of_option))


def without_commitments(book: Contracts, request: SizeRequest) -> Contracts:
    """Return a book without commitments on the types of which ``--commit`` says today's GPUs."""
    types = [price.gpu_type for price in request.commitment.commit if price.gpus is not None]
    pools = [
        pool
        for pool in book.pools
        if pool.market != COMMITTED or not any(same_gpu(pool.gpu_type, name) for name in types)
    ]
    return replace(book, pools=tuple(pools))


def read_size_prices(request: SizeRequest, trace: Trace, pools: Sequence[JobPool]) -> SizePrices:
    """Return the prices of a request; the window of the trace ends where they are looked up.

    Raises:
        InputError: a price table or the price book cannot be used.
        UsageError: types without a price.
    """
    is_part = request.replay.jobs.where is not None
    prices = at_end(trace, read_prices(request), is_part=is_part)
    has_dates = not trace.provenance.relative_time
    if _is_priced(request):
        prices.check([pool.gpu_type for pool in pools])
    if not request.commits:
        return SizePrices(request, prices, None, has_dates)
    book = CommitmentBook(
        prices=request.commitment.commit,
        on_demand=Prices.read(request.rented),
        book=without_commitments(prices.book, request),
        end_us=prices.at_us + 1,
        gpu=request.prices.gpu,
        zone=zone_named(request.replay.jobs.log.time_zone),
        list_prices=prices if _is_priced(request) else None,
    )
    check_names(
        {
            "--commit": [price.gpu_type for price in request.commitment.commit],
            "--on-demand": list(request.commitment.on_demand),
        },
        [pool.gpu_type for pool in pools],
        request.prices.gpu,
    )
    return SizePrices(request, prices, book, has_dates)
