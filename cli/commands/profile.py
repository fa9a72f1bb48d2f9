"""``gpuplan profile``: batch size and share of the GPU of each model, from measured tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Column, StudyView, Table, picture
from gpuplan.cli.tables.sharing_tables import show_latency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuplan.planner.sharing.profile_search import LoadChoice
    from gpuplan.planner.studies.profile import ProfiledFunction, ProfileResults, Profiles


def show(study: Profiles) -> StudyView:
    """Return the choice for each model as people see it."""
    results = study.results
    services = [
        (model.table, model.service) for model in results.functions if model.service is not None
    ]

    return StudyView(
        headline=_headline(results.functions),
        tables=(_table(results),),
        figure=picture("sharing:draw_profiles", services) if services else None,
        texts={".toml": study.functions_text},
    )


def _headline(profiled: Sequence[ProfiledFunction]) -> str:
    model = profiled[0]
    function, service = model.function, model.service
    if len(profiled) > 1:
        shares = [
            each.function.request if each.for_load is None else each.for_load.gpus
            for each in profiled
        ]
        low, high = (f"{100 * share:g}%" for share in (min(shares), max(shares)))
        between = low if low == high else f"{low} to {high}"
        return f"{len(profiled)} models need {between} of a GPU each."
    if model.for_load is not None:
        return _for_load(function.name, model.for_load)
    if service is None:
        return (
            f"{function.name} trains at 80% of its speed on {100 * function.request:g}% of a GPU, "
            f"and at full speed on {100 * function.limit:g}%."
        )
    gap = 1 - service.te / service.best.te
    best = "the optimum" if gap < 0.005 else f"{100 * gap:.0f}% less per share than the optimum"
    return (
        f"{function.name} needs {100 * function.request:g}% of a GPU at batch {function.batch}: "
        f"{service.throughput:,.0f} items/s, {best}, found in {len(service.path)} trials."
    )


def _for_load(name: str, choice: LoadChoice) -> str:
    share = f"{100 * choice.request:g}% of a GPU"
    needs = (
        share if choice.instances == 1 else f"{choice.instances:,} instances, each with {share},"
    )
    return (
        f"{name} needs {needs} at batch {choice.batch} for {choice.load_rps:g} requests/s: "
        f"{choice.throughput:,.1f} requests/s per instance, "
        f"{show_latency(choice.latency_s)} a batch."
    )


def _percent(share: Any) -> str:
    return f"{100 * share:g}%"


def _served(choice: dict[str, Any]) -> str:
    return f"{choice['instances']:,} x {_percent(choice['request'])}, batch {choice['batch']}"


def _table(results: ProfileResults) -> Table:
    columns: tuple[Column, ...] = (
        Column("name", "model"),
        Column("batch", "batch", str),
        Column("request", "request", _percent),
        Column("limit", "limit", _percent),
        Column("te", "items/s per %", lambda value: f"{value:.2f}"),
        Column("te_best", "best", lambda value: f"{value:.2f}"),
        Column("evaluations", "trials", str),
        Column("moves", "", None),
    )
    rows = plain(results.functions)
    if any(row["for_load"] for row in rows):
        columns += (Column("for_load", f"for {rows[0]['for_load']['load_rps']:g}/s", _served),)
    cells = [[row[column.key] for column in columns] for row in rows]
    return Table("Batch size and share of the GPU", columns, cells)
