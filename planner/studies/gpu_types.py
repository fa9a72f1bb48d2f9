"""The GPU types to plan for, how fast each is, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize.today import UNNAMED
from gpuplan.analysis.job_table.gpu_names import match_types, same_gpu
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.prices.quote import Quote, quote, read_offers
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.speedup.model import SpeedupModel


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """What is asked of GPU types and prices.

    Attributes:
        speeds: type -> its speed over that of the others, in order; empty where none was named.
        speeds_are_given: whether the speeds were given, and are not 1 for want of others.
        usd_per_gpu_h: type -> price, also of types that the jobs ran on and that are not planned
            for; under the empty name where no type was named.
        prices: a price table or ``builtin``, for types without a price of their own.
        provider: the provider in that table; None for the cheapest.
        recorded_on: the type that the jobs ran on; None for the first.
    """

    speeds: Mapping[str, float] = field(default_factory=dict)
    speeds_are_given: bool = False
    usd_per_gpu_h: Mapping[str, float] = field(default_factory=dict)
    prices: str | None = None
    provider: str | None = None
    recorded_on: str | None = None


@dataclass(frozen=True, slots=True)
class PricedTypes:
    """The GPU types to plan for, and what they cost.

    Attributes:
        model: the speedups, on these types where it knows types.
        types: the types, in order; empty where none was named.
        quotes: by type; under the empty name where none was named. Only what has a price.
        inputs: the price table, where one was read.
        is_of_type: whether the speedups are those of the types.
        offers: of the price table.
        provider: whose offers count.
        source: the name of the price table.
    """

    model: SpeedupModel
    types: tuple[str, ...]
    quotes: dict[str, Quote]
    inputs: tuple[InputFile, ...]
    is_of_type: bool
    offers: tuple[Offer, ...] = ()
    provider: str | None = None
    source: str = ""

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
        return self.quotes.get(self.types[0] if self.types else "")

    def for_log(self, named: Sequence[str]) -> PricedTypes:
        """Return the prices for a log whose jobs ran on these GPU types, most GPU-hours first.

        Raises:
            UsageError: a price of a GPU that is neither planned for nor in the log, or no price for
                the GPU with the most GPU-hours where others have one.
        """
        for gpu in self.quotes:
            if gpu and gpu not in self.types and not any(same_gpu(gpu, one) for one in named):
                raise UsageError(
                    f"--price {gpu}=...: no such GPU to plan for, and no job of the log ran on it\n"
                    f"  next: --gpu {gpu} as well"
                )
        if self.types or "" in self.quotes or not self.quotes:
            return self
        main = match_types(self.quotes, named[:1], "--price").get(named[0])
        if main is None:
            raise UsageError(
                f"--price: none for {named[0]}, on which most GPU-hours ran\n"
                f"  next: --price {named[0]}=USD, or --gpu with the GPU to plan for"
            )
        return replace(self, quotes={"": self.quotes[main], **self.quotes})

    def todays_prices(self, named: Sequence[str]) -> dict[str, float]:
        """Return the price of each GPU type of a log, each by its own where one is known.

        Jobs without a type have the empty name.
        """
        priced = {gpu_type: self._price_of(gpu_type) for gpu_type in named}
        found = {name: one.usd_per_gpu_h for name, one in priced.items() if one is not None}
        if len(found) == len(priced) and UNNAMED in found:
            found[""] = found.pop(UNNAMED)
        return found

    def _price_of(self, gpu_type: str) -> Quote | None:
        if gpu_type == UNNAMED:
            return self.quote
        own = match_types(self.quotes, [gpu_type], "--price")[gpu_type]
        if own is not None:
            return self.quotes[own]
        if self.offers:
            try:
                return quote(self.offers, gpu_type, self.provider, source=self.source)
            except UsageError:  # no offer
                return None
        return None if self.types else self.quotes.get("")


def price_types(asked: GpuTypes, model: SpeedupModel) -> PricedTypes:
    """Return the types with their speedups and prices.

    Raises:
        InputError: a price table that cannot be read.
        UsageError: fields that do not fit together, or a GPU or price that is not known.
    """
    types = tuple(asked.speeds)
    if asked.recorded_on is not None and (len(types) < 2 or asked.recorded_on not in types):
        raise UsageError(f"--recorded-on {asked.recorded_on}: expected one of several --gpu TYPE")
    is_of_type = bool(model.types)
    model = _on(model, asked)
    quotes = {name: Quote(usd, name) for name, usd in asked.usd_per_gpu_h.items()}
    inputs: tuple[InputFile, ...] = ()
    offers: tuple[Offer, ...] = ()
    if asked.prices is not None:
        if not types:
            raise UsageError("--prices: name the GPU, for example --gpu A100")
        offers, book = read_offers(asked.prices)
        missing = [gpu for gpu in types if gpu not in quotes]
        quotes |= {gpu: quote(offers, gpu, asked.provider, source=asked.prices) for gpu in missing}
        if book is not None:
            inputs = (InputFile(str(book.path), book.sha256, book.rows),)
    elif asked.provider is not None:
        raise UsageError("--provider: needs --prices FILE or builtin")
    for gpu in types:
        if len(types) > 1 and gpu not in quotes:
            raise UsageError(
                f"--gpu {gpu} has no price, and a mix of types has a budget in dollars\n"
                f"  next: --price {gpu}=USD, or --prices builtin"
            )
    return PricedTypes(
        *(model, types, quotes, inputs, is_of_type, offers),
        provider=asked.provider,
        source=asked.prices or "",
    )


def _on(model: SpeedupModel, asked: GpuTypes) -> SpeedupModel:
    """Return the model of the types named."""
    speeds = dict(asked.speeds)
    if not speeds:
        return model
    if asked.speeds_are_given and (model.types or len(speeds) == 1):
        why = "its types are measured" if model.types else "a speed is over that of another --gpu"
        raise UsageError(f"--gpu TYPE=SPEED: not for {model.name} here, since {why}")
    if len(speeds) == 1:
        return model.on(next(iter(speeds))) if model.types else model
    if not model.types:
        if not asked.speeds_are_given:
            raise UsageError(
                f"{model.name} does not tell GPU types apart\n"
                "  next: say how fast each is, for example --gpu T4 --gpu A100=2.5"
            )
        return model.with_types(speeds)
    return replace(model, types={name: model.on(name) for name in speeds})
