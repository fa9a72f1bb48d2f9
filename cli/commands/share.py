"""``gpuplan share``: how many GPUs services and training need if they share cards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.completion import one_of
from gpuplan.cli.options.log_choice import READING_PANEL
from gpuplan.cli.options.shared_options import OutputWithoutRows
from gpuplan.planner.requests.clusters import METAVAR, ClusterRequest, read_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.sharing.coscaling_study import CoscalingResults
    from gpuplan.planner.sharing.placement_study import PlacementResults
    from gpuplan.planner.studies.share import ShareAnswer, ShareRequest

EXAMPLE = "gpuplan share --load bursty.txt --functions functions.toml --policy dilu"
COMPILING = "compiling the simulator; this happens once and takes about half a minute"
COSCALING_PANEL = "Services under load"
PLACEMENT_PANEL = "Placement"
PLACED = ("dilu", "exclusive", "infless-l", "infless-r", "fast-gs")
DEFAULT_CLUSTER = "1000x4"


def _policies() -> Iterable[str]:
    from gpuplan.planner.studies.share import UNDER_LOAD

    return UNDER_LOAD


@dataclass(frozen=True, slots=True)
class SharedCluster(ClusterRequest):
    """The GPUs that are shared, all of one type."""

    cluster: Annotated[
        str | None,
        Opt(
            f"Nodes x GPUs per node, as in 100x4 or A100=100x4. Default: {DEFAULT_CLUSTER}.",
            metavar=METAVAR,
            common=True,
        ),
    ] = None

    def nodes(self) -> tuple[str, int, int]:
        """Return the cluster as text, its nodes, and the GPUs of each. Raises `UsageError`."""
        from gpuplan.analysis.base.errors import UsageError

        size = self.size() or read_size(DEFAULT_CLUSTER)
        if len(size.shape.pools) > 1:
            raise UsageError(f"{size.option}: expected GPUs of one type, as in A100=1000x4")
        pool = size.shape.pool
        if pool.gpus is None:
            raise UsageError(f"{size.option}: expected the number of nodes, as in 1000x4")
        nodes = pool.nodes or 1
        return str(size.shape), nodes, pool.gpus // nodes


def share(
    cluster: SharedCluster,
    trace: Annotated[
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
            help=f"{', '.join(PLACED)}; with --load also infless, mps-l and mps-r. May be "
            "repeated. Default: dilu and exclusive.",
            metavar="NAME",
            autocompletion=one_of(_policies),
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="key=value: omega (1), maximum sum of the requests on a GPU; alpha (0.6) and "
            "beta (0.4), weights of free SMs and memory; memory_gb (40) of a GPU; split and "
            "affinity (yes); tie_break (id, or reference as in the authors' simulation). "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Take a column of the instances, or of a job log, from this column of the file, "
            "for example request=sm_share; may be repeated.",
            metavar="OURS=THEIRS",
            rich_help_panel=READING_PANEL,
            show_default=False,
        ),
    ] = None,
    gamma: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Maximum sum of the limits on a GPU: 1.5, or several as 1,1.5,2 or 1:2.5:0.1. "
            "Default: 1.5.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        float | None,
        COMMON,
        typer.Option(
            help="Dollars per GPU-hour; adds the savings per month.",
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
            help="Factor on requests per second.", min=1e-6, rich_help_panel=COSCALING_PANEL
        ),
    ] = 1.0,
    capacity: Annotated[
        float | None,
        typer.Option(
            help="Requests per second that one instance is registered to serve. Default: its "
            "throughput at its request.",
            min=1e-6,
            rich_help_panel=COSCALING_PANEL,
            show_default=False,
        ),
    ] = None,
    cold_start: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Time until a new instance is ready; may be repeated. The main result has the "
            "first. Default: 10s and 30s.",
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
            help="Skip the frontier over gamma and registered capacity.",
            rich_help_panel=COSCALING_PANEL,
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of sampled requests.", min=0, rich_help_panel=COSCALING_PANEL)
    ] = 0,
) -> Study[ShareRequest]:
    """Show how many GPUs you need if jobs share cards."""
    from gpuplan.analysis.base.amounts import parse_duration
    from gpuplan.analysis.base.errors import UsageError
    from gpuplan.analysis.job_table.log_options import mapping
    from gpuplan.cli.options.sharing_inputs import parse_gammas, parse_sharing_settings
    from gpuplan.planner.studies.share import ShareRequest
    from gpuplan.simkit.sharing.policies import PlacementSettings

    values, gammas = parse_sharing_settings(settings or []), parse_gammas(gamma)
    if gammas and "gamma" in values:
        raise UsageError(
            f"--gamma {gamma} and --set gamma={values['gamma']:g}: give one of the two"
        )
    if functions is not None and len(gammas) == 1:
        values, gammas = values | {"gamma": gammas[0]}, ()
    horizon_s = None if horizon is None else parse_duration(horizon, "--horizon")
    if horizon_s is not None and not horizon_s > 0:
        raise UsageError(f"--horizon {horizon!r}: expected a time above 0")
    shape, nodes, node_gpus = cluster.nodes()
    request = ShareRequest(
        trace,
        functions,
        tuple(dict.fromkeys(policy or ("dilu", "exclusive"))),
        nodes,
        node_gpus,
        shape,
        PlacementSettings(**values),
        gammas,
        price,
        mapping(columns or ()),
        tuple(load or ()),
        multiplier,
        capacity,
        tuple(parse_duration(text, "--cold-start") for text in cold_start or ()),
        horizon_s,
        not no_frontier,
        seed,
    )
    return Study(request, _answer)


COMMAND = StudyCommand(
    "share",
    share,
    EXAMPLE,
    output=OutputWithoutRows,
    has_rows=False,
    instead_of_trace="functions",
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: ShareRequest) -> Report:
    from gpuplan.planner.sharing.placement_study import PlacementResults
    from gpuplan.planner.studies.share import share as run
    from gpuplan.simkit.jit import compiling

    what = "placing" if request.functions is None else "sharing"
    with messages.progress(what) as progress, compiling(lambda: messages.note(COMPILING)):
        study = run(request, progress)
    if isinstance(study.results, PlacementResults):
        return _placement(study, study.results)
    return _coscaling(study, study.results)


def _placement(study: ShareAnswer, found: PlacementResults) -> Report:
    from gpuplan.cli.tables.sharing_tables import placement_headline, placement_tables

    def figure() -> Figure:
        from gpuplan.cli.figures.sharing import draw_placement

        return draw_placement(found)

    return Report(
        command="share",
        results=plain(found),
        tables=placement_tables(found),
        inputs=study.inputs,
        parameters=plain(study.parameters),
        headline=placement_headline(found),
        warnings=study.warnings,
        figure=figure,
    )


def _coscaling(study: ShareAnswer, found: CoscalingResults) -> Report:
    from gpuplan.cli.tables.sharing_tables import (
        coscaling_headline,
        coscaling_tables,
        coscaling_warnings,
    )

    def figure() -> Figure:
        from gpuplan.cli.figures.sharing import draw_coscaling

        return draw_coscaling(found)

    tables = coscaling_tables(found)
    return Report(
        command="share",
        results=plain(found),
        tables=tables,
        answer=tables[:3],
        inputs=study.inputs,
        parameters=plain(study.parameters),
        headline=coscaling_headline(found),
        warnings=(
            *coscaling_warnings(found),
            "cold start, registered capacity and the curve of training are assumptions",
        ),
        figure=figure,
    )
