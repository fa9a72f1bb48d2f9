"""Replay a trace under one policy or several, and compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.gpu_mix import GpuMix, gpu_mix
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.compare import PolicyComparison, PolicySpec
from gpuplan.planner.compare import compare as run_all
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.renting_settings import CLUSTER_PRICES
from gpuplan.planner.policies.quota_settings import has_quotas
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.requests.compare import DEFAULT_POLICIES, ComparedParameters, CompareRequest
from gpuplan.planner.requests.replays import PoliciesRequest
from gpuplan.planner.requests.site_request import KUBERNETES
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    Fidelity,
    named_for,
    of_whole_gpus,
    unknown,
    why_not_today,
    without_limits,
)
from gpuplan.planner.site.policies_today import fidelity_of_policies
from gpuplan.planner.site.todays_cluster import on_todays_cluster
from gpuplan.planner.spec_prices import lacks_serverless
from gpuplan.planner.speedup.registry import needs_classes
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.lending import no_spot, placeable, queue_notes
from gpuplan.planner.studies.policy_prices import (
    AS_ONE_TYPE,
    MOST_NAMED,
    PricedPolicies,
    backlog_note,
    besides_pools,
    price_policies,
)
from gpuplan.planner.studies.replay import ReplayInputs, price_choice, rates_of, read_replay
from gpuplan.planner.studies.replay_results import CompareResults, PaidCluster


@dataclass(frozen=True, slots=True)
class PolicyReplays:
    """Replays of the same jobs.

    Attributes:
        policies: with their settings.
        inputs: the jobs.
        comparison: what each policy made of them.
        priced: the policies as they pay, and today at the same price.
        size_notes: what to say of clusters whose size nobody set.
        fidelity: how a replay of today compares with the log.
    """

    policies: tuple[PolicySpec, ...]
    inputs: ReplayInputs
    comparison: PolicyComparison
    priced: PricedPolicies
    size_notes: tuple[str, ...]
    fidelity: Fidelity

    @property
    def today(self) -> dict[str, Any]:
        """What the log shows, for the results."""
        return {
            "today": self.priced.today,
            "fidelity": self.fidelity,
            "today_groups": self.inputs.today_groups or UNSET,
            "today_cluster": self.today_cluster or UNSET,
        }

    @property
    def today_cluster(self) -> PaidCluster | None:
        """Today's GPUs with their bill; None unless the policies replay one site.

        GPUs of several types count only where a policy keeps them apart, and so knows each price.
        Under prices that change over time, a bill of the past and one of the last prices differ.
        """
        today, priced = self.priced.today, self.priced
        of_site = [run for run in self.comparison.outcomes if has_quotas(run.settings)]
        sizes = {run.results.gpus for run in of_site}
        if today is None or len(sizes) != 1 or sizes.pop() < today.usage.peak_gpus:
            return None
        if today.usage.usd_per_month is None or not (priced.is_constant and priced.is_alike):
            return None
        kept = [run for run in of_site if run.gpus_by_type or gpu_mix(today) is None]
        usd = kept[0].results.usd_per_month if kept else None
        return None if usd is None else PaidCluster(kept[0].results.gpus, usd)

    @property
    def pooled_types(self) -> GpuMix | None:
        """The GPU-hours on other types than most, where the policies treat all as one type."""
        is_apart = any(run.gpus_by_type for run in self.comparison.outcomes)
        return None if is_apart else self.priced.mix

    @property
    def warnings(self) -> tuple[str, ...]:
        """What would change the reader's decision, but for the policies' own."""
        outcomes = self.comparison.outcomes
        return (
            *self.priced.warnings,
            *besides_pools(self.comparison.beside_pools, self.priced.pools_usd_per_month),
            *(note.replace(*self._types()) for note in self.priced.mixed),
            *self.inputs.notes,
            *self.inputs.deadline_notes(self.policies),
            *self.size_notes,
            *backlog_note([(outcome.label, outcome.results) for outcome in outcomes]),
        )

    def _types(self) -> tuple[str, str]:
        """Return the clause that all GPUs count as one type, and how the policies treat them."""
        as_one = f"{AS_ONE_TYPE}{self.priced.at_mean}"
        outcomes = self.comparison.outcomes
        by_type = list(dict.fromkeys(run.name for run in outcomes if run.gpus_by_type))
        pooled = list(dict.fromkeys(run.name for run in outcomes if not run.gpus_by_type))
        if not by_type:
            return as_one, as_one
        kept = (
            f"{listed(by_type, MOST_NAMED)} keep{'s' if len(by_type) == 1 else ''} the types apart"
        )
        if not pooled:
            return as_one, kept
        treat = "treats" if len(pooled) == 1 else "treat"
        one_type = f"{treat} all GPUs as one type{self.priced.at_mean}"
        return as_one, f"{kept}; {listed(pooled, MOST_NAMED)} {one_type}"


def replay_policies(
    request: PoliciesRequest,
    progress: Callable[[float], None] | None = None,
    *,
    engine: Engine = THREADS,
    per_job: bool = False,
) -> PolicyReplays:
    """Replay a trace under each policy.

    Args:
        request: the jobs and the policies.
        progress: called with the share done.
        engine: where the replays run; the result does not depend on it.
        per_job: whether to keep the replays, and whose each job is.

    Raises:
        InputError: the trace or a table cannot be used.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    policies, replay = request.checked_specs(), request.replay
    effective = [policy.effective() for policy in policies]
    inputs = read_replay(
        replay,
        by_class=any(map(needs_classes, effective)),
        by_tenant=any(map(lends, effective)),
        by_queue=any(map(has_quotas, effective)),
        window=request.window,
        rates=rates_of(replay.gpu_types, (values for values in effective if not lends(values))),
        labels=per_job,
    )
    inputs = placeable(inputs, policies)
    policies, unpaid = _payable(request, policies, inputs)
    size_notes: tuple[str, ...] = ()
    if not why_not_today(replay.jobs, inputs.trace.provenance):
        widest_gpus = int(inputs.jobs.workload.gpus.max())
        policies, size_notes = on_todays_cluster(policies, inputs.today, widest_gpus)
    priced = price_policies(policies, request.book, inputs)
    priced = replace(priced, notes=(*unpaid, *priced.notes))
    inputs = replace(inputs, bill=None)  # it keeps the rows of the trace
    comparison = run_all(
        inputs.jobs,
        priced.policies,
        inputs.draws,
        timelines=request.timelines,
        keeps=per_job,
        engine=engine,
        progress=progress,
    )
    if isinstance(request, CompareRequest):
        sizes = {size.option: size.shape.gpus for size in request.cluster.sizes()}
        fixed_sizes = {option: gpus for option, gpus in sizes.items() if gpus is not None}
        comparison = replace(comparison, sizes=fixed_sizes)
    if priced.pools_usd_per_month:
        beside_pools = tuple(
            spec.label for spec in priced.policies if CLUSTER_PRICES not in spec.settings
        )
        comparison = replace(comparison, beside_pools=beside_pools)
    fidelity = _fidelity(replay.jobs, inputs, priced.policies, comparison)
    return PolicyReplays(policies, inputs, comparison, priced, size_notes, fidelity)


def _payable(
    request: PoliciesRequest, policies: tuple[PolicySpec, ...], inputs: ReplayInputs
) -> tuple[tuple[PolicySpec, ...], tuple[str, ...]]:
    """Return the policies that a price book can price, where none was named, and a note."""
    is_usual = isinstance(request, CompareRequest) and request.policy == DEFAULT_POLICIES
    prices = inputs.prices(request.book)
    if not (is_usual and request.price.is_own) or prices is None or request.replay.prices:
        return policies, ()
    hours = inputs.used_types
    unpaid = [spec.label for spec in policies if lacks_serverless(spec, prices, hours)]
    if not unpaid:
        return policies, ()
    kept = tuple(spec for spec in policies if spec.label not in unpaid)
    return kept, (f"without {listed(unpaid)}: the price book has no serverless prices",)


def _fidelity(
    selection: Selection,
    inputs: ReplayInputs,
    policies: Sequence[PolicySpec],
    comparison: PolicyComparison,
) -> Fidelity:
    """Return how a replay of today compares with the log."""
    if why := why_not_today(selection, inputs.trace.provenance):
        return unknown(why)
    if inputs.today is None:
        return unknown("what the log shows today was not read")
    if inputs.today.mean_wait_s is None:
        return unknown(NO_WAITS)
    runs = list(zip(policies, comparison.outcomes, strict=True))
    peak_gpus, is_part = inputs.today.usage.peak_gpus, selection.where is not None
    fidelity = fidelity_of_policies(inputs.jobs, runs, peak_gpus, inputs.draws, is_part=is_part)
    loops = {run.policy for run in comparison.outcomes if run.loop}
    if fidelity.policy in loops and not fidelity.may_speak:
        fidelity = replace(fidelity, why="in the replay jobs evict each other in a loop")
    fidelity = of_whole_gpus(fidelity, inputs.jobs.workload)
    fidelity = without_limits(fidelity, inputs.limit_share)
    has_partitions = inputs.trace.provenance.source_format not in KUBERNETES
    return named_for(fidelity, has_partitions=has_partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAnswer(Answer[CompareRequest, CompareResults]):
    """What the policies made of the same jobs.

    Attributes:
        replays: the jobs, and what each policy made of them.
    """

    replays: PolicyReplays

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        outcomes = self.replays.comparison.outcomes
        return {
            "policies": [
                ComparedParameters(
                    name=outcome.name,
                    label=outcome.label,
                    policy=outcome.policy,
                    settings=dict(outcome.settings),
                    price_choice=price_choice(policy.settings),
                )
                for outcome, policy in zip(outcomes, self.replays.policies, strict=True)
            ],
            **self.request.parameters(),
        }


def compare(
    request: CompareRequest, progress: Callable[[float], None] | None = None
) -> CompareAnswer:
    """Replay a trace under each policy; raises as `replay_policies`."""
    replays = replay_policies(request, progress, engine=request.engine)
    comparison, priced = replays.comparison, replays.priced
    may_speak = replays.fidelity.may_speak and bool(comparison.ranked)
    outcomes = comparison.outcomes
    labels_of: dict[str, list[str]] = {}
    for outcome in outcomes:
        for warning in outcome.warnings:
            labels_of.setdefault(warning, []).append(outcome.label)
    return CompareAnswer(
        request=request,
        results=CompareResults(
            **replays.today,
            jobs=outcomes[0].results.jobs,
            span_s=comparison.span_s,
            first=outcomes[0].label,
            cheapest=comparison.cheapest[0].label if may_speak and comparison.pays_alike else None,
            fastest=comparison.fastest[0].label if may_speak else None,
            ties=comparison.ties,
            no_spot=no_spot(replays.inputs, priced.policies, request.engine),
            policies=comparison.rows(),
        ),
        inputs=(*replays.inputs.inputs, *replays.priced.inputs),
        warnings=(
            *replays.warnings,
            *queue_notes(outcomes),
            *(f"{', '.join(labels)}: {warning}" for warning, labels in labels_of.items()),
        ),
        caveats=priced.notes,
        replays=replays,
    )
