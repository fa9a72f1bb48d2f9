"""Headline, warnings and caveats of ``gpuplan pareto``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted, listed, price_text
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import Precision, show_between, show_duration, show_usd
from gpuplan.cli.tables.pareto_peak import within_peak
from gpuplan.cli.tables.pareto_slower import slower_text
from gpuplan.planner.elastic.class_options import DEFAULT_RESCALE_S
from gpuplan.planner.frontier.model.format_gpus import show_gpus, usd_per_h
from gpuplan.planner.frontier.points import least_mean_jct_s
from gpuplan.planner.frontier.uncertainty.laws import Laws

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.gpu_mix import GpuMix
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.study import FrontierStudy
    from gpuplan.planner.money.price_request import Price
    from gpuplan.planner.speedup.model import SpeedupModel

AVERAGE_NOTE = (
    "a budget is an average over time: the most GPUs rented at once were 1.9 to 35 times it on "
    "real traces, so the cloud or cluster must be able to give that many"
)
SHOWN_OVER = 3
SLOW = 1.5  # times the planned mean completion time
UNUSED = 0.01
"""Share of a budget that may stay unused before the headline says so."""
LONGER = 1.1  # times the horizon


def _on_average(study: FrontierStudy) -> str:
    """Return a note on the meaning of a budget and the excess of the replays."""
    replays = [point.replayed for point in study.points if point.replayed]
    if not replays:
        return AVERAGE_NOTE
    if study.is_mixed:
        averages = replays
        peak, cloud = "what is rented at once peaks", "clouds must be able to give that many GPUs"
    else:
        averages = [r for r in replays if r.replay.peak_over_rented is not None]
        peak = "the GPUs rented at once peak"
        cloud = "cloud or cluster must be able to give that many"
    peaks = [replayed.peak / replayed.plan.used for replayed in averages]
    if study.is_mixed and min(peaks) < 1:
        return AVERAGE_NOTE
    if not peaks:
        return (
            "a budget counts the GPU-hours of all jobs over the hours of their arrivals, here "
            f"{study.workload.horizon_h:,.0f}; replayed, the last job ends after up to "
            f"{max(replayed.run_h for replayed in replays):,.0f} h, so fewer GPUs may be rented at "
            "any time than the budget says"
        )
    low, high = (f"{peak:.1f}" for peak in (min(peaks), max(peaks)))
    between = high if low == high else f"{low} to {high}"
    return (
        f"a budget is an average over time: {peak} at {between} times it in the replay, so the "
        f"{cloud}"
    )


def headline(study: FrontierStudy, contradiction: str = "") -> str:
    """Return the answer: today, the replayed plan with its assumption, and the useful budgets.

    Where there is a ``contradiction`` no plan is named.
    """
    precision = Precision(study.workload.jobs)
    if contradiction:
        return f"{contradiction} {today_text(study.today, precision, study.now_gpus)}"
    parts = (
        today_text(study.today, precision, study.now_gpus),
        (_mix if study.is_mixed else _plan)(study, study.shown, precision),
        slower_text(study, study.shown),
        _useful(study, precision),
    )
    return " ".join(part for part in parts if part)


def _plan(study: FrontierStudy, point: Point, precision: Precision) -> str:
    """Return what the shown plan gives: replayed, if it was, also within today's peak."""
    budget, used = point.plan.budget, point.plan.used
    gpus, unused = precision.gpus_text(budget), ""
    if used < (1 - UNUSED) * budget:
        gpus = precision.gpus_text(used)
        unused = f" (at most {precision.gpus(used)} of {precision.gpus(budget)} are of use)"
    assumed = _assumption(study, point, precision)
    rough = _rough(precision)
    if point.replayed is None:
        return (
            f"Planned{rough}, {gpus} on average{unused} could give "
            f"{precision.duration(point.plan.mean_jct_s)} per job{assumed}."
        )
    replay = point.replayed.replay
    mean_s = study.mean_rescale_s
    restarts = f"{show_duration(mean_s)} per start or resize" if mean_s else "free restarts"
    peak_gpus = f"{replay.peak_gpus:,} GPU{'' if replay.peak_gpus == 1 else 's'}"
    text = (
        f"In replay{rough} with {restarts}, {gpus} {averaged(replay.lasts_h, replay.horizon_h)}"
        f"{unused} {'gives' if gpus == '1 GPU' else 'give'} "
        f"{precision.duration(replay.mean_jct_s)} per job{assumed}, with {peak_gpus} at the peak"
    )
    return f"{text}{within_peak(study, point, precision)}."


def _rough(precision: Precision) -> str:
    return f" ({precision.caution}, so these figures are rough)" if precision.is_rough else ""


def _mix(study: FrontierStudy, point: Point, precision: Precision) -> str:
    """Return what the shown plan over several GPU types gives: replayed, if it was."""
    budget, most = usd_per_h(point.plan.budget), study.frontier.saturation_budget
    if point.plan.budget > (1 + UNUSED) * most:
        budget += f" (of which at most {usd_per_h(most)} is of use)"
    mix = " and ".join(
        f"{precision.gpus(gpus)} {name}" for name, gpus in point.gpus.items() if gpus > 0
    )
    replayed = point.replayed
    if replayed is None:
        planned = precision.duration(point.mean_jct_s)
        return f"Planned{_rough(precision)}, {budget} could give {planned} per job on {mix}."
    peak = " and ".join(f"{jobs.peak_gpus:,} {name}" for name, jobs in replayed.by_type.items())
    scaling = "" if study.speedup.law is None else f" if jobs scale as {study.speedup.name}"
    return (
        f"In replay{_rough(precision)}, {budget} "
        f"{averaged(replayed.run_h, study.workload.horizon_h)} gives "
        f"{precision.duration(replayed.mean_jct_s)} per job{scaling} on {mix} on average, "
        f"{peak} at the peak."
    )


def _assumption(study: FrontierStudy, point: Point, precision: Precision) -> str:
    """Return the assumed speedup, and the range of completion times under other assumptions."""
    laws = next((section for section in study.sections if isinstance(section, Laws)), None)
    if laws is not None:
        is_replayed = point.replayed is not None
        times_s, short = [], []
        for law in laws.laws:
            planned_s = least_mean_jct_s(law.frontier, point.plan.budget)
            jct_s = law.replayed.mean_jct_s if is_replayed else planned_s
            if jct_s is None:
                short.append(law.name)
            else:
                times_s.append(jct_s)
        other = [f"{_from_to(times_s, precision)} under other laws"] if len(times_s) > 1 else []
        other += [f"too few GPUs at {' and '.join(short)}"] if short else []
        more = f" ({', '.join(other)})" if other else ""
        return f" if jobs scale as {study.speedup.name}{more}"
    names = [model.name for model in study.speedup.ends or ()]
    ends = dict(zip(names, point.ends_jct_s, strict=False))
    times_s = [jct_s for jct_s in ends.values() if jct_s is not None]
    if not times_s:
        return ""
    if len(times_s) == len(ends):
        times = f"{_from_to(times_s, precision)} planned between {' and '.join(names)}"
    else:
        lacking = next(name for name, jct_s in ends.items() if jct_s is None)
        kept = next(name for name, jct_s in ends.items() if jct_s is not None)
        times = f"{precision.duration(times_s[0])} planned at {kept}, too few GPUs at {lacking}"
    return f" at {study.speedup.name} ({times})"


def _from_to(times_s: Sequence[float], precision: Precision) -> str:
    return show_between(min(times_s), max(times_s), precision.duration)


def _useful(study: FrontierStudy, precision: Precision) -> str:
    """Return the budgets between which GPUs or dollars buy time."""
    frontier = study.frontier
    if study.is_mixed:
        return (
            f"You need at least {usd_per_h(frontier.min_budget)}; beyond "
            f"{usd_per_h(frontier.saturation_budget)}, more money buys nothing."
        )
    least, most = precision.gpus(frontier.min_budget), precision.gpus(frontier.saturation_budget)
    widest = f"{frontier.widest:g} GPU{'' if frontier.widest == 1 else 's'}"
    ends = zip(study.speedup.ends or (), study.ends, strict=True)
    each = ", ".join(f"{precision.gpus(end.min_budget)} at {model.name}" for model, end in ends)
    return (
        f"You need at least {least} GPU{'' if least == '1' else 's'} on average"
        f"{f' ({each})' if each else ''}; beyond {most}, extra GPUs buy nothing at up to {widest} "
        "per job."
    )


def averaged(lasts_h: float, horizon_h: float) -> str:
    """Return what GPU-hours or dollars an hour of a replay are over, which may outlast arrivals."""
    if lasts_h <= LONGER * horizon_h:
        return "on average"
    return f"counted over the hours of arrivals (the run lasts {lasts_h:,.0f} h)"


def warnings(study: FrontierStudy) -> list[str]:
    """Return what may change the decision, the most important first."""
    return [
        *on_mix(study.mix, study.price),
        *_on_limit(study),
        *on_budgets(study),
        *_on_replays(study),
        *_over(study),
    ]


def caveats(study: FrontierStudy, *, assumed: bool) -> list[str]:
    """Return what else limits the result; ``assumed`` if no speedup was given."""
    texts = [*_on_speeds(study), *on_speedup(study.speedup, assumed=assumed)]
    loads = [end.load_gpus for end in study.ends]
    if loads and max(loads) > 1.001 * min(loads):
        texts.append(
            "the work of a recorded job follows from the GPUs it held, so a better speedup means "
            "that it did more: at small budgets the better one may show the longer JCT"
        )
    if not study.is_mixed and any(p.plan.utilization > 1 + 1e-9 for p in study.points):
        texts.append(
            "an efficiency above 100% is possible: a measured speedup is better than linear at "
            "first, so a GPU does more for a job on several of them than on one"
        )
    texts += on_workload(study.workload)
    if study.is_mixed and study.speedup.law is not None:
        texts.append(f"jobs are assumed to be recorded on {study.recorded_on}")
    texts.append(_on_average(study))
    notes = [note for section in study.sections for note in section.notes]
    return [*texts, *study.notes, *notes, *study.workload.notes]


def _on_speeds(study: FrontierStudy) -> Iterator[str]:
    """Yield the assumptions about GPU types without measurements."""
    speeds = study.speedup.assumed_speeds
    if not (study.is_mixed and speeds):
        return
    first, *other_types = speeds
    faster = " and ".join(f"{speeds[name]:g} times as fast on {name}" for name in other_types)
    yield (
        f"every job is assumed to be {faster} as on {first}, with the same speedup curve "
        f"({study.speedup.name}): jobs differ in what they gain from a type, so give "
        "measurements of it if you can (a CSV with a gpu_type column)"
    )


def on_mix(mix: GpuMix | None, price: Price | None) -> Iterator[str]:
    """Yield a warning where the plan is for one GPU type of several."""
    if mix is None:
        return
    planned, other_types = mix.planned_gpu_type, mix.other_gpu_types
    how = f"planned here as {planned}"
    if price is not None:
        how = f"planned and priced here as {planned}"
        if price.gpu_type is None or not same_gpu(planned, price.gpu_type):
            how = f"planned here as one type at ${price_text(price.usd_per_gpu_h, 3)} per GPU-hour"
    yield (
        f"{mix.other_gpu_h_share:.0%} of the GPU-hours ran on {listed(other_types, 3)}, "
        f"{how}; --gpu {planned} --gpu {other_types[0]}=SPEED plans a mix, "
        f"--where \"gpu_type = '{planned}'\" one type"
    )


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
            f"a start or resize of a job is assumed to take {show_duration(DEFAULT_RESCALE_S)}; a "
            "warm restart takes about 20 s, a cold one 120 s (--rescale), and --rescale 0 makes "
            "restarts free, as the BOA paper does"
        )


def _over(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where the plan without a split costs more than the budget."""
    plans, show = [point.plan for point in study.points], study.frontier.show
    over = [plan for plan in plans if plan.rounded_used > plan.budget * (1 + 1e-9)]
    if over:
        worst = max(over, key=lambda plan: plan.rounded_used / plan.budget)
        yield (
            "to meet --require without splitting a class, the plan may exceed the budget: up to "
            f"{show(worst.rounded_used)} at {show(worst.budget)}"
        )


def _on_limit(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where more GPUs of a type are needed on average than can be rented."""
    most = None if study.cluster is None else study.cluster.max_gpus
    if most is None:
        return
    for name in study.frontier.prices or ("",):
        short = [point for point in study.points if point.gpus[name] > most]
        if short:
            yield (
                f"at most {most:,} {name or 'GPUs'} can be rented, but {len(short)} of "
                f"{len(study.points)} plans use more on average: there the queue grows until the "
                "arrivals end, and the replayed times say little"
            )


def _on_replays(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where a replay takes much longer than its plan."""
    replays = [point.replayed for point in study.points if point.replayed]
    slow = [r for r in replays if r.mean_jct_s > SLOW * r.planned_mean_jct_s]
    if not slow:
        return
    many = f"{len(slow)} of {len(replays)} plans take"
    best = min(replays, key=lambda replayed: replayed.mean_jct_s)
    if study.is_mixed:
        if study.by_request:
            yield (
                f"{many} more than {SLOW:g} times as long in the replay as planned: of the "
                f"requested budgets, {usd_per_h(best.plan.budget)} replays best, at "
                f"{show_duration(best.mean_jct_s)}"
            )
        return
    worst = max(slow, key=lambda replayed: replayed.mean_jct_s / replayed.planned_mean_jct_s)
    limit = study.cluster.max_gpus if study.cluster else None
    why = "delays" if limit is None else f"delays and the limit of {limit:,} GPUs"
    yield (
        f"{many} over {SLOW:g} times as long in the replay as planned, since {why} are not in a "
        f"plan: at {show_gpus(worst.plan.budget)} GPUs {show_duration(worst.mean_jct_s)} for "
        f"{show_duration(worst.planned_mean_jct_s)}; of these budgets "
        f"{show_gpus(best.plan.budget)} GPUs replay best, with {show_duration(best.mean_jct_s)}"
    )


def on_budgets(study: FrontierStudy) -> Iterator[str]:
    """Yield a warning where replays take clearly more than the budget, with one that does not."""
    shown = study.over[: SHOWN_OVER if study.by_request else 1]  # of a sweep the worst is enough
    if shown:
        what = "billed" if study.prices else "GPUs rented"
        more = len(study.over) - len(shown)
        rest = f"; and {counted(more, 'more budget')}" if more else ""
        yield (
            "in replay, plans cost more than their budgets (delays, idle nodes, the last jobs): "
            f"{what} {'; '.join(_exceeded(study, point) for point in shown)}{rest}"
        )


def _exceeded(study: FrontierStudy, point: Point) -> str:
    """Return what is rented or billed for a budget, and the budget to ask for instead."""
    assert point.replayed is not None
    spent, budget, inside = point.replayed.spent, point.plan.budget, point.inside
    keeps = ""
    if study.is_mixed:
        text = f"{usd_per_h(spent)} for {usd_per_h(budget)}"
        keeps = "" if inside is None else f"'${inside:.2f}/h'"
    else:
        keeps = "" if inside is None else f"{show_gpus(inside).replace(',', '')}gpu"
        if study.price is None:
            text = f"{show_gpus(spent)} for {show_gpus(budget)}"
        else:
            billed, requested = map(study.usd_per_month, (spent, budget))
            text = f"{show_usd(billed)} a month for {show_usd(requested)}"
    text += f" ({point.replayed.spent_over_budget - 1:+.0%}"
    if keeps:
        text += f"; --budget {keeps} keeps to it"
    elif study.by_request:
        text += "; no smaller budget keeps to it"
    return f"{text})"
