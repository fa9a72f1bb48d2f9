"""The option ``--mark`` of ``gpuplan pareto``, and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.frontier.model.format_gpus import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.frontier.reference_points import Mark, ReferencePoints

COLUMNS = (
    Column("name", "known point"),
    Column("gpus", "GPUs", show_gpus),
    Column("mean_jct_s", "mean JCT", show_duration),
    Column("optimal_mean_jct_s", "optimum at the same GPUs", show_duration),
    Column("optimal_gpus", "GPUs for the same JCT", show_gpus),
)


def parse_reference_points(texts: Sequence[str]) -> list[Mark]:
    """Return the points of ``Pollux=142,2087.8s``.

    Raises:
        UsageError: a text is not such a point, or repeats a name.
    """
    from gpuplan.planner.frontier.reference_points import Mark

    found: dict[str, Mark] = {}
    for text in texts:
        name, _, point = (part.strip() for part in text.rpartition("="))
        gpus, comma, time = (part.strip() for part in point.partition(","))
        try:
            count = float(gpus)
        except ValueError:
            count = 0.0
        if not (name and comma and 0 < count < float("inf")):
            raise UsageError(f"--mark {text!r}: expected NAME=GPUS,JCT such as 'our cluster=64,2h'")
        if name in found:
            raise UsageError(f"--mark: {name!r} is given twice")
        jct_s = parse_duration(time, f"--mark {text!r}: time")
        if not jct_s > 0:
            raise UsageError(f"--mark {text!r}: time: expected more than 0")
        found[name] = Mark(name, count, jct_s)
    return list(found.values())


def reference_point_tables(references: ReferencePoints) -> Iterator[Table]:
    """Yield one row per known point."""
    rows = [[getattr(row, column.key) for column in COLUMNS] for row in references.results()]
    yield Table("Known points (--mark) vs. the planned optimum", COLUMNS, rows)
