"""What ``gpuplan sweep`` is asked: thresholds, capacities and prices, and how to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.clusters import METAVAR, ClusterSize, read_size
from gpuplan.planner.requests.compare import ComparedParameters
from gpuplan.planner.requests.declaration import (
    COST,
    JCT,
    OF_SERVERLESS_LOG,
    WORKLOAD,
    StudyRequest,
    study,
)
from gpuplan.planner.requests.replays import (
    REPLAYED_PRICES,
    STATED_PRICES,
    ReplayRequest,
    stated,
)
from gpuplan.planner.requests.thresholds import (
    parse_capacities,
    parse_mark,
    parse_numbers,
    parse_thresholds,
)

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec
    from gpuplan.simkit.allpass.parameters import Allpass

DEFAULT_THRESHOLDS = "30,60,120,300,600,1800,3600"
MOST_RATIO = 1e3
MOST_WORTH_USD = 1e6  # an hour of a job
Rule = Literal["fixed", "adaptive"]
RULES: tuple[str, ...] = get_args(Rule)


def parse_ratios(text: str, flag: str) -> tuple[float, ...]:
    """Return ratios of prices. Raises `UsageError`."""
    return parse_numbers(text, flag, most=MOST_RATIO, above=True)


def parse_worth(text: str, flag: str) -> tuple[float, ...]:
    """Return dollars that an hour is worth. Raises `UsageError`."""
    return parse_numbers(text, flag, most=MOST_WORTH_USD)


def ascending(thresholds_s: Sequence[float]) -> list[float]:
    """Return each threshold once, as JSON has them."""
    return sorted(set(thresholds_s))


def listed(values: Sequence[float]) -> list[float] | None:
    """Return values as JSON has them; None for none."""
    return list(values) or None


def rules_in_order(rules: Sequence[Rule]) -> list[str]:
    """Return what sets the threshold, as JSON has it."""
    return [rule for rule in reversed(RULES) if rule in rules]


@study(
    "sweep",
    title="Serverless threshold",
    picture="Cost against completion time by threshold",
    example="gpuplan sweep trace.parquet --threshold 30,60,5m,10m,30m -o sweep.png",
    doing="replaying",
    compiles=True,
    has_timeline=True,
    usual_for=OF_SERVERLESS_LOG,
    report_place=4,
    gpu_is_setting=True,
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "serverless_only.cost_usd": (WORKLOAD, "cost on serverless GPUs alone"),
        "recommended.cost_usd": (COST, "recommended cost"),
        "recommended.mean_jct_s": (JCT, "mean JCT as recommended"),
    },
)
@dataclass(frozen=True, slots=True)
class SweepRequest(StudyRequest):
    """Find when jobs should leave serverless GPUs: cost and completion time by threshold.

    Attributes:
        replay: the jobs, and what they cost.
        price: what GPUs cost; empty for the settings of the policies.
        engine: where the replays run; the result does not depend on it.
        timelines: keep what happened over time.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "capacity": Annotated[list[int | None], "most workers rented at once; null for no limit"],
        "settings": Annotated[dict[str, Any], "the effective value of every setting not swept"],
        "price_choice": Annotated[dict[str, Any], "settings that choose among prices"],
        "against": Annotated[
            ComparedParameters | None,
            "the policy that the choice is compared with; null without one",
        ],
        "cluster": Annotated[str | None, "today's cluster as given"],
        **STATED_PRICES,
        "throughputs": Annotated[str | None, "null: a sweep has no such option"],
        "gpu_speed": Annotated[dict[str, float] | None, "null: a sweep has no such option"],
        "ci": Annotated[
            float | None, "confidence of the intervals, percent; null without resamples"
        ],
    }

    replay: Annotated[
        ReplayRequest,
        Group(without=("jobs.period_from", "jobs.period_to", "jobs.spot", "by", "gpu_types")),
    ]
    thresholds_s: Annotated[
        tuple[float, ...],
        Opt(
            "Run times after which a job leaves serverless GPUs: a list (30,60,5m,none) or "
            "LOW:HIGH:COUNT (30s:30m:8). Seconds unless a unit is given.",
            flag="--threshold",
            key="threshold_s",
            parse=parse_thresholds,
            write=ascending,
            common=True,
            default=DEFAULT_THRESHOLDS,
        ),
    ] = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
    policy: Annotated[
        tuple[Rule, ...],
        Opt(
            "fixed: each threshold stays as given. adaptive: one replay whose threshold follows "
            "the load. May be repeated. Default: both.",
            write=rules_in_order,
            many=True,
        ),
    ] = ("fixed", "adaptive")
    capacities: Annotated[
        tuple[int | None, ...],
        Opt(
            "Most workers (GPUs) rented at once. A list such as 10,20,none tries each. Default: no "
            "limit.",
            flag="--capacity",
            key=None,
            parse=parse_capacities,
            common=True,
        ),
    ] = ()
    price_ratios: Annotated[
        tuple[float, ...],
        Opt(
            "Rented over serverless price, one or a list such as 0.3,0.5,1. Rented prices are "
            "scaled until the median offer within the largest --capacity has this ratio. Default: "
            "prices as set.",
            flag="--price-ratio",
            key="price_ratio",
            parse=parse_ratios,
            write=listed,
        ),
    ] = ()
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "A setting of allpass, such as checkpoint_s=20 or serverless_usd_per_gpu_h=1.80; see "
            "gpuplan list policies allpass. May be repeated.",
            flag="--set",
            key=None,
            common=True,
            many=True,
        ),
    ] = ()
    against: Annotated[
        str | None,
        Opt(
            "A policy to compare with, such as today's scheduler: fifo:cluster=8x4. It replays the "
            "same jobs at its own prices and also takes --set. Lists take /, as in "
            "2d-las:limits_gpu_s=600/3600.",
            key=None,
            metavar="NAME[:KEY=VALUE,...]",
            common=True,
            complete="policies",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Opt(
            "GPUs of today's cluster: 64, or 8x4 (8 nodes of 4 GPUs). With --against, the cluster "
            "of that policy, also x4 (as many nodes of 4 as needed). Default: the most GPUs the "
            "log ever held.",
            key=None,
            metavar=METAVAR,
            common=True,
        ),
    ] = None
    mark: Annotated[
        str | None,
        Opt(
            "Your own fixed threshold, such as 10m or none: replayed, listed in the table, and "
            "marked in the chart.",
        ),
    ] = None
    values_of_time: Annotated[
        tuple[float, ...],
        Opt(
            "Dollars that an hour of completion time is worth, such as 0,1,10. The recommendation "
            "then has the lowest bill plus worth. Default: the cheapest whose mean JCT is within "
            "10% of the shortest.",
            flag="--value-of-time",
            key="value_of_time_usd_per_h",
            parse=parse_worth,
            write=listed,
            common=True,
        ),
    ] = ()
    ci: Annotated[
        float,
        Opt(
            "Confidence level in percent of the recommendation, by a bootstrap over blocks of "
            "consecutive jobs.",
            key=None,
        ),
    ] = 90.0
    resamples: Annotated[int, Opt("Resamples of that bootstrap; 0 turns it off.", low=0)] = 200
    price: Annotated[PriceRequest, replace(REPLAYED_PRICES, rare=("usd_per_gpu_h",))] = field(
        default_factory=PriceRequest
    )
    engine: Annotated[Engine, Group(in_json=False)] = field(default=THREADS, compare=False)
    timelines: bool = False

    @property
    def book(self) -> PriceRequest:
        """What GPUs cost, with the price table of the replay."""
        return self.replay.with_table(self.price)

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        from gpuplan.analysis.characterize.intervals import check_level

        if self.resamples:
            check_level(self.ci, self.resamples)
        self.marked_s()
        self.size()
        self.spec()
        self.against_spec()
        self.parameters_of_policy()
        self.replay.check()

    @property
    def is_adaptive(self) -> bool:
        """Whether the adaptive rule is replayed."""
        return "adaptive" in self.policy

    def marked_s(self) -> float | None:
        """Return the marked threshold in seconds; ``none`` is inf. Raises `UsageError`."""
        return None if self.mark is None else parse_mark(self.mark)

    def fixed_s(self) -> tuple[float, ...]:
        """Return the fixed thresholds to replay."""
        marked_s = self.marked_s()
        marked = () if marked_s is None else (marked_s,)
        return (*(self.thresholds_s if "fixed" in self.policy else ()), *marked)

    def size(self) -> ClusterSize | None:
        """Return today's cluster as given; None where it is not. Raises `UsageError`."""
        size = None if self.cluster is None else read_size(self.cluster)
        if size is not None and self.against is None and size.shape.gpus is None:
            raise UsageError(
                f"{size.option}: needs a number of nodes; only --against can find one\n"
                f"  next: --cluster 8{size.shape}, or --against fifo {size.option}"
            )
        return size

    def spec(self) -> PolicySpec:
        """Return ``allpass`` with its settings, without its controller. Raises `UsageError`."""
        from gpuplan.planner.requests.policy_specs import read_spec

        _check_settings(self.settings)
        spec = read_spec("allpass", self.settings)
        _check_swept(spec, self)
        return spec

    def against_spec(self) -> PolicySpec | None:
        """Return the policy that the choice is compared with. Raises `UsageError`."""
        from gpuplan.planner.requests.policy_specs import read_reference

        if self.against is None:
            return None
        is_priced = self.replay.prices is not None
        return read_reference(self.against, self.settings, self.size(), is_priced=is_priced)

    def settings_of_policy(self) -> dict[str, Any]:
        """Return what is set of the policy, with its controller."""
        return {**self.spec().settings, "controller": "adaptive" if self.is_adaptive else "fixed"}

    def parameters_of_policy(self) -> Allpass:
        """Return the parameters of the policy, without prices from a table.

        Raises `UsageError` for settings that no run can have.
        """
        from gpuplan.planner.money.renting_settings import OF_PRICES
        from gpuplan.planner.policies.allpass_settings import parameters_from

        kept = OF_PRICES if self.replay.prices is not None else ()
        with self.spec().blamed(is_alone=True):
            return parameters_from(
                {n: value for n, value in self.settings_of_policy().items() if n not in kept}
            )

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output, but for the policies."""
        size = self.size()
        return {
            **StudyRequest.parameters(self),
            **self.replay.parameters(),
            **stated(self.price),
            "cluster": None if size is None else str(size.shape),
            "ci": self.ci if self.resamples else None,
        }


def _check_settings(settings: Sequence[str]) -> None:
    """Raise `UsageError` where ``--set`` has what is an option here, or of another policy."""
    for text in settings:
        key, _, value = (part.strip() for part in text.partition("="))
        if key in ("gpus", "cluster") and value:
            workers = f"--capacity {value} for the most workers rented, or " * (key == "gpus")
            raise UsageError(
                f"--set {text!r}: no setting {key!r}\n  next: {workers}--against NAME --cluster "
                f"{value} for a cluster"
            )


def _check_swept(spec: PolicySpec, request: SweepRequest) -> None:
    """Raise `UsageError` where ``--set`` has what a sweep takes otherwise."""
    values, option_of = spec.settings, spec.option_of
    if "controller" in values:
        raise UsageError(
            f"{option_of['controller']}: a sweep takes it as --policy fixed or adaptive"
        )
    if request.capacities and "capacity" in values:
        capacity = ",".join("none" if most is None else str(most) for most in request.capacities)
        raise UsageError(f"--capacity {capacity} and {option_of['capacity']}: give one of the two")
    first = values.get("threshold_s")
    lowest, highest = values.get("min_threshold_s", 0.0), spec.effective()["max_threshold_s"]
    if first is not None and (not request.is_adaptive or not lowest <= first <= highest):
        why = (
            f"beyond its limits, {lowest:g} to {highest:g} s"
            if request.is_adaptive
            else "and --policy fixed replays none"
        )
        fixed = f"{first:g}" if first < math.inf else "none"
        raise UsageError(
            f"{option_of['threshold_s']}: the adaptive threshold begins there, {why}\n"
            f"  next: --threshold {fixed} replays it as a fixed one"
        )
