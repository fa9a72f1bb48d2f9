"""Replay a trace under one policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.bill import GpuPrices
from gpuplan.planner.compare import PolicySpec, common_results
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.policies.spot.settings import lends
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


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """Which jobs to replay under which policy.

    Attributes:
        replay: the jobs, and what they cost.
        policy: the policy with its settings.
        price: what GPUs of one's own cost; None for the settings of the policy.
        window: what the policy is charged for, one of `WINDOWS`.
    """

    replay: ReplayRequest
    policy: PolicySpec
    price: GpuPrices | None = None
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
    """

    request: SimulateRequest
    replayed: ReplayInputs
    run: Simulation
    priced: PricedPolicies

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        chosen = self.request.policy
        return {
            "policy": chosen.policy,
            "settings": self.run.settings,
            "price_choice": price_choice(chosen.settings),
            "price": None if self.request.price is None else dict(self.request.price.usd_per_gpu_h),
            "window": self.request.window,
            **self.replayed.parameters,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision."""
        return (
            *self.priced.mixed,
            *self.replayed.notes,
            *self.replayed.deadline_notes((self.request.policy,)),
            *backlog_note([(self.run.policy, self.summary())]),
            *self.run.warnings,
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Where prices come from."""
        return self.priced.notes

    def summary(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        today = self.priced.today
        shared = common_results(self.replayed.jobs, self.run, self.run.frame)
        return {
            "policy": self.run.policy,
            "today": None if today is None else today.summary(),
            **shared,
            **self.run.results,
        }


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
    )
    read = placeable(read, [policy])
    priced = price_policies((policy,), request.price, replay, read)
    run = priced.policies[0].run(read.jobs, read.draws, is_alone=True)
    return SimulateStudy(request, read, run, priced)
