"""What the studies that replay a trace share: its jobs, what GPUs cost, what a stop costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.today import COLUMNS as COLUMNS_OF_TODAY
from gpuplan.analysis.characterize.today import Today, today
from gpuplan.analysis.history.jobs import BY, NAMES
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.schema import LIMIT_COLUMN
from gpuplan.analysis.prices.book import PriceBook, read_prices
from gpuplan.analysis.prices.catalogue import BUILT_IN
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.user_tables.checkpoints import read_checkpoints
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.renting_settings import OF_PRICES
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.deadlines import INFERRED_FROM, check_factor
from gpuplan.planner.runs.group_waits import GroupWaits, check_by, recorded_waits
from gpuplan.planner.runs.job_rates import COLUMNS as RATE_COLUMNS
from gpuplan.planner.runs.job_rates import RateSource
from gpuplan.planner.runs.throughputs import load_throughputs, throughputs_file
from gpuplan.planner.runs.trace_jobs import COLUMNS, OF_TENANTS, TraceJobs, jobs_of

LOG_WINDOW, OWN_WINDOW = WINDOWS = ("log", "run")
"""What policies are charged for: ``log``, the window of the log, the same for all; ``run``, each
until its own last finish."""


@dataclass(frozen=True, slots=True)
class ReplayFiles:
    """What the files beside the trace say.

    Attributes:
        inputs: the files.
        book: the prices; None for the built-in list, or where no prices were asked for.
        overheads: seconds to save and to load a job by class; None without a table of them.
    """

    inputs: tuple[InputFile, ...]
    book: PriceBook | None
    overheads: Mapping[str, tuple[float, float]] | None


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """What is replayed.

    Attributes:
        trace: the trace read, without its rows.
        jobs: its jobs, with their deadlines.
        draws: for what else is random.
        files: what the files beside the trace say.
        parameters: what goes under ``parameters`` in the JSON output.
        today: what the log shows, without prices; None if not requested or empty.
        today_groups: its waits by what they are split by; empty where it is not, or has none.
    """

    trace: Trace
    jobs: TraceJobs
    draws: np.random.Generator
    files: ReplayFiles
    parameters: dict[str, Any]
    today: Today | None = None
    today_groups: tuple[GroupWaits, ...] = ()

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
            one.label for one in policies if find_policy(one.policy).decides_by_deadlines
        ]
        if not (self.jobs.deadline_note and by_deadline):
            return ()
        return (
            f"the log has no deadlines, needed by {listed(by_deadline)}: {self.jobs.deadline_note}",
        )


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which jobs are replayed, and what they and their GPUs cost.

    Attributes:
        trace: a canonical trace.
        jobs: which of its jobs.
        deadline: where soft deadlines come from, ``given``, ``inferred`` or ``drawn``; None for
            the trace's own, and drawn ones where it has none.
        deadline_factor: bounds of drawn deadlines, in multiples of the duration; None for 1 to 10.
        include_running: replay jobs still running as if they had ended.
        prices: a price table, or ``builtin`` for the list that comes with gpuplan; None for the
            prices in the settings of the policies.
        checkpoints: a table of what it takes to save and load jobs, by class.
        throughputs: measured rates of jobs on each GPU type; see `load_throughputs`.
        gpu_speed: relative speed of each GPU type, where there is no table.
        by: what waits are split by, one or two of `gpuplan.analysis.history.jobs.BY`.
    """

    trace: Path
    jobs: Selection = field(default_factory=Selection)
    deadline: str | None = None
    deadline_factor: tuple[float, float] | None = None
    include_running: bool = False
    prices: str | None = None
    checkpoints: Path | None = None
    throughputs: Path | str | None = None
    gpu_speed: Mapping[str, float] = field(default_factory=dict)
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_by(self.by)

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads."""
        rates = None if self.throughputs is None else throughputs_file(str(self.throughputs))
        return (self.trace, self.prices, self.checkpoints, rates)

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.open()
        check_factor(self.deadline, self.deadline_factor)

    def check_checkpoints(self, policies: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse ``checkpoints`` where no policy saves and loads jobs under its settings.

        Raises `UsageError`.
        """
        if self.checkpoints is None:
            return
        if not any("restore_s" in own and own.get("preemptive", True) for own in policies.values()):
            raise UsageError(
                f"--checkpoints: none of {', '.join(policies)} moves or stops jobs\n  next: a "
                "policy that does (gpuplan list policies), or --set preemptive=true"
            )

    def open(self) -> ReplayFiles:
        """Read the files beside the trace. Raises `InputError` where one cannot be used."""
        inputs: tuple[InputFile, ...] = ()
        book = overheads = None
        if self.checkpoints is not None:
            overheads = read_checkpoints(self.checkpoints)
            digest = sha256_of(self.checkpoints)
            inputs = (InputFile(str(self.checkpoints), digest, len(overheads)),)
        if self.prices is not None and self.prices != BUILT_IN:
            book = read_prices(Path(self.prices))
            inputs = (*inputs, book.input)
        if self.throughputs is not None:
            inputs = (*inputs, *load_throughputs(str(self.throughputs)).inputs())
        return ReplayFiles(inputs, book, overheads)

    def rates(self, settings: Iterable[Mapping[str, Any]]) -> RateSource | None:
        """Return where rates on GPU types come from; None where no policy needs them.

        Args:
            settings: the value of every setting, of each policy that can use rates.

        Raises:
            UsageError: rates are given, and no policy uses them or no cluster has GPU types; or
                the clusters have different ones.
        """
        settings = list(settings)
        shapes = [shape for one in settings if (shape := one.get("cluster")) is not None]
        types = dict.fromkeys(shape.gpu_types for shape in shapes)
        given = self.throughputs is not None or bool(self.gpu_speed)
        if not given and all(len(names) < 2 for names in types):
            return None
        option = "--throughputs" if self.throughputs is not None else "--gpu-speed"
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
        rates = None if self.throughputs is None else str(self.throughputs)
        return RateSource(rates, self.gpu_speed, named[0])

    def read(
        self,
        *,
        by_class: bool = False,
        by_tenant: bool = False,
        window: str = OWN_WINDOW,
        rates: RateSource | None = None,
        labels: bool = False,
    ) -> ReplayInputs:
        """Return the jobs and the files; the same for every study with the same fields.

        Args:
            by_class: read the classes of jobs, for a policy that needs them.
            by_tenant: read their priorities, groups and GPU types, for a policy that lends.
            window: what policies are charged for, one of `WINDOWS`.
            rates: gives their rates on GPU types.
            labels: read their groups, users and classes, for the rows of a result.

        Raises `InputError` or `UsageError` where the trace, a file or a field cannot be used.
        """
        files = self.open()
        factor = self.deadline_factor
        rule = check_factor(self.deadline, factor)
        columns = {
            *COLUMNS,
            LIMIT_COLUMN,
            *(INFERRED_FROM if rule == "inferred" else ()),
            *(RATE_COLUMNS if rates is not None else ()),
            *(OF_TENANTS if by_tenant else ()),
            *(("job_class",) if by_class or files.overheads is not None else ()),
            *(COLUMNS_OF_TODAY if window == LOG_WINDOW else ()),
            *(BY[name] for name in self.by),
            *(NAMES if labels else ()),
        }
        trace = read_trace(self.trace, self.jobs, columns=sorted(columns))
        deadlines, draws = np.random.default_rng(self.jobs.seed).spawn(2)
        jobs = jobs_of(
            *(trace, deadlines, factor),
            deadlines=rule,
            include_running=self.include_running,
            checkpoints=files.overheads,
            window_us=trace.arrays().window_us() if window == LOG_WINDOW else None,
            rates=rates,
            by=self.by,
        )
        parameters = {
            "prices": self.prices,
            "checkpoints": self.checkpoints and str(self.checkpoints),
            "throughputs": self.throughputs and str(self.throughputs),
            "gpu_speed": dict(self.gpu_speed) or None,
            "deadline": rule,
            "deadline_factor": factor and list(factor),
            "include_running": self.include_running,
            **self.jobs.parameters(),
            **({"by": ",".join(self.by)} if self.by else {}),
        }
        kept = replace(trace, jobs=trace.jobs.clear())  # the jobs are in `jobs` now
        shown = today(trace) if window == LOG_WINDOW else None
        groups = recorded_waits(trace.submitted().jobs, self.by) if window == LOG_WINDOW else ()
        return ReplayInputs(kept, jobs, draws, files, parameters, shown, groups)


def price_choice(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings choose among prices, for the JSON output."""
    return {name: settings[name] for name in OF_PRICES if settings.get(name)}
