"""What the shell offers as values of options: the names of the registries.

A registry is imported when a shell asks for its names, and not before; what installed packages add
is offered without loading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
        given = before.split(",")
        return [
            f"{before}{comma}{name}"
            for name in names()
            if name.startswith(last) and name not in given
        ]

    return offer


def policies() -> Iterable[str]:
    """Return what ``--policy`` takes."""
    from gpuplan.planner.registry import POLICIES

    return POLICIES.names()


def baselines() -> Iterable[str]:
    """Return what ``--baseline`` takes."""
    from gpuplan.planner.baselines import ALL
    from gpuplan.planner.registry import BASELINES

    return (*BASELINES, ALL)


def speedups() -> Iterable[str]:
    """Return what ``--speedup`` takes without a file."""
    from gpuplan.planner.speedup.registry import example_speedups

    return example_speedups()


def log_formats() -> Iterable[str]:
    """Return what ``ingest --source-format`` takes."""
    from gpuplan.analysis.log_formats.registry import FORMATS

    return FORMATS.names()


def price_formats() -> Iterable[str]:
    """Return what ``prices --source-format`` takes."""
    from gpuplan.analysis.price_formats.registry import PRICE_FORMATS

    return PRICE_FORMATS.names()


def demand_models() -> Iterable[str]:
    """Return what ``forecast --model`` takes."""
    from gpuplan.analysis.forecast.forecast import AUTO
    from gpuplan.analysis.forecast.models import MODELS

    return (AUTO, *MODELS)


def presets() -> Iterable[str]:
    """Return what ``synth --preset`` takes."""
    from gpuplan.analysis.synth import PRESETS, spot_mix

    return sorted((*PRESETS, spot_mix.NAME))


def names_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names that ``gpuplan list KIND`` shows and that begin as what is typed."""
    kinds: dict[str, tuple[Names, ...]] = {
        "formats": (log_formats, price_formats),
        "policies": (policies,),
        "baselines": (baselines,),
    }
    found = (name for names in kinds.get(str(ctx.params.get("kind")), ()) for name in names())
    return [name for name in dict.fromkeys(found) if name.startswith(incomplete) and name != "all"]
