"""``gpuplan list``: what is built in, with sources and dates."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import (
    Output,
    OutputFormat,
    ResultFormat,
    TextFiles,
    command,
)

if TYPE_CHECKING:
    from gpuplan.planner.runs.settings import Setting


class ListKind(StrEnum):
    """What can be listed."""

    formats = "formats"
    policies = "policies"
    speedups = "speedups"
    methods = "methods"
    baselines = "baselines"
    providers = "providers"


def register(app: typer.Typer) -> None:
    """Add ``gpuplan list``."""
    command(app, "list", example="gpuplan list formats")(list_built_in)


def list_built_in(
    kind: Annotated[ListKind, typer.Argument(help="What to list.", show_default=False)],
    output_format: OutputFormat = ResultFormat.table,
    out: TextFiles = None,
) -> None:
    """List what is built in: log formats, policies, speedups, methods, baselines, providers."""
    output = Output(output_format=output_format, out=out)
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
    from gpuplan.analysis.log_formats.registry import FORMATS
    from gpuplan.analysis.price_formats.registry import PRICE_FORMATS

    columns = {"name": "name", "description": "what it is", "source": "where it comes from"}
    found: list[dict[str, Any]] = []
    tables: tuple[Table, ...] = ()
    for title, name, formats in (
        ("Log formats, for gpuplan ingest --source-format", "ingest", FORMATS),
        ("Price formats, for gpuplan prices --source-format", "prices", PRICE_FORMATS),
    ):
        rows = [(known.name, known.description, known.source) for known in formats]
        results, own = _listed(title, columns, rows)
        found += [row | {"command": name} for row in results]
        tables += own
    return found, tables


def _policies() -> Listed:
    from gpuplan.cli.options.settings import show_setting
    from gpuplan.planner.registry import POLICIES

    alike: dict[tuple[tuple[Any, ...], ...], list[str]] = {}  # rows of settings -> policies
    results, tables = _listed(
        "Policies, for gpuplan simulate --policy",
        {"policy": "policy", "about": "what it does", "source": "source"},
        [(name, policy.about, policy.source) for name, policy in POLICIES.items()],
    )
    for row, (name, policy) in zip(results, POLICIES.items(), strict=True):
        usual = policy.defaults()
        row["settings"] = [
            {
                "setting": key,
                "about": setting.about,
                "kind": setting.kind,
                "unit": setting.unit,
                "default": usual[key],
                "choices": list(setting.choices),
                "unlimited": setting.unlimited,
            }
            for key, setting in policy.settings.items()
        ]
        rows = tuple(
            (key, show_setting(usual[key]), _takes(setting), setting.about)
            for key, setting in policy.settings.items()
        )
        alike.setdefault(rows, []).append(name)
    columns = {"setting": "--set", "default": "default", "takes": "takes", "about": "about"}
    for rows, names in alike.items():
        tables += (_table(f"What --set changes for {', '.join(names)}", columns, list(rows)),)
    return results, tables


def _takes(setting: Setting) -> str:
    """Return what may be written after the name of a setting."""
    words = {
        "duration": "s, or 5m, 2h",
        "usd": "USD",
        "number": "number",
        "numbers": "numbers, a/b/c",
        "durations": "s, or 5m/2h",
        "count": "whole number",
        "flag": "true or false",
        "text": "a name",
        "cluster": "64, 8x4, x4",
    }
    takes = " or ".join(setting.choices) or words[setting.kind]
    return f"{takes}; none" if setting.unlimited or setting.optional else takes


def _speedups() -> Listed:
    from gpuplan.planner.speedup.registry import list_speedups

    return _listed(
        "Speedups, for gpuplan pareto --speedup",
        {"name": "name", "description": "what it is", "source": "source", "as_of": "as of"},
        [(one.name, one.description, one.source, one.as_of) for one in list_speedups()],
    )


def _methods() -> Listed:
    from gpuplan.planner.frontier.methods.registry import METHODS

    return _listed(
        "Methods, for gpuplan pareto --method",
        {"name": "name", "about": "what it does", "source": "source"},
        [(name, one.about, one.source) for name, one in METHODS.items()],
    )


def _baselines() -> Listed:
    from gpuplan.planner.registry import BASELINES, POLICIES

    return _listed(
        "Baselines, for gpuplan pareto --baseline",
        {"name": "name", "about": "what it does", "knob": "knob", "source": "source"},
        [
            (name, POLICIES[name].about, one.knob or None, POLICIES[name].source)
            for name, one in BASELINES.items()
        ],
    )


def _providers() -> Listed:
    from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE, SOURCE, STARTUP
    from gpuplan.cli.tables.price_tables import show_price

    columns = (
        Column("provider", "provider"),
        Column("category", "category"),
        Column("gpu_type", "GPU"),
        Column("kind", "kind"),
        Column("usd_per_gpu_h", "USD/GPU-h", show_price),
        Column("least_usd_per_gpu_h", "min", show_price),
        Column("most_usd_per_gpu_h", "max", show_price),
        Column("startup_s", "start-up (s)", str),
        Column("source", ""),
        Column("as_of", ""),
    )
    rows = [
        (
            *(one.provider, one.category, one.gpu_type, one.kind),
            *(one.typical, one.least, one.most),
            STARTUP[one.provider].mean_s if one.is_start_up_tested else None,
            *(SOURCE, f"{AS_OF:%Y-%m-%d}"),
        )
        for one in CATALOGUE
    ]
    title = f"GPU providers, for --prices builtin ({SOURCE}, as of {AS_OF:%Y-%m-%d})"
    results = [dict(zip((one.key for one in columns), row, strict=True)) for row in rows]
    return results, (Table(title, columns, rows),)


LISTS: dict[ListKind, Callable[[], Listed]] = {
    ListKind.formats: _formats,
    ListKind.policies: _policies,
    ListKind.speedups: _speedups,
    ListKind.methods: _methods,
    ListKind.baselines: _baselines,
    ListKind.providers: _providers,
}
