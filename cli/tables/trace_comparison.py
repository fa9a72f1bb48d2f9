"""Tables of several traces: a column per trace, and the distances between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_between, show_duration, show_ends, show_number
from gpuplan.cli.tables.characterize_tables import HIDDEN_WHEN_ZERO, STATISTICS, UNIT_SHOW, value_at
from gpuplan.cli.tables.fit_tables import chosen

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
    rows = []
    for name, workload in zip(names, workloads, strict=True):
        assert not isinstance(workload.fits, UnsetType)
        rows.append((name, "durations", chosen(workload.fits.duration_s)))
        rows.append((name, "gaps", chosen(workload.fits.gap_s)))
    columns = (Column("trace", "trace"), Column("what", "of"), Column("model", "best model"))
    return Table("Models of least AIC", columns, rows)


def _two_sample(pairs: Sequence[TwoSample]) -> Table:
    rows = []
    for pair in pairs:
        name, show = QUANTITIES[pair.quantity]
        ratio = pair.median_ratio
        between = ""
        if pair.ratio_ci is not None:
            between = f" ({show_between(*pair.ratio_ci, show_number)})"
        rows.append(
            (
                pair.first,
                pair.second,
                Shown(pair.quantity, name),
                pair.ks,
                _shown(pair.ks_at, show),
                pair.p_value,
                _shown(pair.median_first, show),
                _shown(pair.median_second, show),
                None if ratio is None else Shown(ratio, f"{show_number(ratio)}x{between}"),
            )
        )
    columns = (
        Column("first", "first"),
        Column("second", "second"),
        Column("quantity", "of"),
        Column("ks", "KS", lambda value: f"{value:.3f}"),
        Column("ks_at", "at"),
        Column("p_value", "p", lambda p: f"{p:.2g}" if p >= 1e-4 else "< 0.0001"),
        Column("median_first", "median"),
        Column("median_second", "median of second"),
        Column("median_ratio", "ratio"),
    )
    return Table("How far apart (p as if jobs were independent: too small)", columns, rows)


def _shown(value: float | None, show: Callable[[float], str]) -> Shown | None:
    return None if value is None else Shown(value, show(value))
