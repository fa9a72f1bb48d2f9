"""What ``gpuplan pareto`` is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from gpuplan.analysis.base.amounts import parse_time
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.option import Group, Opt, changed_options
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.money.price_request import BOOK_PARAMETERS, PriceRequest
from gpuplan.planner.requests.declaration import ALWAYS, COST, JCT, WORKLOAD, StudyRequest, study
from gpuplan.planner.requests.gpu_types import GpuTypes
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.trace import TRACE

if TYPE_CHECKING:
    from gpuplan.planner.frontier.budget import Budget
    from gpuplan.planner.frontier.reference_points import Mark
    from gpuplan.planner.money.price_book import Prices
    from gpuplan.planner.speedup.model import SpeedupModel

COMPARED = "Comparison and confidence"
EXACT = "exact"


def read_targets(text: str, flag: str) -> tuple[float, ...]:
    """Return the seconds of ``45m,1h``. Raises `UsageError`."""
    return tuple(parse_time(part, flag) for part in text.split(","))


def read_baselines(names: Sequence[str], _: str) -> tuple[str, ...]:
    """Return the baselines of these names, ``all`` among them. Raises `UsageError`."""
    from gpuplan.planner.baselines import names_of

    return names_of(names)


def is_replayed(no_replay: bool) -> bool:
    """Return whether plans are replayed, as JSON has it."""
    return not no_replay


@study(
    "pareto",
    title="Completion time by budget",
    picture="Completion time against budget",
    example="gpuplan pareto trace.parquet --budget 1.2x,1.5x,2x --speedup power:0.8",
    doing="solving",
    compiles=True,
    usual_for=ALWAYS,
    report_place=3,
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "load_gpus": (WORKLOAD, "load"),
        "knee.budget_gpus": (COST, "GPUs at the best trade-off"),
        "knee.usd_per_month": (COST, "cost per month at the best trade-off"),
        "knee.mean_jct_s": (JCT, "planned mean JCT at the best trade-off"),
        "knee.replay.mean_jct_s": (JCT, "mean JCT at the best trade-off"),
        "knee.replay.p95_jct_s": (JCT, "P95 JCT at the best trade-off"),
    },
)
@dataclass(frozen=True, slots=True)
class ParetoRequest(StudyRequest):
    """Show how fast jobs finish at each GPU budget, and how many GPUs each class needs.

    Attributes:
        jobs: which of its jobs.
        classes: how the jobs become classes, and which widths these may get.
        prices: what GPUs cost, those to plan for and others that the jobs ran on.
        types: the GPU types to plan for.
        renting: how they are rented in the replay.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "speedup": Annotated[str, "how jobs gain from GPUs, the assumption where none was given"],
        "price_usd_per_gpu_h": Annotated[
            float | dict[str, float] | None, "by GPU type where types are named"
        ],
        "prices": Annotated[str | None, "the price table"],
        "provider": Annotated[str | None, "the provider in it"],
        **BOOK_PARAMETERS,
    }

    trace: Annotated[Path, TRACE]
    budget: Annotated[
        str | None,
        Opt(
            "Budgets, comma-separated: relative to today (now, now+20%), average GPUs (60), times "
            "the one-GPU load (1.2x), dollars ($12/h, $10000/month|quarter|year; needs a price), "
            "or a range LOW:HIGH:COUNT. Default: 8, from the least to the most useful.",
            common=True,
        ),
    ] = None
    target_jct_s: Annotated[
        tuple[float, ...],
        Opt(
            "Mean completion times, comma-separated, such as 45m; finds the least budget for each.",
            flag="--target-jct",
            parse=read_targets,
            common=True,
        ),
    ] = ()
    speedup: Annotated[
        str | None,
        Opt(
            "How jobs speed up with GPUs: power:ALPHA, amdahl:SIGMA, a range such as "
            "power:0.6..0.9, profile:NAME, or a CSV of measured throughputs; see gpuplan list "
            "speedups. Default: power:0.8, an assumption.",
            key=None,
            panel=ClassOptions.PANEL,
            common=True,
            complete="speedups",
            reads=True,
        ),
    ] = None
    classes: ClassOptions = field(default_factory=ClassOptions)
    prices: Annotated[PriceRequest, Group(without=("gpu",), in_json=False)] = field(
        default_factory=PriceRequest
    )
    types: GpuTypes = field(default_factory=GpuTypes)
    no_replay: Annotated[
        bool,
        Opt(
            "Only plan; do not replay the plans at recorded arrivals.",
            flag="--no-replay",
            key="replay",
            write=is_replayed,
            panel=RentedCluster.PANEL,
        ),
    ] = False
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs that can be rented, of each type: 256 (at most 256 GPUs), x8 (whole nodes of "
            "8), or 32x8 (at most 32 of them). Default: single GPUs, no limit.",
            metavar="SHAPE",
            panel=RentedCluster.PANEL,
            common=True,
        ),
    ] = None
    renting: Annotated[RentedCluster, Group(in_json=False)] = field(default_factory=RentedCluster)
    method: Annotated[
        Literal["exact", "convex", "paper"],
        Opt(
            "Planning method: the exact optimum, the plain convex program, or the paper's Width "
            "Calculator. The optimum is shown for comparison.",
            panel=COMPARED,
        ),
    ] = "exact"
    baselines: Annotated[
        tuple[str, ...],
        Opt(
            "Also replay another policy, such as recorded or pollux, or all; see gpuplan list "
            "baselines. May be repeated.",
            flag="--baseline",
            parse=read_baselines,
            metavar="NAME",
            panel=COMPARED,
            many=True,
            complete="baselines",
        ),
    ] = ()
    marks: Annotated[
        tuple[str, ...],
        Opt(
            "Known point to show: average GPUs and mean completion time, such as 'our "
            "cluster=64,2h'. May be repeated.",
            flag="--mark",
            metavar="NAME=GPUS,JCT",
            panel=COMPARED,
            many=True,
        ),
    ] = ()
    ci: Annotated[
        float | None,
        Opt(
            "Add confidence bands of this level in percent, such as 90, by a bootstrap of the "
            "jobs.",
            panel=COMPARED,
        ),
    ] = None
    sensitivity: Annotated[
        bool,
        Opt(
            "Also show what the plan gives if speedups are off by 20%, and if arrivals are "
            "burstier (squared CV of inter-arrival times up to 20).",
            flag="--sensitivity",
            panel=COMPARED,
        ),
    ] = False
    jobs: Annotated[Selection, Group(without=("period_from", "period_to", "spot"))] = field(
        default_factory=Selection
    )

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.budgets()
        self.rented()
        self.reference_points()
        self.open()

    def budgets(self) -> tuple[Budget, ...]:
        """Return the budgets; none for 8 from the least to the most useful."""
        from gpuplan.planner.frontier.budget import parse_budgets

        return () if self.budget is None else tuple(parse_budgets(self.budget))

    def reference_points(self) -> tuple[Mark, ...]:
        """Return the known points. Raises `UsageError`."""
        from gpuplan.planner.frontier.reference_points import parse_reference_points

        return parse_reference_points(self.marks)

    def open(self) -> tuple[SpeedupModel, SpeedupModel, Prices]:
        """Return the speedups, as named and on the GPU types, and the prices.

        Raises:
            InputError: a table that cannot be read.
            UsageError: fields that do not fit together.
        """
        from gpuplan.planner.speedup.registry import DEFAULT_SPEEDUP, load_speedup

        model = load_speedup(DEFAULT_SPEEDUP if self.speedup is None else self.speedup)
        on_types, prices = (
            self.types.model(model),
            self.types.price(self.prices, self.jobs.log.time_zone),
        )
        self._check_compared()
        return model, on_types, prices

    def _check_compared(self) -> None:
        """Refuse what cannot be compared."""
        compared = {
            "--baseline": bool(self.baselines),
            "--mark": bool(self.marks),
            "--method": self.method != EXACT,
            "--ci": self.ci is not None,
            "--sensitivity": self.sensitivity,
        }
        if self.method != EXACT and self.classes.slower is not None:
            raise UsageError("--slower needs --method exact; the bound is kept by the optimum only")
        for flag in (flag for flag, is_given in compared.items() if is_given):
            if self.types.is_mixed:
                raise UsageError(f"{flag}: works with one GPU type, not with several --gpu")
            if flag == "--ci" and self.method != EXACT:
                raise UsageError(
                    "--ci needs --method exact; confidence bands are for the optimum only"
                )
            if self.no_replay and flag in ("--baseline", "--sensitivity"):
                raise UsageError(f"{flag} needs the replay; remove --no-replay")

    def rented(self) -> RentedCluster | None:
        """Return how GPUs are rented; None without a replay. Raises `UsageError`."""
        if not self.no_replay:
            node_gpus, max_gpus = self._rentable()
            return replace(self.renting, node_gpus=node_gpus, max_gpus=max_gpus)
        for name in (*(("cluster",) if self.cluster else ()), *changed_options(self.renting)):
            raise UsageError(
                f"--{name.replace('_', '-')} needs the replay, which --no-replay leaves out"
            )
        return None

    def _rentable(self) -> tuple[int, int | None]:
        """Return the GPUs of a node, and the most GPUs rented at once; None for no limit.

        Raises:
            UsageError: no such shape, several GPU types, one not planned for, or two limits.
        """
        most = self.renting.max_gpus
        if self.cluster is None:
            return self.renting.node_gpus, most
        flag = f"--cluster {shortened(self.cluster)}"
        shape = read_shape(self.cluster, "--cluster")
        if len(shape.pools) > 1:
            raise UsageError(
                f"{flag}: pareto rents the same nodes of every GPU type\n"
                f"  next: --cluster {replace(shape.pools[0], gpu_type=None)}"
            )
        pool = shape.pool
        if pool.gpu_type is not None and not any(
            same_gpu(pool.gpu_type, name) for name in self.types.names
        ):
            raise UsageError(
                f"{flag}: {pool.gpu_type} is not a GPU to plan for\n"
                f"  next: --gpu {pool.gpu_type} as well, or --cluster "
                f"{replace(pool, gpu_type=None)}"
            )
        if pool.gpus is not None and most is not None:
            raise UsageError(
                f"{flag} and --max-gpus {most}: both limit the GPUs rented; give one of the two"
            )
        return pool.gpus_per_node or 1, most if pool.gpus is None else pool.gpus

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output, except for what was priced."""
        from gpuplan.planner.speedup.registry import DEFAULT_SPEEDUP

        rented = self.rented()
        return StudyRequest.parameters(self) | {
            "speedup": self.speedup or DEFAULT_SPEEDUP,
            "prices": self.prices.prices,
            "provider": self.prices.provider,
            **self.prices.book_parameters(),
            "cluster": None if rented is None else rented.shape,
        }
