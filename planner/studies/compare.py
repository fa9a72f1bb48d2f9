"""Compare policies on one trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuplan.planner.compare import Contender, PolicyComparison, price
from gpuplan.planner.compare import compare as run_all
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.studies.lending import placeable
from gpuplan.planner.studies.replay import ReplayInputs, ReplayRequest, price_choice


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Which jobs to replay under which policies.

    Attributes:
        replay: the jobs, and what they cost.
        policies: with their settings; ratios refer to the first.
        engine: where the replays run; the result does not depend on it.
        timelines: keep what happened over time.
    """

    replay: ReplayRequest
    policies: tuple[Contender, ...]
    engine: Engine = field(default=THREADS, compare=False)
    timelines: bool = False

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads."""
        return self.replay.reads

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.check_checkpoints()
        self.replay.check()

    def check_checkpoints(self) -> None:
        """Refuse a table of checkpoints that no policy has use for. Raises `UsageError`."""
        self.replay.check_checkpoints({one.label: one.effective() for one in self.policies})


@dataclass(frozen=True, slots=True)
class CompareStudy:
    """What the policies made of the same jobs.

    Attributes:
        request: what was asked for.
        replayed: the jobs.
        found: the comparison.
        price_notes: where the prices come from.
    """

    request: CompareRequest
    replayed: ReplayInputs
    found: PolicyComparison
    price_notes: tuple[str, ...]

    def policy_parameters(self) -> list[dict[str, Any]]:
        """Return each policy with its settings, for ``parameters`` in the JSON output."""
        return [
            {
                "name": one.label,
                "label": one.label,
                "policy": one.policy,
                "settings": dict(one.settings),
                "price_choice": price_choice(asked.settings),
            }
            for one, asked in zip(self.found.outcomes, self.request.policies, strict=True)
        ]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader must know."""
        outcomes = self.found.outcomes
        own = (f"{one.label}: {warning}" for one in outcomes for warning in one.warnings)
        return (*self.replayed.notes, *self.price_notes, *own)


def compare(
    request: CompareRequest, progress: Callable[[float], None] | None = None
) -> CompareStudy:
    """Replay a trace under each policy.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    request.check_checkpoints()
    by_class = any(needs_classes(one.effective()) for one in request.policies)
    by_tenant = any(lends(one.effective()) for one in request.policies)
    read = placeable(request.replay.read(by_class=by_class, by_tenant=by_tenant), request.policies)
    policies, notes = list(request.policies), tuple[str, ...]()
    if request.replay.prices is not None:
        policies, notes = price(policies, read.files.book, read.jobs.first_submit_us)
    found = run_all(
        read.jobs,
        policies,
        read.draws,
        timelines=request.timelines,
        engine=request.engine,
        progress=progress,
    )
    return CompareStudy(request, read, found, notes)
