"""``gpuplan list``: what is built in, with sources and dates."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from gpuplan.cli.emit import check_output, emit
from gpuplan.cli.options import Output, command
from gpuplan.cli.report import Column, Report, Table


class Kind(StrEnum):
    """What can be listed."""

    formats = "formats"
    policies = "policies"
    speedups = "speedups"
    providers = "providers"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan list``."""
    command(app, "list", example="gpuplan list formats")(list_built_in)


def list_built_in(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
    output: Output,
) -> None:
    """List the log formats, policies, speedups or GPU providers that are built in."""
    check_output(output, picture=False, rows=False)
    results, tables = LISTS[kind]()
    emit(Report(command="list", results={kind.value: results}, tables=tables), output)


Listed = tuple[list[dict[str, Any]], tuple[Table, ...]]
"""What stands under ``results``, and the tables people read."""


def _listed(title: str, columns: dict[str, str], rows: list[tuple[Any, ...]]) -> Listed:
    table = _table(title, columns, rows)
    return [dict(zip(columns, row, strict=True)) for row in rows], (table,)


def _table(title: str, columns: dict[str, str], rows: list[tuple[Any, ...]]) -> Table:
    return Table(title, tuple(Column(key, header) for key, header in columns.items()), rows)


def _formats() -> Listed:
    from gpuplan.analysis.ingest.registry import FORMATS

    return _listed(
        "Log formats, for gpuplan ingest --source-format",
        {"name": "name", "description": "what it is", "source": "where it comes from"},
        [(known.name, known.description, known.source) for known in FORMATS],
    )


def _policies() -> Listed:
    from gpuplan.planner.policies import POLICIES

    results, tables = _listed(
        "Policies, for gpuplan simulate --policy",
        {"policy": "policy", "about": "what it does", "source": "source"},
        [(name, policy.about, policy.source) for name, policy in POLICIES.items()],
    )
    for row, (name, policy) in zip(results, POLICIES.items(), strict=True):
        row["settings"], own = _listed(
            f"What --set changes for {name}",
            {"setting": "--set", "about": "what it is"},
            [(key, setting.about) for key, setting in policy.settings.items()],
        )
        tables += own
    return results, tables


def _speedups() -> Listed:
    from gpuplan.planner.speedup.registry import list_speedups

    return _listed(
        "Speedups, for gpuplan pareto --speedup",
        {"name": "name", "description": "what it is", "source": "source", "as_of": "as of"},
        [(one.name, one.description, one.source, one.as_of) for one in list_speedups()],
    )


def _providers() -> Listed:
    from gpuplan.planner.allpass.providers import PROVIDERS

    return _listed(
        "GPU providers, the defaults of gpuplan simulate and sweep; change them with --set",
        {
            "provider": "provider",
            "kind": "kind",
            "gpu_type": "GPU",
            "usd_per_gpu_h": "USD per GPU-hour",
            "startup_s": "start-up (s)",
            "source": "source",
            "as_of": "as of",
        },
        [one.row() for one in PROVIDERS],
    )


LISTS: dict[Kind, Callable[[], Listed]] = {
    Kind.formats: _formats,
    Kind.policies: _policies,
    Kind.speedups: _speedups,
    Kind.providers: _providers,
}
