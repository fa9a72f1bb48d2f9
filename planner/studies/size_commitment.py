"""Commitments of ``gpuplan size``: whose prices count, and the history that they are paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.book_options import read_book
from gpuplan.planner.money.commitment import CalendarMonth, CommitmentPlan
from gpuplan.planner.money.commitment_book import CommitmentBook
from gpuplan.planner.money.held_runs import months_of, months_without_dates, zone_of
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.money.renting_settings import RENTED
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.studies.size_pool import ALL


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
    def inputs(self) -> tuple[InputFile, ...]:
        """The files that were read."""
        return (*self.prices.inputs, *(() if self.book is None else self.book.book.inputs))

    def of_cluster(self, gpu_type: str | None) -> Price | None:
        """Return what a GPU of a cluster costs: as given, else committed, else on demand.

        None where nothing gives it and no size is replayed. Raises `UsageError` otherwise.
        """
        if self.book is None or self.request.prices.is_given:
            return self.prices.of(gpu_type)
        if self.book.chosen([gpu_type], must=False):
            return self.book.committed_price(gpu_type)
        return self.book.on_demand_price(gpu_type, must=self.request.replays)

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
        return CommitmentPlan(pool.demand, book.offer(pool.gpu_type, name), self._months(pool))

    def _months(self, pool: JobPool) -> tuple[CalendarMonth, ...]:
        """Return the whole months of the history: of the calendar, unless arrivals are scaled."""
        window = pool.begin_us, pool.begin_us + pool.window_us
        zone = zone_of(self.request.replay.jobs.log.time_zone)
        is_dated = self.has_dates and not self.request.grown
        months = months_of(window, zone) if is_dated else months_without_dates(window)
        edges = pairwise((months.edges_us - pool.begin_us).tolist())
        parts = zip(months.names, edges, months.is_partial, strict=True)
        return tuple(CalendarMonth(name, *edge) for name, edge, partial in parts if not partial)

    def warnings(self, gpu_types: Sequence[str | None]) -> list[str]:
        """Return which of the prices and of the owned GPUs are not used.

        Raises `UsageError` where all prices are of other types.
        """
        if self.book is None:
            return []
        committed, on_demand = self.book.committed(), self.book.on_demand
        notes = [*committed.unmatched_note(gpu_types), *on_demand.unmatched_note(gpu_types)]
        return [*notes, *self.book.unused_owned(gpu_types)]

    def left_out(self, gpu_types: Sequence[str | None]) -> list[str]:
        """Return a sentence on the types that no commitment is looked for on."""
        if self.book is None or not self.request.commits:
            return []
        chosen = self.book.chosen(gpu_types, must=False)
        names = [name or UNNAMED for name in gpu_types if name not in chosen]
        if not names:
            return []
        source = "--commit" if self.book.prices else self.book.book.option
        return [f"no commitment on {listed(names, 6)}: {source} has no price of one"]


def read_prices(request: SizeRequest) -> Prices:
    """Return the prices of GPUs of a cluster: those given, or the usual one."""
    if request.prices.is_given:
        return Prices.read(request.prices)
    return Prices({"": float(RENTED["conventional_usd_per_gpu_h"].default)}, option="assumed")


def read_size_prices(request: SizeRequest, trace: Trace) -> SizePrices:
    """Return the prices of a request; the window of the trace ends where they are looked up.

    Raises `InputError` where a price table or the price book cannot be used.
    """
    commitment, has_dates = request.commitment, not trace.provenance.relative_time
    if not (commitment.commit or commitment.contracts):
        return SizePrices(request, read_prices(request), None, has_dates)
    book = CommitmentBook(
        prices=commitment.commit,
        on_demand=Prices.read(request.rented),
        owned=commitment.owned,
        book=read_book(commitment.contracts, request.replay.jobs.log.time_zone),
        end_us=trace.arrays().window_us()[1] if commitment.contracts else 0,
        gpu=request.prices.gpu,
    )
    return SizePrices(request, read_prices(request), book, has_dates)
