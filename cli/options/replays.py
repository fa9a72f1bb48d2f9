"""What the commands that replay a trace share: its jobs, their deadlines and what is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.market_options import MarketChoice
from gpuplan.cli.options.shared_options import TraceChoice
from gpuplan.planner.requests.replays import ReplayRequest, read_deadline_factor


class DeadlineRule(StrEnum):
    """Where soft deadlines come from; `gpuplan.planner.runs.deadlines`."""

    given = "given"
    inferred = "inferred"
    drawn = "drawn"


Deadline = Annotated[
    DeadlineRule | None,
    typer.Option(
        help="Source of soft deadlines. given: the trace, or sampled where it has none. "
        "inferred: the time in which 9 in 10 recorded jobs of the class finished. "
        "drawn: sampled, see --deadline-factor. Default: given, or drawn with "
        "--deadline-factor.",
        show_default=False,
    ),
]

DeadlineFactor = Annotated[
    str | None,
    typer.Option(
        help="Soft deadlines as multiples of the duration: a range to sample from "
        "(1:10) or one factor (3). Default: 1:10.",
        show_default=False,
    ),
]

IncludeRunning = Annotated[
    bool,
    typer.Option(
        "--include-running",
        help="Also replay jobs that still run, with the time they have run so far.",
    ),
]


Spot = Annotated[
    str | None,
    typer.Option(
        "--spot",
        help="Which jobs are spot: a condition as for --where, such as 'duration_s < 3600'. All "
        "others have high priority. Default: the priorities of the trace.",
        metavar="CONDITION",
        show_default=False,
    ),
]


WaitsBy = Annotated[
    str | None,
    COMMON,
    typer.Option(
        "--by",
        help="Also show waits, jobs and GPU-hours by group, user, class or type; by two with a "
        "comma: group,type.",
        metavar="WHAT",
        show_default=False,
    ),
]


def columns_of(by: str | None) -> tuple[str, ...]:
    """Return what ``--by`` names; the study checks it."""
    return () if by is None else tuple(name.strip() for name in by.split(","))


@dataclass(frozen=True, slots=True)
class ReplayChoice:
    """How a trace becomes the jobs of a replay."""

    deadline: Deadline = None
    deadline_factor: DeadlineFactor = None
    include_running: IncludeRunning = False

    def request(self, trace: Path, choice: TraceChoice, market: MarketChoice) -> ReplayRequest:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        factor = self.deadline_factor
        return ReplayRequest(
            trace,
            choice.selection(),
            deadline=None if self.deadline is None else self.deadline.value,
            deadline_factor=None
            if factor is None
            else read_deadline_factor(factor, "--deadline-factor"),
            include_running=self.include_running,
            prices=market.prices,
            checkpoints=market.checkpoints,
        )
