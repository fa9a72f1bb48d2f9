"""What opens a document: a row of key figures, one sentence per study, and on a terminal gates.

All of it comes from the answers and the JSON of the studies, so a reader finds each number there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import isclose
from typing import Any, TextIO

from gpuplan.analysis.base.words import counted, joined
from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.documents.todays_figures import (
    KeyFigure,
    Results,
    comparable_today,
    dollars,
    today_of,
    todays_figures,
)
from gpuplan.cli.formats.render import as_text
from gpuplan.cli.formats.report import Column, Report, cells_table, table
from gpuplan.cli.formats.units import show_about_usd, show_duration, show_number, show_share
from gpuplan.planner.speedup.law import ASSUMED_LAW

SENTENCE = re.compile(r"(?<=[.!?])(?<!vs\.) (?=[A-Z$\d])")
ALL = "all"
"""Name of the pool of a log whose GPUs have one type or none."""
USD = re.compile(r"-?\$(?=\d)")
NOT_ASSUMED = re.compile(r"(?:\bassumed |\bbudget of |\d to |--[\w-]+[ =]'?)$")
"""What stands before dollars that need no "assumed": it is said, or they are the user's own."""
RECOMMENDED, OPTION = "Recommended", "Option"
ELSEWHERE = {"spot": "on spot", "serverless": "in containers"}
"""Market beside the pool of a plan -> where its jobs run."""
SAME = 0.005
"""A plan that saves a smaller share is today's bill."""
MOST_TYPES = 3
"""GPU types that a figure names."""
TODAY = "Today:"
"""Begins the sentence of an answer that the key figures say for the whole document."""
QUESTION = "Is the cluster too small?"
"""Waits alone answer nothing: their reasons and this question with its answer belong to them."""
KEPT = re.compile(r": (?:confirmed[;.]|its cost held )|^Today's commitments run on ")
"""Sentences of a plan that a report keeps: whether it held on time that it has not seen, and from
when it can apply."""


def key_figures(document: Document) -> list[KeyFigure]:
    """Return GPUs, wait, run time and bill of today, then what is recommended.

    Where no study may recommend, the options of all follow, each with its cost. Figures that no
    study has are left out.
    """
    today = today_of(document)
    advice = [
        _marked(figure, study)
        for command, advise in ADVICE.items()
        for study in document.studies
        if study.command == command
        if (figure := advise(study.results, comparable_today(study, today))) is not None
    ]
    chosen = [figure for figure in advice if figure.name == RECOMMENDED][:1]
    return [*todays_figures(document, today), *(chosen or advice)]


def _marked(figure: KeyFigure, study: StudyResult) -> KeyFigure:
    """Return a figure whose dollars say that their price is assumed, where it is."""
    return replace(figure, value=marked(figure.value, study), detail=marked(figure.detail, study))


def marked(text: str, study: StudyResult) -> str:
    """Return what a study says, where no price was given with ``assumed`` at all its dollars."""
    today = study.results.get("today")
    is_assumed = isinstance(today, dict) and today.get("price_is_assumed")

    def said(usd: re.Match[str]) -> str:
        is_said = NOT_ASSUMED.search(text[: usd.start()])
        return usd[0] if is_said else f"assumed {usd[0]}"

    return USD.sub(said, text) if is_assumed else text


def verdict_of(study: StudyResult) -> str:
    """Return what a study answers in one sentence; what holds for today opens the document.

    Waits have their reasons and whether the cluster is too small as well, and a plan has what came
    of it on time that it has not seen.
    """
    sentences = SENTENCE.split(" ".join(study.headline.split()))
    not_today = [text for text in sentences if not text.startswith(TODAY)]
    if QUESTION in not_today:
        return " ".join(not_today[: not_today.index(QUESTION) + 2])
    first, *more = not_today or sentences
    return marked(" ".join([first, *filter(KEPT.search, more)]), study)


def verdicts_of(document: Document) -> list[tuple[StudyResult, str]]:
    """Return each study with its sentence, those without one left out."""
    verdicts = [(study, verdict_of(study)) for study in document.studies]
    return [(study, text) for study, text in verdicts if text]


def _advised(results: Results, *, is_alike: bool) -> str:
    """Return whether a study recommends, or names an option.

    It recommends where its cost and service are on the same terms as today's, and its replay of
    today agrees with the log.
    """
    fidelity = results.get("fidelity") or {}
    agrees = fidelity.get("verdict") == "agrees"
    return RECOMMENDED if is_alike and agrees else OPTION


def _month_against_today(month: float, today: Results) -> str:
    """Return dollars a month beside today's bill."""
    now = today.get("usd_per_month")
    return f"{dollars(month)} a month" + ("" if now is None else f" (today {dollars(now)})")


def _pareto(results: Results, today: Results) -> KeyFigure | None:
    """Return the budget at the knee, and what it changes for jobs in the replay.

    Where that is slower than today and costs more, it is a budget that is not, or today's GPUs.
    """
    knee = results.get("knee")
    if not isinstance(knee, dict):
        return None
    speedup = results.get("speedup") or {}
    is_assumed = speedup.get("origin") == ASSUMED_LAW
    name = _advised(results, is_alike=not is_assumed)
    assumption = [f"if jobs scale as {speedup.get('name')}"] if is_assumed else []
    if _is_slower(knee, today) and _costs_more(knee, today):
        better = [
            point
            for point in results.get("points") or ()
            if _is_slower(point, today) is False and _costs_more(point, today) is False
        ]
        if not better:
            detail = (
                "no evaluated budget beats today in both time and cost; the best trade-off of "
                f"them, {_budget(knee)}, takes {show_duration(_jct_s(knee))} per job"
                f"{_instead(today)}"
            )
            return KeyFigure(name, "Keep today's GPUs", ", ".join([detail, *assumption]))
        knee = min(better, key=_jct_s)
    value, replay, mean = _budget(knee), _replay(knee), _jct_s(knee)
    effect = [] if mean is None else [f"{show_duration(mean)} per job{_instead(today)}"]
    if (peak := replay.get("peak_gpus")) is not None:
        effect.append(f"{show_number(peak)} GPUs at peak{_within(knee, today, peak)}")
    effect += _rented(knee)
    month = knee.get("usd_per_month")
    effect += [] if month is None else [_month_against_today(month, today)]
    return KeyFigure(name, value, ", ".join([*effect, *assumption]))


def _budget(point: Results) -> str:
    """Return a budget as the answer of its study names it."""
    if "budget_usd_per_h" in point:  # several GPU types
        return f"{dollars(point['budget_usd_per_h'])} an hour"
    return f"{show_number(point['budget_gpus'])} GPUs on average"


def _rented(point: Results) -> list[str]:
    """Return what a replay rents where that is not the budget: whole nodes, delays, last jobs."""
    replay = _replay(point)
    if "budget_usd_per_h" in point:
        budget, rented = point["budget_usd_per_h"], replay.get("rented_usd_per_h")
        text = "" if rented is None else f"{dollars(rented)} an hour"
    else:
        budget, rented = point["budget_gpus"], replay.get("rented_gpus")
        text = "" if rented is None else show_number(rented)
    is_same = rented is None or isclose(rented, budget, rel_tol=SAME)
    return [] if is_same else [f"{text} rented in the replay"]


def _replay(point: Results) -> Results:
    replay = point.get("replay")
    return replay if isinstance(replay, dict) else {}


def _jct_s(point: Results) -> Any:
    """Return the mean completion time, replayed if it was; None where the plan has none."""
    return _replay(point).get("mean_jct_s", point.get("mean_jct_s"))


def _is_slower(point: Results, today: Results) -> bool | None:
    """Return whether jobs take longer than today; None where one of the two is unknown."""
    mean, now = _jct_s(point), today.get("mean_jct_s")
    return None if mean is None or now is None else mean > now


def _costs_more(point: Results, today: Results) -> bool | None:
    """Return whether a budget costs more than today, in dollars if both have a bill, or in GPUs."""
    bills = point.get("usd_per_month"), today.get("usd_per_month")
    gpus = point.get("budget_gpus"), today.get("mean_gpus")
    for then, now in (bills, gpus):
        if then is not None and now is not None:
            return bool(then > now)
    return None


def _within(knee: Results, today: Results, peak: float) -> str:
    """Return what the budget gives within today's peak, where it needs more."""
    within, limit = knee.get("replay_within_today_peak"), today.get("peak_gpus")
    if not isinstance(within, dict) or limit is None or peak <= limit:
        return ""
    return f" ({show_duration(within['mean_jct_s'])} per job within today's {show_number(limit)})"


def _sweep(results: Results, today: Results) -> KeyFigure | None:
    """Return whether to use serverless GPUs, and what that costs."""
    best, rented = results.get("recommended"), results.get("serverful_only")
    if not isinstance(best, dict):
        return None
    pays = (results.get("verdict") or {}).get("serverless_pays")
    if not pays and rented is not None and rented["cost_usd"] <= best["cost_usd"]:
        best = rented
    month = best.get("usd_per_month")
    cluster = results.get("today_cluster") or {}
    rates = [figures["usd_per_gpu_h"] for figures in (cluster, today) if "usd_per_gpu_h" in figures]
    cost = dollars(best["cost_usd"]) if month is None else _month_against_today(month, today)
    if (
        month is not None and len({round(rate, 6) for rate in rates if rate is not None}) > 1
    ):  # pools, or dates
        cost = f"{dollars(month)} a month at the pay-per-use prices of the end of the log"
    value = "Short jobs on serverless GPUs" if pays else "Rented GPUs"
    detail = f"{cost}, {show_duration(best['mean_jct_s'])} per job"
    return KeyFigure(OPTION, value, detail)


def _size(results: Results, today: Results) -> KeyFigure | None:
    """Return the GPUs that meet the target.

    Their cost is on the same terms as today's where both are of a cluster paid around the clock,
    and no other bill is today's.
    """
    gpus, month = results.get("gpus"), results.get("usd_per_month")
    if gpus is None:
        return None
    now = results.get("today") or {}
    cluster, bill = now.get("cluster_gpus"), today.get("usd_per_month")
    is_alike = cluster is not None
    change = []
    if month is not None and cluster is not None and bill is not None and not _is_billed(results):
        change = [_month_against_today(month, today)]
    elif month is not None:
        is_alike = False
        change = [f"{dollars(month)} a month, busy or not"]
        cluster_usd = now.get("usd_per_month")
        if cluster is not None and cluster_usd is not None and bill is None:
            change[0] += f", against {dollars(cluster_usd)} for today's {show_number(cluster)} GPUs"
        change += [] if bill is None else [f"today's bill is {dollars(bill)}"]
    name = _advised(results, is_alike=is_alike)
    pools = results.get("pools") or []
    if len(pools) == 1 and pools[0]["name"] != ALL:
        return _size_of_pool(pools[0], change, name)
    if today.get("peak_gpus") is not None:
        change.append(f"today's peak is {show_number(today['peak_gpus'])}")
    return KeyFigure(name, f"{show_number(gpus)} GPUs", ", ".join(change))


def _is_billed(results: Results) -> bool:
    """Return whether today's dollars of a size are its bill, and not those of its GPUs."""
    usd = results["today"].get("usd_per_month")
    of_pools = [pool["today"].get("usd_per_month") or 0.0 for pool in results.get("pools") or ()]
    return usd is None or (bool(of_pools) and not isclose(usd, sum(of_pools)))


def _size_of_pool(pool: Results, change: list[str], title: str) -> KeyFigure:
    """Return the GPUs of one type that meet the target, beside today's of this type."""
    name, gpus, now = pool["name"], pool["gpus"], pool["today"]["cluster_gpus"]
    if now is not None:
        change = [f"{name}: {show_number(gpus)} instead of {show_number(now)}", *change]
        change[-1] += " for these, the other GPUs as they are"
    value = f"{show_number(gpus)} {name} GPUs"
    if now is not None:
        value += f" ({gpus - now:+,})"
    return KeyFigure(title, value, ", ".join(change))


def _plan(results: Results, today: Results) -> KeyFigure | None:
    """Return what to commit to, and what the plan costs; nothing where the log contradicts it."""
    if (results.get("fidelity") or {}).get("verdict") == "contradicts":
        return None
    uses = results.get("markets") or ()
    bought = [
        counted(round(use["gpus"]), f"{use['gpu_type']} GPU".strip())
        for use in uses
        if use["name"] == "committed" and use["gpus"]
    ]
    all_gpus = sum(use["mean_gpus"] for use in uses)
    elsewhere = [
        f"{show_share(gpus / all_gpus)} of the GPU-hours {where}"
        for name, where in ELSEWHERE.items()
        if (gpus := sum(use["mean_gpus"] for use in uses if use["name"] == name))
    ]
    now, law = results.get("today") or {}, results.get("assumed_speedup")
    replay, bill = results.get("replay") or results, now.get("usd_per_month")
    month = max(results["usd_per_month"], replay["usd_per_month"])
    is_saved = (results.get("holdout") or {}).get("saved") is not False
    is_same = bill is not None and abs(month - bill) <= SAME * bill
    if is_same and not bought and not elsewhere:
        return None
    is_less = bill is not None and month < (1 - SAME) * bill and not _may_cost_more(results)
    proof = "confirmed" if is_saved or not is_less else "its saving not confirmed"
    time_s = replay["mean_time_s"]
    today_s = "" if bill is None else f" (today {dollars(bill)})"
    if bill is not None and today.get("usd_per_month") is None:
        today_s = f" (today {dollars(bill)} on the same terms, without owned GPUs and past prices)"
    what = [
        f"{dollars(month)} a month{today_s}",
        f"{show_duration(time_s)} per job instead of {show_duration(now['mean_time_s'])}",
        *elsewhere,
        proof if results["confirmed"] else "not confirmed",
        *([] if law is None else [f"if jobs scale as {law}"]),
    ]
    is_assumed = now.get("price_is_assumed") or results.get("losses_are_assumed") or law is not None
    is_alike = bool(results["confirmed"] and is_saved and is_less and not is_assumed)
    is_alike = is_alike and today.get("usd_per_month") is not None
    value = f"Commit to {joined(bought, most=MOST_TYPES) if bought else 'no GPU'}"
    return KeyFigure(_advised(results, is_alike=is_alike), value, ", ".join(what))


def _may_cost_more(results: Results) -> bool:
    """Return whether the saving of a plan is within the range of its resamples."""
    intervals = results.get("intervals") or {}
    shares = (intervals.get("saving_share"), intervals.get("saving_over_on_demand_share"))
    saving = next((share for share in shares if share is not None), None)
    return saving is not None and saving["low"] <= 0


def _whatif(results: Results, _: Results) -> KeyFigure | None:
    """Return the effect of the first change on waits, with its error."""
    changes: list[Any] = results.get("changes") or []
    if not changes or not changes[0]["groups"]:
        return None
    all_jobs = changes[0]["groups"][0]
    sign = "+" if all_jobs["effect_s"] > 0 else ""
    effect = f"{sign}{show_duration(all_jobs['effect_s'])}"
    error = f"{all_jobs['verdict']}; error {show_duration(all_jobs['error_s'])}"
    return KeyFigure(f"Mean wait with {changes[0]['name']}", effect, error)


def _options(results: Results, _: Results) -> KeyFigure | None:
    """Return the cheapest option that meets the targets."""
    options = {option["name"]: option for option in results.get("options") or []}
    best = options.get(results.get("cheapest") or "")
    if best is None:
        return None
    usd, wait = best["usd_per_month"], best["waits"]
    detail = f"{show_about_usd(usd)} a month more, P95 wait {show_duration(wait['p95_wait_s'])}"
    return KeyFigure(f"Cheapest for {' and '.join(results['targets'])}", best["name"], detail)


ADVICE: dict[str, Callable[[Results, Results], KeyFigure | None]] = {
    "plan": _plan,
    "size": _size,
    "options": _options,
    "whatif": _whatif,
    "pareto": _pareto,
    "sweep": _sweep,
}
"""Command -> what it recommends, or which option it has; the first recommendation counts."""


def _instead(today: Results) -> str:
    mean = today.get("mean_jct_s")
    return "" if mean is None else f" instead of {show_duration(mean)}"


def opening(document: Document, stream: TextIO) -> str:
    """Return what opens the document, as wide as ``stream`` where it is a terminal."""
    tables = []
    if figures := key_figures(document):
        detail = Column("detail", "detail", read=lambda figure: figure.detail or None)
        headers = {"name": "today and what to do", "value": "value"}
        tables.append(table(document.title, figures, headers, detail))
    answers = [(study.name, text) for study, text in verdicts_of(document)]
    tables.append(cells_table("Answers" if figures else document.title, "study answer", answers))
    if document.gates:
        gates = [(gate.condition, words, gate.detail) for gate, words in view.gates_of(document)]
        tables.append(cells_table("Gates", "gate result found", gates))
    return as_text(
        Report(
            command="report",
            results={},
            tables=tuple(tables),
            headline=view.gates_verdict_of(document),
        ),
        stream,
    )
