"""Replay a trace under one policy: a comparison of one, with a row per job."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from gpuplan.planner.runs.simulation import Simulation, results_as
from gpuplan.planner.studies.compare import CompareRequest, PolicyReplays, replay_policies
from gpuplan.planner.studies.replay import price_choice
from gpuplan.planner.studies.replay_parameters import SimulateParameters
from gpuplan.planner.studies.replay_results import SimulateResults


@dataclass(frozen=True, slots=True)
class SimulateStudy(PolicyReplays):
    """One replay.

    Attributes:
        run: what the policy made of the jobs.
        results: as JSON has them.
    """

    run: Simulation
    results: SimulateResults

    def parameters(self) -> SimulateParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        (policy,) = self.request.policies
        return SimulateParameters(
            policy=policy.policy,
            settings=self.run.settings,
            price_choice=price_choice(policy.settings),
            **self.charged,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision."""
        return (*self.warnings_of([self.run.policy]), *self.run.warnings)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per job, with whose it is."""
        rows, labels = self.run.frame, self.replayed.jobs.labels
        whose = () if labels is None else (one for one in labels if one.name not in rows.columns)
        return rows.with_columns(whose)


def simulate(request: CompareRequest) -> SimulateStudy:
    """Replay a trace under the one policy of a request.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    replays = replay_policies(request, per_job=True)
    (outcome,) = replays.found.outcomes
    run = outcome.simulation
    if run is None:
        raise ValueError("the replay was not kept")
    results = results_as(
        SimulateResults, {"policy": run.policy, **replays.today, **vars(outcome.results)}
    )
    return SimulateStudy(
        request, replays.replayed, replays.found, replays.priced, run=run, results=results
    )
