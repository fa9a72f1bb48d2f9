"""Changes of a site side by side: dollars a month, waits with errors, the cheapest that will do.

The waits of a change are those of the log plus the effect that pairs of replays show: what the
model gets wrong about today is in both replays of a pair and cancels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.runs.recorded_waits import WaitMatch
from gpuplan.planner.site.change_effects import ChangeEffect, GroupEffect, WhatIfResults
from gpuplan.planner.site.effects import SHORTER
from gpuplan.planner.site.fidelity import (
    SITE_RULES,
    Fidelity,
    TodayReplay,
    fidelity_of,
    unknown,
)
from gpuplan.planner.sizing.targets import MEAN, PERCENTILE, WAIT, Target, parse_target
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.twin.site import SiteCluster

MET, MISSED, UNCLEAR = "met", "missed", "unclear"
SAME_USD = 0.005
"""Dollars a month that differ by less than this share are the same."""
NOTHING_STARTS = "no scored job starts in every replay"
NO_TYPE = "gpu"
"""What a site calls GPUs whose type is not known."""


@dataclass(frozen=True, slots=True)
class OptionWaits:
    """The waits of one group under an option, in seconds.

    Attributes:
        name: the group.
        jobs: whose waits count.
        mean_wait_s, p95_wait_s: recorded plus the effect, at least 0.
        effect_s, p95_effect_s: what the option does to them.
        error_s, p95_error_s: of both the effects and these waits.
        verdict, p95_verdict: of the effects.
    """

    name: str
    jobs: int
    mean_wait_s: float
    p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    error_s: float
    p95_error_s: float
    verdict: str
    p95_verdict: str

    @classmethod
    def of(cls, group: GroupEffect) -> OptionWaits:
        """Return the waits of a group of a change."""
        return cls(
            group.name, group.jobs, max(group.recorded_mean_wait_s + group.effect_s, 0.0),
            max(group.recorded_p95_wait_s + group.p95_effect_s, 0.0), group.effect_s,
            group.p95_effect_s, group.error_s, group.p95_error_s, group.verdict, group.p95_verdict,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OptionResult:
    """What one option costs and does.

    Attributes:
        name: the option as given.
        gpus_added: GPUs more than today by type; fewer are negative.
        burst_gpu_h_per_month: GPU-hours on demand in a month of 730.5 hours.
        usd_per_month: dollars more than today; less are negative.
        waits: of all jobs; null where no scored job starts in every replay.
        usd_per_wait_h_saved: dollars per hour that a job waits less; null where it costs nothing
            or waits are not clearly shorter.
        target: ``met``, ``missed``, or ``unclear`` within the error; null without a target.
        never_start: jobs that start today and never with it, by reason.
        groups: the groups of ``by``, by name.
    """

    name: str
    gpus_added: dict[str, int]
    burst_gpu_h_per_month: float
    usd_per_month: float
    waits: OptionWaits | None
    usd_per_wait_h_saved: float | None
    target: str | None
    never_start: dict[str, int]
    groups: tuple[OptionWaits, ...]


@dataclass(frozen=True, slots=True)
class OptionsToday:
    """Waits of today, in seconds.

    Attributes:
        jobs: whose waits count.
        gpus: of the site, by type.
        mean_wait_s, p95_wait_s: recorded.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        target: ``met`` or ``missed``; null without a target.
    """

    jobs: int
    gpus: dict[str, int]
    mean_wait_s: float
    p95_wait_s: float
    replayed_mean_wait_s: float
    replayed_p95_wait_s: float
    target: str | None

    @property
    def fidelity(self) -> Fidelity:
        """How the replay of today compares with the log."""
        match = WaitMatch(
            self.jobs, self.replayed_mean_wait_s, self.mean_wait_s, self.replayed_p95_wait_s,
            self.p95_wait_s,
        )  # fmt: skip
        return fidelity_of(TodayReplay(SITE_RULES, sum(self.gpus.values()), match))


@dataclass(frozen=True, slots=True)
class OptionsResults:
    """Options side by side.

    Attributes:
        level: the rules that are replayed.
        by: what groups are; null without groups.
        targets: what must be met.
        today: the waits of today; null where no scored job starts in every replay.
        options: one entry per option, in their order.
        cheapest: the cheapest option that meets the targets; null where none does for certain, or
            several cost the same.
        tied: the options that share the least cost where there are several.
        maybe: cheaper options, or all where none is certain, too close to the target to tell.
        fidelity: how the replay of today compares with the log; nothing is recommended where it
            contradicts it.
        work: the jobs.
    """

    level: str
    by: str | None
    targets: tuple[str, ...]
    today: OptionsToday | None
    options: tuple[OptionResult, ...]
    cheapest: str | None
    tied: tuple[str, ...]
    maybe: tuple[str, ...]
    fidelity: Fidelity
    work: Hidden[SiteWorkload]


def read_wait_target(text: str) -> Target:
    """Return a target on the mean or the P95 wait, whose errors are known. Raises `UsageError`."""
    target = parse_target(text)
    is_known = target.statistic == MEAN or (target.statistic == PERCENTILE and target.at == 95)
    if target.quantity != WAIT or not is_known:
        raise UsageError(
            f"--target {text!r}: options have errors of mean_wait and p95_wait only; write for "
            "example 'p95_wait <= 6h'"
        )
    return target


def options_of(
    effects: WhatIfResults,
    changes: Sequence[SiteChange],
    document: SiteDocument,
    prices: Prices,
    targets: Sequence[Target],
    by: str | None,
) -> OptionsResults:
    """Return what options cost and do.

    Args:
        effects: of the changes.
        changes: the options.
        document: the site's settings.
        prices: of a GPU-hour, on demand too.
        targets: see `read_wait_target`.
        by: what groups are; None for none.

    Raises:
        UsageError: an option costs money and a GPU type has no price.
    """
    site, work = site_of(document), effects.work
    today = next((_today(change, site, targets) for change in effects.changes if change.groups),
                 None)  # fmt: skip
    options = tuple(
        _option(effect, change, document, work, prices, targets, by is not None)
        for effect, change in zip(effects.changes, changes, strict=True)
    )
    fidelity = unknown(NOTHING_STARTS) if today is None else today.fidelity
    may_speak = fidelity.may_speak
    certain = [option for option in options if option.target == MET] if may_speak else []
    least = min((option.usd_per_month for option in certain), default=float("inf"))
    best = [option for option in certain if _same(option.usd_per_month, least)]
    maybe = [
        option.name
        for option in options
        if may_speak
        and option.target == UNCLEAR
        and not (certain and _reaches(option.usd_per_month, least))
    ]
    return OptionsResults(
        level=effects.level,
        by=by,
        targets=tuple(target.text for target in targets),
        today=today,
        options=options,
        cheapest=best[0].name if len(best) == 1 else None,
        tied=tuple(option.name for option in best) if len(best) > 1 else (),
        maybe=tuple(maybe),
        fidelity=fidelity,
        work=work,
    )


def gpus_by_type(site: SiteCluster) -> dict[str, int]:
    """Return the GPUs of a site by type."""
    counts: Counter[str] = Counter()
    for node in site.nodes:
        counts[node.gpu_type] += node.gpus
    return dict(sorted(counts.items()))


def changed_site(document: SiteDocument, change: SiteChange) -> SiteCluster:
    """Return the site with a change. Raises `UsageError`."""
    changed = deepcopy(document)
    if change.document is not None:
        change.document(changed)
    site = site_of(changed)
    return site if change.site is None else change.site(site)


def burst_gpu_h(
    work: SiteWorkload, elsewhere_gpu_s: FloatArray, site: SiteCluster
) -> dict[str, float]:
    """Return the GPU-hours of jobs that ran elsewhere, by GPU type.

    A job that names no type has the most common one of its partition.
    """
    jobs, size = work.jobs, {node.name: node for node in site.nodes}
    usual = {}
    for partition in site.partitions:
        kinds: Counter[str] = Counter()
        for name in partition.nodes:
            kinds[size[name].gpu_type] += size[name].gpus
        usual[partition.name] = kinds.most_common(1)[0][0] if kinds else NO_TYPE
    hours: dict[str, float] = {}
    for i in np.flatnonzero(elsewhere_gpu_s):
        kind = jobs.gpu_types[jobs.gpu_type[i]] or usual[jobs.partitions[jobs.partition[i]]]
        hours[kind] = hours.get(kind, 0.0) + float(elsewhere_gpu_s[i]) / HOUR_S
    return dict(sorted(hours.items()))


def _option(
    effect: ChangeEffect,
    change: SiteChange,
    document: SiteDocument,
    work: SiteWorkload,
    prices: Prices,
    targets: Sequence[Target],
    has_groups: bool,
) -> OptionResult:
    cost, months = change_cost(effect, change, document, work, prices), _months(work)
    usd = cost.usd_per_month
    waits = OptionWaits.of(effect.groups[0]) if effect.groups else None
    saved_h = 0.0
    if waits is not None and waits.verdict == SHORTER and months:
        saved_h = -waits.effect_s / HOUR_S * waits.jobs / months
    return OptionResult(
        name=effect.name,
        gpus_added=cost.gpus_added,
        burst_gpu_h_per_month=cost.burst_gpu_h_per_month,
        usd_per_month=usd,
        waits=waits,
        usd_per_wait_h_saved=usd / saved_h if saved_h > 0 and usd > 0 else None,
        target=target_verdict(waits, targets) if targets else None,
        never_start=effect.rejected,
        groups=tuple(map(OptionWaits.of, effect.groups[1:])) if has_groups else (),
    )


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """What a change costs more than today.

    Attributes:
        gpus_added: by GPU type; fewer are negative.
        burst_gpu_h_per_month: GPU-hours elsewhere.
        usd_per_month: of both.
    """

    gpus_added: dict[str, int]
    burst_gpu_h_per_month: float
    usd_per_month: float


def change_cost(
    effect: ChangeEffect,
    change: SiteChange,
    document: SiteDocument,
    work: SiteWorkload,
    prices: Prices,
) -> ChangeCost:
    """Return what a change costs; raises `UsageError` where a GPU type has no price."""
    site = site_of(document)
    before, after = gpus_by_type(site), gpus_by_type(changed_site(document, change))
    added = {
        kind: gpus
        for kind in {**before, **after}
        if (gpus := after.get(kind, 0) - before.get(kind, 0))
    }
    months = _months(work)
    burst = burst_gpu_h(work, effect.elsewhere_gpu_s, site)
    per_month = {kind: hours / months for kind, hours in burst.items()} if months else {}
    prices.check([None if kind == NO_TYPE else kind for kind in {**added, **per_month}])
    usd = sum((_usd(prices, kind) * gpus * MONTH_H for kind, gpus in added.items()), 0.0)
    usd += sum(_usd(prices, kind) * hours for kind, hours in per_month.items())
    return ChangeCost(added, sum(per_month.values()), usd)


def _months(work: SiteWorkload) -> float:
    """Return the months of 730.5 hours in which the scored jobs were submitted."""
    submit = work.jobs.submit
    return max(int(submit.max()) - work.warmup_until, 0) / HOUR_S / MONTH_H if submit.size else 0.0


def _usd(prices: Prices, kind: str) -> float:
    """Return the dollars of a GPU-hour of a type. Raises `UsageError` where nothing gives them."""
    return prices.of(None if kind == NO_TYPE else kind).usd_per_gpu_h


def _today(change: ChangeEffect, site: SiteCluster, targets: Sequence[Target]) -> OptionsToday:
    whole = change.groups[0]
    figures = {MEAN: whole.recorded_mean_wait_s, PERCENTILE: whole.recorded_p95_wait_s}
    target = None
    if targets:
        is_met = all(target.is_met(figures[target.statistic]) for target in targets)
        target = MET if is_met else MISSED
    return OptionsToday(
        jobs=whole.jobs,
        gpus=gpus_by_type(site),
        mean_wait_s=whole.recorded_mean_wait_s,
        p95_wait_s=whole.recorded_p95_wait_s,
        replayed_mean_wait_s=whole.replayed_mean_wait_s,
        replayed_p95_wait_s=whole.replayed_p95_wait_s,
        target=target,
    )


def target_verdict(waits: OptionWaits | None, targets: Sequence[Target]) -> str:
    """Return whether waits meet all targets within their errors."""
    if waits is None:
        return UNCLEAR
    figures: Mapping[str, tuple[float, float]] = {
        MEAN: (waits.mean_wait_s, waits.error_s),
        PERCENTILE: (waits.p95_wait_s, waits.p95_error_s),
    }
    pairs = [(figures[target.statistic], target) for target in targets]
    if all(target.is_met(value + error) for (value, error), target in pairs):
        return MET
    if any(not target.is_met(value - error) for (value, error), target in pairs):
        return MISSED
    return UNCLEAR


def _reaches(usd: float, other: float) -> bool:
    return usd >= other or _same(usd, other)


def _same(usd: float, other: float) -> bool:
    return abs(usd - other) <= SAME_USD * max(abs(usd), abs(other))
