"""From the options of ``gpuplan pareto`` to the arguments of the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.cli.formats.report import Input
from gpuplan.cli.formats.units import parse_duration
from gpuplan.cli.options.cluster_options import read_size
from gpuplan.cli.pareto.class_options import parse_by_type, parse_caps, parse_limits
from gpuplan.cli.pareto.options import (
    MoneyChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)

if TYPE_CHECKING:
    from gpuplan.analysis.prices.quote import Quote
    from gpuplan.planner.frontier.model.class_options import ClassOptions
    from gpuplan.planner.frontier.replay.renting import RentedCluster
    from gpuplan.planner.speedup.model import SpeedupModel


def choices_of(scaling: ScalingChoice, width: WidthChoice, *, scale_work: float) -> ClassOptions:
    """Return how the trace becomes a workload. Raises `UsageError`."""
    from gpuplan.planner.frontier.model.class_options import ClassOptions
    from gpuplan.planner.frontier.model.job_classes import parse_weights, parse_widths

    horizon, rescale = scaling.horizon, scaling.rescale
    return ClassOptions(
        class_by=scaling.class_by.value,
        horizon_s=None if horizon is None else parse_duration(horizon, "--horizon"),
        rescale_s=None if rescale is None else parse_duration(rescale, "--rescale"),
        max_width=width.max_width,
        widths=None if width.widths is None else parse_widths(width.widths),
        scale_work=scale_work,
        weights=parse_weights(width.weight or []),
        limits=parse_limits(width.limit or []),
        caps_s=parse_caps(width.require or []),
        width_step=width.width_step,
    )


def cluster_of(renting: RentingChoice, money: MoneyChoice) -> RentedCluster | None:
    """Return how GPUs are rented; None without a replay. Raises `UsageError`."""
    from gpuplan.planner.frontier.replay.renting import RentedCluster

    if renting.no_replay:
        usual = RentingChoice(no_replay=True)
        for name in RentingChoice.__dataclass_fields__:
            if getattr(renting, name) != getattr(usual, name):
                raise UsageError(f"--{name.replace('_', '-')} is of the replay: not --no-replay")
        return None
    node_gpus, max_gpus = _rentable(renting, money)
    return RentedCluster(
        node_gpus=node_gpus,
        provision_s=parse_duration(renting.provision_delay, "--provision-delay"),
        release_s=parse_duration(renting.release_delay, "--release-delay"),
        billing_s=parse_duration(renting.billing, "--billing"),
        max_gpus=max_gpus,
        overflow=renting.overflow.value,
    )


def _rentable(renting: RentingChoice, money: MoneyChoice) -> tuple[int, int | None]:
    """Return the GPUs of a node, and the most GPUs rented at once; None for no limit.

    Raises:
        UsageError: no such shape, several GPU types, another type than ``--gpu``, or two limits.
    """
    if renting.cluster is None:
        return 1, renting.max_gpus
    size = read_size(renting.cluster)
    if len(size.shape.pools) > 1:
        raise UsageError(
            f"{size.option}: pareto rents the same nodes of every GPU type\n"
            f"  next: --cluster {replace(size.shape.pools[0], gpu_type=None)}"
        )
    pool = size.shape.pool
    if pool.gpu_type is not None and not any(
        same_gpu(gpu_name(pool.gpu_type), gpu_name(gpu.partition("=")[0]))
        for gpu in money.gpu or []
    ):
        raise UsageError(
            f"{size.option}: {pool.gpu_type} is not a GPU to plan for\n"
            f"  next: --gpu {pool.gpu_type} as well, or --cluster {replace(pool, gpu_type=None)}"
        )
    if pool.gpus is not None and renting.max_gpus is not None:
        raise UsageError(
            f"{size.option} and --max-gpus {renting.max_gpus}: both limit the GPUs rented; give "
            "one of the two"
        )
    return pool.gpus_per_node or 1, renting.max_gpus if pool.gpus is None else pool.gpus


def targets_of(text: str | None) -> list[float]:
    """Return the seconds of ``45m,1h``. Raises `UsageError`."""
    return [] if text is None else [parse_duration(one, "--target-jct") for one in text.split(",")]


@dataclass(frozen=True, slots=True)
class PricedTypes:
    """The GPU types to plan for, and what they cost.

    Attributes:
        model: the speedups, on these types where it knows types.
        types: the types, in order; empty where none was named.
        quotes: by type; under the empty name where none was named. Only what has a price.
        inputs: the price table, where one was read.
        is_of_type: whether the speedups are those of the types.
    """

    model: SpeedupModel
    types: tuple[str, ...]
    quotes: dict[str, Quote]
    inputs: tuple[Input, ...]
    is_of_type: bool

    @property
    def is_mixed(self) -> bool:
        """Whether there are several types to choose from."""
        return len(self.types) > 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        if len(self.types) != 1 or self.model.law is not None or self.is_of_type:
            return ()
        (gpu,) = self.types
        return (f"--gpu {gpu} only names the price: {self.model.name} is used as it was measured",)

    @property
    def quote(self) -> Quote | None:
        """The price of the only type; None without one."""
        return next(iter(self.quotes.values()), None)


def priced(money: MoneyChoice, model: SpeedupModel) -> PricedTypes:
    """Return what the options say of GPU types and prices.

    Raises:
        InputError: a price table that cannot be read.
        UsageError: options that do not fit together, or a GPU or price that is not known.
    """
    speeds = parse_by_type(money.gpu or [], "--gpu", default=1.0)
    types = tuple(speeds)
    if money.recorded_on is not None and (len(types) < 2 or money.recorded_on not in types):
        raise UsageError(f"--recorded-on {money.recorded_on}: expected one of several --gpu TYPE")
    is_of_type = bool(model.types)
    model = _on(model, speeds, any("=" in text for text in money.gpu or []))
    quotes = _given(money.price or [], types)
    inputs: tuple[Input, ...] = ()
    if money.prices is not None:
        if not types:
            raise UsageError("--prices: say of which GPU, for example --gpu A100")
        from gpuplan.analysis.prices.quote import quote, read_offers

        offers, book = read_offers(money.prices)
        source = money.prices
        missing = [gpu for gpu in types if gpu not in quotes]
        quotes |= {gpu: quote(offers, gpu, money.provider, source=source) for gpu in missing}
        if book is not None:
            inputs = (Input(str(book.path), book.sha256, book.rows),)
    elif money.provider is not None:
        raise UsageError("--provider: needs --prices FILE or builtin")
    for gpu in types:
        if len(types) > 1 and gpu not in quotes:
            raise UsageError(
                f"--gpu {gpu} has no price, and a mix of types has a budget in dollars\n"
                f"  next: --price {gpu}=USD, or --prices builtin"
            )
    return PricedTypes(model, types, quotes, inputs, is_of_type)


def _on(model: SpeedupModel, speeds: dict[str, float], told: bool) -> SpeedupModel:
    """Return the model of the types named."""
    if not speeds:
        return model
    if told and (model.types or len(speeds) == 1):
        why = "its types are measured" if model.types else "a speed is over that of another --gpu"
        raise UsageError(f"--gpu TYPE=SPEED: not for {model.name} here, since {why}")
    if len(speeds) == 1:
        return model.on(next(iter(speeds))) if model.types else model
    if not model.types:
        if not told:
            raise UsageError(
                f"{model.name} does not tell GPU types apart\n"
                "  next: say how fast each is, for example --gpu T4 --gpu A100=2.5"
            )
        return model.with_types(speeds)
    return replace(model, types={name: model.on(name) for name in speeds})


def _given(texts: Sequence[str], types: tuple[str, ...]) -> dict[str, Quote]:
    """Return what ``--price`` says."""
    from gpuplan.analysis.prices.quote import Quote

    if len(texts) == 1 and "=" not in texts[0]:
        try:
            usd = float(texts[0])
        except ValueError:
            raise UsageError(
                f"--price {texts[0]!r}: expected dollars per GPU-hour such as 1.29, or TYPE=USD"
            ) from None
        if len(types) > 1:
            raise UsageError("--price: several GPU types need a price each, for example T4=0.5")
        name = types[0] if types else ""
        return {name: Quote(usd, name)}
    named = parse_by_type(texts, "--price")
    for name in named:
        if name not in types:
            raise UsageError(
                f"--price {name}=...: no such GPU to plan for\n  next: --gpu {name} as well"
            )
    return {name: Quote(usd, name) for name, usd in named.items()}


def parameters(*groups: Any) -> dict[str, Any]:
    """Return the options of some groups as the JSON output names them."""
    return {name: getattr(group, name) for group in groups for name in group.__dataclass_fields__}
