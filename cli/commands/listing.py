"""``gpuplan list``: what is built in and what installed packages add, with sources and dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.plain import fields_of, plain
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE, SOURCE, STARTUP
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.report import Column, Report, Table, cells_table, table
from gpuplan.cli.options.completion import names_of_kind
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import (
    Output,
    OutputFormat,
    ResultFormat,
    TextFiles,
    command,
)
from gpuplan.cli.results import (
    ListedBaseline,
    ListedFormat,
    ListedMethod,
    ListedPolicy,
    ListedPrice,
    ListedSetting,
    ListedSpeedup,
    ListParameters,
    ListResults,
)
from gpuplan.cli.tables.price_tables import show_price
from gpuplan.planner.requests.settings import show_setting

if TYPE_CHECKING:
    from gpuplan.analysis.plugins import Registry
    from gpuplan.planner.policies.policy import Policy
    from gpuplan.planner.runs.settings import Setting


class ListKind(StrEnum):
    """What can be listed."""

    formats = "formats"
    policies = "policies"
    speedups = "speedups"
    methods = "methods"
    baselines = "baselines"
    providers = "providers"


PACKAGE = {"package": "package"}
"""Field and header of the installed package that adds something; null for what is built in."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is of one kind.

    Attributes:
        rows: under ``results``, of one type; each says all there is about one.
        key: the field of a row that holds its name.
        title: of the short table.
        columns: field -> header of the short table.
        details: returns the tables of the rows of one name.
        overview: the rows of the short table; None where those of ``rows`` are short.
    """

    rows: Sequence[Any]
    key: str
    title: str
    columns: dict[str, str]
    details: Callable[[Sequence[Any]], tuple[Table, ...]]
    overview: Sequence[Any] | None = None

    def short(self) -> Table:
        """Return a table of one line for each; its CSV has the other fields too."""
        rows = self.rows if self.overview is None else self.overview
        scalars = (key for key, value in fields_of(rows[0]).items() if not isinstance(value, tuple))
        hidden = {key: "" for key in scalars if key not in self.columns}
        return table(self.title, rows, {**self.columns, **hidden})

    def named(self, name: str, kind: str) -> Listing:
        """Return the part of one name.

        Raises:
            UsageError: unknown name; the message has the nearest one.
        """
        names = list(dict.fromkeys(str(getattr(row, self.key)) for row in self.rows))
        if name not in names:
            raise UsageError(
                f"no {name!r} among the {kind}{perhaps(name, names)}\n  next: gpuplan list {kind}"
            )
        rows = [row for row in self.rows if getattr(row, self.key) == name]
        return replace(self, rows=rows)


@dataclass(frozen=True, slots=True)
class ProviderOverview:
    """A provider with all its GPUs and kinds of prices in one row."""

    provider: str
    category: str
    gpu_types: str
    kinds: str


def register(app: typer.Typer) -> None:
    """Add ``gpuplan list``."""
    command(app, "list", example="gpuplan list policies fifo")(list_built_in)


def list_built_in(
    kind: Annotated[ListKind, typer.Argument(help="What to list.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show one in detail: the settings of a policy, the prices of a provider, "
            "the source of a format.",
            autocompletion=names_of_kind,
            show_default=False,
        ),
    ] = None,
    output_format: OutputFormat = ResultFormat.table,
    out: TextFiles = None,
) -> None:
    """List formats, policies, speedups, methods and more."""
    output = Output(output_format=output_format, out=out)
    check_output(output, picture=False, rows=False)
    listing = LISTS[kind]()
    tables: tuple[Table, ...] = (listing.short(),)
    if name is not None:
        listing = listing.named(name, kind.value)
        tables = listing.details(listing.rows)
    report = Report(
        command="list",
        results=plain(ListResults(**{kind.value: tuple(listing.rows)})),
        tables=tables,
        parameters=plain(ListParameters(UNSET if name is None else name)),
        notes=() if name else (f"details of one: gpuplan list {kind.value} NAME",),
    )
    emit(report, output)


def _facts(headers: dict[str, str]) -> Callable[[Sequence[Any]], tuple[Table, ...]]:
    """Return what shows rows as tables of one fact per line, under these headers."""

    def details(rows: Sequence[Any]) -> tuple[Table, ...]:
        return tuple(_fact_table(row, headers) for row in rows)

    return details


def _fact_table(row: Any, headers: dict[str, str]) -> Table:
    (title, *columns) = headers
    facts = [(headers[key], value) for key in columns if (value := getattr(row, key)) is not None]
    return cells_table(str(getattr(row, title)), "field value", facts)


def _formats() -> Listing:
    from gpuplan.analysis.ingest.format_registries import FORMAT_REGISTRIES

    rows = [
        ListedFormat(
            name=log_format.name,
            description=log_format.description,
            source=log_format.source,
            command=command_name,
            package=formats.package_of(log_format.name),
        )
        for command_name, formats in FORMAT_REGISTRIES.items()
        for log_format in formats.values()
    ]
    columns = {"name": "name", "command": "for", "description": "what it is"}
    title = (
        "Formats of logs (gpuplan ingest) and prices (gpuplan prices), for --source-format, and of "
        "invoices (gpuplan bill --invoice)"
    )
    facts = {"name": "name", "command": "read by", "description": "what it is", "source": "source"}
    facts |= PACKAGE
    return Listing(rows, "name", title, columns, _facts(facts))


def _policies() -> Listing:
    from gpuplan.planner.registry import POLICIES

    rows = []
    for name, policy in POLICIES.items():
        usual = policy.defaults()
        settings = tuple(
            ListedSetting(
                setting=key,
                about=setting.about,
                kind=setting.kind,
                unit=setting.unit,
                default=usual[key],
                choices=tuple(setting.choices),
                unlimited=setting.unlimited,
            )
            for key, setting in policy.settings.items()
        )
        package = POLICIES.package_of(name)
        rows.append(ListedPolicy(name, policy.about, policy.source, settings, package))
    columns = {"policy": "policy", "about": "what it does"}
    title = "Policies, for --policy"
    details = partial(_policy_details, POLICIES)
    return Listing(rows, "policy", title, columns, details, _policies_in_brief(POLICIES, rows))


def _policies_in_brief(
    policies: Registry[Policy], rows: Sequence[ListedPolicy]
) -> list[ListedPolicy]:
    """Return the rows of a table in which some policies stand with another one."""
    also: dict[str, list[str]] = {}
    for name, policy in policies.items():
        also.setdefault(policy.listed_with, []).append(name)
    shown = [row for row in rows if not policies[row.policy].listed_with]
    return [
        replace(row, about=f"{row.about} (also {', '.join(also[row.policy])})")
        if row.policy in also
        else row
        for row in shown
    ]


def _policy_details(policies: Registry[Policy], rows: Sequence[ListedPolicy]) -> tuple[Table, ...]:
    columns = (
        Column("setting", "--set"),
        *(Column(name, name) for name in ("default", "takes", "about")),
    )
    tables: tuple[Table, ...] = ()
    for row in rows:
        policy = policies[row.policy]
        usual = policy.defaults()
        settings = [
            (key, show_setting(usual[key]), _takes(setting), setting.about)
            for key, setting in policy.settings.items()
        ]
        facts = _fact_table(
            row, {"policy": "", "about": "what it does", "source": "source"} | PACKAGE
        )
        tables += (facts, Table("Settings", columns, settings))
    return tables


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


def _speedups() -> Listing:
    from gpuplan.planner.speedup.registry import list_speedups, package_of_speedup

    rows = [
        ListedSpeedup(
            name=speedup.name,
            description=speedup.description,
            source=speedup.source,
            as_of=speedup.as_of,
            package=package_of_speedup(speedup.name),
        )
        for speedup in list_speedups()
    ]
    facts = {"name": "name", "description": "what it is", "source": "source", "as_of": "as of"}
    facts |= PACKAGE
    columns = {"name": "name", "description": "what it is"}
    return Listing(rows, "name", "Speedups, for --speedup", columns, _facts(facts))


def _methods() -> Listing:
    from gpuplan.planner.frontier.methods.registry import METHODS

    rows = [ListedMethod(name, method.about, method.source) for name, method in METHODS.items()]
    facts = {"name": "name", "about": "what it does", "source": "source"}
    columns = {"name": "name", "about": "what it does"}
    return Listing(rows, "name", "Methods, for gpuplan pareto --method", columns, _facts(facts))


def _baselines() -> Listing:
    from gpuplan.planner.registry import BASELINES, POLICIES

    rows = [
        ListedBaseline(name, POLICIES[name].about, baseline.knob or None, POLICIES[name].source)
        for name, baseline in BASELINES.items()
    ]
    columns = {"name": "name", "about": "what it does"}
    facts = {**columns, "knob": "knob", "source": "source"}
    title = "Baselines, for gpuplan pareto --baseline"
    return Listing(rows, "name", title, columns, _facts(facts))


def _providers() -> Listing:
    rows = [
        ListedPrice(
            provider=price.provider,
            category=price.category,
            gpu_type=price.gpu_type,
            kind=price.kind,
            usd_per_gpu_h=price.typical,
            least_usd_per_gpu_h=price.least,
            most_usd_per_gpu_h=price.most,
            startup_s=STARTUP[price.provider].mean_s if price.is_start_up_tested else None,
            source=SOURCE,
            as_of=f"{AS_OF:%Y-%m-%d}",
        )
        for price in CATALOGUE
    ]
    overview = []
    for name in dict.fromkeys(row.provider for row in rows):
        offers = [row for row in rows if row.provider == name]
        overview.append(
            ProviderOverview(
                provider=name,
                category=offers[0].category,
                gpu_types=", ".join(dict.fromkeys(row.gpu_type for row in offers)),
                kinds=", ".join(dict.fromkeys(row.kind for row in offers)),
            )
        )
    columns = {
        "provider": "provider",
        "category": "category",
        "gpu_types": "GPUs",
        "kinds": "prices",
    }
    title = f"GPU providers, for --prices builtin ({SOURCE}, as of {AS_OF:%Y-%m-%d})"
    return Listing(rows, "provider", title, columns, _provider_details, overview)


def _provider_details(rows: Sequence[ListedPrice]) -> tuple[Table, ...]:
    columns = (
        {"provider": "provider", "category": "category", "gpu_type": "GPU", "kind": "kind"},
        Column("usd_per_gpu_h", "USD/GPU-h", show_price),
        Column("least_usd_per_gpu_h", "min", show_price),
        Column("most_usd_per_gpu_h", "max", show_price),
        Column("startup_s", "start-up (s)", str),
        {"source": "", "as_of": ""},
    )
    title = f"{rows[0].provider} ({rows[0].source}, as of {rows[0].as_of})"
    return (table(title, rows, *columns),)


LISTS: dict[ListKind, Callable[[], Listing]] = {
    ListKind.formats: _formats,
    ListKind.policies: _policies,
    ListKind.speedups: _speedups,
    ListKind.methods: _methods,
    ListKind.baselines: _baselines,
    ListKind.providers: _providers,
}
