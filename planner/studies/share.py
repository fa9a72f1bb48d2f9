"""How many GPUs services and training need if they share cards: instances placed, or under load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.sharing_functions import (
    TRAINING,
    SharedFunction,
    read_functions,
)
from gpuplan.analysis.user_tables.sharing_instances import (
    COLUMNS,
    SharedInstance,
    has_events,
    is_table,
    read_instances,
)
from gpuplan.analysis.user_tables.sharing_profiles import read_profile
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
    study_placement,
)
from gpuplan.planner.studies.answer import Answer
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import Profile, Service, TrainingJob

PLACED = ("dilu", "exclusive", "infless-l", "infless-r", "fast-gs")
UNDER_LOAD = (*PLACED, "infless", "mps-l", "mps-r")
MOST_HORIZON_S = 366 * 86400
NEITHER = (
    "share: give INSTANCES to place, or --functions with --load\n"
    "  next: gpuplan share instances.csv, or gpuplan share --functions functions.toml "
    "--load rates.txt"
)


@dataclass(frozen=True, slots=True)
class ShareParameters:
    """What was asked of ``gpuplan share``; some fields are of instances alone, some of services.

    Attributes:
        gamma: most that the limits on a GPU add up to, in GPUs.
        omega: most that the requests on a GPU add up to, in GPUs.
        alpha, beta: weights of free SMs and free memory in the score.
        memory_gb: memory of a GPU.
        split: whether an LLM may go to several GPUs of a node.
        affinity: whether instances of a function share the gangs that one of them shares.
        reference: whether ties are broken as in the authors' simulation.
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

    policies: list[str]
    cluster: str
    gamma: float
    omega: float
    alpha: float
    beta: float
    memory_gb: float
    split: bool
    affinity: bool
    reference: bool
    gammas: list[float] | UnsetType = UNSET
    usd_per_gpu_h: float | UnsetType | None = UNSET
    map: dict[str, str] | UnsetType = UNSET
    loads: dict[str, str] | UnsetType = UNSET
    multiplier: float | UnsetType = UNSET
    capacity_rps: float | UnsetType | None = UNSET
    cold_starts_s: list[float] | UnsetType = UNSET
    horizon_s: float | UnsetType = UNSET
    seed: int | UnsetType = UNSET


@dataclass(frozen=True)
class ShareRequest:
    """What shares GPUs, and how.

    Attributes:
        trace: instances that start and end, or a job log or trace; None for functions under load.
        functions: the services and training jobs; None for instances.
        policies: names, of `PLACED` or, under load, of `UNDER_LOAD`.
        nodes, node_gpus: the cluster; ``cluster`` is its text.
        settings: bounds and weights of placement.
        gammas: values of gamma to compare; empty for that of the settings.
        usd_per_gpu_h: price of a GPU, for instances; None for no dollars.
        names: our column -> the header that stands for it, in a table of instances or a log.
        load: requests of the services, ``NAME=LOAD`` or one for all.
        multiplier: factor on requests per second.
        capacity_rps: requests per second that one instance is registered to serve;
            None as profiled.
        cold_starts_s: cold starts to compare; empty for `COLD_STARTS_S`.
        horizon_s: length of the run; None for that of the loads.
        frontier: whether to vary gamma and the registered capacity.
        seed: seed of requests that are sampled.
    """

    trace: Path | None
    functions: Path | None
    policies: tuple[str, ...] = ("dilu", "exclusive")
    nodes: int = 1000
    node_gpus: int = 4
    cluster: str = "1000x4"
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    gammas: tuple[float, ...] = ()
    usd_per_gpu_h: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    load: tuple[str, ...] = ()
    multiplier: float = 1.0
    capacity_rps: float | None = None
    cold_starts_s: tuple[float, ...] = ()
    horizon_s: float | None = None
    frontier: bool = True
    seed: int = 0

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that the functions name."""
        if self.functions is None or not self.functions.is_file():
            return (self.trace, self.functions, *self.load)
        named = [one.profile for one in self.known]
        loads = [self.functions.parent / one.load for one in self.known if one.load is not None]
        return (self.functions, *named, *loads, *self.load)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    @cached_property
    def known(self) -> Sequence[SharedFunction]:
        """The functions. Raises `InputError`."""
        assert self.functions is not None
        return read_functions(self.functions)

    @property
    def services(self) -> list[SharedFunction]:
        """The functions that serve requests, by name."""
        found = (one for one in self.known if one.kind != TRAINING)
        return sorted(found, key=lambda one: one.name)

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        if (self.trace is None) == (self.functions is None):
            raise UsageError(NEITHER)
        names = dict.fromkeys(PLACED if self.functions is None else UNDER_LOAD, "")
        for name in self.policies:
            find_named(name, names, "--policy", "policy")
        if self.functions is None:
            given = {
                "--load": self.load, "--capacity": self.capacity_rps,
                "--cold-start": self.cold_starts_s,
            }  # fmt: skip
            wrong = next((name for name, value in given.items() if value not in (None, ())), None)
            if wrong is not None:
                raise UsageError(f"{wrong}: needs --functions, not instances")
            return
        if self.usd_per_gpu_h is not None:
            raise UsageError("--price: applies to INSTANCES only")
        if self.names:
            raise UsageError("--map: applies to INSTANCES only")
        if len(self.gammas) > 1:
            raise UsageError("--gamma: one value with --functions; the frontier varies it")
        if self.settings.reference:
            raise UsageError("--set tie_break=reference: applies to INSTANCES, not to --functions")
        loads = Loads(self.load, self.multiplier, self.seed)
        loads.check_names([one.name for one in self.services])
        for one in self.services:
            loads.process(loads.spec(one.name, one.load, self.functions.parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAnswer(Answer[ShareRequest, PlacementResults | CoscalingResults]):
    """What sharing saves.

    Attributes:
        parameters: as JSON has them.
    """

    parameters: ShareParameters


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
    settings = request.settings
    found, source, notes = _instances(request, path)
    size = (request.nodes, request.node_gpus)
    placed = study_placement(
        PlacementRequest(
            found, request.policies, *size, settings, request.gammas, request.usd_per_gpu_h
        )
    )
    parameters = ShareParameters(
        policies=list(request.policies),
        cluster=request.cluster,
        **_settings(request),
        gammas=list(request.gammas) or [settings.gamma],
        usd_per_gpu_h=request.usd_per_gpu_h,
        map=dict(request.names),
    )
    return ShareAnswer(
        request=request, results=placed, inputs=(source,), warnings=notes, parameters=parameters
    )


def _settings(request: ShareRequest) -> dict[str, Any]:
    return {name: getattr(request.settings, name) for name in request.settings.__slots__}


def _instances(
    request: ShareRequest, path: Path
) -> tuple[Sequence[SharedInstance], InputFile, tuple[str, ...]]:
    """Return the instances of a file, or of a job log, and what to know of them."""
    names = request.names
    if path.suffix.lower() != ".parquet" and not path.is_dir():
        if has_events(path) or is_table(path, names):
            wrong = next((name for name in names if name not in COLUMNS), None)
            if wrong is not None:
                raise UsageError(f"--map {wrong}: expected one of {', '.join(COLUMNS)}")
            placed = read_instances(path, names)
            return placed, InputFile(str(path), sha256_of(path), len(placed)), ()
    trace, source = read_log(path, names)
    found, notes = instances_of_trace(trace, request.settings.memory_gb, request.node_gpus)
    if not found:
        raise InputError(path, "has no job that held GPUs", expected="at least one")
    return found, source, notes


def _coscale(
    request: ShareRequest, path: Path, progress: Callable[[float], None] | None
) -> ShareAnswer:
    read, services = request.known, request.services
    loads = Loads(request.load, request.multiplier, request.seed)
    specs = [loads.spec(one.name, one.load, path.parent) for one in services]
    horizon_s = request.horizon_s
    if horizon_s is None:
        lengths = [length for spec in specs if (length := loads.length_s(spec)) is not None]
        horizon_s = max(lengths, default=SYNTHETIC_S)
    if horizon_s > MOST_HORIZON_S:
        raise UsageError(
            f"--horizon: a run of {horizon_s:,.0f} s is longer than {MOST_HORIZON_S:,} s (366 days)"
        )
    profiles = _profiles(read)
    cold_s = tuple(dict.fromkeys(request.cold_starts_s)) or COLD_STARTS_S
    shared = SharingRequest(
        services=[
            _service(one, profiles, loads.arrivals(spec, horizon_s, place), request.capacity_rps)
            for place, (one, spec) in enumerate(zip(services, specs, strict=True))
        ],
        jobs=[_job(one, profiles) for one in read if one.kind == TRAINING],
        policies=request.policies,
        horizon_s=horizon_s,
        nodes=request.nodes,
        node_gpus=request.node_gpus,
        settings=request.settings,
        cold_starts_s=cold_s,
        own_cold_starts=frozenset(one.name for one in read if one.cold_start_s is not None),
        frontier=request.frontier,
    )
    parameters = ShareParameters(
        policies=list(request.policies),
        cluster=request.cluster,
        **_settings(request),
        loads={one.name: spec for one, spec in zip(services, specs, strict=True)},
        multiplier=request.multiplier,
        capacity_rps=request.capacity_rps,
        cold_starts_s=list(cold_s),
        horizon_s=horizon_s,
        seed=request.seed,
    )
    inputs = (InputFile(str(path), sha256_of(path), len(read)), *loads.inputs.values())
    return ShareAnswer(
        request=request,
        results=study_coscaling(shared, progress),
        inputs=inputs,
        parameters=parameters,
    )


def _profiles(read: Sequence[SharedFunction]) -> dict[str, Profile]:
    """Return the profile of each function; a table is read once."""
    tables = {path: read_profile(path) for path in dict.fromkeys(one.profile for one in read)}
    for one in read:
        largest = int(tables[one.profile].batch[-1])
        if one.kind != TRAINING and one.batch > largest:
            raise InputError(
                one.profile, f"{one.name}: a batch of {one.batch} is not measured",
                expected=f"at most {largest}",
            )  # fmt: skip
    return {one.name: Profile(*tables[one.profile].columns()) for one in read}


def _service(
    one: SharedFunction, profiles: dict[str, Profile], arrival_s: FloatArray, capacity: float | None
) -> Service:
    return Service(
        name=one.name,
        profile=profiles[one.name],
        request=one.request,
        limit=one.limit,
        batch=one.batch,
        slo_s=one.slo_s,
        arrival_s=arrival_s,
        memory_gb=one.memory_gb,
        llm=one.kind == "llm",
        work=one.work,
        cold_start_s=one.cold_start_s or 0.0,
        capacity_rps=one.capacity_rps if capacity is None else capacity,
    )


def _job(one: SharedFunction, profiles: dict[str, Profile]) -> TrainingJob:
    return TrainingJob(
        name=one.name,
        profile=profiles[one.name],
        request=one.request,
        limit=one.limit,
        workers=one.workers,
        memory_gb=one.memory_gb,
        start_s=one.start_s,
        work_s=one.work_s,
    )
