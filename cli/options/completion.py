"""What the shell offers as values of options, without importing what has them.

The names are written here again, since a shell waits for them after each press of the key; a test
holds them to the registries.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

POLICIES = (
    *("allpass", "fixed-threshold", "serverless-only", "serverful-only", "hpa"),
    *("fifo", "first-fit", "smallest", "sjf", "srtf", "srsf", "edf"),
    *("las", "2d-las", "gittins", "easy", "conservative"),
    *("recorded", "fixed-width", "equal", "pollux", "pollux-autoscaling"),
)
SPEEDUPS = ("amdahl:0.05", "usl:0.05,0.001", "power:0.8", "profile:t4", "profile:sia")
"""Values of ``--speedup`` that need no file; numbers are examples."""
LOG_FORMATS = (
    *("azure-llm", "canonical", "csv", "dilu", "gavel", "genai", "helios", "kalos", "openb"),
    *("pai", "philly", "seren", "sia", "slurm", "spot-gpu", "swf", "tiresias", "wandb"),
)
PRICE_FORMATS = ("aws", "aws-tsv", "canonical", "prime", "skypilot", "spot-availability", "vast")
BASELINES = ("recorded", "fixed-width", "equal", "pollux", "pollux-autoscaling", "all")
STUDIES = ("characterize", "pareto", "sweep", "compare", "simulate")
FORMS = ("html", "md", "json", "junit", "svg", "png")
PRESETS = ("abc", "helios", "kalos", "philly", "seren", "wandb")


def one_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return what typer asks for the names that begin as what is typed."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return offer


def some_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return what typer asks for one more name of a comma-separated list."""

    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [
            f"{before}{comma}{name}"
            for name in names
            if name.startswith(last) and name not in given
        ]

    return offer


DEFAULT_POLICIES = ("allpass", "serverless-only", "serverful-only", "hpa")
"""The policies that ``compare`` runs where none is named."""


def names_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names that ``gpuplan list KIND`` shows and that begin as what is typed."""
    names = {
        "formats": tuple(dict.fromkeys((*LOG_FORMATS, *PRICE_FORMATS))),
        "policies": POLICIES,
        "baselines": tuple(name for name in BASELINES if name != "all"),
    }
    kind = str(ctx.params.get("kind") or "")
    return [name for name in names.get(kind, ()) if name.startswith(incomplete)]
