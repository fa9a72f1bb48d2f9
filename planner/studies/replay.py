"""What the studies that replay a trace share: its jobs, what GPUs cost, what a stop costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.today import COLUMNS as COLUMNS_OF_TODAY
from gpuplan.analysis.characterize.today import Today, today
from gpuplan.analysis.history.jobs import BY, NAMES, PeriodUs
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.schema import CANONICAL, LIMIT_COLUMN
from gpuplan.analysis.prices.contracts import FOREVER_US
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.spells import REASON, limit_share
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.bill_today import at_book
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.money.price_selection import only_gpu
from gpuplan.planner.money.price_settings import USUAL_GPU
from gpuplan.planner.money.renting_settings import OF_PRICES
from gpuplan.planner.registry import find_policy
from gpuplan.planner.requests.replays import (
    LOG_WINDOW,
    OWN_WINDOW,
    GpuTypeRequest,
    ReplayRequest,
)
from gpuplan.planner.runs.deadlines import INFERRED_FROM
from gpuplan.planner.runs.group_waits import GroupWaits, recorded_waits
from gpuplan.planner.runs.job_rates import COLUMNS as RATE_COLUMNS
from gpuplan.planner.runs.job_rates import RateSource
from gpuplan.planner.runs.replay_files import ReplayFiles
from gpuplan.planner.runs.trace_jobs import (
    COLUMNS,
    OF_QUEUES,
    OF_TENANTS,
    TraceJobs,
    jobs_of,
)


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """What is replayed.

    Attributes:
        trace: the trace read, without its rows.
        jobs: its jobs, with their deadlines.
        draws: for what else is random.
        files: what the files beside the trace say.
        today: what the log shows, without prices; None if not requested or empty.
        gpu_h: GPU-hours of the log by type.
        today_groups: its waits by what they are split by; empty where it is not, or has none.
        limit_share: share of its waits that it puts down to limits; None where unknown.
        end_us: last submission or end of a run, microseconds since 1970.
        time_zone: of the dates of prices; None for UTC.
        bill: what ``today`` costs under a price book; None where it was used, or is not requested.
        selection: which jobs; of a part of the log, contracts on types of others are not of it.
    """

    trace: Trace
    jobs: TraceJobs
    draws: np.random.Generator
    files: ReplayFiles
    today: Today | None = None
    gpu_h: Mapping[str | None, float] = field(default_factory=dict)
    today_groups: tuple[GroupWaits, ...] = ()
    limit_share: float | None = None
    end_us: int = FOREVER_US
    time_zone: str | None = None
    bill: Callable[[Prices], Today | None] | None = field(default=None, compare=False)
    selection: Selection = field(default_factory=Selection)

    def prices(self, request: PriceRequest, gpus: Sequence[str | None] = ()) -> Prices | None:
        """Return the price book, whose single prices are those at the end; None without one.

        Args:
            request: what GPUs cost.
            gpus: the GPU that each policy is set to rent: that of jobs that name none.
        """
        if not request.is_given:
            return None
        gpu = next(filter(None, gpus), None)
        if gpu is None and request.prices is not None:
            gpu = USUAL_GPU if self.files.prices is None else only_gpu(self.files.prices)
        prices = Prices.read(replace(request, gpu=gpu), self.time_zone).at(self.end_us)
        prices.check_provider(self.used_types)
        if self.selection.where is not None and self.gpu_h:
            prices = prices.of_types(self.gpu_h)
        return prices

    def todays_bill(
        self, prices: Prices | None, usd_per_gpu_h: float | None, *, is_assumed: bool
    ) -> Today | None:
        """Return what the log shows under a book, or at one price for all types.

        Args:
            prices: the book; None without one.
            usd_per_gpu_h: of a GPU of the replay: also of a type that a price table has only other
                offers of than on demand; None for none.
            is_assumed: whether nobody set that price.

        Raises:
            UsageError: types without a price; the message names them.
        """
        if self.today is None or (prices is None and usd_per_gpu_h is None):
            return self.today
        if prices is None:
            now = self.today.at_prices(lambda _: usd_per_gpu_h)
            return replace(now, price_is_assumed=True) if is_assumed else now
        types = [usage.gpu_type for usage in self.today.gpu_types]
        if prices.table is not None and usd_per_gpu_h is not None and len(types) == 1:
            if prices.usd(types[0]) is None:
                prices = replace(prices, usd_per_gpu_h={"": usd_per_gpu_h})
        return None if self.bill is None else self.bill(prices)

    @property
    def used_types(self) -> dict[str | None, float]:
        """GPU-hours of the types in use; all alike where every job takes 0 s."""
        used = {name: gpu_h for name, gpu_h in self.gpu_h.items() if gpu_h}
        return used or dict.fromkeys(self.gpu_h, 1.0)

    @property
    def period_us(self) -> PeriodUs:
        """First submission, and last submission or end of a run."""
        return self.jobs.first_submit_us or 0, self.end_us

    @property
    def dated_us(self) -> PeriodUs | None:
        """`period_us`; None for a log without dates."""
        return None if self.jobs.first_submit_us is None else self.period_us

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The files read."""
        return (trace_input(self.trace), *self.files.inputs)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the jobs."""
        return (*self.trace.notes, *self.jobs.notes)

    def deadline_notes(self, policies: Sequence[PolicySpec]) -> tuple[str, ...]:
        """Return what is assumed of deadlines, where a policy decides by them."""
        by_deadline = [
            spec.label for spec in policies if find_policy(spec.policy).decides_by_deadlines
        ]
        if not (self.jobs.deadline_note and by_deadline):
            return ()
        return (
            f"the log has no deadlines, needed by {listed(by_deadline)}: {self.jobs.deadline_note}",
        )


def rates_of(gpu_types: GpuTypeRequest, settings: Iterable[Mapping[str, Any]]) -> RateSource | None:
    """Return where rates on GPU types come from; None where no policy needs them.

    Args:
        gpu_types: what the request says of them.
        settings: the value of every setting, of each policy that can use rates.

    Raises:
        UsageError: rates are given, and no policy uses them or no cluster has GPU types; or the
            clusters have different ones.
    """
    settings = list(settings)
    shapes = [shape for values in settings if (shape := values.get("cluster")) is not None]
    types = dict.fromkeys(shape.gpu_types for shape in shapes)
    has_rates = gpu_types.throughputs is not None or bool(gpu_types.gpu_speed)
    if not has_rates and all(len(names) < 2 for names in types):
        return None
    option = "--throughputs" if gpu_types.throughputs is not None else "--gpu-speed"
    named = [names for names in types if names]
    if not settings:
        raise UsageError(
            f"{option}: policies that lend GPUs as spot run each job on its own GPU type and "
            f"use no speeds\n  next: leave {option} out, or choose a policy such as gavel"
        )
    if not named:
        raise UsageError(
            f"{option}: needs the GPU types of the cluster\n  next: --cluster V100=8x4,T4=8x4"
        )
    if len({frozenset(names) for names in types}) > 1:
        raise UsageError("--cluster: all policies need the same GPU types to be compared")
    return RateSource(gpu_types.throughputs, gpu_types.gpu_speed, named[0])


def read_replay(
    request: ReplayRequest,
    *,
    by_class: bool = False,
    by_tenant: bool = False,
    by_queue: bool = False,
    window: str = OWN_WINDOW,
    rates: RateSource | None = None,
    labels: bool = False,
) -> ReplayInputs:
    """Return the jobs and the files; the same for every study with the same request.

    Args:
        request: which jobs, and what they cost.
        by_class: read the classes of jobs, for a policy that needs them.
        by_tenant: read their priorities, groups and GPU types, for a policy that lends.
        by_queue: read what may name their queues, for a policy that replays those of a site.
        window: what policies are charged for, one of `WINDOWS`.
        rates: gives their rates on GPU types.
        labels: read their groups, users and classes, for the rows of a result.

    Raises `InputError` or `UsageError` where the trace, a file or a field cannot be used.
    """
    files = request.read_files()
    rule = request.deadline_rule()
    columns = {
        *COLUMNS,
        LIMIT_COLUMN,
        *(INFERRED_FROM if rule == "inferred" else ()),
        *(RATE_COLUMNS if rates is not None else ()),
        *(OF_TENANTS if by_tenant else ()),
        *(name for name in OF_QUEUES if by_queue and name in CANONICAL),
        *(("job_class",) if by_class or files.overheads is not None else ()),
        *COLUMNS_OF_TODAY,
        *(BY[name] for name in request.by),
        *(NAMES if labels else ()),
    }
    optional = [REASON] if window == LOG_WINDOW else []
    if by_queue:
        optional += (name for name in OF_QUEUES if name not in CANONICAL)
    trace = read_trace(request.trace, request.jobs, columns=sorted(columns), optional=optional)
    deadlines, draws = np.random.default_rng(request.jobs.seed).spawn(2)
    jobs = jobs_of(
        *(trace, deadlines, request.deadline_factor),
        deadlines=rule,
        include_running=request.include_running,
        checkpoints=files.overheads,
        window_us=trace.arrays().window_us() if window == LOG_WINDOW else None,
        rates=rates,
        by=request.by,
        queues=by_queue,
    )
    kept = replace(trace, jobs=trace.jobs.clear())  # the jobs are in `jobs` now
    now = today(trace)
    of_log = ReplayInputs(
        *(kept, jobs, draws, files),
        gpu_h={} if now is None else now.gpu_h_by_type(),
        end_us=trace.arrays().window_us()[1] - 1,
        time_zone=request.jobs.log.time_zone,
        selection=request.jobs,
    )
    if window != LOG_WINDOW:
        return of_log
    submitted = trace.submitted().jobs
    return replace(
        of_log,
        today=now,
        today_groups=recorded_waits(submitted, request.by),
        limit_share=limit_share(submitted),
        bill=partial(at_book, trace, now),
    )


def price_choice(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings choose among prices, for the JSON output."""
    return {name: settings[name] for name in OF_PRICES if settings.get(name)}
