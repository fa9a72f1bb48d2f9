"""Headline and warnings of ``gpuplan pareto``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.cli.formats.units import show_duration, show_usd
from gpuplan.planner.frontier.model.format_gpus import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.job_classes import ClassWorkload
    from gpuplan.planner.frontier.model.plan import Plan
    from gpuplan.planner.frontier.replay.renting import RentedCluster
    from gpuplan.planner.frontier.study import FrontierStudy, Point
    from gpuplan.planner.speedup.model import SpeedupModel

AVERAGE_NOTE = (
    "a budget is an average over time: the GPUs rented at once peak at 3 to 5 times it on real "
    "traces, so the cloud or cluster must be able to give that many"
)
SHOWN_OVER = 3
SLOW = 1.5  # times the planned mean completion time
LONGER = 1.05  # times the horizon


def _on_average(study: FrontierStudy) -> str:
    """Return a note on the meaning of a budget and the excess of the replays."""
    tried = [(p.replayed.replay, p.plan.used_gpus) for p in study.points if p.replayed]
    if not tried:
        return AVERAGE_NOTE
    peaks = [r.peak_gpus / gpus for r, gpus in tried if r.peak_over_rented is not None]
    if not peaks:
        return (
            "a budget counts the GPU-hours of all jobs over the hours of their arrivals, here "
            f"{study.workload.horizon_h:,.0f}; replayed, the last job ends after up to "
            f"{max(replay.lasts_h for replay, _ in tried):,.0f} h, so fewer GPUs may be rented at "
            "any time than the budget says"
        )
    low, high = (f"{peak:.1f}" for peak in (min(peaks), max(peaks)))
    between = high if low == high else f"{low} to {high}"
    return (
        f"a budget is an average over time: the GPUs rented at once peak at {between} times it in "
        "the replay, so the cloud or cluster must be able to give that many"
    )


def headline(study: FrontierStudy) -> str:
    """Return the answer in a few sentences: the ends, the knee, its replay and the record."""
    frontier, knee = study.frontier, study.knee.plan
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
    return " ".join(part for part in (said, _replayed(study.knee), _recorded(study)) if part)


def _replayed(knee: Point) -> str:
    """Return how the knee fared in the replay."""
    if knee.replayed is None:
        return ""
    replay = knee.replayed.replay
    return (
        f"Replayed on the trace's own arrivals it gives {show_duration(replay.mean_jct_s)} (95% of "
        f"the jobs within {show_duration(knee.replayed.p95_jct_s)}), and rents "
        f"{show_gpus(replay.rented_gpus)} GPUs "
        f"{averaged(replay.lasts_h, replay.horizon_h)} and {replay.peak_gpus:,} at the peak."
    )


def averaged(lasts_h: float, horizon_h: float) -> str:
    """Return what GPU-hours or dollars an hour of a replay are over, which may outlast arrivals."""
    if lasts_h <= LONGER * horizon_h:
        return "on average"
    return f"counted over the hours of arrivals (the run lasts {lasts_h:,.0f} h)"


def _recorded(study: FrontierStudy) -> str:
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


def warnings(study: FrontierStudy, *, assumed: bool) -> list[str]:
    """Return the warnings; ``assumed`` if no speedup was given."""
    found = [*on_speedup(study.speedup, assumed=assumed)]
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
    plans = [point.plan for point in study.points]
    found += [*on_workload(study.workload), *_over(plans), *_on_limit(plans, study.cluster)]
    found += [*on_budgets(study), *_on_replays(study)]
    found.append(_on_average(study))
    notes = [note for section in study.sections for note in section.notes]
    return [*found, *study.notes, *notes, *study.workload.notes]


def on_speedup(speedup: SpeedupModel, *, assumed: bool) -> Iterator[str]:
    """Yield the assumptions about the speedup."""
    if assumed:
        yield (
            f"no --speedup given: {speedup.name} is assumed for every job; results depend on "
            "it, so compare a range (--speedup power:0.6..0.9) or give measurements"
        )
    elif speedup.law is not None:
        ends = " to ".join(end.name for end in speedup.ends or ())
        between = f", in the middle of {ends}," if ends else ""
        yield f"the speedup {speedup.name}{between} is an assumption about every job"


def on_workload(workload: ClassWorkload) -> Iterator[str]:
    """Yield the assumptions about the jobs."""
    if workload.rescale_origin == "default":
        yield (
            "starting and resizing a job is taken as free; --rescale 20s charges a warm restart, "
            "120s a cold one"
        )


def _over(plans: list[Plan]) -> Iterator[str]:
    """Yield a warning where the plan without a split costs more than the budget."""
    over = [p for p in plans if p.rounded_used_gpus > p.budget_gpus * (1 + 1e-9)]
    if over:
        worst = max(over, key=lambda plan: plan.rounded_used_gpus / plan.budget_gpus)
        yield (
            "where --require binds, the plan without a split takes the quicker path, so that the "
            f"cap holds; it may exceed the budget, at {show_gpus(worst.budget_gpus)} GPUs with "
            f"{show_gpus(worst.rounded_used_gpus)}"
        )


def _on_limit(plans: list[Plan], cluster: RentedCluster | None) -> Iterator[str]:
    """Yield a warning where more GPUs are needed on average than can be rented."""
    if cluster is None or cluster.max_gpus is None:
        return
    short = [plan for plan in plans if plan.used_gpus > cluster.max_gpus]
    if short:
        yield (
            f"at most {cluster.max_gpus:,} GPUs can be rented, but {len(short)} of {len(plans)} "
            "plans use more on average: there the queue grows until the arrivals end, and the "
            "replayed times say little"
        )


def _on_replays(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where a replay takes much longer than its plan."""
    tried = [(point.plan, point.replayed.replay) for point in study.points if point.replayed]
    slow = [(p, r) for p, r in tried if r.mean_jct_s > SLOW * p.mean_jct_s]
    if slow:
        worst, late = max(slow, key=lambda pair: pair[1].mean_jct_s / pair[0].mean_jct_s)
        best, quick = min(tried, key=lambda pair: pair[1].mean_jct_s)
        limit = study.cluster.max_gpus if study.cluster else None
        why = "delays" if limit is None else f"delays and the limit of {limit:,} GPUs"
        yield (
            f"{len(slow)} of {len(tried)} plans take over {SLOW:g} times as long in the replay as "
            f"planned, since {why} are not in a plan: at {show_gpus(worst.budget_gpus)} GPUs "
            f"{show_duration(late.mean_jct_s)} for {show_duration(worst.mean_jct_s)}; of these "
            f"budgets {show_gpus(best.budget_gpus)} GPUs replay best, with "
            f"{show_duration(quick.mean_jct_s)}"
        )


def on_budgets(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where replays take clearly more than the budget, with one that does not."""
    shown = study.over[: SHOWN_OVER if study.by_request else 1]  # of a sweep the worst is enough
    if shown:
        taken = "rented" if study.price is None else "billed"
        more = len(study.over) - len(shown)
        yield (
            f"whole nodes, delays and the end of the last jobs are not in a budget: replayed, "
            f"{taken} are {'; '.join(_taken(study, point) for point in shown)}"
            f"{f'; {more} more budgets are exceeded too' if more else ''}"
        )


def _taken(study: FrontierStudy, point: Point) -> str:
    """Return what is taken for a budget, and the budget to ask for instead."""
    assert point.replayed is not None
    replay, gpus = point.replayed.replay, point.plan.budget_gpus
    if study.price is None:
        said = f"{show_gpus(replay.rented_gpus)} GPUs for {show_gpus(gpus)}"
    else:
        billed, requested = map(study.usd_per_month, (replay.billed_gpus, gpus))
        said = f"{show_usd(billed)} a month for {show_usd(requested)}"
    said += f" ({study.over_budget(point):+.0%}"
    if point.inside is not None:
        said += f"; --budget {show_gpus(point.inside.budget_gpus).replace(',', '')}gpu keeps to it"
    elif study.by_request:
        said += "; no smaller budget keeps to it"
    return f"{said})"
