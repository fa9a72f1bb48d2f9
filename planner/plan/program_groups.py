"""The groups of bins with which a program begins, and deferred work in groups."""

from __future__ import annotations

import numpy as np

from gpuplan.planner.plan.partition import (
    FIRST_IN_A_ROW,
    BinGroups,
    first_groups,
    groups_in_a_row,
    single_bins,
)
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.plan.deferral import run_deferred

EXACT = 1e-9
"""Relative; the program over groups is done where its true cost is this close to its value."""


def first_partition(program: PlanProgram) -> tuple[BinGroups, ...]:
    """Return the groups to begin with: a few by recorded load, or with deferred work by time."""
    columns = program.columns
    is_base = columns.of_kind("base")
    return tuple(
        groups_in_a_row(columns.bins.count, FIRST_IN_A_ROW)
        if columns.arrived[number, -1] > 0
        else first_groups(columns.pool_gpus[is_base & (columns.type_of == number)].sum(axis=0))
        for number in range(len(columns.types))
    )


def groups_for(program: PlanProgram, groups: tuple[BinGroups, ...]) -> tuple[BinGroups, ...]:
    """Return the groups; those of types with deferred work in a row, and of bins that weigh alike.

    They are single bins where work may go on to bins of another weight.
    """
    columns, weights = program.columns, program.weights
    begins = np.diff(weights, prepend=weights[:1]) != 0
    rows = []
    for number, of_type in enumerate(groups):
        if columns.arrived[number, -1] == 0:
            rows.append(of_type)
        elif not runs_at_once(program, number):
            rows.append(single_bins(columns.bins.count))
        elif of_type.is_in_a_row:
            rows.append(of_type.cut(begins))
        else:
            rows.append(groups_in_a_row(columns.bins.count, FIRST_IN_A_ROW).cut(begins))
    return tuple(rows)


def runs_at_once(program: PlanProgram, number: int) -> bool:
    """Return whether deferred work of a type best runs on idle GPUs as soon as there are any.

    That is so where all that arrived is due before bins of another weight begin.
    """
    columns, weights = program.columns, program.weights
    ends = np.flatnonzero(np.diff(weights))
    arrived, due = columns.arrived[number], columns.due[number]
    return bool((arrived[ends] - due[ends] <= EXACT * arrived[-1]).all())


def run_in_groups(
    arrived: FloatArray, due: FloatArray, idle: FloatArray, groups: BinGroups, done: FloatArray
) -> FloatArray:
    """Return the GPUs on which deferred work runs, by bin, where each group does what it does.

    Args:
        arrived, due, idle: as `run_deferred` has them.
        groups: in a row.
        done: work done at the end of each group.
    """
    done = np.clip(np.maximum.accumulate(done), due[groups.last], arrived[groups.last])
    least = due.copy()
    least[groups.last] = done
    ran: FloatArray = run_deferred(np.minimum(arrived, done[groups.group]), least, idle)
    return ran
