"""What all studies that replay a trace are asked: the jobs, GPU types, prices, policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from gpuplan.analysis.base.amounts import check_finite
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.option import Group, Opt, json_parameters
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.pool_texts import stated_prices
from gpuplan.planner.money.price_request import BOOK_PARAMETERS, PriceRequest, check_provider
from gpuplan.planner.requests.declaration import StudyRequest
from gpuplan.planner.requests.settings import OptionSetting, option_settings
from gpuplan.planner.requests.site_queues import SITE, site_settings
from gpuplan.planner.requests.trace import TRACE

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec
    from gpuplan.planner.runs.replay_files import ReplayFiles

LOG_WINDOW, OWN_WINDOW = ("log", "run")
"""What policies are charged for: ``log``, the window of the log, the same for all; ``run``, each
until its own last finish."""


def read_deadline_factor(text: str, flag: str) -> tuple[float, float]:
    """Return the bounds of ``LOW:HIGH`` or of a single factor. Raises `UsageError`."""
    for part in text.split(":"):
        check_finite(part, flag)
    try:
        bounds = [float(part) for part in text.split(":")]
    except ValueError:
        bounds = []
    if len(bounds) not in (1, 2):
        raise UsageError(f"{flag} {text!r}: expected LOW:HIGH such as 1:10, or 3")
    return bounds[0], bounds[-1]


def factor_bounds(factor: tuple[float, float]) -> list[float]:
    """Return the bounds as JSON has them."""
    return list(factor)


def read_columns(text: str, _: str) -> tuple[str, ...]:
    """Return what ``--by`` names."""
    return tuple(name.strip() for name in text.split(","))


def columns_text(columns: Sequence[str]) -> str | None:
    """Return columns as ``--by`` names them; None for none."""
    return ",".join(columns) or None


def read_speeds(text: str, flag: str) -> dict[str, float]:
    """Return the speed of each GPU type of ``A100=1,V100=0.5``. Raises `UsageError`."""
    speeds: dict[str, float] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, number = (word.strip() for word in part.partition("="))
        check_finite(number, flag)
        try:
            speed = float(number)
        except ValueError:
            speed = 0.0
        if not name or name in speeds or not 1e-6 <= speed <= 1e6:
            raise UsageError(
                f"{flag} {shortened(part.strip())!r}: expected each GPU type once with a speed "
                "above 0, such as A100=1,V100=0.5"
            )
        speeds[name] = speed
    return speeds


def given_speeds(speeds: Mapping[str, float]) -> dict[str, float] | None:
    """Return speeds as JSON has them; None for none."""
    return dict(speeds) or None


def read_error(text: str, flag: str) -> str:
    """Return a share such as ``30%`` as a number. Raises `UsageError`."""
    check_finite(text.removesuffix("%"), flag)
    if not text.endswith("%"):
        return text
    try:
        return f"{float(text[:-1]) / 100:g}"
    except ValueError:
        raise UsageError(f"{flag} {shortened(text)!r}: expected a share such as 30%") from None


@dataclass(frozen=True, slots=True)
class GpuTypeRequest:
    """How fast jobs run on each GPU type of a cluster, and the rounds on several."""

    PANEL: ClassVar[str] = "Several GPU types"

    throughputs: Annotated[
        str | None,
        Opt(
            "Measured rate of each job class on each GPU type and number of GPUs: a CSV of "
            "job_class, gpu_type, gpus, rate; Gavel's throughputs (CSV or JSON); profile:sia; or "
            "pollux:FILE, parameters of Pollux' goodput model by gpu_type.",
            metavar="FILE|profile:NAME",
            reads=True,
        ),
    ] = None
    gpu_speed: Annotated[
        Mapping[str, float],
        Opt(
            "Relative speed of each GPU type, assumed the same for every job, where nothing was "
            "measured: A100=1,V100=0.5.",
            parse=read_speeds,
            write=given_speeds,
            metavar="TYPE=SPEED,...",
        ),
    ] = field(default_factory=dict)
    round: Annotated[
        str | None,
        Opt(
            "Time between decisions of a policy that schedules in rounds on several GPU types "
            "(round_s). Default: 5m.",
            key=None,
            metavar="TIME",
        ),
    ] = None
    estimate_error: Annotated[
        str | None,
        Opt(
            "Give policies in rounds estimates of each job's work that are off by up to this "
            "share, such as 30%, sampled anew for each job (estimate_error). Default: 0.",
            parse=read_error,
            key=None,
            metavar="SHARE",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.throughputs is not None and self.gpu_speed:
            raise UsageError(
                "--throughputs and --gpu-speed: both say how fast jobs run\n  next: give one"
            )

    def settings(self) -> list[OptionSetting]:
        """Return the settings of policies that the options are."""
        return option_settings(
            ("--round", "round_s", self.round),
            ("--estimate-error", "estimate_error", self.estimate_error),
        )


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which jobs are replayed, and what they and their GPUs cost.

    Attributes:
        jobs: which of its jobs.
        gpu_types: how fast jobs run on each.
    """

    trace: Annotated[Path, TRACE]
    jobs: Selection = field(default_factory=Selection)
    deadline: Annotated[
        Literal["given", "inferred", "drawn"] | None,
        Opt(
            "Source of soft deadlines. given: the trace, or sampled where it has none. inferred: "
            "the time in which 9 in 10 recorded jobs of the class finished. drawn: sampled, see "
            "--deadline-factor. Default: given, or drawn with --deadline-factor.",
        ),
    ] = None
    deadline_factor: Annotated[
        tuple[float, float] | None,
        Opt(
            "Soft deadlines as multiples of the duration: a range to sample from (1:10) or one "
            "factor (3). Default: 1:10.",
            parse=read_deadline_factor,
            write=factor_bounds,
        ),
    ] = None
    include_running: Annotated[
        bool,
        Opt(
            "Also replay jobs that still run, with the time they have run so far.",
            flag="--include-running",
        ),
    ] = False
    prices: Annotated[
        str | None,
        Opt(
            "GPU prices: a table made by [bold]gpuplan prices[/bold] (.parquet), or "
            "[bold]builtin[/bold]. A cluster pays the median on demand; --set provider=vast rents "
            "it from a market. Choose with --set gpu=A100-80GB.",
            metavar="FILE|builtin",
            common=True,
            reads=True,
        ),
    ] = None
    provider: Annotated[
        str | None,
        Opt(
            "Pay this provider of --prices for a cluster, for today, and for the cloud of a policy "
            "that rents, beside its marketplace: aws, or aws:spot. Default: the median on demand.",
            metavar="NAME[:KIND]",
        ),
    ] = None
    checkpoints: Annotated[
        Path | None,
        Opt(
            "Time to save and load jobs, by class: a CSV of job_class, checkpoint_s, restore_s "
            "(seconds), or of job_class, state_gb, gb_per_s. Class * stands for all others.",
            metavar="FILE",
        ),
    ] = None
    by: Annotated[
        tuple[str, ...],
        Opt(
            "Also show waits, jobs and GPU-hours by group, user, class or type; by two with a "
            "comma: group,type.",
            parse=read_columns,
            write=columns_text,
            omitted=True,
            metavar="WHAT",
            common=True,
        ),
    ] = ()
    gpu_types: GpuTypeRequest = field(default_factory=GpuTypeRequest)

    def __post_init__(self) -> None:
        check_provider(self.provider, self.prices)
        if self.by:
            from gpuplan.planner.runs.group_waits import check_by

            check_by(self.by)

    def with_table(self, price: PriceRequest) -> PriceRequest:
        """Return what GPUs cost, with the price table of this replay for what has no price."""
        return replace(price, prices=self.prices, provider=self.provider)

    def deadline_rule(self) -> str:
        """Return where deadlines come from. Raises `UsageError` for bounds that it cannot use."""
        from gpuplan.planner.runs.deadlines import check_factor

        return check_factor(self.deadline, self.deadline_factor)

    def read_files(self) -> ReplayFiles:
        """Return what the files beside the trace say. Raises `InputError`."""
        from gpuplan.planner.runs.replay_files import read_replay_files

        return read_replay_files(self.prices, self.checkpoints, self.gpu_types.throughputs)

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.read_files()
        self.deadline_rule()

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return json_parameters(self) | {"deadline": self.deadline_rule()}


REPLAYED_PRICES = Group(without=("prices", "gpu", "provider"), in_json=False)
"""What studies that replay policies take of a price book: ``--prices`` is of the replay."""

STATED_PRICES: Mapping[str, Any] = {
    "price": Annotated[
        dict[str, float | dict[str, float]] | None,
        "dollars per GPU-hour by GPU type, or by date; the empty name is every other type",
    ],
    **BOOK_PARAMETERS,
}


def stated(price: PriceRequest) -> dict[str, Any]:
    """Return a price book as JSON ``parameters`` have it: `STATED_PRICES`."""
    return {"price": stated_prices(price.usd_per_gpu_h) or None, **price.book_parameters()}


@dataclass(frozen=True, slots=True)
class PoliciesRequest(StudyRequest):
    """Which jobs are replayed under policies, and what these are charged.

    Attributes:
        replay: the jobs, and what they cost.
        price: what GPUs cost; empty for the settings of the policies.
        timelines: keep what happened over time.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = STATED_PRICES

    replay: Annotated[ReplayRequest, Group(without=("jobs.period_from", "jobs.period_to"))]
    price: Annotated[PriceRequest, REPLAYED_PRICES] = field(default_factory=PriceRequest)
    window: Annotated[
        Literal["log", "run"],
        Opt(
            "Time that is charged. log: from the first submission to the last submission or end "
            "of a run, the same for all policies. run: to each policy's own last finish.",
        ),
    ] = "log"
    limit_factor: Annotated[
        float | None,
        Opt(
            "Time limit of a job over its run time, for policies that plan with limits (easy, "
            "conservative). Default: recorded limits, and 2 where there are none.",
            key=None,
            low=1.0,
            high=1000.0,
        ),
    ] = None
    site: Annotated[Path | None, SITE] = None
    spot_price: Annotated[
        float | None,
        Opt(
            "What an hour of a spot GPU earns, in dollars. Default: 30% of the GPU's price.",
            key=None,
            low=0.0,
            metavar="USD",
            panel="Prices",
        ),
    ] = None
    timelines: bool = False

    @property
    def book(self) -> PriceRequest:
        """What GPUs cost, with the price table of the replay."""
        return self.replay.with_table(self.price)

    def specs(self) -> tuple[PolicySpec, ...]:
        """Return the policies with their settings. Raises `UsageError` where one cannot be read."""
        raise NotImplementedError

    def check(self) -> None:
        """Check everything but the trace. Raises `InputError` or `UsageError`."""
        self.checked_specs()
        self.replay.check()

    def checked_specs(self) -> tuple[PolicySpec, ...]:
        """Return the policies, which have a use for the checkpoints.

        Raises:
            UsageError: they have none, or a policy cannot be read.
        """
        specs = self.specs()
        labels = ", ".join(spec.label for spec in specs)
        effective = [spec.effective() for spec in specs]
        if self.replay.checkpoints is not None and not any(map(_moves, effective)):
            raise UsageError(
                f"--checkpoints: none of {labels} moves or stops jobs\n  next: a policy that does "
                "(gpuplan list policies), or --set preemptive=true"
            )
        return specs

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output, but for what is computed."""
        return {
            **stated(self.price),
            **json_parameters(self),
            "deadline": self.replay.deadline_rule(),
        }

    def settings_of(self, policies: Sequence[str], settings: Iterable[str]) -> list[str]:
        """Return the texts of ``--set`` with those that other options stand for.

        Args:
            policies: as typed.
            settings: texts of ``--set``.

        Raises:
            UsageError: jobs are spot, or their price is given, and no policy lends GPUs.
        """
        if self.spot_price is not None or self.replay.jobs.spot is not None:
            _check_lending(policies, "--spot" if self.spot_price is None else "--spot-price")
        return [
            *settings,
            *site_settings(self.site, policies, list(settings), getattr(self, "cluster", None)),
            *self.replay.gpu_types.settings(),
            *option_settings(
                ("--limit-factor", "limit_factor", self.limit_factor),
                ("--spot-price", "spot_usd_per_gpu_h", self.spot_price),
            ),
        ]


def _moves(settings: Mapping[str, Any]) -> bool:
    """Return whether a policy saves and loads jobs under its settings."""
    return "restore_s" in settings and bool(settings.get("preemptive", True))


def _check_lending(policies: Sequence[str], option: str) -> None:
    """Raise `UsageError` where no policy lends GPUs."""
    from gpuplan.planner.policies.spot.settings import lends
    from gpuplan.planner.registry import BESIDE_LENDING, find_policy

    named = [find_policy(text.partition(":")[0].strip()) for text in policies]
    if not any(lends(policy.settings) for policy in named):
        who = f"{policies[0]} lends" if len(policies) == 1 else f"{', '.join(policies)} lend"
        instead = next((BESIDE_LENDING.get(policy.name) for policy in named), None) or "gfs"
        raise UsageError(f"{option}: {who} no GPUs\n  next: --policy {instead}")
