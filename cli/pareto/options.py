"""The options of ``gpuplan pareto``, in groups as its help shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from gpuplan.cli.options.cluster_options import METAVAR
from gpuplan.cli.options.completion import BASELINES, SPEEDUPS, one_of
from gpuplan.cli.options.market_options import MOST_GPUS
from gpuplan.cli.options.shared_options import PRICES_PANEL

JOBS_PANEL = "How the jobs scale"
WIDTHS_PANEL = "Which GPUs a job may get"
RENTING_PANEL = "How GPUs are rented, for the replay"
COMPARED_PANEL = "What to compare with, and how sure it is"


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
    """What happens where no more GPUs can be rented."""

    queue = "queue"
    squeeze = "squeeze"


@dataclass(frozen=True, eq=False, repr=False)
class ScalingChoice:
    """How jobs are told apart, and how each kind gains from GPUs."""

    speedup: Annotated[
        str | None,
        typer.Option(
            help="How jobs speed up with GPUs: amdahl:SIGMA, usl:SIGMA,KAPPA, power:ALPHA, each "
            "also with ranges (power:0.6..0.9), profile:NAME, a CSV of measured throughputs, or "
            "pollux:FILE.csv; see gpuplan list speedups. Default: power:0.8, an assumption.",
            rich_help_panel=JOBS_PANEL,
            autocompletion=one_of(SPEEDUPS),
            show_default=False,
        ),
    ] = None
    class_by: Annotated[
        ClassBy,
        typer.Option(help="Column that tells job classes apart.", rich_help_panel=JOBS_PANEL),
    ] = ClassBy.job_class
    horizon: Annotated[
        str | None,
        typer.Option(
            help="Time over which the jobs arrive, for example 48h. Default: the span of their "
            "submissions.",
            rich_help_panel=JOBS_PANEL,
            show_default=False,
        ),
    ] = None
    rescale: Annotated[
        str | None,
        typer.Option(
            help="Time a job loses at its start and at each change of width, for example 20s. "
            "Default: what the profile measured, else 0.",
            rich_help_panel=JOBS_PANEL,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class WidthChoice:
    """Which GPU counts a job may get, and what its class must keep."""

    max_width: Annotated[
        int | None,
        typer.Option(
            help="Most GPUs one job may get. Default: 64, or all that a profile measured.",
            min=1,
            max=MOST_GPUS,
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    widths: Annotated[
        str | None,
        typer.Option(
            help="The GPU counts a job may get, for example 1,2,4,8,16. Default: every count "
            "up to --max-width, from the fewest measured.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    width_step: Annotated[
        int | None,
        typer.Option(
            help="A job gets a multiple of so many GPUs, for example 4 where nodes have 4. "
            "Default: 1.",
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
            help="Most GPUs a job of this class may get, for example bert=16; may be repeated.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'CLASS <= TIME'",
            help="Most time the jobs of a class may take on average, for example 'bert <= 2h'; "
            "may be repeated.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=W",
            help="What an hour of a class' jobs counts in the mean that is minimized, for example "
            "bert=2; may be repeated. Default: 1, the plain mean.",
            rich_help_panel=WIDTHS_PANEL,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class MoneyChoice:
    """What a GPU costs, and which types there are."""

    gpu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE[=SPEED]",
            help="A GPU type to plan for; repeat it to plan for the cheapest mix of several. With "
            "a law, SPEED says how many times as fast as the first a GPU is: --gpu T4 --gpu "
            "A100=2.5.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USD|TYPE=USD",
            help="Price of one GPU for one hour, in dollars: 1.29, or for each GPU type T4=0.5, "
            "repeated.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|builtin",
            help="Take the price of --gpu from a price table of [bold]gpuplan prices[/bold] "
            "(.parquet), or from the list that comes with gpuplan: the median over all that "
            "offer it on demand.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KIND]",
            help="With --prices: of this provider alone, for example aws or aws:spot.",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    recorded_on: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="With several --gpu: the one the trace was recorded on. Default: the first.",
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
            help="Do not replay the plans on the trace's own arrivals.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = False
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Nodes and GPUs that can be rented (of each type): x8 for whole nodes of 8 GPUs, "
            "32x8 for at most 32 of them, 256 for at most 256 GPUs. Default: single GPUs, no "
            "limit.",
            metavar=METAVAR,
            rich_help_panel=RENTING_PANEL,
            show_default=False,
        ),
    ] = None
    provision_delay: Annotated[
        str,
        typer.Option(
            help="Time from the request for a node until it is ready.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "90s"
    release_delay: Annotated[
        str,
        typer.Option(
            help="Time a node must have been idle before it is returned.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "30s"
    billing: Annotated[
        str,
        typer.Option(
            help="Every rental is billed in whole multiples of this time, for example 1h.",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = "1s"
    max_gpus: Annotated[
        int | None,
        typer.Option(
            help="Short form of --cluster N, beside --cluster x8 the limit of whole nodes: most "
            "GPUs that can be rented at once (of each type). Default: no limit.",
            min=1,
            max=MOST_GPUS,
            rich_help_panel=RENTING_PANEL,
            show_default=False,
        ),
    ] = None
    overflow: Annotated[
        Overflow,
        typer.Option(
            help="At the limit jobs wait for their GPUs (queue), or the first in line starts on "
            "those that are left (squeeze).",
            rich_help_panel=RENTING_PANEL,
        ),
    ] = Overflow.queue


@dataclass(frozen=True, eq=False, repr=False)
class ComparedChoice:
    """What the plans are compared with."""

    method: Annotated[
        MethodName,
        typer.Option(
            help="What makes the plans: the exact optimum, the plain convex program, or the "
            "paper's Width Calculator; the optimum is shown beside the others.",
            rich_help_panel=COMPARED_PANEL,
        ),
    ] = MethodName.exact
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=one_of(BASELINES),
            metavar="NAME",
            help="Also run the jobs under another policy: recorded, fixed-width, equal, "
            "pollux, pollux-autoscaling, or all; may be repeated.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    mark: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=GPUS,JCT",
            help="Show a point known from elsewhere, in average GPUs and mean completion time, "
            "for example 'our cluster=64,2h'; may be repeated.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    ci: Annotated[
        float | None,
        typer.Option(
            help="Add bands of this confidence, percent, by a bootstrap of the jobs; for "
            "example 90.",
            rich_help_panel=COMPARED_PANEL,
            show_default=False,
        ),
    ] = None
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Also tell what the plan shown gives if speedups are wrong by 20%, and if "
            "arrivals are burstier (C^2 of the gaps up to 20) at the same mean.",
            rich_help_panel=COMPARED_PANEL,
        ),
    ] = False
