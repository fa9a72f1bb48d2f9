"""Profile models: search each table, and say which tables are suspicious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.user_tables.sharing_functions import INFERENCE, TRAINING, SharedFunction
from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable
from gpuplan.planner.sharing.profile_results import (
    ProfiledFunction,
    ProfileOptimum,
    TrainingTrial,
)
from gpuplan.planner.sharing.profile_search import (
    LEAST_REACTION,
    LIMIT_SHARE,
    REQUEST_SHARE,
    TE_DROP,
    LoadChoice,
    ServiceChoice,
    TrainingChoice,
    cheapest,
    reaction,
    search_service,
    search_training,
)


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """What was found for a table.

    Attributes:
        function: the function as the file of functions has it.
        service: the search of a service; None for training.
        training: the searches of request and limit; None for a service.
        share_reaction: best rate over worst across shares, at the largest batch.
        for_load: what serves a given load; None without one.
    """

    function: SharedFunction
    service: ServiceChoice | None
    training: tuple[TrainingChoice, TrainingChoice] | None
    share_reaction: float
    for_load: LoadChoice | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the table suspicious."""
        if self.share_reaction >= LEAST_REACTION:
            return ()
        return (
            f"{self.function.name}: the largest batch is only {self.share_reaction:.2f} times as "
            "fast on the largest share as on the smallest; the share was perhaps not applied",
        )

    def results(self) -> ProfiledFunction:
        """Return the results as JSON has them."""
        one, found = self.function, self.service
        trials = () if found is None else found.path
        choices = self.training or ()
        evaluations = len(trials) + sum(len(choice.path) for choice in choices)
        best = None if found is None else found.best
        return ProfiledFunction(
            name=one.name,
            kind=one.kind,
            batch=one.batch if found is None else found.batch,
            request=one.request if found is None else found.request,
            limit=one.limit if found is None else found.limit,
            slo_s=None if found is None else one.slo_s,
            latency_s=None if found is None else found.latency_s,
            throughput=None if found is None else found.throughput,
            evaluations=evaluations,
            moves=evaluations - 1,
            traversal=None if best is None else ProfileOptimum(best.batch, best.sm_percent / 100),
            te=None if found is None else found.te,
            te_best=None if best is None else best.te,
            stopped=None if found is None else found.stopped,
            share_reaction=self.share_reaction,
            suspicious=bool(self.warnings),
            for_load=self.for_load,
            path=trials,
            training_path=tuple(
                TrainingTrial(percent, rate) for choice in choices for percent, rate in choice.path
            ),
        )


def profile_models(
    tables: Sequence[ProfileTable],
    slo_s: float | None,
    *,
    te_drop: float = TE_DROP,
    load_rps: float | None = None,
) -> list[ProfiledModel]:
    """Search every table: of services, or of training where there is no SLO.

    With a load, the function of a service is the cheapest that serves it.

    Raises:
        InfeasibleError: no share of a table meets the SLO.
        UsageError: two tables of one name.
    """
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice}: two tables have this name; rename one of the files")
    return [_profiled(table, slo_s, te_drop, load_rps) for table in tables]


def _profiled(
    table: ProfileTable, slo_s: float | None, te_drop: float, load_rps: float | None
) -> ProfiledModel:
    if slo_s is None:
        request = search_training(table, REQUEST_SHARE)
        limit = search_training(table, LIMIT_SHARE)
        function = SharedFunction(
            name=table.name,
            kind=TRAINING,
            profile=table.path,
            request=request.sm_percent / 100,
            limit=max(request.sm_percent, limit.sm_percent) / 100,
            batch=int(table.batch[-1]),
        )
        return ProfiledModel(function, None, (request, limit), reaction(table))
    found = search_service(table, slo_s, te_drop=te_drop)
    for_load = None if load_rps is None else cheapest(table, slo_s, load_rps)
    chosen = for_load or found
    function = SharedFunction(
        name=table.name,
        kind=INFERENCE,
        profile=table.path,
        request=chosen.request,
        limit=chosen.limit,
        batch=chosen.batch,
        slo_s=slo_s,
    )
    return ProfiledModel(function, found, None, reaction(table), for_load)
