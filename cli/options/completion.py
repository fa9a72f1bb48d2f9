"""What the shell offers as values of options: the names of the registries.

A registry is imported when a shell asks for its names, and not before; what installed packages add
is offered without loading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

import typer

Names = Callable[[], Iterable[str]]


def one_of(names: Names) -> Callable[[str], list[str]]:
    """Return what typer asks for the names that begin as what is typed."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return offer


def some_of(names: Names) -> Callable[[str], list[str]]:
    """Return what typer asks for one more name of a comma-separated list."""

    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        typed = before.split(",")
        return [
            f"{before}{comma}{name}"
            for name in names()
            if name.startswith(last) and name not in typed
        ]

    return offer


def _names(*listed: str) -> Names:
    """Return what returns the names that modules list, each as ``module:attribute``.

    An attribute is a registry, a table by name, one name, or a function that returns the names.
    """

    def names() -> Iterator[str]:
        for place in listed:
            module, _, attribute = place.partition(":")
            value = getattr(import_module(f"gpuplan.{module}"), attribute)
            if hasattr(value, "names"):
                value = value.names()
            yield from [value] if isinstance(value, str) else value() if callable(value) else value

    return names


policies = _names("planner.registry:POLICIES")
baselines = _names("planner.registry:BASELINES", "planner.baselines:ALL")
speedups = _names("planner.speedup.registry:example_speedups")
log_formats = _names("analysis.log_formats.registry:FORMATS")
price_formats = _names("analysis.price_formats.registry:PRICE_FORMATS")
invoice_formats = _names("analysis.invoices.registry:INVOICE_FORMATS")
forecast_models = _names(
    "analysis.forecast.forecast:AUTO",
    "analysis.forecast.models:MODELS",
    "planner.money.spend_request:SPEND_MODELS",
)
presets = _names("analysis.synth:PRESETS", "analysis.synth.spot_mix:NAME")


def names_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names that ``gpuplan list KIND`` shows and that begin as what is typed."""
    kinds: dict[str, tuple[Names, ...]] = {
        "formats": (log_formats, price_formats, invoice_formats),
        "policies": (policies,),
        "baselines": (baselines,),
    }
    listed = (name for names in kinds.get(str(ctx.params.get("kind")), ()) for name in names())
    return [name for name in dict.fromkeys(listed) if name.startswith(incomplete) and name != "all"]
