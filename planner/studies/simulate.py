"""Replay a trace under one policy: a comparison of one, with a row per job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from gpuplan.planner.requests.simulate import SimulateRequest
from gpuplan.planner.runs.simulation import Simulation, results_as
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.compare import PolicyReplays, replay_policies
from gpuplan.planner.studies.replay import price_choice
from gpuplan.planner.studies.replay_results import SimulateResults


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateAnswer(Answer[SimulateRequest, SimulateResults]):
    """One replay.

    Attributes:
        replays: the jobs, and what they cost.
        run: what the policy made of the jobs.
    """

    replays: PolicyReplays
    run: Simulation

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        (policy,) = self.replays.policies
        return {
            "policy": policy.policy,
            "settings": self.run.settings,
            "price_choice": price_choice(policy.settings),
            **self.request.parameters(),
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per job, with whose it is."""
        rows, labels = self.run.frame, self.replays.inputs.jobs.labels
        whose = () if labels is None else labels
        return rows.with_columns(column for column in whose if column.name not in rows.columns)


def simulate(request: SimulateRequest) -> SimulateAnswer:
    """Replay a trace under the one policy of a request.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    replays = replay_policies(request, per_job=True)
    (outcome,) = replays.comparison.outcomes
    run = outcome.simulation
    if run is None:
        raise ValueError("the replay was not kept")
    results = {"policy": run.policy, **replays.today, **vars(outcome.results)}
    return SimulateAnswer(
        request=request,
        results=results_as(SimulateResults, results),
        inputs=(*replays.inputs.inputs, *replays.priced.inputs),
        warnings=(*replays.warnings, *run.warnings),
        caveats=replays.priced.notes,
        replays=replays,
        run=run,
    )
