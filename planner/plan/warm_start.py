"""Where a program begins: groups of bins, and the basis of a program much like it.

Groups differ between programs, so a basis is kept by what its columns and rows mean. A group takes
what the older group of its first bin had, and HiGHS mends what is no basis then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """Columns or rows of a program that follow each other and mean the same.

    Attributes:
        name: what they are, and of which type, class or bound.
        first: the first of them.
        size: how many.
    """

    name: tuple[str, int]
    first: int
    size: int

    @property
    def places(self) -> slice:
        """Where they are."""
        return slice(self.first, self.first + self.size)


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """Where a program begins.

    Attributes:
        groups: of the bins of each GPU type.
        columns, rows: name of a part -> where each of it was in an older basis; none without one.
    """

    groups: tuple[BinGroups, ...]
    columns: Mapping[tuple[str, int], IntArray] = field(default_factory=dict)
    rows: Mapping[tuple[str, int], IntArray] = field(default_factory=dict)

    @property
    def has_basis(self) -> bool:
        """Whether there is a basis."""
        return bool(self.rows)

    def basis(
        self,
        groups: tuple[BinGroups, ...],
        columns: Sequence[ProgramPart],
        rows: Sequence[ProgramPart],
    ) -> SimplexBasis:
        """Return it as one of a program with these parts, over other groups."""
        column = np.full(_size(columns), AT_LOWER)
        row = np.full(_size(rows), BASIC)
        older = [old.group[new.firsts] for old, new in zip(self.groups, groups, strict=True)]
        for parts, values, before in ((columns, column, self.columns), (rows, row, self.rows)):
            for part in parts:
                was = before.get(part.name)
                kind, number = part.name
                if was is not None and kind in (GPUS, RENTED, WORK, DONE):
                    was = was[older[number]]
                if was is not None and was.size == part.size:
                    values[part.places] = was
        column_of = {part.name: part for part in columns}
        row_of = {part.name: part for part in rows}
        for row_kind, column_kind in PAIRS:
            for number, of_type in enumerate(older):
                rows_there = row_of.get((row_kind, number))
                columns_there = column_of.get((column_kind, number))
                if rows_there is None or columns_there is None:
                    continue
                is_new = np.ones(of_type.size, bool)
                is_new[np.unique(of_type, return_index=True)[1]] = False
                neither = (row[rows_there.places] != BASIC) & (
                    column[columns_there.places] != BASIC
                )
                row[rows_there.places][neither & is_new] = BASIC
        return SimplexBasis(column, row)


def start_of(
    groups: tuple[BinGroups, ...],
    columns: Sequence[ProgramPart],
    rows: Sequence[ProgramPart],
    basis: SimplexBasis,
) -> ProgramStart:
    """Return a start at the basis of a program with these parts."""
    return ProgramStart(
        groups,
        {part.name: basis.column[part.places] for part in columns},
        {part.name: basis.row[part.places] for part in rows},
    )


def _size(parts: Sequence[ProgramPart]) -> int:
    return max((part.first + part.size for part in parts), default=0)
