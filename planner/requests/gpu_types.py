"""The GPU types to plan for, how fast each is, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from gpuplan.analysis.base.amounts import parse_by_type
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import did_you_mean
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.gpu_names import gpu_models, is_known_gpu, same_gpu
from gpuplan.planner.money.price_request import Price, PriceRequest

if TYPE_CHECKING:
    from gpuplan.planner.money.price_book import Prices
    from gpuplan.planner.speedup.model import SpeedupModel


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """The GPU types to plan for."""

    PANEL: ClassVar[str] = "Prices"

    gpu: Annotated[
        tuple[str, ...],
        Opt(
            "GPU type to plan for; repeat it to find the cheapest mix. SPEED is its speed "
            "relative to the first, needed with a law: --gpu T4 --gpu A100=2.5.",
            metavar="TYPE[=SPEED]",
            many=True,
        ),
    ] = ()
    recorded_on: Annotated[
        str | None,
        Opt(
            "GPU type the trace was recorded on, with several --gpu. Default: the first.",
            metavar="TYPE",
        ),
    ] = None

    @property
    def speeds(self) -> dict[str, float]:
        """Type -> its speed over that of the others, 1 by default. Raises `UsageError`."""
        return parse_by_type(self.gpu, "--gpu", default=1.0)

    @property
    def speeds_are_given(self) -> bool:
        """Whether the speeds were given, and are not 1 for want of others."""
        return any("=" in text for text in self.gpu)

    @property
    def names(self) -> tuple[str, ...]:
        """The types, in order; empty where none was named."""
        return tuple(self.speeds)

    @property
    def is_mixed(self) -> bool:
        """Whether there are several types to choose from."""
        return len(self.speeds) > 1

    def model(self, model: SpeedupModel) -> SpeedupModel:
        """Return the speedups on these types. Raises `UsageError` where they do not fit."""
        if self.recorded_on is not None and not (self.is_mixed and self.recorded_on in self.speeds):
            raise UsageError(
                f"--recorded-on {self.recorded_on}: expected one of several --gpu TYPE"
            )
        speeds = self.speeds
        if not speeds:
            return model
        if self.speeds_are_given and (model.types or len(speeds) == 1):
            why = (
                "its types are measured" if model.types else "a speed is over that of another --gpu"
            )
            raise UsageError(f"--gpu TYPE=SPEED: not for {model.name} here, since {why}")
        if len(speeds) == 1:
            return model.on(next(iter(speeds))) if model.types else model
        if not model.types:
            if not self.speeds_are_given:
                raise UsageError(
                    f"{model.name} does not tell GPU types apart\n"
                    "  next: say how fast each is, for example --gpu T4 --gpu A100=2.5"
                )
            return model.with_types(speeds)
        return replace(model, types={name: model.on(name) for name in speeds})

    def price(self, request: PriceRequest, time_zone: str | None = None) -> Prices:
        """Return the prices; jobs that name no type are of the first type.

        Raises:
            InputError: a price table that cannot be read.
            UsageError: fields that do not fit together, or a type of several without a price.
        """
        from gpuplan.planner.money.price_book import Prices

        names, usd_of = self.names, request.usd_per_gpu_h
        if self.is_mixed and "" in usd_of:
            raise UsageError("--price: several GPU types need a price each, for example T4=0.5")
        if not all(usd_of.values()):
            raise UsageError("--price must be above 0 dollars per GPU-hour, got 0")
        gpu = names[0] if names else request.gpu
        prices = Prices.read(replace(request, gpu=gpu), time_zone)
        for gpu_type in names:
            if request.is_own or request.prices is not None:
                prices.of(gpu_type)
            elif self.is_mixed and prices.get(gpu_type) is None:
                raise UsageError(
                    f"--gpu {gpu_type} has no price, and a mix of types has a budget in dollars\n"
                    f"  next: --price {gpu_type}=USD, or --prices builtin"
                )
        return prices

    def priced(self, prices: Prices) -> dict[str, Price]:
        """Return the price of each type that is named here or has a price of its own."""
        named = (*filter(None, prices.usd_per_gpu_h), *self.names)
        priced = {gpu_type: prices.get(gpu_type) for gpu_type in named}
        return {gpu_type: price for gpu_type, price in priced.items() if price is not None}

    def check_log(self, prices: Prices, log_types: Sequence[str]) -> None:
        """Check the types and prices for a log whose jobs ran on these GPU types.

        Raises:
            UsageError: a GPU to plan for that nobody knows, or a price of a GPU that nobody knows
                and that is neither planned for nor in the log.
        """
        for gpu_type in self.names:
            in_log = any(same_gpu(gpu_type, log_type) for log_type in log_types)
            if not (in_log or is_known_gpu(gpu_type) or prices.get(gpu_type)):
                models = did_you_mean(gpu_type, [*log_types, *gpu_models()])
                raise UsageError(
                    f"--gpu {gpu_type}: not a GPU model that gpuplan knows{models}\n"
                    f"  next: --price {gpu_type}=USD, if the name is right"
                )
        for gpu_type in filter(None, prices.usd_per_gpu_h):
            is_there = any(same_gpu(gpu_type, name) for name in (*self.names, *log_types))
            if not (is_there or is_known_gpu(gpu_type)):
                raise UsageError(
                    f"--price {gpu_type}=...: no such GPU to plan for, and no job of the log ran "
                    f"on it\n  next: --gpu {gpu_type} as well"
                )

    def plan_price(self, prices: Prices, gpu_h: Mapping[str | None, float]) -> Price | None:
        """Return the price of a GPU-hour of a plan for one type; None without prices.

        It is that of the type to plan for, or the mean of the log's types by GPU-hours.

        Args:
            prices: the price book, with a price for each of these types.
            gpu_h: GPU-hours of the log by type, most first.
        """
        if prices.table is None and not (prices.usd_per_gpu_h or prices.book.gpu_types):
            return None
        if self.names:
            return prices.of(self.names[0])
        each = [prices.of(name) for name, hours in gpu_h.items() if hours > 0]
        usd = prices.mean(gpu_h)
        if not each or usd is None:
            return prices.get(None)
        if len({price.usd_per_gpu_h for price in each}) == 1:
            return each[0] if "" not in prices.usd_per_gpu_h else replace(each[0], gpu_type=None)
        sources = dict.fromkeys(price.source for price in each)
        text = f"mean of {len(each)} GPU types by GPU-hours; {', '.join(sources)}"
        return Price(usd, None, text)
