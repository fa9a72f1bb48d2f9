"""Choose batch size and share of the GPU of models from measured tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.sharing_functions import (
    INFERENCE,
    TRAINING,
    SharedFunction,
    functions_text,
)
from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable, read_profile
from gpuplan.planner.requests.profile import ProfileRequest
from gpuplan.planner.sharing.profile_search import (
    LEAST_REACTION,
    LIMIT_SHARE,
    REQUEST_SHARE,
    LoadChoice,
    ServiceChoice,
    Trial,
    cheapest,
    reaction,
    search_service,
    search_training,
)
from gpuplan.planner.studies.answer import Answer


@dataclass(frozen=True, slots=True)
class ProfileOptimum:
    """The best entry of a whole table.

    Attributes:
        batch: batch size.
        request: share of the GPU, of 1.
    """

    batch: int
    request: float


@dataclass(frozen=True, slots=True)
class TrainingTrial:
    """One evaluation of the search of a training job.

    Attributes:
        sm_percent: share of the SMs in percent.
        throughput: items per second.
    """

    sm_percent: float
    throughput: float


@dataclass(frozen=True, slots=True)
class ProfiledFunction:
    """What was found for a model; null where it does not apply to training.

    Attributes:
        name: the model.
        kind: inference or training.
        batch: batch size chosen.
        request: share of a GPU that it needs, of 1.
        limit: share of a GPU that it may get, of 1.
        slo_s: latency that a request should keep.
        latency_s: time of the batch chosen.
        throughput: items per second of it.
        evaluations: entries of the table that the search looked at.
        moves: evaluations after the first.
        traversal: the best entry of the whole table.
        te: throughput efficacy of the choice: items per second and percent of the SMs.
        te_best: the same of the best entry.
        stopped: why the search ended.
        share_reaction: best rate over worst across shares, at the largest batch.
        suspicious: whether the share was perhaps not applied.
        for_load: the least of a GPU that serves ``--load``; null without it.
        path: the evaluations of a service in their order.
        training_path: those of training.
        function: the function as the file of functions has it.
        service: the search of a service; None for training.
        table: the table.
    """

    name: str
    kind: str
    batch: int
    request: float
    limit: float
    slo_s: float | None
    latency_s: float | None
    throughput: float | None
    evaluations: int
    moves: int
    traversal: ProfileOptimum | None
    te: float | None
    te_best: float | None
    stopped: str | None
    share_reaction: float
    suspicious: bool
    for_load: LoadChoice | None
    path: tuple[Trial, ...]
    training_path: tuple[TrainingTrial, ...]
    function: Hidden[SharedFunction]
    service: Hidden[ServiceChoice | None]
    table: Hidden[ProfileTable]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the table suspicious."""
        if not self.suspicious:
            return ()
        return (
            f"{self.name}: the largest batch is only {self.share_reaction:.2f} times as fast on "
            "the largest share as on the smallest; the share was perhaps not applied",
        )


@dataclass(frozen=True, slots=True)
class ProfileResults:
    """What was found for each model.

    Attributes:
        functions: one entry per table.
    """

    functions: tuple[ProfiledFunction, ...]


@dataclass(frozen=True, slots=True)
class Profiles(Answer[ProfileRequest, ProfileResults]):
    """Batch size and share of the GPU of models."""

    def functions_text(self, path: Path) -> str:
        """Return the text of a file of functions for ``gpuplan share``, to be written there."""
        slo_s = self.request.slo_s
        goal = "training" if slo_s is None else f"an SLO of {1000 * slo_s:g}ms"
        note = f"Functions that share GPUs, profiled for {goal}."
        return functions_text(
            (model.function for model in self.results.functions),
            path.parent,
            f"{note} Add memory_gb, work and load by hand.",
        )


def profile(request: ProfileRequest) -> Profiles:
    """Choose batch size and share of the GPU of each model.

    With a load, the function of a service is the cheapest that serves it.

    Raises:
        InfeasibleError: no share of a table meets the SLO.
        InputError: a table cannot be used.
        UsageError: a request that cannot be meant, or two tables of one name.
    """
    request.check()
    tables = tuple(read_profile(path, request.names) for path in request.tables)
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice}: two tables have this name; rename one of the files")
    functions = tuple(_profiled(table, request) for table in tables)
    return Profiles(
        request=request,
        results=ProfileResults(functions),
        inputs=tuple(
            InputFile(str(table.path), sha256_of(table.path), table.latency_s.size)
            for table in tables
        ),
        warnings=tuple(text for model in functions for text in model.warnings),
    )


def _profiled(table: ProfileTable, request: ProfileRequest) -> ProfiledFunction:
    slo_s, load_rps = request.slo_s, request.load_rps
    if slo_s is None:
        least = search_training(table, REQUEST_SHARE)
        limit = search_training(table, LIMIT_SHARE)
        function = SharedFunction(
            name=table.name,
            kind=TRAINING,
            profile=table.path,
            request=least.sm_percent / 100,
            limit=max(least.sm_percent, limit.sm_percent) / 100,
            batch=int(table.batch[-1]),
        )
        path = tuple(
            TrainingTrial(percent, rate)
            for choice in (least, limit)
            for percent, rate in choice.path
        )
        return _function(table, function, training_path=path)
    service = search_service(table, slo_s, te_drop=request.te_drop)
    for_load = None if load_rps is None else cheapest(table, slo_s, load_rps)
    chosen = for_load or service
    function = SharedFunction(
        name=table.name,
        kind=INFERENCE,
        profile=table.path,
        request=chosen.request,
        limit=chosen.limit,
        batch=chosen.batch,
        slo_s=slo_s,
    )
    return _function(table, function, service=service, for_load=for_load)


def _function(
    table: ProfileTable,
    function: SharedFunction,
    service: ServiceChoice | None = None,
    for_load: LoadChoice | None = None,
    training_path: tuple[TrainingTrial, ...] = (),
) -> ProfiledFunction:
    chosen, share_reaction = service or function, reaction(table)
    best = None if service is None else service.best
    path = () if service is None else service.path
    evaluations = len(path) + len(training_path)
    return ProfiledFunction(
        name=function.name,
        kind=function.kind,
        batch=chosen.batch,
        request=chosen.request,
        limit=chosen.limit,
        slo_s=None if service is None else function.slo_s,
        latency_s=None if service is None else service.latency_s,
        throughput=None if service is None else service.throughput,
        evaluations=evaluations,
        moves=evaluations - 1,
        traversal=None if best is None else ProfileOptimum(best.batch, best.sm_percent / 100),
        te=None if service is None else service.te,
        te_best=None if best is None else best.te,
        stopped=None if service is None else service.stopped,
        share_reaction=share_reaction,
        suspicious=share_reaction < LEAST_REACTION,
        for_load=for_load,
        path=path,
        training_path=training_path,
        function=function,
        service=service,
        table=table,
    )
