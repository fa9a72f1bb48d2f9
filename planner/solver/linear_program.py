"""Linear and integer programs, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Program:
    """Minimize ``cost @ x`` where rows are within their limits; arrays by column or by row.

    Attributes:
        cost, upper: of each column; all columns are at least 0; shape (n,).
        start, row, value: the matrix by column, as in a compressed sparse matrix.
        least, most: limits of each row; shape (r,).
    """

    cost: FloatArray
    upper: FloatArray
    start: IntArray
    row: IntArray
    value: FloatArray
    least: FloatArray
    most: FloatArray


@dataclass(frozen=True, slots=True)
class ProgramSolution:
    """What HiGHS found.

    Attributes:
        x: of each column.
        objective: ``cost @ x``.
        bound: no solution is below it.
        dual: price of each row; empty for an integer program.
        is_optimal: whether it is proven.
    """

    x: FloatArray
    objective: float
    bound: float
    dual: FloatArray
    is_optimal: bool


def solve(
    program: Program,
    *,
    whole: bool = False,
    gap: float = 0.0,
    most_nodes: int | None = None,
) -> ProgramSolution | None:
    """Solve a program; None where no solution was found.

    Args:
        whole: whether the columns are whole numbers.
        gap: the search stops at this distance from the optimum; of a program of whole numbers.
        most_nodes: of the search tree; the best solution so far is then returned.
    """
    import highspy

    statuses = highspy.HighsModelStatus
    enough = (
        *(statuses.kOptimal, statuses.kObjectiveTarget),
        *(statuses.kSolutionLimit, statuses.kTimeLimit),
    )
    lp = highspy.HighsLp()
    columns, rows = program.cost.size, program.least.size
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, np.zeros(columns), program.upper
    lp.row_lower_, lp.row_upper_ = program.least, program.most
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = program.start, program.row
    lp.a_matrix_.value_ = program.value
    if whole:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * columns
    h = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        h.setOptionValue(name, value)
    if whole:
        h.setOptionValue("mip_rel_gap", 0.0)
        h.setOptionValue("mip_abs_gap", max(gap, 1e-9))
        if most_nodes is not None:
            h.setOptionValue("mip_max_nodes", most_nodes)
    else:
        h.setOptionValue("presolve", "off")
    h.passModel(lp)
    h.run()
    info, status = h.getInfo(), h.getModelStatus()
    if status not in enough or info.primal_solution_status != 2:
        return None
    solution = h.getSolution()
    return ProgramSolution(
        x=np.array(solution.col_value),
        objective=info.objective_function_value,
        bound=info.mip_dual_bound if whole else info.objective_function_value,
        dual=np.zeros(0) if whole else np.array(solution.row_dual),
        is_optimal=status == statuses.kOptimal,
    )
