"""Linear and integer programs, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Program:
    """Minimize ``cost @ x`` where rows are within their limits; arrays by column or by row.

    Attributes:
        cost, upper: of each column; all columns are at least 0; shape (n,).
        start, row, value: the matrix by column, as in a compressed sparse matrix.
        least, most: limits of each row; shape (r,).
        is_by_row: the matrix is by row, and `row` has the columns.
    """

    cost: FloatArray
    upper: FloatArray
    start: IntArray
    row: IntArray
    value: FloatArray
    least: FloatArray
    most: FloatArray
    is_by_row: bool = False


@dataclass(frozen=True, slots=True)
class SimplexBasis:
    """Where the columns and rows of a vertex are: at a limit, or between (`BASIC`).

    Attributes:
        column: of each column; shape (n,).
        row: of each row; shape (r,).
    """

    column: IntArray
    row: IntArray


AT_LOWER, BASIC, AT_UPPER = 0, 1, 2
"""Numbers of HiGHS in a `SimplexBasis`."""


@dataclass(frozen=True, slots=True)
class ProgramSolution:
    """What HiGHS found.

    Attributes:
        x: of each column.
        objective: ``cost @ x``.
        bound: no solution is below it.
        dual: price of each row; empty for an integer program.
        is_optimal: whether it is proven.
        basis: of the vertex; None for an integer program.
    """

    x: FloatArray
    objective: float
    bound: float
    dual: FloatArray
    is_optimal: bool
    basis: SimplexBasis | None = None


def solve(
    program: Program,
    *,
    is_integer: bool = False,
    gap: float = 0.0,
    most_nodes: int | None = None,
    start: SimplexBasis | None = None,
) -> ProgramSolution | None:
    """Solve a program; None where no solution was found.

    Args:
        is_integer: whether the columns are whole numbers.
        gap: the search stops at this distance from the optimum; of a program of whole numbers.
        most_nodes: of the search tree; the best solution so far is then returned.
        start: a basis to begin with, of a program of as many columns and rows; it need not be one
            of this program, HiGHS mends it.
    """
    import highspy

    statuses = highspy.HighsModelStatus
    enough = (
        *(statuses.kOptimal, statuses.kObjectiveTarget),
        *(statuses.kSolutionLimit, statuses.kTimeLimit),
    )
    columns, rows = program.cost.size, program.least.size
    h = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        h.setOptionValue(name, value)
    if is_integer:
        h.setOptionValue("mip_rel_gap", 0.0)
        h.setOptionValue("mip_abs_gap", max(gap, 1e-9))
        if most_nodes is not None:
            h.setOptionValue("mip_max_nodes", most_nodes)
    else:
        h.setOptionValue("presolve", "off")
    kind = highspy.HighsVarType.kInteger if is_integer else highspy.HighsVarType.kContinuous
    formats = highspy.MatrixFormat
    order = formats.kRowwise if program.is_by_row else formats.kColwise
    h.passModel(
        *(columns, rows, program.value.size),
        *(int(order), int(highspy.ObjSense.kMinimize), 0.0),
        *(program.cost, np.zeros(columns), program.upper, program.least, program.most),
        *(program.start.astype(np.int32), program.row.astype(np.int32), program.value),
        np.full(columns, int(kind), np.int32),
    )
    if start is not None:
        begin = highspy.HighsBasis()
        begin.valid = begin.alien = True
        kinds = list(highspy.HighsBasisStatus.__members__.values())
        begin.col_status = [kinds[at] for at in start.column.tolist()]
        begin.row_status = [kinds[at] for at in start.row.tolist()]
        h.setBasis(begin)
    h.run()
    info, status = h.getInfo(), h.getModelStatus()
    if status not in enough or info.primal_solution_status != 2:
        return None
    solution = h.getSolution()
    basis = None if is_integer else _basis(h.getBasis())
    return ProgramSolution(
        x=np.array(solution.col_value),
        objective=info.objective_function_value,
        bound=info.mip_dual_bound if is_integer else info.objective_function_value,
        dual=np.zeros(0) if is_integer else np.array(solution.row_dual),
        is_optimal=status == statuses.kOptimal,
        basis=basis,
    )


def _basis(basis: Any) -> SimplexBasis:
    column, row = (
        np.fromiter(map(int, statuses), np.int64, len(statuses))
        for statuses in (basis.col_status, basis.row_status)
    )
    return SimplexBasis(column, row)
