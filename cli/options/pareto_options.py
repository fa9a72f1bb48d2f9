"""The options of ``gpuplan pareto``, in groups as its help shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.completion import baselines, one_of, speedups
from gpuplan.cli.options.market_options import MOST_GPUS
from gpuplan.cli.options.shared_options import PRICES_PANEL
from gpuplan.planner.requests.clusters import METAVAR

JOBS_PANEL = "How the jobs scale"
WIDTHS_PANEL = "Which GPUs a job may get"
RENTING_PANEL = "Renting in the replay"
COMPARED_PANEL = "Comparison and confidence"


class ClassBy(StrEnum):
    """Columns that may tell job classes apart."""

    job_class = "job_class"
    user = "user"
    group = "group"
    num_gpus = "num_gpus"


class MethodName(StrEnum):
    """Methods of `gpuplan.planner.frontier.methods`, here by name so that help needs no solver."""

    exact = "exact"
    convex = "convex"
    paper = "paper"


class Overflow(StrEnum):
    """What a job does while its GPUs are not there."""

    whole = "whole"
    queue = "queue"
    squeeze = "squeeze"


@dataclass(frozen=True, eq=False, repr=False)
class ScalingChoice:
    """Which classes of jobs there are, and how each gains from GPUs."""

    speedup: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="How jobs speed up with GPUs: power:ALPHA, amdahl:SIGMA, a range such as "
            "power:0.6..0.9, profile:NAME, or a CSV of measured throughputs; see "
            "gpuplan list speedups. Default: power:0.8, an assumption.",
            rich_help_panel=JOBS_PANEL,
            autocompletion=one_of(speedups),
            show_default=False,
        ),
    ] = None
    class_by: Annotated[
        ClassBy,
        typer.Option(help="Column that defines job classes.", rich_help_panel=JOBS_PANEL),
    ] = ClassBy.job_class
    horizon: Annotated[
        str | None,
        typer.Option(
            help="Time over which the jobs arrive, such as 48h. Default: from the first to "
            "the last submission.",
            rich_help_panel=JOBS_PANEL,
            show_default=False,
        ),
    ] = None
    rescale: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Time a job loses at each start and change of width, such as 20s; 0 for free "
            "restarts. Default: as the profile measured, else 60s.",
            rich_help_panel=JOBS_PANEL,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class WidthChoice:
    """Which GPU counts a job may get, and what its class must keep."""

    max_width: Annotated[
        int | None,
        COMMON,
        typer.Option(
            help="Most GPUs one job may get. Default: 64, or the most a profile measured.",
            min=1,
            max=MOST_GPUS,
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    widths: Annotated[
        str | None,
        typer.Option(
            help="GPU counts a job may get, such as 1,2,4,8,16. Default: every count up to "
            "--max-width, from the fewest measured.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    width_step: Annotated[
        int | None,
        typer.Option(
            help="Jobs get a multiple of this many GPUs, such as 4 on nodes of 4. Default: 1.",
            min=1,
            max=MOST_GPUS,
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=GPUS",
            help="Most GPUs for jobs of a class, such as bert=16. May be repeated.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'CLASS <= TIME'",
            help="Longest mean completion time of a class, such as 'bert <= 2h'. May be repeated.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=W",
            help="Weight of a class in the mean that is minimized, such as bert=2. "
            "Default: 1. May be repeated.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class PlannedGpuChoice:
    """Which GPU types to plan for."""

    gpu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE[=SPEED]",
            help="GPU type to plan for; repeat it to find the cheapest mix. SPEED is its "
            "speed relative to the first, needed with a law: --gpu T4 --gpu A100=2.5.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    recorded_on: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="GPU type the trace was recorded on, with several --gpu. Default: the first.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class RentingChoice:
    """How the replay rents GPUs."""

    no_replay: Annotated[
        bool,
        typer.Option(
            "--no-replay",
            help="Only plan; do not replay the plans at recorded arrivals.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = False
    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs that can be rented, of each type: 256 (at most 256 GPUs), x8 (whole "
            "nodes of 8), or 32x8 (at most 32 of them). Default: single GPUs, no "
            "limit.",
            metavar=METAVAR,
            rich_help_panel=RENTING_PANEL,
            show_default=False,
        ),
    ] = None
    provision_delay: Annotated[
        str,
        typer.Option(
            help="Time from requesting a node until it is ready.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "90s"
    release_delay: Annotated[
        str,
        typer.Option(
            help="Idle time after which a node is returned.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "30s"
    billing: Annotated[
        str,
        typer.Option(
            help="Billing step: each rental is rounded up to a multiple of it, such as 1h.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "1s"
    max_gpus: Annotated[
        int | None,
        typer.Option(
            help="Most GPUs rented at once, of each type; short for --cluster N. With "
            "--cluster x8, the limit of whole nodes. Default: no limit.",
            min=1,
            max=MOST_GPUS,
            rich_help_panel=RENTING_PANEL,
            show_default=False,
        ),
    ] = None
    overflow: Annotated[
        Overflow,
        typer.Option(
            help="Short of GPUs, the first in line starts on what is free: while nodes come "
            "(queue), also at the limit (squeeze), or never (whole).",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = Overflow.queue


@dataclass(frozen=True, eq=False, repr=False)
class ComparedChoice:
    """What the plans are compared with."""

    method: Annotated[
        MethodName,
        typer.Option(
            help="Planning method: the exact optimum, the plain convex program, or the "
            "paper's Width Calculator. The optimum is shown for comparison.",
            rich_help_panel=COMPARED_PANEL,
        ),
    ] = MethodName.exact
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=one_of(baselines),
            metavar="NAME",
            help="Also replay another policy, such as recorded or pollux, or all; see "
            "gpuplan list baselines. May be repeated.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    mark: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=GPUS,JCT",
            help="Known point to show: average GPUs and mean completion time, such as 'our "
            "cluster=64,2h'. May be repeated.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    ci: Annotated[
        float | None,
        typer.Option(
            help="Add confidence bands of this level in percent, such as 90, by a "
            "bootstrap of the jobs.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Also show what the plan gives if speedups are off by 20%, and if "
            "arrivals are burstier (squared CV of inter-arrival times up to 20).",
            rich_help_panel=COMPARED_PANEL,
        ),
    ] = False
