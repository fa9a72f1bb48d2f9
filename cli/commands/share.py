"""``gpuplan share``: how many GPUs services and training need if they share cards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.input_files import InputFile
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.report import Report
from gpuplan.cli.formats.units import parse_duration
from gpuplan.cli.options.cluster_options import read_shape
from gpuplan.cli.options.completion import one_of
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import OutputWithoutRows, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from gpuplan.analysis.user_tables.sharing_functions import SharedFunction
    from gpuplan.analysis.user_tables.sharing_instances import SharedInstance
    from gpuplan.simkit.sharing.services import Profile, Service, TrainingJob

EXAMPLE = "gpuplan share --load bursty.txt --functions functions.toml --policy dilu"
COMPILING = "compiling the simulator; this happens once and takes about half a minute"
COSCALING_PANEL = "Services under load"
PLACEMENT_PANEL = "Placement"
NAMES = ("dilu", "exclusive", "infless-l", "infless-r", "fast-gs")
UNDER_LOAD = (*NAMES, "infless", "mps-l", "mps-r")
DEFAULT_CLUSTER = "1000x4"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan share``."""
    command(app, "share", example=EXAMPLE)(share)


def share(
    output: OutputWithoutRows,
    instances: Annotated[
        Path | None,
        typer.Argument(
            help="Instances that start and end (Dilu's events, CSV, TOML), or a job log or trace "
            "with fractions of GPUs. Not with --load.",
            metavar="INSTANCES",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help=f"{', '.join(NAMES)}; with --load also infless, mps-l and mps-r. May be repeated. "
            "Default: dilu and exclusive.",
            metavar="NAME",
            autocompletion=one_of(lambda: UNDER_LOAD),
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str,
        COMMON,
        typer.Option(help="Nodes x GPUs per node, as in 1000x4 or A100=1000x4.", metavar="SHAPE"),
    ] = DEFAULT_CLUSTER,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="key=value: omega (1), most that requests on a GPU add up to; alpha (0.6) and "
            "beta (0.4), weights of free SMs and memory; memory_gb (40) of a GPU; split and "
            "affinity (yes); tie_break (id, or reference as in the authors' simulation). "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    gamma: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Most that the limits on a GPU add up to: 1.5, or several as 1,1.5,2 or "
            "1:2.5:0.1. Default: 1.5.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        float | None,
        COMMON,
        typer.Option(
            help="Dollars per GPU-hour, to say what the saved GPUs are worth a month.",
            min=0.0,
            rich_help_panel=PLACEMENT_PANEL,
            show_default=False,
        ),
    ] = None,
    load: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Requests of the services: a file of requests per second, a request log, "
            "poisson:RATE, gamma:RATE:CV (of gaps), gamma-rate:RATE:CV, bursty:RATE:FACTOR or "
            "periodic:RATE:PERIOD_S; NAME=... for one service. May be repeated.",
            metavar="[NAME=]LOAD",
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    functions: Annotated[
        Path | None,
        COMMON,
        typer.Option(
            help="The services and training jobs (.toml), as gpuplan profile -o writes them.",
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    multiplier: Annotated[
        float,
        typer.Option(
            help="Multiply requests per second by this.", min=1e-6, rich_help_panel=COSCALING_PANEL
        ),
    ] = 1.0,
    capacity: Annotated[
        float | None,
        typer.Option(
            help="Requests per second that an instance counts for. Default: what it serves at its "
            "request.",
            min=1e-6,
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    cold_start: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Time until a new instance is ready; may be repeated, the first is that of the "
            "main result. Default: 10s and 30s.",
            metavar="TIME",
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            help="Length of the run. Default: that of the longest load file, or 10 minutes.",
            metavar="TIME",
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    no_frontier: Annotated[
        bool,
        typer.Option(
            "--no-frontier",
            help="Do not vary gamma and the registered capacity.",
            rich_help_panel=COSCALING_PANEL,
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of drawn requests.", min=0, rich_help_panel=COSCALING_PANEL)
    ] = 0,
) -> None:
    """Show how many GPUs services and training need if they share cards."""
    from gpuplan.analysis.errors import UsageError
    from gpuplan.analysis.lookup import find_named
    from gpuplan.cli.options.sharing_inputs import parse_gammas, parse_sharing_settings

    check_output(output, picture=True, rows=False, inputs=[instances, functions])
    if (instances is None) == (functions is None):
        raise UsageError(
            "share: give INSTANCES to place, or --functions with --load\n"
            "  next: gpuplan share instances.csv, or gpuplan share --functions functions.toml "
            "--load rates.txt"
        )
    known = dict.fromkeys(NAMES if functions is None else UNDER_LOAD, "")
    policies = tuple(dict.fromkeys(policy or ("dilu", "exclusive")))
    for name in policies:
        find_named(name, known, "--policy", "policy")
    values = parse_sharing_settings(settings or [])
    gammas = parse_gammas(gamma)
    if gammas and "gamma" in values:
        raise UsageError(
            f"--gamma {gamma} and --set gamma={values['gamma']:g}: give one of the two"
        )
    shape = read_shape(cluster, "--cluster")
    if len(shape.pools) > 1:
        raise UsageError(f"--cluster {cluster}: expected GPUs of one type, as in A100=1000x4")
    pool = shape.pool
    if pool.gpus is None:
        raise UsageError(
            f"--cluster {cluster}: expected the number of nodes, as in {DEFAULT_CLUSTER}"
        )
    nodes = pool.nodes or 1
    size = (nodes, pool.gpus // nodes)
    if instances is not None:
        given = {"--load": load, "--capacity": capacity, "--cold-start": cold_start}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong is not None:
            raise UsageError(f"{wrong}: needs --functions, not instances")
        _place(instances, policies, size, values, gammas, price, output, cluster)
        return
    if price is not None:
        raise UsageError("--price: goes with INSTANCES")
    if len(gammas) > 1:
        raise UsageError(f"--gamma {gamma}: one value with --functions; the frontier varies it")
    _coscale(
        functions, policies, size, values | ({"gamma": gammas[0]} if gammas else {}), output,
        load=load or [], multiplier=multiplier, capacity=capacity,
        cold_start=cold_start, horizon=horizon, frontier=not no_frontier, seed=seed,
        cluster=cluster,
    )  # fmt: skip


def _place(
    path: Path,
    policies: tuple[str, ...],
    size: tuple[int, int],
    values: dict[str, Any],
    gammas: tuple[float, ...],
    price: float | None,
    output: OutputWithoutRows,
    cluster: str,
) -> None:
    from gpuplan.cli.tables.sharing_tables import placement_headline, placement_tables
    from gpuplan.planner.sharing.placement_study import PlacementRequest, study_placement
    from gpuplan.simkit.jit import compiling
    from gpuplan.simkit.sharing.policies import PlacementSettings

    settings = PlacementSettings(**values)
    placed, source, notes = _instances(path, settings.memory_gb, size[1])
    request = PlacementRequest(placed, policies, *size, settings, gammas, price)
    with messages.progress("placing"), compiling(lambda: messages.note(COMPILING)):
        study = study_placement(request)

    def figure() -> Figure:
        from gpuplan.cli.figures.sharing import draw_placement

        return draw_placement(study)

    report = Report(
        command="share",
        results=study.summary(),
        tables=placement_tables(study),
        inputs=(source,),
        parameters={
            "policies": list(policies),
            "cluster": cluster,
            "gammas": list(gammas) or [settings.gamma],
            "usd_per_gpu_h": price,
            **_setting_parameters(settings),
        },
        headline=placement_headline(study),
        warnings=notes,
        figure=figure,
    )
    emit(report, output)


def _setting_parameters(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}


def _instances(
    path: Path, memory_gb: float, node_gpus: int
) -> tuple[Sequence[SharedInstance], InputFile, tuple[str, ...]]:
    """Return the instances of a file, or of a job log, and what to tell of them."""
    from gpuplan.analysis.errors import InputError
    from gpuplan.analysis.files import sha256_of
    from gpuplan.analysis.user_tables.sharing_instances import has_events, is_table, read_instances
    from gpuplan.cli.options.sharing_inputs import read_log
    from gpuplan.planner.sharing.placement_study import instances_of_trace

    if path.suffix.lower() != ".parquet" and (has_events(path) or is_table(path)):
        placed = read_instances(path)
        return placed, InputFile(str(path), sha256_of(path), len(placed)), ()
    trace, source = read_log(path)
    found, notes = instances_of_trace(trace, memory_gb, node_gpus)
    if not found:
        raise InputError(path, "has no job that held GPUs", expected="at least one")
    return found, source, notes


def _coscale(
    path: Path | None,
    policies: tuple[str, ...],
    size: tuple[int, int],
    values: dict[str, Any],
    output: OutputWithoutRows,
    *,
    load: list[str],
    multiplier: float,
    capacity: float | None,
    cold_start: list[str] | None,
    horizon: str | None,
    frontier: bool,
    seed: int,
    cluster: str,
) -> None:
    from gpuplan.analysis.errors import UsageError
    from gpuplan.analysis.files import sha256_of
    from gpuplan.analysis.user_tables.sharing_functions import TRAINING, read_functions
    from gpuplan.cli.options.sharing_inputs import SYNTHETIC_S, LoadOption
    from gpuplan.cli.tables.sharing_tables import (
        coscaling_headline,
        coscaling_tables,
        coscaling_warnings,
    )
    from gpuplan.planner.sharing.coscaling_study import (
        COLD_STARTS_S,
        SharingRequest,
        study_coscaling,
    )
    from gpuplan.simkit.jit import compiling
    from gpuplan.simkit.sharing.policies import PlacementSettings

    assert path is not None
    read = read_functions(path)
    services = sorted((one for one in read if one.kind != TRAINING), key=lambda one: one.name)
    loads = LoadOption(load, multiplier, seed)
    loads.check_names([one.name for one in services])
    specs = [loads.spec(one.name, one.load, path.parent) for one in services]
    if horizon is not None:
        horizon_s = parse_duration(horizon, "--horizon")
        if not horizon_s > 0:
            raise UsageError(f"--horizon {horizon!r}: expected a time above 0")
    else:
        lengths = [length for spec in specs if (length := loads.length_s(spec)) is not None]
        horizon_s = max(lengths, default=SYNTHETIC_S)
    cold_s = [parse_duration(text, "--cold-start") for text in cold_start or ()]
    settings = PlacementSettings(**values)
    if settings.reference:
        raise UsageError("--set tie_break=reference: goes with INSTANCES, not with --functions")
    profiles = _profiles(read)
    request = SharingRequest(
        services=[
            _service(one, profiles, loads.arrivals(spec, horizon_s, place), capacity)
            for place, (one, spec) in enumerate(zip(services, specs, strict=True))
        ],
        jobs=[_job(one, profiles) for one in read if one.kind == TRAINING],
        policies=policies,
        horizon_s=horizon_s,
        nodes=size[0],
        node_gpus=size[1],
        settings=settings,
        cold_starts_s=tuple(dict.fromkeys(cold_s)) or COLD_STARTS_S,
        own_cold_starts=frozenset(one.name for one in read if one.cold_start_s is not None),
        frontier=frontier,
    )
    with (
        messages.progress("sharing") as progress,
        compiling(lambda: messages.note(COMPILING)),
    ):
        study = study_coscaling(request, progress)

    def figure() -> Figure:
        from gpuplan.cli.figures.sharing import draw_coscaling

        return draw_coscaling(study)

    report = Report(
        command="share",
        results=study.summary(),
        tables=coscaling_tables(study),
        inputs=(InputFile(str(path), sha256_of(path), len(read)), *loads.inputs.values()),
        parameters={
            "policies": list(policies),
            "cluster": cluster,
            "loads": {one.name: spec for one, spec in zip(services, specs, strict=True)},
            "multiplier": multiplier,
            "capacity_rps": capacity,
            "cold_starts_s": list(request.cold_starts_s),
            "horizon_s": horizon_s,
            "seed": seed,
            **_setting_parameters(settings),
        },
        headline=coscaling_headline(study),
        warnings=(
            *coscaling_warnings(study),
            "cold start, registered capacity and the curve of training are assumptions",
        ),
        figure=figure,
    )
    emit(report, output)


def _profiles(read: Sequence[SharedFunction]) -> dict[str, Profile]:
    """Return the profile of each function; a table is read once."""
    from gpuplan.analysis.errors import InputError
    from gpuplan.analysis.user_tables.sharing_functions import TRAINING
    from gpuplan.analysis.user_tables.sharing_profiles import read_profile
    from gpuplan.simkit.sharing.services import Profile

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
    one: SharedFunction, profiles: dict[str, Profile], arrival_s: Any, capacity: float | None
) -> Service:
    from gpuplan.simkit.sharing.services import Service

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
    from gpuplan.simkit.sharing.services import TrainingJob

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
