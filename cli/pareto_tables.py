"""What people read of ``gpuplan pareto``: the headline, the warnings and the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.cli.report import Column, Shown, Table
from gpuplan.cli.units import show_count, show_duration, show_share, show_usd
from gpuplan.planner.boa.show import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.boa.plan import ClassPlan, Plan
    from gpuplan.planner.boa.study import Study

CLASSES_SHOWN = 15
BUDGETS_SHOWN = 5  # columns of widths
STEPS = {"gpu": "next GPU", "1pct": "+1% of GPUs", "100_usd_month": "next $100 a month"}
AVERAGE_NOTE = (
    "a budget is an average over time: the GPUs rented at once peak at 3 to 5 times it on real "
    "traces, so the cloud or cluster must be able to give that many"
)


def headline(study: Study) -> str:
    """Return the answer in a few sentences: the frontier's ends, its knee and the record."""
    frontier, knee = study.frontier, study.knee
    load, least, most, bend = map(
        show_gpus,
        (frontier.load_gpus, frontier.min_budget, frontier.saturation_budget, knee.budget_gpus),
    )
    widest = f"{frontier.widest:g} GPU{'' if frontier.widest == 1 else 's'}"
    said = f"At {study.speedup.name}, " if study.ends else ""
    ends = "; ".join(
        f"{model.name}: {show_gpus(end.min_budget)}"
        for model, end in zip(study.speedup.ends or (), study.ends, strict=True)
    )
    said += (
        f"{study.workload.jobs:,} jobs keep {load} GPUs busy at one GPU each (mean JCT "
        f"{show_duration(frontier.one_gpu_jct_s)}). No budget under {least} GPUs keeps up"
        f"{f' ({ends})' if ends else ''}, none over {most} gains at up to {widest} a job "
        f"(--max-width); the knee is {bend} GPUs with a mean JCT of "
        f"{show_duration(knee.mean_jct_s)}."
    )
    return f"{said} {_recorded(study)}".rstrip()


def _recorded(study: Study) -> str:
    """Return how the jobs ran as recorded, so that budgets can be held against it."""
    record, found = study.workload.record, study.recorded()
    if record is None or found is None:
        return ""
    waited, best = record.mean_queue_s, found["best_mean_jct_s_at_these_gpus"]
    wait = "" if waited is None else f" after a wait of {show_duration(waited)}"
    if record.queues not in (0, study.workload.jobs):
        wait += f" (known of {record.queues:,})"
    if best is None:
        beside = "too few to keep up here"
    else:
        beside = f"planned, as many could give a mean JCT of {show_duration(best)}"
    return (
        f"As recorded (not replayed) a job ran {show_duration(record.mean_run_s)}{wait}, and all "
        f"held {show_gpus(record.gpus)} GPUs on average; {beside}."
    )


def warnings(study: Study, *, assumed: bool) -> list[str]:
    """Return what a reader must know; ``assumed`` where no speedup was given."""
    found = []
    if assumed:
        found.append(
            f"no --speedup given: {study.speedup.name} is assumed for every job; results depend on "
            "it, so compare a range (--speedup power:0.6..0.9) or give measurements"
        )
    elif study.speedup.law is not None:
        ends = " to ".join(end.name for end in study.speedup.ends or ())
        between = f", in the middle of {ends}," if ends else ""
        found.append(f"the speedup {study.speedup.name}{between} is an assumption about every job")
    loads = [end.load_gpus for end in study.ends]
    if loads and max(loads) > 1.001 * min(loads):
        found.append(
            "the work of a recorded job follows from the GPUs it held, so a better speedup means "
            "that it did more: at small budgets the better one may show the longer JCT"
        )
    if any(point.plan.utilization > 1 + 1e-9 for point in study.points):
        found.append(
            "an efficiency above 100% is no error: a measured speedup is better than linear at "
            "first, so a GPU does more for a job on several of them than on one"
        )
    if study.workload.rescale_origin == "default":
        found.append(
            "starting and resizing a job is taken as free; --rescale 20s charges a warm restart, "
            "120s a cold one"
        )
    return [*found, AVERAGE_NOTE]


def points_table(study: Study) -> Table:
    """Return one row per budget."""
    priced = study.price_usd_per_gpu_h is not None
    weighted = study.frontier.is_weighted
    mean = Column("mean_jct_s", "mean JCT", show_duration)
    columns = [
        Column("budget_gpus", "budget (GPUs)", show_gpus),
        Column("budget_x_load", "x load", lambda x: f"{x:.2f}"),
        *([Column("usd_per_month", "$/month", show_usd)] if priced else []),
    ]
    if any(point.target_jct_s is not None for point in study.points):
        columns.append(Column("target_jct_s", "asked for"))
    if study.ends:  # room for the doubt about the speedup
        low, high = (model.name for model in study.speedup.ends or ())
        columns += [
            Column("mean_jct_s_at_low_end", f"JCT at {low}", show_duration),
            Column("mean_jct_s", f"JCT at {study.speedup.name}", show_duration),
            Column("mean_jct_s_at_high_end", f"JCT at {high}", show_duration),
        ]
    else:
        columns.append(mean)
    if weighted:
        columns.append(Column("weighted_mean_jct_s", "weighted", show_duration))
    if not study.ends:
        columns.append(Column("mean_jct_over_one_gpu", "of 1-GPU JCT", show_share))
        columns.append(Column("used_gpus", "used (GPUs)", show_gpus))
    columns += [
        # With both a weighted mean and a doubt there is room for it in CSV only.
        Column("utilization", "" if weighted and study.ends else "efficiency", show_share),
        Column(f"next_{study.step()}_saves_s", f"{STEPS[study.step()]} saves", show_duration),
        Column("rounded_mean_jct_s", "JCT, no split", show_duration),
    ]
    rows = []
    for point in study.points:
        row = study.row(point)
        for end, jct_s in zip(("low", "high"), point.ends_jct_s, strict=False):
            row[f"mean_jct_s_at_{end}_end"] = Shown(None, "too few") if jct_s is None else jct_s
        target = point.target_jct_s
        asked = "budget" if target is None else f"JCT {show_duration(target)}"
        row["target_jct_s"] = Shown(target, asked)
        rows.append([row[column.key] for column in columns])
    title = "What each budget buys"
    if study.ends:
        title += f"; the columns after the JCTs are at {study.speedup.name}"
    return Table(title, tuple(columns), rows)


def widths_table(study: Study) -> Table:
    """Return the GPUs per job of each class: at each budget of a few, else at one in detail."""
    several = study.by_request and 1 < len(study.points) <= BUDGETS_SHOWN
    plans = [point.plan for point in study.points] if several else [study.shown]
    if several:
        title, columns, rows = _by_budget(study, plans)
    else:
        title, columns, rows = _in_detail(study, study.shown)
    if not all(part.rounded for plan in plans for part in plan.widths):
        title += (
            "; of two widths, each with its share of the jobs, the plan without a split takes the "
            "first"
        )
    if len(study.frontier.classes) > CLASSES_SHOWN:
        title += (
            f" ({CLASSES_SHOWN} of {len(study.frontier.classes)} classes, by load; all in JSON)"
        )
    return Table(title, columns, rows)


Parts = tuple[str, tuple[Column, ...], list[list[Any]]]
CLASS_COLUMNS = (
    Column("job_class", "job class"),
    Column("jobs", "jobs", show_count),
    Column("load_gpus", "load (GPUs)", show_gpus),
)


def _by_budget(study: Study, plans: list[Plan]) -> Parts:
    """Return one row per class and one column per budget."""
    columns = [
        Column(f"widths_{i}", f"at {show_gpus(plan.budget_gpus)}") for i, plan in enumerate(plans)
    ]
    rows: list[list[Any]] = []
    for position, c in enumerate(study.frontier.classes[:CLASSES_SHOWN]):
        cells = []
        for plan in plans:
            stretches = _stretches(plan.classes[position])
            one = len(stretches) == 1
            cells.append("; ".join(text if one else f"{at}: {text}" for at, text in stretches))
        rows.append([c.name, c.jobs, c.load_gpus, *cells])
    title = "GPUs per job at each budget, in GPUs on average"
    if study.has_epochs:
        title += ", as epochs: GPUs"
    return title, (*CLASS_COLUMNS, *columns), rows


def _in_detail(study: Study, plan: Plan) -> Parts:
    """Return one row per class and stretch of epochs with the same widths."""
    at = "the knee" if plan is study.knee else "the budget"
    columns = (
        *CLASS_COLUMNS,
        Column("epochs", "epochs" if study.has_epochs else ""),
        Column("widths", "GPUs per job"),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("gpus", "holds (GPUs)", show_gpus),
    )
    rows: list[list[Any]] = []
    for job_class, its in list(zip(study.frontier.classes, plan.classes, strict=True))[
        :CLASSES_SHOWN
    ]:
        for position, (epochs, text) in enumerate(_stretches(its)):
            whole = [job_class.name, job_class.jobs, job_class.load_gpus]
            totals = [its.time_h * 3600, its.gpus]
            first = position == 0
            rows.append(
                [*(whole if first else ["", None, None]), epochs, text]
                + (totals if first else [None, None])
            )
    return f"GPUs per job at {at}, {show_gpus(plan.budget_gpus)} GPUs on average", columns, rows


def _percent(share: float) -> str:
    """Return a share of a split, which is neither none nor all."""
    if share < 0.001:
        return "<0.1%"
    return show_share(share) if share < 0.999 else ">99.9%"


def _stretches(plan: ClassPlan) -> list[tuple[str, str]]:
    """Return (epochs, widths) of a class as text, epochs of equal widths together, from 1."""
    by_epoch: dict[int, list[str]] = {}
    for part in plan.widths:
        share = "" if part.share == 1 else f" ({_percent(part.share)})"
        by_epoch.setdefault(part.epoch, []).append(f"{part.width:g}{share}")
    stretches: list[tuple[int, int, str]] = []
    for epoch, parts in by_epoch.items():
        text = " or ".join(parts)
        if stretches and stretches[-1][2] == text:
            stretches[-1] = (stretches[-1][0], epoch, text)
        else:
            stretches.append((epoch, epoch, text))
    if len(stretches) == 1:
        return [("all", stretches[0][2])]
    return [
        (f"{first + 1}" if first == last else f"{first + 1}-{last + 1}", text)
        for first, last, text in stretches
    ]
