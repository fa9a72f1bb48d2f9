"""What the commands that replay a trace share: its jobs, their deadlines and what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.options.shared_options import TraceChoice

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.analysis.trace import Trace
    from gpuplan.planner.runs.trace_jobs import TraceJobs

COMPILING = "compiling the simulator, a few seconds (first run only)"


class DeadlineRule(StrEnum):
    """Where soft deadlines come from; `gpuplan.planner.runs.deadlines`."""

    given = "given"
    inferred = "inferred"
    drawn = "drawn"


Deadline = Annotated[
    DeadlineRule | None,
    typer.Option(
        help="Where soft deadlines come from. given: the trace, and drawn where it has none; "
        "inferred: the time in which 9 in 10 jobs of the same class were done when recorded; "
        "drawn: --deadline-factor. Default: given, or drawn where a factor is.",
        show_default=False,
    ),
]

DeadlineFactor = Annotated[
    str | None,
    typer.Option(
        help="Soft deadlines in multiples of the duration: a range to draw from (1:10) or one "
        "factor (3). Default: 1:10.",
        show_default=False,
    ),
]

IncludeRunning = Annotated[
    bool,
    typer.Option(
        "--include-running",
        help="Replay jobs still running as if they had ended after the time they have run so far.",
    ),
]


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """What is replayed.

    Attributes:
        trace: the trace read, without its rows.
        jobs: its jobs, with their deadlines.
        draws: for what else is random.
        parameters: what goes under ``parameters`` in the JSON output.
    """

    trace: Trace
    jobs: TraceJobs
    draws: np.random.Generator
    parameters: dict[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the jobs."""
        return (*self.trace.notes, *self.jobs.notes)


@dataclass(frozen=True, slots=True)
class ReplayChoice:
    """How a trace becomes the jobs of a replay."""

    deadline: Deadline = None
    deadline_factor: DeadlineFactor = None
    include_running: IncludeRunning = False

    def read(
        self,
        trace: Path,
        choice: TraceChoice,
        *,
        overheads: Mapping[str, tuple[float, float]] | None = None,
        by_class: bool = False,
    ) -> ReplayInputs:
        """Return the jobs chosen; the same for every command with the same options.

        ``overheads`` are seconds to save and to load jobs by class; ``by_class`` reads the classes
        of jobs for a policy that needs them.

        Raises `InputError` or `UsageError` where the trace or an option cannot be used.
        """
        import numpy as np

        from gpuplan.cli.options.inputs import read_trace
        from gpuplan.cli.options.thresholds import parse_deadline_factor
        from gpuplan.planner.runs.deadlines import INFERRED_FROM, check_factor
        from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of

        factor = parse_deadline_factor(self.deadline_factor)
        rule = check_factor(None if self.deadline is None else self.deadline.value, factor)
        columns = {
            *COLUMNS,
            *(INFERRED_FROM if rule == "inferred" else ()),
            *(("job_class",) if by_class or overheads is not None else ()),
        }
        read = read_trace(trace, choice.selection(), columns=sorted(columns))
        deadlines, draws = np.random.default_rng(choice.seed).spawn(2)
        jobs = jobs_of(
            *(read, deadlines, factor),
            deadlines=rule,
            include_running=self.include_running,
            checkpoints=overheads,
        )
        parameters = {
            "deadline": rule,
            "deadline_factor": factor and list(factor),
            "include_running": self.include_running,
            **choice.parameters(),
        }
        told = replace(read, jobs=read.jobs.clear())  # the jobs are in `jobs` now
        return ReplayInputs(told, jobs, draws, parameters)
