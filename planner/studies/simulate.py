"""Replay a trace under one policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from msgspec import UNSET

from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.runs.policy_results import policy_results, results_as
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.studies.lending import placeable
from gpuplan.planner.studies.policy_prices import (
    PricedPolicies,
    backlog_note,
    check_price,
    price_policies,
)
from gpuplan.planner.studies.replay import (
    LOG_WINDOW,
    ReplayInputs,
    ReplayRequest,
    price_choice,
)
from gpuplan.planner.studies.replay_parameters import SimulateParameters
from gpuplan.planner.studies.replay_results import SimulateResults


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """Which jobs to replay under which policy.

    Attributes:
        replay: the jobs, and what they cost.
        policy: the policy with its settings.
        price: what owned GPUs cost; empty for the settings of the policy.
        window: what the policy is charged for, one of `WINDOWS`.
    """

    replay: ReplayRequest
    policy: PolicySpec
    price: PriceRequest = field(default_factory=PriceRequest)
    window: str = LOG_WINDOW

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
        check_price((self.policy,), self.price)
        self.replay.check()


@dataclass(frozen=True, slots=True)
class SimulateStudy:
    """One replay.

    Attributes:
        request: what was asked for.
        replayed: the jobs.
        run: what the policy made of them.
        priced: the policy as it pays, and today at the same price.
        results: as JSON has them.
    """

    request: SimulateRequest
    replayed: ReplayInputs
    run: Simulation
    priced: PricedPolicies
    results: SimulateResults

    def parameters(self) -> SimulateParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        request = self.request
        return SimulateParameters(
            policy=request.policy.policy,
            settings=self.run.settings,
            price_choice=price_choice(request.policy.settings),
            price=dict(request.price.usd_per_gpu_h) or None,
            window=request.window,
            **self.replayed.parameters,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision."""
        return (
            *self.priced.warnings,
            *self.replayed.notes,
            *self.replayed.deadline_notes((self.request.policy,)),
            *backlog_note([(self.run.policy, self.results)]),
            *self.run.warnings,
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per job, with whose it is."""
        rows, labels = self.run.to_frame(), self.replayed.jobs.labels
        own = () if labels is None else (one for one in labels if one.name not in rows.columns)
        return rows.with_columns(own)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Where prices come from."""
        return self.priced.notes


def simulate(request: SimulateRequest) -> SimulateStudy:
    """Replay a trace under one policy.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    replay, policy = request.replay, request.policy
    replay.check_checkpoints({policy.label: policy.effective()})
    check_price((policy,), request.price)
    values = policy.effective()
    read = replay.read(
        by_class=needs_classes(values),
        by_tenant=lends(values),
        window=request.window,
        rates=replay.rates([] if lends(values) else [values]),
        labels=True,
    )
    read = placeable(read, [policy])
    priced = price_policies((policy,), request.price, replay, read)
    run = priced.policies[0].run(read.jobs, read.draws, is_alone=True)
    today = priced.today
    results = results_as(
        SimulateResults,
        {
            "policy": run.policy,
            "today": None if today is None else today.results(),
            "today_groups": read.today_groups or UNSET,
            **vars(policy_results(read.jobs, run, run.frame)),
        },
    )
    return SimulateStudy(request, read, run, priced, results)
