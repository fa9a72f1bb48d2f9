"""How many GPUs services and training need if they share cards: instances placed, or under load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.plain import Inlined
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.sharing_functions import (
    TRAINING,
    SharedFunction,
    services_of,
)
from gpuplan.analysis.user_tables.sharing_instances import (
    COLUMNS,
    SharedInstance,
    has_events,
    is_table,
    read_instances,
)
from gpuplan.analysis.user_tables.sharing_profiles import read_profile
from gpuplan.planner.requests.share import ShareRequest
from gpuplan.planner.sharing.coscaling_study import (
    COLD_STARTS_S,
    CoscalingResults,
    SharingRequest,
    study_coscaling,
)
from gpuplan.planner.sharing.loads import SYNTHETIC_S, Loads, read_log
from gpuplan.planner.sharing.placement_study import (
    PlacementRequest,
    PlacementResults,
    instances_of_trace,
    log_memory_gb,
    study_placement,
)
from gpuplan.planner.studies.answer import Answer
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import Profile, Service, TrainingJob

MOST_HORIZON_S = 366 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareParameters:
    """What was asked of ``gpuplan share``; some fields are of instances alone, some of services.

    Attributes:
        policies: the policies compared.
        cluster: nodes and the GPUs of each.
        settings: of placement.
        gammas: values of gamma, of instances.
        usd_per_gpu_h: price, of instances.
        map: our column -> the header that stands for it.
        loads: requests by service.
        multiplier: factor on requests per second.
        capacity_rps: requests per second that one instance is registered to serve;
            null as profiled.
        cold_starts_s: times until a new instance is ready.
        horizon_s: length of the run.
        seed: of requests that are sampled.
    """

    policies: tuple[str, ...]
    cluster: str
    settings: Inlined[PlacementSettings]
    gammas: tuple[float, ...] | UnsetType = UNSET
    usd_per_gpu_h: float | UnsetType | None = UNSET
    map: Mapping[str, str] | UnsetType = UNSET
    loads: Mapping[str, str] | UnsetType = UNSET
    multiplier: float | UnsetType = UNSET
    capacity_rps: float | UnsetType | None = UNSET
    cold_starts_s: tuple[float, ...] | UnsetType = UNSET
    horizon_s: float | UnsetType = UNSET
    seed: int | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAnswer(Answer[ShareRequest, PlacementResults | CoscalingResults]):
    """What sharing saves.

    Attributes:
        loads: requests by service; empty for instances.
    """

    loads: Mapping[str, str] = field(default_factory=dict)

    def parameters(self) -> ShareParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        request, run = self.request, self.results.request
        cluster = request.cluster.nodes()[0]
        if isinstance(run, PlacementRequest):
            return ShareParameters(
                policies=request.policies,
                cluster=cluster,
                settings=run.settings,
                gammas=request.gammas or (run.settings.gamma,),
                usd_per_gpu_h=request.usd_per_gpu_h,
                map=request.names,
            )
        return ShareParameters(
            policies=request.policies,
            cluster=cluster,
            settings=run.settings,
            loads=self.loads,
            multiplier=request.multiplier,
            capacity_rps=request.capacity_rps,
            cold_starts_s=tuple(run.cold_starts_s),
            horizon_s=run.horizon_s,
            seed=request.seed,
        )


def share(request: ShareRequest, progress: Callable[[float], None] | None = None) -> ShareAnswer:
    """Place instances, or run services under load, under each policy.

    Raises:
        InfeasibleError: the cluster is too small.
        InputError: a file cannot be used.
        UsageError: a request that cannot be meant.
    """
    request.check()
    if request.functions is None:
        assert request.trace is not None
        return _place(request, request.trace)
    return _coscale(request, request.functions, progress)


def _place(request: ShareRequest, path: Path) -> ShareAnswer:
    settings = request.settings()
    _, nodes, node_gpus = request.cluster.nodes()
    instances, is_known = _table_of_instances(path, request.names), True
    notes: tuple[str, ...] = ()
    if instances is None:
        trace, source = read_log(path, request.names)
        memory_gb = log_memory_gb(trace)
        if memory_gb is not None and "memory_gb" not in request.values:
            settings = replace(settings, memory_gb=memory_gb)
        instances, notes = instances_of_trace(trace, settings.memory_gb, nodes, node_gpus)
        if not instances:
            raise InputError(path, "has no job that held GPUs", expected="at least one")
        is_known = any(instance.request < 1 for instance in instances)
    else:
        source = InputFile(str(path), sha256_of(path), len(instances))
    gammas, usd_per_gpu_h = request.gammas, request.usd_per_gpu_h
    placed = study_placement(
        PlacementRequest(
            instances, request.policies, nodes, node_gpus, settings, gammas, usd_per_gpu_h, is_known
        )
    )
    return ShareAnswer(request=request, results=placed, inputs=(source,), warnings=notes)


def _table_of_instances(path: Path, names: Mapping[str, str]) -> Sequence[SharedInstance] | None:
    """Return the instances of a file; None for a job log."""
    if path.suffix.lower() == ".parquet" or path.is_dir():
        return None
    if not (has_events(path) or is_table(path, names)):
        return None
    wrong = next((name for name in names if name not in COLUMNS), None)
    if wrong is not None:
        raise UsageError(f"--map {wrong}: expected one of {', '.join(COLUMNS)}")
    return read_instances(path, names)


def _coscale(
    request: ShareRequest, path: Path, progress: Callable[[float], None] | None
) -> ShareAnswer:
    functions = request.read_functions()
    services = services_of(functions)
    loads = Loads(request.load, request.multiplier, request.seed)
    specs = {
        service.name: loads.spec(service.name, service.load, path.parent) for service in services
    }
    horizon_s = request.horizon_s
    if horizon_s is None:
        lengths = [loads.length_s(spec) for spec in specs.values()]
        horizon_s = max((length for length in lengths if length is not None), default=SYNTHETIC_S)
    if horizon_s > MOST_HORIZON_S:
        raise UsageError(
            f"--horizon: a run of {horizon_s:,.0f} s is longer than {MOST_HORIZON_S:,} s (366 days)"
        )
    profiles = _profiles(functions)
    _, nodes, node_gpus = request.cluster.nodes()
    shared = SharingRequest(
        services=[
            _service(
                service,
                profiles[service.name],
                loads.arrivals(specs[service.name], horizon_s, place),
                request.capacity_rps,
            )
            for place, service in enumerate(services)
        ],
        jobs=[_job(job, profiles[job.name]) for job in functions if job.kind == TRAINING],
        policies=request.policies,
        horizon_s=horizon_s,
        nodes=nodes,
        node_gpus=node_gpus,
        settings=request.settings(),
        cold_starts_s=request.cold_starts_s or COLD_STARTS_S,
        own_cold_starts=frozenset(
            function.name for function in functions if function.cold_start_s is not None
        ),
        frontier=not request.no_frontier,
    )
    return ShareAnswer(
        request=request,
        results=study_coscaling(shared, progress),
        inputs=(InputFile(str(path), sha256_of(path), len(functions)), *loads.inputs.values()),
        loads=specs,
    )


def _profiles(functions: Sequence[SharedFunction]) -> dict[str, Profile]:
    """Return the profile of each function; a table is read once."""
    tables = {path: read_profile(path) for path in {each.profile: None for each in functions}}
    for function in functions:
        largest = int(tables[function.profile].batch[-1])
        if function.kind != TRAINING and function.batch > largest:
            raise InputError(
                function.profile,
                f"{function.name}: a batch of {function.batch} is not measured",
                expected=f"at most {largest}",
            )
    return {function.name: Profile(*tables[function.profile].columns()) for function in functions}


def _service(
    function: SharedFunction, profile: Profile, arrival_s: FloatArray, capacity_rps: float | None
) -> Service:
    return Service(
        name=function.name,
        profile=profile,
        request=function.request,
        limit=function.limit,
        batch=function.batch,
        slo_s=function.slo_s,
        arrival_s=arrival_s,
        memory_gb=function.memory_gb,
        llm=function.kind == "llm",
        work=function.work,
        cold_start_s=function.cold_start_s or 0.0,
        capacity_rps=function.capacity_rps if capacity_rps is None else capacity_rps,
    )


def _job(function: SharedFunction, profile: Profile) -> TrainingJob:
    return TrainingJob(
        name=function.name,
        profile=profile,
        request=function.request,
        limit=function.limit,
        workers=function.workers,
        memory_gb=function.memory_gb,
        start_s=function.start_s,
        work_s=function.work_s,
    )
