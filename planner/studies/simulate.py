"""Replay a trace under one policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.planner.compare import Contender, price
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.studies.lending import placeable
from gpuplan.planner.studies.replay import ReplayInputs, ReplayRequest, price_choice


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """Which jobs to replay under which policy.

    Attributes:
        replay: the jobs, and what they cost.
        policy: the policy with its settings.
    """

    replay: ReplayRequest
    policy: Contender

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
        self.replay.check_checkpoints({self.policy.label: self.policy.effective()})
        self.replay.check()


@dataclass(frozen=True, slots=True)
class SimulateStudy:
    """One replay.

    Attributes:
        request: what was asked for.
        replayed: the jobs.
        run: what the policy made of them.
        price_notes: where the prices come from.
    """

    request: SimulateRequest
    replayed: ReplayInputs
    run: Simulation
    price_notes: tuple[str, ...]

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        chosen = self.request.policy
        return {
            "policy": chosen.policy,
            "settings": self.run.settings,
            "price_choice": price_choice(chosen.settings),
            **self.replayed.parameters,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader must know."""
        return (*self.replayed.notes, *self.price_notes, *self.run.warnings)


def simulate(request: SimulateRequest) -> SimulateStudy:
    """Replay a trace under one policy.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    replay, policy = request.replay, request.policy
    replay.check_checkpoints({policy.label: policy.effective()})
    values = policy.effective()
    read = replay.read(by_class=needs_classes(values), by_tenant=lends(values))
    read = placeable(read, [policy])
    notes = tuple[str, ...]()
    if replay.prices is not None:
        (policy,), notes = price([policy], read.files.book, read.jobs.first_submit_us)
    return SimulateStudy(request, read, policy.run(read.jobs, read.draws, is_alone=True), notes)
