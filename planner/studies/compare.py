"""Replay a trace under one policy or several, and compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET

from gpuplan.planner.compare import PolicyComparison, PolicySpec
from gpuplan.planner.compare import compare as run_all
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.policies.scaled_jobs import needs_classes
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.studies.lending import no_spot, placeable, queue_notes
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
from gpuplan.planner.studies.replay_parameters import ComparedParameters, CompareParameters
from gpuplan.planner.studies.replay_results import CompareResults


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Which jobs to replay under which policies.

    Attributes:
        replay: the jobs, and what they cost.
        policies: with their settings; ratios refer to the first.
        engine: where the replays run; the result does not depend on it.
        timelines: keep what happened over time.
        price: what owned GPUs cost; empty for the settings of the policies.
        window: what all policies are charged for, one of `WINDOWS`.
        cluster: the clusters as given, for the parameters.
        gpus: their GPUs; of several a list.
    """

    replay: ReplayRequest
    policies: tuple[PolicySpec, ...]
    engine: Engine = field(default=THREADS, compare=False)
    timelines: bool = False
    price: PriceRequest = field(default_factory=PriceRequest)
    window: str = LOG_WINDOW
    cluster: str | None = None
    gpus: int | list[int] | None = None

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
        check_price(self.policies, self.price)
        self.replay.check()

    def check_checkpoints(self) -> None:
        """Refuse a table of checkpoints that no policy has use for. Raises `UsageError`."""
        self.replay.check_checkpoints(
            {policy.label: policy.effective() for policy in self.policies}
        )


@dataclass(frozen=True, slots=True)
class PolicyReplays:
    """Replays of the same jobs.

    Attributes:
        request: what was asked for.
        replayed: the jobs.
        found: what each policy made of them.
        priced: the policies as they pay, and today at the same price.
    """

    request: CompareRequest
    replayed: ReplayInputs
    found: PolicyComparison
    priced: PricedPolicies

    @property
    def today(self) -> dict[str, Any]:
        """What the log shows, for the results."""
        return {
            "today": self.priced.today,
            "today_groups": self.replayed.today_groups or UNSET,
        }

    @property
    def charged(self) -> dict[str, Any]:
        """What policies are charged and the jobs, for the parameters."""
        return {
            "price": dict(self.request.price.usd_per_gpu_h) or None,
            "window": self.request.window,
            **self.replayed.parameters,
        }

    def warnings_of(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return what would change the reader's decision; ``labels`` are names of the policies."""
        results = [outcome.results for outcome in self.found.outcomes]
        return (
            *self.priced.warnings,
            *self.replayed.notes,
            *self.replayed.deadline_notes(self.request.policies),
            *backlog_note(list(zip(labels, results, strict=True))),
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Where prices come from."""
        return self.priced.notes


def replay_policies(
    request: CompareRequest,
    progress: Callable[[float], None] | None = None,
    *,
    per_job: bool = False,
) -> PolicyReplays:
    """Replay a trace under each policy.

    Args:
        request: the jobs and the policies.
        progress: called with the share done.
        per_job: whether to keep the replays, and whose each job is.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    request.check_checkpoints()
    check_price(request.policies, request.price)
    effective = [policy.effective() for policy in request.policies]
    inputs = request.replay.read(
        by_class=any(map(needs_classes, effective)),
        by_tenant=any(map(lends, effective)),
        window=request.window,
        rates=request.replay.rates(values for values in effective if not lends(values)),
        labels=per_job,
    )
    inputs = placeable(inputs, request.policies)
    priced = price_policies(request.policies, request.price, request.replay, inputs)
    found = run_all(
        inputs.jobs,
        priced.policies,
        inputs.draws,
        timelines=request.timelines,
        keeps=per_job,
        engine=request.engine,
        progress=progress,
    )
    return PolicyReplays(request, inputs, found, priced)


@dataclass(frozen=True, slots=True)
class CompareStudy(PolicyReplays):
    """What the policies made of the same jobs.

    Attributes:
        results: as JSON has them.
    """

    results: CompareResults

    def parameters(self) -> CompareParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        request = self.request
        return CompareParameters(
            policies=[
                ComparedParameters(
                    name=outcome.name,
                    label=outcome.label,
                    policy=outcome.policy,
                    settings=dict(outcome.settings),
                    price_choice=price_choice(policy.settings),
                )
                for outcome, policy in zip(self.found.outcomes, request.policies, strict=True)
            ],
            cluster=request.cluster,
            gpus=request.gpus,
            **self.charged,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision."""
        outcomes = self.found.outcomes
        labels_of: dict[str, list[str]] = {}
        for outcome in outcomes:
            for warning in outcome.warnings:
                labels_of.setdefault(warning, []).append(outcome.label)
        return (
            *self.warnings_of([outcome.label for outcome in outcomes]),
            *queue_notes(outcomes),
            *(f"{', '.join(labels)}: {warning}" for warning, labels in labels_of.items()),
        )


def compare(
    request: CompareRequest, progress: Callable[[float], None] | None = None
) -> CompareStudy:
    """Replay a trace under each policy; raises as `replay_policies`."""
    replays = replay_policies(request, progress)
    found, priced = replays.found, replays.priced
    results = CompareResults(
        **replays.today,
        jobs=found.outcomes[0].results.jobs,
        span_s=found.span_s,
        first=found.outcomes[0].label,
        cheapest=found.cheapest[0].label,
        fastest=found.fastest[0].label,
        ties=found.ties,
        no_spot=no_spot(replays.replayed, priced.policies, request.engine),
        policies=found.rows(),
    )
    return CompareStudy(request, replays.replayed, found, priced, results)
