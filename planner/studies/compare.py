"""Compare policies on one trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import UNSET

from gpuplan.analysis.characterize.today import Today
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
from gpuplan.planner.studies.replay_results import CompareResults, NoSpotResults


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
        self.replay.check_checkpoints({one.label: one.effective() for one in self.policies})


@dataclass(frozen=True, slots=True)
class CompareStudy:
    """What the policies made of the same jobs.

    Attributes:
        request: what was asked for.
        replayed: the jobs.
        found: the comparison.
        priced: the policies as they pay, and today at the same price.
        results: as JSON has them.
    """

    request: CompareRequest
    replayed: ReplayInputs
    found: PolicyComparison
    priced: PricedPolicies
    results: CompareResults

    def parameters(self) -> CompareParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        request = self.request
        return CompareParameters(
            policies=[
                ComparedParameters(
                    name=one.name,
                    label=one.label,
                    policy=one.policy,
                    settings=dict(one.settings),
                    price_choice=price_choice(asked.settings),
                )
                for one, asked in zip(self.found.outcomes, request.policies, strict=True)
            ],
            cluster=request.cluster,
            gpus=request.gpus,
            price=dict(request.price.usd_per_gpu_h) or None,
            window=request.window,
            **self.replayed.parameters,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision."""
        outcomes = self.found.outcomes
        labels_of: dict[str, list[str]] = {}
        for one in outcomes:
            for warning in one.warnings:
                labels_of.setdefault(warning, []).append(one.label)
        own = (f"{', '.join(labels)}: {warning}" for warning, labels in labels_of.items())
        return (
            *self.priced.warnings,
            *self.replayed.notes,
            *self.replayed.deadline_notes(self.request.policies),
            *backlog_note([(one.label, one.results) for one in outcomes]),
            *queue_notes(outcomes),
            *own,
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Where prices come from."""
        return self.priced.notes


def compare(
    request: CompareRequest, progress: Callable[[float], None] | None = None
) -> CompareStudy:
    """Replay a trace under each policy.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    request.check_checkpoints()
    check_price(request.policies, request.price)
    effective = [one.effective() for one in request.policies]
    read = request.replay.read(
        by_class=any(map(needs_classes, effective)),
        by_tenant=any(map(lends, effective)),
        window=request.window,
        rates=request.replay.rates(values for values in effective if not lends(values)),
    )
    read = placeable(read, request.policies)
    priced = price_policies(request.policies, request.price, request.replay, read)
    found = run_all(
        read.jobs,
        priced.policies,
        read.draws,
        timelines=request.timelines,
        engine=request.engine,
        progress=progress,
    )
    without = no_spot(read, priced.policies, request.engine)
    results = replace(
        _results(found, priced.today, without), today_groups=read.today_groups or UNSET
    )
    return CompareStudy(request, read, found, priced, results)


def _results(
    found: PolicyComparison, today: Today | None, without: tuple[NoSpotResults, ...]
) -> CompareResults:
    return CompareResults(
        today=None if today is None else today.results(),
        jobs=found.outcomes[0].results.jobs,
        span_s=found.span_s,
        first=found.outcomes[0].label,
        cheapest=found.cheapest[0].label,
        fastest=found.fastest[0].label,
        ties=found.ties,
        no_spot=without,
        policies=found.rows(),
    )
