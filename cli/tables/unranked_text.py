"""Which policies of a comparison are not ranked, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import listed
from gpuplan.planner.policies.quota_settings import has_quotas

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicyComparison, PolicyOutcome

MOST_NAMES = 3


def not_ranked(comparison: PolicyComparison) -> tuple[str, ...]:
    """Return why policies are not ranked, one sentence each; nothing where all are."""
    outcomes, texts = comparison.outcomes, []
    loops = [run for run in outcomes if run.loop]
    for run in loops:
        what = run.loop.partition(";")[0]
        rest = ", so it is not ranked" if len(outcomes) > 1 else ", so its times say little"
        texts.append(f"{run.label} ends in {what}{rest}.")
    if comparison.pooled:
        texts.append(_pooled(outcomes, comparison.pooled))
    if comparison.of_site_size:
        texts.append(_of_site_size(comparison))
    return tuple(texts)


def _pooled(outcomes: Sequence[PolicyOutcome], pooled: Sequence[PolicyOutcome]) -> str:
    """Return that some policies pool GPUs that others keep apart, and how to compare them."""
    kept = next(run for run in outcomes if run.apart)
    gpus = " and ".join(f"{gpus:,} {kind}" for kind, gpus in kept.apart.items())
    kind, of_kind = next(iter(kept.apart.items()))
    names = list(dict.fromkeys(run.name for run in pooled))
    runs = "runs" if len(names) == 1 else "run"
    most = max(run.results.gpus for run in pooled)
    of_site = list(dict.fromkeys(run.name for run in pooled if has_quotas(run.settings)))
    steps = [] if len(kept.apart) == 1 else [f"--where \"gpu_type = '{kind}'\""]
    if len(of_site) < len(names):
        steps.append(f"--gpus {of_kind}")
    without = f"without {_listed(of_site)}" if of_site else ""
    return (
        f"None is called the fastest: {kept.name} keeps jobs to {gpus}, and {_listed(names)} "
        f"{runs} any job on any of {most:,} GPUs, which alone shortens waits. One type at a time: "
        f"{', '.join(filter(None, (' '.join(steps), without)))}."
    )


def _of_site_size(comparison: PolicyComparison) -> str:
    """Return that a size does not apply to policies that have that of a site."""
    runs = {run.name: run.results.gpus for run in comparison.of_site_size}
    names, gpus = (
        _listed(list(runs)),
        listed([f"{gpus:,}" for gpus in dict.fromkeys(runs.values())]),
    )
    lead = "" if comparison.pooled else "None is called the fastest: "
    options = listed(list(comparison.sizes), MOST_NAMES)
    verb = "runs" if len(runs) == 1 else "run"
    same = next(iter(runs.values()))
    return (
        f"{lead}{options} {'does' if len(comparison.sizes) == 1 else 'do'} not apply to {names}, "
        f"which {verb} on the {gpus} GPUs of --site. On equal GPUs: --gpus {same}, or a --site "
        "with other nodes."
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMES:
        return listed(names, MOST_NAMES)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
