"""newTrace at epoch level, rescaling paid for: what each method predicts, and how long it takes.

Needs the workloads and measurements of ../shared/data; ``python -m benchmarks.bench_boa_epochs``
prints the comparison of the methods in full.
"""

from dataclasses import replace
from itertools import pairwise

from benchmarks.bars import Row
from benchmarks.bench_boa import median_s
from benchmarks.t4_workloads import DATA, HORIZON_H, MOST, submissions, t4_workload
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.methods.calculator import WidthCalculator
from gpuplan.planner.frontier.methods.convex import solve_convex
from gpuplan.planner.frontier.model.exact import solve_frontier

MULTIPLES = (1.05, 1.1, 1.2, 1.5, 2, 3)


def epoch_classes() -> list[JobClass]:
    """The applications with every measured epoch: the hull of its speedup, calibrated sizes."""
    return list(t4_workload(submissions("newtrace"), HORIZON_H["newtrace"]).classes)


def whole_jobs(classes: list[JobClass]) -> list[JobClass]:
    """The same with one width for a whole job."""
    return [
        replace(
            c,
            work_h=c.work_h.sum(keepdims=True),
            speedup=c.work_h.sum() / (c.work_h[:, None] / c.speedup).sum(axis=0, keepdims=True),
        )
        for c in classes
    ]


def timed(work: str, ours_s: float | None, bar: str) -> Row:
    return {"work": work, "ours_s": ours_s, "bar": bar}


def run() -> list[Row]:
    """Measure, after one warm-up that compiles the kernels."""
    if not DATA.is_dir():
        return [timed("newTrace at epoch level: skipped, no ../shared/data", None, "")]
    classes = epoch_classes()
    epochs = sum(c.work_h.size for c in classes)
    frontier = solve_frontier(classes)
    budget = 1.5 * frontier.load_gpus
    WidthCalculator(classes).at_budget(budget)
    size = f"newTrace, {epochs} epoch-classes x {MOST} widths"
    rows = [
        timed(f"{size}: exact frontier", median_s(lambda: solve_frontier(classes), 9), "<= 100 ms"),
        timed(f"{size}: convex program", median_s(lambda: solve_convex(classes), 5), ""),
        timed(
            f"{size}: Width Calculator, one budget",
            median_s(lambda: WidthCalculator(classes).at_budget(budget), 3),
            "",
        ),
    ]
    return rows


def compare() -> None:
    """Print the mean completion time of each method's plan at some budgets."""
    classes = epoch_classes()
    exact, whole = solve_frontier(classes), solve_frontier(whole_jobs(classes))
    convex, paper = solve_convex(classes), WidthCalculator(classes)
    print(f"Width Calculator: {paper.searched}\n")
    heads = (
        "exact",
        "one width a job",
        "Width Calculator",
        "convex",
        "unaware",
        "its changes a job",
    )
    print(f"| budget | {' | '.join(heads)} | its cost / budget |\n{'|---:' * (len(heads) + 2)}|")
    rate = exact.rate_per_h
    for multiple in MULTIPLES:
        gpus = multiple * exact.load_gpus
        unaware = convex.unaware(gpus)
        rows = [[a.width for a in c.widths if a.rounded] for c in unaware.classes]
        changes = sum(
            c.rate_per_h / rate * sum(a != b for a, b in pairwise(row))
            for c, row in zip(unaware.classes, rows, strict=True)
        )
        cells = [m.at_budget(gpus).mean_jct_s for m in (exact, whole, paper, convex)]
        print(
            f"| {multiple:g}x | {' | '.join(f'{s:,.1f} s' for s in cells)} "
            f"| {unaware.mean_jct_s:,.1f} s | {changes:.1f} | {unaware.used / gpus:.3f} |"
        )


if __name__ == "__main__":
    for row in run():
        print(row)
    if DATA.is_dir():
        compare()
