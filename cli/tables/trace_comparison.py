"""Tables of several traces: a column per trace, and the distances between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import show_between, show_duration, show_ends, show_number
from gpuplan.cli.tables.characterize_tables import HIDDEN_WHEN_ZERO, STATISTICS, UNIT_SHOW, value_at
from gpuplan.cli.tables.fit_tables import chosen, show_probability

if TYPE_CHECKING:
    from gpuplan.analysis.characterize import Characterization
    from gpuplan.analysis.characterize.two_sample import TwoSample

QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "duration_s": ("duration", show_duration),
    "gap_s": ("gap", show_duration),
    "num_gpus": ("GPUs", show_number),
}


def comparison_headline(names: Sequence[str], workloads: Sequence[Characterization]) -> str:
    """Return one sentence with the median duration of every trace."""
    parts = [
        f"{show_duration(workload.duration_s.p50)} in {name}"
        for name, workload in zip(names, workloads, strict=True)
        if workload.duration_s.p50 is not None
    ]
    return f"half of the jobs finish within {', '.join(parts)}" if parts else ""


def comparison_tables(
    names: Sequence[str], workloads: Sequence[Characterization], pairs: Sequence[TwoSample]
) -> list[Table]:
    """Return the statistics side by side, the chosen models, and the two-sample statistics."""
    tables = [_side_by_side(names, workloads), _two_sample(pairs)]
    if all(workload.fits is not UNSET for workload in workloads):
        tables.insert(1, _models(names, workloads))
    return tables


def _side_by_side(names: Sequence[str], workloads: Sequence[Characterization]) -> Table:
    results = [plain(workload) for workload in workloads]
    rows = []
    for path, label, unit, _ in STATISTICS:
        values = [value_at(result, path) for result in results]
        if all(value is None for value in values):
            continue
        if path in HIDDEN_WHEN_ZERO and not any(values):
            continue
        cells = (
            None if value is None else Shown(value, _cell(workload, path, unit, value))
            for value, workload in zip(values, workloads, strict=True)
        )
        rows.append((path, label, *cells, unit))
    columns = (
        Column("statistic", ""),
        Column("", "statistic"),
        *(Column(name, name) for name in names),
        Column("unit", ""),
    )
    return Table("The workloads side by side", columns, rows)


def _cell(workload: Characterization, path: str, unit: str, value: float) -> str:
    """Return a statistic, with its interval in brackets where there is one."""
    show = UNIT_SHOW[unit]
    ends = None if isinstance(workload.ci, UnsetType) else workload.ci.statistics.get(path)
    return f"{show(value)} ({show_ends(*ends, show)})" if ends else show(value)


def _models(names: Sequence[str], workloads: Sequence[Characterization]) -> Table:
    rows = [
        (name, what, chosen(fit))
        for name, workload in zip(names, workloads, strict=True)
        if not isinstance(fits := workload.fits, UnsetType)
        for what, fit in (("durations", fits.duration_s), ("gaps", fits.gap_s))
    ]
    columns = (Column("trace", "trace"), Column("what", "of"), Column("model", "best model"))
    return Table("Models of least AIC", columns, rows)


def _two_sample(pairs: Sequence[TwoSample]) -> Table:
    return table(
        "How far apart (p as if jobs were independent: too small)",
        pairs,
        {"first": "first", "second": "second"},
        Column("quantity", "of", lambda quantity: QUANTITIES[quantity][0]),
        Column("ks", "KS", lambda value: f"{value:.3f}"),
        _measured("ks_at", "at"),
        Column("p_value", "p", show_probability),
        _measured("median_first", "median"),
        _measured("median_second", "median of second"),
        Column("median_ratio", "ratio", read=_ratio),
    )


def _measured(name: str, header: str) -> Column:
    """Return a column of values in the unit of each row's quantity."""

    def read(pair: TwoSample) -> Shown | None:
        value = getattr(pair, name)
        return None if value is None else Shown(value, QUANTITIES[pair.quantity][1](value))

    return Column(name, header, read=read)


def _ratio(pair: TwoSample) -> Shown | None:
    if pair.median_ratio is None:
        return None
    ends = f" ({show_between(*pair.ratio_ci, show_number)})" if pair.ratio_ci is not None else ""
    return Shown(pair.median_ratio, f"{show_number(pair.median_ratio)}x{ends}")
