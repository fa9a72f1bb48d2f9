"""The one sentence that opens a document: what its studies advise, in plain words.

It is made of the numbers of the studies' JSON, so a reader finds each of them in its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuplan.cli.documents.study import Document, StudyResult
from gpuplan.cli.formats.units import show_duration, show_number, show_threshold, show_usd

Results = Mapping[str, Any]
NOTHING_GAINED = 0.99
"""A mean completion time above this share of the one with a GPU a job is no gain to speak of."""


def verdict_of(document: Document) -> str:
    """Return what the first study of each kind advises; empty where none advises anything."""
    clauses = [CLAUSES[study.command](study.results) for study in advisers_of(document)]
    if not clauses:
        return ""
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


def advisers_of(document: Document) -> list[StudyResult]:
    """Return the studies that the verdict is made of, in the order of their advice."""
    found = []
    for command, clause in CLAUSES.items():
        studies = (study for study in document.studies if study.command == command)
        found += [study for study in studies if clause(study.results)][:1]
    return found


def _pareto(results: Results) -> str:
    """Return the budget at the knee, and what it buys against one GPU a job."""
    knee = results.get("knee")
    if knee is None:
        return ""
    if "budget_usd_per_h" in knee:  # several GPU types
        budget, money = f"about {_dollars(knee['budget_usd_per_h'])} an hour", ""
    else:
        gpus = show_number(knee["budget_gpus"])
        budget = f"about {gpus} {'GPU' if gpus == '1' else 'GPUs'}"
        month = knee.get("usd_per_month")
        money = "" if month is None else f" ({_dollars(month)} a month)"
    mean, alone = knee["mean_jct_s"], results.get("one_gpu_mean_jct_s")
    if alone is None:
        effect = f"jobs then take {show_duration(mean)} on average"
    elif mean > NOTHING_GAINED * alone:
        effect = f"jobs take {show_duration(mean)} on average, and more GPUs gain little"
    else:
        effect = (
            f"jobs then take {show_duration(mean)} on average instead of "
            f"{show_duration(alone)} on one GPU each"
        )
    return f"plan for {budget}{money}: {effect}"


def _sweep(results: Results) -> str:
    """Return where to run jobs, what that costs and how much less than serverless alone."""
    best = results.get("recommended")
    if best is None:
        return ""
    cost, threshold = _dollars(best["cost_usd"]), best["threshold_s"]
    if best["policy"] == "serverless_only" or (best["policy"] == "fixed" and threshold is None):
        return f"running everything serverless, for {cost}, is the best of what was tried"
    when = "at an adaptive threshold"
    if best["policy"] == "fixed":
        when = f"after {show_threshold(threshold)}" if threshold > 0 else "at once"
    workers = best["capacity"]
    limit = "" if workers is None else f", {workers:,} at most,"
    share = best["saving_share"]
    less = ""
    if share is not None:
        less = f", {abs(share):.0%} {'less' if share >= 0 else 'more'} than everything serverless"
    return f"moving jobs from serverless to rented GPUs{limit} {when} costs {cost}{less}"


def _compare(results: Results) -> str:
    """Return the cheapest and the quickest policy, with what each costs and how long jobs take."""
    by_label = {one["label"]: one for one in results.get("policies", ())}
    if len(by_label) < 2:
        return ""
    cheapest, quickest = by_label[results["cheapest"]], by_label[results["fastest"]]
    of = f"of {len(by_label)} policies"
    if cheapest is quickest:
        return f"{of} {cheapest['label']} is the cheapest and the quickest ({_deal(cheapest)})"
    return (
        f"{of} {cheapest['label']} is the cheapest ({_deal(cheapest)}) and "
        f"{quickest['label']} the quickest ({_deal(quickest)})"
    )


def _simulate(results: Results) -> str:
    """Return what the policy costs and how long jobs take."""
    return f"{results['policy']} gives {_deal(results)}" if "policy" in results else ""


def _bill(results: Results) -> str:
    """Return what the log costs a month, and how much of it is idle."""
    idle, share = results.get("idle_usd_per_month"), results.get("idle_share")
    of_idle = "" if not idle or share is None else f", {share:.0%} of it idle"
    return f"the jobs of the log cost {_dollars(results['usd_per_month'])} a month{of_idle}"


def _size(results: Results) -> str:
    """Return how many GPUs the jobs need, or how many to commit to."""
    gpus, plan = results.get("gpus"), results.get("commitment")
    if gpus is not None:
        names = " and ".join(one["name"] for one in results["targets"])
        usd = _dollars(results["usd_per_month"])
        return f"{gpus:,} GPUs under {results['policy']} meet {names}, for {usd} a month"
    if plan is None:
        return ""
    usd = _dollars(plan["usd_per_month"])
    committed = f"{plan['committed_gpus']:,} GPUs"
    return f"committing to {committed}, with the rest on demand, costs {usd} a month"


def _dollars(value: float) -> str:
    """Return dollars, whole from 100 on: cents would hide the answer."""
    return f"${value:,.0f}" if value >= 100 else show_usd(value)


def _deal(results: Results) -> str:
    return f"{_dollars(results['cost_usd'])} in all, {show_duration(results['mean_jct_s'])} a job"


CLAUSES: dict[str, Callable[[Results], str]] = {
    "pareto": _pareto,
    "sweep": _sweep,
    "compare": _compare,
    "simulate": _simulate,
    "bill": _bill,
    "size": _size,
}
"""Command -> what it advises, as part of a sentence; empty where it has nothing to advise."""
