"""Where a program begins: groups of bins, and the basis of a program much like it.

Groups differ between programs, so a basis is kept by what its columns and rows mean. A group takes
what the older group of its first bin had, and HiGHS mends what is no basis then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuplan.planner.plan.partition import BinGroups
from gpuplan.planner.solver.linear_program import AT_LOWER, BASIC, SimplexBasis
from gpuplan.simkit.arrays import IntArray

GPUS, RENTED = "gpus", "rented"
"""Rows of the GPUs of groups, and columns of those on demand in them."""
WORK, DONE = "work", "done"
"""Columns of deferred work by group, and the rows that let it only grow."""
PAIRS = ((GPUS, RENTED), (DONE, WORK))
"""Rows with the columns that go by the same groups."""


Part = tuple[str, int]
"""Columns or rows that follow each other and mean the same: what they are, and of which type, class
or bound.
"""
Parts = Mapping[Part, slice]
"""Where the parts of the columns, or of the rows, of a program are, in their order."""


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """Where a program begins.

    Attributes:
        groups: of the bins of each GPU type.
        columns, rows: name of a part -> where each of it was in an older basis; none without one.
    """

    groups: tuple[BinGroups, ...]
    columns: Mapping[Part, IntArray] = field(default_factory=dict)
    rows: Mapping[Part, IntArray] = field(default_factory=dict)

    @property
    def has_basis(self) -> bool:
        """Whether there is a basis."""
        return bool(self.rows)

    def basis(self, groups: tuple[BinGroups, ...], columns: Parts, rows: Parts) -> SimplexBasis:
        """Return it as one of a program with these parts, over other groups."""
        column, row = np.full(_size(columns), AT_LOWER), np.full(_size(rows), BASIC)
        older = [old.group[new.firsts] for old, new in zip(self.groups, groups, strict=True)]
        for parts, values, before in ((columns, column, self.columns), (rows, row, self.rows)):
            for (kind, number), places in parts.items():
                was = before.get((kind, number))
                if was is not None and kind in (GPUS, RENTED, WORK, DONE):
                    was = was[older[number]]
                if was is not None and was.size == places.stop - places.start:
                    values[places] = was
        for row_kind, column_kind in PAIRS:
            for number, of_type in enumerate(older):
                row_places = rows.get((row_kind, number))
                column_places = columns.get((column_kind, number))
                if row_places is None or column_places is None:
                    continue
                is_new = np.ones(of_type.size, bool)
                is_new[np.unique(of_type, return_index=True)[1]] = False
                neither = (row[row_places] != BASIC) & (column[column_places] != BASIC)
                row[row_places][neither & is_new] = BASIC
        return SimplexBasis(column, row)


def start_of(
    groups: tuple[BinGroups, ...], columns: Parts, rows: Parts, basis: SimplexBasis
) -> ProgramStart:
    """Return a start at the basis of a program with these parts."""
    return ProgramStart(
        groups,
        {part: basis.column[places] for part, places in columns.items()},
        {part: basis.row[places] for part, places in rows.items()},
    )


def _size(parts: Parts) -> int:
    return max((places.stop for places in parts.values()), default=0)
